import numpy as np
from numpy.typing import NDArray

from estimators.kernels import Array

Ints = NDArray[np.int32]
Singles = NDArray[np.float32]
Bytes = NDArray[np.uint8]

def factor(
    nodes: Ints,
    G: Array,
    ref_count: Ints,
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
    psi: Singles,
    z: Singles,
    lengths: Ints,
    ref_psi: Singles,
    ref_z: Singles,
    ref_head: Ints,
    ref_count: Ints,
    test_psi: Singles,
    test_z: Singles,
    test_head: Ints,
    test_count: Ints,
    moves: Ints,
    every: int,
    G: Array,
    m: Array,
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
) -> float: ...
