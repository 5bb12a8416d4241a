"""What every door promises: samples in, records out.

A **source** turns bytes from outside into `Batch`es of `Sample`s; a **sink** turns records into
bytes outside. The daemon owns retries, metrics and logs; a connector owns one protocol.

Life of a source: `open(position)`, then `read()` again and again, `commit(position)` whenever the
daemon's own state is durable, `close()`. When a connection is lost `read` raises
`ConnectorError(retry=True)`; the caller closes, waits `backoff(attempt, rng)` and opens again **with
the position of the last batch it read**, which may be later than the last it committed. After a
crash it opens with the last position it *stored*. Both give every sample once, if `replayable`.

Life of a sink: `open()`, `write(records)`, `close()`. After a failed `write` the same records may be
written again, without reopening: a sink finds its way back by itself.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict

REASONS = (
    "malformed",  # not the configured format at all: syntax, UTF-8, numbers out of range
    "missing",  # a field the mapping asks for is absent
    "type",  # a field is there with the wrong type
    "node",  # node id empty, too long, or with control characters
    "time",  # time not understood, or outside the years 1970 to 9999
    "values",  # no value, too many, or not finite
    "topic",  # the topic does not match the configured pattern
    "too_large",  # larger than the cap, after decompression
    "overflow",  # dropped because the hand-over was full and the protocol cannot wait
)
BACKOFF_FIRST_S = 0.1
BACKOFF_CAP_S = 5.0
MAX_SAMPLES = 20_000  # of one batch, where the door can choose: what the pipeline works off in one turn

Result = TypeVar("Result")


class Sample(msgspec.Struct, frozen=True, gc=False, array_like=False):
    """One reading of one node; a missing component is NaN."""

    time: float  # unix seconds
    node: str
    values: tuple[float, ...]


class Batch(msgspec.Struct):
    """What one `read` gives: received == len(samples) + sum(rejected.values()), always."""

    samples: list[Sample] = msgspec.field(default_factory=list)
    # JSON-able. Where to resume AFTER this batch; for a source that cannot rewind, the token that
    # `commit` acknowledges (or None if there is nothing to acknowledge either).
    position: Any = None
    received: int = 0
    rejected: dict[str, int] = msgspec.field(default_factory=dict)

    def accept(self, samples: Sequence[Sample]) -> None:
        self.samples.extend(samples)
        self.received += len(samples)

    def reject(self, reason: str, count: int = 1) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + count
        self.received += count

    def merge(self, other: Batch) -> None:
        """Append another batch; the position is left alone."""
        self.samples.extend(other.samples)
        self.received += other.received
        for reason, count in other.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + count


class ConnectorError(Exception):
    """A door failed. `retry` says whether the same call may succeed later without a new config.

    Anything on the other side of the network is worth a retry (refused, timed out, certificate or
    password not accepted: brokers get repaired). Not worth one: a missing library, an unreadable
    local file, a record the receiver has read and refused.
    """

    def __init__(self, message: str, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry


class MissingLibrary(ConnectorError):
    """The client library of a door is not installed; the message holds the line that installs it."""

    def __init__(self, extra: str) -> None:
        super().__init__(f"client library not installed: run  {install_line(extra)}", retry=False)
        self.extra = extra


def install_line(extra: str) -> str:
    return f"pip install 'detector[{extra}]'"


class Settings(BaseModel):
    """Base of all settings: strict, immutable, unknown keys refused, inputs never echoed in errors."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class Connector(ABC):
    """What sources and sinks share."""

    name: ClassVar[str]
    extra: ClassVar[str | None] = None  # the optional dependency group, if any
    modules: ClassVar[tuple[str, ...]] = ()  # what that group must make importable
    Config: type[Settings]

    @classmethod
    def requires(cls, config: Any = None) -> dict[str, tuple[str, ...]]:
        """Extra name -> modules that this door (with this config) needs."""
        needed = {cls.extra: cls.modules} if cls.extra else {}
        decode = getattr(config, "decode", None)
        if decode is not None and decode.format == "influx":
            needed["influx"] = ("line_protocol_parser",)
        return needed

    @classmethod
    def missing(cls, config: Any = None) -> str | None:
        """The line that installs what is missing, or None. Looks, but imports and connects nothing."""
        lacking = [
            extra
            for extra, modules in cls.requires(config).items()
            if any(importlib.util.find_spec(module) is None for module in modules)
        ]
        return install_line(",".join(lacking)) if lacking else None

    def ensure_libraries(self, config: Any) -> None:
        """Raise `MissingLibrary` where an import would fail; called by `open`."""
        for extra, modules in self.requires(config).items():
            if any(importlib.util.find_spec(module) is None for module in modules):
                raise MissingLibrary(extra)


class Source(Connector):
    """A door through which samples come in. `__init__` checks, and connects to nothing."""

    decoder: Any  # of sources that take messages one by one: bytes to samples; or to letters (letters.py)
    replayable: ClassVar[bool]  # open(position) gives exactly what came after position
    urgent: bool = False  # whoever sends waits for `commit` before it sends more: it should come at once
    guarantee: ClassVar[str]  # one honest sentence for the manual and the status page

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    async def open(self, position: Any) -> None:
        """Connect and resume after `position` (None: as configured). Bounded in time; may be called
        again after `close`."""

    @abstractmethod
    async def read(self) -> Batch | None:
        """Wait for data; None is the end of the stream. Cancelling it loses nothing."""

    async def commit(self, position: Any) -> None:
        """Everything up to `position` is durable with the caller: acknowledge it upstream."""
        return

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything; safe to call twice, or without `open`."""

    @property
    def lag(self) -> float | None:
        """Seconds between the sending of what was read last and its reading, where known."""
        return None


class Sink(Connector):
    """A door through which records leave. `__init__` checks, and connects to nothing."""

    # True: the peer forgets, so the daemon hands the latest record of every open incident to
    # `write` once after each start.
    wants_open_incidents: ClassVar[bool] = False

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    async def open(self) -> None:
        """Connect; bounded in time."""

    @abstractmethod
    async def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Deliver all records or raise. Each has a unique, stable "id" and an "event"; the id goes
        along as idempotency key where the protocol has one."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything; safe to call twice, or without `open`."""


def backoff(attempt: int, rng: random.Random) -> float:
    """Seconds to wait before attempt number `attempt` (from 0): exponential, capped, jittered.

    Between half and the whole of min(cap, first * 2**attempt), so that many clients of one dead
    broker do not come back in step.
    """
    whole = min(BACKOFF_CAP_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, 16))
    return whole * (0.5 + 0.5 * rng.random())


class Portion:
    """How many messages to take at once so that their samples, perhaps many in each, make one batch."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._each = 100.0  # samples of a message: careful until one was seen

    @property
    def messages(self) -> int:
        return max(1, min(self._most, int(MAX_SAMPLES / self._each)))

    def took(self, messages: int, batch: Batch) -> None:
        """So many messages became this batch."""
        if messages:
            self._each = max(1.0, batch.received / messages)


class InFlight(Generic[Result]):
    """One operation under way that outlives the cancellation of whoever waits for it.

    A cancelled `read` must lose nothing, but a client library that has taken messages off the
    socket cannot put them back: the next `read` picks up the same operation.
    """

    def __init__(self) -> None:
        self._task: asyncio.Future[Result] | None = None

    async def run(self, start: Callable[[], Awaitable[Result]]) -> Result:
        if self._task is None:
            self._task = asyncio.ensure_future(start())
        try:
            result = await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._task is not None and self._task.cancelled():
                self._task = None
            raise
        except BaseException:
            self._task = None
            raise
        self._task = None
        return result

    async def stop(self) -> None:
        """Cancel what is under way and wait until it is gone."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
