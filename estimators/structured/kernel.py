"""Kernel between parts of inputs: of their descriptors, and where wanted of the nodes they stand at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import check_range
from estimators.core.kernels import KERNELS
from estimators.core.types import Floats

Ids = NDArray[np.int64]
NOBODY = -1  # id of a part that stands at no node: it is the same as no other


@dataclass(frozen=True)
class PartKernel:
    """K(x, x') (1 + identity [same node]): the restriction kernel (Eq. 20) for identity = 0."""

    name: str  # gaussian, laplace; or linear, which has no width
    sigma: float
    identity: float

    def __post_init__(self) -> None:
        if self.name != "linear" and self.name not in KERNELS:
            known = ", ".join(sorted([*KERNELS, "linear"]))
            raise ValueError(f"kernel: unknown name {self.name!r}; known: {known}")
        check_range("sigma", self.sigma, 0.0, open_low=True)
        check_range("identity", self.identity, 0.0)

    def __call__(self, x: Floats, nodes: Ids, x_: Floats, nodes_: Ids) -> Floats:
        """Kernel values (n, m) between parts x (n, D) at ``nodes`` (n,) and others."""
        K: Floats = x @ x_.T if self.name == "linear" else KERNELS[self.name](x, x_, self.sigma)
        if self.identity > 0.0:
            K *= 1.0 + self.identity * ((nodes[:, None] == nodes_[None, :]) & (nodes[:, None] != NOBODY))
        return K


def as_ids(nodes: ArrayLike | None, n: int) -> Ids:
    """Ids (n,) of the nodes that parts stand at; nobody's if absent."""
    ids = np.full(n, NOBODY) if nodes is None else np.asarray(nodes)
    if ids.shape != (n,) or ids.dtype.kind not in "iu":
        raise ValueError(f"nodes: expected {n} whole numbers, got {ids.dtype} of shape {ids.shape}")
    return ids.astype(np.int64)
