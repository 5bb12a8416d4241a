"""Prometheus remote write, version 1: requests of protobuf messages in snappy's block format."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from connectors.codec.paths import Rejected
from connectors.codec.series import Point

EXTRA = "remote-write"
MODULES = ("cramjam", "google.protobuf")


@cache
def _write_request() -> Any:
    """The class of `prometheus.WriteRequest`, with the fields that are read here; others are skipped."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="remote_write.proto", package="prometheus", syntax="proto3"
    )
    fields: dict[str, list[tuple[str, int, Any, str | None]]] = {
        "Label": [("name", 1, field.TYPE_STRING, None), ("value", 2, field.TYPE_STRING, None)],
        "Sample": [("value", 1, field.TYPE_DOUBLE, None), ("timestamp", 2, field.TYPE_INT64, None)],
        "TimeSeries": [("labels", 1, None, "Label"), ("samples", 2, None, "Sample")],
        "WriteRequest": [("timeseries", 1, None, "TimeSeries")],
    }
    for message, members in fields.items():
        made = file.message_type.add(name=message)
        for name, number, kind, of in members:
            if of is None:
                made.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
            else:
                made.field.add(name=name, number=number, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED,
                               type_name=f".prometheus.{of}")  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("prometheus.WriteRequest"))


def remote_points(body: bytes, limit: int) -> Iterator[Point]:
    """The points of a request; `Rejected` if it is too large or none. NaN marks the end of a series."""
    import cramjam
    from google.protobuf.message import DecodeError

    try:
        size = cramjam.snappy.decompress_raw_len(body)  # claimed before anything is unpacked
        if size > limit:
            raise Rejected("too_large")
        request = _write_request().FromString(bytes(cramjam.snappy.decompress_raw(body)))
    except (cramjam.DecompressionError, DecodeError):
        raise Rejected("malformed") from None
    for series in request.timeseries:
        labels = {label.name: label.value for label in series.labels}
        metric = labels.pop("__name__", "")
        for sample in series.samples:
            yield Point(metric, labels, sample.timestamp / 1000.0, sample.value)
