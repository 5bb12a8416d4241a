import numpy as np
from numpy.typing import NDArray

from estimators.kernels import Array

Ints = NDArray[np.int32]
Singles = NDArray[np.float32]
Bytes = NDArray[np.uint8]

def slide(
    nodes: Ints,
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
    G: Array,
    m: Array,
    held: Bytes,
) -> None: ...
def factor(
    nodes: Ints, G: Array, ref_count: Ints, degree: Array, alpha: float, c: float, k: float, P: Array
) -> None: ...
def refit(
    nodes: Ints,
    lengths: Ints,
    G: Array,
    m: Array,
    ref_count: Ints,
    n_ref: int,
    test_count: Ints,
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
    sweeps: int,
    work: Array,
) -> float: ...
def score(
    nodes: Ints,
    lengths: Ints,
    G: Array,
    m: Array,
    ref_count: Ints,
    n_ref: int,
    test_count: Ints,
    silent: Bytes,
    theta: Array,
    indptr: Ints,
    indices: Ints,
    weights: Array,
    degree: Array,
    alpha: float,
    out: Array,
    exposure: Array,
    work: Array,
) -> None: ...
