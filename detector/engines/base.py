"""What an engine is: preprocessed values in, statistics per node out, and what its windows hold.

An engine is one class and one line in `ENGINES`, or comes from another installed package by an entry point of
the group ``detector.engines``; its name is then a value of `estimator.name`. The promises are tried on all
of them in tests/contracts/test_engines.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from detector.engines.calibration_report import CalibrationReport, Choice
from detector.settings.core import Settings
from detector.settings.registries import ENGINES
from detector.stateful import Stateful
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.types import Floats, Nodes
from estimators.streaming.membership import Membership

if TYPE_CHECKING:
    from detector.engines.density_ratio.boundary import Boundary

Progress = Callable[[str, float], None]  # what is being done, and the share that is done


class EngineUnavailable(Exception):
    """What computes the engine cannot be reached, or not as it is configured; later it may be."""


class Common(Protocol):
    """How nodes changed together, by their own windows."""

    def membership(self, nodes: Nodes, since: float, seeds: NDArray[np.bool_]) -> Membership:
        """How likely each of ``nodes`` changed at ``since`` as ``seeds`` did; NaN: windows cannot tell."""

    def log_ratios(self, nodes: Nodes, since: float) -> dict[int, Floats]:
        """`Engine.log_ratio` of nodes that changed together at ``since``, without those that cannot tell."""

    def returned(self, nodes: Nodes, since: Floats, latest: int) -> NDArray[np.bool_]:
        """Whether the ``latest`` values of each node, changed ``since`` then, are as they were before."""

    def between(self, nodes: Nodes, first: float, second: float) -> tuple[float, float] | None:
        """Where ``nodes`` were between two times: 0 as before, 1 as since the second; and its error."""


@dataclass(frozen=True)
class Shared:
    """What boxes that watch parts of one network have in common, and what they tell each other."""

    boundary: Boundary  # parameters and scores of the nodes at cuts
    features: Nystroem  # of which parameters are weights
    choice: Choice


class Engine(Stateful, Protocol):
    """`slide` layers of new values, then `finish` the tick; arrays are over the N nodes, NaN is undecided."""

    @classmethod
    def empty(cls, graph: Graph, dim: int, settings: Settings) -> Self:
        """An engine that has learnt nothing, for values of ``dim`` components; `restore` makes it useful."""

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
        """An engine with empty windows and its thresholds, learnt from a history without changes.

        ``Z`` (T, N, d) is preprocessed, NaN where a node had no sample; ``step`` is the time between rows.
        ``levels`` (T, N, d') are the plain levels, None where Z is just that.
        """

    def fresh(self) -> Engine:
        """All that was learnt, with empty windows."""

    # ------------------------------------------------------------------------------------- the stream

    def slide(self, nodes: Nodes, z: Floats, times: Floats | None = None) -> None:
        """One new value (k, d) for each of the distinct ``nodes`` (k,)."""

    def levels(self, nodes: Nodes, x: Floats) -> None:
        """Plain levels (k, d') of the samples of ``nodes``: scaled, neither differenced nor whitened."""

    def finish(self) -> None:
        """The tick ends: bring the statistics up to date."""

    def restart(self, nodes: Nodes) -> None:
        """The windows of ``nodes`` start anew."""

    def silence(self, silent: NDArray[np.bool_]) -> None:
        """Which nodes (N,) send nothing at present."""

    def hold(self, nodes: list[int]) -> None:
        """The references of ``nodes`` stay as they are: an incident is open there."""

    def release(self, nodes: list[int]) -> None:
        """They follow the stream again."""

    def rebaseline(self, v: int, keep: int) -> None:
        """What node v does now is normal: its reference begins anew with its latest ``keep`` values."""

    def forget(self, v: int, keep: int) -> None:
        """What node v did before its latest ``keep`` values is no part of "now" any more."""

    def refill(self, v: int, reference: NDArray[np.float32]) -> None:
        """The windows of node v start anew, with ``reference`` (n, d) for "before"."""

    # ------------------------------------------------------------------------------------- statistics

    @property
    def node(self) -> Floats:
        """(N,) how much each node has changed, by itself; compared with the report's threshold."""

    @property
    def event(self) -> Floats:
        """(N,) pooled around each node; compared with the report's event threshold."""

    @property
    def inside(self) -> Floats:
        """(N,) as ``node``, next to an open incident."""

    @property
    def scores(self) -> Floats:
        """(N, S) per test window."""

    @property
    def standard_scores(self) -> Floats:
        """(N, S) scores less their null mean, in null spreads; plain scores where no null is known."""

    @property
    def residual(self) -> float:
        """Of the solver; 0 where nothing is solved."""

    @property
    def atoms(self) -> int:
        """Size of the dictionary; 0 without one."""

    # -------------------------------------------------------------------------- evidence about node v

    def reference(self, v: int) -> NDArray[np.float32]:
        """(n, d) the values that stand for "before", in time order."""

    def recent(self, v: int) -> NDArray[np.float32]:
        """(m, d) the values of the longest test window, in time order."""

    def times(self, v: int) -> Floats:
        """(m,) of the recent values."""

    def time_of_latest(self, nodes: NDArray[np.intp], k: int) -> Floats:
        """When the k-th latest value of each node came; NaN where fewer are in the window."""

    def log_ratio(self, v: int) -> Floats:
        """(m,) what each recent value says for "after" against "before"."""

    def ratio(self, v: int, x: Floats) -> Floats | None:
        """(k,) the estimated ratio of the densities after and before at ``x`` (k, d); None: not estimated."""

    @property
    def common(self) -> Common | None:
        """How nodes changed together; None: each is judged by itself, by its threshold."""

    @property
    def shared(self) -> Shared | None:
        """What other boxes are told; None: no node reads another one, and there is nothing to tell."""

    def coverage(self, nodes: Nodes) -> Floats | None:
        """(k,) how much the newest value of each has in common with what was learnt; None: not known."""


def engine_class(name: str) -> type[Engine]:
    """The class behind a value of `estimator.name`; its module is imported now."""
    found: Any = ENGINES.load(name)
    lacking = [member for member in _members() if not hasattr(found, member)]
    if lacking:
        raise ENGINES.refusal(name, f"lacks {', '.join(lacking)}: see detector.engines.base.Engine")
    made: type[Engine] = found
    return made


def _members() -> list[str]:
    """Methods that the class itself must have; properties may be made with an instance."""
    kinds = (Engine, Stateful)
    return [
        name
        for kind in kinds
        for name, member in vars(kind).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, classmethod))
    ]
