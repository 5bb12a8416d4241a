"""A shard in a process of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import ray

from detector.engines.base import EngineUnavailable
from detector.engines.runners.shard import Answer, OutOfTurn, Shard, Turn
from detector.engines.runners.snapshots import Snapshot

VERSIONS = tuple(
    f"{name} {version(name)}" for name in ("detectord", "numpy", "scipy")
)  # of what makes the bits


class Actor:
    """Nobody until it has loaded a snapshot."""

    def __init__(self) -> None:
        self.shard: Shard | None = None

    def load(self, snapshot: Snapshot, versions: tuple[str, ...]) -> None:
        """Begin with ``snapshot``."""
        if versions != VERSIONS:
            raise EngineUnavailable(
                f"a machine of the cluster has {', '.join(VERSIONS)}, this one {', '.join(versions)}: "
                f"{os.uname().nodename} needs the same"
            )
        self.shard = snapshot.read()

    def take(self, turns: Sequence[Turn]) -> Answer:
        """Those since the snapshot, in order; the answer to the last one."""
        return [self._known().turn(turn) for turn in turns][-1]

    def turn(self, turn: Turn) -> Answer:
        return self._known().turn(turn)

    def ask(self, number: int, name: str, given: tuple[Any, ...]) -> Any:
        return self._known().ask(number, name, given)

    def save(self, path: str) -> Snapshot:
        return Snapshot.write(self._known(), path)

    def process(self) -> tuple[str, int]:
        """The machine's id in the cluster, and the process there."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def _known(self) -> Shard:
        if self.shard is None:
            raise OutOfTurn("begun anew")
        return self.shard
