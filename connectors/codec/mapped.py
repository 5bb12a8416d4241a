"""Any other mapping: documents as Python objects, walked by the configured paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.base import Batch, MissingLibrary, Sample
from connectors.codec import tables
from connectors.codec.fast_json import UNDECODABLE, Gate
from connectors.codec.paths import (
    NUMERIC,
    Rejected,
    TimeFormat,
    getter,
    node_fields,
    node_getter,
    node_name,
    number,
    parse_path,
    parse_time,
)

if TYPE_CHECKING:
    from connectors.codec.decoder import Decode

_ANY = msgspec.json.Decoder()


class Mapped:
    """JSON documents, CSV rows and lines of line protocol through the paths of a `Decode`."""

    def __init__(self, config: Decode, gate: Gate) -> None:
        self.config = config
        self._gate = gate
        self._records = getter(config.records) if config.records else None
        self._node = node_getter(config.node or "node")
        paths = [config.values] if isinstance(config.values, str) else config.values
        self._values = [getter(path) for path in paths] if paths else None
        self._time = getter(config.time or "time")
        self._time_field = str(parse_path(config.time or "time")[0])
        default_format: TimeFormat | None = "unix_ns" if config.format == "influx" else None
        self._time_format = config.time_format or default_format
        self._parse_line: Callable[[str], dict[str, Any]] | None = None

    def open(self) -> None:
        if self.config.format == "influx":
            try:
                from line_protocol_parser import parse_line
            except ImportError:
                raise MissingLibrary("influx") from None
            self._parse_line = parse_line

    def json(self, data: bytes, into: Batch, node: str | None, arrival: float) -> None:
        for document in _documents(data):
            try:
                if document is None:
                    raise Rejected("malformed")
                found = self._records(document) if self._records else document
            except Rejected as refused:
                into.reject(refused.reason)
                continue
            for item in found if isinstance(found, list) else [found]:
                if self.config.columnar:
                    self._columns(item, into, node, arrival)
                else:
                    self._item(item, into, node, arrival)

    def lines(
        self,
        data: bytes,
        into: Batch,
        node: str | None,
        arrival: float,
        time_format: TimeFormat | None = None,
        header: list[str] | None = None,
    ) -> None:
        """CSV rows or line protocol; without a header the first CSV line names the columns."""
        if self.config.format == "csv":
            named = node_fields(self.config.node or "node")
            if self._time_format is not None and self._time_format not in NUMERIC:
                named = named | {self._time_field}
            columns, decimal = self.config.columns or header, self.config.decimal
            rows = tables.csv_rows(data, self.config.delimiter, columns, named, decimal)
        else:
            assert self._parse_line is not None, "open() was not called"
            rows = tables.influx_lines(data, self._parse_line)
        self.rows(rows, into, node, arrival, time_format)

    def rows(
        self,
        rows: Iterable[dict[str, Any] | None],
        into: Batch,
        node: str | None,
        arrival: float,
        time_format: TimeFormat | None = None,
    ) -> None:
        """Rows of a table, by the names of its columns; None is a row that could not be read."""
        at, several = self._time_field, len(self.config.nodes or "1")
        for item in rows:
            if item is None:
                into.reject("malformed", several)
                continue
            if item.get(at, at) in (None, ""):
                # A column of times is there, but not this one: the time of reading would be a wrong one.
                into.reject("time", several)
                continue
            if self.config.format == "csv" and self._values is None and self.config.nodes is None:
                # Every column that is neither node nor time is a component.
                taken = {self._time_field, *node_fields(self.config.node or "node")}
                item["values"] = [value for name, value in item.items() if name not in taken]
            self._item(item, into, node, arrival, time_format)

    def _item(
        self,
        item: Any,
        into: Batch,
        node: str | None,
        arrival: float,
        time_format: TimeFormat | None = None,
    ) -> None:
        if self.config.nodes is not None:
            self._several(item, self.config.nodes, into, arrival, time_format)
            return
        try:
            name = node_name(self._node(item)) if node is None else node
            values = self._vector_of(item)
            self._gate.take([Sample(self._moment(item, arrival, time_format), name, values)], into)
        except Rejected as refused:
            into.reject(refused.reason)

    def _several(
        self, item: Any, nodes: dict[str, list[str]], into: Batch, arrival: float,
        time_format: TimeFormat | None,
    ) -> None:  # fmt: skip
        """A row or message that holds several nodes; one without any value says nothing and is no sample."""
        try:
            if not isinstance(item, dict):
                raise Rejected("type")
            moment = self._moment(item, arrival, time_format)
        except Rejected as refused:
            into.reject(refused.reason, len(nodes))
            return
        samples = []
        for name, fields in nodes.items():
            try:
                values = tuple([number(item.get(field)) for field in fields])
            except Rejected as refused:
                into.reject(refused.reason)
                continue
            if not all(map(math.isnan, values)):
                samples.append(Sample(moment, name, values))
        self._gate.take(samples, into)

    def _moment(self, item: Any, arrival: float, time_format: TimeFormat | None) -> float:
        try:
            found = self._time(item)
        except Rejected:
            return arrival
        return arrival if found is None else parse_time(found, time_format or self._time_format)

    def _vector_of(self, item: Any) -> tuple[float, ...]:
        if self._values is None:
            if not isinstance(item, dict):
                raise Rejected("type")
            for name in ("values", "value"):
                if name in item:
                    return _vector(item[name])
            raise Rejected("missing")
        if len(self._values) == 1:
            return _vector(self._values[0](item))
        found: list[float] = []
        absent = 0
        for one in self._values:
            try:
                value = one(item)
            except Rejected:
                value = None
                absent += 1
            found.append(number(value))
        if absent == len(found):
            raise Rejected("missing")
        return tuple(found)

    def _columns(self, item: Any, into: Batch, node: str | None, arrival: float) -> None:
        """Arrays of equal length; node and time may also be one for all."""
        try:
            names = self._node(item) if node is None else node
            arrays = [one(item) for one in self._values or [getter("values")]]
            try:
                times = self._time(item)
            except Rejected:
                times = None
            if not all(isinstance(array, list) for array in arrays):
                raise Rejected("type")
            sizes = {len(found) for found in (names, times, *arrays) if isinstance(found, list)}
            if len(sizes) != 1:
                raise Rejected("values")
        except Rejected as refused:
            into.reject(refused.reason)
            return
        for i in range(sizes.pop()):
            try:
                name = node_name(names[i] if isinstance(names, list) else names)
                found = times[i] if isinstance(times, list) else times
                moment = arrival if found is None else parse_time(found, self._time_format)
                values = arrays[0][i] if len(arrays) == 1 else [array[i] for array in arrays]
                self._gate.take([Sample(moment, name, _vector(values))], into)
            except Rejected as refused:
                into.reject(refused.reason)


def _documents(data: bytes) -> Sequence[Any]:
    """The JSON documents in a payload: one, or one per line; None stands for an undecodable one."""
    try:
        return [_document(data)]
    except UNDECODABLE:
        lines = [line for line in data.split(b"\n") if line and not line.isspace()]
    if len(lines) < 2:
        return [None]
    found: list[Any] = []
    for line in lines:
        try:
            found.append(_document(line))
        except UNDECODABLE:
            found.append(None)
    return found


def _document(data: bytes) -> Any:
    document = _ANY.decode(data)
    return "" if document is None else document  # JSON null is a document, of a useless type


def _vector(found: Any) -> tuple[float, ...]:
    return tuple(map(number, found)) if isinstance(found, list) else (number(found),)
