"""The shipped unit under a real systemd: start, status, reload, kill, hang, credentials, stop (T20, T21)."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.booted import Booted, impossible
from tests.detector import rig

ROOT = Path(__file__).parents[3]
WATCHDOG_S = 3
CONFIG = "/etc/detector/config.yaml"
HANG = "/etc/detector/hang"
# Loaded into the daemon by Python itself: once the file is there, the pipeline's thread hangs in a push.
SABOTAGE = f"""
import os, threading, time

def wait():
    while not os.path.exists("{HANG}"):
        time.sleep(0.1)
    from detector.pipeline.pipeline import Pipeline
    Pipeline.push = lambda self, samples: time.sleep(3600)

threading.Thread(target=wait, daemon=True).start()
"""
ASK = """
import urllib.request
request = urllib.request.Request("http://127.0.0.1:9178/metrics")
request.add_header("Authorization", "Bearer {}")
print(urllib.request.urlopen(request).read())
"""


def settings() -> dict[str, object]:
    made = rig.settings(Path("/var/lib/detector"), graph="simulate", alarm={"learn": 10**6})
    made["sources"] = {"demo": {"type": "simulate", "nodes": 8, "speed": 20, "topology": "ring"}}
    made["http"] = {"port": 9178, "token_file": "/run/credentials/detector.service/token"}
    del made["state"]  # systemd names the folder
    return made


def drop_in() -> str:
    """What a test needs of its own: a short watchdog, and this very checkout and Python to be seen."""
    paths = {str(ROOT), sys.prefix, sys.base_prefix}
    lines = ["[Service]", f"WatchdogSec={WATCHDOG_S}s", "RestartSec=300ms"]
    lines += ["Environment=PYTHONPATH=/etc/detector/sabotage", "LoadCredential=token:/etc/secret-token"]
    if any(path.startswith(("/root/", "/home/")) for path in paths):
        lines.append("ProtectHome=tmpfs")  # as hidden as before, but with room for these:
    lines += [f"BindReadOnlyPaths={path}" for path in sorted(paths)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    reason = impossible()
    if reason is not None:
        pytest.skip(f"the unit is not tried under a real systemd: {reason}")
    folder = tmp_path_factory.mktemp("booted")
    files = folder / "files"
    for place in ("etc/detector/sabotage", "etc/systemd/system/detector.service.d", "usr/bin"):
        (files / place).mkdir(parents=True)
    (files / CONFIG[1:]).write_text(yaml.safe_dump(settings()))
    (files / "etc/detector/sabotage/sitecustomize.py").write_text(SABOTAGE)
    (files / "etc/secret-token").write_text("canary-token\n")
    (files / "etc/secret-token").chmod(0o600)
    shutil.copy(ROOT / "systemd" / "detector.service", files / "etc/systemd/system/detector.service")
    (files / "etc/systemd/system/detector.service.d/test.conf").write_text(drop_in())
    (files / "usr/bin/detector").symlink_to(Path(sys.executable).with_name("detector"))
    booted = Booted(folder, files)
    yield booted
    booted.close()


def show(machine: Booted, name: str) -> str:
    return machine.run("systemctl", "show", "-P", name, "detector").stdout.strip()


def journal(machine: Booted) -> list[dict[str, str]]:
    lines = machine.run("journalctl", "-u", "detector", "-o", "json", "--no-pager").stdout.splitlines()
    return [json.loads(line) for line in lines]


def said(machine: Booted, words: str) -> list[dict[str, str]]:
    return [entry for entry in journal(machine) if words in str(entry["MESSAGE"])]


def restarted(machine: Booted, count: int) -> float:
    """Wait until the unit is active again, for the count-th time; the seconds that took."""
    begun = time.monotonic()
    rig.wait_for(
        lambda: show(machine, "NRestarts") == str(count) and show(machine, "ActiveState") == "active",
        timeout=30,
        what=f"restart {count}: {show(machine, 'NRestarts')} {show(machine, 'ActiveState')}",
    )
    return time.monotonic() - begun


def test_start_and_confinement(machine: Booted) -> None:
    """`systemctl start` returns when it is ready; it runs without rights, and tells its status."""
    started = machine.run("systemctl", "start", "detector")
    assert started.returncode == 0, [entry["MESSAGE"] for entry in journal(machine)]
    assert said(machine, "ready: ")[0]["PRIORITY"] == "6"
    rig.wait_for(lambda: "8 nodes, 1 of 1 sources up" in show(machine, "StatusText"), what="status")
    pid = show(machine, "MainPID")
    facts = dict(
        line.split(":\t", 1) for line in machine.run("cat", f"/proc/{pid}/status").stdout.splitlines()
    )
    assert facts["Uid"].split()[0] != "0"
    assert (int(facts["CapEff"], 16), facts["NoNewPrivs"], facts["Seccomp"]) == (0, "1", "2")
    mounts = [line.split() for line in machine.run("cat", f"/proc/{pid}/mountinfo").stdout.splitlines()]
    assert {mount[4]: mount[5].split(",")[0] for mount in mounts}["/"] == "ro"
    assert machine.run("stat", "-Lc", "%a", "/var/lib/detector").stdout == "700\n"
    assert machine.run("ls", "/var/lib/detector").stdout.split()[0] == "detector.db"


def test_credential_and_metrics(machine: Booted) -> None:
    """The token is the credential's; the process metrics are not hidden from it."""
    status = machine.run("detector", "status", "--json", "--config", CONFIG)
    assert json.loads(status.stdout)["sources"]["demo"]["status"] == "up", status.stderr
    assert "401" in machine.run(sys.executable, "-c", ASK.format("nobody's")).stderr
    page = machine.run(sys.executable, "-c", ASK.format("canary-token")).stdout
    assert "process_resident_memory_bytes" in page
    assert not said(machine, "canary-token")


def test_reload(machine: Booted) -> None:
    """A good file is taken over; a bad one makes `systemctl reload` fail, and the service goes on."""
    pid = show(machine, "MainPID")
    assert machine.run("systemctl", "reload", "detector").returncode == 0
    rig.wait_for(lambda: said(machine, "configuration taken over"), what="reload")
    machine.run("sed", "-i", "s/^windows:/windoes:/", CONFIG)
    assert machine.run("systemctl", "reload", "detector").returncode != 0
    assert said(machine, "did you mean windows?")
    machine.run("sed", "-i", "s/^windoes:/windows:/", CONFIG)
    assert (show(machine, "ActiveState"), show(machine, "MainPID")) == ("active", pid)


def test_kill_and_hang(machine: Booted) -> None:
    """After kill -9 it comes back with its state; a hung pipeline is found by the watchdog and restarted."""
    machine.run("systemctl", "kill", "-s", "KILL", "detector")
    restarted(machine, 1)
    assert said(machine, "state restored")
    machine.run("touch", HANG)
    rig.wait_for(lambda: said(machine, "Watchdog timeout"), what="the watchdog")
    machine.run("rm", HANG)
    restarted(machine, 2)
    assert len(said(machine, "state restored")) == 2


def test_stop_and_a_wrong_configuration(machine: Booted) -> None:
    """It stops cleanly; a configuration that is wrong is not tried again and again."""
    assert machine.run("systemctl", "stop", "detector").returncode == 0
    assert (show(machine, "Result"), show(machine, "ExecMainStatus")) == ("success", "0")
    machine.run("sed", "-i", "s/^windows:/windoes:/", CONFIG)
    assert machine.run("systemctl", "start", "detector").returncode != 0
    time.sleep(1)
    assert (show(machine, "ActiveState"), show(machine, "ExecMainStatus")) == ("failed", "78")
    assert show(machine, "NRestarts") == "0"
