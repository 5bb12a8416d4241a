"""The Debian package under a real systemd: installed, started, upgraded, removed, purged (`make deb`)."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.booted import Booted, impossible
from tests.detector import rig
from tests.test_locks import PROJECT, locked

ROOT = Path(__file__).parents[1]
DEB = os.environ.get("DETECTOR_DEB")  # given by `make deb`: building one takes minutes
pytestmark = pytest.mark.skipif(DEB is None, reason="no Debian package is given: run  make deb")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    reason = impossible(needs_checkout=False)
    if reason is not None:
        pytest.skip(f"the package is not installed: {reason}")
    folder = tmp_path_factory.mktemp("booted")
    (folder / "files" / "srv").mkdir(parents=True)
    shutil.copy(str(DEB), folder / "files" / "srv" / "detectord.deb")
    booted = Booted(folder, folder / "files")
    yield booted
    booted.close()


def ok(machine: Booted, *command: str) -> str:
    done = machine.run(*command)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def test_what_it_holds() -> None:
    """Unit, manual pages, configuration and completions are where the system looks for them."""
    listed = subprocess.run(["dpkg-deb", "--contents", str(DEB)], capture_output=True, text=True, check=True)
    paths = {line.split()[5] for line in listed.stdout.splitlines()}
    for path in (
        "./usr/share/man/man8/detector.8.gz", "./usr/share/man/man5/detector.yaml.5.gz",
        "./etc/detector/config.yaml",
        "./lib/systemd/system/detector.service", "./usr/share/doc/detectord/copyright", "./usr/bin/detector",
        "./usr/share/bash-completion/completions/detector", "./usr/share/doc/detectord/sbom.cdx.json",
    ):  # fmt: skip
        assert path in paths, path
    tops = {path.split("/")[1] for path in paths if path.count("/") > 1}
    assert tops <= {"opt", "usr", "etc", "lib", ""}


def test_the_bill_of_materials_is_what_is_locked() -> None:
    """Every library of the lock, with its version and a licence, and no folder of the builder."""
    text = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(DEB)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(text)) as package:
        found = package.extractfile("./usr/share/doc/detectord/sbom.cdx.json")
        assert found is not None
        bill = json.load(found)
    there = {canonicalize_name(one["name"]): one for one in bill["components"]}
    lock = locked(ROOT / "packaging" / "locks" / "run.txt")
    for name in {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]}:
        assert there[name]["version"] in lock[name]
    assert all(one["licenses"] for name, one in there.items() if name in lock)
    assert bill["metadata"]["component"]["name"] == "detectord"
    assert "/tmp" not in json.dumps(bill)


def test_install_and_start(machine: Booted) -> None:
    """It starts nothing by itself; the demonstration that comes along runs as the user of the package."""
    said = ok(machine, "dpkg", "--install", "/srv/detectord.deb")
    assert "systemctl enable --now detector" in said
    assert ok(machine, "readlink", "-f", "/usr/bin/detector").startswith("/opt/detectord/")
    assert ok(machine, "detector", "--version").startswith("detector, version ")
    ok(machine, "detector", "check", "--config", "/etc/detector/config.yaml")
    assert machine.run("systemctl", "is-active", "detector").stdout.strip() == "inactive"
    ok(machine, "systemctl", "enable", "--now", "detector")
    user = ok(machine, "ps", "-o", "user=", "-p", pid(machine)).strip()
    assert user == "detector"
    ask = ("detector", "status", "--json", "--config", "/etc/detector/config.yaml")
    rig.wait_for(lambda: machine.run(*ask).returncode == 0, what="ready")
    assert ok(machine, "ls", "/var/lib/detector").split()[0] == "detector.db"


def test_an_upgrade_keeps_the_configuration_and_restarts(machine: Booted) -> None:
    before = pid(machine)
    ok(machine, "sed", "-i", "s/^  settle: 64 /  settle: 65 /", "/etc/detector/config.yaml")
    ok(machine, "dpkg", "--install", "/srv/detectord.deb")
    assert "settle: 65" in ok(machine, "cat", "/etc/detector/config.yaml")
    rig.wait_for(lambda: pid(machine) not in ("0", before), what="a new process")
    assert machine.run("systemctl", "is-active", "detector").stdout.strip() == "active"


def test_remove_and_purge(machine: Booted) -> None:
    """Removed, it is gone but for configuration and state; purged, nothing is left."""
    ok(machine, "dpkg", "--remove", "detectord")
    assert machine.run("systemctl", "is-active", "detector").stdout.strip() == "inactive"
    assert machine.run("test", "-e", "/usr/bin/detector").returncode != 0
    assert "detector.db" in ok(machine, "ls", "/var/lib/private/detector")
    ok(machine, "dpkg", "--purge", "detectord")
    left = ("/etc/detector", "/var/lib/detector", "/var/lib/private/detector", "/opt/detectord")
    assert [path for path in left if machine.run("test", "-e", path).returncode == 0] == []
    assert machine.run("getent", "passwd", "detector").returncode == 2


def pid(machine: Booted) -> str:
    return machine.run("systemctl", "show", "-P", "MainPID", "detector").stdout.strip()
