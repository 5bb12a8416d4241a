"""A network of twelve nodes in three boxes, learnt once as a whole and once by each box for itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import numpy as np

from connectors.base import Sample
from detector.edge import messages
from detector.edge.messages import Told
from detector.events.model import Event
from detector.network.network import Network
from detector.network.surroundings import Surroundings
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings

NAMES = [f"n{v}" for v in range(12)]
# A ring with weights, and a link across it: every box reads both others.
EDGES = [(NAMES[v], NAMES[(v + 1) % 12], 1.0 + 0.5 * (v % 3)) for v in range(12)] + [("n1", "n6", 1.0)]
WHOLE = Network.from_edges(EDGES, NAMES)
BOXES = {"north": NAMES[:4], "south": NAMES[4:8], "west": NAMES[8:]}
KEY = b"sixteen bytes, at least"
LEARN, START = 400, 1000.0
BUDGET = "1 per 1000 ticks"


def settings(share: float = 1.0, **groups: Any) -> Settings:
    base: dict[str, Any] = {
        "align": {"lateness": 0.0},
        "windows": {"reference": 60, "tests": [5, 10, 25]},
        "estimator": {"sigma": 1.0, "coupling": 0.5, "ridge": 0.05, "rank": 6, "atoms": 32},
        "alarm": {"learn": LEARN, "budget": BUDGET},
        "incidents": {"clear_after": 10, "cool_down": 5.0, "update_every": 20.0, "hold_for": 500.0},
    }
    made = Settings.of(**{name: base.get(name, {}) | groups.get(name, {}) for name in {**base, **groups}})
    alarm = made.alarm.model_copy(update={"budget": made.alarm.budget.of_share(share)})
    return made.model_copy(update={"alarm": alarm})


def around(box: str | None, **other: Any) -> Surroundings:
    return replace(Surroundings.of(WHOLE, BOXES, box), budget=BUDGET, **other)


def row(t: int) -> np.ndarray:
    """Values (12, 1) of one tick of one endless quiet stream."""
    return np.random.default_rng(t).normal(size=(12, 1))


def changed(t: int, at: int, nodes: Iterable[int], size: float = 4.0) -> np.ndarray:
    made = row(t)
    if t >= at:
        made[list(nodes)] += size
    return made


def samples(values: np.ndarray, t: int, names: Iterable[str] = NAMES) -> list[Sample]:
    return [
        Sample(START + t, name, tuple(values[NAMES.index(name)].tolist()))
        for name in names
        if np.isfinite(values[NAMES.index(name)]).all()
    ]


@cache
def learnt_whole() -> tuple[dict[str, np.ndarray], bytes]:
    """The state of one process that watches the whole network, cut as the boxes are."""
    pipeline = Pipeline(around(None).network, 1, settings())
    pipeline.learn(np.array([row(t) for t in range(LEARN)]), START + np.arange(LEARN, dtype=float))
    return frozen(pipeline)


def frozen(pipeline: Pipeline) -> tuple[dict[str, np.ndarray], bytes]:
    arrays, meta = pipeline.state()
    return arrays, msgspec.json.encode(meta)


def thawed(state: tuple[dict[str, np.ndarray], bytes], box: str | None, **other: Any) -> Pipeline:
    here = around(box, **other)
    arrays = {name: array.copy() for name, array in state[0].items()}
    made = Pipeline.from_state(here.network, 1, settings(here.share), arrays, msgspec.json.decode(state[1]))
    made.told = deque(maxlen=64)
    return made


class Boxes:
    """Pipelines of all boxes, and a broker between them that the test decides about."""

    def __init__(self, pipelines: dict[str, Pipeline]) -> None:
        self.all = pipelines
        self.sent: dict[str, list[bytes]] = {}
        self.outcomes: list[str] = []

    def tick(
        self, values: np.ndarray, t: int, passes: Callable[[str, str], bool] = lambda sender, to: True
    ) -> dict[str, list[Event]]:
        """The samples of tick t close the tick before; then everybody hears of that."""
        events = {name: one.push(samples(values, t, one.names)) for name, one in self.all.items()}
        self.sent = {}
        for name, one in self.all.items():
            assert one.told is not None
            self.sent[name] = [wired(told) for told in one.told]
            one.told.clear()
        for name, one in self.all.items():
            for sender, bodies in self.sent.items():
                for body in bodies:
                    if sender != name and passes(sender, name):
                        self.hear(one, body)
        return events

    def hear(self, one: Pipeline, body: bytes) -> None:
        try:
            one.hear(body)
        except messages.Refused as refused:
            self.outcomes.append(refused.outcome)
        else:
            self.outcomes.append("heard")

    def statistic(self, name: str = "event_statistic") -> np.ndarray:
        """Of all nodes, in the order of the whole network."""
        found = {
            node: value
            for one in self.all.values()
            for node, value in zip(one.names, getattr(one, name), strict=True)
        }
        return np.array([found[node] for node in NAMES])


def wired(told: Told) -> bytes:
    """What comes out at the other end of a broker."""
    return messages.verified(msgspec.json.encode(messages.record(told, KEY)), KEY)
