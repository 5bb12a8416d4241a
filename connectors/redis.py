"""Redis streams: a consumer group in, XADD out."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import Field

from connectors.base import Accepted, Batch, ConnectorError, InFlight, Portion, Sink, Source, unheard
from connectors.codec.decoder import Decode, Decoder
from connectors.codec.paths import node_fields
from connectors.settings.secrets import FilePath, Secret, Tls, WithSecrets
from connectors.settings.units import Duration

BLOCK_MS = 500  # how long the server may hold an empty XREADGROUP
PAUSED_MS = 20  # the same while some streams are not to be read: they may be soon
MAX_WITHHELD = 100_000  # entries that nobody understood and that are not acknowledged for now
TAIL = 1000  # entries at the end of a stream that are searched for records which may have arrived


class _Settings(WithSecrets):
    """What the source and the sink have in common."""

    host: str = Field(default="127.0.0.1", description="Server host.", min_length=1)
    port: int = Field(default=6379, description="Server port.", ge=1, le=65535)
    database: int = Field(default=0, description="Database number.", ge=0)
    username: str | None = Field(default=None, description="User name.")
    password: Secret = Field(default=None, description="Password, as ${VARIABLE}.")
    password_file: FilePath | None = Field(default=None, description="File with the password.")
    tls: Tls | None = Field(default=None, description="TLS settings; default: no TLS.")
    timeout: Duration = Field(default=10.0, description="Longest wait for a connection or an answer.", gt=0)

    def client(self) -> Any:
        """A client that has not connected yet."""
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        tls: dict[str, Any] = {}
        if self.tls is not None:
            tls = {
                "ssl": True,
                "ssl_ca_certs": str(self.tls.ca_file) if self.tls.ca_file else None,
                "ssl_certfile": str(self.tls.cert_file) if self.tls.cert_file else None,
                "ssl_keyfile": str(self.tls.key_file) if self.tls.key_file else None,
                "ssl_password": self.tls.secret("key_password"),
                "ssl_check_hostname": self.tls.verify_hostname,
                "ssl_cert_reqs": "required",
                "ssl_min_version": self.tls.context().minimum_version,
            }
        return Redis(
            host=self.host,
            port=self.port,
            db=self.database,
            username=self.username,
            password=self.secret("password"),
            socket_timeout=self.timeout + BLOCK_MS / 1000,
            socket_connect_timeout=self.timeout,
            retry=Retry(NoBackoff(), 0),  # the daemon retries, with its own back-off
            **tls,
        )

    def failed(self, error: Exception) -> ConnectorError:
        return ConnectorError(f"redis {self.host}:{self.port}: {error}", retry=True)


class RedisSource(Source):
    """Samples from Redis streams by a consumer group; acknowledged (XACK) after the commit.

    After a restart the consumer's own pending entries come first. Entries at or before the position are
    skipped, and acknowledged with the next commit: a crash between our commit and XACK repeats nothing.
    """

    name = "redis"
    raw = True
    example = ("streams: [samples]",)
    extra = "redis"
    modules = ("redis",)
    replayable = True
    guarantee = "No lost alert, no distinct duplicate, as far as the server keeps its stream."

    class Config(_Settings):
        streams: list[str] = Field(description="Stream keys.", min_length=1)
        group: str = Field(default="detector", description="Consumer group; created if absent.", min_length=1)
        consumer: str = Field(
            default="detector", description="Name in the group; keep it fixed.", min_length=1
        )
        start: str = Field(
            default="0", description="Where a new group starts: 0 is the oldest, $ the newest.",
            pattern=r"^(\$|[0-9]+(-[0-9]+)?)$",
        )  # fmt: skip
        field: str | None = Field(
            default="data", description="Field with the payload; null: the fields themselves are the sample."
        )
        count: int = Field(default=2000, description="Largest number of entries per read.", ge=1, le=100_000)
        decode: Decode = Field(default=Decode(), description="How a payload is read.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.decoder = Decoder(config.decode, separator=":")
        self._as_text = node_fields(config.decode.node or "node")  # a node 007 keeps its zeros
        self._client: Any = None
        self._reading: InFlight[Any] = InFlight()
        self._position: dict[str, str] = {}  # last entry read of each stream
        self._pending: dict[str, str] = {}  # while our own unacknowledged entries are read again
        # What to acknowledge, in order read: stream, its last entry, all entries of one read.
        self._owed: deque[tuple[str, tuple[int, int], list[bytes]]] = deque()
        self._portion = Portion(config.count)
        self._ready: deque[Batch] = deque()  # of one answer: a batch for each stream
        self._paused: Collection[str] = ()
        self._lag: float | None = None

    async def open(self, position: Any) -> None:
        self.ensure_libraries(self.config)
        self.decoder.open()
        from redis.exceptions import RedisError, ResponseError

        await self.close()
        self._position = dict(position or {})
        self._pending = dict.fromkeys(self.config.streams, "0")
        client = self.config.client()
        try:
            for stream in self.config.streams:
                try:
                    await client.xgroup_create(stream, self.config.group, self.config.start, mkstream=True)
                except ResponseError as error:
                    if not str(error).startswith("BUSYGROUP"):
                        raise
        except (TimeoutError, RedisError, OSError) as error:
            await client.aclose()
            raise self.config.failed(error) from None
        except BaseException:
            await client.aclose()
            raise
        self._client = client

    @property
    def withholds(self) -> int:
        """The server remembers what is not acknowledged."""
        return MAX_WITHHELD

    async def read(self) -> Batch | None:
        from redis.exceptions import RedisError

        while not self._ready:
            try:
                answer = await self._reading.run(self._fetch)
            except (TimeoutError, RedisError, OSError) as error:
                raise self.config.failed(error) from None
            self._take(answer)
        return self._ready.popleft()

    @property
    def partitions(self) -> Sequence[str]:
        streams: list[str] = self.config.streams
        return streams

    def pause(self, partitions: Collection[str]) -> None:
        self._paused = partitions

    async def _fetch(self) -> Any:
        if self._client is None:
            raise ConnectorError("redis is not open", retry=True)
        # Our own unacknowledged entries come first.
        again = {stream: entry for stream, entry in self._pending.items() if stream not in self._paused}
        held = {*self._pending, *self._paused}
        wanted = again or {stream: ">" for stream in self.config.streams if stream not in held}
        if not wanted:
            await asyncio.sleep(PAUSED_MS / 1000)
            return None
        block = None if again else PAUSED_MS if held else BLOCK_MS
        return await self._client.xreadgroup(
            self.config.group, self.config.consumer, wanted, count=self._portion.messages, block=block
        )

    def _take(self, answer: Any) -> None:
        """Decode what is new in an answer."""
        pairs = answer.items() if isinstance(answer, dict) else answer or []
        for key, entries in pairs:
            stream = key.decode()
            # The third protocol version wraps the entries in one more list.
            entries = entries[0] if entries and isinstance(entries[0], list) else entries
            if stream in self._pending:
                if entries:
                    self._pending[stream] = entries[-1][0].decode()
                else:
                    del self._pending[stream]
            if not entries:
                continue
            known, last = _order(self._position.get(stream, "0").encode()), _order(entries[-1][0])
            self._owed.append((stream, last, [entry for entry, _ in entries]))
            if _order(entries[0][0]) <= known:  # they come in order: only then may some be known
                entries = [pair for pair in entries if _order(pair[0]) > known]
            last = max(known, last)
            self._position[stream] = f"{last[0]}-{last[1]}"
            if entries:
                self._ready.append(self._batch(stream, entries))

    def _batch(self, stream: str, entries: list[Any]) -> Batch:
        batch = Batch(partition=stream)
        payloads: list[bytes] = []
        moments: list[float] = []
        for entry, fields in entries:
            payload = self._payload(fields)
            if payload is None:
                batch.reject("missing")
            else:
                payloads.append(payload)
                moments.append(_moment(entry))
        if moments:
            self._lag = max(0.0, time.time() - moments[-1])
        self.decoder.messages(payloads, batch, lambda i: (stream, moments[i]))
        self._portion.took(len(entries), batch)
        batch.position = {stream: self._position[stream]}
        return batch

    def _payload(self, fields: dict[bytes, bytes] | None) -> bytes | None:
        """The bytes to decode; None if the entry was trimmed away while pending, or lacks the field."""
        if not fields:
            return None
        if self.config.field is not None:
            return fields.get(self.config.field.encode())
        names = {name: name.decode(errors="replace") for name in fields}
        item = {
            name: fields[raw].decode(errors="replace") if name in self._as_text else _number(fields[raw])
            for raw, name in names.items()
        }
        return msgspec.json.encode(item)

    async def commit(self, position: Any) -> None:
        from redis.exceptions import RedisError

        if self._client is None or position is None:
            return
        upto = {stream: _order(entry.encode()) for stream, entry in position.items()}
        done = [lot for lot in self._owed if lot[1] <= upto.get(lot[0], (0, 0))]
        try:
            for stream, _, entries in done:
                await self._client.xack(stream, self.config.group, *entries)
        except (TimeoutError, RedisError, OSError) as error:
            raise self.config.failed(error) from None
        self._owed = deque(lot for lot in self._owed if lot[1] > upto.get(lot[0], (0, 0)))

    async def close(self) -> None:
        await self._reading.stop()
        self._owed.clear()
        self._ready.clear()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @property
    def lag(self) -> float | None:
        return self._lag


class RedisSink(Sink):
    """Each record as an entry of a stream: fields `id`, `event` and `record` (JSON), all or none.

    Whether a transaction without an answer was carried out is read off the end of the stream, as it is after
    a start: a record that is there is not written again.
    """

    name = "redis"
    raw = True
    extra = "redis"
    modules = ("redis",)

    class Config(_Settings):
        stream: str = Field(default="detector:incidents", description="Stream key.", min_length=1)
        max_length: int = Field(default=100_000, description="About how many entries are kept.", ge=1)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._client: Any = None
        self._there: set[str] | None = None  # ids at the end of the stream; None: to be looked up

    async def open(self) -> None:
        self.ensure_libraries(self.config)
        from redis.exceptions import RedisError

        await self.close()
        client = self.config.client()
        try:
            await client.ping()
        except (TimeoutError, RedisError, OSError) as error:
            await client.aclose()
            raise self.config.failed(error) from None
        self._client = client

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        from redis.exceptions import RedisError

        if self._client is None:
            await self.open()
        try:
            there = self._there if self._there is not None else await self._look()
            async with self._client.pipeline(transaction=True) as pipe:
                for record in records:
                    fields = {
                        "id": str(record["id"]),
                        "event": str(record.get("event", "")),
                        "record": msgspec.json.encode(record),
                    }
                    if fields["id"] not in there:
                        pipe.xadd(self.config.stream, fields, maxlen=self.config.max_length, approximate=True)
                await pipe.execute()
        except (TimeoutError, RedisError, OSError) as error:
            self._there = None
            raise self.config.failed(error) from None
        except asyncio.CancelledError:
            self._there = None
            raise
        self._there = set()

    async def _look(self) -> set[str]:
        from redis.exceptions import ResponseError

        try:
            entries = await self._client.xrevrange(self.config.stream, count=TAIL)
        except ResponseError:  # we may write only: then a repeat is possible
            return set()
        return {fields.get(b"id", b"").decode(errors="replace") for _, fields in entries}

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _order(entry: bytes) -> tuple[int, int]:
    moment, _, sequence = entry.partition(b"-")
    return int(moment), int(sequence or 0)


def _moment(entry: bytes) -> float:
    """When the server took it, unix seconds."""
    return _order(entry)[0] / 1000


def _number(value: bytes) -> Any:
    try:
        number = float(value)
    except ValueError:
        return value.decode(errors="replace")
    return number if abs(number) < float("inf") else value.decode(errors="replace")
