"""Messages that are no samples come through every broker as they were sent; what is too large is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from connectors import SOURCES, source
from connectors.codec.raw_messages import take_raw
from tests.connectors.source_rigs import RIGS

BODIES = [b'{"event":"question"}', b"no JSON at all", b"x" * 50]


@pytest.mark.parametrize("name", [name for name in SOURCES.builtin if source(name).raw])
def test_messages_come_unchanged(name: str, running: Any, tmp_path: Path) -> None:
    rig = RIGS[name](running, tmp_path)

    async def life() -> tuple[list[bytes], int, int]:
        await rig.prepare()
        reader = rig.make()
        kept = take_raw(reader, 50)
        await reader.open(None)
        try:
            await rig.send([*BODIES, b"y" * 51])
            found: list[bytes] = []
            rejected = samples = 0
            async with asyncio.timeout(20):
                while len(found) + rejected < 4:
                    batch = await reader.read()
                    assert batch is not None
                    await reader.commit(batch.position)
                    found += kept.take()
                    rejected += batch.rejected.get("too_large", 0)
                    samples += len(batch.samples)
            return found, rejected, samples
        finally:
            await reader.close()
            await rig.stop()

    found, rejected, samples = asyncio.run(life())

    assert sorted(found) == sorted(BODIES)
    assert (rejected, samples) == (1, 0)
