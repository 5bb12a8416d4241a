"""Reopening for hours must cost nothing: no thread, no descriptor, no task is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from connectors import SINKS, SOURCES, ConnectorError
from tests.connectors import sink_rigs, source_rigs


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def cycles(connector: Any, arguments: tuple[Any, ...], times: int) -> None:
    for _ in range(times):
        try:
            await connector.open(*arguments)
            if arguments:
                async with asyncio.timeout(0.05):
                    await connector.read()
        except (ConnectorError, TimeoutError):
            pass
        await connector.close()


async def compare(connector: Any, arguments: tuple[Any, ...]) -> None:
    """A few rounds to warm up (thread pools fill), then five more that may leave nothing."""
    await cycles(connector, arguments, 5)
    gc.collect()
    before = threading.active_count(), descriptors(), len(asyncio.all_tasks())
    await cycles(connector, arguments, 5)
    gc.collect()
    await asyncio.sleep(0.05)
    after = threading.active_count(), descriptors(), len(asyncio.all_tasks())
    # The loop's shared pool may still grow by a thread or two; a leak would be five.
    assert all(b - a <= 2 for a, b in zip(before, after, strict=True)), (before, after)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "prometheus"])
def test_sources_leave_nothing_behind(name: str, running: Any, tmp_path: Path) -> None:
    async def main() -> None:
        rig = source_rigs.RIGS[name](running, tmp_path)
        connector = rig.make()
        await rig.prepare()
        await compare(connector, (None,))
        if name in ("mqtt", "redis", "nats"):
            await compare(rig.make(rig.dead_config()), (None,))
        await rig.stop()

    asyncio.run(main())


@pytest.mark.parametrize("name", SINKS)
def test_sinks_leave_nothing_behind(name: str, running: Any, tmp_path: Path) -> None:
    async def main() -> None:
        rig = sink_rigs.RIGS[name](running, tmp_path)
        await rig.prepare()
        await compare(rig.make(), ())
        if name in ("mqtt", "redis", "nats"):
            await compare(rig.make(rig.dead_config()), ())
        if name == "mqtt":
            await rig.received()
        await rig.stop()

    asyncio.run(main())
