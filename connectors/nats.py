"""NATS JetStream: a durable pull consumer in, publishes with message ids out."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from pydantic import Field, field_validator

from connectors.base import Accepted, Batch, ConnectorError, Portion, Sink, Source, unheard
from connectors.codec.decoder import Decode, Decoder
from connectors.settings.secrets import FilePath, Secret, Tls, WithSecrets
from connectors.settings.units import Duration

PULL_S = 5.0  # how long one pull request stays open at the server
MAX_MESSAGES = 5000  # of one batch


class _Settings(WithSecrets):
    """What the source and the sink have in common."""

    servers: list[str] = Field(
        default=["nats://127.0.0.1:4222"], description="Server addresses.", min_length=1
    )
    username: str | None = Field(default=None, description="User name.")
    password: Secret = Field(default=None, description="Password, as ${VARIABLE}.")
    password_file: FilePath | None = Field(default=None, description="File with the password.")
    token: Secret = Field(default=None, description="Token, as ${VARIABLE}.")
    token_file: FilePath | None = Field(default=None, description="File with the token.")
    credentials_file: FilePath | None = Field(default=None, description="NATS .creds file (JWT and seed).")
    tls: Tls | None = Field(default=None, description="TLS settings; default: according to the address.")
    timeout: Duration = Field(default=10.0, description="Longest wait for a connection or an answer.", gt=0)

    @field_validator("servers")
    @classmethod
    def _usable(cls, servers: list[str]) -> list[str]:
        for server in servers:
            if not re.fullmatch(r"(nats|tls|ws|wss)://[^/@\s]+", server):
                raise ValueError("must be addresses such as nats://host:4222, without user or password")
        return servers

    async def connect(self, closed: Any) -> Any:
        """A connection that ends when it is lost, instead of reconnecting by itself."""
        import nats
        from nats.errors import Error

        options: dict[str, Any] = {
            "user": self.username,
            "password": self.secret("password"),
            "token": self.secret("token"),
            "user_credentials": str(self.credentials_file) if self.credentials_file else None,
            "tls": self.tls.context() if self.tls else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        failures: list[str] = []

        async def failed(error: Exception) -> None:
            failures.append(str(error) or type(error).__name__)

        try:
            return await asyncio.wait_for(
                nats.connect(
                    servers=self.servers,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,  # also counts for the first connection
                    reconnect_time_wait=0,
                    connect_timeout=self.timeout,
                    ping_interval=10,
                    max_outstanding_pings=2,
                    error_cb=failed,
                    closed_cb=closed,
                    **given,
                ),
                self.timeout + 1,
            )
        except (TimeoutError, Error, OSError) as error:
            reason = failures[-1] if failures else str(error) or type(error).__name__
            raise ConnectorError(f"nats {self.servers[0]}: {reason}", retry=True) from None

    def failed(self, error: Exception | str, retry: bool = True) -> ConnectorError:
        said = str(error) or type(error).__name__
        return ConnectorError(f"nats {self.servers[0]}: {said}", retry=retry)


class NatsSource(Source):
    """Samples from a JetStream stream by a durable pull consumer, acknowledged in batches.

    The daemon's position (the stream's sequence number) is the truth: a consumer that stands elsewhere
    is made anew at the position. So nothing waits for the server's redelivery timer after a crash.
    """

    name = "nats"
    raw = True
    example = ("stream: SAMPLES",)
    extra = "nats"
    modules = ("nats",)
    replayable = True
    guarantee = "No lost alert, no distinct duplicate, as far as the server keeps its stream."

    class Config(_Settings):
        stream: str = Field(description="JetStream stream; limits or interest retention.", min_length=1)
        subjects: list[str] = Field(default_factory=list, description="Only these subjects; default all.")
        durable: str = Field(
            default="detector", description="Name of the durable consumer.", pattern=r"^[A-Za-z0-9_-]+$"
        )
        start: Literal["all", "new"] = Field(default="all", description="Where a new consumer starts.")
        batch: int = Field(default=2000, description="Messages asked for at once.", ge=1, le=100_000)
        max_pending: int = Field(
            default=50_000,
            description="Largest number of unacknowledged messages; beyond it the server waits.",
            ge=1,
        )
        ack_wait: Duration = Field(
            default=60.0, description="When the server sends an unacknowledged message again.", ge=1
        )
        decode: Decode = Field(default=Decode(), description="How a message is read.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.decoder = Decoder(config.decode, separator=".")
        self._connection: Any = None
        self._messages: deque[Any] = deque()
        self._portion = Portion(MAX_MESSAGES)
        self._arrived = asyncio.Event()
        self._failure: str | None = None
        self._inbox = ""
        self._asked = 0  # messages the open pull request may still bring
        self._asked_at = 0.0
        self._sequence = 0  # of the stream, last given out
        self._delivered = 0  # of the consumer, last received; a gap means a message got lost on the way
        self._owed: deque[tuple[int, Any]] = deque()
        self._lag: float | None = None

    async def open(self, position: Any) -> None:
        self.ensure_libraries(self.config)
        self.decoder.open()
        from nats.errors import Error
        from nats.js.errors import Error as JetStreamError

        await self.close()
        self._failure, self._asked, self._delivered = None, 0, 0
        self._connection = await self.config.connect(self._lost)
        try:
            async with asyncio.timeout(self.config.timeout):
                await self._prepare(None if position is None else position["sequence"])
                self._inbox = self._connection.new_inbox()
                await self._connection.subscribe(self._inbox, cb=self._receive)
                await self._connection.flush()
        except (TimeoutError, Error, JetStreamError, OSError) as error:
            await self.close()
            raise self.config.failed(error) from None
        except BaseException:
            await self.close()
            raise

    async def _prepare(self, sequence: int | None) -> None:
        """See to it that the durable consumer goes on exactly after `sequence`."""
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
        from nats.js.errors import NotFoundError

        config, stream = self.config, self._connection.jetstream()
        state = (await stream.stream_info(config.stream)).state
        if sequence is not None and sequence > state.last_seq:
            sequence = 0  # the stream was made anew: its numbers have nothing to do with ours
        try:
            found = await stream.consumer_info(config.stream, config.durable)
        except NotFoundError:
            found = None
        if found is not None:
            floor, at = found.ack_floor.stream_seq, found.delivered.stream_seq
            if (
                found.config.ack_policy == AckPolicy.ALL
                and not found.num_ack_pending
                and sequence in (None, at)
            ):
                self._sequence = at
                return
            sequence = floor if sequence is None else sequence
            await stream.delete_consumer(config.stream, config.durable)
        self._sequence = sequence or 0
        policy = DeliverPolicy.NEW if config.start == "new" else DeliverPolicy.ALL
        await stream.add_consumer(
            config.stream,
            ConsumerConfig(
                durable_name=config.durable,
                ack_policy=AckPolicy.ALL,
                ack_wait=config.ack_wait,
                max_ack_pending=config.max_pending,
                filter_subject=config.subjects[0] if len(config.subjects) == 1 else None,
                filter_subjects=config.subjects if len(config.subjects) > 1 else None,
                deliver_policy=policy if sequence is None else DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=None if sequence is None else sequence + 1,
            ),
        )

    async def _lost(self) -> None:
        self._failure = self._failure or "connection lost"
        self._arrived.set()

    async def _receive(self, message: Any) -> None:
        status = (message.headers or {}).get("Status") if not message.data else None
        if status is None:
            self._messages.append(message)
            self._asked -= 1
        elif status == "409" and "Consumer" in (message.headers or {}).get("Description", ""):
            self._failure = message.headers["Description"]
        elif status != "100":  # the request has expired or brought all there was
            self._asked = 0
        self._arrived.set()

    @property
    def withholds(self) -> int:
        """The server waits at a number of unacknowledged messages."""
        return int(self.config.max_pending) // 2

    async def read(self) -> Batch | None:
        while True:
            self._arrived.clear()
            if self._messages:
                batch = self._batch()
                if batch is not None:
                    return batch
            if self._connection is None:
                raise ConnectorError("nats is not open", retry=True)
            if self._failure:
                raise self.config.failed(self._failure)
            overdue = time.monotonic() - self._asked_at - PULL_S - self.config.timeout
            if self._asked > 0 and overdue > 0:
                raise self.config.failed("the server does not answer")
            if self._asked <= 0:
                await self._ask()
            try:
                await asyncio.wait_for(self._arrived.wait(), PULL_S)
            except TimeoutError:
                continue

    async def _ask(self) -> None:
        from nats.errors import Error

        request = {"batch": self.config.batch, "expires": int(PULL_S * 1e9)}
        place = f"$JS.API.CONSUMER.MSG.NEXT.{self.config.stream}.{self.config.durable}"
        self._asked, self._asked_at = self.config.batch, time.monotonic()
        try:
            await self._connection.publish(place, msgspec.json.encode(request), reply=self._inbox)
        except (Error, OSError) as error:
            raise self.config.failed(error) from None

    def _batch(self) -> Batch | None:
        batch = Batch()
        fresh = None
        payloads, subjects, arrivals = [], [], []
        for _ in range(min(len(self._messages), self._portion.messages)):
            message = self._messages.popleft()
            facts = message.metadata
            if self._delivered and facts.sequence.consumer != self._delivered + 1:
                # Acknowledging a later message would acknowledge the lost one with it.
                self._failure = "a message was lost on the way"
                self._messages.clear()
                break
            self._delivered = facts.sequence.consumer
            if facts.sequence.stream <= self._sequence:
                continue  # sent again because our commit took longer than ack_wait
            self._sequence, fresh = facts.sequence.stream, message
            payloads.append(message.data)
            subjects.append(message.subject)
            arrivals.append(facts.timestamp.timestamp())
        if fresh is None:
            return None
        self._lag = max(0.0, time.time() - arrivals[-1])
        self.decoder.messages(payloads, batch, lambda i: (subjects[i], arrivals[i]))
        self._portion.took(len(payloads), batch)
        self._owed.append((self._sequence, fresh))
        batch.position = {"sequence": self._sequence}
        return batch

    async def commit(self, position: Any) -> None:
        from nats.errors import Error

        last = None
        while self._owed and position is not None and self._owed[0][0] <= position["sequence"]:
            last = self._owed.popleft()[1]
        if last is None or self._connection is None:
            return
        try:
            await last.ack_sync(timeout=self.config.timeout)
        except (TimeoutError, Error, OSError) as error:
            raise self.config.failed(error) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        self._messages.clear()
        self._owed.clear()
        if connection is not None:
            await connection.close()

    @property
    def lag(self) -> float | None:
        return self._lag


class NatsSink(Sink):
    """Each record published to JetStream with its id as `Nats-Msg-Id`, so that repeats are discarded."""

    name = "nats"
    raw = True
    extra = "nats"
    modules = ("nats",)

    class Config(_Settings):
        subject: str = Field(
            default="detector.incidents",
            description="Subject; a stream must accept it.",
            pattern=r"^[^\s*>]+$",
        )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._connection: Any = None

    async def open(self) -> None:
        self.ensure_libraries(self.config)
        await self.close()
        self._connection = await self.config.connect(None)

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        if self._connection is None or not self._connection.is_connected:
            await self.open()
        from nats.errors import Error, MaxPayloadError
        from nats.js.errors import APIError, NoStreamResponseError

        stream = self._connection.jetstream()
        try:
            for record in records:
                await stream.publish(
                    self.config.subject,
                    msgspec.json.encode(record),
                    timeout=self.config.timeout,
                    headers={"Nats-Msg-Id": str(record["id"])},
                )
                accepted(str(record["id"]))
        except MaxPayloadError as error:
            raise self.config.failed(error, retry=False) from None
        except NoStreamResponseError:
            raise self.config.failed(f"no stream takes the subject {self.config.subject}") from None
        except (TimeoutError, Error, OSError) as error:
            wrong = isinstance(error, APIError) and error.code == 400  # above the stream's own limit, for one
            raise self.config.failed(error, retry=not wrong) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
