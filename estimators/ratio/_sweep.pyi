import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

def sweep(
    A: Floats,
    h: Floats,
    theta: Floats,
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: Floats,
    degree: Floats,
    c: float,
    k: float,
    step: Floats,
    P: Floats,
    exact: bool,
    max_iter: int,
    tol: float,
    work: Floats,
) -> tuple[int, float]: ...
