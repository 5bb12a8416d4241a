"""Standard input to its end, standard output without blocking anybody."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from connectors.stdio import StdinSource, StdoutSink


def source(descriptor: int, **decode: Any) -> StdinSource:
    return StdinSource(StdinSource.Config.model_validate({"descriptor": descriptor, "decode": decode}))


def test_the_end_of_a_pipe_is_the_end_of_the_stream() -> None:
    """CSV with its header, a line in two pieces, a last line without an end."""

    async def main() -> None:
        out, into = os.pipe()
        connector = source(out, format="csv")
        await connector.open(None)
        os.write(into, b"time,node,x\n1,a,2\n2,b")
        first = await connector.read()
        assert first is not None
        assert [sample.node for sample in first.samples] == ["a"]
        os.write(into, b",3\n3,c,4")
        second = await connector.read()
        os.close(into)
        third = await connector.read()
        assert second is not None
        assert third is not None
        assert [sample.node for sample in (*second.samples, *third.samples)] == ["b", "c"]
        assert await connector.read() is None
        assert await connector.read() is None
        await connector.close()
        os.close(out)

    asyncio.run(main())


def test_closing_does_not_wait_for_input() -> None:
    async def main() -> None:
        out, into = os.pipe()
        connector = source(out)
        await connector.open(None)
        reading = asyncio.create_task(connector.read())
        await asyncio.sleep(0.05)
        reading.cancel()
        await asyncio.wait_for(connector.close(), 30)
        os.close(out)
        os.close(into)

    asyncio.run(main())


def test_a_stalled_reader_stalls_only_the_sink() -> None:
    """More than a pipe holds is written while nobody reads: the event loop goes on, and all arrives."""

    async def main() -> None:
        out, into = os.pipe()
        connector = StdoutSink(StdoutSink.Config.model_validate({"descriptor": into}))
        await connector.open()
        records = [{"id": str(i), "event": "opened", "text": "x" * 1000} for i in range(300)]
        writing = asyncio.create_task(connector.write(records))
        for _ in range(5):
            await asyncio.sleep(0.02)
        assert not writing.done()
        got = bytearray()

        def read() -> None:
            while chunk := os.read(out, 65536):
                got.extend(chunk)

        reader = threading.Thread(target=read)
        reader.start()
        await asyncio.wait_for(writing, 30)
        os.close(into)
        await asyncio.to_thread(reader.join, 5)
        assert got.count(b"\n") == 300
        os.close(out)

    asyncio.run(main())
