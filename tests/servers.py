"""Real servers for the tests, each on a free loopback port. A missing program is a failure, not a skip.

Kafka is in `kafka_server.py`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

START_S = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(name: str) -> str:
    """The path of a server program, also where only root looks, or in this Python's own bin."""
    places = os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/sbin", "/sbin", str(Path(sys.executable).parent)]
    )
    found = shutil.which(name, path=places)
    if found is None:
        raise RuntimeError(f"{name} is not installed: run scripts/install-brokers")
    return found


def faketime() -> str:
    """The library that gives a program another wall clock, to be loaded before all others."""
    program("faketime")
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        raise RuntimeError("libfaketime is not installed: run scripts/install-brokers")
    return str(found[0])


class Server:
    """A server process: started on construction, ready when it answers, ended by `stop` or `kill`."""

    def __init__(
        self, command: Sequence[str], port: int, log: Path, ready: Callable[[], bool] | None = None,
        patience: float = START_S,
    ) -> None:  # fmt: skip
        self.command = list(command)
        self.port = port
        self.log = log
        self._ready, self._patience = ready or self._accepts, patience
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + self._patience
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(
                    f"{self.command[0]} did not start:\n{self.log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.02)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.2)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def answers(url: str) -> Callable[[], bool]:
    def ready() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    return ready


def mosquitto(
    folder: Path, password: tuple[str, str] | None = None, tls: tuple[Path, Path] | None = None,
    persistent: bool = False, more: Sequence[str] = (),
) -> Server:  # fmt: skip
    """Mosquitto; `tls` is (certificate, key); a persistent one writes sessions to disk at every change.

    `more` are further lines of its configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    lines = [
        f"listener {port} 127.0.0.1",
        f"persistence {str(persistent).lower()}",
        f"persistence_location {folder}/",
        "autosave_on_changes true",
        "autosave_interval 1",
        "log_type error",
        "max_queued_messages 100000",
        *more,
    ]
    if os.geteuid() == 0:
        lines.append("user root")
    if password is None:
        lines.append("allow_anonymous true")
    else:
        secrets = folder / "passwords"
        secrets.touch(mode=0o600)
        subprocess.run(
            [program("mosquitto_passwd"), "-b", secrets, *password], check=True, capture_output=True
        )
        lines += ["allow_anonymous false", f"password_file {secrets}"]
    if tls is not None:
        lines += [f"certfile {tls[0]}", f"keyfile {tls[1]}"]
    config = folder / "mosquitto.conf"
    config.write_text("\n".join(lines) + "\n")
    return Server([program("mosquitto"), "-c", str(config)], port, folder / "log")


def redis(
    folder: Path,
    password: str | None = None,
    tls: tuple[Path, Path] | None = None,
    fsync: str = "always",  # what it acknowledged survives its death; a server's own default is everysec
) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    ports = ["--port", str(port)]
    if tls is not None:
        ports = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
        ports += [
            "--tls-cert-file",
            str(tls[0]),
            "--tls-key-file",
            str(tls[1]),
            "--tls-ca-cert-file",
            str(tls[0]),
        ]
    command = [program("redis-server"), *ports, "--bind", "127.0.0.1", "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "yes", "--appendfsync", fsync]
    return Server(command + (["--requirepass", password] if password else []), port, folder / "log")


def nats(folder: Path, token: str | None = None, tls: tuple[Path, Path] | None = None) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [program("nats-server"), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    if tls is not None:
        command += ["--tls", "--tlscert", str(tls[0]), "--tlskey", str(tls[1])]
    return Server(command + (["--auth", token] if token else []), port, folder / "log")


def prometheus(
    folder: Path,
    openmetrics: str = "",
    scrape: str = "[]",
    arguments: Sequence[str] = (),
    remote_write: str = "[]",
) -> Server:
    """Prometheus, with samples in OpenMetrics text filled in beforehand."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    if openmetrics:
        text = folder / "history.txt"
        text.write_text(openmetrics)
        make = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
        subprocess.run(make, check=True, capture_output=True)
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: 1s}}\nscrape_configs: {scrape}\nremote_write: {remote_write}\n"
    )
    port = free_port()
    command = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={data}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", *arguments]
    return Server(command, port, folder / "log", answers(f"http://127.0.0.1:{port}/-/ready"))


def alertmanager(
    folder: Path, config_text: str = "route: {receiver: none}\nreceivers: [{name: none}]\n"
) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "alertmanager.yml"
    config.write_text(config_text)
    port = free_port()
    command = [
        program("prometheus-alertmanager"),
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
    ]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    return Server(command, port, folder / "log", answers(f"http://127.0.0.1:{port}/-/ready"))
