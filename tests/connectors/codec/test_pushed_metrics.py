"""Requests of OpenTelemetry and of remote write to points; garbage is refused or counted."""

from __future__ import annotations

import contextlib
import json

import cramjam
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from connectors import Batch
from connectors.codec.otlp import otlp_answer, otlp_points
from connectors.codec.paths import Rejected
from connectors.codec.remote_write import _write_request, remote_points
from connectors.codec.series import Series, SeriesReader


def text(value: str) -> dict[str, str]:
    return {"stringValue": value}


POINT = {
    "timeUnixNano": "10000000000", "asInt": "7",
    "attributes": [{"key": "pump", "value": text("a")}, {"key": "stage", "value": {"intValue": "2"}}],
}  # fmt: skip
DOCUMENT = {
    "resourceMetrics": [{
        "resource": {"attributes": [{"key": "host.name", "value": text("edge-7")},
                                    {"key": "process.pid", "value": {"intValue": "4711"}}]},
        "scopeMetrics": [{"metrics": [{"name": "flow", "gauge": {"dataPoints": [POINT]}},
                                      {"name": "size", "histogram": {"dataPoints": [{"count": "1"}]}}]}],
    }]
}  # fmt: skip


@pytest.mark.parametrize("is_json", [True, False])
def test_points_of_open_telemetry(is_json: bool) -> None:
    """A series has the attributes of its point, and of its sender those that survive a restart."""
    body = json.dumps(DOCUMENT).encode()
    if not is_json:
        body = json_format.Parse(body, ExportMetricsServiceRequest()).SerializeToString()
    batch, reader = Batch(), SeriesReader(Series())
    (point,) = otlp_points(body, is_json, 1.0, batch, reader)
    assert (point.metric, point.time, point.value) == ("flow", 10.0, 7.0)
    assert point.labels == {"host.name": "edge-7", "pump": "a", "stage": "2"}
    assert batch.rejected == {"type": 1}
    named = SeriesReader(Series(metrics=["flow"], node="{process.pid}/{pump}"))
    batch = Batch()
    named.read(otlp_points(body, is_json, 1.0, batch, named), batch)
    assert [(s.node, s.values) for s in batch.samples] == [("4711/a", (7.0,))]
    assert batch.rejected == {}, "a histogram that nobody asked for"
    assert otlp_answer(is_json, 0, "") == (b"{}" if is_json else b"")


def test_points_of_remote_write() -> None:
    request = _write_request()()
    for pump in "ab":
        series = request.timeseries.add()
        series.labels.add(name="__name__", value="flow")
        series.labels.add(name="pump", value=pump)
        series.samples.add(value=1.5, timestamp=2500)
    body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
    found = [
        (point.metric, point.labels["pump"], point.time, point.value) for point in remote_points(body, 1000)
    ]
    assert found == [("flow", "a", 2.5, 1.5), ("flow", "b", 2.5, 1.5)]
    with pytest.raises(Rejected, match="too_large"):
        list(remote_points(body, 10))


def snappy(body: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(body))


@given(st.binary(max_size=200), st.sampled_from(["raw", "snappy", "json", "protobuf"]))
def test_no_bytes_raise_anything_else(body: bytes, how: str) -> None:
    batch, reader = Batch(), SeriesReader(Series())
    data = snappy(body) if how == "snappy" else body
    with contextlib.suppress(Rejected):
        if how in ("raw", "snappy"):
            reader.read(remote_points(data, 1000), batch)
        else:
            reader.read(otlp_points(data, how == "json", 1.0, batch, reader), batch)
    assert batch.received == len(batch.samples) + sum(batch.rejected.values())
