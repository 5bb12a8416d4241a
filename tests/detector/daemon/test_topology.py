"""The network and the form of samples change under a running daemon: who is not concerned goes on (T9)."""

from __future__ import annotations

import json
import random
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.detector import rig

RING = rig.NODES[:6]
EDGES = [[RING[k], RING[(k + 1) % 6]] for k in range(6)]
PAIR = ["n6", "n7"]
SETTINGS: dict[str, Any] = {
    "alarm": {"learn": 400, "budget": "1 per 100000 ticks"},
    "incidents": {"critical_share": 0.5},  # severity is by share of the network, whose size changes here
}
CHANGED = ["n1", "n2"]
BEGIN = 460


def samples(first: int, last: int) -> list[dict[str, Any]]:
    """Quiet but for two nodes of the ring, twice; a node called extra sends from the beginning."""
    found = []
    for tick in range(first, last):
        rng = random.Random(tick)
        for node in (*rig.NODES, "extra"):
            shift = 5.0 if node in CHANGED and (640 <= tick < 665 or 940 <= tick < 965) else 0.0
            value = round(rng.gauss(0.0, 1.0) + shift, 5)
            found.append({"time": rig.START + tick, "node": node, "value": value})
    return found


def append(path: Path, given: list[dict[str, Any]]) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(sample) + "\n" for sample in given))


@pytest.fixture(scope="module")
def split_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state of two parts that are not linked, which has learnt."""
    folder = tmp_path_factory.mktemp("split")
    append(folder / "in.jsonl", samples(0, BEGIN))
    config = rig.write_config(folder, graph={"edges": [*EDGES, PAIR]}, **SETTINGS)
    with rig.Service(config, "--once") as service:
        assert service.process.wait(270) == 0, service.said()
    return folder / "state"


def records(folder: Path) -> list[dict[str, Any]]:
    """Of incidents; without the threshold."""
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    kept = [
        one for one in found if one["event"].startswith("incident") and one["event"] != "incident.analyzed"
    ]
    return [{name: value for name, value in one.items() if name != "threshold"} for one in kept]


def incidents(told: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Records by incident, in the order of their opening."""
    by_incident: dict[str, list[dict[str, Any]]] = {}
    for one in told:
        by_incident.setdefault(one["incident"], []).append(one)
    return list(by_incident.values())


def test_changes_while_running(tmp_path: Path, split_state: Path) -> None:
    """A node comes, one goes, an edge goes, a field is renamed: the ring tells what it would have told.

    To the letter, as long as the threshold is the same: it follows the quiet data of the whole network, which
    is another one by the second incident.
    """
    reference = tmp_path / "reference"
    reference.mkdir()
    rig.copy_state(split_state, reference)
    append(reference / "in.jsonl", samples(BEGIN, 1100))
    config = rig.write_config(reference, graph={"edges": [*EDGES, PAIR]}, **SETTINGS)
    with rig.Service(config, "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()

    rig.copy_state(split_state, tmp_path)
    data = tmp_path / "in.jsonl"
    data.touch()
    source: dict[str, Any] = {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}
    config = rig.write_config(tmp_path, graph={"edges": [*EDGES, PAIR]}, sources={"in": source}, **SETTINGS)
    with rig.Service(config) as service:
        service.wait_ready()
        done = 0

        def feed(given: list[dict[str, Any]]) -> None:
            nonlocal done
            append(data, given)
            done += len(given)
            rig.wait_for(lambda: service.metric("samples_received_total") == done)
            rig.wait_for(lambda: service.metric("queue_samples") == 0)

        def reload(edges: list[list[str]], nodes: list[str], **decode: Any) -> None:
            now = rig.settings(
                tmp_path, graph={"edges": edges, "nodes": nodes},
                sources={"in": {**source, "decode": decode}}, **SETTINGS,
            )  # fmt: skip
            config.write_text(yaml.safe_dump(now))
            taken = service.said().count("configuration taken over")
            service.process.send_signal(signal.SIGHUP)
            rig.wait_for(lambda: service.said().count("configuration taken over") > taken)
            assert service.metric("watching") == 1

        feed(samples(BEGIN, 600))
        reload([*EDGES, PAIR, ["n7", "extra"]], [*rig.NODES, "extra"])
        feed(samples(600, 650))  # within a change
        reload([*EDGES, ["n7", "extra"]], [*RING, "n7", "extra"])
        feed(samples(650, 800))
        reload(EDGES, [*RING, "n7", "extra"])
        feed(samples(800, 900))
        reload(EDGES, [*RING, "n7", "extra"], node="node", time="time", values="reading")
        feed([{**sample, "reading": str(sample["value"])} for sample in samples(900, 901)])
        assert service.metric("samples_rejected_total", source="in") == 9
        renamed = [
            {"time": one["time"], "node": one["node"], "reading": one["value"]} for one in samples(900, 1100)
        ]
        feed(renamed)
        states = service.ask("/api/v1/status")[1]["nodes"]["states"]
        assert states == {"watching": 8}
        assert service.stop() == 0

    expected = records(reference)
    for incident in {one["incident"] for one in expected}:
        certain = {
            node["name"] for one in expected for node in one["nodes"]
            if one["incident"] == incident and node["state"] == "alarmed"
        }  # fmt: skip
        assert certain >= set(CHANGED)
        assert len(certain) <= len(CHANGED) + 1  # a neighbour that was drawn in
    found = records(tmp_path)
    first, second = (incidents(told) for told in (found, expected))
    assert len(first) == len(second) == 2
    assert first[0] == second[0]
    (begin, end), (began, ended) = ((told[0], told[-1]) for told in (first[1], second[1]))
    assert abs(begin["time"] - began["time"]) <= 2.0
    assert begin["onset"] == began["onset"]
    assert (end["event"], end["resolution"]) == (ended["event"], ended["resolution"])
    assert abs(end["time"] - ended["time"]) <= 10.0


JOINING = 10_000
MEMORY = 512 * 2**20


def test_ten_thousand_nodes_join(tmp_path: Path, learnt_state: Path) -> None:
    """A reload of a thousandfold network: old and new nodes are watched, and no record is lost over it."""
    rig.copy_state(learnt_state, tmp_path)
    data = tmp_path / "in.jsonl"
    data.touch()
    joining = [f"j{number:05d}" for number in range(JOINING)]
    ring = [[one, two] for one, two in zip(joining, [*joining[1:], joining[0]], strict=True)]
    (tmp_path / "edges.csv").write_text("".join(f"{one},{two}\n" for one, two in [*rig.EDGES, *ring]))
    settings: dict[str, Any] = {
        "sources": {"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}},
        "diagnosis": rig.only(),
        "state": {"directory": str(tmp_path / "state"), "outbox_records": 1000},
    }
    rng = np.random.default_rng(3)

    def feed(first: int, last: int, names: list[str], changed: tuple[str, ...] = ()) -> None:
        with data.open("a") as file:
            for tick in range(first, last):
                values = rng.normal(size=len(names)) + np.isin(names, changed) * 8.0
                file.writelines(
                    f'{{"time":{rig.START + tick},"node":"{name}","value":{value:.3f}}}\n'
                    for name, value in zip(names, values.tolist(), strict=True)
                )

    config = rig.write_config(tmp_path, **settings)
    with rig.Service(config) as service:
        service.wait_ready()
        feed(rig.LEARN + 60, 500, rig.NODES)
        rig.wait_for(lambda: service.metric("samples_received_total") == 8 * (500 - rig.LEARN - 60))
        rig.write_config(tmp_path, **settings, graph={"edges": str(tmp_path / "edges.csv")})
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "configuration taken over" in service.said(), what="the reload")
        everybody = [*rig.NODES, *joining]
        feed(500, 620, everybody)
        feed(620, 640, everybody, ("n3", "j00005"))

        def told() -> set[str]:
            out = tmp_path / "out.jsonl"
            lines = out.read_text().splitlines() if out.exists() else []
            found = [one for one in map(json.loads, lines) if one["event"] == "incident.opened"]
            return {node["name"] for one in found for node in one["nodes"]}

        rig.wait_for(lambda: {"n3", "j00005"} <= told(), what="incidents at an old node and at a new one")
        assert service.metric("outbox_dropped_total") == 0
        assert service.metric("nodes") == JOINING + 8
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        assert int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024 < MEMORY
        assert service.ask("/api/v1/nodes/j09999")[0] == 200
        assert service.stop() == 0
    events = {json.loads(line)["event"] for line in (tmp_path / "out.jsonl").read_text().splitlines()}
    assert not events & {"node.silent", "node.returned"}  # who joins has not been silent
