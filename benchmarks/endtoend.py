"""Samples a second through every feed to a decision, in the real daemon with state and outbox, on one core.

Each row is one feed and one network: what a bare client of that protocol takes on the same core (for stdin:
`cat` and decode), what the daemon takes to the decision, and its share. Where the server keeps messages the
daemon works off a backlog, otherwise they are sent as fast as it takes them. Rates a second of wall time,
and of the CPU time of the process: the latter hardly changes with what else the machine is doing. Then the
time from arrival to decision with half of that load.

    python benchmarks/endtoend.py [--quick] [--only stdin redis ...] [--nodes 1000x1 100x3] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.feeds import FEEDS, Feed, Http, Stdin
from benchmarks.service import Daemon, Network, samples, values
from benchmarks.tables import machine, table

SAMPLES = {"stdin": 1_000_000, "http": 500_000, "redis": 300_000}  # and of the others:
OTHERS = 100_000
PACE_S = 0.02  # between two sends with half of the load


@dataclass(frozen=True)
class Load:
    """A feed with so many samples in a message."""

    feed: type[Feed]
    per_message: int

    @property
    def name(self) -> str:
        return self.feed.name + (f", {self.per_message} a message" if self.per_message > 1 else "")

    def messages(self, network: Network, count: int) -> list[bytes]:
        """About `count` samples, whole ticks of them."""
        ticks = max(1, min(count, self.feed.most * self.per_message) // network.nodes)
        if self.feed.most < 10**6:  # it counts bytes
            ticks = min(ticks, 4_000_000 // (60 * network.nodes))
        single = list(samples(values(network.nodes, network.dim, ticks), 0))
        if self.per_message == 1:
            return single
        cuts = range(0, len(single), self.per_message)
        return [b"[" + b",".join(single[at : at + self.per_message]) + b"]" for at in cuts]


def loads(only: Sequence[str]) -> Iterator[Load]:
    for feed in FEEDS:
        if only and not any(feed.name.startswith(name) for name in only):
            continue
        if feed is Http:
            yield Load(feed, 1000)
        elif feed is Stdin:
            yield Load(feed, 1)
        else:
            yield Load(feed, 1)
            yield Load(feed, 100)


@dataclass(frozen=True)
class Result:
    """What became of one load."""

    count: int  # samples
    wall: float  # s, from the first sample read to the decision on the last
    cpu: float  # s of the daemon
    start: float  # s until it was ready
    rest: float  # MB before the first sample
    peak: float
    latencies: dict[float, float]  # seconds by share of batches, if it was asked for


def run(
    load: Load, network: Network, folder: Path, messages: list[bytes], pace: float | None = None
) -> Result:
    """Through the daemon; with `pace` so many messages a second."""
    count = len(messages) * load.per_message
    align = {"step": "1s", "lateness": f"{20_000 // network.nodes}s" if load.feed is Http else "0s"}
    feed = load.feed(folder / "feed")
    try:
        config = network.begin(folder, {"in": feed.source()}, align=align)
        backlog = feed.stores and pace is None
        if backlog:
            feed.begin(None)
            feed.send(messages)
            feed.end()
        with Daemon(config, stdin=feed.stdin()) as daemon:
            if not backlog:  # what is sent before anybody listens may be lost
                daemon.wait(lambda: daemon.total("source_up") == 1, "the source")
            rest, cpu = daemon.memory(), daemon.cpu()
            first = time.monotonic()
            sender = threading.Thread(target=_send, args=(feed, daemon, messages, pace))
            if not backlog:
                sender.start()
            received = 0.0
            while received < count:
                time.sleep(0.2 if received < 0.8 * count else 0.05)  # each look costs the daemon some time
                before, received = received, daemon.total("samples_received_total")
                if backlog and not before:
                    first = time.monotonic() if not received else first  # it was still connecting
            daemon.wait(lambda: not daemon.metrics()["queue_samples"], "the queue")
            wall, cpu = time.monotonic() - first, daemon.cpu() - cpu
            if not backlog:
                sender.join()
            lost = daemon.total("samples_discarded_total") + daemon.total("samples_rejected_total")
            if lost:
                raise RuntimeError(f"{load.name}: {lost:.0f} samples discarded or rejected")
            latencies = {share: daemon.quantile("latency_seconds", share) for share in (0.5, 0.99)}
            peak = daemon.memory("VmHWM")
            daemon.stop()
    finally:
        feed.close()
    return Result(count, wall, cpu, daemon.start_s, rest, peak, latencies)


def _send(feed: Feed, daemon: Daemon, messages: Sequence[bytes], pace: float | None) -> None:
    feed.begin(daemon)
    if pace is None:
        feed.send(messages)
    else:
        began, sent = time.monotonic(), 0
        while sent < len(messages):
            due = min(len(messages), int((time.monotonic() - began) * pace) + 1)
            if due > sent:
                feed.send(messages[sent:due])
                sent = due
            time.sleep(PACE_S)
    feed.end()


def measure(load: Load, network: Network, share: int, repeats: int) -> tuple[list[object], list[object]]:
    """A row of the table of rates, and one of the table of latencies."""
    count = SAMPLES.get(load.feed.name, OTHERS) // share
    messages = load.messages(network, count * (3 if load.per_message == 100 else 1))
    bares, results = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as name:
            feed = load.feed(Path(name) / "feed")
            try:
                bares.append([rate * load.per_message for rate in feed.bare(messages)])
            finally:
                feed.close()
        with tempfile.TemporaryDirectory() as name:
            results.append(run(load, network, Path(name), messages))
    count = results[0].count
    bare, bare_cpu = (statistics.median(one[i] for one in bares) for i in (0, 1))
    rate = statistics.median(count / one.wall for one in results)
    rate_cpu = statistics.median(count / one.cpu for one in results)
    row = [f"{network.nodes} × {network.dim}", load.name, count, bare, rate, rate / bare, bare_cpu, rate_cpu,
           rate_cpu / bare_cpu, statistics.median(one.start for one in results), results[-1].rest,
           max(one.peak for one in results)]  # fmt: skip
    half = min(rate, rate_cpu) / 2
    with tempfile.TemporaryDirectory() as name:
        seconds = 2.0 if share > 1 else 10.0
        some = messages[: max(1, int(half * seconds / load.per_message))]
        calm = run(load, network, Path(name), some, half / load.per_message)
    latency = [f"{network.nodes} × {network.dim}", load.name, half, calm.cpu / calm.wall,
               *(1000 * value for value in calm.latencies.values())]  # fmt: skip
    return row, latency


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--only", nargs="*", default=[], help="feeds whose names begin so")
    parser.add_argument("--nodes", nargs="*", default=["1000x1", "100x3"], help="nodes x components")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median is told")
    parser.add_argument("--keep", type=Path, help="a folder for what was learnt, to be used again")
    options = parser.parse_args()
    rates, latencies = [], []
    with tempfile.TemporaryDirectory() as name:
        for size in options.nodes:
            network = Network(options.keep or Path(name), *map(int, size.split("x")))
            for load in loads(options.only):
                print(f"{size}, {load.name} …", file=sys.stderr, flush=True)
                row, latency = measure(load, network, 10 if options.quick else 1,
                                       1 if options.quick else options.repeats)  # fmt: skip
                rates.append(row)
                latencies.append(latency)
                print(*row, *latency[2:], sep="\t", file=sys.stderr, flush=True)
    print(machine())
    print(table(("network", "feed", "samples", "bare /s", "daemon /s", "share", "bare /CPU s",
                 "daemon /CPU s", "share", "s to start", "MB at rest", "MB peak"), rates))  # fmt: skip
    print()
    print(table(("network", "feed", "load /s", "of a core", "median ms", "p99 ms"), latencies))


if __name__ == "__main__":
    main()
