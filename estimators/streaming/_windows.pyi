import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats, Floats32

Ints = NDArray[np.int32]
Shorts = NDArray[np.int16]
Bytes = NDArray[np.uint8]

def factor(
    nodes: Ints,
    G: Ints,
    ref_count: Ints,
    unit: float,
    degree: Floats,
    alpha: float,
    c: float,
    k: float,
    slack: float,
    P: Floats,
) -> None: ...
def advance(
    nodes: Ints,
    sample: Ints,
    psi: Shorts,
    z: Floats32,
    unit: float,
    lengths: Ints,
    ref_psi: Shorts,
    ref_z: Floats32,
    ref_head: Ints,
    ref_count: Ints,
    test_psi: Shorts,
    test_z: Floats32,
    test_head: Ints,
    test_count: Ints,
    moves: Ints,
    every: int,
    G: Ints,
    m: Ints,
    held: Bytes,
    silent: Bytes,
    P: Floats,
    theta: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    degree: Floats,
    alpha: float,
    c: float,
    k: float,
    slack: float,
    sweeps: int,
    scores: Floats,
    exposure: Floats,
    work: Floats,
    counts: Ints,
) -> None: ...
