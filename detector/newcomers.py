"""Nodes of which nothing was learnt, new or silent then: they learn from their own samples."""

from __future__ import annotations

import numpy as np

from detector.history import History
from detector.preprocess import Preprocess
from detector.samples import Columns
from detector.screen import Screen
from detector.ticks import Tick


def meet(
    newcomers: History | None,
    preprocess: Preprocess,
    screen: Screen | None,
    tick: Tick,
    wanted: int,
    dim: int,
) -> History | None:
    """Take their samples of a tick, and learn those that have as many as are ``wanted``; what still waits.

    Their scale comes from as many samples as fill all windows; what is quiet for their scores is taken from
    the other nodes.
    """
    unknown = np.flatnonzero(~preprocess.quiet_.learnt).astype(np.int32)
    if newcomers is None:
        newcomers = History(len(unknown), dim)
    for layer in tick.layers:
        here = layer.take(np.isin(layer.nodes, unknown))
        if len(here):
            place = np.searchsorted(unknown, here.nodes).astype(np.int32)
            newcomers.add(Columns(place, here.times, here.values))
    grown = newcomers.count >= wanted
    if not grown.any():
        return newcomers
    X, times = newcomers.arrays()
    preprocess.adopt(unknown[grown], X[:, grown], times)
    if screen is not None:
        screen.learn(unknown[grown], X[:, grown], times, preprocess)
    return None if grown.all() else History.of(X[:, ~grown], times)
