"""Real daemons and real brokers: two boxes are one network, whatever befalls them (T31)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
import pytest
from click.testing import CliRunner
from paho.mqtt.enums import CallbackAPIVersion

from connectors.base import Sample
from detector.cli.main import cli
from detector.config.config import Config, ConfigError
from detector.edge.dictionary import SharedDictionary
from detector.pipeline.pipeline import Pipeline
from detector.replay.learnt import save_learnt
from detector.runtime.pipeline_thread import Plan
from detector.settings.core import Settings
from detector.storage.inspect import load_snapshot
from tests.detector import rig
from tests.detector.edge import brokers
from tests.detector.rig import LEARN, NODES, START

OF = {"north": NODES[:4], "south": NODES[4:]}
OTHER = {"north": "south", "south": "north"}
KEY = "0123456789abcdef0123456789abcdef"
PATIENCE = 3


def values(t: int) -> np.ndarray:
    return np.random.default_rng(t).normal(size=(8, 1)).round(5)


def configured(folder: Path, box: str | None, kind: str = "mqtt", broker: Any = None, **edge: Any) -> Path:
    """What an operator writes for one box; the same for all but for names of clients and topics."""
    folder.mkdir(exist_ok=True)
    (folder / "key").write_text(KEY)
    sources: dict[str, Any] = {"in": {"type": "http"}}
    sinks: dict[str, Any] = {"out": {"type": "file", "path": str(folder / "out.jsonl")}}
    group: dict[str, Any] = {"boxes": OF, "patience": PATIENCE, **edge}
    if box is not None:
        sources["near"], sinks["near"] = brokers.near(kind, broker, box, OTHER[box])
        group |= {"box": box, "source": "near", "sink": "near", "key_file": str(folder / "key")}
    return rig.write_config(
        folder, sources=sources, sinks=sinks, edge=group, align={"step": "1s", "lateness": 0},
        diagnosis=rig.only(),
    )  # fmt: skip


class Site:
    """Both boxes and their broker, from what one process has learnt of the whole network."""

    def __init__(self, folder: Path, kind: str = "mqtt") -> None:
        self.broker = brokers.started(kind, folder / "broker")
        config = Config.load(configured(folder / "whole", None))
        self.whole = Plan.of(config).fresh()
        self.whole.learn(np.array([values(t) for t in range(LEARN)]), START + np.arange(LEARN, dtype=float))
        save_learnt(config.state, config.diagnosis, self.whole)
        self.folders = {box: folder / box for box in OF}
        for box, place in self.folders.items():
            configured(place, box, kind, self.broker)
            shutil.copytree(folder / "whole" / "state", place / "state")
        self.boxes = {box: self.start(box) for box in OF}
        self.sent = LEARN - 1
        for box in OF:
            self.connected(box)

    def eavesdrop(self) -> None:
        """A client of our own, at Mosquitto."""
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.heard: list[bytes] = []
        self.client.on_message = lambda client, data, message: self.heard.append(message.payload)
        self.client.on_connect = lambda client, *rest: client.subscribe("edge/south")
        self.client.reconnect_delay_set(0.1, 0.5)  # type: ignore[no-untyped-call]
        self.client.connect("127.0.0.1", self.broker.port)
        self.client.loop_start()

    def start(self, box: str) -> rig.Service:
        return rig.Service(self.folders[box] / "config.yaml").wait_ready()

    def status(self, box: str) -> dict[str, Any]:
        found: dict[str, Any] = self.boxes[box].ask("/api/v1/status")[1]
        return found

    def connected(self, box: str) -> None:
        rig.wait_for(lambda: self.status(box)["edge"]["error"] is None, what=f"{box} to be connected")

    def tick(self, t: int, boxes: Any = tuple(OF), size: float = 0.0, nodes: Any = ()) -> None:
        """Samples of tick t, which close the tick before, to these boxes and to the one process."""
        row = values(t)
        row[list(nodes)] += size
        for box in boxes:
            batch = [
                {"time": START + t, "node": node, "value": float(row[NODES.index(node), 0])}
                for node in OF[box]
            ]
            status, answer = self.boxes[box].ask("/ingest", "POST", batch)
            assert status == 200, answer
        self.sent = t

    def outcome(self, box: str, name: str) -> float:
        return self.boxes[box].metric("boundary_messages_total", outcome=name)

    def arrived(self, box: str) -> float:
        """Bytes heard: counted as they come, before the next tick uses them."""
        return self.boxes[box].metric("boundary_bytes_total", direction="heard")

    def in_time(self, t: int, **other: Any) -> None:
        """A tick whose messages all arrive before the next."""
        before = {box: self.arrived(box) for box in OF}
        self.tick(t, **other)
        for box in OF:
            rig.wait_for(
                lambda box=box: self.arrived(box) > before[box], what=f"{box} to hear of tick {t - 1}"
            )

    def up(self, box: str) -> bool:
        heard: bool = self.status(box)["edge"]["neighbours"][OTHER[box]]["heard"]
        return heard

    def heard_again(self) -> None:
        def both() -> bool:
            self.tick(self.sent + 1)
            return all(self.up(box) for box in OF)

        rig.wait_for(both, what="both to hear each other")

    def records(self, box: str) -> list[dict[str, Any]]:
        return rig.records(self.folders[box] / "out.jsonl")

    def stop(self) -> None:
        for one in self.boxes.values():
            if one.process.poll() is None:
                one.kill()
        self.broker.stop()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    made.eavesdrop()
    yield made
    made.client.loop_stop()
    made.stop()


@pytest.mark.parametrize("kind", ["nats", "redis", "kafka"])
def test_they_give_the_bits_of_one_process_over_any_broker(kind: str, tmp_path: Path) -> None:
    made = Site(tmp_path, kind)
    try:
        gives_the_bits_of_one_process(made)
    finally:
        made.stop()


def test_they_give_the_bits_of_one_process(site: Site) -> None:
    gives_the_bits_of_one_process(site)


def gives_the_bits_of_one_process(site: Site) -> None:
    for t in range(LEARN, LEARN + 25):
        (site.tick if t == LEARN else site.in_time)(t)  # the first closes no tick
        row = zip(NODES, values(t).tolist(), strict=True)
        site.whole.push([Sample(START + t, node, tuple(value)) for node, value in row])
    told = {node["name"]: node["statistic"] for box in OF for node in site.status(box)["top_nodes"]}
    assert told == dict(zip(NODES, site.whole.statistic.tolist(), strict=True))
    events = [site.status(box)["event_statistic_max"] for box in OF]
    assert max(events) == site.whole.event_statistic.max()
    assert all(site.outcome(box, "heard") >= 23 for box in OF)
    assert not site.whole.incidents.open


def test_garbage_and_forgeries_are_counted_and_change_nothing(site: Site) -> None:
    rig.wait_for(lambda: site.heard, what="a message of south")
    record = json.loads(site.heard[-1])
    forged = {**record, "body": record["body"][:-8] + "AAAAAAA="}
    for payload in (b"", b"\xff\x00", b"[" * 10_000, b"{}", b'{"body": 1}', b"x" * 2**21,
                    json.dumps({**record, "version": 99}).encode()):  # fmt: skip
        site.client.publish("edge/south", payload, qos=1).wait_for_publish(60)
    for payload in (forged, {**record, "mac": "0" * 64}):
        site.client.publish("edge/south", json.dumps(payload), qos=1).wait_for_publish(60)
    rig.wait_for(lambda: site.outcome("north", "malformed") >= 7, what="malformed messages")
    rig.wait_for(lambda: site.outcome("north", "unsigned") == 2, what="unsigned messages")
    before = site.arrived("north")
    site.client.publish("edge/south", site.heard[0], qos=1).wait_for_publish(60)  # signed, and long ago
    rig.wait_for(lambda: site.arrived("north") > before, what="the old message")
    first = site.sent + 1
    for t in range(first, first + 3):
        site.in_time(t)
    assert all(site.boxes[box].metric("boundary_age_ticks") == 0 for box in OF)
    assert site.outcome("north", "late") == 1
    assert site.up("north")
    assert site.boxes["north"].process.poll() is None


def test_one_event_over_the_cut_has_one_common_id(site: Site) -> None:
    first = site.sent + 1
    for t in range(first, first + 14):
        site.in_time(t, size=8.0, nodes=(3, 4))

    def common(box: str) -> set[str]:
        return {one["common"] for one in site.records(box) if one.get("common")}

    def both() -> bool:
        if common("north") and common("south"):
            return True
        site.in_time(site.sent + 1, size=8.0, nodes=(3, 4))  # what a neighbour says is read then
        return False

    rig.wait_for(both, what="a common id in both")
    assert common("north") == common("south")
    opened = {one["incident"] for box in OF for one in site.records(box) if one["event"] == "incident.opened"}
    assert common("north") < opened


def test_a_broker_that_dies_costs_the_coupling_and_nothing_else(site: Site) -> None:
    site.broker.kill()
    first = site.sent + 1
    for t in range(first, first + PATIENCE + 4):
        site.tick(t)
    rig.wait_for(lambda: not site.up("north") and not site.up("south"), what="neighbours to be given up")
    assert site.boxes["north"].ask("/readyz")[1]["status"] == "degraded"
    assert site.boxes["north"].metric("boundary_neighbour_up") == 0.0
    assert "neighbour south is not heard" in "".join(one["summary"] for one in site.records("north"))
    site.broker.start()
    for box in OF:
        site.connected(box)
    rig.wait_for(site.client.is_connected, what="the test's client")
    site.heard_again()


def test_a_box_that_dies_comes_back_and_is_heard(site: Site) -> None:
    before = site.status("south")["top_nodes"]
    site.boxes["south"].kill()
    first = site.sent + 1
    for t in range(first, first + PATIENCE + 3):
        site.tick(t, ("north",))
    rig.wait_for(lambda: not site.up("north"), what="south to be given up")
    site.boxes["south"] = site.start("south")
    assert site.status("south")["top_nodes"] == before  # what it had heard is in its journal
    site.connected("south")
    site.heard_again()
    assert "neighbour south is heard again" in "".join(one["summary"] for one in site.records("north"))


def learn_box(folder: Path, box: str, **edge: Any) -> tuple[Path, Pipeline]:
    config = configured(folder / box, box, **edge)
    recording = folder / f"{box}.csv"
    rows = [f"{START + t},{node},{values(t)[NODES.index(node), 0]}" for t in range(LEARN) for node in OF[box]]
    recording.write_text("time,node,value\n" + "\n".join(rows) + "\n")
    ran = CliRunner().invoke(cli, ["learn", str(recording), "--config", str(config)])
    assert ran.exit_code in (0, 4), ran.output
    snapshot = load_snapshot(folder / box / "state")
    assert snapshot is not None
    return config, Plan.of(Config.load(config)).restored(snapshot)


def test_each_box_learns_from_its_own_sensors(tmp_path: Path) -> None:
    """What an operator does where no recording of the whole network may be made."""
    config, north = learn_box(tmp_path, "north")
    shared = tmp_path / "shared.json"
    ran = CliRunner().invoke(cli, ["edge", "export", str(shared), "--config", str(config)])
    assert ran.exit_code == 0, ran.output
    _, south = learn_box(tmp_path, "south", dictionary=str(shared))
    assert north.neighbours is not None
    assert south.neighbours is not None
    assert north.neighbours.spec == south.neighbours.spec
    assert str(north.settings.alarm.budget) == str(south.settings.alarm.budget) == "1 per 1000 ticks"
    assert north.report is not None
    assert north.report.checked_budget == "1 per 1000 ticks"  # half the nodes, half of 1 per 500
    assert north.names == tuple(OF["north"])
    ran = CliRunner().invoke(cli, ["edge", "show", "--config", str(config)])
    assert "north (this box): 4 nodes, 2 of them at cuts, reads 2 of south; budget" in ran.output


def test_a_dictionary_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    config, _ = learn_box(tmp_path, "north")
    shared = tmp_path / "shared.json"
    CliRunner().invoke(cli, ["edge", "export", str(shared), "--config", str(config)])
    good = SharedDictionary.read(shared)
    good.check(Config.load(config).settings(), 1)
    with pytest.raises(ValueError, match=r"windows.reference 40, which is 60 here"):
        good.check(Settings.of(windows={"reference": 60, "tests": [5, 10]}), 1)
    whole = shared.read_bytes()
    later = whole.replace(b'"version": 1', b'"version": 2')
    for text in (b"{}", b"[]", b"\xff", whole[:500], whole.replace(b"gaussian", b"gausian"), later):
        shared.write_bytes(text)
        path = configured(tmp_path / "south", "south", dictionary=str(shared))
        with pytest.raises(ConfigError, match=r"edge\.dictionary.*shared\.json"):
            Config.load(path).network()


def test_a_weak_key_is_refused(tmp_path: Path) -> None:
    path = configured(tmp_path / "north", "north")
    assert CliRunner().invoke(cli, ["check", "--config", str(path)]).exit_code == 0
    (tmp_path / "north" / "key").write_text("secret")
    ran = CliRunner().invoke(cli, ["check", "--config", str(path)])
    assert ran.exit_code == 78
    assert "edge.key_file: 6 bytes; a key has 16 or more" in ran.output
