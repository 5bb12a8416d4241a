"""Does anything grow? The daemon for hours: incidents, labels, reloads, an open page, and faults.

Half of the nodes come through Redis, half by HTTP, one sample a second each; every minute a node jumps for
twenty seconds, and the incident is labelled. Reloads that change budget and sink are spread over the run; two
readers follow the page's stream while others poll it. At real speed Redis is killed and the webhook hangs for
ten seconds of every minute.

With --speed the same in less time. What grows with time is then found by ticks, and what grows with use by
records: growth is the median slope (Theil-Sen) of the least memory of each interval over the last half of the
run, per tick and per record, times the ticks and records of an hour at real speed.

    python benchmarks/soak.py [--minutes 60] [--speed 1] [--nodes 100] [--reloads 500] [--quick]
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import redis
import yaml
from redis.backoff import NoBackoff
from redis.retry import Retry

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.service import Daemon, Network
from benchmarks.tables import machine, table
from tests import servers
from tests.detector.rig import Receiver

ROUND_S = 60  # of one jump, one label, one outage
INTERVALS = 40  # of the run, whose least memory counts
FASTEST_FAULTS = 12.0  # at more than this speed brokers cannot be restarted in time
PAGES = ("/", "/api/v1/status", "/api/v1/incidents", "/api/v1/nodes/n3", "/readyz", "/metrics")
FIELDS = ("memory MB", "threads", "descriptors", "tasks", "database MB")


def ask(url: str, body: Any = None, timeout: float = 60.0) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        content: bytes = answer.read()
    return content


class Site:
    """Sensors that send whatever becomes of it, and people who look, label and change the configuration."""

    def __init__(self, nodes: int, server: servers.Server, config: Path, seed: int = 0) -> None:
        self.nodes, self.server, self.config = nodes, server, config
        self.sent = {"redis": 0, "http": 0}
        self.unanswered = self.labelled = self.reloaded = 0
        self._rng = np.random.default_rng(seed)
        self._waiting: list[dict[str, str]] = []  # for Redis while it is away
        self._start = time.time()
        self._known: set[str] = set()

    def send(self, url: str, first: int, seconds: int) -> None:
        """One sample of every node and second."""
        halves: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for second in range(first, first + seconds):
            x = self._rng.standard_normal(self.nodes)
            begun, at = divmod(second, ROUND_S)
            if 20 <= at < 40:
                x[37 * begun % self.nodes] += 8.0  # far from the last one, which may still be open
            for v in range(self.nodes):
                sample = {"time": self._start + second, "node": f"n{v}", "value": round(float(x[v]), 4)}
                halves[v % 2].append(sample)
        self._waiting.append({"data": json.dumps(halves[0])})
        self._to_redis()
        self.sent["http"] += len(halves[1])
        try:
            ask(f"{url}/ingest", halves[1])
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

    def look_and_label(self, url: str) -> None:
        """Every page once, and a label and a comment for every incident that has none."""
        for page in PAGES:
            ask(url + page)
        for one in json.loads(ask(f"{url}/api/v1/incidents?limit=50"))["incidents"]:
            if one["incident"] not in self._known:
                self._known.add(one["incident"])
                self.labelled += 1
                said = {
                    "alarm": "true" if self.labelled % 4 else "false",
                    "type": f"kind {self.labelled % 3}",
                }
                ask(f"{url}/api/v1/incidents/{one['incident']}/label", said)
                ask(f"{url}/api/v1/incidents/{one['incident']}/comments", {"text": f"seen {self.labelled}"})

    def reload(self, daemon: Daemon) -> None:
        """A configuration that differs, taken over: the pipeline is built anew, and a sink replaced."""
        self.reloaded += 1
        content = yaml.safe_load(self.config.read_text())
        content["alarm"]["budget"] = f"1 per {30 + self.reloaded % 2}d"
        content["sinks"]["events"]["path"] = str(self.config.with_name(f"events{self.reloaded % 2}.jsonl"))
        self.config.write_text(yaml.safe_dump(content))
        before = daemon.metrics()["config_last_reload_timestamp_seconds"]
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: daemon.metrics()["config_last_reload_timestamp_seconds"] > before, "the reload")


def follow(url: str) -> None:
    """Read the page's stream for as long as it lasts."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/live", timeout=600) as stream:
            while stream.readline():
                pass
    except OSError:
        return


def look(daemon: Daemon, state: Path) -> list[float]:
    """Ticks, records, and the fields."""
    found = daemon.metrics()
    records = sum(value for series, value in found.items() if series.startswith("events_total"))
    size = sum(path.stat().st_size for path in state.glob("detector.db*")) / 1e6
    now = [daemon.memory(), daemon.threads(), daemon.descriptors(), found["event_loop_tasks"], size]
    return [found["ticks_total"], records, *now]


def watch(
    daemon: Daemon, site: Site, hook: Receiver, minutes: float, speed: float, reloads: int, limit: float
) -> tuple[np.ndarray, dict[str, float]]:
    """The looks (L, 2 + fields), and the metrics at the end."""
    looks, began = [], time.monotonic()
    for _ in range(2):
        threading.Thread(target=follow, args=(daemon.url,), daemon=True).start()
    group, total = max(1, round(speed / 10)), round(60 * minutes)
    reloading, labelling, looking = 0.0, 0, 0.0
    for second in range(0, total, group):
        if time.monotonic() - began > 60 * limit:
            break
        if speed <= FASTEST_FAULTS:
            site.trouble(second, hook)
        site.send(daemon.url, second, group)
        if second // ROUND_S > labelling:
            labelling = second // ROUND_S
            site.look_and_label(daemon.url)
        while reloads and reloading < second / total * reloads:
            site.reload(daemon)
            reloading += 1
        if second >= looking:
            looks.append(look(daemon, site.config.parent / "state"))
            looking += total / INTERVALS / 8
        time.sleep(max(0.0, began + (second + group) / speed - time.monotonic()))
    if site.server.process.poll() is not None:
        site.server.start()
    time.sleep(5)
    return np.array(looks), daemon.metrics() | {"cpu": daemon.cpu(), "seconds": time.monotonic() - began}


def soak(
    minutes: float, speed: float, nodes: int, reloads: int, limit: float, keep: Path
) -> tuple[Site, np.ndarray, dict[str, float]]:
    network = Network(keep, nodes, 1)
    with tempfile.TemporaryDirectory() as name:
        folder, hook = Path(name), Receiver()
        server = servers.redis(folder / "redis")
        sources = {
            "redis": {"type": "redis", "port": server.port, "streams": ["samples"], "timeout": "2s"},
            "http": {"type": "http", "commit_timeout": "30s"},
        }
        sinks = {
            "events": {"type": "file", "path": str(folder / "events.jsonl")},
            "hook": {"type": "webhook", "url": hook.url, "timeout": "3s"},
        }
        lateness = max(3, round(3 * speed / 10))
        config = network.begin(folder, sources, sinks=sinks, incidents={"cool_down": "20s"},
                               align={"step": "1s", "lateness": f"{lateness}s"})  # fmt: skip
        site = Site(nodes, server, config)
        try:
            with Daemon(config) as daemon:
                looks, last = watch(daemon, site, hook, minutes, speed, reloads, limit)
                daemon.stop()
        finally:
            server.stop()
            hook.close()
    return site, looks, last


def slope(looks: np.ndarray, x: int, y: int) -> float:
    """Of the least of each interval of the last half over column ``x``: the median over all pairs."""
    intervals = np.array_split(looks, INTERVALS)[INTERVALS // 2 :]
    least = [part[part[:, y].argmin()] for part in intervals if len(part)]
    pairs = [
        (b[y] - a[y]) / (b[x] - a[x]) for i, a in enumerate(least) for b in least[i + 1 :] if b[x] > a[x]
    ]
    return float(np.median(pairs)) if pairs else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="of the network's time")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the network in a second")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--reloads", type=int, default=500, help="in all, spread over the run")
    parser.add_argument("--limit", type=float, default=1e9, help="end after so many minutes by the clock")
    parser.add_argument("--keep", type=Path, help="a folder for what was learnt, to be used again")
    parser.add_argument("--looks", type=Path, help="write all looks here, as CSV")
    parser.add_argument("--quick", action="store_true", help="ten minutes at speed 10, five reloads")
    options = parser.parse_args()
    minutes, speed, reloads = options.minutes, options.speed, options.reloads
    if options.quick:
        minutes, speed, reloads = 10.0, 10.0, 5
    with tempfile.TemporaryDirectory() as name:
        site, looks, last = soak(
            minutes, speed, options.nodes, reloads, options.limit, options.keep or Path(name)
        )
    print(f"{machine()}; {options.nodes} nodes, {minutes:g} minutes at speed {speed:g} "
          f"in {last['seconds'] / 60:.1f} minutes")  # fmt: skip
    if options.looks:
        header = ",".join(("ticks", "records", *FIELDS))
        np.savetxt(options.looks, looks, "%.6g", ",", header=header, comments="")
    half = len(looks) // 2
    hourly = (looks[-1, 1] - looks[half, 1]) / max(1.0, looks[-1, 0] - looks[half, 0]) * 3600.0
    rows = []
    for k, field in enumerate(FIELDS, 2):
        rows.append([field, looks[0, k], looks[half:, k].min(), looks[-1, k], looks[:, k].max(),
                     3600.0 * slope(looks, 0, k), hourly * slope(looks, 1, k)])  # fmt: skip
    heads = ("", "at start", "least of last half", "at the end", "largest", "per hour by ticks", "by records")
    print(table(heads, rows))
    received = {name: last[f'samples_received_total{{source="{name}"}}'] for name in site.sent}
    opened = last['events_total{event="incident.opened"}']
    dropped = last['outbox_dropped_total{sink="hook"}']
    parts = [(series.split('"')[1], value) for series, value in last.items() if "state_size_bytes" in series]
    print(table(("part of the state", "MB"), [[part, value / 1e6] for part, value in parts]))
    print(f"sent {site.sent}, received {received}, {site.unanswered} requests without answer; "
          f"{looks[-1, 0]:.0f} ticks, {opened:.0f} incidents, {looks[-1, 1]:.0f} records "
          f"({hourly:.0f} per hour of the network), {site.labelled} labels, {site.reloaded} reloads, "
          f"{dropped:.0f} records dropped; CPU {last['cpu'] / last['seconds']:.1%} of a core")  # fmt: skip


if __name__ == "__main__":
    main()
