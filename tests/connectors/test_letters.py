"""Messages that are no samples come through every broker as they were sent; what is too large is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from connectors import letters
from connectors.letters import open_letters
from tests.connectors.source_rigs import RIGS

BODIES = [b'{"event":"question"}', b"no JSON at all", b"x" * 50]


@pytest.mark.parametrize("name", letters.SOURCES)
def test_letters(name: str, running: Any, tmp_path: Path) -> None:
    rig = RIGS[name](running, tmp_path)

    async def life() -> tuple[list[bytes], int, int]:
        await rig.prepare()
        source = rig.make()
        kept = open_letters(source, 50)
        await source.open(None)
        try:
            await rig.send([*BODIES, b"y" * 51])
            found: list[bytes] = []
            rejected = samples = 0
            async with asyncio.timeout(20):
                while len(found) + rejected < 4:
                    batch = await source.read()
                    assert batch is not None
                    await source.commit(batch.position)
                    found += kept.take()
                    rejected += batch.rejected.get("too_large", 0)
                    samples += len(batch.samples)
            return found, rejected, samples
        finally:
            await source.close()
            await rig.stop()

    found, rejected, samples = asyncio.run(life())

    assert sorted(found) == sorted(BODIES)
    assert (rejected, samples) == (1, 0)
