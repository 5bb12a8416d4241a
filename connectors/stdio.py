"""Standard input and output: samples by pipe, records to whoever reads us."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from pydantic import Field

from connectors.base import Accepted, Batch, ConnectorError, InFlight, Settings, Sink, Source, unheard
from connectors.codec.decoder import Decode, Decoder
from connectors.codec.lines import LineCutter

CHUNK = 2**18  # bytes a read: a pipe holds 64 KiB, a redirected file gives all of it
WAKE_S = 0.2  # how long the reading thread sleeps at most before it looks whether to stop


class StdinSource(Source):
    """JSON lines, CSV or line protocol from standard input, until its end."""

    name = "stdin"
    replayable = False
    ends = True
    exclusive = "descriptor"
    guarantee = "At most once: samples in memory are lost in a crash; alerts already raised are not."

    class Config(Settings):
        decode: Decode = Field(default=Decode(), description="How a line is read.")
        descriptor: int = Field(default=0, description="File descriptor to read; 0 is standard input.", ge=0)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._decoder = Decoder(config.decode)
        self._cutter = LineCutter(config.decode)
        self._thread: ThreadPoolExecutor | None = None
        self._reading: InFlight[bytes | None] = InFlight()
        self._stopping = False
        self._ended = False

    async def open(self, position: Any) -> None:
        self._decoder.open()
        self._stopping = False
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="stdin")

    async def read(self) -> Batch | None:
        while not self._ended:
            chunk = await self._reading.run(self._next_chunk)
            if chunk is None:
                continue
            self._ended = not chunk
            batch = Batch()
            whole = self._cutter.end(batch) if self._ended else self._cutter.feed(chunk, batch)
            if whole:
                self._decoder.lines(whole, batch, header=self._cutter.header)
            if batch.received:
                return batch
        return None

    async def _next_chunk(self) -> bytes | None:
        if self._thread is None:
            raise ConnectorError("stdin is not open", retry=False)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._wait_and_read)

    def _wait_and_read(self) -> bytes | None:
        """Bytes, b"" at the end, None if nothing came for a moment."""
        descriptor = self.config.descriptor
        try:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN | select.POLLHUP)
            while not self._stopping:
                if poller.poll(WAKE_S * 1000):
                    return os.read(descriptor, CHUNK)
        except OSError as error:
            raise ConnectorError(f"cannot read standard input: {error}", retry=False) from None
        return None

    async def close(self) -> None:
        # The thread finishes what it reads; the bytes stay in the operation for a later read.
        self._stopping = True
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.shutdown)


class StdoutSink(Sink):
    """One JSON object per line on standard output."""

    name = "stdout"

    class Config(Settings):
        descriptor: int = Field(
            default=1, description="File descriptor to write; 1 is standard output.", ge=0
        )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._half: tuple[str, bytes] | None = None  # id and rest of a line that is only half written

    async def open(self) -> None:
        if self.config.descriptor == 1:
            sys.stdout.flush()

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        # A reader that stalls must stall only this sink, not the event loop.
        for record in records:
            await asyncio.to_thread(self._write, str(record["id"]), msgspec.json.encode(record) + b"\n")
            accepted(str(record["id"]))

    def _write(self, id: str, line: bytes) -> None:
        begun = self._half
        if begun is None:
            rest = line
        else:  # another record's line, which was given up half written, is ended: ours is a line of its own
            rest = begun[1] if begun[0] == id else b"\n" + line
        whole = len(rest)
        try:
            while rest:
                rest = rest[os.write(self.config.descriptor, rest) :]
            self._half = None
        except OSError as error:
            if len(rest) < whole:
                self._half = (id, rest)
            raise ConnectorError(f"cannot write to standard output: {error}", retry=True) from None

    async def close(self) -> None:
        return
