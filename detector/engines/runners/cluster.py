"""Shards as actors of a Ray cluster, on this machine or on many; they and their machines may die.

What a shard is rests on three things: a snapshot in a folder that all machines read, the turns since then,
which are kept here, and that a turn may be repeated. An actor that dies is started anew by Ray, elsewhere if
need be, loads its snapshot, takes the turns again, and is what it was; one that does not answer is killed.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from connectors.base import install_line
from detector.engines.base import EngineUnavailable
from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.engines.runners.shard import Answer, OutOfTurn, Shard, Turn
from detector.engines.runners.sharded import ShardedEngine
from detector.engines.runners.snapshots import RunFolder, Snapshot
from detector.settings.core import Settings
from detector.settings.estimator import EngineSettings
from estimators.core.graph import Graph

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that and how it is used
try:
    import ray
    from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError, RayTaskError

    from detector.engines.runners.actor import VERSIONS, Actor
except ImportError:
    raise EngineUnavailable(f"engine.type: ray is not installed: run  {install_line('ray')}") from None

log = logging.getLogger(__name__)

EVERY = 250  # turns after which a snapshot is due; to write one takes as long as some 16 of them
BATCH = 10  # turns repeated within a deadline
SHARE = 20.0  # and as many times as long as the latest one took
MOST = 1 << 30  # bytes of turns kept of all shards, beyond which it is due at once
PATIENCE = 6.0  # deadlines within which a shard must be back
AGAIN = 0.1  # seconds between two attempts
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
MINUTE = 60

Wait = Callable[[Any], Any]  # what a reference gives, if it comes in time
Again = Callable[["Member", Wait], Any]  # what a shard answers from its snapshot on


@dataclass(eq=False)
class Member:
    """One shard, as the coordinator knows it."""

    actor: Any
    snapshot: Snapshot
    turns: list[Turn] = field(default_factory=list)  # since the snapshot


class Cluster:
    """Holds shards in a Ray cluster: that at `engine.address`, or one on this machine."""

    def __init__(self, settings: EngineSettings) -> None:
        self.deadline = settings.deadline
        self.folder = RunFolder(None if settings.storage is None else Path(settings.storage))
        self.members: list[Member] = []
        self.recovered = 0  # how many shards were started anew
        self._number, self._next = 0, 0.0
        self._connect(settings)

    @classmethod
    def start(cls, engine: DensityRatioEngine, graph: Graph, settings: Settings) -> ShardedEngine:
        """The parts of ``engine`` among as many actors as `engine.workers` says; auto: one per free CPU."""
        cluster = cls(settings.engine)
        workers = settings.engine.workers
        most = max(int(ray.available_resources().get("CPU", 1)), 1) if workers == "auto" else workers
        return ShardedEngine(engine, graph, cluster, most)

    def _connect(self, settings: EngineSettings) -> None:
        if ray.is_initialized():
            return
        # A process that misses its head for this long is ended by Ray: we want to say first what is wrong.
        os.environ.setdefault(RECONNECT, str(MINUTE + int(PATIENCE * settings.deadline)))
        logging.getLogger("ray").setLevel(logging.ERROR)  # what it warns of is told here, in a sentence
        local: dict[str, Any] = {}
        if settings.address is None:
            cpus = None if settings.workers == "auto" else settings.workers
            folder = tempfile.mkdtemp(prefix="detector-ray-")  # of its logs and sockets, as long as we live
            atexit.register(_end, folder)
            local = {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}
        try:
            ray.init(
                address=settings.address or "local",
                log_to_driver=False,
                logging_level=logging.WARNING,
                configure_logging=False,
                **local,
            )
        except (RayError, OSError, RuntimeError, ValueError) as error:
            where = settings.address or "this machine"
            raise EngineUnavailable(f"engine.address: no Ray cluster at {where}: {error}") from None

    # ------------------------------------------------------------------------------------------ holders

    def begin(self, shards: Iterable[Shard]) -> None:
        self.close()
        for k, shard in enumerate(shards):
            self.members.append(Member(self._actor(), Snapshot.write(shard, self.folder.place(k, 0))))
        refs = [member.actor.load.remote(member.snapshot, VERSIONS) for member in self.members]
        _, pending = ray.wait(refs, num_returns=len(refs), timeout=PATIENCE * self.deadline)
        if pending:
            free = ray.cluster_resources().get("CPU", 0)
            raise EngineUnavailable(
                f"engine.workers: {len(self.members)} actors want a CPU each, the cluster has {free:g}"
            )
        self._all(self.members, refs, self._repeated)

    def _actor(self) -> Any:
        options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        return ray.remote(**options)(Actor).remote()

    def turn(self, turns: Sequence[Turn]) -> list[Answer]:
        for member, turn in zip(self.members, turns, strict=True):
            member.turns.append(turn)
        self._number = turns[0].number
        refs = [m.actor.turn.remote(turn) for m, turn in zip(self.members, turns, strict=True)]
        answers = self._all(self.members, refs, self._repeated)
        self._save_if_due()
        return answers

    def ask(self, name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        members = [self.members[k] for k in given]

        def asked(member: Member) -> Any:
            return member.actor.ask.remote(self._number, name, given[self.members.index(member)])

        def again(member: Member, wait: Wait) -> Any:
            self._repeated(member, wait)
            return wait(asked(member))

        return dict(zip(given, self._all(members, [asked(m) for m in members], again), strict=True))

    def processes(self) -> list[tuple[str, int]]:
        """Where each shard is: the machine's id in the cluster, and the process there."""
        refs = [member.actor.process.remote() for member in self.members]
        found: list[tuple[str, int]] = ray.get(refs, timeout=PATIENCE * self.deadline)
        return found

    def close(self) -> None:
        """Let all shards go."""
        for member in self.members:
            ray.kill(member.actor)
        self.members = []

    # ----------------------------------------------------------------------------------------- failures

    def _all(self, members: Sequence[Member], refs: Sequence[Any], again: Again) -> list[Any]:
        """What ``refs`` give; of members that fail, what ``again`` gives once they are back: side by side.

        EngineUnavailable if they are not back within `PATIENCE` deadlines in all.
        """
        end = time.monotonic() + PATIENCE * self.deadline
        ray.wait(list(refs), num_returns=len(refs), timeout=self.deadline)
        found: list[Any] = [None] * len(refs)
        failed: dict[int, RayError] = {}
        for k, ref in enumerate(refs):
            try:
                found[k] = ray.get(ref, timeout=0.0)
            except RayError as error:
                failed[k] = error
        for k, what in failed.items():
            log.warning("shard %d: %s; it is started anew", self.members.index(members[k]), _short(what))
        back = {k: _aside(self._back, members[k], what, again, end) for k, what in failed.items()}
        for k, future in back.items():
            try:
                found[k] = future.result(max(end - time.monotonic(), 0.0))
            except TimeoutError:
                raise _not_back(failed[k]) from None
        self.recovered += len(failed)
        return found

    def _repeated(self, member: Member, wait: Wait) -> Answer | None:
        """``member`` from its snapshot on; the answer to its last turn. A few at a time: it lives."""
        wait(member.actor.load.remote(member.snapshot, VERSIONS))
        answer: Answer | None = None
        for first in range(0, len(member.turns), BATCH):
            answer = wait(member.actor.take.remote(member.turns[first : first + BATCH]))
        return answer

    def _back(self, member: Member, error: RayError, again: Again, end: float) -> Any:
        """What ``again`` gives, once the shard is what it was; EngineUnavailable if it is not by ``end``."""
        k, began, first, timeout = self.members.index(member), time.monotonic(), error, self.deadline

        def wait(ref: Any) -> Any:
            return ray.get(ref, timeout=max(min(timeout, end - time.monotonic()), 0.0))

        while True:
            if isinstance(error, RayTaskError) and not isinstance(error.cause, OutOfTurn):
                raise error.cause  # it lives, and says what is wrong
            if time.monotonic() >= end:
                raise _not_back(error)
            if isinstance(error, GetTimeoutError):
                timeout *= 2.0  # to start takes longer than to answer
            if isinstance(error, GetTimeoutError) or (
                isinstance(error, ActorDiedError) and error is not first  # for good
            ):
                ray.kill(member.actor)
                member.actor = self._actor()
            try:
                answer = again(member, wait)
                break
            except RayError as latest:
                error = latest
                time.sleep(AGAIN)
        log.warning(
            "shard %d: back after %.1f s, %d turns repeated", k, time.monotonic() - began, len(member.turns)
        )
        return answer

    # ---------------------------------------------------------------------------------------- snapshots

    def _save_if_due(self) -> None:
        kept = len(self.members[0].turns)
        due = kept >= EVERY and time.monotonic() >= self._next
        if kept % 10 or not (due or sum(t.size for m in self.members for t in m.turns) > MOST):
            return
        began = time.monotonic()
        refs = [m.actor.save.remote(self.folder.place(k, self._number)) for k, m in enumerate(self.members)]
        ray.wait(refs, num_returns=len(refs), timeout=self.deadline)
        for k, (member, ref) in enumerate(zip(self.members, refs, strict=True)):
            try:
                made: Snapshot = ray.get(ref, timeout=0.0)
            except RayActorError:
                continue  # the next turn finds out; what there was is kept
            except GetTimeoutError:
                log.warning("shard %d: no snapshot within %g s", k, self.deadline)
                continue
            except RayTaskError as error:
                log.warning("shard %d: no snapshot: %s", k, _short(error.cause))
                continue
            old, member.snapshot, member.turns = member.snapshot, made, []
            Path(old.path).unlink(missing_ok=True)
        self._next = time.monotonic() + SHARE * (time.monotonic() - began)


def _end(folder: str) -> None:
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def _aside(work: Callable[..., Any], *given: Any) -> Future[Any]:
    """By a thread that nobody has to wait for: Ray itself may wait for its head, whatever the timeout is."""
    future: Future[Any] = Future()

    def done() -> None:
        try:
            future.set_result(work(*given))
        except Exception as error:
            future.set_exception(error)

    Thread(target=done, name="recovery", daemon=True).start()
    return future


def _not_back(error: RayError) -> EngineUnavailable:
    return EngineUnavailable(f"a shard did not come back: {_short(error)}")


def _short(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
