"""MQTT by paho: samples from topics, acknowledged after the commit; records to a topic.

Nothing reconnects behind the daemon's back: a lost connection makes `read` raise, and the next `open`
resumes the broker's session, which re-sends what was not acknowledged.
"""

from __future__ import annotations

import asyncio
import math
import secrets as randomness
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
from pydantic import Field, model_validator

from connectors.base import Accepted, Batch, ConnectorError, Portion, Sink, Source, unheard
from connectors.codec.decoder import Decode, Decoder
from connectors.settings.secrets import FilePath, Secret, Tls, WithSecrets
from connectors.settings.units import Duration

MAX_MESSAGES = 5000  # of one batch
MAX_HELD = 32 * 2**20  # bytes of QoS 0 messages
BUSY_S = 0.05  # a batch so soon after the last one means a stream of messages
GATHER_S = 0.01  # how long messages of a stream are gathered
HEADER = 32  # bytes of a packet besides topic and payload, at most
# Answers that are about the one message, for good: topic invalid, packet too large, payload format invalid.
REFUSED = (0x90, 0x95, 0x99)
SLICE_S = 0.05  # how often a waiting sender looks whether the connection was lost


class _Settings(WithSecrets):
    """What the source and the sink have in common."""

    host: str = Field(description="Broker host.", min_length=1)
    port: int | None = Field(default=None, description="Broker port; 1883, with TLS 8883.", ge=1, le=65535)
    version: Literal["5", "3.1.1"] = Field(default="5", description="Protocol version.")
    username: str | None = Field(default=None, description="User name.")
    password: Secret = Field(default=None, description="Password, as ${VARIABLE}.")
    password_file: FilePath | None = Field(default=None, description="File with the password.")
    tls: Tls | None = Field(default=None, description="TLS settings; default: no TLS.")
    keepalive: Duration = Field(
        default=30.0, description="Interval after which a ping is sent.", ge=1, le=65535
    )
    timeout: Duration = Field(default=10.0, description="Longest wait for a connection or an answer.", gt=0)


class _Connection:
    """One paho client with its network thread."""

    def __init__(self, config: _Settings, client_id: str, lost: Callable[[], None]) -> None:
        self.config = config
        self.client_id = client_id
        self.failure: str | None = None
        self.client: Any = None
        self._lost = lost
        self._answered = threading.Event()
        self.largest: float = math.inf  # bytes of a packet that the broker takes, if it says so
        self.answers: dict[int, Any] = {}  # packet id -> what the broker said to a message of ours
        self._closing = False
        # Packet id (0: nothing to acknowledge), topic, payload.
        self.messages: deque[tuple[int, str | None, bytes]] = deque()
        self.came = self.went = 0  # bytes of payloads; each is written by one thread alone
        self.unacknowledged: deque[tuple[int, list[int]]] = deque()  # packet ids by delivery

    def connect(
        self,
        on_message: Callable[[Any, Any, Any], None] | None = None,
        topics: Sequence[tuple[str, int]] = (),
        keep_session: float = 0,
        receive_maximum: int = 65535,
    ) -> None:
        """Blocking: connect, be accepted, subscribe; or raise `ConnectorError`."""
        import paho.mqtt.client as paho
        from paho.mqtt.enums import CallbackAPIVersion
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        config, five = self.config, self.config.version == "5"
        client = self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self.client_id,
            clean_session=None if five else not keep_session,
            protocol=paho.MQTTv5 if five else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = config.timeout
        client.on_message = on_message
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_disconnect = self._disconnected
        client.on_publish = self._published
        if config.username is not None:
            client.username_pw_set(config.username, config.secret("password"))
        if config.tls is not None:
            client.tls_set_context(config.tls.context())
            client.tls_insecure_set(not config.tls.verify_hostname)
        arguments: dict[str, Any] = {}
        if five:
            properties = Properties(PacketTypes.CONNECT)
            properties.ReceiveMaximum = receive_maximum
            if keep_session:
                properties.SessionExpiryInterval = int(keep_session)
            arguments = {"clean_start": not keep_session, "properties": properties}
        port = config.port or (8883 if config.tls else 1883)
        try:
            client.connect(config.host, port, int(config.keepalive), **arguments)
            client.loop_start()
            self._await_answer("no answer to CONNECT")
            if topics:
                self._answered.clear()
                client.subscribe(list(topics))
                self._await_answer("no answer to SUBSCRIBE")
        except (OSError, ValueError) as error:
            self.close()
            raise ConnectorError(f"mqtt {config.host}:{port}: {error}", retry=True) from None
        except ConnectorError:
            self.close()
            raise

    def _await_answer(self, silence: str) -> None:
        if not self._answered.wait(self.config.timeout):
            self.failure = self.failure or silence
        if self.failure:
            raise ConnectorError(f"mqtt {self.config.host}: {self.failure}", retry=True)

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.failure = f"refused: {reason}"
        self.largest = getattr(properties, "MaximumPacketSize", math.inf)
        self._answered.set()

    def _published(self, client: Any, data: Any, mid: int, reason: Any, properties: Any) -> None:
        self.answers[mid] = reason

    def _subscribed(self, client: Any, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if refused:
            self.failure = f"subscription refused: {refused[0]}"
        self._answered.set()

    def _disconnected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if not self._closing:
            self.failure = self.failure or f"connection lost: {reason}"
            self._lost()
        self._answered.set()

    def close(self) -> None:
        """Blocking: disconnect and end the thread."""
        self._closing = True
        if self.client is not None:
            self.client.disconnect()
            self.client.loop_stop()


class MqttSource(Source):
    """Samples from MQTT topics.

    QoS 1 messages are acknowledged after the commit, and the broker keeps the session while we are
    away. QoS 2 is taken as QoS 1 on purpose: the client library keeps half-delivered QoS 2 messages in
    memory only, so a crash would lose them; with QoS 1 they come again.
    """

    name = "mqtt"
    raw = True
    example = ("host: 127.0.0.1", 'topics: ["sensors/#"]')
    extra = "mqtt"
    modules = ("paho",)
    replayable = False
    guarantee = (
        "QoS 1: no lost alert, no distinct duplicate, within the broker's queue bound for an absent "
        "client; QoS 0: at most once."
    )

    class Config(_Settings):
        topics: list[str] = Field(description="Topic filters to subscribe to.", min_length=1)
        qos: Literal[0, 1] = Field(default=1, description="0: at most once; 1: until acknowledged.")
        client_id: str = Field(
            default="detector",
            description="Fixed client name under which the broker keeps the session.",
            min_length=1,
        )
        session_expiry: Duration = Field(
            default=7 * 86400.0,
            description="How long the broker keeps the session while the daemon is disconnected.",
            ge=0,
        )
        shared: str | None = Field(
            default=None, description="Group name of a shared subscription.", pattern=r"^[^/+#]+$"
        )
        connections: int = Field(
            default=1, description="Connections of the shared subscription.", ge=1, le=32
        )
        receive_maximum: int = Field(
            default=20_000,
            description="Largest number of unacknowledged QoS 1 messages in flight.",
            ge=1,
            le=65535,
        )
        max_pending: int = Field(
            default=100_000,
            description="Largest number of QoS 0 messages held (at most 32 MiB); further ones are dropped "
            "and counted.",
            ge=1,
        )
        decode: Decode = Field(default=Decode(), description="How a message is read.")

        @model_validator(mode="after")
        def _sharing(self) -> MqttSource.Config:
            if self.connections > 1 and self.shared is None:
                raise ValueError("connections above 1 need a shared subscription: give shared: NAME")
            return self

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        # Version 3.1.1 cannot tell how much we take: brokers stop after some 20 unacknowledged messages.
        self.urgent = config.version == "3.1.1" and config.qos == 1
        self.decoder = Decoder(config.decode)
        self._connections: list[_Connection] = []
        self._portion = Portion(MAX_MESSAGES)
        self._dropped = 0
        self._last_batch = 0.0
        self._arrived = asyncio.Event()
        self._session = randomness.token_hex(4)
        self._delivery = 0
        self._turn = 0
        self._paused: Collection[str] = ()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self, position: Any) -> None:
        self.ensure_libraries(self.config)
        self.decoder.open()
        await self.close()
        self._loop = asyncio.get_running_loop()
        self._arrived.clear()
        config = self.config
        prefix = f"$share/{config.shared}/" if config.shared else ""
        topics = [(prefix + topic, config.qos) for topic in config.topics]
        try:
            for number in range(config.connections):
                name = config.client_id if config.connections == 1 else f"{config.client_id}-{number}"
                connection = _Connection(config, name, self._wake)
                self._connections.append(connection)
                await asyncio.to_thread(
                    connection.connect,
                    self._receiver(connection),
                    topics,
                    config.session_expiry if config.qos else 0,
                    config.receive_maximum,
                )
        except BaseException:
            await self.close()
            raise

    def _receiver(self, connection: _Connection) -> Callable[[Any, Any, Any], None]:
        def receive(client: Any, data: Any, message: Any) -> None:
            # QoS 1 is bounded by receive_maximum; QoS 0 knows no waiting, only counted drops.
            mine = connection.messages
            if message.qos == 0 and self._full(connection):
                self._dropped += 1
                return
            connection.came += len(message.payload)
            try:
                topic = message.topic
            except UnicodeDecodeError:
                topic = None
            # No more than what is needed of it: thousands of the library's objects keep the collector busy.
            mine.append((message.mid if message.qos else 0, topic, message.payload))
            if len(mine) == 1:
                self._wake()

        return receive

    def _full(self, connection: _Connection) -> bool:
        many = len(connection.messages) >= self.config.max_pending / self.config.connections
        large: bool = connection.came - connection.went >= MAX_HELD / self.config.connections
        return many or large

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._arrived.set)

    @property
    def partitions(self) -> Sequence[str]:
        return ("",) if self.config.connections == 1 else [one.client_id for one in self._connections]

    def pause(self, partitions: Collection[str]) -> None:
        """What is not taken from a connection is not acknowledged: the broker waits at `receive_maximum`."""
        self._paused = partitions
        self._arrived.set()

    async def read(self) -> Batch | None:
        while True:
            self._arrived.clear()
            connection = self._next()
            if connection is not None:
                # In a stream of messages wait a moment: woken for each one, the event loop and the network
                # thread would take turns at the interpreter lock and halve the rate.
                if (
                    time.monotonic() - self._last_batch < BUSY_S
                    and len(connection.messages) < self._portion.messages
                ):
                    await asyncio.sleep(GATHER_S)
                self._last_batch = time.monotonic()
                return self._batch(connection)
            if not self._connections:
                raise ConnectorError("mqtt is not open", retry=True)
            for one in self._connections:
                if one.failure:
                    raise ConnectorError(f"mqtt {self.config.host}: {one.failure}", retry=True)
            await self._arrived.wait()

    def _next(self) -> _Connection | None:
        """The next connection that has something to give."""
        for _ in self._connections:
            self._turn += 1
            one = self._connections[self._turn % len(self._connections)]
            if (one.messages or self._dropped) and one.client_id not in self._paused:
                return one
        return None

    def _batch(self, connection: _Connection) -> Batch:
        batch = Batch()
        arrival = time.time()
        owed: list[int] = []
        payloads, topics = [], []
        taken = min(len(connection.messages), self._portion.messages)
        for _ in range(taken):
            mid, topic, payload = connection.messages.popleft()
            connection.went += len(payload)
            if mid:
                owed.append(mid)
            if topic is None:  # not UTF-8
                batch.reject("topic")
                continue
            topics.append(topic)
            payloads.append(payload)
        self.decoder.messages(payloads, batch, lambda i: (topics[i], arrival))
        self._portion.took(taken, batch)
        dropped, self._dropped = self._dropped, 0
        if dropped:
            batch.reject("overflow", dropped)
        self._delivery += 1
        connection.unacknowledged.append((self._delivery, owed))
        batch.position = {"session": self._session, "delivery": self._delivery}
        if self.config.connections > 1:
            batch.partition, batch.position = connection.client_id, {connection.client_id: batch.position}
        return batch

    async def commit(self, position: Any) -> None:
        """Acknowledge all batches up to this one that came over connections still open."""
        owed: list[tuple[_Connection, int]] = []
        for connection in self._connections:
            mine = position if self.config.connections == 1 else (position or {}).get(connection.client_id)
            if not mine or mine.get("session") != self._session:
                continue
            waiting = connection.unacknowledged
            while waiting and waiting[0][0] <= mine["delivery"]:
                owed += [(connection, mid) for mid in waiting.popleft()[1]]
        if owed:
            await asyncio.to_thread(_acknowledge, owed)  # thousands of packets: not on the event loop

    async def close(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            await asyncio.to_thread(connection.close)


def _acknowledge(owed: list[tuple[_Connection, int]]) -> None:
    for connection, mid in owed:
        # Over a new connection the broker sends the message, with its own id, again.
        if not connection.failure:
            connection.client.ack(mid, 1)


class MqttSink(Sink):
    """Each record as JSON on a topic, at QoS 1, one by one: a lost connection repeats one at most."""

    name = "mqtt"
    raw = True
    example = ("host: 127.0.0.1",)
    extra = "mqtt"
    modules = ("paho",)

    class Config(_Settings):
        topic: str = Field(
            default="detector/incidents", description="Topic of the records.", pattern=r"^[^+#\x00]+$"
        )
        client_id: str = Field(default="detector-sink", description="Client name.", min_length=1)
        retain: bool = Field(default=False, description="Whether the broker keeps the last record.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._connection: _Connection | None = None

    async def open(self) -> None:
        self.ensure_libraries(self.config)
        await self.close()
        connection = _Connection(self.config, self.config.client_id, lambda: None)
        await asyncio.to_thread(connection.connect)
        self._connection = connection

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        if self._connection is None or self._connection.failure:
            await self.open()
        assert self._connection is not None
        for record in records:
            try:
                await asyncio.to_thread(self._publish, self._connection, msgspec.json.encode(record))
            except ConnectorError as error:
                if error.retry:
                    await self.close()  # also forgets what paho would send again by itself
                raise
            accepted(str(record["id"]))

    def _publish(self, connection: _Connection, body: bytes) -> None:
        config = self.config
        if len(body) + len(config.topic.encode()) + HEADER > connection.largest:
            refusal = f"{len(body)} bytes, the broker takes packets of {connection.largest}"
            raise ConnectorError(f"mqtt {config.host}: {refusal}", retry=False)
        info = connection.client.publish(config.topic, body, qos=1, retain=config.retain)
        deadline = time.monotonic() + config.timeout
        while info.rc != 0 or not info.is_published():
            if connection.failure or info.rc != 0 or time.monotonic() > deadline:
                said = connection.failure or "not acknowledged in time"
                raise ConnectorError(f"mqtt {config.host}: {said}", retry=True)
            info.wait_for_publish(SLICE_S)
        reason = connection.answers.pop(info.mid, None)
        if reason is not None and reason.is_failure:
            refused = reason.value in REFUSED
            raise ConnectorError(f"mqtt {config.host}: record not taken: {reason}", retry=not refused)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.to_thread(connection.close)
