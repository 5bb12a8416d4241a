"""Messages to and from other daemons, by a source and a sink of the configuration that are set aside for it.

Nothing is kept: what cannot be sent is given up, and after a lost connection the line is opened again. What
the messages mean, who may send them and what is done about a failure is with whoever owns the line.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from connectors.base import ConnectorError, Sink, Source, backoff
from connectors.codec.raw_messages import take_raw

log = logging.getLogger("detector.peers")
CLOSE_S = 2.0


class PeerLine:
    """Lives on the event loop. ``name`` stands before what is logged."""

    def __init__(self, name: str, source: Source, sink: Sink, max_bytes: int, timeout: float) -> None:
        self.name = name
        self.error: str | None = "not connected yet"  # None: connected
        self._source, self._sink, self._timeout = source, sink, timeout
        self._inbox = take_raw(source, max_bytes)
        self._sending = asyncio.Lock()  # a sink writes one thing at a time
        self._rng = random.Random()

    async def listen(
        self, hear: Callable[[bytes], Awaitable[None]], too_large: Callable[[int], None]
    ) -> None:
        """Hand over messages until cancelled; connect again whenever the connection is lost."""
        attempt = 0
        try:
            while True:
                try:
                    await self._source.open(None)
                    self.error, attempt = None, 0
                    while (batch := await self._source.read()) is not None:
                        await self._source.commit(batch.position)
                        if count := batch.rejected.get("too_large", 0):
                            too_large(count)
                        for body in self._inbox.take():
                            await hear(body)
                    raise ConnectorError("the stream of messages has ended", retry=True)
                except ConnectorError as error:
                    self._lost(str(error))
                except Exception as error:
                    self._lost(f"{type(error).__name__}: {error}")
                    log.exception("%s: unexpected error", self.name, extra={"repeat": f"{self.name} error"})
                await self._close(self._source)
                await asyncio.sleep(backoff(attempt, self._rng))
                attempt += 1
        finally:
            self.error = "stopped"
            await self._close(self._source)
            await self._close(self._sink)

    def _lost(self, error: str) -> None:
        self.error = error
        log.warning("%s: %s", self.name, error, extra={"repeat": self.name})

    async def send(self, record: Mapping[str, Any]) -> str | None:
        """Write one record; why it could not be sent, if it could not."""
        try:
            async with asyncio.timeout(self._timeout), self._sending:
                await self._sink.write([record])
        except (ConnectorError, TimeoutError) as error:
            return str(error) or "no answer in time"
        return None

    async def _close(self, connector: Source | Sink) -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                await connector.close()
        except Exception:
            log.debug("%s: error while closing", self.name, exc_info=True)
