"""What alignment is told, and what it gives: its settings, the tick and its layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from detector.samples import MAX_TIME, Columns, Nodes

NO_NODES: Nodes = np.zeros(0, np.int32)
NO_NODES.flags.writeable = False  # shared by all ticks


@dataclass(frozen=True)
class AlignSettings:
    """Seconds, unless it says samples. None is replaced by the default in the comment."""

    step: float = 1.0
    origin: float = 0.0
    lateness: float | None = None  # 2 steps
    max_gap: float | None = None  # 60 steps
    silent_after: float | None = None  # 60 steps
    max_ahead: float | None = None  # an hour, but at least 100 steps
    confirm: int = 5  # samples that must agree, at least, before a time beyond max_ahead is believed
    stuck_after: int = 60  # samples
    missing: str = "hold"  # or "drop"
    max_hold: int = 5  # samples
    max_waiting: int = 1_000_000  # samples

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step) and self.step >= 1e-6):
            raise ValueError(f"step: must be at least 1e-6 seconds, got {self.step}")
        defaults = {
            "lateness": 2.0 * self.step,
            "max_gap": 60.0 * self.step,
            "silent_after": 60.0 * self.step,
            "max_ahead": max(3600.0, 100.0 * self.step),
        }
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if not abs(self.origin) <= MAX_TIME:
            raise ValueError(f"origin: must be within {MAX_TIME:g} seconds of 1970, got {self.origin}")
        if not 0.0 <= self.seconds("lateness") <= MAX_TIME:
            raise ValueError(f"lateness: must be from 0 to {MAX_TIME:g} seconds, got {self.lateness}")
        for name in ("max_gap", "silent_after", "max_ahead"):
            if not self.seconds(name) >= self.step:
                raise ValueError(f"{name}: must be at least step ({self.step}), got {getattr(self, name)}")
        for name in ("confirm", "stuck_after", "max_hold", "max_waiting"):
            least = {"stuck_after": 2, "max_hold": 0}.get(name, 1)
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")
        if self.missing not in ("hold", "drop"):
            raise ValueError(f"missing: must be hold or drop, got {self.missing!r}")

    def seconds(self, name: str) -> float:
        """The setting of that name, default filled in."""
        return float(getattr(self, name))


@dataclass(frozen=True, slots=True)
class Tick:
    """One closed interval of the grid. Node lists are sorted."""

    index: int
    start: float
    end: float
    layers: tuple[Columns, ...]  # each holds every node at most once, nodes ascending
    restart: Nodes  # their windows start anew before this tick's samples
    silent: Nodes  # became silent in this tick
    returned: Nodes  # were silent, and are heard again
    stuck: Nodes  # became stuck in this tick
    unstuck: Nodes

    @property
    def n_samples(self) -> int:
        return sum(len(layer) for layer in self.layers)


def split_layers(samples: Columns) -> tuple[list[Columns], int]:
    """Samples of one tick, in arrival order, as layers; and how many repeated a node and time."""
    nodes = samples.nodes
    if (nodes[1:] > nodes[:-1]).all():
        return [samples], 0
    order = np.argsort(nodes, kind="stable")
    nodes = nodes[order]
    if (nodes[1:] > nodes[:-1]).all():  # one sample of each node, as in most ticks
        return [samples.take(order)], 0
    samples = samples.take(np.lexsort((samples.times, samples.nodes)))  # stable: first come, first served
    same_node, repeated = np.zeros((2, len(samples)), np.bool_)
    same_node[1:] = samples.nodes[1:] == samples.nodes[:-1]
    repeated[1:] = same_node[1:] & (samples.times[1:] == samples.times[:-1])
    if repeated.any():
        samples, same_node = samples.take(~repeated), same_node[~repeated]
    position = np.arange(len(samples))
    rank = position - np.maximum.accumulate(np.where(same_node, 0, position))
    order = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[order])) + 1
    return [samples.take(part) for part in np.split(order, cuts)], int(np.count_nonzero(repeated))
