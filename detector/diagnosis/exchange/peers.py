"""Asking other daemons what they know, and answering them.

Questions and answers go through a sink and a source of the configuration that are set aside for it, all
daemons on one topic. Whoever does not answer in time is missing, no more. What was learnt stays where it is;
since answers to chosen questions tell something about it, only peers are answered, and so many a minute.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from connectors.base import Sink, Source
from detector.diagnosis.exchange import messages
from detector.diagnosis.exchange.messages import Answer, OtherSpec, Question
from detector.runtime.metrics import Metrics
from detector.runtime.peer_line import PeerLine
from detector.settings.diagnosis import ExchangeSettings

log = logging.getLogger("detector.exchange")
SKEW_S = 60.0  # by which the clocks of two sites may differ
GRACE_S = 2.0  # beyond its time that the asking thread waits
PATIENCE = 3  # questions after which a peer that said nothing is no longer waited for, until it speaks

# Fields of an answer beside those that all have; `OtherSpec` if the question is about other numbers, another
# ValueError if it makes no sense. Called in a thread.
Respond = Callable[[Any], dict[str, Any]]
Answers = dict[str, Any]  # peer: its answer


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
        self._metrics = metrics
        self._line = PeerLine("exchange", source, sink, messages.MAX_BYTES, settings.timeout)
        self._loop = asyncio.get_running_loop()
        self._respond: dict[type[Question], Respond] = {}
        self._waiting: dict[str, Waiting] = {}
        self._answered: deque[float] = deque(maxlen=settings.per_minute)  # when, by the monotonic clock
        # Questions in a row without an answer; by subject, since peers may be of an earlier release.
        self._misses: dict[str, Counter[type[Question]]] = {peer: Counter() for peer in self.peers}

    # ------------------------------------------------------------------------- from the diagnosis thread

    def hold(self, kind: type[Question], respond: Respond) -> None:
        """By what questions of a kind are answered from now on."""
        self._respond[kind] = respond

    def release(self) -> None:
        """What was held is no longer answered from."""
        self._respond.clear()

    def ask(self, kind: type[Question], **asked: Any) -> Answers:
        """The peers' answers to a question; waits for all of them, or until the time is over."""
        wanted = asyncio.run_coroutine_threadsafe(self._ask(kind, asked), self._loop)
        try:
            return wanted.result(self.settings.timeout + GRACE_S)
        except TimeoutError:
            wanted.cancel()
            return {}

    async def _ask(self, kind: type[Question], asked: dict[str, Any]) -> Answers:
        if self.error is not None:  # nobody would be heard
            return {}
        timeout = self.settings.timeout
        question = kind(
            id=secrets.token_hex(8), sender=self.settings.name, until=time.time() + timeout, **asked
        )
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
                self._misses[peer][kind] += 1
        return dict(waiting.answers)

    def _awaited(self, waiting: Waiting) -> bool:
        """Whether somebody may still answer who is worth waiting for."""
        kind = type(waiting.question)
        return any(self._misses[peer][kind] < PATIENCE for peer in self.peers if peer not in waiting.answers)

    # ------------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Listen until cancelled; connect again whenever the connection is lost."""
        await self._line.listen(self._hear, lambda count: self._count("malformed", count))

    @property
    def error(self) -> str | None:
        """Why nobody can be heard; None: connected."""
        return self._line.error

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
        self._misses[said.sender][messages.subject(said)] = 0
        if isinstance(said, Question):
            await self._reply(said)
        elif isinstance(said, Answer):
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
            said = question.nothing()
            if (respond := self._respond.get(type(question))) is not None:
                try:
                    said = await asyncio.to_thread(respond, question)
                except OtherSpec:
                    self._refuse("spec", f"{question.sender} asks about features {question.spec}")
                except ValueError as error:
                    self._refuse("malformed", f"a question of {question.sender}: {error}")
                    return
            await self._send(messages.answer(question, self.settings.name, said), "answered")

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.question)
        if waiting is None:
            self._count("late")
        elif answer.spec != waiting.question.spec:
            self._refuse("spec", f"{answer.sender} answers about features {answer.spec}")
        elif not answer.fits(waiting.question):
            self._refuse("malformed", f"an answer of {answer.sender} to another question")
        else:
            waiting.answers[answer.sender] = answer
            waiting.news.set()
            self._count("heard")

    async def _send(self, message: messages.Message, outcome: str) -> bool:
        error = await self._line.send(messages.record(message))
        if error is not None:
            self._refuse("failed", f"cannot send: {error}")
            return False
        self._count(outcome)
        return True

    def _refuse(self, outcome: str, text: str) -> None:
        self._count(outcome)
        log.warning("exchange: %s", text, extra={"repeat": f"exchange {outcome}"})

    def _count(self, outcome: str, count: int = 1) -> None:
        if count:
            self._metrics.count("exchange_messages_total", count, outcome=outcome)

    def describe(self) -> str:
        """For people."""
        silent = [
            peer for peer, misses in self._misses.items()
            if misses and min(misses.values()) >= PATIENCE
        ]  # fmt: skip
        state = self.error or (f"connected; nothing heard of {', '.join(silent)}" if silent else "connected")
        return f"{self.settings.name} with {', '.join(self.peers)}: {state}"
