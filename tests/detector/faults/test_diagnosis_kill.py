"""A daemon that is killed between an incident's opening and its examination: the finding comes, and once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from connectors.base import Batch, Sample
from detector.config.config import Config
from detector.runtime.ingest_queue import Arrival
from detector.runtime.pipeline_thread import PipelineThread, Plan
from detector.storage.records import Record
from detector.storage.store import Bundle, Store, inspect
from tests.detector import rig

FIRST = rig.LEARN + 60  # tick after the learnt state
ONSET = FIRST + 40


def ramp(first: int, last: int) -> Iterator[str]:
    """Three linked nodes drift away from ONSET on; the same values however it is cut."""
    for tick in range(first, last):
        rng = random.Random(1000 + tick)
        for node in rig.NODES:
            drift = 0.8 * max(tick - ONSET, 0) if node in ("n2", "n3", "n4") else 0.0
            yield json.dumps({"time": rig.START + tick, "node": node, "value": rng.gauss(0.0, 1.0) + drift})


def findings(ids: list[str]) -> list[str]:
    return [one for one in ids if one.endswith("-trend-settled")]


def add(path: Path, lines: Iterator[str]) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_killed_after_the_opening(tmp_path: Path, learnt_state: Path) -> None:
    """What decides when a case file is due survives with the rest."""
    rig.copy_state(learnt_state, tmp_path)
    hook, data = rig.Receiver(), tmp_path / "in.jsonl"
    config = rig.write_config(
        tmp_path, sources={"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}},
        sinks={"hook": {"type": "webhook", "url": hook.url}},
    )  # fmt: skip
    add(data, ramp(FIRST, ONSET))
    with rig.Service(config) as service:
        service.wait_ready()
        tick = ONSET
        while not any(record["event"] == "incident.opened" for record in hook.records):
            add(data, ramp(tick, tick + 1))
            tick += 1
            rig.wait_for(lambda: inspect(tmp_path / "state")["positions"]["in"]["position"]["offset"]
                         == data.stat().st_size)  # fmt: skip
            assert tick < ONSET + 30
        service.kill()
    assert findings(hook.ids) == []
    with rig.Service(config) as service:
        add(data, ramp(tick, tick + 40))
        rig.wait_for(lambda: findings(hook.ids), what="the finding")
        assert service.stop() == 0
    with rig.Service(config) as service:
        service.wait_ready()
        assert service.stop() == 0

    assert len(findings(hook.ids)) == 1
    found = next(record for record in hook.records if record["id"] in findings(hook.ids))
    assert found["details"]["shape"] == "growing"
    assert inspect(tmp_path / "state")["case_files"]["waiting"] == 0
    hook.close()


def test_killed_before_the_examination(tmp_path: Path, learnt_state: Path) -> None:
    """Case files that were committed, and no more: the next life examines them, and only that one."""
    rig.copy_state(learnt_state, tmp_path)
    (tmp_path / "in.jsonl").touch()
    path = rig.write_config(tmp_path)
    worker = PipelineThread(Plan.of(Config.load(path)))
    store = Store(tmp_path / "state")
    worker.start(store.load(), iter(()))
    lines = map(json.loads, ramp(FIRST, ONSET + 50))
    samples = [Sample(line["time"], line["node"], (line["value"],)) for line in lines]
    outcome = worker.work([Arrival("x", Batch(samples=samples, received=len(samples)), None)])
    records = [Record.of(event) for event in outcome.events]
    store.commit(Bundle(outcome.entries, records, ("out",), cases=outcome.cases))
    store.close()
    assert inspect(tmp_path / "state")["case_files"]["waiting"] >= 2
    for _ in range(2):
        with rig.Service(path, "--once") as service:
            assert service.process.wait(rig.PATIENCE_S) == 0, service.said()

    ids = rig.ids(tmp_path / "out.jsonl")
    assert len(findings(ids)) == 1
    assert set(rig.without_findings(ids)) == {record.id for record in records}
    assert inspect(tmp_path / "state")["case_files"]["waiting"] == 0
