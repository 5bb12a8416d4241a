"""What alignment is told, and what it gives: its settings, the tick and its layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detector.alignment.samples import Columns
from estimators.core.types import Nodes

NO_NODES: Nodes = np.zeros(0, np.int32)
NO_NODES.flags.writeable = False  # shared by all ticks


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
