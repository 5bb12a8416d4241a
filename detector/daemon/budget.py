"""The budget that somebody chose at the console, in the place of that of the configuration file.

It is kept in the database, and counts as long as the file has the budget that it took the place of: whoever
edits `alarm.budget` there has the last word.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import TYPE_CHECKING

from detector.config.config import Config
from detector.settings.budget import Budget
from detector.storage.console.overrides import BudgetOverride, put_budget

if TYPE_CHECKING:
    from detector.daemon.daemon import Daemon

log = logging.getLogger("detector.budget")


class ChosenBudget:
    """Of one daemon."""

    def __init__(self, daemon: Daemon, stored: BudgetOverride | None) -> None:
        self._daemon = daemon
        self.configured = daemon.config.alarm.budget
        self.override = stored

    def of(self, config: Config) -> Config:
        """A configuration from the file, with the budget that counts."""
        if self.override is None or not _fits(self.override, config):
            return config
        return _with(config, Budget.parse(self.override.budget))

    async def adopt(self, config: Config) -> None:
        """This configuration counts from now on, as it is in the file."""
        self.configured = config.alarm.budget
        if self.override is None:
            return
        if _fits(self.override, config):
            log.warning(
                "alarm.budget is %s, set at the console by %s, instead of %s",
                self.override.budget, self.override.who, self.configured,
            )  # fmt: skip
        else:
            log.warning(
                "alarm.budget is %s, as in the configuration; %s, set at the console, no longer counts",
                self.configured, self.override.budget,
            )  # fmt: skip
            await self._store(None)

    async def choose(self, budget: Budget | None, who: str) -> None:
        """Take another budget; None: that of the file. ValueError if the pipeline cannot take it."""
        daemon = self._daemon
        await daemon.reloaded()
        if daemon.config.edge is not None:
            raise ValueError("alarm.budget is that of several boxes: change it in all their configurations")
        wanted = self.configured if budget is None else budget
        new = _with(daemon.config, wanted)
        plan = dataclasses.replace(daemon.worker.plan, settings=new.settings())
        if plan != daemon.worker.plan:
            await daemon.ingest_queue.order("rebuild", {"plan": plan})
        daemon.config = new
        is_own = str(wanted) != str(self.configured)
        await self._store(
            BudgetOverride(str(wanted), str(self.configured), who, time.time()) if is_own else None
        )
        log.warning("alarm.budget is %s from now on: set at the console by %s", wanted, who)

    async def _store(self, override: BudgetOverride | None) -> None:
        recorder = self._daemon.recorder
        await recorder.ask(recorder.store.write, put_budget, override)
        self.override = override


def _fits(override: BudgetOverride, config: Config) -> bool:
    """Several boxes have one budget, which is that of their files."""
    return override.instead_of == str(config.alarm.budget) and config.edge is None


def _with(config: Config, budget: Budget) -> Config:
    return config.model_copy(update={"alarm": config.alarm.model_copy(update={"budget": budget})})
