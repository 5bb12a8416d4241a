"""The nodes of a network in their fixed order, and the way from names to indices."""

from __future__ import annotations

from collections.abc import Sequence

MAX_UNKNOWN = 100  # unknown names remembered; a misconfigured source may invent one per sample


class NodeIndex:
    """The nodes of the network in their fixed order, and the way from names to indices."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.index: dict[str, int] = {name: v for v, name in enumerate(self.names)}
        if not self.names:
            raise ValueError("nodes: the network has no node")
        if len(self.index) != len(self.names):
            twice = next(name for v, name in enumerate(self.names) if self.index[name] != v)
            raise ValueError(f"nodes: {twice!r} is named twice")
        self.unknown: dict[str, int] = {}  # the first names met that are no node, with their counts

    def __len__(self) -> int:
        return len(self.names)

    def note_unknown(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.unknown:
                self.unknown[name] += 1
            elif len(self.unknown) < MAX_UNKNOWN:
                self.unknown[name] = 1
