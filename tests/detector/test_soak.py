"""Hours in a minute: incidents come and go, a broker dies, a sink hangs, and nothing grows (T12)."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
import redis

from tests import servers
from tests.detector import rig

ROUNDS = int(os.environ.get("DETECTOR_SOAK_ROUNDS", "30"))
WARM = ROUNDS // 3
TICKS = 250  # of a round, with five incidents
GROWTH_MB = 3.0  # of the least of a third of the rounds, over that of the third before


def resources(service: rig.Service) -> tuple[float, int, int]:
    """Resident megabytes, threads, descriptors."""
    process = Path(f"/proc/{service.process.pid}")
    found = re.findall(r"VmRSS:\s+(\d+)", (process / "status").read_text())
    return (
        int(found[0]) / 1024,
        len(list((process / "task").iterdir())),
        len(list((process / "fd").iterdir())),
    )


@pytest.mark.timeout(300)
def test_nothing_grows(tmp_path: Path, learnt_state: Path) -> None:
    """Half of the nodes by Redis, killed in every third round, half by HTTP; the webhook hangs at times."""
    rig.copy_state(learnt_state, tmp_path)
    server, hook = servers.redis(tmp_path / "redis"), rig.Receiver()
    config = rig.write_config(
        tmp_path,
        sources={"redis": {"type": "redis", "port": server.port, "streams": ["s"]}, "push": {"type": "http"}},
        sinks={"hook": {"type": "webhook", "url": hook.url, "timeout": "200ms"}},
        align={"step": "1s", "lateness": f"{TICKS}s"},
        state={"directory": str(tmp_path / "state"), "snapshot_every": "1s"},
        aftermath={**rig.only("course", "footprint", "novelty"), "keep": 20},
    )
    seen: list[tuple[float, int, int]] = []
    sent = 0
    try:
        with rig.Service(config) as service:
            service.wait_ready()
            for number in range(ROUNDS):
                first = rig.LEARN + 60 + number * TICKS
                lines = list(rig.lines(first, first + TICKS, every=50))
                hook.delay = 0.5 if number % 3 == 1 else 0.0
                if number % 3 == 2:
                    server.kill()
                    time.sleep(0.3)
                    server.start()
                with redis.Redis(port=server.port) as client, client.pipeline() as pipe:
                    for line in lines[::2]:
                        pipe.xadd("s", {"data": line}, maxlen=5000)
                    pipe.execute()
                for begin in range(1, len(lines), 500):
                    body = "\n".join(lines[begin : begin + 500 : 2])
                    assert service.ask("/ingest", "POST", body)[0] == 204
                sent += len(lines)
                rig.wait_for(lambda due=sent: service.metric("samples_received_total") >= due)
                rig.wait_for(lambda: service.metric("queue_samples") == 0)
                seen.append(resources(service))
            opened = service.metric("incidents_total")
            assert service.stop() == 0
    finally:
        server.stop()
        hook.close()

    assert opened > 2 * ROUNDS
    memory, threads, descriptors = zip(*seen, strict=True)
    assert min(memory[-WARM:]) - min(memory[WARM : 2 * WARM]) < GROWTH_MB, memory
    assert max(threads[-WARM:]) <= max(threads[WARM : 2 * WARM]) + 2, threads
    assert max(descriptors[-WARM:]) <= max(descriptors[WARM : 2 * WARM]) + 2, descriptors
