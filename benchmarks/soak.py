"""Does anything grow? The daemon for minutes or hours, with brokers that die and sinks that hang.

Half of the nodes come through Redis, half by HTTP, one sample a second each; every minute a node jumps for
twenty seconds, Redis is killed for ten, and the webhook hangs for ten. Memory, threads and descriptors are
taken every five seconds; the first quarter is warming up. Examining an incident takes some memory for a
moment, so growth is that of the least of each minute: the median slope between any two minutes (Theil-Sen).

With --speed the same in less time: samples, jumps, outages and requests of an hour in minutes.

    python benchmarks/soak.py [--minutes 5] [--speed 1] [--nodes 100] [--keep FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.service import Daemon, Network
from benchmarks.tables import machine, table
from tests import servers
from tests.detector.rig import Receiver

LOOK_S = 5.0
ROUND_S = 60  # of one jump, one outage, one hanging sink
FIELDS = ("memory MB", "threads", "descriptors", "journal KB")


class Site:
    """Sensors that send every second, whatever becomes of it."""

    def __init__(self, nodes: int, server: servers.Server, seed: int = 0) -> None:
        self.nodes, self.server = nodes, server
        self.sent = {"redis": 0, "http": 0}
        self.unanswered = 0  # requests
        self._rng = np.random.default_rng(seed)
        self._waiting: list[dict[str, str]] = []  # for Redis while it is away
        self._start = time.time()

    def send(self, url: str, second: int) -> None:
        """One sample of every node."""
        x = self._rng.standard_normal(self.nodes)
        begun, at = divmod(second, ROUND_S)
        if 20 <= at < 40:
            x[37 * begun % self.nodes] += 8.0  # far from the last one, which may still be open
        now = self._start + second
        batch = [{"time": now, "node": f"n{v}", "value": round(float(x[v]), 4)} for v in range(self.nodes)]
        self._waiting.append({"data": json.dumps(batch[0::2])})
        self._to_redis()
        request = urllib.request.Request(f"{url}/ingest", json.dumps(batch[1::2]).encode())
        self.sent["http"] += len(batch[1::2])
        try:
            urllib.request.urlopen(request, timeout=20).close()
        except OSError:  # refused, or no answer in time
            self.unanswered += 1

    def _to_redis(self) -> None:
        try:
            with redis.Redis(port=self.server.port, socket_timeout=2, retry=Retry(NoBackoff(), 0)) as client:
                while self._waiting:
                    client.xadd("samples", self._waiting[0], maxlen=10_000)
                    self.sent["redis"] += len(json.loads(self._waiting.pop(0)["data"]))
        except redis.RedisError:
            return

    def trouble(self, second: int, hook: Receiver) -> None:
        """What goes wrong, and is repaired, within a round."""
        at = second % ROUND_S
        if at == 5:
            self.server.kill()
        elif at == 15:
            self.server.start()
        hook.delay = 30.0 if 25 <= at < 35 else 0.0


def look(daemon: Daemon) -> list[float]:
    journal = daemon.metrics()["journal_size_bytes"] / 1024
    return [daemon.memory(), daemon.threads(), daemon.descriptors(), journal]


def watch(
    daemon: Daemon, site: Site, hook: Receiver, minutes: float, speed: float
) -> tuple[np.ndarray, dict[str, float]]:
    """The looks (L, 1 + fields) with the second of each, and the metrics at the end."""
    looks, began = [], time.monotonic()
    for second in range(round(60 * minutes)):
        site.trouble(second, hook)
        site.send(daemon.url, second)
        if second % LOOK_S == 0:
            looks.append([second, *look(daemon)])
        time.sleep(max(0.0, began + (second + 1) / speed - time.monotonic()))
    if site.server.process.poll() is not None:
        site.server.start()
    time.sleep(3 * LOOK_S)
    return np.array(looks), daemon.metrics() | {"cpu": daemon.cpu(), "seconds": time.monotonic() - began}


def soak(minutes: float, speed: float, nodes: int, keep: Path) -> tuple[Site, np.ndarray, dict[str, float]]:
    network = Network(keep, nodes, 1)
    with tempfile.TemporaryDirectory() as name:
        folder, hook = Path(name), Receiver()
        server = servers.redis(folder / "redis")
        sources = {
            "redis": {"type": "redis", "port": server.port, "streams": ["samples"], "timeout": "2s"},
            "http": {"type": "http"},
        }
        sinks = {
            "events": {"type": "file", "path": str(folder / "events.jsonl")},
            "hook": {"type": "webhook", "url": hook.url, "timeout": "3s"},
        }
        config = network.begin(folder, sources, sinks=sinks, align={"step": "1s", "lateness": "3s"},
                               incidents={"cool_down": "20s"})  # fmt: skip
        site = Site(nodes, server)
        try:
            with Daemon(config) as daemon:
                looks, last = watch(daemon, site, hook, minutes, speed)
                daemon.stop()
        finally:
            server.stop()
            hook.close()
    return site, looks, last


def slope(looks: np.ndarray, k: int) -> float:
    """Of the least of each round, per second: the median over all pairs of rounds."""
    rounds = looks[:, 0] // ROUND_S
    least = [looks[rounds == one][looks[rounds == one, k].argmin()] for one in np.unique(rounds)]
    pairs = [(b[k] - a[k]) / (b[0] - a[0]) for i, a in enumerate(least) for b in least[i + 1 :]]
    return float(np.median(pairs)) if pairs else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the network in a second")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="a folder for what was learnt, to be used again")
    parser.add_argument("--looks", type=Path, help="write all looks here, as CSV")
    parser.add_argument("--quick", action="store_true", help="one minute")
    options = parser.parse_args()
    minutes = 1.0 if options.quick else options.minutes
    with tempfile.TemporaryDirectory() as name:
        site, looks, last = soak(minutes, options.speed, options.nodes, options.keep or Path(name))
    print(f"{machine()}; {options.nodes} nodes, {minutes:g} minutes at speed {options.speed:g}")
    if options.looks:
        np.savetxt(options.looks, looks, "%.4g", ",", header=",".join(("second", *FIELDS)), comments="")
    warm = looks[len(looks) // 4 :]
    rows = []
    for k, field in enumerate(FIELDS, 1):
        rows.append([field, looks[0, k], warm[0, k], warm[-1, k], warm[:, k].max(), 3600.0 * slope(warm, k)])
    print(table(("", "at start", "warm", "at the end", "largest", "growth per hour"), rows))
    received = {name: last[f'samples_received_total{{source="{name}"}}'] for name in site.sent}
    opened = last['events_total{event="incident.opened"}']
    failed = last['source_failures_total{source="redis"}']
    dropped = last['outbox_dropped_total{sink="hook"}']
    print(f"sent {site.sent}, received {received}, {site.unanswered} requests without answer; "
          f"{opened:.0f} incidents, {failed:.0f} failed connections, {dropped:.0f} records dropped; "
          f"CPU {last['cpu'] / last['seconds']:.1%} of a core")  # fmt: skip


if __name__ == "__main__":
    main()
