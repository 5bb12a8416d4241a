"""Case files as a predictor of footprints sees them: features of nodes, where to look, what people said."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.diagnosis.samples import samples_of
from detector.events.model import Labels
from detector.incidents.case import Case
from estimators.core.types import Bools, Floats
from estimators.structured.egonet import within

FEATURES = 3  # version: models of another one are refused
NAMES = ("own", "event", "increment", "longest", "shift", "spread")
TYPE_FEATURES = [4, 5]  # those that tell types apart
HOPS = 2  # from a member: further away nobody is looked for
EVERYWHERE = 300  # nodes; in a network that small everybody is
_LARGEST = 50.0  # multiples of a threshold, and of a spread; beyond, a change is not more of a change
_FEWEST = 3  # samples that have a mean and a spread


def features(case: Case) -> Floats:
    """Features (N, 6) of all nodes, comparable between nodes and networks; 0 where nothing is known.

    own        statistic of the node over its threshold, on a logarithmic scale, as the next three
    event      statistic pooled around it, over its threshold
    increment  how much its own rose since before the onset
    longest    score of the longest test window: what came late, or went again, differs from what stays
    shift      mean after the onset less mean before, of the component that moved most, in the wider spread
    spread     logarithm of the spread after over that before, of the component where it moved most

    The first four tell which nodes; the last two, which are known of the strongest members and of some
    neighbours, tell the types apart.
    """
    own, event = max(abs(case.threshold), 1e-6), max(abs(case.event_threshold), 1e-6)
    columns = [
        case.statistic / own,
        case.event_statistic / event,
        case.increments / own,
        case.levels[:, -1] / own,
    ]
    found = np.zeros((len(case.names), len(NAMES)))
    found[:, :4] = np.column_stack([_squashed(column) for column in columns])
    for name in case.recent:
        found[case.index[name], TYPE_FEATURES] = _moved(case, name)
    return found


def focus(case: Case) -> Bools:
    """Where nodes of the event are looked for (N,): near its members; in a small network everywhere."""
    if len(case.names) <= EVERYWHERE:
        return np.ones(len(case.names), np.bool_)
    return within(case.graph, rows(case, case.members), HOPS)


def by_thresholds(case: Case) -> Bools:
    """Nodes of the event without anything learnt (N,): the members, a connected set of nodes over thresholds.

    Once the change has settled, those of them that are still over their own threshold: members that the first
    excitement carried along are none any more.
    """
    named = np.zeros(len(case.names), np.bool_)
    named[rows(case, case.members)] = True
    with np.errstate(invalid="ignore"):
        still = named & (case.statistic > case.threshold)
    return still if case.stage == "settled" and still.any() else named


def rows(case: Case, names: tuple[str, ...] | list[str]) -> NDArray[np.intp]:
    return np.array([case.index[name] for name in names if name in case.index], np.intp)


def truth(case: Case, labels: Labels) -> Bools:
    """Nodes of the event (N,) as people told them; ValueError says why they did not."""
    if labels.alarm == "false":
        return np.zeros(len(case.names), np.bool_)
    if not labels.nodes:
        raise ValueError("its nodes were not told")
    told = rows(case, labels.nodes)
    if not len(told):
        raise ValueError("none of the nodes told is in the network")
    affected = np.zeros(len(case.names), np.bool_)
    affected[told] = True
    return affected


def _squashed(x: NDArray[np.floating]) -> Floats:
    bounded = np.clip(np.nan_to_num(np.asarray(x, np.float64)), -_LARGEST, _LARGEST)
    logs: Floats = np.sign(bounded) * np.log1p(np.abs(bounded))
    return logs


def _moved(case: Case, name: str) -> tuple[float, float]:
    before, after, _ = samples_of(case, name)
    if len(before) < _FEWEST or len(after) < _FEWEST:
        return 0.0, 0.0
    width, now = np.maximum(before.std(axis=0), 1e-9), after.std(axis=0)
    # The wider of the two: means of values that spread more scatter more, which is no shift.
    shift = _squashed((after.mean(axis=0) - before.mean(axis=0)) / np.maximum(width, now))
    spread = np.log(np.clip(now / width, 1.0 / _LARGEST, _LARGEST))
    return float(shift[np.abs(shift).argmax()]), float(spread[np.abs(spread).argmax()])
