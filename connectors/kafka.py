"""Kafka by librdkafka (confluent-kafka): a consumer group in, an idempotent producer out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import msgspec
from pydantic import Field, field_validator

from connectors.base import Accepted, Batch, ConnectorError, InFlight, Portion, Sink, Source, unheard
from connectors.codec.decoder import Decode, Decoder
from connectors.settings.secrets import FilePath, Secret, Tls, WithSecrets
from connectors.settings.units import Duration

MAX_MESSAGES = 10_000  # of one batch
POLL_S = 0.25  # how long the thread waits for a first message before it looks whether to stop
SILENT_S, ANSWER_S = 5.0, 2.0  # after so long without a message the brokers are asked, and must answer
PAUSED_S = 0.02  # the same while some partitions are not to be read: they may be soon
_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


class _Settings(WithSecrets):
    """What the source and the sink have in common."""

    brokers: list[str] = Field(description="Addresses of some brokers, host:port.", min_length=1)
    username: str | None = Field(default=None, description="SASL user name.")
    password: Secret = Field(default=None, description="SASL password, as ${VARIABLE}.")
    password_file: FilePath | None = Field(default=None, description="File with the SASL password.")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="SASL mechanism."
    )
    tls: Tls | None = Field(default=None, description="TLS settings; default: no TLS.")
    timeout: Duration = Field(default=10.0, description="Longest wait for a connection or an answer.", gt=0)
    options: dict[str, str | int | bool] = Field(
        default_factory=dict, description="Further librdkafka settings; no secrets here."
    )

    @field_validator("options")
    @classmethod
    def _harmless(cls, options: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
        reserved = ("enable.auto", "bootstrap", "group.id", "sasl.", "ssl.", "security.protocol")
        for name in options:
            if name.startswith(reserved) or "password" in name or "secret" in name:
                raise ValueError(f"{name} may not be set here")
        return options

    def client_options(self) -> dict[str, Any]:
        """Settings of librdkafka for the connection, with secrets in them: not for printing."""
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.brokers),
            "client.id": "detector",
            "reconnect.backoff.ms": 100,
            "reconnect.backoff.max.ms": 5000,  # librdkafka adds the jitter
            "socket.connection.setup.timeout.ms": max(1000, int(self.timeout * 1000)),
            "logger": _LOG,
            "log_level": 2,  # lost connections come as errors, and as such they are told once
        }
        if self.tls is not None:
            self.tls.context()  # the same complaint about unusable files as everywhere
            names = {"ca_file": "ca", "cert_file": "certificate", "key_file": "key"}
            for field, name in names.items():
                if getattr(self.tls, field) is not None:
                    found[f"ssl.{name}.location"] = str(getattr(self.tls, field))
            if self.tls.secret("key_password"):
                found["ssl.key.password"] = self.tls.secret("key_password")
            found["ssl.endpoint.identification.algorithm"] = "https" if self.tls.verify_hostname else "none"
        if self.username is not None:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.secret("password") or "",
            }
        sasl, tls = self.username is not None, self.tls is not None
        found["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
        return found | self.options

    def failed(self, error: Any, retry: bool = True) -> ConnectorError:
        return ConnectorError(f"kafka {self.brokers[0]}: {error}", retry=retry)


class KafkaSource(Source):
    """Samples from Kafka topics by a consumer group; offsets are committed after the state is committed.

    A partition starts at the later of the daemon's position and the group's committed offset.
    """

    name = "kafka"
    raw = True
    example = ('brokers: ["127.0.0.1:9092"]', "topics: [samples]")
    extra = "kafka"
    modules = ("confluent_kafka",)
    replayable = True
    guarantee = "No lost alert, no distinct duplicate, as far as the brokers keep the topic."

    class Config(_Settings):
        topics: list[str] = Field(description="Topics.", min_length=1)
        group: str = Field(default="detector", description="Consumer group.", min_length=1)
        start: Literal["earliest", "latest"] = Field(
            default="earliest", description="Where to start without a committed offset."
        )
        key_is_node: bool = Field(default=False, description="Take the node from the message key.")
        decode: Decode = Field(default=Decode(), description="How a message is read.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        decode = config.decode
        if config.key_is_node:
            decode = decode.model_copy(update={"topic": "{node}", "node": None, "node_constant": None})
        # A separator no key contains: the whole key is the node.
        self.decoder = Decoder(decode, separator="\0" if config.key_is_node else ".")
        self._consumer: Any = None
        self._thread: ThreadPoolExecutor | None = None
        self._reading: InFlight[list[Any]] = InFlight()
        self._portion = Portion(MAX_MESSAGES)
        self._position: dict[str, int] = {}  # partition, as topic/number -> next offset
        self._ready: deque[Batch] = deque()  # of one poll: a batch for each partition
        self._assigned: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()  # those assigned when `read` last gave something
        self._heard = 0.0  # when a broker last gave a sign of life
        self._paused: Collection[str] = ()
        self._pausing: set[str] = set()  # those that the consumer has paused
        self._failure: str | None = None
        self._said: str | None = None  # the latest complaint of the library
        self._lag: float | None = None

    async def open(self, position: Any) -> None:
        self.ensure_libraries(self.config)
        self.decoder.open()
        await self.close()
        self._position = _flat(position or {})
        self._assigned, self._told, self._pausing = (), (), set()
        self._failure = self._said = None
        self._heard = time.monotonic()
        options = self.config.client_options() | {
            "group.id": self.config.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": self.config.start,
            "queued.max.messages.kbytes": 16384,  # the bound of what librdkafka reads ahead
            "fetch.wait.max.ms": 100,  # how long a broker may sit on messages that come in one by one
            "error_cb": self._report,
        }
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka")
        try:
            await self._in_thread(lambda: self._connect(options))
        except BaseException:
            await self.close()
            raise

    def _connect(self, options: dict[str, Any]) -> None:
        from confluent_kafka import Consumer, KafkaException

        try:
            self._consumer = Consumer(options)
            _greet(self._consumer, self.config.timeout, lambda: self._thread is None)
            self._consumer.subscribe(
                self.config.topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke
            )
        except KafkaException as error:
            raise self.config.failed(self._said or _text(error.args[0])) from None
        self._failure = None

    def _report(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._said = _text(error)  # "all brokers are down" comes after the reason and tells less
        if error.fatal() or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION):
            self._failure = self._said or _text(error)

    def _assign(self, consumer: Any, partitions: list[Any]) -> None:
        committed = {
            (found.topic, found.partition): found.offset
            for found in consumer.committed(partitions, timeout=self.config.timeout)
        }
        for part in partitions:
            own = self._position.get(_name(part), -1)
            latest = max(own, committed.get((part.topic, part.partition), -1))
            if latest >= 0:
                part.offset = latest
        consumer.assign(partitions)
        self._assigned, self._pausing = tuple(map(_name, partitions)), set()

    def _revoke(self, consumer: Any, partitions: list[Any]) -> None:
        gone = set(map(_name, partitions))
        self._assigned = tuple(name for name in self._assigned if name not in gone)

    @property
    def partitions(self) -> Sequence[str]:
        return self._assigned

    def pause(self, partitions: Collection[str]) -> None:
        self._paused = partitions

    async def read(self) -> Batch | None:
        while not self._ready:
            messages = await self._reading.run(lambda: self._in_thread(self._poll))
            if messages:
                self._ready.extend(self._batch(name, part) for name, part in self._sorted(messages).items())
            elif self._told != self._assigned:
                self._told = self._assigned
                return Batch()
        self._told = self._assigned
        return self._ready.popleft()

    def _sorted(self, messages: list[Any]) -> dict[str, list[Any]]:
        """The messages of each partition."""
        found: dict[tuple[str, int], list[Any]] = {}
        for message in messages:
            found.setdefault((message.topic(), message.partition()), []).append(message)
        return {f"{topic}/{number}": part for (topic, number), part in found.items()}

    def _follow_pauses(self) -> None:
        from confluent_kafka import TopicPartition

        wanted = set(self._paused) & set(self._assigned)
        if wanted == self._pausing:
            return
        stop, go = ([TopicPartition(*_place(name)) for name in names]
                    for names in (wanted - self._pausing, self._pausing - wanted))  # fmt: skip
        if stop:
            self._consumer.pause(stop)
        if go:
            self._consumer.resume(go)
        self._pausing = wanted

    def _poll(self) -> list[Any]:
        """Blocking: wait for a first message, then take all that are there."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            self._follow_pauses()
            first = self._consumer.poll(PAUSED_S if self._pausing else POLL_S)
            if first is None:
                if self._failure:
                    raise self.config.failed(self._failure)
                self._look_for_brokers()
                return []
            self._heard = time.monotonic()
            messages = [first, *self._consumer.consume(self._portion.messages, timeout=0)]
        except KafkaException as error:
            raise self.config.failed(_text(error.args[0])) from None
        good = [message for message in messages if message.error() is None]
        if not good:
            errors = [message.error() for message in messages]
            errors = [error for error in errors if error.code() != KafkaError._PARTITION_EOF]
            if errors:
                raise self.config.failed(_text(errors[0]))
        self._failure = None
        return good

    def _look_for_brokers(self) -> None:
        """In silence ask now and then: the library does not always tell that all connections are lost."""
        from confluent_kafka import KafkaException

        if time.monotonic() - self._heard < SILENT_S:
            return
        try:
            self._consumer.list_topics(self.config.topics[0], timeout=min(ANSWER_S, self.config.timeout))
        except KafkaException as error:
            raise self.config.failed(self._said or _text(error.args[0])) from None
        self._heard = time.monotonic()

    def _batch(self, name: str, messages: list[Any]) -> Batch:
        self._position[name] = messages[-1].offset() + 1
        batch = Batch(partition=name, position={name: self._position[name]})

        def origin(i: int) -> tuple[str | None, float]:
            message = messages[i]
            if self.config.key_is_node:
                return (message.key() or b"").decode(errors="replace"), _sent(message)
            return message.topic(), _sent(message)

        self._lag = max(0.0, time.time() - _sent(messages[-1]))
        self.decoder.messages([message.value() or b"" for message in messages], batch, origin)
        self._portion.took(len(messages), batch)
        return batch

    async def commit(self, position: Any) -> None:
        if self._consumer is None or not position:
            return
        # librdkafka is thread-safe: no need to wait for the thread that polls.
        await asyncio.to_thread(self._commit, self._consumer, position)

    def _commit(self, consumer: Any, position: dict[str, Any]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            mine = set(map(_name, consumer.assignment()))
            offsets = [
                TopicPartition(*_place(name), offset)
                for name, offset in _flat(position).items()
                if name in mine
            ]
            if offsets:
                consumer.commit(offsets=offsets, asynchronous=False)
        except (KafkaException, RuntimeError) as error:
            raise self.config.failed(_text(error.args[0])) from None

    async def _in_thread(self, function: Callable[[], Result]) -> Result:
        if self._thread is None:
            raise ConnectorError("kafka is not open", retry=True)
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        await self._reading.stop()
        self._ready.clear()
        if thread is not None:
            await asyncio.to_thread(thread.shutdown)
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await asyncio.to_thread(consumer.close)

    @property
    def lag(self) -> float | None:
        return self._lag


class KafkaSink(Sink):
    """Each record as a message; `write` returns when all replicas have them.

    The key is the incident, so that its records stay in order whatever the number of partitions; the id is
    the header `id`. What is not acknowledged in time stays with the idempotent producer, which repeats
    nothing: the next `write` of the same record waits for it instead of producing it once more.
    """

    name = "kafka"
    raw = True
    example = ('brokers: ["127.0.0.1:9092"]',)
    extra = "kafka"
    modules = ("confluent_kafka",)

    class Config(_Settings):
        topic: str = Field(default="detector-incidents", description="Topic of the records.", min_length=1)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._producer: Any = None
        self._said: str | None = None  # the latest complaint of the library
        self._closing = False
        self._outcomes: dict[str, Any] = {}  # id -> None on its way, True arrived, else the error

    async def open(self) -> None:
        self.ensure_libraries(self.config)
        await self.close()
        self._closing, self._said = False, None
        await asyncio.to_thread(self._connect)

    def _connect(self) -> None:
        from confluent_kafka import KafkaException, Producer

        options = self.config.client_options() | {
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # never: who waits gives up sooner, and comes back for the same message
            "linger.ms": 5,
            "error_cb": self._report,
        }
        try:
            producer = Producer(options)
            _greet(producer, self.config.timeout, lambda: self._closing)
        except KafkaException as error:
            raise self.config.failed(self._said or _text(error.args[0])) from None
        self._producer = producer

    def _report(self, error: Any) -> None:
        self._said = _text(error)

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        if self._producer is None:
            await self.open()
        try:
            await asyncio.to_thread(self._produce, self._producer, records)
        finally:
            for id in (str(record["id"]) for record in records):
                if self._outcomes.get(id) is True:
                    del self._outcomes[id]
                    accepted(id)

    def _produce(self, producer: Any, records: Sequence[Mapping[str, Any]]) -> None:
        """Blocking: hand over what is not on its way yet, and wait for all of it."""
        from confluent_kafka import KafkaException

        waiting = {str(record["id"]): record for record in records}
        deadline = time.monotonic() + self.config.timeout
        try:
            for id, record in waiting.items():
                if id not in self._outcomes:
                    self._hand_over(producer, id, record, deadline)
            while any(self._outcomes[id] is None for id in waiting):
                if time.monotonic() > deadline:
                    raise self.config.failed(self._said or "not acknowledged in time")
                producer.poll(0.05)
        except KafkaException as error:  # of the producer itself, which is made anew
            self._give_up()
            raise self.config.failed(_text(error.args[0])) from None
        errors = [self._outcomes.pop(id) for id in waiting if self._outcomes[id] is not True]
        if errors:
            retry = not any(_is_refusal(error) for error in errors)
            raise self.config.failed(_text(errors[0]), retry)
        self._said = None

    def _hand_over(self, producer: Any, id: str, record: Mapping[str, Any], deadline: float) -> None:
        from confluent_kafka import KafkaException

        def settled(error: Any, message: Any) -> None:
            if id in self._outcomes:
                self._outcomes[id] = True if error is None else error

        self._outcomes[id] = None
        key, headers = str(record.get("incident") or id), {"id": id}
        try:
            while True:
                try:
                    value = msgspec.json.encode(record)
                    producer.produce(self.config.topic, value, key, headers=headers, on_delivery=settled)
                    return
                except BufferError:  # the local queue is full: let some go
                    producer.poll(0.1)
                    if time.monotonic() > deadline:
                        raise self.config.failed("the local queue stays full") from None
        except KafkaException as error:
            if not _is_refusal(error.args[0]):
                raise
            self._outcomes[id] = error.args[0]
        except ConnectorError:
            del self._outcomes[id]
            raise

    def _give_up(self) -> None:
        """What was not delivered is written again by the caller; it must not go out twice."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0.1)
        self._outcomes = {id: outcome for id, outcome in self._outcomes.items() if outcome is True}

    async def close(self) -> None:
        self._closing = True
        await asyncio.to_thread(self._give_up)


def _is_refusal(error: Any) -> bool:
    """Whether it is about the one message, for good."""
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE,
    )  # fmt: skip


def _greet(client: Any, timeout: float, stopped: Callable[[], bool]) -> None:
    """Wait until a broker answers; in growing steps, so that whoever stops us need not wait for all."""
    from confluent_kafka import KafkaException

    deadline, step = time.monotonic() + timeout, POLL_S
    while True:
        try:
            client.list_topics(timeout=max(0.01, min(step, deadline - time.monotonic())))
            return
        except KafkaException:
            client.poll(0)  # hears the reason
            if stopped() or time.monotonic() >= deadline:
                raise
            step *= 2


def _name(part: Any) -> str:
    return f"{part.topic}/{part.partition}"


def _place(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("/")  # a topic has no slash
    return topic, int(number)


def _flat(position: dict[str, Any]) -> dict[str, int]:
    """Next offsets by partition; version 0.1 stored them by topic and number."""
    found = {name: offset for name, offset in position.items() if isinstance(offset, int)}
    for topic, offsets in position.items():
        if isinstance(offsets, dict):
            found |= {f"{topic}/{number}": offset for number, offset in offsets.items()}
    return found


def _sent(message: Any) -> float:
    """When the broker (or the producer) says it was sent; now, if it does not say."""
    kind, stamp = message.timestamp()
    return float(stamp / 1000) if kind and stamp > 0 else time.time()


def _text(error: Any) -> str:
    return error.str() if hasattr(error, "str") else str(error)
