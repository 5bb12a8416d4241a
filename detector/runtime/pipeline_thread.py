"""The pipeline and the one thread that touches it: batches, commands and looks inside take their turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.base import Expected, Sample
from detector.edge.messages import Refused, Told
from detector.events.model import Event
from detector.incidents.case import Case
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.pipeline.signal_capture import Block
from detector.pipeline.status_view import StatusView
from detector.runtime.discarded import ON_ARRIVAL, Discarded, attribute
from detector.runtime.ingest_queue import Arrival
from detector.settings.core import Settings
from detector.storage.journal import Entry, command_entry, decode_command, decode_samples, samples_entry
from detector.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from detector.config.config import Config

COMMANDS = ("accept", "clear", "label")  # of operators
MOST_TOLD = 64  # messages to other boxes of one turn: after a backlog they need the latest only

Result = TypeVar("Result")


class Interrupted(Exception):
    """Raised inside a long calculation because the process is to stop."""


@dataclass(frozen=True)
class Plan:
    """What a pipeline is made from."""

    network: Network | None
    dim: int
    settings: Settings
    names: list[str] | None = None
    components: list[str] | None = None

    @classmethod
    def of(cls, config: Config) -> Plan:
        """ConfigError if a file that it names cannot be used."""
        return cls(config.network(), config.dim, config.settings(), config.names(), config.components)

    @property
    def expected(self) -> Expected:
        """What the nodes are called, for sources of tables."""
        names = self.network.names if self.network is not None else self.names
        return Expected(names, self.dim, self.components)

    def fresh(self) -> Pipeline:
        return Pipeline(self.network, self.dim, self.settings, names=self.names, components=self.components)

    def restored(self, snapshot: Snapshot) -> Pipeline:
        """ValueError if the state was made for something else."""
        return Pipeline.from_state(
            self.network, self.dim, self.settings, dict(snapshot.arrays), dict(snapshot.meta),
            names=self.names, components=self.components,
        )  # fmt: skip


@dataclass
class Outcome:
    """What came of one turn."""

    entries: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    seconds: float = 0.0
    done: int = 0  # arrivals worked on; fewer than given if interrupted
    discarded: Discarded = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)  # for other boxes
    heard: list[tuple[str, str]] = field(default_factory=list)  # of each message of theirs: outcome, and why
    snapshot: Snapshot | None = None  # as large as the state: nobody may keep it beyond its commit


class PipelineThread:
    """All methods that touch the pipeline run in its thread, one after the other."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.beat = time.monotonic()  # when the thread last showed progress
        self.stage: tuple[str, float] | None = None  # of a long calculation under way
        self.stopping = False
        self.interrupted = False  # in the middle of a batch: the pipeline is not to be used or saved
        self.view: StatusView
        self._pipeline: Pipeline
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pipeline")

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def alive(self, timeout: float) -> bool:
        """Whether the thread answers, or shows progress in what it is doing."""
        asked = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self.run(self._beat)
        except (TimeoutError, RuntimeError):
            return self.beat >= asked
        return True

    def newest(self) -> float | None:
        """The newest time that the pipeline believes, when it was last looked at."""
        watermark = self.view.watermark
        return None if watermark is None else watermark + self.plan.settings.align.seconds("lateness")

    def _beat(self) -> None:
        self.beat = time.monotonic()

    def _progress(self, stage: str, share: float) -> None:
        self.stage = (stage, share)
        self._beat()
        if self.stopping:
            raise Interrupted(stage)

    def _adopt(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        pipeline.progress = self._progress
        pipeline.blocks = pipeline.blocks or []
        self._look()

    def _look(self) -> None:
        self.view = StatusView.of(self._pipeline)

    def shutdown(self) -> None:
        self.stopping = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------- in the thread, by `run`

    def start(self, snapshot: Snapshot | None, journal: Iterator[Entry]) -> tuple[list[Event], int]:
        """Build the pipeline and repeat what the journal tells: its events, and the samples repeated."""
        self._adopt(self.plan.fresh() if snapshot is None else self.plan.restored(snapshot))
        events: list[Event] = []
        count = 0
        for entry in journal:
            events += self._repeat(entry)
            count += entry.count
            self._beat()
            if self.stopping:
                raise Interrupted("replay of the journal")
        self._pipeline.cases, self._pipeline.blocks = [], []  # those of the journal were stored with it
        self._pipeline.told = deque(maxlen=MOST_TOLD)
        self._look()
        return events, count

    def _repeat(self, entry: Entry) -> list[Event]:
        if entry.kind == "samples":
            return self._pipeline.push(decode_samples(entry.body))
        if entry.kind == "command":
            return self._command(*decode_command(entry.body))
        if entry.kind == "flush":
            return self._pipeline.flush()
        if entry.kind == "boundary":
            with suppress(Refused):
                self._pipeline.hear(entry.body)
            return []
        self._pipeline.state()
        return []

    def work(self, arrivals: list[Arrival], heard: Sequence[bytes] = ()) -> Outcome:
        """Push batches; neighbours from one source are one push and one entry of the journal.

        ``heard``: what other boxes have told since the last turn.
        """
        outcome = Outcome()
        begun = time.monotonic()
        for body in heard:
            self._hear(body, outcome)
        at = 0
        while at < len(arrivals):
            first, samples, end = arrivals[at], arrivals[at].batch.samples, at + 1
            while end < len(arrivals) and arrivals[end].source == first.source:
                samples = samples + arrivals[end].batch.samples
                end += 1
            try:
                outcome.events += self._push(samples, arrivals[at:end], outcome.discarded)
            except Interrupted:
                self.interrupted = True
                break
            outcome.entries += _entries(samples, arrivals[at:end])
            at = outcome.done = end
            self.stage = None
            self._beat()
        outcome.cases, outcome.blocks = self._cases(), self._blocks()
        if self._pipeline.told:
            outcome.told = list(self._pipeline.told)
            self._pipeline.told.clear()
        outcome.seconds = time.monotonic() - begun
        if outcome.done:
            self._look()
        return outcome

    def _hear(self, body: bytes, outcome: Outcome) -> None:
        try:
            sender = self._pipeline.hear(body)
        except Refused as refused:
            outcome.heard.append((refused.outcome, str(refused)))
        else:
            outcome.heard.append(("heard", sender))
            outcome.entries.append(Entry("boundary", body))

    def _push(self, samples: list[Sample], arrivals: list[Arrival], into: Discarded) -> list[Event]:
        """Through the pipeline, and to whom those belong that it did not take when they came."""
        before = dict(self._pipeline.aligner.counts)
        events = self._pipeline.push(samples)
        after = self._pipeline.aligner.counts
        if any(after[reason] > before[reason] for reason in ON_ARRIVAL):
            attribute(samples, arrivals, self._pipeline.aligner, into)
        return events

    def command(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """An operator's command at the stream's own time; IncidentError if it makes no sense."""
        now = self._pipeline.watermark
        arguments = {**arguments, "time": time.time() if now is None else now}
        events = self._command(name, arguments)
        self._look()
        return Outcome([command_entry(name, arguments)], events, self._cases(), self._blocks())

    def set_back(self, to: float) -> Outcome:
        """The clock of the samples was set back to that time; nothing, if some were on time meanwhile."""
        return Outcome() if self._pipeline.behind is None else self.command("set_back", {"to": to})

    def _command(self, name: str, arguments: Mapping[str, Any]) -> list[Event]:
        if name not in (*COMMANDS, "set_back"):
            raise ValueError(f"unknown command {name!r}")
        act: Callable[..., list[Event]] = getattr(self._pipeline, name)
        return act(**arguments)

    def flush(self) -> Outcome:
        """The stream has ended."""
        events = self._pipeline.flush()
        self._look()
        return Outcome([Entry("flush")], events, self._cases(), self._blocks())

    def _cases(self) -> list[Case]:
        """Take away the case files that the pipeline has put down."""
        found, self._pipeline.cases = self._pipeline.cases or [], []
        return found

    def _blocks(self) -> list[Block]:
        """The same for signals."""
        found, self._pipeline.blocks = self._pipeline.blocks or [], []
        return found

    def snapshot(self) -> Outcome:
        """The whole state; the pipeline factorises its blocks for it, and the journal says so."""
        arrays, meta = self._pipeline.state()
        self._beat()
        return Outcome([Entry("rebuild")], snapshot=Snapshot(arrays, meta, created=time.time()))

    def rebuild(self, plan: Plan) -> None:
        """Go on with another network or other settings; on ValueError everything stays as it was."""
        arrays, meta = self._pipeline.state()
        changed = plan.restored(Snapshot(arrays, meta))
        self.plan = plan
        changed.cases, changed.blocks = self._cases(), self._blocks()
        changed.told = deque(maxlen=MOST_TOLD)
        self._adopt(changed)

    def node_view(self, name: str) -> dict[str, Any]:
        view: dict[str, Any] = self._pipeline.node_view(name)
        return view

    def signals(self, names: Sequence[str]) -> list[Block]:
        """The signals of these nodes that are not stored yet."""
        index = self._pipeline.network.node_index.index
        return self._pipeline.signals.under_way([index[name] for name in names if name in index])

    def ask(self, question: Callable[[Pipeline], Result]) -> Result:
        """A look inside."""
        return question(self._pipeline)


def _entries(samples: list[Sample], arrivals: list[Arrival]) -> list[Entry]:
    """Of one push: its samples with the position of their source; those of several follow by themselves."""
    first = arrivals[0]
    if first.source is not None:
        return [samples_entry(first.source, samples, arrivals[-1].position)]
    positions = {name: place for one in arrivals for name, place in one.positions.items()}
    return [samples_entry(None, samples, None)] + [
        samples_entry(name, [], place) for name, place in positions.items()
    ]
