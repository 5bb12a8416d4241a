"""A recording to try things out with, made by the simulated network in which a few neighbours change.

``python examples/make_recording.py FOLDER`` writes ``recording.csv`` (time, one column per sensor),
``edges.csv`` (lines u,v), ``labels.csv`` (start,end,nodes,kind: what really happened) and ``live.jsonl``,
the part from a little before the change on as a daemon would be sent it.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
from pathlib import Path

from connectors.simulation.source import Change, SimulateSource

START = 1_772_323_200.0  # time of the first sample: 2026-03-01T00:00:00Z
LIVE = 0.75  # share of the recording after which live.jsonl begins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=12, help="sensors (default: 12)")
    parser.add_argument("--samples", type=int, default=2400, help="samples of each (default: 2400)")
    parser.add_argument("--period", type=float, default=10.0, help="seconds between two (default: 10)")
    parser.add_argument("--change-at", type=float, default=0.8, help="where the change begins, 0 to 1")
    parser.add_argument("--change-for", type=float, default=0.1, help="share of the recording it lasts")
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()

    length = given.samples * given.period
    change = Change(at=given.change_at * length, lasts=given.change_for * length, kind="mean", size=1.5,
                    nodes=min(4, given.nodes))  # fmt: skip
    source = SimulateSource(
        SimulateSource.Config(nodes=given.nodes, topology="geometric", period=given.period, speed=0.0,
                              ticks=given.samples, start=START, changes=[change], seed=given.seed)
    )  # fmt: skip
    given.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(write_samples(source, given.folder, START + LIVE * length))
    with (given.folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows(sorted(source.graph().edges))
    with (given.folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["start", "end", "nodes", "kind"])
        for truth in source.truth(given.samples):
            rows.writerow([truth.begin, truth.end, " ".join(truth.nodes), truth.kind])


async def write_samples(source: SimulateSource, folder: Path, live: float) -> None:
    """Wide CSV: a line per tick, the time and then each sensor. JSON lines: a line per sample."""
    await source.open(None)
    with (folder / "recording.csv").open("w", newline="") as wide, (folder / "live.jsonl").open("w") as long:
        rows = csv.writer(wide)
        rows.writerow(["time", *source.names])
        row: list[float] = []
        while (batch := await source.read()) is not None:
            for sample in batch.samples:
                value = round(20.0 + 0.5 * sample.values[0], 4)  # say, degrees
                row.append(value)
                if len(row) == len(source.names):
                    rows.writerow([sample.time, *row])
                    row = []
                if sample.time >= live:
                    long.write(json.dumps({"time": sample.time, "node": sample.node, "value": value}) + "\n")
    await source.close()


if __name__ == "__main__":
    main()
