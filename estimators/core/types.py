"""Array types under one name each, for all packages: a name says the element type, a comment the shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]  # where memory or the wire counts; never called Floats
Nodes = NDArray[np.int32]  # numbers of nodes, as compiled code takes them
Indices = NDArray[np.intp]  # rows or places, as numpy gives them
Bools = NDArray[np.bool_]
