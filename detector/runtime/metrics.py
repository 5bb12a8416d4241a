"""Every Prometheus metric, in one table. Counted per batch, on the event loop; few labels, all bounded."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.registry import Collector

from connectors.base import REASONS as DECODING_REASONS
from detector.alignment.samples import REASONS as STREAM_REASONS
from detector.events.schema import KINDS
from detector.incidents.case import STAGES
from detector.settings import renamed

Kind = Literal["counter", "gauge", "histogram"]
FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SLOW = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
MAX_LABEL = 128  # characters of a node name in a label
NODE_STATES = ("learning", "watching", "out_of_range", "suspected", "alarmed", "silent", "stuck")
OUTCOMES = ("delivered", "failed", "paused", "set_aside")
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True)
class Metric:
    """One line of the table; `name` without the prefix ``detector_``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = FAST


def counter(name: str, help: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(name, "counter", help, labels)


def gauge(name: str, help: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(name, "gauge", help, labels)


def histogram(name: str, help: str, buckets: tuple[float, ...] = FAST) -> Metric:
    return Metric(name, "histogram", help, buckets=buckets)


TABLE = (
    # samples
    counter("samples_received_total", "Samples that came through a source, usable or not.", ("source",)),
    counter("samples_rejected_total", "Samples that could not be decoded, by reason.", ("source", "reason")),
    counter("samples_accepted_total", "Samples that took their place in the stream."),
    counter("samples_discarded_total", "Decoded samples that the stream did not take.", ("reason",)),
    gauge("source_up", "Whether a source is connected (1) or not (0).", ("source",)),
    gauge("source_lag_seconds", "Time between sending and reading of the latest sample.", ("source",)),
    gauge("source_useless_ratio", "Share of a source that was late, unknown or malformed, lately.",
          ("source", "kind")),
    gauge("source_held_samples", "Samples of a source that wait for slower partitions.", ("source",)),
    counter("source_failures_total", "Connections of a source that failed or broke.", ("source",)),
    gauge("queue_samples", "Samples waiting for the pipeline."),
    gauge("queue_capacity_samples", "Samples that may wait before sources are held back."),
    # stream
    gauge("watermark_timestamp_seconds", "Time of the stream up to which everything is evaluated."),
    counter("ticks_total", "Ticks of the stream that were evaluated."),
    counter("readings_masked_total", "Isolated corrupt readings kept out of the windows."),
    histogram("update_duration_seconds", "Time to work on what had arrived."),
    histogram("latency_seconds", "Time from the arrival of a batch to its decision."),
    gauge("watching", "Whether decisions are made (1) or it is still learning (0)."),
    gauge("learning_progress_ratio", "Share of the learning period that is seen."),
    gauge("nodes", "Nodes by state.", ("state",)),
    gauge("statistic_max", "Largest node statistic."),
    gauge("event_statistic_max", "Largest statistic pooled around a node."),
    gauge("threshold", "Threshold of the node statistic and of the pooled one.", ("level",)),
    gauge("node_statistic", "Statistic of single nodes: the largest or the listed ones.", ("node",)),
    gauge("solver_residual", "Gradient left after the latest sweep, relative: 0 exact, 1 no fit."),
    gauge("solver_sweeps", "Sweeps of the solver, as the pipeline counts them."),
    gauge("dictionary_atoms", "Points of the kernel dictionary."),
    gauge("dictionary_coverage_ratio", "What new values have in common with those learnt, from 0 to 1."),
    # other boxes
    counter("boundary_messages_total", "Messages between boxes of one network, by what became of them.",
            ("outcome",)),
    counter("boundary_bytes_total", "Bytes of messages between boxes.", ("direction",)),
    gauge("boundary_age_ticks", "Ticks by which what is known of a neighbouring box is late.",
          ("neighbour",)),
    gauge("boundary_neighbour_up", "Whether a neighbouring box is heard (1) or taken to be quiet (0).",
          ("neighbour",)),
    # incidents
    counter("events_total", "Records made, by kind of event.", ("event",)),
    gauge("incidents_open", "Incidents open now."),
    counter("incidents_total", "Incidents opened, by severity at opening.", ("severity",)),
    gauge("incidents_labelled_false", "Incidents that people labelled false, over all restarts."),
    gauge("false_incident_rate_promised", "False incidents per second of the stream, as promised by now."),
    gauge("false_incident_rate_observed", "Incidents labelled false per second of the stream watched."),
    gauge("quiet_rate_ratio", "How often quiet data come near the event threshold, over what was learnt."),
    # diagnosis
    counter("diagnosis_cases_total", "Case files analyzed, by stage.", ("stage",)),
    counter("findings_total", "Findings, by analyzer.", ("kind",)),
    counter("diagnosis_failures_total", "Analyses without result, by reason.", ("kind", "reason")),
    histogram("diagnosis_seconds", "Time of one analyzer for one case file.", buckets=SLOW),
    gauge("models", "Models that were learnt, by analyzer.", ("kind",)),
    counter("exchange_messages_total", "Messages between daemons, by what became of them.", ("outcome",)),
    gauge("labelled_incidents", "Incidents that people labelled, over all restarts."),
    # readers
    gauge("event_clients", "Readers of event streams, the status page included."),
    counter("event_clients_dropped_total", "Readers of event streams cut off, by reason.", ("reason",)),
    # sinks
    gauge("outbox_records", "Records that a sink has still to take.", ("sink",)),
    gauge("outbox_set_aside_records", "Records that a sink would not take, kept for another try.", ("sink",)),
    counter("outbox_dropped_total", "Records given up because an outbox was full.", ("sink",)),
    counter("deliveries_total", "Records delivered or set aside; writes that failed or were told to wait.",
            ("sink", "outcome")),
    gauge("sink_up", "Whether the latest delivery of a sink worked (1) or not (0).", ("sink",)),
    # state
    gauge("state_up", "Whether the state reaches the disk (1) or not (0)."),
    counter("state_failures_total", "Commits that failed."),
    counter("state_damages_total", "Damages found in the stored state."),
    counter("state_lost_entries_total", "Journal entries that damage of the state has cost."),
    gauge("state_lost_until_timestamp_seconds", "Latest commit that damage has cost; 0: none."),
    gauge("state_size_bytes", "Size of each part of the state, with the latest snapshot.", ("part",)),
    gauge("backup_timestamp_seconds", "When the latest copy of what was learnt was made."),
    counter("backup_failures_total", "Copies of what was learnt that could not be made."),
    histogram("commit_duration_seconds", "Time of a commit to disk.", buckets=SLOW),
    gauge("snapshot_timestamp_seconds", "When the latest snapshot was made."),
    gauge("snapshot_duration_seconds", "Time that the latest snapshot took to write."),
    gauge("snapshot_size_bytes", "Size of the latest snapshot."),
    gauge("journal_size_bytes", "Size of the journal since the latest snapshot."),
    # process
    gauge("config_last_reload_successful", "Whether the latest reload was taken (1) or refused (0)."),
    gauge("config_last_reload_timestamp_seconds", "When the configuration was last taken over."),
    gauge("http_connections", "Connections to the listener."),
    counter("http_refused_total", "Connections and requests turned away, by reason.", ("reason",)),
    gauge("event_loop_tasks", "Tasks of the event loop."),
    gauge("build_info", "Version of the detector and of Python; always 1.", ("version", "python")),
)  # fmt: skip
FAILURES = ("error", "time", "model")  # of an analyzer; damaged and dropped case files have no kind
EXCHANGE = (
    "asked",  # questions sent
    "answered",  # answers sent
    "heard",  # answers to our questions
    "malformed",  # not a message, cut off, or of another version
    "stranger",  # from somebody who is no peer
    "spec",  # about other features than ours
    "late",  # nobody waits for it any more
    "limited",  # more questions than are answered in a minute
    "failed",  # could not be sent
)
BOUNDARY = (
    "sent",
    "heard",
    "late",  # not newer than what was heard before
    "malformed",  # not a message, cut off, or of another version
    "unsigned",  # not signed with our key
    "other",  # from a box that is no neighbour, on a topic that is shared
    "stranger",  # from somebody who is no box of the network
    "network",  # from a box with another graph, or another list of who watches what
    "budget",  # from a box with another budget of the whole network
    "spec",  # from a box with another dictionary or other settings
    "learning",  # before this box has learnt
    "dropped",  # newer ones had to go out, or come in, first
    "failed",  # could not be sent
)
DROPPED = ("slow", "replaced")  # readers of event streams
HTTP_REASONS = ("connections", "header_slow", "header_large", "request_slow", "token", "origin")


class _OldNames(Collector):
    """Metrics of version 0.1 that have another name now, under the old one as well."""

    def __init__(self, families: Mapping[str, Any]) -> None:
        self._families = families

    def describe(self) -> list[prometheus_client.Metric]:
        """Nothing, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[prometheus_client.Metric]:
        for old, new in renamed.METRICS.items():
            for family in self._families[new].collect():
                before, after = (f"detector_{name}".removesuffix("_total") for name in (new, old))
                text = renamed.deprecated(f"detector_{old}", f"detector_{new}")
                copy = prometheus_client.Metric(after, text, family.type, family.unit)
                copy.samples = [
                    one._replace(name=after + one.name.removeprefix(before)) for one in family.samples
                ]
                yield copy


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=True)
        # Vanishes silently where /proc is hidden; the shipped unit leaves it visible.
        ProcessCollector(registry=self.registry)
        self._families: dict[str, Any] = {metric.name: self._family(metric) for metric in TABLE}
        self._children: dict[tuple[str, ...], Any] = {}
        self.registry.register(_OldNames(self._families))
        version = importlib.metadata.version("detectord")
        self.set("build_info", 1, version=version, python=platform.python_version())
        for reason in STREAM_REASONS:
            self.count("samples_discarded_total", 0, reason=reason)
        for severity in SEVERITIES:
            self.count("incidents_total", 0, severity=severity)
        for event in KINDS:
            self.count("events_total", 0, event=event)
        for stage in STAGES:
            self.count("diagnosis_cases_total", 0, stage=stage)
        for outcome in EXCHANGE:
            self.count("exchange_messages_total", 0, outcome=outcome)
        for outcome in BOUNDARY:
            self.count("boundary_messages_total", 0, outcome=outcome)
        for direction in ("sent", "heard"):
            self.count("boundary_bytes_total", 0, direction=direction)
        for reason in DROPPED:
            self.count("event_clients_dropped_total", 0, reason=reason)
        for reason in HTTP_REASONS:
            self.count("http_refused_total", 0, reason=reason)
        self.set("config_last_reload_successful", 1)

    def _family(self, metric: Metric) -> Any:
        name = f"detector_{metric.name}"
        if metric.kind == "counter":
            return Counter(name, metric.help, metric.labels, registry=self.registry)
        if metric.kind == "gauge":
            return Gauge(name, metric.help, metric.labels, registry=self.registry)
        return Histogram(name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets)

    def _child(self, name: str, labels: Mapping[str, str]) -> Any:
        if not labels:
            return self._families[name]
        key = (name, *labels.values())
        if key not in self._children:
            self._children[key] = self._families[name].labels(**labels)
        return self._children[key]

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self._child(name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        self._child(name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._child(name, labels).observe(value)

    def replace(self, name: str, label: str, values: Iterable[tuple[str, float]]) -> None:
        """All series of a gauge anew: for labels that come and go."""
        self._families[name].clear()
        for key, value in values:
            self._families[name].labels(**{label: key[:MAX_LABEL]}).set(value)

    def add_source(self, source: str) -> None:
        """Known label sets start at 0, so that a rate sees the first count."""
        self.count("samples_received_total", 0, source=source)
        for reason in DECODING_REASONS:
            self.count("samples_rejected_total", 0, source=source, reason=reason)
        self.set("source_up", 0, source=source)
        self.count("source_failures_total", 0, source=source)

    def add_sink(self, sink: str) -> None:
        self.set("outbox_records", 0, sink=sink)
        self.set("outbox_set_aside_records", 0, sink=sink)
        self.count("outbox_dropped_total", 0, sink=sink)
        for outcome in OUTCOMES:
            self.count("deliveries_total", 0, sink=sink, outcome=outcome)

    def add_analyzer(self, kind: str) -> None:
        self.count("findings_total", 0, kind=kind)
        self.set("models", 0, kind=kind)
        for reason in FAILURES:
            self.count("diagnosis_failures_total", 0, kind=kind, reason=reason)

    def forget(self, label: str, value: str) -> None:
        """Drop the series of a source or sink that is gone after a reload."""
        for metric in TABLE:
            if label in metric.labels:
                at = metric.labels.index(label)
                for key in [key for key in self._children if key[0] == metric.name and key[1 + at] == value]:
                    self._families[metric.name].remove(*key[1:])
                    del self._children[key]

    def page(self) -> bytes:
        """The exposition in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)
