"""Nodes at which incidents open again and again after a change was accepted: their new normal is not covered.

After an accept, centre and scale of a node are learnt again. The dictionary is not, nor the thresholds that
rest on it: a new normal of another shape, such as one value in ten far away, may look like a change for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

AGAIN = 3  # openings since the accept from which on it is no chance
MEMORY = 2000  # ticks without an incident after which a node is covered
ADVICE = "the new normal has a shape that was not learnt; run `detector learn` on data that include it"


class Reopening:
    """How often incidents have opened at each node since a change of it was accepted, and when at last."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[int, float]] = {}

    def accept(self, names: Iterable[str], time: float) -> None:
        """Their change is the new normal; a second accept forgets nothing."""
        self.nodes |= {name: (self.nodes.get(name, (0, time))[0], time) for name in names}

    def restore(self, names: Iterable[str]) -> None:
        """They are back to what was learnt."""
        for name in names:
            self.nodes.pop(name, None)

    def open(self, names: Sequence[str], time: float, step: float) -> int:
        """How often incidents have opened at ``names``; 0 if that may be chance, or most are other nodes."""
        self.nodes = {name: one for name, one in self.nodes.items() if time - one[1] <= MEMORY * step}
        known = [name for name in names if name in self.nodes]
        self.nodes |= {name: (self.nodes[name][0] + 1, time) for name in known}
        most = max((self.nodes[name][0] for name in known), default=0)
        return most if most >= AGAIN and 2 * len(known) >= len(names) else 0
