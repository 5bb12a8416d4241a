"""kill -9 at any moment: no alert is lost, none is invented, repeats carry an id that is known (T1)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.base import Batch, Sample
from detector.config.config import Config
from detector.runtime.ingest_queue import Arrival
from detector.runtime.pipeline_thread import PipelineThread, Plan
from detector.storage.store import Bundle, Store
from tests.connectors.running import NATS_TOKEN, REDIS_PASSWORD
from tests.connectors.sink_rigs import RIGS
from tests.detector import rig

KILLS = int(os.environ.get("DETECTOR_KILLS", "50"))  # at night: 500
BROKER_KILLS = max(4, KILLS // 10)  # with four brokers as sinks
TICKS = 5500
EVERY = 24


@pytest.mark.timeout(240 + 4 * KILLS)
def test_random_kills_lose_and_invent_nothing(tmp_path: Path, learnt_state: Path) -> None:
    """Kills at random moments of runs with 200 incidents: the ids equal those of a quiet run."""
    rng = random.Random(5)
    data = tmp_path / "in.jsonl"
    # Long lines: the file is read in many pieces, so that a kill finds a run in every possible state.
    data.write_text("\n".join(rig.lines(rig.LEARN + 60, TICKS, every=EVERY, pad=400)) + "\n")
    hook = rig.Receiver()

    def prepare(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        rig.copy_state(learnt_state, folder)
        return rig.write_config(
            folder,
            sources={"in": {"type": "file", "path": str(data)}},
            sinks={
                "out": {"type": "file", "path": str(folder / "out.jsonl")},
                "hook": {"type": "webhook", "url": hook.url},
            },
            diagnosis=rig.only("trend"),
            state={"directory": str(folder / "state"), "commit_every": "50ms", "commit_samples": 500,
                   "snapshot_every": "150ms"},
        )  # fmt: skip

    config = prepare("quiet")
    with rig.Service(config, "--once") as quiet:
        assert quiet.process.wait(rig.PATIENCE_S) == 0
    expected = rig.without_findings(rig.ids(config.with_name("out.jsonl")))
    opened = [one for one in expected if one.endswith("-1")]
    assert len(opened) >= 200
    assert len(expected) == len(set(expected))
    assert rig.without_findings(hook.ids) == expected

    kills = rounds = 0
    while kills < KILLS:
        config = prepare(f"round-{rounds}")
        hook.records.clear()
        rounds += 1
        while True:
            with rig.Service(config, "--once", "--log-level", "warning") as service:
                time.sleep(rng.uniform(0.1, 0.6))
                if kills == KILLS:
                    service.process.wait(rig.PATIENCE_S)
                if service.process.poll() is not None:
                    assert service.process.returncode == 0, service.said()
                    break
                service.kill()
                kills += 1
        written = rig.ids(config.with_name("out.jsonl"))
        assert sorted(rig.without_findings(written)) == sorted(expected), f"round {rounds}"
        assert len(written) == len(set(written))
        assert set(rig.without_findings(hook.ids)) == set(expected)
        shutil.rmtree(config.parent)
    assert kills == KILLS
    hook.close()


@pytest.mark.timeout(240 + 4 * KILLS)
def test_kills_with_brokers_as_sinks(running: Any, tmp_path: Path, learnt_state: Path) -> None:
    """The same into Redis, NATS, MQTT and Kafka at once: each has every record, some of them twice."""
    asyncio.run(_into_brokers(running, tmp_path, learnt_state))


async def _into_brokers(running: Any, folder: Path, learnt_state: Path) -> None:
    rng = random.Random(6)
    rigs = {name: RIGS[name](running, folder) for name in ("mqtt", "kafka", "redis", "nats")}
    for one in rigs.values():
        await one.prepare()
    rig.copy_state(learnt_state, folder)
    data = folder / "in.jsonl"
    data.write_text("\n".join(rig.lines(rig.LEARN + 60, 3000, every=EVERY, pad=400)) + "\n")
    sinks = {name: {"type": name, **one.config()} for name, one in rigs.items()}
    config = folder / "config.yaml"
    config.write_text(json.dumps(rig.settings(
        folder, sinks={"out": {"type": "file", "path": str(folder / "out.jsonl")}, **sinks},
        diagnosis=rig.only("trend"),
        state={"directory": str(folder / "state"), "commit_every": "50ms", "commit_samples": 500,
               "snapshot_every": "150ms"},
    )))  # fmt: skip
    secrets = {"REDIS_PASSWORD": REDIS_PASSWORD, "NATS_TOKEN": NATS_TOKEN}
    kills, ended = 0, False
    while not (ended and kills == BROKER_KILLS):
        if ended:  # sooner than all kills were made: the same once more
            shutil.rmtree(folder / "state")
            rig.copy_state(learnt_state, folder)
        with rig.Service(config, "--once", "--log-level", "warning", environment=secrets) as service:
            await asyncio.sleep(rng.uniform(0.1, 0.6))
            if kills == BROKER_KILLS:
                await asyncio.to_thread(service.process.wait, rig.PATIENCE_S)
            ended = service.process.poll() is not None
            if ended:
                assert service.process.returncode == 0, service.said()
            else:
                service.kill()
                kills += 1
    expected = rig.without_findings(rig.ids(folder / "out.jsonl"))
    assert len([one for one in expected if one.endswith("-1")]) >= 100
    for name, one in rigs.items():
        got = [id for id, _ in await one.received()]
        await one.stop()
        assert set(rig.without_findings(got)) == set(expected), name


def test_states_are_equal_bit_for_bit(tmp_path: Path, learnt_state: Path) -> None:
    """Snapshot and journal lead to the very numbers that the running process holds, to the last bit."""
    rig.copy_state(learnt_state, tmp_path)
    config = Config.load(rig.write_config(tmp_path))
    plan = Plan(config.network(), config.dim, config.settings(), config.names(), config.components)
    store = Store(tmp_path / "state")
    running = PipelineThread(plan)
    running.start(store.load(), iter(()))
    samples = [
        Sample(line["time"], line["node"], (line["value"],))
        for line in map(json.loads, rig.lines(rig.LEARN + 60, 1000, every=50))
    ]
    for number, begin in enumerate(range(0, len(samples), 331)):
        batch = Batch(samples=samples[begin : begin + 331], received=331)
        outcome = running.work([Arrival("in", batch, {"type": "file", "position": begin})])
        store.commit(Bundle(entries=outcome.entries))
        if number == 5:
            outcome = running.snapshot()
            store.commit(Bundle(entries=outcome.entries, snapshot=outcome.snapshot))
        if number == 8:  # a snapshot that did not reach the disk: the journal still tells of the rebuild
            store.commit(Bundle(entries=running.snapshot().entries))
    store.close()

    store = Store(tmp_path / "state")
    snapshot = store.load()
    assert snapshot is not None
    restarted = PipelineThread(plan)
    _, repeated = restarted.start(snapshot, store.journal(snapshot.seq))
    store.close()
    assert repeated == len(samples) - 6 * 331
    one = running.ask(lambda pipeline: pipeline.state())
    two = restarted.ask(lambda pipeline: pipeline.state())
    assert one[1] == two[1]
    assert one[0].keys() == two[0].keys()
    for name, array in one[0].items():
        np.testing.assert_array_equal(array, two[0][name], err_msg=name)
