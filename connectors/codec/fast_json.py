"""The default JSON form, decoded by typed msgspec straight into samples: the fast way.

`{"time": 1.5, "node": "a", "values": [1, 2]}` or `"value": 1`; one object, an array, or lines. A time may be
ISO 8601 text, which is not as fast. A buffer with a bad line is decoded again line by line, so that a bad
line costs only itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from connectors.base import Batch, Sample
from connectors.codec.paths import LAST_TIME, Rejected, number, parse_time, valid_node

MAX_KNOWN_NODES = 100_000  # names remembered as valid, so that each is looked at once
UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _Single(msgspec.Struct, gc=False):
    time: float
    node: str
    value: float


class _Loose(msgspec.Struct, gc=False):
    node: str
    time: float | str | None = None
    values: list[float | None] | None = None
    value: float | msgspec.UnsetType | None = msgspec.UNSET


_SAMPLE = msgspec.json.Decoder(Sample)
_SAMPLES = msgspec.json.Decoder(list[Sample])
_SINGLE = msgspec.json.Decoder(_Single)
_LOOSE = msgspec.json.Decoder(_Loose)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder()


class Gate:
    """The last check before a sample is accepted: node id, time, number of values."""

    def __init__(self, max_values: int) -> None:
        self.max_values = max_values
        self._known: set[str] = set()

    def take(self, samples: list[Sample], into: Batch) -> None:
        """Accept what keeps the caps. The usual case is decided by three sweeps in C."""
        if not samples:
            return
        unknown = {sample.node for sample in samples} - self._known
        times = [sample.time for sample in samples]
        sizes = {len(sample.values) for sample in samples}
        in_time = min(times) >= 0 and max(times) < LAST_TIME
        if not unknown and in_time and min(sizes) > 0 and max(sizes) <= self.max_values:
            into.accept(samples)
            return
        if len(self._known) > MAX_KNOWN_NODES:
            self._known.clear()
        for sample in samples:
            reason = self._fault(sample)
            if reason is None:
                into.accept((sample,))
            else:
                into.reject(reason)

    def _fault(self, sample: Sample) -> str | None:
        if sample.node not in self._known:
            if not valid_node(sample.node):
                return "node"
            self._known.add(sample.node)
        if not 0 <= sample.time < LAST_TIME:
            return "time"
        return None if 0 < len(sample.values) <= self.max_values else "values"


class PlainJson:
    """Decodes the default form; remembers whether the stream prefers `values` or `value`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._single_first = False

    def decode(self, data: bytes, into: Batch, arrival: float) -> None:
        try:
            if data.lstrip()[:1] == b"[":
                samples = _SAMPLES.decode(data)
            else:
                samples = self._lines(data)
        except UNDECODABLE:
            self._one_by_one(data, into, arrival)
        else:
            self._gate.take(samples, into)

    def decode_all(self, payloads: Sequence[bytes], into: Batch) -> bool:
        """Messages of one object each, decoded in one go; False, and nothing done, if any is not.

        Exact, not a guess: each payload begins with { and ends with }, so none can lean on its neighbour
        without a syntax error, and there must be as many samples as payloads and line ends.
        """
        if not all(payload[:1] == b"{" and payload[-1:] == b"}" for payload in payloads):
            return False
        joined = b"\n".join(payloads)
        if joined.count(b"\n") != len(payloads) - 1:
            return False
        try:
            samples = self._lines(joined)
        except UNDECODABLE:
            return False
        if len(samples) != len(payloads):
            return False
        self._gate.take(samples, into)
        return True

    def _lines(self, data: bytes) -> list[Sample]:
        if self._single_first:
            return [Sample(s.time, s.node, (s.value,)) for s in _SINGLE.decode_lines(data)]
        return _SAMPLE.decode_lines(data)

    def _one_by_one(self, data: bytes, into: Batch, arrival: float) -> None:
        """Single lines, arrays, pretty-printed objects, missing times and components."""
        samples: list[Sample] = []
        if self._document(data, samples, into, arrival):
            self._gate.take(samples, into)
            return
        singles = 0
        lines = [line for line in data.split(b"\n") if line and not line.isspace()]
        for line in lines:
            try:
                samples.append(_SAMPLE.decode(line))
                continue
            except UNDECODABLE:
                pass
            try:
                one = _SINGLE.decode(line)
            except UNDECODABLE:
                if not self._document(line, samples, into, arrival):
                    into.reject("malformed")
            else:
                singles += 1
                samples.append(Sample(one.time, one.node, (one.value,)))
        self._gate.take(samples, into)
        self._single_first = 2 * singles > len(lines)

    def _document(self, data: bytes, samples: list[Sample], into: Batch, arrival: float) -> bool:
        """One JSON document, an object or an array of them; False if it is not one."""
        try:
            if data.lstrip()[:1] == b"[":
                items = [bytes(item) for item in _RAWS.decode(data)]
            else:
                _ANY.decode(data)
                items = [data]
        except UNDECODABLE:
            return False
        for item in items:
            try:
                samples.append(_loose(item, arrival))
            except Rejected as refused:
                into.reject(refused.reason)
        return True


def _loose(data: bytes, arrival: float) -> Sample:
    try:
        found = _LOOSE.decode(data)
    except UNDECODABLE as error:
        raise Rejected(_why(error)) from None
    values = found.values
    if values is None:
        if isinstance(found.value, msgspec.UnsetType):
            raise Rejected("missing")
        values = [found.value]
    time = arrival if found.time is None else parse_time(found.time, None)
    return Sample(time, found.node, tuple(map(number, values)))


def _why(error: Exception) -> str:
    text = str(error)
    if not isinstance(error, msgspec.ValidationError) or "out of range" in text:
        return "malformed"
    return "missing" if "missing required field" in text else "type"
