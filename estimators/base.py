"""What all estimators share: the interface, the checks of the data, parameters and their printing."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.kernels import Array, as_points

Samples = Sequence[ArrayLike] | Array
Progress = Callable[[int, int], None]


class NotFittedError(ValueError):
    """An estimator was asked for results before ``fit``."""


@dataclass(frozen=True)
class Selection:
    """Scores of all combinations of hyper-parameters that a ``select`` has tried; lower is better."""

    columns: tuple[str, ...]  # hyper-parameters, then "loss"
    rows: Array  # (combinations, columns)

    def best(self) -> dict[str, float]:
        """The combination with the lowest loss; the first one among equals."""
        k = int(np.nanargmin(self.rows[:, -1]))
        return dict(zip(self.columns, self.rows[k].tolist(), strict=True))


class Estimator(ABC):
    """Estimate for every node v how the density q_v of its test window differs from p_v of its reference.

    ``fit(ref, test, W)`` takes sequences of (n_v, d) arrays, one per node, or (N, n, d) arrays; windows may
    differ in length, and be empty. ``W`` is the graph (networkx, sparse or dense matrix) where the method
    uses one. Afterwards:

    scores_      (N,) estimated divergence of every node. NaN is *no verdict*: a window of the node was empty.
    theta_       parameters of every node; NaN where no data reach the node.
    dictionary_  kernel centres: one dictionary for the network, or one per node.
    sigma_       kernel width: one number, or one per node.
    n_iter_      iterations of the solver.
    residual_    how far from the exact solution the solver stopped.
    selection_   table of tried hyper-parameters, after ``select``.

    Constructors check and store their parameters, nothing else; ``fit`` forgets the past, writes to none of
    its inputs, and draws no random number but from the parameter ``seed``.
    """

    scores_: Array
    theta_: Sequence[Array] | Array
    n_iter_: int
    residual_: float
    selection_: Selection
    needs_graph: ClassVar[bool] = False

    @abstractmethod
    def fit(self, ref: Samples, test: Samples, W: Any = None) -> Self:
        """Estimate the ratios between the two windows of every node."""

    @abstractmethod
    def ratio(self, v: int, x: ArrayLike) -> Array:
        """Estimated ratio of node v at the points x (n, d); NaN if no data reach the node."""

    @classmethod
    @abstractmethod
    def select(cls, ref: Samples, test: Samples, W: Any = None, *, seed: int = 0,
               progress: Progress | None = None, **params: Any) -> Self:  # fmt: skip
        """Choose the hyper-parameters by held-out loss, and fit with the best."""

    def divergence(self) -> Array:
        """Estimated divergence of every node (N,): the score, but never below zero, as no divergence is."""
        self._check_fitted()
        return np.maximum(self.scores_, 0.0)  # NaN stays NaN

    def get_params(self) -> dict[str, Any]:
        """Parameters of the constructor."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        told = []
        for name, value in self.get_params().items():
            default = defaults[name].default
            same = value is default or (np.ndim(value) == 0 and np.ndim(default) == 0 and value == default)
            if not same:
                told.append(f"{name}=<{len(value)} nodes>" if np.ndim(value) else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(told)})"

    def _check_fitted(self) -> None:
        if not hasattr(self, "scores_"):
            raise NotFittedError(f"{type(self).__name__}: call fit first")

    def _check_node(self, v: int) -> None:
        self._check_fitted()
        if not 0 <= v < len(self.scores_):
            raise IndexError(f"v: node {v}, but there are nodes 0 to {len(self.scores_) - 1}")


def check_windows(ref: Samples, test: Samples) -> tuple[list[Array], list[Array]]:
    """Both windows of every node as (n_v, d) arrays; errors name window, node and entry."""
    if len(ref) != len(test):
        raise ValueError(f"test: {len(test)} nodes, but ref has {len(ref)}")
    if len(ref) == 0:
        raise ValueError("ref: no node")
    windows = {name: [as_points(x, f"{name}[{v}]") for v, x in enumerate(side)]
               for name, side in (("ref", ref), ("test", test))}  # fmt: skip
    dim = next((x.shape[1] for side in windows.values() for x in side if x.size), None)
    if dim is None:
        raise ValueError("ref: no node has a point")
    for name, side in windows.items():
        for v, x in enumerate(side):
            if x.size and x.shape[1] != dim:
                raise ValueError(f"{name}[{v}]: dimension {x.shape[1]}, but the other nodes have {dim}")
            if not x.size:
                side[v] = np.empty((0, dim))
    return windows["ref"], windows["test"]


def check_range(name: str, value: float, low: float, high: float = np.inf, *, open_low: bool = False,
                open_high: bool = False) -> None:  # fmt: skip
    """Refuse a parameter outside of its interval, or not a number."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    inside = number and (value > low if open_low else value >= low) and (
        value < high if open_high or high == np.inf else value <= high)  # fmt: skip
    if not inside:
        left, right = "(" if open_low else "[", ")" if open_high or high == np.inf else "]"
        raise ValueError(f"{name}: must be in {left}{low:g}, {high:g}{right}, got {value!r}")
