"""The desk: examines case files one after the other, tells what was found, and does what people ask for.

The database is its queue: a case file is committed with the samples that led to it, and marked as examined
with the findings it led to. A crash between the two examines it again; the ids of findings are the same, so
nothing is said twice. Detection never waits for the desk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from detector.aftermath import tables
from detector.aftermath.actions import Action, ActionError, Arguments, NotThere
from detector.aftermath.casefile import STAGES, CaseFile
from detector.aftermath.examiner import Examiner, Finding, finding_event
from detector.aftermath.hand import PATIENCE, Hand, Overloaded
from detector.aftermath.kinds import KINDS, build_examiner, relearning
from detector.aftermath.orders import Busy, Order, Orders
from detector.aftermath.packing import Unreadable
from detector.aftermath.settings import AftermathSettings
from detector.aftermath.shelf import Shelf
from detector.aftermath.tables import Key
from detector.database import StateError
from detector.events import Event
from detector.metrics import Metrics
from detector.recorder import Recorder

if TYPE_CHECKING:
    from detector.aftermath.exchange import Exchange

log = logging.getLogger("detector.aftermath")
RELEARN = "learn from labels"
PATIENCE_S = 15.0  # besides what an examiner may take
RETRY_S = 5.0  # after the store or the thread refused

Publish = Callable[[Sequence[Event], Key], Awaitable[None]]


class Desk:
    """``publish`` takes the records of a case file that was examined."""

    def __init__(
        self, recorder: Recorder, metrics: Metrics, settings: AftermathSettings, publish: Publish
    ) -> None:
        self.settings = settings
        self.examiners: dict[str, Examiner | None] = {}
        self.models: dict[str, int] = {}  # by kind
        self._recorder, self._metrics, self._publish = recorder, metrics, publish
        self._shelf = Shelf(recorder.store, recorder.ask_from_thread, settings)
        self._hand = Hand()
        self.orders = Orders()
        self.exchange: Exchange | None = None
        self._done: set[Key] = set()  # examined, while the store may not know it yet
        self._moved = time.monotonic()  # when the latest turn or examiner ended
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()

    # ------------------------------------------------------------------------------- from outside

    def wake(self) -> None:
        """There may be new case files."""
        if self._idle.is_set():
            self._moved = time.monotonic()
        self._idle.clear()
        self._wake.set()

    def stuck(self) -> bool:
        """Whether nothing was finished for longer than one examiner may take."""
        return time.monotonic() - self._moved > PATIENCE_S + PATIENCE * self.settings.time_limit

    @property
    def at_rest(self) -> bool:
        """Whether nothing is left to examine."""
        return self._idle.is_set()

    async def idle(self) -> None:
        """Waits until nothing is left to examine."""
        await self._idle.wait()

    def act(self, kind: str, name: str, action: Action, arguments: Arguments) -> Order:
        """Have an action done, in its turn. `Busy` if too many wait."""
        order = self.orders.add(kind, name, partial(action.run, self._shelf, arguments))
        self.wake()
        return order

    def labelled(self) -> None:
        """Somebody said something about an incident: have it learnt, once for many labels."""
        for kind, action in relearning(self.settings).items():
            if not self.orders.waits(kind, RELEARN):
                work = partial(action.run, self._shelf, action.arguments())
                with contextlib.suppress(Busy):  # the next label will do
                    self.orders.add(kind, RELEARN, work).done.add_done_callback(partial(_relearnt, kind))
        self.wake()

    def again(self, incident: str) -> Order:
        """Have the case files of an incident examined by what is known today; nothing of it is recorded."""
        order = self.orders.add("", "examine", partial(self._examine_again, incident))
        self.wake()
        return order

    async def overview(self) -> dict[str, Any]:
        """What there is, JSON-ready."""
        waiting = await self._recorder.ask(self._recorder.store.read, tables.waiting)
        listed = await self._recorder.ask(self._recorder.store.read, tables.list_models)
        return {
            "kinds": {kind: {"examines": self.examiners.get(kind) is not None} for kind in KINDS},
            "waiting": len(set(waiting) - self._done),
            "models": listed,
            "actions": self.orders.describe(),
        }

    def meet(self, exchange: Exchange | None) -> None:
        """Other daemons can be asked from now on, or no more."""
        self.exchange = self._shelf.exchange = exchange
        self.examiners.clear()  # they tell the exchange what is known
        self.wake()

    def adopt(self, settings: AftermathSettings) -> None:
        """After a reload."""
        if settings != self.settings:
            self.settings = self._shelf.settings = settings
            self.examiners.clear()
            self.wake()

    # -------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Until cancelled. Nothing that goes wrong here is worth more than a count and a line in the log."""
        await self._recount()
        while True:
            try:
                while await self._turn():
                    self._moved = time.monotonic()
            except (StateError, Overloaded) as error:
                log.warning("nothing can be examined now: %s", error, extra={"repeat": "aftermath"})
                await asyncio.sleep(RETRY_S)
                continue
            except Exception:
                log.exception("the desk stumbled; it goes on")
                await asyncio.sleep(RETRY_S)
                continue
            if not self._wake.is_set():
                self._idle.set()
            await self._wake.wait()
            self._wake.clear()

    async def _turn(self) -> bool:
        """One action or one case file; False if there is nothing to do."""
        self._wake.clear()
        await self._build()
        if (order := self.orders.next()) is not None:
            await self._obey(order)
            return True
        waiting = await self._recorder.ask(self._recorder.store.read, tables.waiting)
        self._done &= set(waiting)
        left = [key for key in waiting if key not in self._done]
        if not left:
            return False
        await self._examine(left[0])
        return len(left) > 1 or len(self.orders) > 0

    async def _build(self) -> None:
        """Who examines, where that is not known."""
        for kind in KINDS:
            if kind not in self.examiners:
                try:
                    built = await self._hand.run(None, build_examiner, kind, self.settings, self._shelf)
                except (StateError, Overloaded):
                    raise
                except Exception as error:
                    self._failed(kind, "model", f"{kind} cannot examine: {error}", error)
                    built = None
                self.examiners[kind] = built

    async def _examine(self, key: Key) -> None:
        incident, stage = key
        events: list[Event] = []
        wanted = [one for one in self.examiners.values() if one is not None and stage in one.stages]
        if wanted:
            try:
                case = await self._recorder.ask(self._recorder.store.read, tables.read_case, incident, stage)
            except Unreadable as error:
                self._failed("", "damaged", str(error))
                case = None
            for examiner in wanted if case is not None else ():
                finding = await self._ask(examiner, case)
                if finding is not None:
                    events.append(finding_event(case, finding))
                    self._metrics.count("findings_total", kind=finding.kind)
        self._done.add(key)
        self._metrics.count("aftermath_cases_total", stage=stage)
        await self._publish(events, key)
        if wanted:
            await self._recount()  # an examiner may keep what it sees

    async def _ask(self, examiner: Examiner, case: CaseFile) -> Finding | None:
        begun = time.monotonic()
        where = f"{examiner.kind} of {case.incident}, {case.stage}"
        try:
            return await self._hand.run(self.settings.time_limit, examiner.examine, case)
        except Overloaded:
            raise
        except TimeoutError:
            passed = time.monotonic() - begun
            limit = f"time_limit: {self.settings.time_limit:g} s of computing"
            self._failed(examiner.kind, "time", f"{where}: given up after {passed:.1f} s ({limit})")
        except Exception as error:
            self._failed(examiner.kind, "error", f"{where}: {type(error).__name__}: {error}", error)
        finally:
            self._moved = time.monotonic()
            self._metrics.observe("aftermath_seconds", self._moved - begun)
        return None

    def _examine_again(self, incident: str) -> dict[str, Any]:
        """In the thread."""
        found: list[dict[str, Any]] = []
        cases = [case for stage in STAGES if (case := self._shelf.case(incident, stage)) is not None]
        if not cases:
            raise NotThere(f"there is no case file of an incident {incident!r}")
        for case in cases:
            for examiner in self.examiners.values():
                if examiner is not None and case.stage in examiner.stages:
                    finding = examiner.examine(case)
                    if finding is not None:
                        found.append(finding_event(case, finding).record())
        return {"findings": found}

    async def _obey(self, order: Order) -> None:
        if order.done.done():  # nobody waits for it any more
            return
        result: dict[str, Any] = {}
        failure: Exception | None = None
        try:
            result = await self._hand.run(None, order.work)
        except asyncio.CancelledError:
            order.done.cancel()
            raise
        except Exception as error:
            failure = error
            if not isinstance(error, (ValueError, StateError, Overloaded)):
                self._failed(order.kind, "error", f"{order.kind} {order.name}: {error!r}", error)
        self.examiners.pop(order.kind, None)  # it may have learnt something: who hears of it can rely on that
        try:
            await self._build()
            await self._recount()
        finally:
            if failure is not None:
                order.done.set_exception(failure)
            else:
                order.done.set_result(result)

    async def _recount(self) -> None:
        try:
            self.models = await self._recorder.ask(self._recorder.store.read, tables.count_models)
        except StateError:
            return
        for kind in KINDS:
            self._metrics.set("models", self.models.get(kind, 0), kind=kind)

    def _failed(self, kind: str, reason: str, text: str, error: BaseException | None = None) -> None:
        self._metrics.count("aftermath_failures_total", kind=kind, reason=reason)
        log.error("%s", text, exc_info=error, extra={"repeat": f"aftermath {kind} {reason}"})


def _relearnt(kind: str, done: asyncio.Future[dict[str, Any]]) -> None:
    """That there is too little to learn from is no failure."""
    if not done.cancelled() and isinstance(error := done.exception(), ActionError):
        log.info("%s: %s", kind, error)
