"""How long a tick takes in which an actor of a Ray cluster dies, or the machine that it is on.

    OPENBLAS_NUM_THREADS=1 python benchmarks/scale_recovery.py [--nodes N ...] [--quick]

Two actors, a cluster of three nodes of this machine, planar networks as in benchmarks/scale.py; nearly as
many turns to repeat as there may be. A node is considered dead after 1.5 s.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.detector.engines.runners import clusters  # isort: skip: it sets what Ray reads on import

from benchmarks import scale
from detector.engines.runners import cluster as runner
from detector.engines.runners.base import started
from detector.settings.core import Settings

TURNS = runner.EVERY - 10


def kill_process(engine: Any, machines: list[Any]) -> None:
    os.kill(engine.holders.processes()[0][1], signal.SIGKILL)


def kill_machine(engine: Any, machines: list[Any]) -> None:
    lost = engine.holders.processes()[0][0]
    victim = next(machine for machine in machines if machine.node_id == lost)
    machines.remove(victim)
    clusters.power_off(victim)


def measure(n: int, cluster: Any, machines: list[Any], folder: str) -> None:
    graph = scale.planar(n)
    ray: dict[str, Any] = {"type": "ray", "workers": 2, "address": cluster.address, "storage": folder}
    settings = Settings.of(windows={"reference": scale.REFERENCE, "tests": list(scale.TESTS)}, engine=ray)
    for what, kill in (("process", kill_process), ("machine", kill_machine)):
        engine: Any = started(scale.made(graph, 2), graph, settings)
        scale.play(engine, scale.values(len(engine.event), 0, TURNS))
        began = time.perf_counter()
        kill(engine, machines)
        scale.play(engine, scale.values(len(engine.event), TURNS, TURNS + 1))
        took, load = time.perf_counter() - began, os.getloadavg()[0]
        assert engine.holders.recovered == 1
        print(f"| {n} | {what} | {took:.1f} | {load:.1f} |", flush=True)
        engine.holders.close()
    machines.append(clusters.node(cluster, 2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[40, 1000, 10_000])
    parser.add_argument("--quick", action="store_true", help="40 nodes")
    given = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    made = clusters.started(0)
    try:
        members = [clusters.node(made, 2), clusters.node(made, 2)]
        print(
            f"\n{TURNS} turns repeated\n\n| nodes | what dies | seconds | load |\n|---|---|---|---|",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as storage:
            for size in [40] if given.quick else given.nodes:
                measure(size, made, members, f"{storage}/shared")
    finally:
        clusters.end(made)
