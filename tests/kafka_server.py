"""Kafka for the tests: a real broker if scripts/install-kafka fetched one, else librdkafka's mock cluster.

The mock cluster has real TCP, real groups and commits, but no disk, no TLS, no SASL, and is no evidence
about any Kafka release. CI may not use it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests import servers
from tests.certificates import Pair

POM = Path(__file__).parents[1] / "scripts" / "kafka" / "pom.xml"
USER, PASSWORD = "detector", "canary-kafka-password"
START_S = 120.0  # a Java machine on a busy computer
# Small and soon there; what it says goes to standard error.
JAVA = [
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
]
CLUSTER = "AAAAAAAAQACAAAAAAAAAAA"  # any id: nobody else is in it


def version() -> str:
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    found = ElementTree.parse(POM).find(".//m:dependency[m:artifactId='kafka_2.13']/m:version", space)
    assert found is not None
    return str(found.text)


def home() -> Path | None:
    """Where the broker was installed, if it was."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = cache / "detector" / f"kafka-{version()}"
    if (found / "complete").exists() and shutil.which("java"):
        return found
    if os.environ.get("CI") == "true":
        raise RuntimeError("no Apache Kafka: scripts/install-kafka tells why")
    return None


def described() -> str:
    """One line for whoever runs the tests."""
    return (
        f"Apache Kafka {version()}"
        if home()
        else "librdkafka's mock cluster: scripts/install-kafka tells why"
    )


def kafka(folder: Path, tls: Pair | None = None, sync: bool = True) -> Kafka | MockKafka:
    """A broker, in a folder of its own; with `sync` every message is on disk before it is acknowledged."""
    found = home()
    return MockKafka() if found is None else Kafka(found, folder, tls, sync)


class _Cluster:
    """What both have in common."""

    address: str
    _producer: Any = None

    def send(self, topic: str, payloads: Sequence[bytes], keys: Sequence[bytes] | None = None) -> None:
        from confluent_kafka import Producer

        if self._producer is None:
            options = {"bootstrap.servers": self.address, "linger.ms": 0, "log_level": 2}
            self._producer = Producer({**options, "reconnect.backoff.max.ms": 200})
        for i, payload in enumerate(payloads):
            while True:
                try:
                    self._producer.produce(topic, payload, key=None if keys is None else keys[i])
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self._producer.poll(0)
        left = self._producer.flush(30)
        assert left == 0, f"{left} messages not taken by Kafka"


class Kafka(_Cluster):
    """One node that is broker and controller; with `tls` also on a port with TLS, and with TLS and SASL."""

    def __init__(self, installed: Path, folder: Path, tls: Pair | None = None, sync: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._java = ["java", *JAVA, "-cp", f"{installed / 'lib'}/*"]
        port, control = servers.free_port(), servers.free_port()
        self.address = f"127.0.0.1:{port}"
        self._config = folder / "server.properties"
        listeners = {"PLAINTEXT": port}
        if tls is not None:
            listeners |= {"SSL": servers.free_port(), "SASL_SSL": servers.free_port()}
        self.ports = listeners
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{control}",
            "listeners": _addresses({**listeners, "CONTROLLER": control}),
            "advertised.listeners": _addresses(listeners),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in listeners)
            + ",CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 500,
            "auto.create.topics.enable": "false",
        }
        if sync:
            lines["log.flush.interval.messages"] = 1
        if tls is not None:
            store = folder / "server.pem"
            store.write_bytes(tls.key.read_bytes() + tls.certificate.read_bytes())
            lines |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": store,
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
            }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._config)]
        user = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        subprocess.run([*command, "--add-scram", user], check=True, capture_output=True, timeout=START_S)
        self._server = servers.Server(
            [*self._java, "kafka.Kafka", str(self._config)], port, folder / "log", self._answers, START_S
        )

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with servers.socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", self.ports["PLAINTEXT"])) != 0:
                return False
        try:
            AdminClient({"bootstrap.servers": self.address, "log_level": 2}).list_topics(timeout=5)
        except KafkaException:
            return False
        return True

    def create(self, topic: str, partitions: int = 3) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        client = AdminClient({"bootstrap.servers": self.address, "log_level": 2})
        for made in client.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result(30)

    def down(self) -> None:
        self._server.kill()

    def up(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._producer = None
        self._server.stop()


def _addresses(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


class MockKafka(_Cluster):
    """librdkafka's mock cluster, driven through `ctypes`; other clients reach it by `address`."""

    def __init__(self, brokers: int = 1) -> None:
        import confluent_kafka

        near = Path(confluent_kafka.__file__).parent
        found = sorted((near.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
        if not found:
            raise RuntimeError("the confluent-kafka wheel brings no librdkafka")
        self._library = library = ctypes.CDLL(str(found[0]))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(library, name).restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        message = ctypes.create_string_buffer(512)
        conf = ctypes.c_void_p(library.rd_kafka_conf_new())
        self._client = ctypes.c_void_p(library.rd_kafka_new(0, conf, message, ctypes.c_size_t(512)))
        if not self._client.value:
            raise RuntimeError(message.value.decode())
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._client, brokers))
        # Without this every group waits three seconds for members that never come.
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 50)
        self.address: str = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def create(self, topic: str, partitions: int = 3) -> None:
        failed = self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
        assert failed == 0

    def down(self, broker: int = 1) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self, broker: int = 1) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def stop(self) -> None:
        self._producer = None
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)
