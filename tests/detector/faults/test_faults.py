"""Faults from outside: full disks, slow sinks, garbage, floods, hostile names, secrets."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from detector.storage.store import inspect
from tests import servers
from tests.detector import rig


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def run_once(folder: Path, **groups: Any) -> list[str]:
    """A run to the end of the input; the ids in the file sink of what the pipeline said."""
    with rig.Service(rig.write_config(folder, **groups), "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
    return rig.without_findings(rig.ids(folder / "out.jsonl"))


# ------------------------------------------------------------------------------------------ disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Any]]:
    """A folder on a disk of 8 MiB, and what fills and frees it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "none", folder], capture_output=True
    ).returncode  # fmt: skip

    def change(service: rig.Service, full: bool) -> None:
        if not mounted:  # no rights to mount: the process may write no larger files
            limit = 100_000 if full else resource.RLIM_INFINITY
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        elif full:
            with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 65536):
                    pass
        else:
            (folder / "filler").unlink()

    yield folder, change
    if mounted:
        subprocess.run(["umount", folder], check=True)


def test_full_disk(tmp_path: Path, learnt_state: Path, small_disk: tuple[Path, Any]) -> None:
    """Detection and sending go on, nothing is acknowledged, /readyz says so; freed, it saves again (T4)."""
    disk, change = small_disk
    rig.copy_state(learnt_state, disk)
    hook = rig.Receiver()
    data = tmp_path / "in.jsonl"
    write(data, list(rig.lines(rig.LEARN + 60, 600, every=40)))
    sources = {
        "in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"},
        "push": {"type": "http"},
    }
    config = rig.write_config(
        tmp_path, sources=sources, sinks={"hook": {"type": "webhook", "url": hook.url}},
        state={"directory": str(disk / "state"), "commit_every": "100ms", "journal_max": "64KiB",
               "snapshot_every": "2s"},
    )  # fmt: skip
    sources["push"]["commit_timeout"] = "1s"
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("ticks_total") > 130 and hook.ids)
        change(service, True)
        known = len(hook.ids)
        with data.open("a") as file:
            file.write("\n".join(rig.lines(600, 3000, every=40)) + "\n")
        _, ready = rig.wait_for(lambda: (a := service.ask("/readyz"))[0] == 503 and a)
        assert ready["parts"]["state"]["status"] == "degraded"
        assert "state cannot be saved" in service.said()
        rig.wait_for(lambda: len(hook.ids) > known + 60)
        assert service.ask("/healthz")[0] == 200
        positions = inspect(disk / "state")["positions"]["in"]["position"]["offset"]
        assert positions < data.stat().st_size // 2
        change(service, False)
        rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
        assert "state is saved again" in service.said()
        rig.wait_for(lambda: service.metric("ticks_total") > 2500)
        rig.wait_for(
            lambda: inspect(disk / "state")["positions"]["in"]["position"]["offset"] == data.stat().st_size
        )
        rig.wait_for(lambda: service.metric("outbox_records", sink="hook") == 0)
        service.kill()
    sent = list(hook.ids)
    with rig.Service(config) as service:
        service.wait_ready()
        assert service.metric("state_damages_total") == 0
        assert service.stop() == 0
    assert set(rig.without_findings(hook.ids)) == set(rig.without_findings(sent))

    reference = tmp_path / "reference"
    reference.mkdir()
    rig.copy_state(learnt_state, reference)
    expected = run_once(reference, sources={"in": {"type": "file", "path": str(data)}})
    # The run that goes on has not closed its last tick.
    assert set(rig.without_findings(hook.ids)) <= set(expected)
    assert len(set(expected) - set(hook.ids)) <= 2
    hook.close()


def test_damaged_database_under_way(tmp_path: Path, learnt_state: Path) -> None:
    """The database is lost while running: a fresh one with a snapshot takes its place, and is told (T2)."""
    rig.copy_state(learnt_state, tmp_path)
    data = tmp_path / "in.jsonl"
    write(data, list(rig.lines(rig.LEARN + 60, 500)))
    config = rig.write_config(
        tmp_path, sources={"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}}
    )
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("ticks_total") > 30)
        for side in ("", "-wal", "-shm"):
            (tmp_path / "state" / f"detector.db{side}").unlink(missing_ok=True)
        with data.open("a") as file:
            file.write("\n".join(rig.lines(500, 520)) + "\n")
        rig.wait_for(lambda: service.metric("state_damages_total") == 1)
        rig.wait_for(
            lambda: (tmp_path / "state" / "detector.db").exists() and service.ask("/readyz")[0] == 200
        )
        assert "damaged state" in service.said()
        rig.wait_for(lambda: inspect(tmp_path / "state")["snapshots"])
        service.kill()
    with rig.Service(config) as service:
        service.wait_ready()
        assert service.metric("watching") == 1
        service.stop()


def test_damaged_database_at_start(tmp_path: Path, learnt_state: Path) -> None:
    """Garbage in place of the database: set aside, told, and a clean start instead of a crash loop (T2)."""
    rig.copy_state(learnt_state, tmp_path)
    (tmp_path / "state" / "detector.db").write_bytes(random.Random(1).randbytes(50_000))
    write(tmp_path / "in.jsonl", list(rig.lines(0, 20)))
    with rig.Service(rig.write_config(tmp_path)) as service:
        service.wait_ready()
        assert service.metric("state_damages_total") == 1
        assert "set aside as detector.db.damaged-" in service.said()
        assert service.stop() == 0
    assert len(inspect(tmp_path / "state")["damaged_files"]) == 1


# ------------------------------------------------------------------------------------------ sinks


def test_slow_and_dead_sinks_delay_nobody(tmp_path: Path, learnt_state: Path) -> None:
    """One sink hangs, one refuses connections: the file has all records at once; drops are counted (T10)."""
    rig.copy_state(learnt_state, tmp_path)
    data = tmp_path / "in.jsonl"
    data.touch()
    hanging = rig.Receiver()
    hanging.delay = 900.0  # longer than any patience of this test: whatever waited for it would be noticed
    sinks = {
        "out": {"type": "file", "path": str(tmp_path / "out.jsonl")},
        "hanging": {"type": "webhook", "url": hanging.url, "timeout": "600s"},
        "dead": {"type": "webhook", "url": f"http://127.0.0.1:{servers.free_port()}/"},
    }
    state = {"directory": str(tmp_path / "state"), "outbox_records": 40}
    sources = {"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}}
    groups = {"sources": sources, "sinks": sinks, "state": state, "diagnosis": rig.only()}
    with rig.Service(rig.write_config(tmp_path, **groups)) as service:
        service.wait_ready()
        lines = list(rig.lines(rig.LEARN + 60, 1400, every=24))
        for begin in range(0, len(lines), 800):
            with data.open("a") as file:
                file.write("\n".join(lines[begin : begin + 800]) + "\n")
            due = min(begin + 800, len(lines)) / 8 - 4
            rig.wait_for(lambda due=due: service.metric("ticks_total") > due)
        rig.wait_for(lambda: service.metric("outbox_records", sink="out") == 0)
        made = service.metric("events_total")
        written = rig.wait_for(lambda: len(rig.ids(tmp_path / "out.jsonl")) == made and made)
        assert written > 60
        for name in ("hanging", "dead"):
            assert service.metric("outbox_records", sink=name) <= 40
            waiting = service.metric("outbox_records", sink=name)
            assert service.metric("outbox_dropped_total", sink=name) == made - waiting
        status, ready = service.ask("/readyz")
        assert (status, ready["status"]) == (200, "degraded")
        assert service.stop(240) == 0  # without waiting for a sink that hangs
    assert inspect(tmp_path / "state")["outbox"] == {"dead": 40, "hanging": 40}
    hanging.close()


@pytest.mark.parametrize("status", [422, 500])
def test_a_refused_record_does_not_block_the_others(tmp_path: Path, learnt_state: Path, status: int) -> None:
    """It is set aside, counted and told, survives a kill, and is sent when somebody says so."""
    rig.copy_state(learnt_state, tmp_path)
    write(tmp_path / "in.jsonl", list(rig.lines(rig.LEARN + 60, 700, every=60)))
    hook = rig.Receiver()
    unwanted: set[str] = set()

    def refuses(record: dict[str, Any]) -> int | None:
        if record["event"] == "incident.opened" and not unwanted:
            unwanted.add(record["id"])
        return status if record["id"] in unwanted else None

    hook.refuses = refuses
    config = rig.write_config(
        tmp_path, sinks={"hook": {"type": "webhook", "url": hook.url}}, diagnosis=rig.only(),
        http={"port": servers.free_port()},
        state={"directory": str(tmp_path / "state"), "outbox_tries": 3},
    )  # fmt: skip
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("outbox_set_aside_records", sink="hook") == 1)
        rig.wait_for(lambda: service.metric("outbox_records", sink="hook") == 0)
        made = service.metric("events_total")
        assert service.metric("deliveries_total", sink="hook", outcome="delivered") == made - 1
        assert service.metric("deliveries_total", sink="hook", outcome="set_aside") == 1
        ready = service.ask("/readyz")[1]
        assert ready["status"] == "degraded"
        assert ready["sinks"]["hook"]["set_aside"] == 1
        assert service.ask("/api/v1/status")[1]["sinks"]["hook"]["set_aside"] == 1
        service.kill()
    (one,) = json.loads(outbox(config, "list", "--json"))
    assert (one["sink"], one["record"]["id"]) == ("hook", *unwanted)
    assert f"HTTP {status}" in one["error"]
    assert one["tries"] == (3 if status == 500 else 1)
    before = len(hook.records)
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("outbox_set_aside_records", sink="hook") == 1)
        assert json.loads(outbox(config, "show", *unwanted))[0] == one
        assert "0 wait" in outbox(config, "send", "--sink", "other")
        hook.refuses = lambda record: None
        assert "1 wait" in outbox(config, "send", *unwanted)
        rig.wait_for(lambda: hook.ids[before:] == [*unwanted])
        rig.wait_for(lambda: service.metric("outbox_set_aside_records", sink="hook") == 0)
        assert outbox(config, "list") == "nothing is set aside\n"
        assert service.stop() == 0
    assert len(hook.ids) == len(set(hook.ids)) == made
    hook.close()


def test_what_is_set_aside_is_sent_or_dropped_without_a_daemon(tmp_path: Path, learnt_state: Path) -> None:
    rig.copy_state(learnt_state, tmp_path)
    write(tmp_path / "in.jsonl", list(rig.lines(rig.LEARN + 60, 700, every=60)))
    hook = rig.Receiver()
    hook.status = 400
    config = rig.write_config(
        tmp_path, sinks={"hook": {"type": "webhook", "url": hook.url}}, diagnosis=rig.only()
    )
    with rig.Service(config, "--once") as service:
        assert service.process.wait(60) == 0
    aside = json.loads(outbox(config, "list", "--json"))
    assert len(aside) > 2
    assert "1 dropped" in outbox(config, "drop", aside[0]["record"]["id"])
    assert f"{len(aside) - 1} wait" in outbox(config, "send", "--all")
    hook.status = 204
    with rig.Service(config, "--once") as service:
        assert service.process.wait(60) == 0
    assert hook.ids == [one["record"]["id"] for one in aside[1:]]
    hook.close()


def outbox(config: Path, *arguments: str) -> str:
    """What `detector outbox` says."""
    command = [sys.executable, "-m", "detector", "outbox", *arguments, "--config", str(config)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# ------------------------------------------------------------------------------------------ garbage


def mutated(rng: random.Random, count: int) -> list[bytes]:
    """Lines between valid and noise."""
    base = [line.encode() for line in rig.lines(0, 200)]
    nasty = [b"NaN", b"Infinity", b"1e999", b"-1e999", b"9" * 400, b"null", b"true", b'"1"', b"[]", b"{}",
             b"\x00", b"\xff\xfe", b"[" * 5000, b'{"a":' * 2000, b"", b"[1,2",
             b'{"time":1,"node":"n0","value":1e400}', b'{"time":"x","node":"n0","value":1}',
             b'{"time":1,"node":"","value":1}',
             b'{"time":1e30,"node":"n0","value":1}', b'{"node":"n0","value":1}',
             b'{"time":1,"node":"n\\u0000","value":1}']  # fmt: skip
    lines = []
    for _ in range(count):
        line = bytearray(rng.choice(base))
        kind = rng.randrange(4)
        if kind == 0:
            for _ in range(rng.randrange(1, 6)):
                line[rng.randrange(len(line))] = rng.randrange(256)
        elif kind == 1:
            del line[rng.randrange(len(line)) :]
        elif kind == 2:
            at = line.rfind(b" ") + 1
            line[at:-1] = rng.choice(nasty)
        else:
            line = bytearray(rng.choice(nasty) if rng.random() < 0.05 else line)
        lines.append(bytes(line).replace(b"\n", b" "))
    return lines


def test_garbage_is_counted_exactly(tmp_path: Path) -> None:
    """100,000 mutated lines and some hundred mutated requests: received = accepted + rejected (T6)."""
    rng = random.Random(6)
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(mutated(rng, 100_000)) + b"\n")
    config = rig.write_config(
        tmp_path,
        sources={"in": {"type": "file", "path": str(tmp_path / "in.jsonl")}, "push": {"type": "http"}},
        alarm={"learn": 10**6},
    )
    with rig.Service(config) as service:
        service.wait_ready()
        for body in mutated(rng, 300):
            assert service.ask("/ingest", "POST", body)[0] in (200, 400, 413, 422)
        rig.wait_for(lambda: service.ask("/readyz")[1]["sources"]["in"]["status"] == "ended")
        rig.wait_for(lambda: service.metric("queue_samples") == 0)

        def balance() -> bool:
            received = service.metric("samples_received_total")
            rejected = service.metric("samples_rejected_total")
            counts = service.ask("/api/v1/status")[1]["counts"]
            assert received > 90_000
            return bool(received == rejected + counts["received"])

        rig.wait_for(balance)
        assert service.metric("samples_rejected_total", source="in") > 30_000
        assert service.ask("/healthz")[0] == 200
        assert "Traceback" not in service.said()
        assert service.stop() == 0


def test_shuffled_and_doubled_samples_change_nothing(tmp_path: Path, learnt_state: Path) -> None:
    """Out of order within the lateness and everything twice: the same ids, each repeat counted (T8)."""
    lines = list(rig.lines(rig.LEARN + 60, 1000, every=60))
    align = {"step": "1s", "lateness": "4s"}
    plain, mixed = tmp_path / "plain", tmp_path / "mixed"
    for folder in (plain, mixed):
        folder.mkdir()
        rig.copy_state(learnt_state, folder)
    write(plain / "in.jsonl", lines)
    rng = random.Random(8)
    doubled = []
    for begin in range(0, len(lines), 24):
        block = lines[begin : begin + 24] * 2
        rng.shuffle(block)
        doubled += block
    write(mixed / "in.jsonl", doubled)
    expected = run_once(plain, align=align)
    assert len(expected) > 10
    assert run_once(mixed, align=align) == expected


def test_late_samples_are_counted_exactly(tmp_path: Path, learnt_state: Path) -> None:
    """One in twenty comes after its tick was closed: each is counted, and no other (T8)."""
    rig.copy_state(learnt_state, tmp_path)
    lines = list(rig.lines(rig.LEARN + 60, 1000))
    held_back, mixed, late = [], [], 0
    for number, line in enumerate(lines):
        if number % 20 == 7:
            held_back.append(line)
        else:
            mixed.append(line)
        if number % 800 == 799:  # a hundred ticks; those of the last four are still in time
            moments = [json.loads(one)["time"] for one in held_back]
            newest = json.loads(line)["time"]
            late += sum(moment < newest - 4 for moment in moments)
            mixed += held_back
            held_back = []
    write(tmp_path / "in.jsonl", mixed)
    config = rig.write_config(tmp_path, align={"step": "1s", "lateness": "4s"})
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.ask("/readyz")[1]["sources"]["in"]["status"] == "ended")
        rig.wait_for(lambda: service.metric("queue_samples") == 0)
        rig.wait_for(lambda: service.metric("samples_discarded_total") == late > 150)
        assert service.metric("samples_discarded_total", reason="late") == late
        assert service.stop() == 0


def test_oversized_messages_cost_themselves_only(tmp_path: Path) -> None:
    """64 MiB through each source: refused, counted once, and the next sample is taken (T7)."""
    streams, mqtt = servers.redis(tmp_path / "redis"), servers.mosquitto(tmp_path / "mqtt")
    data = tmp_path / "in.jsonl"
    data.touch()
    sources = {
        "file": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"},
        "push": {"type": "http"},
        "redis": {"type": "redis", "port": streams.port, "streams": ["samples"]},
        "mqtt": {"type": "mqtt", "host": "127.0.0.1", "port": mqtt.port, "topics": ["samples"]},
    }
    huge = b'{"time":1,"node":"n0","value":' + b" " * 2**26 + b"1}"
    good = next(rig.lines(0, 1)).encode()

    def publish(message: bytes) -> None:
        command = [servers.program("mosquitto_pub"), "-p", str(mqtt.port), "-q", "1", "-s", "-t", "samples"]
        subprocess.run(command, input=message, check=True)

    try:
        with (
            rig.Service(rig.write_config(tmp_path, sources=sources)) as service,
            redis.Redis(port=streams.port) as client,
        ):
            service.wait_ready()
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
            for message in (huge, good):
                with data.open("ab") as file:
                    file.write(message + b"\n")
                client.xadd("samples", {"data": message})
                publish(message)
            with contextlib.suppress(ConnectionError):  # it does not read to the end what it refuses
                assert service.ask("/ingest", "POST", huge)[0] == 413
            assert service.ask("/ingest", "POST", good)[0] == 200
            for name in sources:
                rig.wait_for(lambda name=name: service.metric("samples_received_total", source=name) == 2)
                assert service.metric("samples_rejected_total", source=name, reason="too_large") == 1
                assert service.metric("samples_rejected_total", source=name) == 1
            assert service.stop() == 0
    finally:
        streams.stop()
        mqtt.stop()


def test_invented_nodes_hold_the_cap(tmp_path: Path) -> None:
    """100,000 node ids that do not exist: counted under one label, the page stays small (T13)."""
    lines = [
        json.dumps({"time": rig.START + i // 100, "node": f"x{i}", "value": 1.0}) for i in range(100_000)
    ]
    write(tmp_path / "in.jsonl", lines)
    with rig.Service(rig.write_config(tmp_path)) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("samples_discarded_total", reason="node") == 100_000)
        page = service.ask("/metrics")[1]
        assert len(page) < 10**6
        assert len([line for line in page.splitlines() if not line.startswith("#")]) < 2000
        assert service.stop() == 0


# ------------------------------------------------------------------------------------------ names, secrets


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """Node ids like paths, markup or log lines: no file, no extra log line, clean metrics (T17)."""
    names = [
        "../../etc/passwd",
        "/etc/passwd",
        "a\"b{}'",
        "<script>alert(1)</script>",
        "x" * 200,
        "ü→",
        "%00",
    ]
    lines = [
        json.dumps({"time": rig.START + tick, "node": name, "value": float(tick % 7)})
        for tick in range(40) for name in [*names, "evil\n2026-01-01T00:00:00Z info detector: forged"]
    ]  # fmt: skip
    write(tmp_path / "in.jsonl", lines)
    edges = [[names[0], name] for name in names[1:]]
    before = set(tmp_path.rglob("*"))
    with rig.Service(rig.write_config(tmp_path, graph={"edges": edges})) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("ticks_total") > 30)
        page = service.ask("/metrics")[1]
        done = subprocess.run(
            [servers.program("promtool"), "check", "metrics"], input=page.encode(), capture_output=True
        )
        assert done.returncode == 0
        assert service.metric("samples_rejected_total", reason="node") == 40
        assert service.ask("/api/v1/nodes/..%2F..%2Fetc%2Fpasswd")[1]["name"] == names[0]
        assert "<script>" not in service.ask("/")[1]
        assert service.stop() == 0
        assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z \w+", line) for line in service.said().splitlines())
        assert "forged" not in service.said()
    created = {path.relative_to(tmp_path).parts[0] for path in set(tmp_path.rglob("*")) - before}
    assert created <= {"config.yaml", "state", "out.jsonl", service.log.name}


def test_secrets_are_nowhere(tmp_path: Path) -> None:
    """Canaries in every secret field, everything failing, debug log: not one occurrence (T18)."""
    canaries = {f"CANARY_{i}": f"canary-secret-{i:02}" for i in range(6)}
    for name in ("token", "signing", "operator"):
        (tmp_path / name).write_text(f"canary-secret-{name}\n")
    dead = servers.free_port()
    config = rig.write_config(
        tmp_path,
        sources={
            "mqtt": {"type": "mqtt", "host": "127.0.0.1", "port": dead, "topics": ["a"], "username": "u",
                     "password": "${CANARY_0}"},
            "redis": {"type": "redis", "port": dead, "streams": ["s"], "password": "${CANARY_1}"},
            "in": {"type": "file", "path": str(tmp_path / "in.jsonl")},
            "boxes": {"type": "redis", "port": dead, "streams": ["boxes"]},
        },
        sinks={"boxes": {"type": "redis", "port": dead, "stream": "boxes"},
               "hook": {"type": "webhook", "url": f"http://127.0.0.1:{dead}/", "token": "${CANARY_2}",
                        "signing_key_file": str(tmp_path / "signing")},
               "alerts": {"type": "alertmanager", "url": f"http://127.0.0.1:{dead}/", "username": "u",
                          "password": "${CANARY_3}"}},
        http={"port": 0, "token_file": str(tmp_path / "token"),
              "tokens": [{"name": "page", "token": "${CANARY_4}"},
                         {"name": "Ada", "role": "operate", "token_file": str(tmp_path / "operator")}]},
        edge={"box": "one", "boxes": {"one": rig.NODES[:4], "two": rig.NODES[4:]}, "source": "boxes",
              "sink": "boxes", "key": "${CANARY_5}"},
    )  # fmt: skip
    write(tmp_path / "in.jsonl", list(rig.lines(0, 20)))
    with rig.Service(
        config, "--log-level", "debug", "--log-format", "json", environment=canaries, fork=False
    ) as service:
        rig.wait_for(lambda: '"ready: ' in service.said() or service._died())
        right = {"Authorization": "Bearer canary-secret-token"}
        named = [{"Authorization": f"Bearer canary-secret-{name}"} for name in ("04", "operator", "05")]
        answers = [service.ask("/api/v1/status", headers=headers) for headers in named]
        assert [status for status, _ in answers] == [200, 200, 401]
        silence = {"nodes": ["n0"], "lasts": 60, "reason": "works"}
        assert service.ask("/api/v1/silences", "POST", silence, named[1])[0] < 300
        rig.wait_for(lambda: service.ask("/readyz", headers=right)[1]["sources"]["redis"]["status"] == "down")
        paths = (
            "/metrics", "/readyz", "/api/v1/status", "/api/v1/openapi.json", "/", "/api/v1/nodes",
            "/api/v1/export", "/api/v1/export?format=json", "/api/v1/diagnosis", "/api/v1/audit",
            "/api/v1/outbox", "/api/v1/silences", "/api/v1/incidents",
        )  # fmt: skip
        seen = [str(service.ask(path, headers=right)[1]) for path in paths] + [str(answers)]
        assert any("Ada" in text for text in seen), "the audit trail names who used the token"
        seen.append(Path(f"/proc/{service.process.pid}/cmdline").read_text())
        config.write_text(config.read_text().replace("windows", "windoes"))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "configuration refused" in service.said())
        assert service.stop() == 0
        seen.append(service.said())
    seen += [path.read_bytes().decode("latin-1") for path in (tmp_path / "state").iterdir()]
    assert not [text[:200] for text in seen if "canary-secret" in text]
    for line in service.said().splitlines():
        assert {"time", "level", "logger", "message"} <= set(json.loads(line))
