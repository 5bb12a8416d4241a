"""A lamp that is on while an incident is open."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from connectors import Accepted, ConnectorError, Settings, Sink, unheard
from connectors.settings.secrets import FilePath


class LampSink(Sink):
    """A file of the kernel's LED class: 1 while an incident is open, else 0."""

    name = "lamp"
    example = ("path: /sys/class/leds/alarm/brightness",)
    wants_open_incidents = True  # after a start the lamp does not know what is open

    class Config(Settings):
        path: FilePath = Field(description="The brightness file of the lamp.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._incidents: set[str] = set()

    async def open(self) -> None:
        if not self.config.path.exists():
            raise ConnectorError(f"there is no {self.config.path}", retry=True)

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        # The same records may come again after a failure: adding and discarding twice changes nothing.
        for record in records:
            if record["event"] == "incident.resolved":
                self._incidents.discard(record["incident"])
            elif record["event"] in ("incident.opened", "incident.updated"):
                self._incidents.add(record["incident"])
        try:
            await asyncio.to_thread(self.config.path.write_text, "1" if self._incidents else "0")
        except OSError as error:
            raise ConnectorError(f"{self.config.path}: {error.strerror}", retry=True) from None

    async def close(self) -> None:
        return
