"""What is kept over a restart: every part of a pipeline gives named arrays and JSON, and goes on from them.

Nodes may come and go between: ``rows`` (N,) says which of the old nodes each node was, -1 for a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Meta = dict[str, Any]  # as JSON can hold it
Rows = NDArray[np.intp]


class Stateful(Protocol):
    """The state of one part; `restore` on a new part makes it go on bit for bit as the old one does."""

    def state(self) -> tuple[Arrays, Meta]:
        """Copies of plain arrays, and JSON."""

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """Take over a `state`; what it does not have stays as it is in a new part."""


def under(name: str, arrays: Arrays) -> Arrays:
    """``arrays`` as those of the part ``name`` among others."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(name: str, arrays: Arrays) -> Arrays:
    """The arrays that `under` has put there."""
    return {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}


def copies(owner: object, names: Iterable[str]) -> Arrays:
    """Attributes of ``owner`` as arrays of their own."""
    return {name: getattr(owner, name).copy() for name in names}


def take_rows(owner: object, names: Iterable[str], arrays: Arrays, rows: Rows) -> None:
    """Put arrays (N, ...) back into the attributes of the same names, node by node."""
    kept = rows >= 0
    for name in names:
        getattr(owner, name)[kept] = arrays[name][rows[kept]]


def places(rows: Rows, n_old: int) -> NDArray[np.int32]:
    """(n_old,) where each old node is now, -1 if it is gone."""
    now = np.full(n_old, -1, np.int32)
    now[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    return now
