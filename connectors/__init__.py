"""THE DOORS: bytes <-> samples, records. One file per protocol; loaded on use."""

from __future__ import annotations

import importlib

from .base import (
    REASONS,
    Batch,
    ConnectorError,
    MissingLibrary,
    Sample,
    Sink,
    Source,
    backoff,
)

SOURCES = {
    "simulate": "connectors.simulate:SimulateSource",
    "stdin": "connectors.stdio:StdinSource",
    "file": "connectors.files:FileSource",
    "http": "connectors.http:HttpSource",
    "mqtt": "connectors.mqtt:MqttSource",
    "kafka": "connectors.kafka:KafkaSource",
    "redis": "connectors.redis:RedisSource",
    "nats": "connectors.nats:NatsSource",
    "prometheus": "connectors.prometheus:PrometheusSource",
}
SINKS = {
    "stdout": "connectors.stdio:StdoutSink",
    "file": "connectors.filesink:FileSink",
    "webhook": "connectors.webhook:WebhookSink",
    "alertmanager": "connectors.alertmanager:AlertmanagerSink",
    "mqtt": "connectors.mqtt:MqttSink",
    "kafka": "connectors.kafka:KafkaSink",
    "redis": "connectors.redis:RedisSink",
    "nats": "connectors.nats:NatsSink",
}


def source(type_name: str) -> type[Source]:
    """The source class of that type; KeyError if there is none."""
    loaded = _load(SOURCES[type_name])
    assert issubclass(loaded, Source)
    return loaded


def sink(type_name: str) -> type[Sink]:
    """The sink class of that type; KeyError if there is none."""
    loaded = _load(SINKS[type_name])
    assert issubclass(loaded, Sink)
    return loaded


def _load(place: str) -> type:
    module, name = place.split(":")
    loaded: type = getattr(importlib.import_module(module), name)
    return loaded


__all__ = [
    "REASONS",
    "SINKS",
    "SOURCES",
    "Batch",
    "ConnectorError",
    "MissingLibrary",
    "Sample",
    "Sink",
    "Source",
    "backoff",
    "sink",
    "source",
]
