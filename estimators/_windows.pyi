import numpy as np
from numpy.typing import NDArray

from estimators.kernels import Array

Ints = NDArray[np.int32]
Singles = NDArray[np.float32]
Shorts = NDArray[np.int16]
Bytes = NDArray[np.uint8]

def factor(
    nodes: Ints,
    G: Ints,
    ref_count: Ints,
    unit: float,
    degree: Array,
    alpha: float,
    c: float,
    k: float,
    slack: float,
    P: Array,
) -> None: ...
def advance(
    nodes: Ints,
    sample: Ints,
    psi: Shorts,
    z: Singles,
    unit: float,
    lengths: Ints,
    ref_psi: Shorts,
    ref_z: Singles,
    ref_head: Ints,
    ref_count: Ints,
    test_psi: Shorts,
    test_z: Singles,
    test_head: Ints,
    test_count: Ints,
    moves: Ints,
    every: int,
    G: Ints,
    m: Ints,
    held: Bytes,
    silent: Bytes,
    P: Array,
    theta: Array,
    indptr: Ints,
    indices: Ints,
    weights: Array,
    degree: Array,
    alpha: float,
    c: float,
    k: float,
    slack: float,
    sweeps: int,
    scores: Array,
    exposure: Array,
    work: Array,
    counts: Ints,
) -> float: ...
