import numpy as np
from numpy.typing import NDArray

from estimators.kernels import Array

Ints = NDArray[np.int32]

def walk(
    rows: Ints, indptr: Ints, indices: Ints, weights: Array, self_weight: float, source: Array, target: Array
) -> None: ...
def largest(rows: Ints, values: Array, mean: Array, spread: Array, skew: Array, out: Array) -> None: ...
def mark(rows: Ints, indptr: Ints, indices: Ints, marked: NDArray[np.uint8]) -> None: ...
