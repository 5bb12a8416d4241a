"""Samples sent as UDP datagrams, one message each."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from pydantic import Field

from connectors import Batch, ConnectorError, Settings, Source
from connectors.codec.decoder import Decode, Decoder


class UdpSource(Source):
    """Datagrams to a port of ours, each a message in the configured format."""

    name = "udp"
    replayable = False
    exclusive = "port"
    example = ("port: 8125",)
    guarantee = "At most once: the network may lose datagrams, and a full queue drops them, counted."

    class Config(Settings):
        host: str = Field(default="127.0.0.1", description="Address to listen on.")
        port: int = Field(description="Port to listen on.", ge=1, le=65535)
        queue: int = Field(default=10_000, description="Datagrams kept until they are read.", ge=1)
        decode: Decode = Field(default=Decode(), description="How a datagram is read.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._decoder = Decoder(config.decode)
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: deque[tuple[bytes, float]] = deque()
        self._dropped = 0
        self._arrived = asyncio.Event()

    async def open(self, position: Any) -> None:
        self._decoder.open()
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: _Receiver(self), local_addr=(self.config.host, self.config.port)
            )
        except OSError as error:
            raise ConnectorError(f"udp {self.config.host}:{self.config.port}: {error}", retry=True) from None

    def received(self, data: bytes) -> None:
        """UDP cannot wait: what does not fit is dropped, and counted by the next `read`."""
        if len(self._waiting) < self.config.queue:
            self._waiting.append((data, time.time()))
        else:
            self._dropped += 1
        self._arrived.set()

    async def read(self) -> Batch | None:
        # Nothing is taken before the wait is over, so a cancelled read loses nothing.
        while not self._waiting and not self._dropped:
            if self._transport is None:
                raise ConnectorError("udp is not open", retry=True)
            self._arrived.clear()
            await self._arrived.wait()
        batch = Batch()
        if self._dropped:
            batch.reject("overflow", self._dropped)
            self._dropped = 0
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        self._decoder.messages([data for data, _ in taken], batch, lambda i: (None, taken[i][1]))
        return batch

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, source: UdpSource) -> None:
        self._source = source

    def datagram_received(self, data: bytes, address: Any) -> None:
        self._source.received(data)
