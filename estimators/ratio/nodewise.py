"""Estimators that know neither graph nor neighbours: each node has its own centres, width and solution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.base import Estimator, Progress, Samples, Selection, check_range, check_windows
from estimators.core.dictionary import Dictionary
from estimators.core.kernels import as_points, kernel_named, median_distance
from estimators.core.types import Floats

# Grid of App. B.1: multiples of the median distance of the node's test points.
WIDTHS = (0.6, 0.8, 1.0, 1.2, 1.4)

PerNode = float | Sequence[float] | Floats


class NodeFit(NamedTuple):
    theta: Floats  # (L_v,)
    score: float
    n_iter: int
    residual: float


class NodeWise(Estimator):
    """Frame of RULSIF, ULSIF and KLIEP: f_v(x) = theta_v' k_v(x) with centres from the node's test points.

    A node with an empty window has score NaN, ratio NaN and no centre.

    Parameters
    ----------
    sigma : float > 0, or one per node, optional
        Kernel width; by default the median distance of the node's test points.
    kernel : {"gaussian", "laplace"}
        Kernel of the centres.
    n_centres : int >= 1
        At most so many centres, drawn without replacement from the test points.
    seed : int
        Of that draw.

    Attributes
    ----------
    theta_ : list of N arrays of shape (L_v,)
        Weights of the centres.
    dictionary_ : list of N Dictionary
        Centres and width of every node.
    sigma_ : ndarray of shape (N,), float64
        Widths.
    """

    theta_: list[Floats]
    dictionary_: list[Dictionary]
    sigma_: Floats  # (N,)

    def __init__(self, *, sigma: PerNode | None, kernel: str, n_centres: int, seed: int) -> None:
        if sigma is not None:
            check_per_node("sigma", sigma, open_low=True)
        kernel_named(kernel)
        check_range("n_centres", n_centres, 1)
        check_range("seed", seed, 0)
        self.sigma, self.kernel, self.n_centres, self.seed = sigma, kernel, n_centres, seed

    @abstractmethod
    def _fit_node(self, v: int, phi_ref: Floats, phi_test: Floats) -> NodeFit:
        """Solve for node v from its kernel values (n_v, L_v) and (n'_v, L_v)."""

    @abstractmethod
    def _losses(self, x: Floats, x_: Floats, centres: Floats, sigmas: Floats, rng: np.random.Generator,
                **grids: Any) -> list[tuple[float, ...]]:  # fmt: skip
        """Rows (hyper-parameters..., loss) of one node's selection."""

    @classmethod
    @abstractmethod
    def _columns(cls) -> tuple[str, ...]:
        """Names of the hyper-parameters in those rows."""

    def fit(self, ref: Samples, test: Samples, W: Any = None) -> Self:
        """Fit every node by itself.

        Parameters
        ----------
        ref : ndarray of shape (N, n, d), or sequence of N arrays of shape (n_v, d)
            Reference windows, one per node. Windows may differ in length, and be empty; a vector of
            length n stands for n points of dimension one. One array (n, d) or DataFrame is the window of
            a single node.
        test : ndarray of shape (N, n', d), or sequence of N arrays of shape (n'_v, d)
            Test windows of the same nodes.
        W : object, optional
            Ignored.

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
        X, X_ = check_windows(ref, test)
        self.sigma_ = np.array([self._width(v, len(X), x_) for v, x_ in enumerate(X_)])
        self.theta_, self.dictionary_ = [], []
        self.scores_ = np.full(len(X), np.nan)
        self.n_iter_, self.residual_ = 0, 0.0
        for v, (x, x_) in enumerate(zip(X, X_, strict=True)):
            silent = not (len(x) and len(x_))
            centres = x_[:0] if silent else self._centres(v, x_)
            D = Dictionary(centres, float(self.sigma_[v]), self.kernel)
            self.dictionary_.append(D)
            if silent:
                self.theta_.append(np.empty(0))
                continue
            found = self._fit_node(v, *_kernels(x, x_, centres, D.sigma, self.kernel))
            self.theta_.append(found.theta)
            self.scores_[v] = found.score
            self.n_iter_ = max(self.n_iter_, found.n_iter)
            self.residual_ = max(self.residual_, found.residual)
        return self

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
        self._check_node(v)
        D, points = self.dictionary_[v], as_points(x)
        if not len(D.atoms):
            return np.full(len(points), np.nan)
        f: Floats = kernel_named(D.kernel)(points, D.atoms, D.sigma) @ self.theta_[v]
        return f

    @classmethod
    def _select(cls, ref: Samples, test: Samples, seed: int, progress: Progress | None,
                widths: Sequence[float], params: dict[str, Any], **grids: Any) -> Self:  # fmt: skip
        trial = cls(**params)
        X, X_ = check_windows(ref, test)
        rows: list[tuple[float, ...]] = []
        names = cls._columns()
        chosen: dict[str, list[float]] = {name: [] for name in names}
        for v, (x, x_) in enumerate(zip(X, X_, strict=True)):
            middle = median_distance(x_, trial.kernel) if len(x_) else 1.0
            table = []
            if len(x) > 1 and len(x_) > 1:  # with one point, none can be held out
                rng = np.random.default_rng([seed, v])
                sigmas = middle * np.asarray(widths, dtype=np.float64)
                table = trial._losses(x, x_, trial._centres(v, x_), sigmas, rng, **grids)
                best = min(table, key=lambda row: row[-1])
            else:
                best = (middle, *(getattr(trial, name) for name in names[1:]))
            for name, value in zip(names, best, strict=False):
                chosen[name].append(float(value))
            rows.extend((float(v), *row) for row in table)
            if progress is not None:
                progress(v + 1, len(X))
        fitted = cls(**{**params, **{name: np.array(values) for name, values in chosen.items()}}).fit(X, X_)
        table_of_all = np.array(rows).reshape(len(rows), len(names) + 2)
        fitted.selection_ = Selection(("node", *names, "loss"), table_of_all)
        return fitted

    def _width(self, v: int, n_nodes: int, x_: Floats) -> float:
        if self.sigma is None:
            return median_distance(x_, self.kernel) if len(x_) else 1.0
        return per_node("sigma", self.sigma, v, n_nodes)

    def _centres(self, v: int, x_: Floats) -> Floats:
        if len(x_) <= self.n_centres:
            return x_
        chosen = np.random.default_rng([self.seed, v]).choice(len(x_), self.n_centres, replace=False)
        return x_[chosen]

    def _by_width(self, x: Floats, x_: Floats, centres: Floats,
                  sigmas: Floats) -> Iterator[tuple[float, Floats, Floats]]:  # fmt: skip
        for sigma in sigmas:
            yield float(sigma), *_kernels(x, x_, centres, float(sigma), self.kernel)


def _kernels(x: Floats, x_: Floats, centres: Floats, sigma: float, kernel: str) -> tuple[Floats, Floats]:
    K = kernel_named(kernel)
    return K(x, centres, sigma), K(x_, centres, sigma)


def check_per_node(name: str, value: PerNode, *, open_low: bool = False) -> None:
    """Refuse a number, or an entry of a sequence of them, that is not positive (or negative)."""
    if np.ndim(value) == 0:
        check_range(name, value, 0.0, open_low=open_low)  # type: ignore[arg-type]
        return
    for v, one in enumerate(np.asarray(value, dtype=np.float64).tolist()):
        check_range(f"{name}[{v}]", one, 0.0, open_low=open_low)


def per_node(name: str, value: PerNode, v: int, n_nodes: int) -> float:
    """Value of node v of a parameter that is one number or one per node."""
    values = np.asarray(value, dtype=np.float64)
    if values.ndim == 0:
        return float(values)
    if len(values) != n_nodes:
        raise ValueError(f"{name}: {len(values)} values, but the data have {n_nodes} nodes")
    return float(values[v])
