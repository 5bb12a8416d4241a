import numpy as np
from numpy.typing import NDArray

from estimators.kernels import Array

def sweep(
    A: Array,
    h: Array,
    theta: Array,
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: Array,
    degree: Array,
    c: float,
    k: float,
    step: Array,
    P: Array,
    exact: bool,
    max_iter: int,
    tol: float,
    work: Array,
) -> tuple[int, float]: ...
