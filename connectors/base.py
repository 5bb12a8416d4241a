"""What every source and sink promises: samples in, records out.

A **source** turns bytes from outside into `Batch`es of `Sample`s; a **sink** turns records into
bytes outside. The daemon owns retries, metrics and logs; a connector owns one protocol.

Life of a source: `open(position)`, then `read()` again and again, `commit(position)` whenever the
daemon's own state is durable, `close()`. When a connection is lost `read` raises
`ConnectorError(retry=True)`; the caller closes, waits `backoff(attempt, rng)` and opens again **with
the position of the last batch it read**, which may be later than the last it committed. After a
crash it opens with the last position it *stored*. Both give every sample once, if `replayable`.

A source that reads several *partitions*, each with an order of its own (streams, partitions of a topic),
gives batches of one partition each and can `pause` some of them: the daemon merges partitions by event
time, and holds back those that are ahead.

Life of a sink: `open()`, `write(records, accepted)`, `close()`. Each record is told by `accepted` as soon as
the receiver has it, so that a failure repeats none of those before. After a failed `write` the records that
were not accepted may be written again, with others and without reopening: a sink reconnects by itself.

What the rest of the program must know of a type is in class attributes (`replayable`, `ends`, `exclusive`,
`listens`, `raw`, `example`): nothing outside a connector's own module asks for its name.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import random
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from connectors.model import Settings as Settings

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
MAX_SAMPLES = 20_000  # of one batch, where the source can choose: what the pipeline works off in one turn

Result = TypeVar("Result")
Accepted = Callable[[str], None]  # hears the id of each record that the receiver has


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
    # The partition that all of it came from, if the source has several. The position is then a mapping with
    # that one key; those of several partitions are joined into one mapping, which `open` and `commit` take.
    partition: str | None = None
    # For senders who are told: how many of the samples, in order, belong to whom, and where to count those
    # that the stream did not take, by reason.
    accounts: list[tuple[int, dict[str, int]]] = msgspec.field(default_factory=list)

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


class Expected(NamedTuple):
    """What the network calls its nodes: by it a source of tables tells which column belongs to whom."""

    nodes: Sequence[str] | None = None
    dim: int | None = None
    components: Sequence[str] | None = None


def join_position(known: Any, batch: Batch) -> Any:
    """The position of a source after a batch, given the one before it.

    Examples
    --------
    >>> first = Batch(position={"a": 5}, partition="a")
    >>> join_position({"a": 3, "b": 4}, first)
    {'a': 5, 'b': 4}
    >>> join_position({"offset": 3}, Batch(position={"offset": 9}))
    {'offset': 9}
    """
    if batch.partition is None or batch.position is None:
        return known if batch.position is None else batch.position
    return {**(known or {}), **batch.position}


class ConnectorError(Exception):
    """A connector failed. `retry` says whether the same call may succeed later without a new config.

    Anything on the other side of the network is worth a retry (refused, timed out, certificate or
    password not accepted: brokers get repaired). Not worth one: a missing library, an unreadable
    local file, a record the receiver has read and refused. `after`: the receiver asks for a pause of so many
    seconds; that is nobody's fault.
    """

    def __init__(self, message: str, retry: bool, after: float | None = None) -> None:
        super().__init__(message)
        self.retry, self.after = retry, after


class Unreadable(ValueError):
    """A file cannot be read as it is; the message names the file, and line and column where known."""


class MissingLibrary(ConnectorError):
    """The client library of a connector is not installed; the message holds the line that installs it."""

    def __init__(self, extra: str) -> None:
        super().__init__(f"client library not installed: run  {install_line(extra)}", retry=False)
        self.extra = extra


def installed(module: str) -> bool:
    """Whether a module can be imported; looks, but imports at most the packages around it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a.b where there is no a
        return False


def install_line(*extras: str) -> str:
    """What installs the libraries of extras of this program.

    It names the libraries and not the program: that has not been published, so an index does not know it.
    """
    of_an_extra = re.compile(r"""(?P<library>[^;]+); extra == ["'](?P<extra>[^"']+)["']""")
    found = [of_an_extra.fullmatch(line) for line in importlib.metadata.requires("detectord") or ()]
    libraries = sorted({one["library"] for one in found if one is not None and one["extra"] in extras})
    return " ".join(["pip install", *(f"'{library}'" for library in libraries)])


class Connector(ABC):
    """What sources and sinks share. `__init__` checks the configuration, and connects to nothing."""

    name: ClassVar[str]  # the `type` in configurations; that of the entry point, for a plug-in
    Config: type[Settings]  # the keys of the configuration, each with a description
    extra: ClassVar[str | None] = None  # the optional dependency group, if any
    modules: ClassVar[tuple[str, ...]] = ()  # what that group must make importable
    # Lines "key: value" of YAML that `detector init` writes for it: what it needs and has no default for, and
    # what shows best what it can do.
    example: ClassVar[tuple[str, ...]] = ()
    # Carries messages of any content, one by one and unchanged: daemons can ask each other over it. A source
    # that says so has a `decoder`, which connectors.codec.raw_messages may replace before `open`.
    raw: ClassVar[bool] = False
    declares: ClassVar[tuple[str, ...]] = ()  # facts without a default, which a subclass must give

    @classmethod
    def requires(cls, config: Any = None) -> dict[str, tuple[str, ...]]:
        """Extra name -> modules that this connector (with this config) needs."""
        needed = {cls.extra: cls.modules} if cls.extra else {}
        decode = getattr(config, "decode", None)
        if decode is not None and decode.format == "influx":
            needed["influx"] = ("line_protocol_parser",)
        return needed

    @classmethod
    def missing(cls, config: Any = None) -> str | None:
        """The line that installs what is missing, or None. Looks, but imports and connects nothing."""
        lacking = [
            extra for extra, modules in cls.requires(config).items() if not all(map(installed, modules))
        ]
        return install_line(*lacking) if lacking else None

    def ensure_libraries(self, config: Any) -> None:
        """Raise `MissingLibrary` where an import would fail; called by `open`."""
        for extra, modules in self.requires(config).items():
            if not all(map(installed, modules)):
                raise MissingLibrary(extra)


class Source(Connector):
    """Where samples come in."""

    declares = ("replayable", "guarantee")
    replayable: ClassVar[bool]  # open(position) gives exactly what came after position
    guarantee: ClassVar[str]  # one honest sentence for the manual and the status page
    urgent: bool = False  # whoever sends waits for `commit` before it sends more: it should come at once
    ends: bool = False  # `read` gives None at the end; without one `run --once` takes silence for the end
    exclusive: ClassVar[str | None] = None  # a key whose value no two sources of this type may share
    listens: ClassVar[bool] = False  # `routes` are served by the daemon's HTTP listener, which it needs
    decoder: Any  # of a source that is `raw`: bytes to samples

    def __init__(self, config: Any) -> None:
        self.config = config

    def expect(self, expected: Expected) -> None:
        """Hear, before `open`, what the network calls its nodes; of use to sources of tables."""
        return

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
    def partitions(self) -> Sequence[str]:
        """What comes in orders of their own, by name; one without a name, unless a source says otherwise.

        None at all: not known yet. When they change, `read` gives a batch, perhaps an empty one.
        """
        return ("",)

    def pause(self, partitions: Collection[str]) -> None:
        """Give nothing of these for now, and of the others again; soon enough, not at once."""
        return

    def routes(self) -> list[Any]:
        """The aiohttp routes of a source that `listens`."""
        return []

    @property
    def problem(self) -> str | None:
        """The first message that could not be decoded, and why; to be shown."""
        found: str | None = getattr(getattr(self, "decoder", None), "problem", None)
        return found

    @property
    def withholds(self) -> int:
        """How many messages that nobody understood it may leave unacknowledged, to give them again after a
        stop: by then the decoder may have been corrected."""
        return sys.maxsize if self.replayable else 0

    @property
    def lag(self) -> float | None:
        """Seconds between the sending of what was read last and its reading, where known."""
        return None


def unheard(id: str) -> None:
    """For whoever only wants to know whether all records went out."""


class Sink(Connector):
    """Where records go out."""

    # True: the peer forgets, so the daemon hands the latest record of every open incident to
    # `write` once after each start.
    wants_open_incidents: ClassVar[bool] = False

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    async def open(self) -> None:
        """Connect; bounded in time."""

    @abstractmethod
    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        """Deliver the records, those of one incident in their order, or raise. Each has a unique, stable "id"
        and an "event"; the id goes along as idempotency key where the protocol has one.

        Call `accepted` with the id of every record as soon as the receiver has it. Without an exception all
        records count as accepted.
        """

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
