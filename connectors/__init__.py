"""Sources and sinks: bytes from outside to samples, records to bytes outside; one module per protocol.

Called by the daemon's source and sink tasks, and by the configuration, whose keys come from the classes.
What every connector promises is in `connectors.base`; tests/contracts tries it on all of them. A module is
imported when its type is asked for, a client library when a connection is opened. Other packages bring
further types by the entry points `detector.sources` and `detector.sinks`. Knows neither `detector` nor
`estimators`.
"""

from __future__ import annotations

from typing import TypeVar

from connectors.base import (
    REASONS,
    Accepted,
    Batch,
    Connector,
    ConnectorError,
    MissingLibrary,
    Sample,
    Settings,
    Sink,
    Source,
    backoff,
    unheard,
)
from connectors.registry import PluginError, Registry

SOURCES = Registry(
    "detector.sources",
    "source",
    {
        "simulate": "connectors.simulation.source:SimulateSource",
        "stdin": "connectors.stdio:StdinSource",
        "file": "connectors.files.source:FileSource",
        "http": "connectors.http:HttpSource",
        "mqtt": "connectors.mqtt:MqttSource",
        "kafka": "connectors.kafka:KafkaSource",
        "redis": "connectors.redis:RedisSource",
        "nats": "connectors.nats:NatsSource",
        "prometheus": "connectors.prometheus:PrometheusSource",
    },
)
SINKS = Registry(
    "detector.sinks",
    "sink",
    {
        "stdout": "connectors.stdio:StdoutSink",
        "file": "connectors.files.sink:FileSink",
        "webhook": "connectors.webhook:WebhookSink",
        "alertmanager": "connectors.alertmanager:AlertmanagerSink",
        "mqtt": "connectors.mqtt:MqttSink",
        "kafka": "connectors.kafka:KafkaSink",
        "redis": "connectors.redis:RedisSink",
        "nats": "connectors.nats:NatsSink",
    },
)

Kind = TypeVar("Kind", bound=Connector)


def source(type_name: str) -> type[Source]:
    """The source class of that type; KeyError if there is none, PluginError if a plug-in is broken."""
    return _checked(SOURCES, type_name, Source)  # type: ignore[type-abstract]


def sink(type_name: str) -> type[Sink]:
    """The sink class of that type; KeyError if there is none, PluginError if a plug-in is broken."""
    return _checked(SINKS, type_name, Sink)  # type: ignore[type-abstract]


def _checked(registry: Registry, name: str, kind: type[Kind]) -> type[Kind]:
    found = registry.load(name)
    wrong = _breach(found, name, kind)
    if wrong:
        raise registry.refusal(name, wrong)
    loaded: type[Kind] = found
    return loaded


def _breach(found: object, name: str, kind: type[Connector]) -> str | None:
    """What of the contract a class breaks that the configuration relies on."""
    if not (isinstance(found, type) and issubclass(found, kind)):
        return f"is not a subclass of connectors.{kind.__name__}"
    if getattr(found, "name", None) != name:
        return f"has the name {getattr(found, 'name', None)!r}: it must be that of its entry point"
    if not (isinstance(getattr(found, "Config", None), type) and issubclass(found.Config, Settings)):
        return "has no Config that derives from connectors.Settings"
    undefined = sorted(found.__abstractmethods__)
    undeclared = [fact for fact in kind.declares if not hasattr(found, fact)]
    lacking = ", ".join(undefined + undeclared)
    return f"does not define {lacking}" if lacking else None


__all__ = [
    "REASONS",
    "SINKS",
    "SOURCES",
    "Accepted",
    "Batch",
    "ConnectorError",
    "MissingLibrary",
    "PluginError",
    "Registry",
    "Sample",
    "Settings",
    "Sink",
    "Source",
    "backoff",
    "sink",
    "source",
    "unheard",
]
