"""Incidents against labels: what was found and how fast, beside dummies that alarm as often but know nothing.

A label is found by the first incident that opens between its start and its end and fits it: an incident that
names none of the label's nodes does not find it, nor does one of a mean that went down find a label of the
direction up. One that finds no label is false. The dummies know neither nodes nor directions: for them the
time is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detector.replay.ground_truth import Label
from detector.replay.timeline import ReplayedIncident
from estimators.core.types import Floats

DRAWS = 300  # of each dummy


@dataclass(frozen=True)
class Score:
    """How a detector did; delays in seconds of the stream, NaN where nothing was found."""

    name: str
    alarms: float
    recall: float
    delay: float
    false: float
    precision: float


@dataclass(frozen=True)
class Match:
    """What became of one label."""

    label: Label
    incident: ReplayedIncident | None
    delay: float
    nodes_right: float  # share of the nodes that changed, says the incident, that the label names, too
    nodes_found: float  # share of the label's nodes that changed, says the incident


def finds(incident: ReplayedIncident, label: Label, grace: float) -> bool:
    """Whether the incident opened within the label and fits it."""
    within = label.start <= incident.opened <= label.until(grace)
    return within and label.fits(incident.direction, incident.named)


def matches(incidents: Sequence[ReplayedIncident], labels: Sequence[Label], grace: float) -> list[Match]:
    """For each label the first incident within it."""
    found = []
    for label in labels:
        within = [incident for incident in incidents if finds(incident, label, grace)]
        if not within:
            found.append(Match(label, None, np.nan, np.nan, np.nan))
            continue
        first = min(within, key=lambda incident: incident.opened)
        shared = len(label.nodes & set(first.nodes))
        named = bool(label.nodes)
        found.append(
            Match(
                label,
                first,
                first.opened - label.start,
                shared / len(first.nodes) if named and first.nodes else np.nan,
                shared / len(label.nodes) if named else np.nan,
            )
        )
    return found


def compare(
    incidents: Sequence[ReplayedIncident],
    labels: Sequence[Label],
    begin: float,
    end: float,
    grace: float,
    seed: int = 0,
) -> list[Score]:
    """The detector, random alarms and periodic alarms, each as many, between ``begin`` and ``end``."""
    opened = np.array([incident.opened for incident in incidents])
    scores = [_score("detector", [opened], labels, grace, incidents)]
    if len(opened) and end > begin:
        rng = np.random.default_rng(seed)
        random: list[Floats] = [rng.uniform(begin, end, len(opened)) for _ in range(DRAWS)]
        gap = (end - begin) / len(opened)
        even = gap * np.arange(len(opened), dtype=np.float64)
        periodic: list[Floats] = [np.asarray(begin + gap * rng.uniform() + even) for _ in range(DRAWS)]
        scores.append(_score("random times", random, labels, grace))
        scores.append(_score("even spacing", periodic, labels, grace))
    return scores


def _score(
    name: str, runs: Sequence[Floats], labels: Sequence[Label], grace: float,
    incidents: Sequence[ReplayedIncident] = (),
) -> Score:  # fmt: skip
    """``incidents``: those of the alarms, which must fit; without them the time alone counts."""
    recalls, delays, false, precisions = [], [], [], []
    for alarms in runs:
        inside = np.zeros(len(alarms), np.bool_)
        hit = 0
        for label in labels:
            within = (alarms >= label.start) & (alarms <= label.until(grace))
            if incidents:
                within &= np.array([finds(incident, label, grace) for incident in incidents], np.bool_)
            inside |= within
            if within.any():
                hit += 1
                delays.append(float(alarms[within].min() - label.start))
        recalls.append(hit / len(labels) if labels else np.nan)
        false.append(int(np.count_nonzero(~inside)))
        precisions.append(float(inside.mean()) if len(alarms) else np.nan)
    return Score(
        name,
        float(np.mean([len(alarms) for alarms in runs])),
        float(np.mean(recalls)),
        float(np.median(delays)) if delays else float("nan"),
        float(np.mean(false)),
        float(np.mean(precisions)),
    )
