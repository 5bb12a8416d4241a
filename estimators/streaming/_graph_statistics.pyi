import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

Ints = NDArray[np.int32]

def walk(
    rows: Ints,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    self_weight: float,
    source: Floats,
    target: Floats,
) -> None: ...
def largest(rows: Ints, values: Floats, mean: Floats, spread: Floats, skew: Floats, out: Floats) -> None: ...
def mark(rows: Ints, indptr: Ints, indices: Ints, marked: NDArray[np.uint8]) -> None: ...
