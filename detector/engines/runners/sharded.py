"""An engine whose parts are held by shards elsewhere: the same interface, the same bits.

Calls are collected until a tick ends or something is asked, and go to the shards as one turn. Each answers
with its statistics and with the boxes that others hear in the next turn: one exchange per tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from detector.engines.base import Engine, Progress
from detector.engines.calibration_report import CalibrationReport
from detector.engines.density_ratio.common_change import CommonChange
from detector.engines.density_ratio.engine import DensityRatioEngine, links
from detector.engines.runners.shard import Answer, Shard, Turn, of_all
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, Rows
from estimators.core.graph import Graph
from estimators.core.partition import Cut
from estimators.core.types import Floats, Nodes
from estimators.streaming.membership import Windows

# Of the arrays of a state: those that are the same everywhere, and those whose second axis is over nodes.
_COMMON = ("atoms", "widths", "projection", "known", "null.skew")
_COMMON_ENDS = (".weight", "tails.unit")
_SECOND = ("null.mean", "null.spread", *(f"joint.null{k}.{x}" for k in range(2) for x in ("middle", "unit")))


class Holders(Protocol):
    """Where the shards are."""

    def begin(self, shards: Iterable[Shard]) -> None:
        """Hold these from now on, in this order; they are made one by one."""

    def turn(self, turns: Sequence[Turn]) -> list[Answer]:
        """One turn of each."""

    def ask(self, name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """`Shard.ask` of some."""


class ShardedEngine:
    """The parts of ``engine`` among at most ``most`` shards, held by ``holders``."""

    def __init__(self, engine: DensityRatioEngine, graph: Graph, holders: Holders, most: int) -> None:
        self.graph, self.settings, self.holders, self.most = graph, engine.settings, holders, most
        self._begin(engine)

    def _begin(self, engine: DensityRatioEngine) -> None:
        whole = engine.cut
        if not whole.holds_all:
            raise ValueError(
                "engine.type: nodes that are watched elsewhere are heard inline or by threads only"
            )
        pieces = np.array_split(np.arange(len(whole.parts)), min(self.most, len(whole.parts)))
        labels = np.unique(whole.labels, return_inverse=True)[1].astype(np.int32)
        self.whole, self.n_parts = whole, len(whole.parts)
        self._cuts = [
            Cut.of(links(engine.graph, self.settings), labels, np.flatnonzero(np.isin(labels, some)))
            for some in pieces
        ]
        self.held = [cut.held for cut in self._cuts]
        self._shard, self._place = np.empty((2, len(labels)), np.int32)
        for k, held in enumerate(self.held):
            self._shard[held], self._place[held] = k, np.arange(len(held))
        far = [cut.nodes[cut.source < 0] for cut in self._cuts]
        read = [
            np.flatnonzero(np.isin(cut.held[cut.boundary], np.concatenate(far))).astype(np.int32)
            for cut in self._cuts
        ]
        # Boxes come in the order of the shards; who hears which is known once and for all.
        tellers = np.concatenate([c.held[c.boundary][some] for c, some in zip(self._cuts, read, strict=True)])
        order = np.argsort(tellers)
        self._heard_by = [order[np.searchsorted(tellers, nodes, sorter=order)] for nodes in far]
        self._told: NDArray[np.float32] | None = None
        self._calls: list[list[tuple[str, tuple[Any, ...]]]] = [[] for _ in self._cuts]
        self._waiting, self._number = False, 0
        self._silent = engine.bank.silent.astype(np.bool_)
        self.atoms = engine.atoms
        self._scales = len(engine.bank.lengths)
        self._statistics = np.stack([engine.node, engine.event, engine.inside])
        arrays, meta = engine.state()
        muted = np.flatnonzero(engine.statistics.muted[: len(labels)])

        def one(k: int) -> Shard:
            cut = self._cuts[k]
            made = DensityRatioEngine.of_parts(cut, self.settings, arrays, meta, cut.held.astype(np.intp))
            made.hold(self._place[muted[self._shard[muted] == k]].tolist())
            return Shard(made, read[k])

        self.holders.begin(one(k) for k in range(len(self._cuts)))
        self._turn(finish=False)

    # ------------------------------------------------------------------------------------- the stream

    def _call(self, name: str, nodes: NDArray[np.integer], *given: NDArray[Any]) -> None:
        """``name`` of the engines that hold some of ``nodes``, with their rows of what is given."""
        shards = self._shard[nodes]
        for k in np.unique(shards).tolist():
            here = shards == k
            self._calls[k].append((name, (self._place[nodes[here]], *(x[here] for x in given))))
        self._waiting = True

    def _call_one(self, name: str, v: int, *given: Any) -> None:
        self._calls[int(self._shard[v])].append((name, (int(self._place[v]), *given)))
        self._waiting = True

    def _turn(self, finish: bool) -> None:
        """Shards do what was called, and hear what others told last."""
        self._number += 1
        turns = [Turn(self._number, calls, None, finish) for calls in self._calls]
        if self._told is not None:
            for turn, places in zip(turns, self._heard_by, strict=True):
                turn.heard = self._told[places] if len(places) else None
        self._calls, self._waiting = [[] for _ in self._cuts], False
        answers = self.holders.turn(turns)
        self._told = np.concatenate([answer.told for answer in answers]) if finish else None
        for held, answer in zip(self.held, answers, strict=True):
            self._statistics[:, held] = answer.statistics

    def _settle(self) -> None:
        """What was called happens before anything is asked."""
        if self._waiting:
            self._turn(finish=False)

    def slide(self, nodes: Nodes, z: Floats, times: Floats | None = None) -> None:
        if times is None:
            self._call("slide", nodes, z)
        else:
            self._call("slide", nodes, z, times)

    def levels(self, nodes: Nodes, x: Floats) -> None:
        self._call("levels", nodes, x)

    def finish(self) -> None:
        self._turn(finish=True)

    def restart(self, nodes: Nodes) -> None:
        if len(nodes):
            self._call("restart", nodes)

    def silence(self, silent: NDArray[np.bool_]) -> None:
        if (silent != self._silent).any():
            self._silent = silent.copy()
            for calls, held in zip(self._calls, self.held, strict=True):
                calls.append(("silence", (silent[held],)))
            self._waiting = True

    def hold(self, nodes: list[int]) -> None:
        self._lists("hold", nodes)

    def release(self, nodes: list[int]) -> None:
        self._lists("release", nodes)

    def _lists(self, name: str, nodes: list[int]) -> None:
        for k in sorted(set(self._shard[nodes].tolist())):
            some = [int(self._place[v]) for v in nodes if self._shard[v] == k]
            self._calls[k].append((name, (some,)))
            self._waiting = True

    def rebaseline(self, v: int, keep: int) -> None:
        self._call_one("rebaseline", v, keep)

    def forget(self, v: int, keep: int) -> None:
        self._call_one("forget", v, keep)

    def refill(self, v: int, reference: NDArray[np.float32]) -> None:
        self._call_one("refill", v, reference)

    # ------------------------------------------------------------------------------------- statistics

    @property
    def node(self) -> Floats:
        self._settle()
        return np.asarray(self._statistics[0])

    @property
    def event(self) -> Floats:
        self._settle()
        return np.asarray(self._statistics[1])

    @property
    def inside(self) -> Floats:
        self._settle()
        return np.asarray(self._statistics[2])

    @property
    def scores(self) -> Floats:
        return self._all("scores")

    @property
    def standard_scores(self) -> Floats:
        return self._all("standard_scores")

    @property
    def residual(self) -> float:
        """The largest of all shards."""
        found = [x for x in self._ask("residual", self._everyone()).values() if np.isfinite(x)]
        return max(found, default=float("nan"))

    def _everyone(self) -> dict[int, tuple[Any, ...]]:
        return dict.fromkeys(range(len(self._cuts)), ())

    def _ask(self, name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        self._settle()
        return self.holders.ask(name, given)

    def _all(self, name: str) -> NDArray[Any]:
        found = self._ask(name, self._everyone())
        return of_all(self.held, [found[k] for k in range(len(self._cuts))])

    def _some(
        self, name: str, nodes: NDArray[np.integer], rows: Sequence[NDArray[Any]], *given: Any
    ) -> list[Any]:
        """Pairs of which of ``nodes`` a shard holds, and what it says of them."""
        shards = self._shard[nodes]
        here = {k: np.flatnonzero(shards == k) for k in np.unique(shards).tolist()}
        asked = {k: (self._place[nodes[at]], *(x[at] for x in rows), *given) for k, at in here.items()}
        found = self._ask(name, asked)
        return [(here[k], found[k]) for k in here]

    def _rows(
        self, name: str, nodes: NDArray[np.integer], rows: Sequence[NDArray[Any]], *given: Any
    ) -> NDArray[Any]:
        found = self._some(name, nodes, rows, *given)
        return of_all([at for at, _ in found], [x for _, x in found])

    # -------------------------------------------------------------------------- evidence about node v

    def _one(self, name: str, v: int, *given: Any) -> Any:
        k = int(self._shard[v])
        return self._ask(name, {k: (int(self._place[v]), *given)})[k]

    def reference(self, v: int) -> NDArray[np.float32]:
        return np.asarray(self._one("reference", v))

    def recent(self, v: int) -> NDArray[np.float32]:
        return np.asarray(self._one("recent", v))

    def times(self, v: int) -> Floats:
        return np.asarray(self._one("times", v))

    def log_ratio(self, v: int) -> Floats:
        return np.asarray(self._one("log_ratio", v))

    def ratio(self, v: int, x: Floats) -> Floats | None:
        return np.asarray(self._one("ratio", v, x))

    def time_of_latest(self, nodes: NDArray[np.intp], k: int) -> Floats:
        return self._rows("time_of_latest", nodes, (), k) if len(nodes) else np.zeros(0)

    def coverage(self, nodes: Nodes) -> Floats | None:
        found = self._some("coverage", nodes, ())
        if not found or found[0][1] is None:
            return None
        return of_all([at for at, _ in found], [x for _, x in found])

    @property
    def shared(self) -> None:
        """Parts of one process are not shared with other boxes as well."""
        return None

    @property
    def common(self) -> CommonChange:
        return CommonChange(self.graph, self, self.count_since)

    def count_since(self, nodes: Nodes, times: Floats) -> NDArray[np.intp]:
        return self._rows("count_since", nodes, (times,)) if len(nodes) else np.zeros(0, np.intp)

    def able(self, nodes: Nodes) -> NDArray[np.bool_]:
        return self._rows("bank.able", nodes, ()) if len(nodes) else np.zeros(0, np.bool_)

    def since(self, nodes: Nodes, counts: NDArray[np.intp], skip: int = 0) -> Windows:
        found = self._some("bank.since", nodes, (counts,), skip)
        places = [at for at, _ in found]
        return Windows(
            *(of_all(places, [getattr(x, name) for _, x in found]) for name in ("before", "after", "count"))
        )

    def features_of(self, v: int) -> Floats:
        return np.asarray(self._one("bank.features_of", v))

    # ------------------------------------------------------------------------------------------- state

    def state(self) -> tuple[Arrays, Meta]:
        """That of the engine in one process: a state may go on either way."""
        for calls in self._calls:
            calls.append(("state", ()))  # blocks are factorised, which is part of the course of things
        self._turn(finish=False)
        found = self._ask("state", self._everyone())
        states = [found[k][0] for k in range(len(self._cuts))]
        own = [name for name in states[0] if name != "parts" and not name.startswith("boundary.")]
        made = {name: self._joined(name, [state[name] for state in states]) for name in own}
        if self.n_parts > 1:
            made["parts"] = self.whole.labels.copy()
        if len(nodes := self.whole.nodes):
            made["boundary.nodes"] = nodes.copy()
            hearing = [state for state in states if "boundary.nodes" in state]
            for name in ("boundary.used", "boundary.heard"):
                made[name] = np.empty((len(nodes), hearing[0][name].shape[1]), np.float32)
                for state in hearing:
                    made[name][np.searchsorted(nodes, state["boundary.nodes"])] = state[name]
        return made, found[0][1]

    def _joined(self, name: str, some: list[NDArray[Any]]) -> NDArray[Any]:
        if name in _COMMON or name.endswith(_COMMON_ENDS):
            return some[0]
        return of_all(self.held, some, int(name in _SECOND))

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        whole = DensityRatioEngine.empty(self.graph, arrays["atoms"].shape[1], self.settings)
        whole.restore(arrays, meta, rows)
        self._begin(whole)

    def fresh(self) -> DensityRatioEngine:
        """In this process, for whoever plays a history."""
        arrays, meta = self.state()
        whole = DensityRatioEngine.empty(self.graph, arrays["atoms"].shape[1], self.settings)
        whole.restore(arrays, meta, np.arange(self.graph.n_nodes, dtype=np.intp))
        return whole.fresh()

    @classmethod
    def empty(cls, graph: Graph, dim: int, settings: Settings) -> Self:
        raise NotImplementedError("an engine is learnt or restored in one process, and then shared out")

    @classmethod
    def calibrate(
        cls,
        Z: Floats,
        graph: Graph,
        settings: Settings,
        step: float,
        progress: Progress | None = None,
        levels: Floats | None = None,
    ) -> tuple[Self, CalibrationReport]:
        raise NotImplementedError("an engine is learnt or restored in one process, and then shared out")


if TYPE_CHECKING:
    _checked: type[Engine] = ShardedEngine
