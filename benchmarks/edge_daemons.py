"""Real daemons for benchmarks/edge.py: one per box, each in a network namespace, Mosquitto in another."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from msgspec import convert

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import edge_network as net
from benchmarks.edge_wire import HUB, Wires
from detector.events.model import Event
from detector.replay.learnt import save_learnt
from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.service import StateSettings

CONDITIONS = ((0.0, 0.0), (0.02, 0.01), (0.2, 0.01))  # seconds one way, share of packets lost
PORT = 1883
MOSQUITTO = f"listener {PORT}\nallow_anonymous true\npersistence false\nlog_type error\nuser root\n"


def configuration(k: int, box: str, folder: Path) -> dict[str, Any]:
    near = {"type": "mqtt", "host": HUB, "port": PORT, "timeout": "10s"}
    topics = [f"edge/{other}" for other in net.around(k, box).neighbours]
    links = [[u, v, w] for u, v, w in net.network().edges()]
    return {
        "graph": {"edges": links, "nodes": list(net.network().names)},
        "sources": {
            "in": {"type": "stdin"},
            "near": {**near, "topics": topics, "qos": 0, "client_id": f"{box}-in"},
        },
        "sinks": {
            "out": {"type": "file", "path": str(folder / "out.jsonl")},
            "near": {**near, "topic": f"edge/{box}", "client_id": f"{box}-out"},
        },
        **net.GROUPS,
        "edge": {
            "box": box,
            "boxes": net.boxes(k),
            "source": "near",
            "sink": "near",
            "key_file": str(folder / "key"),
        },
        "state": {"directory": str(folder / "state")},
        "http": {"port": 9178},
    }


class Box:
    """One daemon in its namespace, fed by its standard input."""

    def __init__(self, wires: Wires, number: int, k: int, box: str, folder: Path, learnt: Any) -> None:
        folder.mkdir(parents=True)
        self.name, self.folder, self.wires, self.number = box, folder, wires, number
        self.nodes = net.around(k, box).network.names
        self.neighbours = len(net.around(k, box).neighbours)
        (folder / "key").write_text("0123456789abcdef")
        (folder / "config.yaml").write_text(yaml.safe_dump(configuration(k, box, folder)))
        save_learnt(StateSettings(directory=folder / "state", backup_keep=0), DiagnosisSettings(), learnt)
        command = [sys.executable, "-m", "detector", "run", "--config", str(folder / "config.yaml")]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*wires.inside(number), *command], stdin=subprocess.PIPE, stderr=log
            )

    def tick(self, X: np.ndarray, t: int) -> None:
        assert self.process.stdin is not None
        lines = [
            json.dumps({"time": one.time, "node": one.node, "value": one.values[0]})
            for one in net.samples(X, t, self.nodes)
        ]
        self.process.stdin.write(("\n".join(lines) + "\n").encode())
        self.process.stdin.flush()

    def metrics(self) -> str:
        ask = (
            "import urllib.request as u; "
            "print(u.urlopen('http://127.0.0.1:9178/metrics', timeout=20).read().decode())"
        )
        command = [*self.wires.inside(self.number), sys.executable, "-c", ask]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def ready(self) -> bool:
        return " ready: " in (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def events(self) -> list[Event]:
        path = self.folder / "out.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [convert(json.loads(line), Event) for line in lines]


def value(page: str, name: str, **labels: str) -> float:
    """The sum over the series with these labels."""
    found = 0.0
    for line in page.splitlines():
        head, _, number = line.rpartition(" ")
        if head.split("{")[0] == f"detector_{name}" and all(
            f'{key}="{v}"' in head for key, v in labels.items()
        ):
            found += float(number)
    return found


def run(
    k: int, X: np.ndarray, rate: float, folder: Path, states: Any, delay: float, loss: float
) -> dict[str, Any]:
    """Play ``X`` at ``rate`` ticks a second through daemons with that line between them."""
    wires = Wires(f"edge{k}", k, delay, loss)
    (folder / "mosquitto.conf").write_text(MOSQUITTO)
    broker = subprocess.Popen([*wires.inside(0), "mosquitto", "-c", str(folder / "mosquitto.conf")])
    made: list[Box] = []
    try:
        for number, box in enumerate(net.boxes(k), start=1):
            here = net.around(k, box)
            learnt = states(box, here)
            made.append(Box(wires, number, k, box, folder / f"{delay}-{loss}" / box, learnt))
        while not all(box.ready() for box in made):
            if any(box.process.poll() is not None for box in made):
                raise RuntimeError(
                    next((b.folder / "log").read_text() for b in made if b.process.poll() is not None)
                )
            time.sleep(0.1)
        time.sleep(3.0)
        begun, ages = time.monotonic(), []
        for t in range(len(X)):
            time.sleep(max(begun + t / rate - time.monotonic(), 0.0))
            for box in made:
                box.tick(X, t)
            if t % 20 == 19:
                ages += [value(box.metrics(), "boundary_age_ticks") / box.neighbours for box in made[:4]]
        seconds = time.monotonic() - begun
        time.sleep(1.0 + 4 * delay)
        pages = [box.metrics() for box in made]
        for box in made:
            box.stop()
        events = [event for box in made for event in box.events()]
    finally:
        for box in made:
            if box.process.poll() is None:
                box.process.kill()
        broker.kill()
        broker.wait()
        wires.close()
    totals = {
        outcome: sum(value(page, "boundary_messages_total", outcome=outcome) for page in pages)
        for outcome in ("sent", "heard", "late", "dropped", "failed")
    }
    sent = sum(value(page, "boundary_bytes_total", direction="sent") for page in pages)
    read = sum(
        value(page, "boundary_messages_total", outcome="sent") * box.neighbours
        for box, page in zip(made, pages, strict=True)
    )
    return {
        "events": events,
        "ages": ages,
        "bytes": sent / seconds / k,
        "totals": totals,
        "share": totals["heard"] / max(read, 1.0),
    }


def compare(k: int, ticks: int, rate: float, folder: Path, alone: dict[str, Any]) -> None:
    from benchmarks.edge import thawed

    truths = net.changes(k, 40, ticks)
    X = net.with_changes(net.quiet(ticks, 7), truths)
    print(f"\n{k} daemons, {rate:g} ticks a second, {ticks} ticks, {len(truths)} changes")
    print("| one way | loss | found | median delay | false | late beyond one tick | kB/s told per box | "
          "messages: sent, dropped, heard of those told |\n|---|---|---|---|---|---|---|---|")  # fmt: skip

    def state(box: str, here: Any) -> Any:
        return thawed(alone[box], here.network, here.share)

    for delay, loss in CONDITIONS:
        ran = run(k, X, rate, folder, state, delay, loss)
        found, told = net.score(ran["events"], truths), ran["totals"]
        print(
            f"| {1e3 * delay:.0f} ms | {loss:.0%} | {len(found.found)} of {len(truths)} | "
            f"{np.median(found.found):.0f} | {found.false} | {np.mean(ran['ages']):.2f} | "
            f"{ran['bytes'] / 1e3:.2f} | "
            f"{told['sent']:.0f}, {told['dropped']:.0f}, {ran['share']:.1%} |", flush=True,
        )  # fmt: skip
