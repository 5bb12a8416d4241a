"""From the daemon's parts to its metrics, readiness and status: everything that only looks."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

from detector.alignment.samples import REASONS
from detector.events.model import Event
from detector.pipeline.status_view import StatusView
from detector.runtime.metrics import NODE_STATES
from detector.storage import cases as tables

if TYPE_CHECKING:
    from detector.daemon.daemon import Daemon


class Status:
    """Reads the daemon, never changes it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._counts: dict[str, int] = {}
        self._ticks = 0
        self._watching_since: float | None = None
        self._false: set[str] = set()
        self._labelled: set[str] = set()
        self._lost_cases = 0
        self._lost_aside: dict[str, int] = {}

    def baseline(self) -> None:
        """What the restored pipeline has counted in earlier lives is not counted again."""
        picture = self._daemon.worker.view
        self._counts, self._ticks = dict(picture.counts), picture.ticks

    async def load(self) -> None:
        store = self._daemon.recorder
        self._watching_since, self._false = await store.ask(store.store.false_alarms)
        self._labelled = set(await store.ask(store.store.read, tables.labels))

    def event(self, event: Event) -> None:
        metrics = self._daemon.metrics
        metrics.count("events_total", event=event.event)
        if event.event == "incident.opened":
            metrics.count("incidents_total", severity=event.severity)
        elif event.event == "detector.calibrated" and self._watching_since is None:
            self._watching_since = event.time
        elif event.event == "incident.labelled" and event.labels is not None and event.incident is not None:
            self._labelled.add(event.incident)
            (self._false.add if event.labels.alarm == "false" else self._false.discard)(event.incident)

    def refresh(self) -> None:
        """Bring the gauges up to date."""
        daemon, metrics = self._daemon, self._daemon.metrics
        metrics.set("event_loop_tasks", len(asyncio.all_tasks()))
        metrics.set("queue_samples", daemon.ingest_queue.samples)
        metrics.set("queue_capacity_samples", daemon.ingest_queue.capacity)
        metrics.set("state_up", 1 if daemon.recorder.failing is None else 0)
        if daemon.recorder.store.snapshot_time is not None:
            metrics.set("snapshot_timestamp_seconds", daemon.recorder.store.snapshot_time)
        lost, self._lost_cases = (
            daemon.recorder.store.lost_cases - self._lost_cases,
            daemon.recorder.store.lost_cases,
        )
        metrics.count("diagnosis_failures_total", lost, kind="", reason="dropped")
        for part, size in daemon.recorder.store.sizes.items():
            metrics.set("state_size_bytes", size, part=part)
        for name in daemon.readers:
            held = sum(part.count for part in daemon.intake.merge.of(name))
            metrics.set("source_held_samples", held, source=name)
        aside, lost_aside = daemon.recorder.store.set_aside, daemon.recorder.store.lost_set_aside
        for delivery in daemon.deliveries.values():
            name = delivery.name
            metrics.set("outbox_records", len(delivery.outbox), sink=name)
            metrics.set("outbox_set_aside_records", aside.get(name, 0), sink=name)
            gone = lost_aside.get(name, 0) - self._lost_aside.get(name, 0)
            metrics.count("outbox_dropped_total", gone, sink=name)
        self._lost_aside = dict(lost_aside)
        self._stream(daemon.worker.view)

    def _stream(self, picture: StatusView) -> None:
        metrics = self._daemon.metrics
        metrics.count("samples_accepted_total", self._grown(picture, "accepted"))
        for reason in REASONS:
            metrics.count("samples_discarded_total", self._grown(picture, reason), reason=reason)
        metrics.count("readings_masked_total", self._grown(picture, "masked"))
        metrics.count("ticks_total", max(0, picture.ticks - self._ticks))
        self._counts, self._ticks = dict(picture.counts), picture.ticks
        if picture.watermark is not None:
            metrics.set("watermark_timestamp_seconds", picture.watermark)
        metrics.set("watching", 1 if picture.phase == "watching" else 0)
        metrics.set("learning_progress_ratio", picture.progress)
        for state in NODE_STATES:
            metrics.set("nodes", picture.states.get(state, 0), state=state)
        for name, value in (
            ("statistic_max", _largest(picture.statistic)),
            ("event_statistic_max", _largest(picture.event_statistic)),
            ("solver_residual", picture.residual),
            ("solver_sweeps", picture.sweeps),
            ("dictionary_atoms", picture.dictionary_size),
            ("dictionary_coverage_ratio", picture.coverage),
            ("incidents_open", len(picture.open_incidents)),
            ("incidents_labelled_false", len(self._false)),
            ("labelled_incidents", len(self._labelled)),
            ("false_incident_rate_promised", picture.promised_rate),
            ("false_incident_rate_observed", self._observed(picture)),
            ("quiet_rate_ratio", picture.quiet_ratio),
        ):
            metrics.set(name, value)
        metrics.set("threshold", picture.threshold, level="node")
        metrics.set("threshold", picture.event_threshold, level="event")
        ages = picture.neighbours.items()
        metrics.replace("boundary_age_ticks", "neighbour", [(name, age) for name, (age, _) in ages])
        metrics.replace("boundary_neighbour_up", "neighbour", [(name, up) for name, (_, up) in ages])
        http = self._daemon.config.http
        if http.node_metrics == "top":
            metrics.replace("node_statistic", "node", picture.top(http.node_metrics_top))
        elif http.node_metrics == "listed":
            metrics.replace("node_statistic", "node", picture.listed(http.node_metrics_listed))

    def _grown(self, picture: StatusView, name: str) -> int:
        return max(0, picture.counts.get(name, 0) - self._counts.get(name, 0))

    def _observed(self, picture: StatusView) -> float:
        """False alarms by the word of people, per second of the stream since watching began."""
        if self._watching_since is None or picture.watermark is None:
            return math.nan
        watched = picture.watermark - self._watching_since
        return len(self._false) / watched if watched > 0 else math.nan

    def line(self) -> str:
        """One line for systemd's status and the log."""
        worker = self._daemon.worker
        if not hasattr(worker, "view"):
            return "loading state"
        picture = worker.view
        if worker.stage is not None:
            phase = f"calibrating: {worker.stage[0]} {worker.stage[1]:.0%}"
        elif picture.phase == "learning":
            phase = f"learning {picture.progress:.0%}"
        else:
            phase = f"watching, {len(picture.open_incidents)} incidents open"
        readers = self._daemon.readers.values()
        up = sum(reader.status in ("up", "ended") for reader in readers)
        lags = [reader.source.lag for reader in readers if reader.source.lag is not None]
        lag = f", lag {max(lags):.1f} s" if lags else ""
        trouble = ", state not saved" if self._daemon.recorder.failing is not None else ""
        return f"{phase}; {len(picture.names)} nodes, {up} of {len(readers)} sources up{lag}{trouble}"

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Whether every required part is good, and how each part is."""
        daemon = self._daemon
        failing = daemon.recorder.failing
        parts: dict[str, Any] = {
            "config": {"status": "ok"},
            "worker": {"status": "ok" if daemon.pulse.healthy else "failed"},
            "state": {"status": "ok"} if failing is None else {"status": "degraded", "error": failing},
        }
        if daemon.recorder.damages:  # since the start; what is left works
            parts["state"]["damaged"] = daemon.recorder.damages[-1].text
        if daemon.reload_error is not None:
            parts["config"] = {"status": "ok", "reload_refused": daemon.reload_error}
        if not daemon.ready:
            parts["service"] = {"status": "stopping" if daemon.signals.stop.is_set() else "starting"}
        good = all(part["status"] == "ok" for part in parts.values())
        sources = {name: _part(reader.status, reader.error) for name, reader in daemon.readers.items()}
        for name, reader in daemon.readers.items():
            if reader.usefulness.trouble:
                sources[name]["trouble"] = list(reader.usefulness.trouble.values())
        sinks = {name: _part(one.status, one.error) for name, one in daemon.deliveries.items()}
        for name in sinks:
            if aside := daemon.recorder.store.set_aside.get(name):
                sinks[name]["set_aside"] = aside
        good = good and all(part["status"] in ("up", "ended") for part in sources.values())
        # A dead sink is bad, but what it should have is safe: it does not make the detector unready. Nor does
        # a source that sends what cannot be used: a restart would not help, and the others are watched.
        limping = any(part["status"] in ("paused", "down", "failed") for part in sinks.values())
        if silent := [name for name, (_, up) in daemon.worker.view.neighbours.items() if not up]:
            parts["neighbours"] = {"status": "ok", "not_heard": silent}
            limping = True
        limping = limping or any("trouble" in part for part in sources.values())
        limping = limping or any("set_aside" in part for part in sinks.values())
        status = "unready" if not good else "degraded" if limping else "ready"
        return good, {"ready": good, "status": status, "parts": parts, "sources": sources, "sinks": sinks}

    def status(self) -> dict[str, Any]:
        """All that the status page shows, JSON-ready."""
        daemon, picture = self._daemon, self._daemon.worker.view
        stage = daemon.worker.stage
        return {
            "time": time.time(),
            "started": daemon.started,
            "summary": self.line(),
            "phase": picture.phase,
            "learning_progress": picture.progress,
            "calibrating": None if stage is None else {"stage": stage[0], "share": stage[1]},
            "watermark": picture.watermark,
            "ticks": picture.ticks,
            "counts": dict(picture.counts),
            "nodes": {"count": len(picture.names), "states": dict(picture.states)},
            "statistic_max": _finite(_largest(picture.statistic)),
            "event_statistic_max": _finite(_largest(picture.event_statistic)),
            "threshold": _finite(picture.threshold),
            "event_threshold": _finite(picture.event_threshold),
            "top_nodes": [{"name": name, "statistic": value} for name, value in picture.top(20)],
            "incidents_open": [event.record() for event in picture.open_incidents.values()],
            "promise": picture.promise,
            "promised_rate": _finite(picture.promised_rate),
            "quiet_ratio": _finite(picture.quiet_ratio),
            "observed_rate": _finite(self._observed(picture)),
            "coverage": _finite(picture.coverage),
            "dictionary_size": picture.dictionary_size,
            "residual": _finite(picture.residual),
            "queue": {"samples": daemon.ingest_queue.samples, "capacity": daemon.ingest_queue.capacity},
            "sources": {name: reader.describe() for name, reader in daemon.readers.items()},
            "sinks": {
                name: {**delivery.describe(), "set_aside": daemon.recorder.store.set_aside.get(name, 0)}
                for name, delivery in daemon.deliveries.items()
            },
            "state": {
                "folder": str(daemon.recorder.store.folder),
                "failing": daemon.recorder.failing,
                "snapshot": daemon.recorder.store.snapshot_time,
                "journal_bytes": daemon.recorder.store.journal_size,
                "bytes": dict(daemon.recorder.store.sizes),
                "damages": [damage.details() for damage in daemon.recorder.damages],
            },
            "edge": None
            if daemon.boundary is None
            else {
                "box": daemon.boundary.box,
                "error": daemon.boundary.error,
                "neighbours": {
                    name: {"age": age, "heard": up} for name, (age, up) in picture.neighbours.items()
                },
            },
            "report": None if picture.report is None else picture.report.record(),
            "dry_run": daemon.dry_run,
        }


def _part(status: str, error: str | None) -> dict[str, Any]:
    return {"status": status} if error is None else {"status": status, "error": error}


def _largest(values: Any) -> float:
    known = values[~(values != values)]
    return float(known.max()) if len(known) else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
