"""What boxes tell each other after a tick: rows of `Boundary` of the nodes at the cuts, signed and bounded.

    record = {id, event, version, body, mac}      body: base64 of the packed `Told`, mac: HMAC-SHA256 of it

No value of a sensor and no name of a node is in it: parameters and pooled scores by number of node, and which
of these nodes are in an open incident.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from estimators.core.types import Floats32, Nodes

VERSION = 1
EVENT = "edge.boundary"
MAX_BYTES = 2**20
MOST_ROWS = 500  # of one message; more nodes are told in several
MOST_INCIDENTS = 20
MOST_NODES = 200  # named of one incident
MOST_NUMBERS = 150_000  # in all rows of a message, so that it stays below MAX_BYTES
LARGEST = 1e7  # of any number in a row
_SCOPE = b"detector edge 1\0"  # what the key signs, so that a signature fits nothing else

Name = Annotated[str, Meta(min_length=1, max_length=64)]
Fingerprint = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
Tick = Annotated[int, Meta(ge=-(2**53), le=2**53)]


class Refused(ValueError):
    """A message that is not used; ``outcome`` is under which it is counted."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class OpenThere(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An incident that is open in another box, as far as it is near the cut."""

    common: Annotated[
        str, Meta(min_length=1, max_length=100)
    ]  # the id that it shares with those it belongs to
    opened: float  # of the incident that gave the common id
    first: float  # the change began between here
    last: float  # and here
    nodes: Annotated[list[Count], Meta(min_length=1, max_length=MOST_NODES)]


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one tick: rows ``first`` to ``first + count`` of those that the sender tells, in order of number."""

    sender: Name
    epoch: Count  # raised whenever the sender's clock was set back
    tick: Tick
    network: Fingerprint  # of the network, and of which node is where
    budget: Annotated[str, Meta(max_length=100)]  # of the whole network
    spec: Fingerprint  # of dictionary, features and settings: what the numbers mean
    first: Count
    count: Annotated[int, Meta(ge=0, le=MOST_ROWS)]
    width: Annotated[int, Meta(ge=1, le=100_000)]
    rows: bytes  # (count, width), float32, little-endian
    incidents: Annotated[list[OpenThere], Meta(max_length=MOST_INCIDENTS)] = []

    @property
    def age_key(self) -> tuple[int, int]:
        """By which messages of one sender are in order."""
        return self.epoch, self.tick

    def boxes(self) -> Floats32:
        """(count, width); NaN: no verdict."""
        return np.frombuffer(self.rows, "<f4").reshape(self.count, self.width).astype(np.float32)


_DECODER = msgspec.msgpack.Decoder(Told)


class _Record(msgspec.Struct):
    body: Annotated[str, Meta(max_length=MAX_BYTES)]
    mac: Annotated[str, Meta(min_length=64, max_length=64)]
    event: str = ""
    version: int = 0


_RECORDS = msgspec.json.Decoder(_Record)


def pack(told: Told) -> bytes:
    """As it is signed and as it stands in the journal."""
    return msgspec.msgpack.encode(told)


def record(told: Told, key: bytes) -> dict[str, Any]:
    """As a sink takes it."""
    body = pack(told)
    return {
        "id": f"{told.sender}-{told.epoch}-{told.tick}-{told.first}",
        "event": EVENT,
        "version": VERSION,
        "body": base64.b64encode(body).decode(),
        "mac": _mac(body, key),
    }


def verified(payload: bytes, key: bytes) -> bytes:
    """The body of a message that somebody with the key has signed; `Refused` otherwise."""
    if len(payload) > MAX_BYTES:
        raise Refused("malformed", f"{len(payload)} bytes, at most {MAX_BYTES} are read")
    try:
        found = _RECORDS.decode(payload)
        body = base64.b64decode(found.body, validate=True)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as error:
        raise Refused("malformed", f"a message that cannot be read: {error}") from None
    if found.event != EVENT or found.version != VERSION:
        said = f"{found.event[:40]!r} of version {found.version}, this detector reads {EVENT} of {VERSION}"
        raise Refused("malformed", said)
    if not hmac.compare_digest(found.mac.encode(), _mac(body, key).encode()):
        raise Refused("unsigned", "a message that was not signed with our key")
    return body


def unpack(body: bytes) -> Told:
    """`Refused` if it makes no sense, whoever signed it."""
    try:
        told = _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused("malformed", f"a message that cannot be read: {error}") from None
    if len(told.rows) != 4 * told.count * told.width:
        raise Refused("malformed", f"{len(told.rows)} bytes for {told.count} rows of {told.width} numbers")
    times = [time for one in told.incidents for time in (one.opened, one.first, one.last)]
    if not np.isfinite(times).all():
        raise Refused("malformed", "an incident without a time")
    if (np.abs(told.boxes()) > LARGEST).any():  # infinite ones as well; NaN is no verdict
        raise Refused("malformed", f"a number beyond {LARGEST:g}")
    return told


def _mac(body: bytes, key: bytes) -> str:
    return hmac.new(key, _SCOPE + body, hashlib.sha256).hexdigest()


def cut_up(told: Told, boxes: Floats32) -> list[Told]:
    """As many messages as ``boxes`` (B, W) need; incidents go with the first."""
    width = boxes.shape[1]
    size = max(min(MOST_ROWS, MOST_NUMBERS // max(width, 1)), 1)
    made = []
    for first in range(0, max(len(boxes), 1), size):
        rows = np.ascontiguousarray(boxes[first : first + size], "<f4")
        there = told.incidents if first == 0 else []
        one = replace(told, first=first, count=len(rows), width=width, rows=rows.tobytes(), incidents=there)
        made.append(one)
    return made


def numbers(nodes: Nodes, most: int = MOST_NODES) -> list[int]:
    """As a message has them."""
    return [int(v) for v in nodes[:most]]
