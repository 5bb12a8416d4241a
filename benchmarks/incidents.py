"""What an operator is told: 48 simulated hours with 60 events, some accepted, some cleared, some ignored.

    OPENBLAS_NUM_THREADS=1 python benchmarks/incidents.py [--quick] [--seeds 0 1 2] [--against PYTHON ...]

A grid of sensors with levels and spreads of their own. Events of all kinds come one after the other, some of
them next to one that is still open, some at the same time elsewhere. For each event:

    opened     incidents that opened while it lasted and hold its nodes; right is one
    nodes      precision and recall of the nodes called changed, 25 ticks after the opening
    onset      error in ticks
    kind       whether the first statement names what changed
    end        whether the incident ended as it should: cleared, accepted, or back to the earlier normal

Incidents that hold no node of any event are false ones; the budget says how many there may be. `--against`
runs the same streams under another installed version, in its own interpreter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIDE = 7  # of the grid
STEP = 30.0  # seconds
HOURS, EVENTS = 48, 60
LEARN = 4000
KINDS = ("mean", "mean", "spread", "shape", "drift", "stuck")
OPERATOR = ("ignore", "clear", "accept", "ignore")
BUDGET = "1 per 5000 ticks"
START = 1.8e9


@dataclass
class Happening:
    """One event: ``nodes`` change in ``kind`` from tick ``begin`` to ``end`` and what the operator does."""

    kind: str
    nodes: list[int]
    begin: int
    end: int
    does: str
    size: float


@dataclass
class Seen:
    """What the detector said about one event."""

    incidents: list[str] = field(default_factory=list)
    precision: float | None = None
    recall: float | None = None
    onset: float | None = None
    kind: bool = False
    end: bool = False
    delay: float | None = None
    told: bool = False  # as stuck sensors, which have events of their own
    again: int = 0  # incidents about the end of a change that had been accepted


def script(graph: nx.Graph[int], seed: int, hours: int, events: int) -> list[Happening]:
    """Every third begins while the one before lasts, and every sixth next to it."""
    rng = np.random.default_rng([seed, 5])
    ticks = int(hours * 3600 / STEP)
    happenings: list[Happening] = []
    third = (ticks - 300) / (events / 3)  # three events: two after one another, and one beside the second
    for k in range(events):
        last = happenings[-1] if happenings else None
        beside = last if k % 3 == 2 else None
        kind = KINDS[k % len(KINDS)]
        size = int(rng.integers(10, 13)) if kind == "shape" else int(rng.integers(3, 7))
        centre = int(rng.integers(graph.number_of_nodes()))
        if beside is not None:  # next to it, or at the other end of the grid
            distance = nx.single_source_shortest_path_length(graph, beside.nodes[0])
            wanted = 3 if k % 6 == 5 else max(distance.values()) - 1
            centre = int(rng.choice([v for v, d in distance.items() if d == wanted]))
        near = nx.single_source_shortest_path_length(graph, centre, 4)
        taken = set(beside.nodes) if beside is not None else set()
        nodes = sorted([v for v in sorted(near, key=lambda v: (near[v], v)) if v not in taken][:size])
        at = 150 + int(k // 3 * third + (0.0 if k % 3 == 0 else 0.45 * third))
        if beside is not None:
            at = beside.begin + (60 if beside.kind == "drift" else 30)
        strength = float(rng.choice([1.5, 2.5, 4.0, 8.0])) * float(rng.choice([-1.0, 1.0]))
        lasts = int(rng.integers(70, 100))
        happenings.append(Happening(kind, nodes, at, at + lasts, OPERATOR[k % len(OPERATOR)], strength))
    return happenings


def world(seed: int) -> tuple[nx.Graph[int], Floats, Floats]:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(SIDE, SIDE))
    rng = np.random.default_rng([seed, 1])
    n = graph.number_of_nodes()
    return graph, rng.normal(50.0, 15.0, n), np.exp(rng.normal(0.0, 0.5, n))


def noise(seed: int, first: int, ticks: int, n: int) -> Floats:
    return np.random.default_rng([seed, 2, first]).normal(size=(ticks, n))


def stream(happenings: list[Happening], seed: int, ticks: int, n: int) -> Floats:
    x = noise(seed, 1, ticks, n)
    rng = np.random.default_rng([seed, 3])
    for one in happenings:
        part = x[one.begin : one.end, one.nodes]
        if one.kind == "mean":
            part = part + one.size
        elif one.kind == "spread":
            part = part * 3.0
        elif one.kind == "shape":  # two modes, the same mean and nearly the same spread
            part = 0.35 * part + np.where(rng.random(part.shape) < 0.5, -1.0, 1.0) * 0.94
        elif one.kind == "drift":
            part = part + np.sign(one.size) * np.linspace(0.0, 5.0, len(part))[:, None]
        elif one.kind == "stuck":
            part = np.broadcast_to(part[:1], part.shape)
        x[one.begin : one.end, one.nodes] = part
    return x


def play(seed: int, hours: int = HOURS, events: int = EVENTS) -> dict[str, Any]:
    """One seed under the version that this interpreter has."""
    from detector import NetworkDetector, __version__

    graph, centre, scale = world(seed)
    n, ticks = graph.number_of_nodes(), int(hours * 3600 / STEP)
    happenings = script(graph, seed, hours, events)
    settings: dict[str, Any] = {
        "align": {"step": STEP}, "alarm": {"budget": BUDGET, "learn": LEARN},
        "windows": {"reference": 150, "tests": [5, 10, 25, 50]},
    }  # fmt: skip
    watch = NetworkDetector(graph, **settings)
    history = centre + scale * noise(seed, 0, LEARN, n)
    watch.learn(history, START - STEP * np.arange(LEARN, 0, -1))
    x = centre + scale * stream(happenings, seed, ticks, n)
    seen = [Seen() for _ in happenings]
    owner: dict[str, int | None] = {}  # incident: its event, None: a false one
    opened: dict[str, int] = {}
    stuck = 0
    lines = 0
    for t, row in enumerate(x):
        told = watch.update(row, time=START + STEP * (t + 0.5))
        for id in [id for id, k in owner.items() if k is not None and id in watch.pipeline.incidents.open]:
            one = happenings[owner[id]]  # type: ignore[index]
            if t == opened[id] + 25:
                look(seen[owner[id]], one, watch.pipeline.incidents.open[id])  # type: ignore[index]
            due = {"accept": opened[id] + 30, "clear": one.end + 5, "ignore": -1}[one.does]
            if t == due:
                told += getattr(watch, one.does)(id, START + STEP * (t + 0.5))
        for event in told:
            lines += event.event.startswith("incident.")
            stuck += event.event == "node.stuck"
            if event.event == "node.stuck":
                for k, one in enumerate(happenings):
                    here = one.begin <= t <= one.end and int(event.nodes[0].name) in one.nodes
                    if one.kind == "stuck" and here:
                        seen[k].told = True
                        seen[k].kind = seen[k].end = True
            if event.event == "incident.opened" and event.incident:
                opened[event.incident] = t
                owner[event.incident] = k = match(event, happenings, t)
                if k is not None and t > happenings[k].end and happenings[k].does == "accept":
                    seen[k].again += 1  # the end of an accepted change is a change
                elif k is not None:
                    seen[k].incidents.append(event.incident)
                    seen[k].delay = seen[k].delay if seen[k].delay is not None else t - happenings[k].begin
            if event.event == "incident.resolved" and (k := owner.get(event.incident)) is not None:
                finish(seen[k], happenings[k], event, t)
    return {"seed": seed, "version": __version__, "ticks": ticks, "lines": lines,
            "false": sum(k is None for k in owner.values()), "expected": ticks / 5000.0,
            "open": len(watch.pipeline.incidents.open),
            "events": [vars(one) | {"happening": vars(h)}
                       for one, h in zip(seen, happenings, strict=True)]}  # fmt: skip


def match(event: Any, happenings: list[Happening], t: int) -> int | None:
    """The event that an opened incident is about: it lasts, or has just ended, and shares most nodes."""
    names = {int(node.name) for node in event.nodes}
    shared = [
        (len(names & set(one.nodes)), -abs(t - one.begin), k)
        for k, one in enumerate(happenings)
        if one.begin <= t <= one.end + 60 and names & set(one.nodes)
    ]
    return max(shared)[2] if shared else None


def look(seen: Seen, one: Happening, incident: Any) -> None:
    named = {int(name) for name, member in incident.members.items() if not member.suspected}
    truth = set(one.nodes)
    if seen.recall is None:
        seen.recall = len(named & truth) / len(truth)
        seen.precision = len(named & truth) / len(named) if named else None
        if incident.onset is not None:
            seen.onset = (incident.onset.time - START) / STEP - one.begin - 0.5
        first = incident.description[0] if incident.description else None
        wanted = {"mean": {"mean"}, "drift": {"mean"}, "spread": {"spread"}, "stuck": {"spread", "mean"},
                  "shape": {"tails", "distribution", "spread", "asymmetry"}}[one.kind]  # fmt: skip
        right = first is not None and first.kind in wanted
        if right and one.kind in ("mean", "drift"):
            right = first.effect is not None and np.sign(first.effect) == np.sign(one.size)
        seen.kind = seen.kind or bool(right)


def finish(seen: Seen, one: Happening, event: Any, t: int) -> None:
    """Right is: as the operator said, or cleared within 60 ticks of the end, not before it."""
    if event.by == "operator":
        seen.end = True
    elif event.resolution in ("cleared", "restored", "merged"):
        seen.end = seen.end or one.end <= t <= one.end + 60


def show(runs: dict[str, list[dict[str, Any]]]) -> None:
    from tables import machine, table

    print(machine(), "\n")
    header = ["version", "seed", "events", "opened once", "not at all", "more than once", "false (budget)",
              "precision", "recall", "onset error, median", "within 2", "delay, median", "right kind",
              "right end", "records", "left open"]  # fmt: skip
    rows: list[list[object]] = []
    for name, found in runs.items():
        rows += [[name, run["seed"], *_line(run)] for run in found]
        if len(found) > 1:
            joined = {"events": [e for run in found for e in run["events"]]} | {
                key: sum(run[key] for run in found) for key in ("false", "expected", "lines", "open")
            }
            rows.append([name, "all", *_line(joined)])
    print(table(header, rows))


def _line(run: dict[str, Any]) -> list[object]:
    events = run["events"]
    counts = np.array([max(len(e["incidents"]), int(e["told"])) for e in events])
    onsets = np.abs([e["onset"] for e in events if e["onset"] is not None])

    def mean(key: str) -> object:
        known = [e[key] for e in events if e[key] is not None]
        return f"{np.mean(known):.2f}" if known else "–"

    delays = [e["delay"] for e in events if e["delay"] is not None]
    return [
        len(events), int((counts == 1).sum()), int((counts == 0).sum()), int((counts > 1).sum()),
        f"{run['false']} ({run['expected']:.1f})", mean("precision"), mean("recall"),
        f"{np.median(onsets):.1f}" if len(onsets) else "–",
        f"{np.mean(onsets <= 2.0):.2f}" if len(onsets) else "–",
        f"{np.median(delays):.0f}" if delays else "–", mean("kind"), mean("end"), run["lines"], run["open"],
    ]  # fmt: skip


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--quick", action="store_true", help="one seed, 6 events in 6 hours")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--against", type=Path, nargs="*", default=[], help="interpreters of other versions")
    parser.add_argument("--json", action="store_true", help="one line for each seed, nothing else")
    parser.add_argument("--details", action="store_true", help="every event of the first seed")
    args = parser.parse_args()
    length = (6, 6) if args.quick else (HOURS, EVENTS)
    if args.quick:
        args.seeds = args.seeds[:1]
    if args.json:
        for seed in args.seeds:
            print(json.dumps(play(seed, *length)), flush=True)
        return
    runs: dict[str, list[dict[str, Any]]] = {}
    for python in args.against:
        done = subprocess.run(
            [python, __file__, "--json", *["--quick"] * args.quick, "--seeds", *map(str, args.seeds)],
            check=True, capture_output=True, text=True, cwd=python.parent.parent.parent,
        )  # fmt: skip
        found = [json.loads(line) for line in done.stdout.splitlines()]
        runs[f"{found[0]['version']} ({python.parent.parent.parent.name})"] = found
    runs["this"] = [play(seed, *length) for seed in args.seeds]
    show(runs)
    if args.details:
        for event in runs["this"][0]["events"]:
            print(event, file=sys.stderr)


if __name__ == "__main__":
    main()
