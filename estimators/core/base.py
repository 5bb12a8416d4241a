"""What all estimators share: the interface, the checks of the data, parameters and their printing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats

Samples = Sequence[ArrayLike] | Floats
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Selection:
    """Losses of all combinations of hyper-parameters that a ``select`` has tried; lower is better.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns: hyper-parameters, then ``"loss"``.
    rows : ndarray of shape (n_combinations, n_columns), float64
        One combination per row, with its held-out loss last.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Selection
    >>> table = Selection(("sigma", "loss"), np.array([[0.5, -0.2], [1.0, -0.7]]))
    >>> table.best()
    {'sigma': 1.0, 'loss': -0.7}
    """

    columns: tuple[str, ...]
    rows: Floats

    def best(self) -> dict[str, float]:
        """The combination with the lowest loss; the first one among equals.

        Returns
        -------
        dict of str to float
            Hyper-parameters and ``"loss"``.
        """
        k = int(np.nanargmin(self.rows[:, -1]))
        return dict(zip(self.columns, self.rows[k].tolist(), strict=True))


class Estimator(Parameters, ABC):
    """Base of all two-sample estimators: how does each node's test window differ from its reference?

    For every node v the density q_v of its test window is compared with the density p_v of its reference
    window. Constructors check and store their parameters, nothing else; ``fit`` forgets the past, writes to
    none of its inputs, and draws no random number but from the parameter ``seed``.

    Attributes
    ----------
    scores_ : ndarray of shape (N,), float64
        Estimated divergence of every node. NaN is *no decision*: a window of the node was empty.
    theta_ : ndarray of shape (N, r), or list of N arrays of shape (L_v,)
        Parameters of every node; NaN where no data reach the node.
    dictionary_ : Dictionary, or list of N Dictionary
        Kernel centres: one dictionary for the network, or one per node.
    sigma_ : float, or ndarray of shape (N,)
        Kernel width: one for the network, or one per node.
    n_iter_ : int
        Iterations of the solver.
    residual_ : float
        How far from the exact solution the solver stopped.
    selection_ : Selection
        Table of tried hyper-parameters, after ``select``.

    Examples
    --------
    All estimators have the same interface:

    >>> import numpy as np
    >>> from estimators import ESTIMATORS
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(3, 50, 1)), rng.normal(size=(3, 50, 1))
    >>> test[0] += 3.0  # the first node has moved
    >>> W = np.ones((3, 3)) - np.eye(3)
    >>> for name, estimator in ESTIMATORS.items():
    ...     print(name, estimator().fit(ref, test, W).scores_.argmax())
    grulsif 0
    pool 0
    rulsif 0
    ulsif 0
    kliep 0
    """

    _result = "scores_"
    scores_: Floats
    theta_: Sequence[Floats] | Floats
    n_iter_: int
    residual_: float
    selection_: Selection
    needs_graph: ClassVar[bool] = False

    @abstractmethod
    def fit(self, ref: Samples, test: Samples, W: Any = None) -> Self:
        """Estimate the ratios between the two windows of every node.

        Parameters
        ----------
        ref : ndarray of shape (N, n, d), or sequence of N arrays of shape (n_v, d)
            Reference windows, one per node. Windows may differ in length, and be empty; a vector of
            length n stands for n points of dimension one. One array (n, d) or DataFrame is the window of
            a single node. Rows with missing values are refused: drop them before.
        test : ndarray of shape (N, n', d), or sequence of N arrays of shape (n'_v, d)
            Test windows of the same nodes, or one array (n', d) or DataFrame.
        W : Graph, networkx graph, sparse or dense matrix of shape (N, N), optional
            Weights between the nodes, for methods that use a graph.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If the windows do not fit together, or hold values that are not finite.
            The message names window, node and entry.
        """

    @abstractmethod
    def ratio(self, v: int, x: ArrayLike) -> Floats:
        """Estimated ratio of one node.

        Parameters
        ----------
        v : int
            Number of the node.
        x : array_like of shape (n, d), or (n,) if d is 1
            Where to evaluate.

        Returns
        -------
        ndarray of shape (n,), float64
            The estimate at every point; NaN if no data reach the node.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        IndexError
            If there is no such node.
        """

    @classmethod
    @abstractmethod
    def select(cls, ref: Samples, test: Samples, W: Any = None, *, seed: int = 0,
               progress: Progress | None = None, **params: Any) -> Self:  # fmt: skip
        """Choose the hyper-parameters by held-out loss, and fit with the best.

        Parameters
        ----------
        ref, test, W
            As for ``fit``.
        seed : int, default=0
            Of the draw of held-out points.
        progress : callable, optional
            Called as ``progress(done, total)``.
        **params
            Parameters of the constructor that are not searched.

        Returns
        -------
        Estimator
            The fitted estimator; its ``selection_`` holds all that was tried.
        """

    def divergence(self) -> Floats:
        """Estimated divergence of every node: the score, but never below zero, as no divergence is.

        Returns
        -------
        ndarray of shape (N,), float64
            NaN where there is no decision.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        self._check_fitted()
        return np.maximum(self.scores_, 0.0)  # NaN stays NaN

    def _check_node(self, v: int) -> None:
        self._check_fitted()
        if not 0 <= v < len(self.scores_):
            raise IndexError(f"v: node {v}, but there are nodes 0 to {len(self.scores_) - 1}")


def check_windows(ref: Samples, test: Samples) -> tuple[list[Floats], list[Floats]]:
    """Both windows of every node as (n_v, d) arrays; errors name window, node and entry.

    Two arrays (n, d) are one pair of samples, not n nodes.
    """
    sides: dict[str, Any] = {"ref": _one_array(ref, "ref"), "test": _one_array(test, "test")}
    single = [name for name, side in sides.items() if isinstance(side, np.ndarray) and side.ndim < 3]
    if len(single) == 1:
        other = "ref" if single == ["test"] else "test"
        raise ValueError(
            f"{single[0]}: one sample of shape {sides[single[0]].shape}, but {other} holds a window per "
            "node; give both as (n, d) arrays, or both as one window per node"
        )
    ref, test = sides["ref"], sides["test"]
    if single:
        points = [as_points(side, name) for name, side in sides.items()]
        if points[0].shape[1] != points[1].shape[1]:
            raise ValueError(
                f"test: {points[1].shape[1]} columns, but ref has {points[0].shape[1]}: the rows of both are "
                "points of one space"
            )
        ref, test = [points[0]], [points[1]]
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


def _one_array(side: Any, name: str) -> Any:
    """Arrays and tables as arrays; sequences of windows stay as they are."""
    if not hasattr(side, "__array__"):
        return side
    try:
        return np.asarray(side, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected numbers ({error})") from None


def check_range(name: str, value: float, low: float, high: float = np.inf, *, open_low: bool = False,
                open_high: bool = False) -> None:  # fmt: skip
    """Refuse a parameter outside of its interval, or not a number."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    inside = number and (value > low if open_low else value >= low) and (
        value < high if open_high or high == np.inf else value <= high)  # fmt: skip
    if not inside:
        left, right = "(" if open_low else "[", ")" if open_high or high == np.inf else "]"
        raise ValueError(f"{name}: must be in {left}{low:g}, {high:g}{right}, got {value!r}")
