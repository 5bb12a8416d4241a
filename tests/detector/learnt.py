"""A small network that has learnt, made once per run: tests of the streaming core start from its state."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import numpy as np

from connectors.base import Sample
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings

NAMES = [f"n{v}" for v in range(8)]
EDGES = [(f"n{v}", f"n{(v + 1) % 6}") for v in range(6)] + [("n6", "n7")]  # a ring of six, and a pair
NETWORK = Network.from_edges(EDGES, NAMES)
LEARN = 400
START = 1000.0  # time of the first sample


def settings(estimator: str = "grulsif", /, **groups: Any) -> Settings:
    base: dict[str, Any] = {
        "align": {"lateness": 2.0},
        "windows": {"reference": 60, "tests": [5, 10, 25]},
        "estimator": {
            "name": estimator,
            "sigma": 1.0,
            "coupling": 0.5,
            "ridge": 0.05,
            "rank": 6,
            "atoms": 32,
        },
        "alarm": {"learn": LEARN, "budget": "1 per 1000 ticks"},
        "incidents": {"clear_after": 10, "cool_down": 5.0, "update_every": 20.0, "hold_for": 500.0},
    }
    return Settings.of(**{name: base.get(name, {}) | groups.get(name, {}) for name in {**base, **groups}})


def quiet(first: int, last: int) -> np.ndarray:
    """Rows first..last of one endless quiet stream (T, 8, 1); each row has a seed of its own."""
    return np.array([np.random.default_rng(t).normal(size=(8, 1)) for t in range(first, last)])


def changed(
    first: int, last: int, at: int, nodes: list[int], size: float = 4.0, until: int = 10**9
) -> np.ndarray:
    """The quiet stream with a shift of ``nodes`` from tick ``at`` on, before ``until``."""
    X = quiet(first, last)
    X[max(at - first, 0) : max(until - first, 0), nodes] += size
    return X


def samples(X: np.ndarray, first: int, names: list[str] = NAMES) -> list[Sample]:
    """In the order of time; NaN: no sample."""
    return [
        Sample(START + first + t, name, tuple(value))
        for t, row in enumerate(X.tolist(), 0)
        for name, value in zip(names, row, strict=True)
        if value[0] == value[0]
    ]


@cache
def _course(estimator: str) -> dict[str, tuple[dict[str, np.ndarray], bytes]]:
    """States of a pipeline that learns from the stream: half way, and just after learning."""
    pipeline = Pipeline(NETWORK, 1, settings(estimator))
    pipeline.push(samples(quiet(0, LEARN // 2), 0))
    half = frozen(pipeline)
    pipeline.push(samples(quiet(LEARN // 2, LEARN + 60), LEARN // 2))
    assert pipeline.phase == "watching"
    return {"half": half, "learnt": frozen(pipeline)}


def frozen(pipeline: Pipeline) -> tuple[dict[str, np.ndarray], bytes]:
    """The state as it would lie on disk."""
    arrays, meta = pipeline.state()
    return arrays, msgspec.json.encode(meta)


def thawed(state: tuple[dict[str, np.ndarray], bytes], network: Network | None = NETWORK,
           chosen: Settings | None = None, **options: Any) -> Pipeline:  # fmt: skip
    arrays, meta = state
    arrays = {name: array.copy() for name, array in arrays.items()}
    return Pipeline.from_state(network, 1, chosen or settings(), arrays, msgspec.json.decode(meta), **options)


NOW = LEARN + 60  # the tick with which a learnt pipeline goes on


def state(estimator: str = "grulsif", when: str = "learnt") -> tuple[dict[str, np.ndarray], bytes]:
    return _course(estimator)[when]


def pipeline(estimator: str = "grulsif", /, **groups: Any) -> Pipeline:
    """A watching pipeline of its own, at tick NOW."""
    return thawed(state(estimator), chosen=settings(estimator, **groups))


def same(one: Pipeline, two: Pipeline) -> None:
    """Everything that a pipeline is, bit for bit."""
    a, b = frozen(one), frozen(two)
    assert a[1] == b[1]
    assert a[0].keys() == b[0].keys()
    for name in a[0]:
        assert a[0][name].dtype == b[0][name].dtype, name
        assert a[0][name].tobytes() == b[0][name].tobytes(), name
    for name in ("statistic", "event_statistic", "scores"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
