"""Life cycle of the real process: start, stop, hurry, reload, once, dry run, exit codes (T20)."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from detector.storage.store import inspect
from tests import servers
from tests.detector import rig


def feed(folder: Path, first: int, last: int, **more: int) -> None:
    with (folder / "in.jsonl").open("a") as file:
        file.write("\n".join(rig.lines(first, last, **more)) + "\n")


def tail(folder: Path) -> dict[str, dict[str, str]]:
    return {"in": {"type": "file", "path": str(folder / "in.jsonl"), "mode": "tail", "poll": "20ms"}}


def test_stop_saves_everything(tmp_path: Path) -> None:
    """SIGTERM: exit 0 in time, nothing left to repeat, and a second life goes on where the first stopped."""
    feed(tmp_path, 0, 100)
    config = rig.write_config(tmp_path, sources=tail(tmp_path))
    with rig.Service(config, fork=False) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("samples_received_total") == 800)
        begun = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - begun < 10
    seen = inspect(tmp_path / "state")
    assert seen["journal"]["entries"] == 0
    feed(tmp_path, 100, 150)
    with rig.Service(config) as service:
        service.wait_ready()
        assert "state restored: snapshot" in service.said()
        rig.wait_for(lambda: service.metric("samples_received_total") == 400)
        _, status = rig.wait_for(
            lambda: (a := service.ask("/api/v1/status"))[1]["counts"]["received"] == 1200 and a
        )
        assert status["counts"]["duplicate"] == 0
        assert service.stop() == 0


def test_stop_during_calibration_is_quick(tmp_path: Path) -> None:
    """A long calculation is interrupted; its samples are in the journal or read again, nothing is lost."""
    feed(tmp_path, 0, 1200)
    config = rig.write_config(
        tmp_path, alarm={"learn": 1000, "budget": "1 per 5000 ticks"}, estimator={"rank": 24, "atoms": 200}
    )
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.ask("/api/v1/status")[1]["calibrating"])
        assert service.ask("/healthz")[0] == 200
        begun = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - begun < 10
        assert "stopped" in service.said()


def test_second_signal_hurries(tmp_path: Path) -> None:
    """With a sink that hangs, the second SIGTERM ends the wait; the record is kept for the next start."""
    hook = rig.Receiver()
    hook.delay = 60.0
    feed(tmp_path, 0, 20)
    config = rig.write_config(
        tmp_path, sinks={"hook": {"type": "webhook", "url": hook.url, "timeout": "60s"}}
    )
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("outbox_records", sink="hook") == 1)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        begun = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(rig.PATIENCE_S) == 0
        assert time.monotonic() - begun < 4
    assert inspect(tmp_path / "state")["outbox"] == {"hook": 1}
    hook.delay = 0.0
    with rig.Service(config, "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0
    assert len(hook.ids) == 1
    hook.close()


def test_dry_run_sends_nothing_and_keeps_what_waits(tmp_path: Path) -> None:
    """--dry-run touches no sink, and what waited for one still waits."""
    feed(tmp_path, 0, 20)
    config = rig.write_config(tmp_path)
    with rig.Service(config, "--once", "--dry-run") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0
    assert not (tmp_path / "out.jsonl").exists()


def test_once_takes_silence_for_the_end_of_a_followed_file(tmp_path: Path) -> None:
    """A file that is followed never ends by itself; a source says so, the task does not know its type."""
    feed(tmp_path, 0, 20)
    with rig.Service(rig.write_config(tmp_path, sources=tail(tmp_path)), "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0
        assert "source in has ended" in service.said()


def test_a_source_of_which_nothing_can_be_used_is_told(tmp_path: Path) -> None:
    """Wrong decode settings must not look like silence."""
    (tmp_path / "in.jsonl").write_text("time,n0,n1\n" + "1700000000,1.0,2.0\n" * 50)
    source = {"type": "file", "path": str(tmp_path / "in.jsonl"), "decode": {"format": "json"}}
    with rig.Service(rig.write_config(tmp_path, sources={"in": source}), "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 69
        assert "source in: nothing of this can be used: 51 malformed; see its decode" in service.said()


def test_reload_is_all_or_nothing(tmp_path: Path) -> None:
    """A bad file is reported and changes nothing; a good one keeps unchanged connectors open."""
    feed(tmp_path, 0, 60)
    config = rig.write_config(tmp_path, sources=tail(tmp_path))
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("samples_received_total") == 480)
        good = config.read_text()
        for broken in (
            good.replace("windows:", "windoes:"),
            "sources: [",
            good.replace("reference: 40", "reference: 1"),
        ):
            config.write_text(broken)
            service.process.send_signal(signal.SIGHUP)
            rig.wait_for(lambda: service.metric("config_last_reload_successful") == 0)
            status, ready = service.ask("/readyz")
            assert status == 200
            assert "reload_refused" in ready["parts"]["config"]
            assert "the running one stays" in service.said()
            config.write_text(good)
            service.process.send_signal(signal.SIGHUP)
            rig.wait_for(lambda: service.metric("config_last_reload_successful") == 1)

        changed = yaml.safe_load(good)
        changed["graph"] = {"edges": [*rig.EDGES, ["n0", "extra"]]}
        changed["sinks"]["second"] = {"type": "file", "path": str(tmp_path / "second.jsonl")}
        changed["sources"]["more"] = {"type": "file", "path": str(tmp_path / "more.jsonl"), "mode": "tail"}
        config.write_text(yaml.safe_dump(changed))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: len(service.ask("/api/v1/status")[1]["sources"]) == 2)
        _, status = service.ask("/api/v1/status")
        assert status["nodes"]["count"] == 9
        assert set(status["sinks"]) == {"out", "second"}
        assert status["learning_progress"] > 0
        sample = json.dumps({"time": rig.START + 60, "node": "extra", "value": 1.0})
        (tmp_path / "more.jsonl").write_text(sample + "\n")
        feed(tmp_path, 60, 70)
        rig.wait_for(lambda: service.metric("samples_received_total", source="in") == 560)
        rig.wait_for(lambda: service.metric("samples_received_total", source="more") == 1)

        config.write_text(good)
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: len(service.ask("/api/v1/status")[1]["sources"]) == 1)
        assert 'source="more"' not in service.ask("/metrics")[1]
        assert service.stop() == 0


def test_reload_keeps_watching(tmp_path: Path, learnt_state: Path) -> None:
    """A changed incident setting keeps what was learnt; the state directory cannot change under way."""
    rig.copy_state(learnt_state, tmp_path)
    feed(tmp_path, rig.LEARN + 60, rig.LEARN + 100)
    config = rig.write_config(tmp_path, sources=tail(tmp_path))
    with rig.Service(config) as service:
        service.wait_ready()
        incidents = {"clear_after": 5, "cool_down": "9s"}
        changed = rig.settings(tmp_path, sources=tail(tmp_path), incidents=incidents)
        config.write_text(yaml.safe_dump(changed))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "configuration taken over; changed: incidents.cool_down" in service.said())
        assert service.metric("watching") == 1
        config.write_text(yaml.safe_dump({**changed, "state": {"directory": str(tmp_path / "other")}}))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "state.directory cannot change while running: restart instead" in service.said())
        config.write_text(yaml.safe_dump({**changed, "http": {"enabled": False}}))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "http.enabled cannot change while running: restart instead" in service.said())
        assert service.stop() == 0


BUDGET = {"learn": rig.LEARN, "budget": "20 per 100 ticks"}


def promise(service: rig.Service) -> tuple[float, str, float]:
    """All that tells of the promise: threshold as learnt, status, the report's budget, metrics."""
    _, status = service.ask("/api/v1/status")
    level, rate = service.metric("threshold", level="event"), service.metric("false_incident_rate_promised")
    learnt = status["report"]["event_threshold"]
    assert status["event_threshold"] == pytest.approx(learnt, rel=0.1)  # that in use follows quiet data
    assert level == pytest.approx(learnt, rel=0.1)
    assert status["promised_rate"] == pytest.approx(rate, rel=0.1)  # it tightens with quiet ticks
    return learnt, status["report"]["budget"], float(f"{rate:.1g}")


def test_another_budget_counts_after_a_reload_and_after_a_restart(tmp_path: Path, learnt_state: Path) -> None:
    """The one number that users turn: threshold, status and metrics follow it at once, and back again."""
    rig.copy_state(learnt_state, tmp_path)
    feed(tmp_path, rig.LEARN + 60, rig.LEARN + 70)
    config = rig.write_config(tmp_path, sources=tail(tmp_path))
    with rig.Service(config) as service:
        before = promise(service.wait_ready())
        config.write_text(yaml.safe_dump(rig.settings(tmp_path, sources=tail(tmp_path), alarm=BUDGET)))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "configuration taken over; changed: alarm.budget" in service.said())
        rig.wait_for(lambda: service.metric("threshold", level="event") < 0.9 * before[0])
        reloaded = promise(service)
        assert service.stop() == 0
    assert before[1:] == ("1 per 500 ticks", 0.003)  # 360 ticks of history vouch for one in 360
    assert reloaded[1:] == ("20 per 100 ticks", 0.2)

    with rig.Service(rig.write_config(tmp_path, sources=tail(tmp_path))) as service:
        assert promise(service.wait_ready()) == before
        assert service.stop() == 0
    with rig.Service(rig.write_config(tmp_path, sources=tail(tmp_path), alarm=BUDGET)) as service:
        assert promise(service.wait_ready()) == reloaded
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("group", "value", "said"),
    [
        ("preprocess", {"embed": 2}, "preprocess.embed was 1 and is 2 now; set it back, or learn again"),
        ("incidents", {"clear_after": 9}, "incidents.clear_after was 5 and is 9 now; set it back"),
    ],
)
def test_what_was_learnt_with_other_settings_is_refused(
    tmp_path: Path, learnt_state: Path, group: str, value: dict[str, Any], said: str
) -> None:
    """By a reload, which changes nothing, and at the start, for good: systemd does not try again."""
    rig.copy_state(learnt_state, tmp_path)
    feed(tmp_path, rig.LEARN + 60, rig.LEARN + 70)
    config = rig.write_config(tmp_path, sources=tail(tmp_path))
    with rig.Service(config) as service:
        service.wait_ready()
        config.write_text(yaml.safe_dump(rig.settings(tmp_path, sources=tail(tmp_path), **{group: value})))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: "the running one stays: state: learnt with other settings" in service.said())
        assert said in service.said()
        assert service.metric("watching") == 1
        assert service.stop() == 0
    with rig.Service(config) as service:
        assert service.process.wait(rig.PATIENCE_S) == 78
        assert said in service.said()
        assert service.said().count("state.directory") == 1


def test_exit_codes(tmp_path: Path) -> None:
    """75 for a state in use, 78 for a decision, 74 for a disk that cannot be used, 69 for a taken address."""
    feed(tmp_path, 0, 5)
    config = rig.write_config(tmp_path)
    with rig.Service(config) as first:
        first.wait_ready()
        with rig.Service(config) as second:
            assert second.process.wait(rig.PATIENCE_S) == 75
            assert "in use by another process" in second.said()
        taken = rig.write_config(
            tmp_path, http={"port": first.port}, state={"directory": str(tmp_path / "other")}
        )
        with rig.Service(taken) as third:
            assert third.process.wait(rig.PATIENCE_S) == 69
        first.stop()
    with sqlite3.connect(tmp_path / "state" / "detector.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    with rig.Service(rig.write_config(tmp_path)) as newer:
        assert newer.process.wait(rig.PATIENCE_S) == 78
        assert "newer detector" in newer.said()
    (tmp_path / "file").write_text("")
    blocked = rig.write_config(tmp_path, state={"directory": str(tmp_path / "file" / "state")})
    with rig.Service(blocked) as unusable:
        assert unusable.process.wait(rig.PATIENCE_S) == 74


def test_starts_with_the_broker_down(tmp_path: Path) -> None:
    """READY does not wait for a broker; /readyz says which part is missing."""
    port = servers.free_port()
    config = rig.write_config(
        tmp_path, sources={"mqtt": {"type": "mqtt", "host": "127.0.0.1", "port": port, "topics": ["t/#"]}}
    )
    with rig.Service(config) as service:
        service.wait_ready()
        status, ready = service.ask("/readyz")
        assert status == 503
        assert ready["sources"]["mqtt"]["status"] in ("connecting", "down")
        assert ready["parts"]["state"]["status"] == "ok"
        assert service.ask("/healthz") == (200, "ok\n")
        assert service.stop() == 0


@pytest.mark.parametrize("name", ["kill", "stop"])
def test_commands_survive(tmp_path: Path, learnt_state: Path, name: str) -> None:
    """What operators said is in the journal and in the labels, after a stop and after a kill."""
    rig.copy_state(learnt_state, tmp_path)
    feed(tmp_path, rig.LEARN + 60, 640, every=120, lasts=200)
    config = rig.write_config(tmp_path, sources=tail(tmp_path))
    with rig.Service(config) as service:
        service.wait_ready()
        _, listed = rig.wait_for(
            lambda: (a := service.ask("/api/v1/incidents?state=open"))[1]["incidents"] and a
        )
        incident = listed["incidents"][0]["incident"]
        path = f"/api/v1/incidents/{incident}"
        status, answer = service.ask(f"{path}/label", "POST", {"alarm": "false", "note": "a test\nline"})
        assert status == 200
        assert answer["records"][0]["labels"]["alarm"] == "false"
        status, answer = service.ask(f"{path}/accept", "POST")
        assert (status, answer["records"][0]["resolution"]) == (200, "accepted")
        assert service.ask(f"{path}/accept", "POST")[0] == 409
        assert service.ask("/api/v1/incidents/nothing/clear", "POST")[0] == 404
        service.kill() if name == "kill" else service.stop()
    with rig.Service(config) as service:
        service.wait_ready()
        _, shown = service.ask(path)
        assert [record["event"] for record in shown["records"]][-2:] == [
            "incident.labelled",
            "incident.resolved",
        ]
        assert shown["open"] is False
        assert service.metric("incidents_labelled_false") == 1
        assert service.stop() == 0
    assert inspect(tmp_path / "state")["labels"] == 1


def test_senders_that_wait_for_us_are_committed_at_once(tmp_path: Path, learnt_state: Path) -> None:
    """With MQTT 3.1.1 a broker stops after 20 messages without acknowledgement: no commit by the clock."""
    rig.copy_state(learnt_state, tmp_path)
    broker = servers.mosquitto(tmp_path / "mosquitto")
    source = {"type": "mqtt", "host": "127.0.0.1", "port": broker.port, "topics": ["s"], "version": "3.1.1"}
    state = {"directory": str(tmp_path / "state"), "commit_every": "60s"}
    try:
        with rig.Service(rig.write_config(tmp_path, sources={"in": source}, state=state)) as service:
            rig.wait_for(lambda: service.wait_ready().metric("source_up") == 1)
            publish = [servers.program("mosquitto_pub"), "-p", str(broker.port), "-q", "1", "-l", "-t", "s"]
            sent = "\n".join(rig.lines(rig.LEARN + 60, rig.LEARN + 65)) + "\n"
            subprocess.run(publish, input=sent, text=True, check=True)
            rig.wait_for(lambda: service.metric("samples_received_total") == 40)
            assert service.stop() == 0
    finally:
        broker.stop()


@pytest.mark.parametrize("settled", [True, False])
def test_memory_of_large_arrays_is_given_back(settled: bool) -> None:
    """60 MB in six arrays, with small ones between them that stay: kept by glibc as it comes, not by ours."""
    code = f"""
import re
import numpy as np
from detector.runtime.memory import settle_allocator

def memory():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

assert not {settled} or settle_allocator()
del_me = np.ones(20 << 17)
del del_me  # from now on glibc takes arrays of this size for small
before, large, kept = memory(), [], []
for _ in range(6):
    large.append(np.ones(10 << 17))
    kept.append(np.ones(100_000 // 8))
del large
print(memory() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (float(done.stdout) < 5) == settled, done.stdout
