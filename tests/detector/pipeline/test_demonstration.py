"""The demonstration that is shipped sees the kinds of change that it shows, correlation among them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from connectors.base import Sample
from connectors.simulation.source import SimulateSource
from detector.config.config import Config
from detector.config.graph import simulated
from detector.pipeline.pipeline import Pipeline

CONFIG = Path(__file__).parents[3] / "config.yaml"
START = 1_700_000_000.0
BEFORE, AFTER = 500, 200  # ticks of the stream around the change: windows fill, and it is seen


def test_its_change_of_correlation_is_detected_and_named() -> None:
    config = Config.load(CONFIG)
    chosen = simulated(config.sources).model_copy(update={"speed": 0.0, "start": START})
    source = SimulateSource(chosen)
    truth = next(one for one in source.truth(10 * 3600) if one.kind == "correlation")

    def ticks(first: float, count: int) -> list[Sample]:
        async def read() -> list[Sample]:
            await source.open({"tick": int(first - START), "start": START})
            found: list[Sample] = []
            while len(found) < count * chosen.nodes:
                batch = await source.read()
                assert batch is not None
                found += batch.samples
            return found[: count * chosen.nodes]

        return asyncio.run(read())

    network, learn = config.network(), config.alarm.learn
    assert network is not None
    pipeline = Pipeline(network, config.dim, config.settings(), components=config.components)
    history = np.array([sample.values for sample in ticks(START, learn)])
    pipeline.learn(history.reshape(learn, chosen.nodes, config.dim), START + np.arange(learn))
    events = pipeline.push(ticks(truth.begin - BEFORE, BEFORE + AFTER))
    told = [event for event in events if event.event in ("incident.opened", "incident.updated")]
    opened = [event for event in told if event.event == "incident.opened" and event.time >= truth.begin]
    assert len(opened) == 1, [event.summary for event in events]
    last = [event for event in told if event.incident == opened[0].incident][-1]
    assert last.description[0].kind == "correlation", last.summary
    changed = {node.name for node in last.nodes if node.changed}
    assert len(changed & set(truth.nodes)) >= 3
    assert len(changed - set(truth.nodes)) <= 1
    assert last.onset is not None
    assert abs(last.onset - truth.begin) <= 10.0
