"""A decoder that understands nothing: it is told with an example, and nothing is passed over (T27)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.detector import rig

RIGHT = {"time": "when", "values": "what", "node": "who"}


def foreign(first: int, last: int) -> list[str]:
    """The usual samples under other names."""
    found = [json.loads(line) for line in rig.lines(first, last, every=60)]
    return [json.dumps({"when": s["time"], "who": s["node"], "what": s["value"]}) for s in found]


def config_of(folder: Path, decode: dict[str, Any] | None, **source: Any) -> Path:
    given = {"type": "file", "path": str(folder / "in.jsonl"), **source}
    decode = {"format": "json"} if decode is None else {"format": "json", **decode}
    return rig.write_config(folder, sources={"in": {**given, "decode": decode}}, diagnosis=rig.only())


def test_a_run_on_a_file_that_nobody_understands_fails_and_shows_why(
    tmp_path: Path, learnt_state: Path
) -> None:
    """Exit code 69 with the first bad line; with the right decoder the same state reads it from its begin."""
    rig.copy_state(learnt_state, tmp_path)
    lines = foreign(rig.LEARN + 60, 700)
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    with rig.Service(config_of(tmp_path, None), "--once") as service:
        assert service.process.wait(60) == 69
        said = service.said()
    assert f"not one of {len(lines)} samples can be decoded" in said
    assert "in.jsonl, line 1: missing: " + lines[0][:60] in said
    for _ in range(2):  # the second time there is nothing left to read, which is no failure
        with rig.Service(config_of(tmp_path, RIGHT), "--once") as service:
            assert service.process.wait(60) == 0, service.said()
    (right := tmp_path / "right").mkdir()
    rig.copy_state(learnt_state, right)
    (right / "in.jsonl").write_text("\n".join(lines) + "\n")
    with rig.Service(config_of(right, RIGHT), "--once") as service:
        assert service.process.wait(60) == 0
    assert rig.ids(tmp_path / "out.jsonl") == rig.ids(right / "out.jsonl") != []


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_after_a_reload_with_the_right_decoder_everything_is_read(
    kind: str, tmp_path: Path, learnt_state: Path
) -> None:
    rig.copy_state(learnt_state, tmp_path)
    lines = foreign(rig.LEARN + 60, 700)
    source: dict[str, Any] = {"mode": "tail", "poll": "20ms"}
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    server = None
    if kind == "redis":
        import redis

        server = servers.redis(tmp_path / "redis")
        source = {"type": "redis", "host": "127.0.0.1", "port": server.port, "streams": ["s"], "field": "d"}
        with redis.Redis(port=server.port) as client:
            for line in lines:
                client.xadd("s", {"d": line})

    def config(decode: dict[str, Any] | None) -> Path:
        path = config_of(tmp_path, decode, **source)
        if kind == "redis":
            path.write_text(path.read_text().replace(f"    path: {tmp_path / 'in.jsonl'}\n", ""))
        return path

    try:
        with rig.Service(config(None)) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.metric("samples_rejected_total", source="in") >= len(lines), 60)
            service.kill()
        with rig.Service(config(None)) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.metric("samples_rejected_total", source="in") >= len(lines), 60)
            config(RIGHT)
            service.process.send_signal(signal.SIGHUP)
            open_ticks = 3 * len(rig.NODES)  # the lateness keeps the latest ones open
            rig.wait_for(lambda: service.metric("samples_accepted_total") >= len(lines) - open_ticks, 60)
            assert service.stop() == 0
    finally:
        if server is not None:
            server.stop()


@pytest.mark.parametrize(
    ("decode", "samples", "code", "words"),
    [
        (RIGHT, None, 0, "ok: node 'n0' at 2023-11-14T22:13:20"),
        (None, None, 69, "reachable, but what it sends cannot be decoded: "),
        ({**RIGHT, "node": "when"}, None, 69, "reachable, but its samples are of no node of the network"),
        (
            {**RIGHT, "values": ["what", "when"]},
            None,
            69,
            "reachable, but its samples have not 1 value(s), as the",
        ),
        (RIGHT, [], 0, "ok, but there is nothing to read"),
    ],
)
def test_check_decodes_a_real_message(
    tmp_path: Path, decode: Any, samples: Any, code: int, words: str
) -> None:
    """A connection that works is not enough: what comes over it must make sense."""
    lines = foreign(0, 3) if samples is None else samples
    (tmp_path / "in.jsonl").write_text("".join(line + "\n" for line in lines))
    command = [sys.executable, "-m", "detector", "check", "--connect", "--config"]
    done = subprocess.run(
        [*command, str(config_of(tmp_path, decode))], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done
    assert f"sources.in: {words}" in done.stdout + done.stderr
