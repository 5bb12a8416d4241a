"""The diagnosis service: gives case files to analyzers, publishes findings, and runs actions people ask for.

The database is its queue: a case file is committed with the samples that led to it, and marked as analyzed
with the findings it led to. A crash between the two analyzes it again; the ids of findings are the same, so
nothing is published twice. Detection never waits for this service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from detector.diagnosis.actions import Action, ActionError, Arguments, NotThere
from detector.diagnosis.analyzer import Analyzer, Finding, finding_event
from detector.diagnosis.executor import PATIENCE, LowPriorityExecutor, Overloaded
from detector.diagnosis.jobs import Busy, Job, JobQueue, bare
from detector.diagnosis.registry import ANALYZERS, build_analyzer, present_name, relearning
from detector.diagnosis.repository import Repository
from detector.events.model import Event
from detector.incidents.case import STAGES, Case
from detector.runtime.committer import Committer
from detector.runtime.metrics import Metrics
from detector.settings.diagnosis import DiagnosisSettings
from detector.storage import cases as tables
from detector.storage.arrays import Unreadable
from detector.storage.cases import Key
from detector.storage.database import StateError

if TYPE_CHECKING:
    from detector.diagnosis.exchange.peers import PeerExchange

log = logging.getLogger("detector.diagnosis")
RELEARN = "learn from labels"
PATIENCE_S = 15.0  # besides what an analyzer may take
RETRY_S = 5.0  # after the store or the thread refused

Publish = Callable[[Sequence[Event], Key], Awaitable[None]]


class DiagnosisService:
    """``publish`` takes the events of a case file that was analyzed."""

    def __init__(
        self, committer: Committer, metrics: Metrics, settings: DiagnosisSettings, publish: Publish
    ) -> None:
        self.settings = settings
        self.analyzers: dict[str, Analyzer | None] = {}
        self.models: dict[str, int] = {}  # by analyzer
        self._committer, self._metrics, self._publish = committer, metrics, publish
        self._repository = Repository(committer.store, committer.ask_from_thread, settings)
        self._executor = LowPriorityExecutor()
        self.jobs = JobQueue()
        self.exchange: PeerExchange | None = None
        self._done: set[Key] = set()  # analyzed, while the store may not know it yet
        self._progressed = time.monotonic()  # when the latest turn or analyzer ended
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        for name in ANALYZERS:
            metrics.add_analyzer(name)

    # ------------------------------------------------------------------------------- from outside

    def wake(self) -> None:
        """There may be new case files."""
        if self._idle.is_set():
            self._progressed = time.monotonic()
        self._idle.clear()
        self._wake.set()

    def stuck(self) -> bool:
        """Whether nothing was finished for longer than one analyzer may take."""
        return time.monotonic() - self._progressed > PATIENCE_S + PATIENCE * self.settings.time_limit

    @property
    def at_rest(self) -> bool:
        """Whether nothing is left to analyze."""
        return self._idle.is_set()

    async def idle(self) -> None:
        """Waits until nothing is left to analyze."""
        await self._idle.wait()

    def act(self, kind: str, name: str, action: Action, arguments: Arguments) -> Job:
        """Queue an action of an analyzer. `Busy` if too many wait."""
        job = self.jobs.add(present_name(kind), name, partial(action.run, self._repository, arguments))
        self.wake()
        return job

    def labelled(self) -> None:
        """An incident was labelled: learn from it, once for many labels."""
        for kind, action in relearning(self.settings).items():
            if not self.jobs.waits(kind, RELEARN):
                work = partial(action.run, self._repository, action.arguments())
                with contextlib.suppress(Busy):  # the next label will do
                    self.jobs.add(kind, RELEARN, work).done.add_done_callback(partial(_relearnt, kind))
        self.wake()

    def again(self, incident: str) -> Job:
        """Analyze the case files of an incident by what is known today; nothing of it is recorded."""
        job = self.jobs.add("", "analyze", partial(self._analyze_again, incident))
        self.wake()
        return job

    async def overview(self) -> dict[str, Any]:
        """Analyzers, models, case files that wait and the latest jobs, JSON-ready."""
        waiting = await self._committer.ask(self._committer.store.read, tables.waiting)
        listed = await self._committer.ask(self._committer.store.read, tables.list_models)
        return {
            "analyzers": {name: {"active": self.analyzers.get(name) is not None} for name in ANALYZERS},
            "waiting": len(set(waiting) - self._done),
            "models": listed,
            "actions": self.jobs.describe(),
        }

    def connect(self, exchange: PeerExchange | None) -> None:
        """Other daemons can be asked from now on, or no more."""
        self.exchange = self._repository.exchange = exchange
        self.analyzers.clear()  # building them gives the exchange what it answers from
        self.wake()

    def adopt(self, settings: DiagnosisSettings) -> None:
        """After a reload."""
        if settings != self.settings:
            self.settings = self._repository.settings = settings
            if self.exchange is not None:
                self.exchange.release()  # of an analyzer that is switched off, too
            self.analyzers.clear()
            self.wake()

    # -------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Until cancelled. Nothing that goes wrong here is worth more than a count and a line in the log."""
        await self._recount()
        while True:
            try:
                while await self._turn():
                    self._progressed = time.monotonic()
            except (StateError, Overloaded) as error:
                log.warning("no incident can be analyzed now: %s", error, extra={"repeat": "diagnosis"})
                await asyncio.sleep(RETRY_S)
                continue
            except Exception:
                log.exception("unexpected error in the diagnosis service; it goes on in %g s", RETRY_S)
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
        if (job := self.jobs.next()) is not None:
            await self._run(job)
            return True
        waiting = await self._committer.ask(self._committer.store.read, tables.waiting)
        self._done &= set(waiting)
        left = [key for key in waiting if key not in self._done]
        if not left:
            return False
        await self._analyze(left[0])
        return len(left) > 1 or len(self.jobs) > 0

    async def _build(self) -> None:
        """The analyzers that are not built yet."""
        for kind in ANALYZERS:
            if kind not in self.analyzers:
                try:
                    built = await self._executor.run(
                        None, build_analyzer, kind, self.settings, self._repository
                    )
                except (StateError, Overloaded):
                    raise
                except Exception as error:
                    self._failed(kind, "model", f"analyzer {kind} cannot be built: {error}", error)
                    built = None
                self.analyzers[kind] = built

    async def _analyze(self, key: Key) -> None:
        incident, stage = key
        events: list[Event] = []
        wanted = [one for one in self.analyzers.values() if one is not None and stage in one.stages]
        if wanted:
            try:
                case = await self._committer.ask(
                    self._committer.store.read, tables.read_case, incident, stage
                )
            except Unreadable as error:
                self._failed("", "damaged", str(error))
                case = None
            for analyzer in wanted if case is not None else ():
                finding = await self._ask(analyzer, case)
                if finding is not None:
                    events.append(finding_event(case, finding))
                    self._metrics.count("findings_total", kind=finding.kind)
        self._done.add(key)
        self._metrics.count("diagnosis_cases_total", stage=stage)
        await self._publish(events, key)
        if wanted:
            await self._recount()  # an analyzer may keep what it sees

    async def _ask(self, analyzer: Analyzer, case: Case) -> Finding | None:
        begun = time.monotonic()
        where = f"{analyzer.kind} of {case.incident}, {case.stage}"
        try:
            return await self._executor.run(self.settings.time_limit, analyzer.analyze, case)
        except Overloaded:
            raise
        except TimeoutError:
            passed = time.monotonic() - begun
            limit = f"time_limit: {self.settings.time_limit:g} s of computing"
            self._failed(analyzer.kind, "time", f"{where}: given up after {passed:.1f} s ({limit})")
        except Exception as error:
            self._failed(analyzer.kind, "error", f"{where}: {type(error).__name__}: {error}", error)
        finally:
            self._progressed = time.monotonic()
            self._metrics.observe("diagnosis_seconds", self._progressed - begun)
        return None

    def _analyze_again(self, incident: str) -> dict[str, Any]:
        """In the thread."""
        found: list[dict[str, Any]] = []
        cases = [case for stage in STAGES if (case := self._repository.case(incident, stage)) is not None]
        if not cases:
            raise NotThere(f"there is no case file of an incident {incident!r}")
        for case in cases:
            for analyzer in self.analyzers.values():
                if analyzer is not None and case.stage in analyzer.stages:
                    finding = analyzer.analyze(case)
                    if finding is not None:
                        found.append(finding_event(case, finding).record())
        return {"findings": found}

    async def _run(self, job: Job) -> None:
        if job.done.done():  # nobody waits for it any more
            return
        result: dict[str, Any] = {}
        failure: Exception | None = None
        try:
            result = await self._executor.run(None, job.work)
        except asyncio.CancelledError:
            job.done.cancel()
            raise
        except Exception as error:
            failure = error
            if not isinstance(error, (ValueError, StateError, Overloaded)):
                self._failed(job.kind, "error", f"{job.kind} {job.name}: {error!r}", error)
        # It may have learnt something: built anew before the caller gets its answer and relies on it.
        self.analyzers.pop(job.kind, None)
        try:
            await self._build()
            await self._recount()
        finally:
            if failure is not None:
                job.done.set_exception(bare(failure))
            else:
                job.done.set_result(result)

    async def _recount(self) -> None:
        try:
            self.models = await self._committer.ask(self._committer.store.read, tables.count_models)
        except StateError:
            return
        for kind in ANALYZERS:
            self._metrics.set("models", self.models.get(kind, 0), kind=kind)

    def _failed(self, kind: str, reason: str, text: str, error: BaseException | None = None) -> None:
        self._metrics.count("diagnosis_failures_total", kind=kind, reason=reason)
        log.error("%s", text, exc_info=error, extra={"repeat": f"diagnosis {kind} {reason}"})


def _relearnt(kind: str, done: asyncio.Future[dict[str, Any]]) -> None:
    """That there is too little to learn from is no failure."""
    if not done.cancelled() and isinstance(error := done.exception(), ActionError):
        log.info("%s: %s", kind, error)
