"""OpenTelemetry metrics by OTLP over HTTP: requests in protobuf or JSON, and their answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from connectors.base import Batch
from connectors.codec.paths import Rejected
from connectors.codec.series import Point, SeriesReader

EXTRA = "otlp"
MODULES = ("opentelemetry.proto", "google.protobuf")
# Attributes of the sender that tell hosts and services apart and survive a restart.
IDENTITY = ("service.namespace", "service.name", "host.name")
NO_VALUE = 1  # flag of a data point: the series has ended or is interrupted


def otlp_points(
    body: bytes, is_json: bool, arrival: float, into: Batch, reader: SeriesReader
) -> Iterator[Point]:
    """The numbers of a request; `Rejected` if it is none. Points that hold no single number are counted.

    Labels are the attributes of point, scope and resource; where every series is a node, of the resource
    only `IDENTITY`.
    """
    request, brief = _request(body, is_json), reader.config.metrics is None
    for resource in request.resource_metrics:
        outer = _texts(resource.resource.attributes)
        if brief:
            outer = {name: outer[name] for name in IDENTITY if name in outer}
        for scope in resource.scope_metrics:
            shared = outer if brief else outer | _texts(scope.scope.attributes)
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind not in ("gauge", "sum"):  # histograms and summaries: several numbers in one point
                    points = len(getattr(metric, kind).data_points) if kind else 0
                    if points and reader.wants(metric.name):
                        into.reject("type", points)
                    continue
                for point in getattr(metric, kind).data_points:
                    time = point.time_unix_nano / 1e9 if point.time_unix_nano else arrival
                    yield Point(metric.name, shared | _texts(point.attributes), time, _number(point))


def _request(body: bytes, is_json: bool) -> Any:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    try:
        if is_json:
            return json_format.Parse(body, ExportMetricsServiceRequest(), ignore_unknown_fields=True)
        return ExportMetricsServiceRequest.FromString(body)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError, RecursionError):
        raise Rejected("malformed") from None


def otlp_answer(is_json: bool, rejected: int, words: str) -> bytes:
    """What became of a request that could be read; empty where all is well."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    answer = ExportMetricsServiceResponse()
    if rejected or words:
        answer.partial_success.rejected_data_points = rejected
        answer.partial_success.error_message = words
    return _written(answer, is_json)


def _written(message: Any, is_json: bool) -> bytes:
    from google.protobuf import json_format

    if is_json:
        return json_format.MessageToJson(message, indent=None).encode()
    written: bytes = message.SerializeToString()
    return written


def _number(point: Any) -> float:
    kind = point.WhichOneof("value")
    return math.nan if kind is None or point.flags & NO_VALUE else float(getattr(point, kind))


def _texts(attributes: Any) -> dict[str, str]:
    """Attributes that are one text or number; lists and maps name no series."""
    found = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        if kind == "string_value":
            found[one.key] = one.value.string_value
        elif kind == "bool_value":
            found[one.key] = "true" if one.value.bool_value else "false"
        elif kind in ("int_value", "double_value"):
            found[one.key] = str(getattr(one.value, kind))
    return found
