"""Payload bytes -> samples, by a mapping from the configuration. Nothing here raises on bad data."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from connectors.base import Batch, Settings
from connectors.codec.fast_json import Gate, PlainJson
from connectors.codec.mapped import Mapped
from connectors.codec.paths import (
    MAX_NODE_LENGTH,
    Rejected,
    TimeFormat,
    getter,
    node_getter,
    topic_pattern,
    valid_node,
)
from connectors.settings.units import Size

SHOWN = 120  # characters of a message that was refused
MAX_JOINED = 2**24  # bytes of messages decoded in one go


class Decode(Settings):
    """How a message is read: its format, and where it holds node, time and values."""

    format: Literal["json", "csv", "influx"] = Field(default="json", description="Format of the payload.")
    compression: Literal["none", "gzip"] = Field(default="none", description="Compression of the payload.")
    records: str | None = Field(
        default=None, description="Path to the array of records inside a JSON message."
    )
    columnar: bool = Field(
        default=False, description="JSON of arrays, one per field, instead of one object per sample."
    )
    node: str | None = Field(
        default=None, description="Path to the node id, or a template such as {site}/{id}."
    )
    node_constant: str | None = Field(default=None, description="Node id, if all samples belong to one node.")
    topic: str | None = Field(
        default=None, description="Template that takes the node from the topic, such as sensors/{node}/+."
    )
    values: str | list[str] | None = Field(
        default=None, description="Path to the value or vector, or one per component."
    )
    nodes: dict[str, list[str]] | None = Field(
        default=None,
        description="Where a message or row holds several nodes: for each node the fields of its components.",
    )
    time: str | None = Field(
        default=None, description="Path to the time; arrival time where a message has none."
    )
    time_format: TimeFormat | None = Field(
        default=None,
        description="How time is written: a name, or a pattern such as %d.%m.%Y %H:%M:%S; null: unix "
        "seconds, or ISO 8601 if it is text.",
    )
    columns: list[str] | None = Field(
        default=None, description="CSV column names; default: the first line names them."
    )
    delimiter: str = Field(default=",", description="CSV delimiter.", min_length=1, max_length=1)
    decimal: Literal[".", ","] = Field(default=".", description="Decimal mark of CSV numbers.")
    max_bytes: Size = Field(default=2**20, description="Largest message (or line), after decompression.")
    max_values: int = Field(default=64, description="Largest number of components of one sample.", ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> Decode:
        if sum(given is not None for given in (self.node, self.node_constant, self.topic, self.nodes)) > 1:
            raise ValueError("give at most one of node, node_constant, topic, nodes")
        if self.nodes is not None:
            self._consistent_nodes(self.nodes)
        if self.node_constant is not None and not valid_node(self.node_constant):
            raise ValueError(f"node_constant must be 1 to {MAX_NODE_LENGTH} printable characters")
        if self.values == []:
            raise ValueError("values must name at least one path")
        if self.columns is not None and self.format != "csv":
            raise ValueError("columns belongs to format: csv")
        if (self.columnar or self.records is not None) and self.format != "json":
            raise ValueError("columnar and records belong to format: json")
        for path in [
            self.records,
            self.time,
            *([self.values] if isinstance(self.values, str) else self.values or []),
        ]:
            if path is not None:
                getter(path)
        if self.node is not None:
            node_getter(self.node)
        if self.topic is not None:
            topic_pattern(self.topic, "/")
        return self

    def _consistent_nodes(self, nodes: dict[str, list[str]]) -> None:
        if self.values is not None or self.columnar:
            raise ValueError("nodes says where all values are: without values and columnar")
        if len({len(fields) for fields in nodes.values()}) != 1 or not all(nodes.values()):
            raise ValueError("nodes must give at least one node, and each as many fields as the others")
        for name in nodes:
            if not valid_node(name):
                raise ValueError(f"{name[:80]!r} is no node id: 1 to {MAX_NODE_LENGTH} printable characters")


class Decoder:
    """One configured decoder. `payload` takes a whole message, `lines` whole lines of a stream."""

    def __init__(self, config: Decode, separator: str = "/") -> None:
        self.config = config
        gate = Gate(config.max_values)
        default = Decode()
        # The fast way is open when nothing but caps and compression differs from the default form.
        same = ("format", "records", "columnar", "node", "node_constant", "topic", "values", "nodes", "time")
        is_plain = all(getattr(config, name) == getattr(default, name) for name in same)
        self._plain = PlainJson(gate) if is_plain and config.time_format in (None, "unix") else None
        self._mapped = Mapped(config, gate)
        self._topic = topic_pattern(config.topic, separator) if config.topic else None
        self.problem: str | None = None  # the first message that was refused, and why

    def open(self) -> None:
        """Load the parser that an extra brings, if this format needs one."""
        self._mapped.open()

    def payload(
        self,
        data: bytes,
        into: Batch,
        *,
        topic: str | None = None,
        arrival: float | None = None,
        time_format: TimeFormat | None = None,
        gzipped: bool = False,
    ) -> None:
        """Decode one message of any allowed shape into `into`; what is refused is counted there."""
        arrival = time.time() if arrival is None else arrival
        if self.problem is None:
            known = dict(into.rejected)
            self._payload(data, into, topic, arrival, time_format, gzipped)
            self._note(data, known, into, topic)
        else:
            self._payload(data, into, topic, arrival, time_format, gzipped)

    def _payload(
        self, data: bytes, into: Batch, topic: str | None, arrival: float,
        time_format: TimeFormat | None, gzipped: bool,
    ) -> None:  # fmt: skip
        try:
            if gzipped or self.config.compression == "gzip":
                data = unpack(data, self.config.max_bytes)
            if len(data) > self.config.max_bytes:
                raise Rejected("too_large")
            node = self._fixed_node(topic)
            if not data or data.isspace():
                raise Rejected("malformed")
        except Rejected as refused:
            into.reject(refused.reason)
            return
        if self.config.format != "json":
            self._mapped.lines(data, into, node, arrival, time_format)
        elif self._plain is not None:
            self._plain.decode(data, into, arrival)
        else:
            self._mapped.json(data, into, node, arrival)

    def messages(
        self, payloads: Sequence[bytes], into: Batch, origin: Callable[[int], tuple[str | None, float]]
    ) -> None:
        """Decode many messages; the same as `payload` for each, but in one go where that is exact.

        `origin(i)` is the topic and the arrival time of message i, asked for only where needed.
        """
        if self._plain is not None and self.config.compression == "none" and len(payloads) > 1:
            sizes = list(map(len, payloads))
            small = max(sizes) <= self.config.max_bytes and sum(sizes) <= MAX_JOINED
            if small and self._decode_all(self._plain, payloads, into):
                return
        for i, payload in enumerate(payloads):
            topic, arrival = origin(i)
            self.payload(payload, into, topic=topic, arrival=arrival)

    def _decode_all(self, plain: PlainJson, payloads: Sequence[bytes], into: Batch) -> bool:
        rejected = len(into.rejected)
        done = plain.decode_all(payloads, into)
        if done and self.problem is None and len(into.rejected) > rejected:
            for payload in payloads:
                self.payload(payload, Batch())
        return done

    def _note(self, data: bytes, known: dict[str, int], into: Batch, topic: str | None = None) -> None:
        """Keep the first refusal in words, to be shown: only one, so that it costs nothing later."""
        reason = next((name for name, n in into.rejected.items() if n > known.get(name, 0)), None)
        if reason is not None:
            text = "".join(c if c.isprintable() else "�" for c in data[:400].decode(errors="replace").strip())
            short = text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
            self.problem = f"{reason}: {short}" + (f" (from {topic})" if topic else "")

    def lines(
        self, data: bytes, into: Batch, *, arrival: float | None = None, header: list[str] | None = None
    ) -> None:
        """Decode whole lines of a stream; `header` names CSV columns if the config does not."""
        arrival = time.time() if arrival is None else arrival
        rejected = dict(into.rejected) if self.problem is None else None
        self._lines(data, into, arrival, header)
        if rejected is not None and rejected != into.rejected:
            for line in data.split(b"\n"):
                alone = Batch()
                if line and not line.isspace():
                    self._lines(line, alone, arrival, header)
                if alone.rejected:
                    self._note(line, {}, alone)
                    break

    def _lines(self, data: bytes, into: Batch, arrival: float, header: list[str] | None) -> None:
        node = self.config.node_constant
        if self.config.format != "json":
            self._mapped.lines(data, into, node, arrival, header=header)
        elif self._plain is not None:
            self._plain.decode(data, into, arrival)
        else:
            for line in data.split(b"\n"):
                if line and not line.isspace():
                    self._mapped.json(line, into, node, arrival)

    def rows(self, rows: Iterable[dict[str, Any]], into: Batch) -> None:
        """Decode rows of a typed table, which has no bytes of its own."""
        self._mapped.rows(rows, into, self.config.node_constant, time.time())

    def _fixed_node(self, topic: str | None) -> str | None:
        if self._topic is None:
            return self.config.node_constant
        match = self._topic.fullmatch(topic or "")
        if match is None:
            raise Rejected("topic")
        return match["node"]


def unpack(data: bytes, limit: int) -> bytes:
    """Gunzip at most `limit` bytes; a bomb is refused before it goes off."""
    engine = zlib.decompressobj(wbits=31)
    try:
        unpacked = engine.decompress(data, limit + 1)
    except zlib.error:
        raise Rejected("malformed") from None
    if len(unpacked) > limit:
        raise Rejected("too_large")
    if not engine.eof:
        raise Rejected("malformed")
    return unpacked
