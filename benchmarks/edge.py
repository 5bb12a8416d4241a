"""Boxes that watch one network: delays, false incidents and bytes, by how late and how lossy messages are.

    OPENBLAS_NUM_THREADS=1 python benchmarks/edge.py [--boxes 2 4 16] [--ticks T]
    OPENBLAS_NUM_THREADS=1 python benchmarks/edge.py --daemons [--boxes ...] [--ticks T]     as root

The first plays many ticks through pipelines of one process, and says what lateness and loss cost. The second
runs a daemon per box, each in a network namespace of its own, with Mosquitto in another; packets between them
go through a program that delays and drops them (benchmarks/edge_wire.py), since not every kernel has netem.
In both each box has learnt by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import edge_network as net
from detector.edge import messages
from detector.edge.dictionary import SharedDictionary
from detector.edge.messages import Refused
from detector.events.model import Event
from detector.pipeline.pipeline import Pipeline

KEY = b"0123456789abcdef"
CONDITIONS: dict[str, tuple[int, float]] = {  # ticks beyond the one that is always there, and share lost
    "in time": (0, 0.0),
    "1 % lost": (0, 0.01),
    "20 % lost": (0, 0.2),
    "1 tick late": (1, 0.0),
    "5 ticks late": (5, 0.0),
    "nothing heard": (0, 1.0),
}


def frozen(pipeline: Pipeline) -> tuple[dict[str, np.ndarray], bytes]:
    arrays, meta = pipeline.state()
    return arrays, msgspec.json.encode(meta)


def thawed(state: tuple[dict[str, np.ndarray], bytes], watched: Any, share: float) -> Pipeline:
    arrays = {name: array.copy() for name, array in state[0].items()}
    made = Pipeline.from_state(watched, 1, net.settings(share), arrays, msgspec.json.decode(state[1]))
    made.told = deque(maxlen=64)
    return made


def learn(k: int) -> dict[str, tuple[dict[str, np.ndarray], bytes]]:
    """The state of every box by itself, with the dictionary of the first."""
    found, shared = {}, None
    for box in net.boxes(k):
        made = net.learnt(k, box, shared)
        shared = shared or SharedDictionary.of(made.engine.shared, made.settings)  # type: ignore[arg-type]
        found[box] = frozen(made)
    return found


class Emulation:
    """All boxes in one process; messages of a tick arrive ``late`` ticks after they would, or are lost."""

    def __init__(self, pipelines: dict[str, Pipeline], late: int, lost: float) -> None:
        self.all, self.late, self.lost = pipelines, late, lost
        self.rng = np.random.default_rng(0)
        self.held: deque[list[tuple[str, bytes]]] = deque()
        self.bytes = 0

    def play(self, X: np.ndarray) -> list[Event]:
        events = []
        for t in range(len(X)):
            told = []
            for name, one in self.all.items():
                events += one.push(net.samples(X, t, one.names))
                for said in one.told or ():
                    record = messages.record(said, KEY)
                    self.bytes += len(msgspec.json.encode(record))
                    told.append((name, messages.pack(said)))
                if one.told:
                    one.told.clear()
            self.held.append(told)
            if len(self.held) > self.late:
                self.deliver(self.held.popleft())
        return events

    def deliver(self, told: list[tuple[str, bytes]]) -> None:
        for sender, body in told:
            for name, one in self.all.items():
                if one.neighbours is None or sender not in one.neighbours.all:
                    continue
                if self.lost and self.rng.random() < self.lost:
                    continue
                try:
                    one.hear(body)
                except Refused as refused:
                    raise RuntimeError(f"{name}: {refused}") from None


def emulate(k: int, ticks: int) -> None:
    X = net.quiet(ticks, 7)
    truths = net.changes(k, 200, ticks)
    changed = net.with_changes(X, truths)
    alone, whole, uncut = learn(k), frozen(net.learnt(k, None)), frozen(net.learnt_on(net.network()))
    at_cuts = sum(len(net.around(k, box).told_by(box)) for box in net.boxes(k))
    ghosts = sum(len(net.around(k, box).cut.nodes) for box in net.boxes(k))
    print(
        f"\n{k} boxes: {at_cuts} of {net.N} nodes at cuts, {ghosts / net.N:.2f} copies per node; "
        f"{len(truths)} changes"
    )
    expected = ticks / 250
    print(f"| learnt | messages | false in {ticks} quiet ticks, of {expected:.0f} | found | "
          "median delay | mean |\n|---|---|---|---|---|---|")  # fmt: skip

    def row(learnt: str, condition: str, make: Any, late: int, lost: float) -> None:
        quiet = net.score(Emulation(make(), late, lost).play(X), []).false
        told = Emulation(make(), late, lost)
        found = net.score(told.play(changed), truths)
        delays = np.array(found.found)
        print(
            f"| {learnt} | {condition} | {quiet} | {len(delays)} of {len(truths)} | {np.median(delays):.0f} "
            f"| {delays.mean():.1f} |", flush=True,
        )  # fmt: skip
        if condition == "in time":
            print(f"<!-- {told.bytes / ticks / at_cuts:.0f} bytes per node at a cut and tick -->", flush=True)

    row("one process, one part", "none", lambda: {"all": thawed(uncut, net.network(), 1.0)}, 0, 0.0)
    row(
        "one process, cut alike",
        "none",
        lambda: {"all": thawed(whole, net.around(k, None).network, 1.0)},
        0,
        0.0,
    )

    def boxes(state: Any) -> dict[str, Pipeline]:
        here = {box: net.around(k, box) for box in net.boxes(k)}
        return {
            box: thawed(state[box] if isinstance(state, dict) else state, a.network, a.share)
            for box, a in here.items()
        }

    row("the whole, by one process", "in time", lambda: boxes(whole), 0, 0.0)
    for condition, (late, lost) in CONDITIONS.items():
        row("each box by itself", condition, lambda: boxes(alone), late, lost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--boxes", type=int, nargs="+", default=[2, 4, 16])
    parser.add_argument("--ticks", type=int, default=5000)
    parser.add_argument("--daemons", action="store_true")
    parser.add_argument("--rate", type=float, default=2.0, help="ticks per second of the daemons")
    parser.add_argument("--quick", action="store_true", help="two boxes, 500 ticks")
    given = parser.parse_args()
    if given.quick:
        given.boxes, given.ticks = [2], 500
    for k in given.boxes:
        begun = time.monotonic()
        if given.daemons:
            from benchmarks.edge_daemons import compare

            if os.geteuid():
                raise SystemExit("network namespaces need root")
            with tempfile.TemporaryDirectory() as folder:
                compare(k, given.ticks, given.rate, Path(folder), learn(k))
        else:
            emulate(k, given.ticks)
        print(f"<!-- {time.monotonic() - begun:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
