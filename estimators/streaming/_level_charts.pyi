import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

Ints = NDArray[np.int32]
Sums = NDArray[np.int64]

def slide(
    nodes: Ints,
    x: Ints,
    test: Ints,
    test_head: Ints,
    test_count: Ints,
    test_sum: Sums,
    ref: Ints,
    ref_head: Ints,
    ref_count: Ints,
    ref_sum: Sums,
    held: NDArray[np.uint8],
    least: int,
    clip: int,
) -> None: ...
def differences(
    rows: Ints,
    test_sum: Sums,
    test_count: Ints,
    ref_sum: Sums,
    ref_count: Ints,
    unit: float,
    M: int,
    R: int,
    least: int,
    out: Floats,
) -> None: ...
def standardise(rows: Ints, x: Floats, mean: Floats, spread: Floats, out: Floats) -> None: ...
def contrasts(
    rows: Ints,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    clip: float,
    held: NDArray[np.uint8],
    step: Ints,
    z: Floats,
    out: Floats,
) -> None: ...
def shared(
    rows: Ints,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    self_weight: float,
    held: NDArray[np.uint8],
    own: Floats,
    out: Floats,
) -> None: ...
def squares(rows: Ints, view: Ints, z: Floats, out: Floats) -> None: ...
def join(rows: Ints, values: Floats, middle: Floats, unit: Floats, out: Floats) -> None: ...
