"""What happens to the values of a simulated network: changes of some nodes, and corrupt readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from connectors.base import Settings
from connectors.settings.units import Duration

Kind = Literal["mean", "spread", "correlation", "shape", "drift"]
SIZED: tuple[Kind, ...] = ("mean", "spread", "drift")  # kinds of some size, which may fade
TANH_SPREAD = 0.8631  # standard deviation of tanh(3 x) for a standard normal x
DRIFT_TICKS = 200.0  # until a drift has its size

Values = NDArray[np.float64]


class Pattern(Settings):
    """What a change does, to how many nodes, and how long: a change without its time."""

    type: str | None = Field(
        default=None, description="Name of the event; default: its kind.", min_length=1,
        max_length=100,
    )  # fmt: skip
    kind: Kind = Field(default="mean", description="Aspect of the distribution that changes.")
    size: float = Field(
        default=2.0, description="Size of the change, in standard deviations (spread: a factor)."
    )
    fade: float = Field(
        default=1.0, gt=0, le=1,
        description="Factor on the size per hop from the first node (mean, spread, drift).",
    )  # fmt: skip
    memory: float = Field(
        default=0.0, ge=0, le=0.9,
        description="Correlation of a value with the one before it (mean, spread, drift).",
    )  # fmt: skip
    nodes: int | list[str] = Field(
        default=5, description="Names of the nodes, or the size of a neighbourhood chosen at random."
    )
    more: int = Field(
        default=0,
        ge=0,
        description="At most this many further nodes, chosen at random, if nodes is a number.",
    )
    lasts: Duration | None = Field(
        default=None, description="Duration; default: permanent, in patterns a third of `every`."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for key, value, usual in (("fade", self.fade, 1.0), ("memory", self.memory, 0.0)):
            if value != usual and self.kind not in SIZED:
                raise ValueError(f"{key}: only {', '.join(SIZED)} have it, not {self.kind} (got {value:g})")
        if self.kind == "spread" and self.fade != 1.0 and self.size <= 0.0:
            raise ValueError(f"size: a spread that fades must be above 0 (got {self.size:g})")
        if self.more and not isinstance(self.nodes, int):
            raise ValueError(f"more: makes no sense with nodes by name (got {self.more})")
        return self

    @property
    def most_nodes(self) -> int:
        return (self.nodes if isinstance(self.nodes, int) else len(self.nodes)) + self.more


class Change(Pattern):
    """One change: when it begins and ends, where, and how."""

    at: Duration = Field(description="Start, relative to the start of the simulation.")


class Corrupt(Settings):
    """Sensors that send isolated wrong readings."""

    nodes: int | list[str] = Field(
        default=1, description="Names of the nodes, or how many to choose at random."
    )
    share: float = Field(default=0.04, ge=0, le=1, description="Share of their readings that are wrong.")
    size: float = Field(
        default=15.0,
        gt=0,
        description="Size of the error in standard deviations, up or down; varies by a third.",
    )
    at: Duration = Field(default=0.0, description="Start, relative to the start of the simulation.")


class Planned(NamedTuple):
    """A pattern with its time and its number, which decides where it happens."""

    number: int
    at: float  # seconds after the start
    lasts: float
    pattern: Pattern


class Truth(NamedTuple):
    """What really happened: for scoring a detector, and for labelling what it found."""

    begin: float
    end: float
    kind: Kind
    nodes: tuple[str, ...]
    type: str


def usual_of(dimension: int) -> list[Pattern]:
    """What `every` brings by default: all kinds; but one component has no correlation to lose."""
    return [Pattern(kind=kind) for kind in get_args(Kind) if kind != "correlation" or dimension > 1]


def check_nodes(key: str, nodes: int | list[str], most: int, names: Sequence[str]) -> None:
    """ValueError if there are no such nodes, or not so many."""
    if isinstance(nodes, int):
        if nodes < 1 or most > len(names):
            got = nodes if most == nodes else f"{nodes} and {most - nodes} more"
            raise ValueError(f"{key}: must be 1 to {len(names)} (got {got})")
    elif unknown := [name for name in nodes if name not in names]:
        raise ValueError(f"{key}: {unknown[0]!r} is outside {names[0]} to {names[-1]}")
    elif not nodes:
        raise ValueError(f"{key}: must name at least one node (got [])")


def sluggish(before: Values, values: Values, memory: float) -> Values:
    """Noise (T, n, d) that remembers: a moving average over as many steps back as there are in ``before``.

    Nearly an autoregression of order one and unit variance, but each value depends on a bounded past, so that
    a stream of it can begin anywhere.
    """
    T = len(before)
    weights = memory ** np.arange(T)
    both = np.concatenate([before, values])
    out = sum(w * both[T - lag : len(both) - lag] for lag, w in enumerate(weights / np.linalg.norm(weights)))
    assert isinstance(out, np.ndarray)
    return out


def changed(quiet: Values, pattern: Pattern, age: Values, hops: Values, rng: np.random.Generator) -> Values:
    """(steps, nodes, dimension) -> the same after the change; ``age`` in ticks since it began.

    ``hops`` (nodes,) from the first of them.
    """
    left = pattern.fade ** hops[None, :, None]
    if pattern.kind == "mean":
        return quiet + pattern.size * left
    if pattern.kind == "spread":
        return quiet * pattern.size**left
    if pattern.kind == "drift":
        return quiet + pattern.size * left * np.minimum(1.0, age / DRIFT_TICKS)[:, None, None]
    if pattern.kind == "correlation":
        if quiet.shape[2] == 1:  # with one component, the link to the neighbours is what is lost
            return rng.standard_normal(quiet.shape)
        return np.repeat(quiet[:, :, :1], quiet.shape[2], axis=2)
    return np.tanh(3.0 * quiet) / TANH_SPREAD  # two humps, same mean and variance
