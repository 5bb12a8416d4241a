"""Sums of features over blocks of times: all that a permutation of blocks needs, computed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.core.features import Nystroem
from estimators.core.types import Floats


@dataclass(frozen=True)
class Side:
    """Means of one sample, by permutation."""

    first: Floats  # (P, N, r) mean psi
    second: Floats  # (P, N, r, r) mean psi psi'


@dataclass(frozen=True)
class Split:
    """Both samples, by permutation."""

    ref: Side
    test: Side
    silent: NDArray[np.bool_]  # (P, N) nothing on one side


@dataclass(frozen=True)
class BlockSums:
    """Counts and sums of psi and psi psi' over every block of times, for every node."""

    count: Floats  # (B, N)
    first: Floats  # (B, N, r)
    second: Floats  # (B, N, r (r + 1) / 2), the upper triangle

    @classmethod
    def of(cls, Z: Floats, seen: NDArray[np.bool_], psi: Nystroem, block: int) -> BlockSums:
        """Of samples Z (N, T, d); those not ``seen`` (N, T) count for nothing."""
        n_nodes, T, _ = Z.shape
        rows, columns = np.triu_indices(psi.rank)
        B = T // block
        first, second = np.empty((B, n_nodes, psi.rank)), np.empty((B, n_nodes, len(rows)))
        for v in range(n_nodes):
            features = psi(np.where(seen[v][:, None], Z[v], 0.0)) * seen[v][:, None]
            lots = features.reshape(B, block, psi.rank)
            first[:, v] = lots.sum(axis=1)
            second[:, v] = (lots.transpose(0, 2, 1) @ lots)[:, rows, columns]
        count = seen.T.reshape(B, block, n_nodes).sum(axis=1, dtype=np.float64)
        return cls(count, first, second)

    def split(self, L: Floats) -> Split:
        """Means of both sides under labels L (P, B)."""
        count, first, second = self._added(L)
        whole = self._added(np.ones((1, L.shape[1])))
        test = self._side(count, first, second)
        rest = (whole[0] - count, whole[1] - first, whole[2] - second)
        return Split(self._side(*rest), test, (count == 0.0) | (rest[0] == 0.0))

    def _added(self, L: Floats) -> tuple[Floats, Floats, Floats]:
        def add(x: Floats) -> Floats:
            total: Floats = (L @ x.reshape(len(x), -1)).reshape(len(L), *x.shape[1:])
            return total

        return add(self.count), add(self.first), add(self.second)

    def _side(self, count: Floats, first: Floats, second: Floats) -> Side:
        by = 1.0 / np.maximum(count, 1.0)
        r = first.shape[-1]
        rows, columns = np.triu_indices(r)
        full = np.empty((*second.shape[:-1], r, r))
        full[..., rows, columns] = full[..., columns, rows] = second * by[..., None]
        return Side(first * by[..., None], full)
