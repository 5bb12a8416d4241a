"""The unit file by systemd's own tools; the notify protocol with a real process and our own socket (T21)."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import servers
from tests.detector import rig

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "systemd" / "detector.service"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with the path of an executable that exists here."""
    path = tmp_path / "detector.service"
    path.write_text(UNIT.read_text().replace("/usr/bin/detector", sys.executable))
    return path


def test_verify_is_silent(unit: Path) -> None:
    """`systemd-analyze verify` has nothing to say."""
    done = subprocess.run(
        [servers.program("systemd-analyze"), "verify", "--man=no", unit], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_units_of_a_cluster_are_silent_too(unit: Path) -> None:
    """Head, worker, and the daemon beside them with its drop-in."""
    cluster = ROOT / "systemd" / "cluster"
    made = [unit]
    for name in ("ray-head.service", "ray-worker.service"):
        made.append(unit.with_name(name))
        text = (cluster / name).read_text()
        assert "/opt/detectord/bin/ray start" in text
        made[-1].write_text(text.replace("/opt/detectord/bin/ray", sys.executable))
    (unit.parent / "detector.service.d").mkdir()
    drop_in = (cluster / "detector.service.d-ray.conf").read_text()
    assert "/opt/detectord/bin/detector run" in drop_in
    (unit.parent / "detector.service.d" / "ray.conf").write_text(
        drop_in.replace("/opt/detectord/bin/detector", sys.executable)
    )
    done = subprocess.run(
        [servers.program("systemd-analyze"), "verify", "--man=no", *made], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_exposure_is_low(unit: Path) -> None:
    """At most 1.2 of 10."""
    done = subprocess.run(
        [servers.program("systemd-analyze"), "security", "--offline=true", "--threshold=12", unit],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-300:]


def test_stop_fits_the_unit() -> None:
    """systemd waits longer than we need to stop, and does not restart on exit code 78."""
    from detector.daemon import shutdown, startup

    text = UNIT.read_text()
    found = re.search(r"TimeoutStopSec=(\d+)s", text)
    assert found is not None
    assert int(found[1]) > shutdown.STOP_S
    assert f"RestartPreventExitStatus={startup.EXIT_CONFIG}" in text


def test_the_process_talks_to_systemd(tmp_path: Path) -> None:
    """READY after the start, a sign of life from the pipeline, reload and stop announced, status in words."""
    heard = rig.NotifySocket(tmp_path)
    (tmp_path / "in.jsonl").write_text("\n".join(rig.lines(0, 50)) + "\n")
    config = rig.write_config(tmp_path)
    environment = {"NOTIFY_SOCKET": heard.path, "WATCHDOG_USEC": "1500000"}
    with rig.Service(config, environment=environment) as service:
        service.wait_ready()
        rig.wait_for(lambda: "READY=1" in heard.lines)
        assert "listening on" in service.said()
        rig.wait_for(lambda: heard.lines.count("WATCHDOG=1") >= 3)
        rig.wait_for(
            lambda: any(re.match(r"STATUS=learning \d+%; 8 nodes, 1 of 1", line) for line in heard.lines)
        )
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "RELOADING=1" in heard.lines)
        rig.wait_for(lambda: heard.lines.count("READY=1") == 2)
        assert any(line.startswith("MONOTONIC_USEC=") for line in heard.lines)
        assert service.stop() == 0
    assert "STOPPING=1" in heard.lines
    heard.close()


def test_abstract_sockets_and_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abstract address works; without one nothing happens; other people's watchdogs are left alone."""
    import socket

    from detector.runtime.sd_notify import Notifier

    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind("\0detector-test-notify")
    monkeypatch.setenv("NOTIFY_SOCKET", "@detector-test-notify")
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    notifier = Notifier()
    notifier.status("a\nREADY=1")
    assert listening.recv(100) == rb"STATUS=a\nREADY=1"
    assert notifier.watchdog_s is None
    notifier.close()
    listening.close()
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Notifier().ready()
