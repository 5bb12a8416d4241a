"""What a preprocessing step is: a layer of values in, layers of values out, learnt from a history.

A step is one class and one line in `STEPS`, whose order is that of the steps; other installed packages bring
more by entry points of the group ``detector.steps``. The promises are tried on all of them in
tests/contracts/test_steps.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from detector.alignment.samples import Columns
from detector.preprocessing.blocks import Blocks
from detector.preprocessing.lag_buffer import LagBuffer
from detector.settings.base import Group
from detector.settings.preprocessing import PreprocessSettings
from detector.settings.registries import STEPS
from detector.stateful import Arrays, Meta, Rows, Stateful, copies, part, take_rows, under
from estimators.core.graph import Graph
from estimators.core.types import Floats, Nodes


class Shape(NamedTuple):
    """What a step works on."""

    n_nodes: int
    dim: int  # components of the values that come in
    window: int  # samples of the longest test window


class Step(Stateful, Protocol):
    """Derive from it: what is not defined does nothing. Arrays are over the N nodes.

    `fit` and `transform` see a history in blocks of nodes, `apply` the stream: a layer has at most one value
    of each node. Both must do the same to a value.
    """

    name: ClassVar[str]
    after: ClassVar[str | None] = "clip"  # where a step of another package goes; None: before all others
    Config: ClassVar[type[Group]] = Group  # keys of a step of another package, below `preprocess.steps`
    cleans: ClassVar[bool] = False  # it drops readings: a history that was cleaned does not meet it again
    keeps_level: ClassVar[bool] = False  # what goes out is a level still, in other units
    learnt_arrays: ClassVar[tuple[str, ...]] = ()  # attributes (N, ...) that `fit` finds
    stream_arrays: ClassVar[tuple[str, ...]] = ()  # attributes (N, ...) that the stream moves
    lags: LagBuffer | None
    chosen: str  # by `fit`, in words, with the reason; empty where nothing was left to it
    settings: PreprocessSettings
    shape: Shape

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        self.settings, self.shape, self.lags, self.chosen = settings, shape, None, ""

    @property
    def own(self) -> Any:
        """The keys that a step of another package was given, as its `Config`."""
        return self.Config.model_validate(self.settings.steps.get(self.name, {}))

    @property
    def active(self) -> bool:
        """Whether anything is done to values, by the settings and what was learnt."""
        return True

    @property
    def plain(self) -> bool:
        """Whether values are at most shifted, scaled, cut or dropped: each then has a way back."""
        return False

    @property
    def dim_out(self) -> int:
        """Components of the values that go out."""
        return self.shape.dim

    def fit(self, blocks: Blocks, like: Self | None = None) -> None:
        """Learn; for nodes that come later, ``like`` is the step of the others, whose choices hold."""

    def settle(self) -> None:
        """The learning period is over: what was kept for judging it is dropped."""

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        """A block of the history (T, n, d) at times (T, n), NaN = missing; rows may be lost at the begin."""
        return values

    def apply(self, layer: Columns) -> list[Columns]:
        """What goes on to the next step after ``layer``, in order; finite values of distinct nodes."""
        return [layer]

    def restart(self, nodes: Nodes) -> None:
        """Forget what came before, as after a gap."""
        if self.lags is not None:
            self.lags.restart(nodes)

    def fresh(self) -> Self:
        """What was learnt, at the begin of another stream."""
        made = copy.copy(self)
        for name in self.stream_arrays:
            setattr(made, name, getattr(type(self)(self.settings, self.shape), name))
        if self.lags is not None:
            made.lags = self.lags.fresh()
        return made

    def adopt(self, nodes: Nodes, other: Self) -> None:
        """What ``other`` has learnt about its nodes is of ``nodes`` here."""
        for name in self.learnt_arrays:
            getattr(self, name)[nodes] = getattr(other, name)

    def link(self, graph: Graph) -> None:
        """The links of the network, when they are known."""

    def to_units(self, centre: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Original value = centre + scale × value, for what comes in: the same (N, d') for what goes out.

        A scale is NaN where no lasting change of the original value moves what goes out.
        """
        return centre, scale

    def components(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the components that go out."""
        return names

    def describe(self, v: int) -> dict[str, Any]:
        """What is done to node v, in words and original units; lists have one entry per component."""
        return {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Samples by what became of them here."""
        return {}

    def state(self) -> tuple[Arrays, Meta]:
        arrays = copies(self, self.learnt_arrays + self.stream_arrays)
        return arrays | (under("lags", self.lags.state()) if self.lags is not None else {}), {}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        take_rows(self, self.learnt_arrays + self.stream_arrays, arrays, rows)
        if self.lags is not None:
            self.lags.restore(part("lags", arrays), rows)


def step_classes(named: Iterable[str] = ()) -> list[type[Step]]:
    """The built-in steps and those ``named`` of other packages, in their order; modules are imported now."""
    ordered = [_checked(name) for name in STEPS.builtin]
    for name in named:
        made = _checked(name)
        places = [k + 1 for k, other in enumerate(ordered) if other.name == made.after]
        if made.after is None:
            places = [0]
        if not places:
            raise STEPS.refusal(name, f"goes after a step {made.after!r} that there is not")
        ordered.insert(places[0], made)
    return ordered


def _checked(name: str) -> type[Step]:
    found: Any = STEPS.load(name)
    if not (isinstance(found, type) and Step in found.__mro__):
        raise STEPS.refusal(name, "does not derive from detector.preprocessing.base.Step")
    if getattr(found, "name", None) != name:
        raise STEPS.refusal(name, "has another name than its entry point")
    made: type[Step] = found
    return made
