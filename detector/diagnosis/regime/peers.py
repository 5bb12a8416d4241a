"""Asking other daemons how near points are to regimes they know, and answering them.

Questions and answers go through a sink and a source of the configuration that are set aside for it, all
daemons on one topic. Whoever does not answer in time is missing, no more. Samples stay where they are; since
answers to chosen questions tell something about them, only peers are answered, and so many a minute.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connectors.base import ConnectorError, Sink, Source, backoff
from connectors.codec.raw_messages import take_raw
from detector.diagnosis.regime import messages
from detector.diagnosis.regime.messages import Answer, Question
from detector.diagnosis.regime.settings import ExchangeSettings
from detector.runtime.metrics import Metrics
from estimators.core.types import Floats
from estimators.regimes.library import Reading, RegimeLibrary

log = logging.getLogger("detector.exchange")
SKEW_S = 60.0  # by which the clocks of two sites may differ
GRACE_S = 2.0  # beyond its time that the asking thread waits
PATIENCE = 3  # questions after which a peer that said nothing is no longer waited for, until it speaks

Answers = dict[str, list[dict[str, Reading]]]  # peer: a table per group of points


@dataclass
class Waiting:
    """A question of ours, and what was answered so far."""

    question: Question
    answers: Answers = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class PeerExchange:
    """Lives on the event loop; `ask` and `hold` are called from the diagnosis thread."""

    def __init__(self, settings: ExchangeSettings, source: Source, sink: Sink, metrics: Metrics) -> None:
        self.settings, self.peers = settings, sorted(settings.peers)
        self.error: str | None = "not connected yet"
        self._source, self._sink, self._metrics = source, sink, metrics
        self._inbox = take_raw(source, messages.MAX_BYTES)
        self._loop = asyncio.get_running_loop()
        self._libraries: Mapping[str, RegimeLibrary] = {}
        self._waiting: dict[str, Waiting] = {}
        self._answered: deque[float] = deque(maxlen=settings.per_minute)  # when, by the monotonic clock
        self._misses = dict.fromkeys(self.peers, 0)  # questions in a row without an answer
        self._sending = asyncio.Lock()  # a sink writes one thing at a time
        self._rng = random.Random()

    # ------------------------------------------------------------------------- from the diagnosis thread

    def hold(self, libraries: Mapping[str, RegimeLibrary]) -> None:
        """What to answer from."""
        self._libraries = dict(libraries)

    def ask(self, spec: str, alpha: float, groups: Sequence[Floats]) -> Answers:
        """The peers' tables for each group of points; waits for all of them, or until the time is over."""
        asked = asyncio.run_coroutine_threadsafe(self._ask(spec, alpha, groups), self._loop)
        try:
            return asked.result(self.settings.timeout + GRACE_S)
        except TimeoutError:
            asked.cancel()
            return {}

    async def _ask(self, spec: str, alpha: float, groups: Sequence[Floats]) -> Answers:
        if self.error is not None:  # nobody would be heard
            return {}
        timeout = self.settings.timeout
        question = Question(
            id=secrets.token_hex(8), sender=self.settings.name, spec=spec, alpha=alpha,
            until=time.time() + timeout, groups=[points.tolist() for points in groups],
        )  # fmt: skip
        waiting = self._waiting[question.id] = Waiting(question)
        try:
            async with asyncio.timeout(timeout):
                if not await self._send(question, "asked"):
                    return {}
                while self._awaited(waiting):
                    waiting.news.clear()
                    await waiting.news.wait()
        except TimeoutError:
            pass
        finally:
            del self._waiting[question.id]
        for peer in self.peers:
            if peer not in waiting.answers:
                self._misses[peer] += 1
        return dict(waiting.answers)

    def _awaited(self, waiting: Waiting) -> bool:
        """Whether somebody may still answer who is worth waiting for."""
        return any(self._misses[peer] < PATIENCE for peer in self.peers if peer not in waiting.answers)

    # ------------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Listen until cancelled; connect again whenever the connection is lost."""
        attempt = 0
        try:
            while True:
                try:
                    await self._source.open(None)
                    self.error, attempt = None, 0
                    while (batch := await self._source.read()) is not None:
                        await self._source.commit(batch.position)
                        self._count("malformed", batch.rejected.get("too_large", 0))
                        for body in self._inbox.take():
                            await self._hear(body)
                    raise ConnectorError("the stream of messages has ended", retry=True)
                except ConnectorError as error:
                    self._lost(str(error))
                except Exception as error:
                    self._lost(f"{type(error).__name__}: {error}")
                    log.exception("exchange: unexpected error", extra={"repeat": "exchange error"})
                await self._close(self._source)
                await asyncio.sleep(backoff(attempt, self._rng))
                attempt += 1
        finally:
            self.error = "stopped"
            await self._close(self._source)
            await self._close(self._sink)

    def _lost(self, error: str) -> None:
        self.error = error
        log.warning("exchange: %s", error, extra={"repeat": "exchange"})

    async def _hear(self, body: bytes) -> None:
        try:
            said = messages.parse(body)
        except ValueError as error:
            self._refuse("malformed", f"a message that cannot be read: {error}")
            return
        if said.sender == self.settings.name:
            return
        if said.sender not in self._misses:
            self._refuse("stranger", f"a message of {said.sender!r}, which is no peer")
            return
        self._misses[said.sender] = 0
        if isinstance(said, Question):
            await self._reply(said)
        else:
            self._take(said)

    async def _reply(self, question: Question) -> None:
        now = time.monotonic()
        full = len(self._answered) == self._answered.maxlen
        if time.time() > question.until + SKEW_S:
            self._count("late")
        elif full and now - self._answered[0] < 60.0:
            self._refuse("limited", f"more than {self.settings.per_minute} questions in a minute")
        else:
            self._answered.append(now)
            known = self._libraries.get(question.spec)
            if known is None and self._libraries:
                self._refuse("spec", f"{question.sender} asks about features {question.spec}")
            try:
                said = await asyncio.to_thread(messages.answer, question, known, self.settings.name)
            except ValueError as error:
                self._refuse("malformed", f"a question of {question.sender}: {error}")
                return
            await self._send(said, "answered")

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.question)
        if waiting is None:
            self._count("late")
        elif answer.spec != waiting.question.spec:
            self._refuse("spec", f"{answer.sender} answers about features {answer.spec}")
        elif len(answer.tables) != len(waiting.question.groups):
            self._refuse("malformed", f"{len(answer.tables)} answers of {answer.sender}")
        else:
            waiting.answers[answer.sender] = answer.readings()
            waiting.news.set()
            self._count("heard")

    async def _send(self, message: messages.Message, outcome: str) -> bool:
        try:
            async with asyncio.timeout(self.settings.timeout), self._sending:
                await self._sink.write([messages.record(message)])
        except (ConnectorError, TimeoutError) as error:
            self._refuse("failed", f"cannot send: {str(error) or 'no answer in time'}")
            return False
        self._count(outcome)
        return True

    async def _close(self, connector: Source | Sink) -> None:
        try:
            async with asyncio.timeout(GRACE_S):
                await connector.close()
        except Exception:
            log.debug("exchange: error while closing", exc_info=True)

    def _refuse(self, outcome: str, text: str) -> None:
        self._count(outcome)
        log.warning("exchange: %s", text, extra={"repeat": f"exchange {outcome}"})

    def _count(self, outcome: str, count: int = 1) -> None:
        if count:
            self._metrics.count("exchange_messages_total", count, outcome=outcome)

    def describe(self) -> str:
        """For people."""
        silent = [peer for peer in self.peers if self._misses[peer] >= PATIENCE]
        state = self.error or (f"connected; nothing heard of {', '.join(silent)}" if silent else "connected")
        return f"{self.settings.name} with {', '.join(self.peers)}: {state}"
