"""`detector check --connect`, for every source: a message is decoded, nothing of the daemon is moved."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from connectors.base import join_position
from detector.cli.config import try_connectors
from detector.config.config import Config
from tests.connectors.source_rigs import RIGS, Rig, message
from tests.contracts.test_sources import SENDING, expected, in_order, nothing_more, run, take
from tests.detector.rig import settings

NODES = [f"node-{i}" for i in range(7)]


async def check(rig: Rig, folder: Path) -> str:
    """What the command says of the source, at a moment at which no daemon runs."""
    content = settings(
        folder,
        graph={"edges": list(pairwise(NODES)), "dim": 2},
        sources={"in": {"type": rig.type_name, **rig.config()}},
    )
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))
    said = await try_connectors(Config.load(path), 20.0)
    return said["sources.in"]


@pytest.mark.parametrize("name", [name for name in SENDING if RIGS[name].batch_ack and name != "http"])
def test_a_real_message_is_decoded_and_nothing_moves(name: str, running: Any, tmp_path: Path) -> None:
    """Before the first start of a daemon, and between two of its lives."""

    async def test(rig: Rig) -> None:
        await rig.prepare()
        await rig.send([message(i) for i in range(5)])
        assert (await check(rig, tmp_path)).startswith("ok: node 'node-")
        first = rig.make()
        await first.open(None)
        batch = await take(first, 5)
        assert in_order(batch.samples) == expected(range(5))
        position = join_position(None, batch)
        await first.commit(position)
        await first.close()

        await rig.send([message(i) for i in range(5, 10)])
        assert (await check(rig, tmp_path)).startswith("ok: node 'node-")
        second = rig.make()
        await second.open(position)
        assert in_order((await take(second, 5)).samples) == expected(range(5, 10))
        await nothing_more(second)
        await second.close()

    run(name, running, tmp_path, test)
