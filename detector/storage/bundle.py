"""What one transaction of the state holds: everything that must be durable together."""

from __future__ import annotations

from dataclasses import dataclass, field

from detector.incidents.case import Case
from detector.pipeline.signal_capture import Block
from detector.storage.cases import Key
from detector.storage.journal import Entry
from detector.storage.records import Record, SetAside
from detector.storage.snapshot import Snapshot


@dataclass
class Bundle:
    """What one transaction holds."""

    entries: list[Entry] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    sinks: tuple[str, ...] = ()  # the records are addressed to these
    delivered: list[tuple[str, str]] = field(default_factory=list)  # (sink, record id) to forget
    set_aside: list[SetAside] = field(default_factory=list)
    snapshot: Snapshot | None = None  # after all entries
    cases: list[Case] = field(default_factory=list)
    analyzed: list[Key] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)  # signals of nodes
    gap: bool = False  # entries before these were given up: the snapshot stands for them

    @property
    def empty(self) -> bool:
        return not (
            self.entries
            or self.records
            or self.delivered
            or self.set_aside
            or self.snapshot
            or self.cases
            or self.analyzed
            or self.blocks
        )

    @property
    def samples(self) -> int:
        return sum(entry.count for entry in self.entries)

    @property
    def size(self) -> int:
        return sum(len(entry.body) for entry in self.entries)

    def shed_cases(self, most: int) -> int:
        """Give up the oldest case files beyond so many bytes; how many."""
        sizes = [case.size for case in self.cases]
        lost = 0
        while sum(sizes[lost:]) > most:
            lost += 1
        del self.cases[:lost]
        return lost

    def shed_blocks(self, most: int) -> None:
        """Give up the oldest signals beyond so many bytes."""
        while sum(block.values.nbytes for block in self.blocks) > most:
            del self.blocks[0]
