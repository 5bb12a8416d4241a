"""When copies of what was learnt are made: after a calibration, and at intervals, beside all other work."""

from __future__ import annotations

import asyncio
import logging
import time

from detector.runtime.committer import Committer
from detector.runtime.metrics import Metrics
from detector.storage import backup
from detector.storage.database import StateError

log = logging.getLogger("detector.state")
LOOK_S = 5.0


class Backups:
    """One copy at a time, in a thread of its own; one that fails is tried again with the next look."""

    def __init__(self, committer: Committer, metrics: Metrics) -> None:
        self._committer, self._metrics = committer, metrics
        self._soon = asyncio.Event()
        self._busy = asyncio.Lock()
        self._latest: float | None = None  # by the monotonic clock

    def soon(self) -> None:
        """Something was learnt that is worth a copy."""
        self._soon.set()

    async def run(self) -> None:
        """Until cancelled."""
        found = backup.describe(self._committer.store.folder)
        if found:
            age = max(0.0, time.time() - found[0]["time"])
            self._latest = time.monotonic() - age
            self._metrics.set("backup_timestamp_seconds", found[0]["time"])
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._soon.wait()
            except TimeoutError:
                pass
            async with self._busy:
                if self._due and self._committer.failing is None:
                    await self._copy()

    async def finish(self) -> None:
        """The process is to stop: a copy under way is waited for, and one that has to be is made."""
        async with self._busy:
            if self._soon.is_set() and self._due and self._committer.failing is None:
                await self._copy()

    @property
    def _due(self) -> bool:
        settings, store = self._committer.settings, self._committer.store
        if settings.backup_keep == 0:
            return False
        if self._soon.is_set():
            return True
        if store.snapshot_time is None:
            return False
        if self._latest is None or time.monotonic() - self._latest >= settings.backup_every:
            return True
        return not backup.copies(store.folder)  # somebody has removed them

    async def _copy(self) -> None:
        self._soon.clear()
        await self._committer.commit()  # with the snapshot that the copy is to hold
        store, keep = self._committer.store, self._committer.settings.backup_keep
        try:
            made = await asyncio.to_thread(backup.copy_learnt, store.folder, keep)
        except StateError as error:
            self._metrics.count("backup_failures_total")
            self._latest = None  # due with the next look
            log.warning("what was learnt cannot be copied: %s", error, extra={"repeat": "backup"})
            return
        if made is not None:
            self._latest = time.monotonic()
            self._metrics.set("backup_timestamp_seconds", time.time())
            log.debug("what was learnt is copied to %s", made)
