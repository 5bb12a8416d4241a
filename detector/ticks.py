"""What alignment is told, and what it gives: its settings, the tick and its layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from detector.samples import MAX_TIME, Columns, Nodes

NO_NODES: Nodes = np.zeros(0, np.int32)
NO_NODES.flags.writeable = False  # shared by all ticks


@dataclass(frozen=True)
class AlignSettings:
    """How samples of all nodes are put on one grid of ticks."""

    step: float = field(
        default=1.0,
        metadata={
            "help": "Length of a tick, the grid on which samples of all nodes meet; about the time between "
            "two samples of a node.",
            "unit": "s",
        },
    )
    origin: float = field(default=0.0, metadata={"help": "A time at which a tick begins, in unix seconds."})
    lateness: float | None = field(
        default=None,
        metadata={"help": "How long a tick waits for samples that come late; null: 2 steps.", "unit": "s"},
    )
    max_gap: float | None = field(
        default=None,
        metadata={
            "help": "A pause of a node longer than this restarts its windows instead of mixing what was "
            "before and after; null: 60 steps.",
            "unit": "s",
        },
    )
    silent_after: float | None = field(
        default=None,
        metadata={
            "help": "Without a sample for so long a node counts as silent; null: 60 steps.",
            "unit": "s",
        },
    )
    max_ahead: float | None = field(
        default=None,
        metadata={
            "help": "A time further ahead of the stream is not believed at once; null: an hour, but at least "
            "100 steps.",
            "unit": "s",
        },
    )
    confirm: int = field(
        default=5,
        metadata={"help": "Samples that must agree, at least, before a time beyond max_ahead is believed."},
    )
    stuck_after: int = field(
        default=60,
        metadata={"help": "Equal samples in a row, after which a node that used to move counts as stuck."},
    )
    missing: str = field(
        default="hold",
        metadata={
            "help": "What to do with a sample that lacks a component: hold the last value of that component, "
            "or drop the sample.",
        },
    )
    max_hold: int = field(
        default=5, metadata={"help": "Samples in a row over which a missing component may be held."}
    )
    max_waiting: int = field(
        default=1_000_000,
        metadata={"help": "Samples that may wait for their tick; beyond it the oldest tick is closed early."},
    )

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
