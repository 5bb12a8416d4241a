"""Sparse margin classifier with critical samples (Peifer 2021, Ch. 3), and one against one for many classes.

    max_nu  (1 - eps) sum nu - h*(nu) - 1/2 sum_j q_j [ abar_j^2 - 2 gamma ]_+ ,   abar = K'(nu y)   (3.26)

Samples with nu = 0 do not matter: solving again without them gives the same classifier (Prop. 3). The others
are the *critical* samples; they are all that has to be shared to train together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import check_range
from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.sparse.dual import DualSolution, Margin, solve_dual, solve_relative
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.relaxation import Relaxation

CRITICAL = 1e-6  # of the largest multiplier: projection makes exact zeros once converged
UNKNOWN = ""  # the class of a point where no class has more votes, or no model says anything


class SparseMarginClassifier(Parameters):
    """Two classes, +1 and -1; ``predict`` gives 0 where the model is silent (f = 0).

    One class only is not an error: a site may have seen nothing else, and its critical samples still count.

    Parameters
    ----------
    grid : MultiScaleGrid
        Centres, widths and measure; on the probability measure the defaults mean what they say.
    eps : float in [0, 1), default=0.01
        The margin is 1 - eps.
    gamma : float >= 0, default=25.0
        Price of support.
    rho : float in [0, 1), optional
        The same free of units, instead of ``gamma``.
    relaxation : Relaxation, optional
        By default linear with cap 100: hard margins on noisy data overfit and chase wrong labels.
    max_iter : int, default=400
        Of the solver.

    Attributes
    ----------
    nu_ : ndarray of shape (n,), float64
        Multipliers.
    critical_ : ndarray of int
        Samples that matter: without the others the classifier would be the same (Prop. 3).
    slack_ : ndarray of shape (n,), float64
        How far each sample was relaxed.
    solution_ : DualSolution
        Values, iterations, and whether it converged.

    References
    ----------
    M. Peifer, "Balancing fit and complexity in learned representations", thesis, 2021: Ch. 3, (3.2), (3.26).

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import MultiScaleGrid, SparseMarginClassifier
    >>> x = np.linspace(-2.0, 2.0, 41)
    >>> y = np.where(np.abs(x) < 1.0, 1.0, -1.0)
    >>> grid = MultiScaleGrid.regular(-2.5, 2.5, 51, [0.3, 0.6], "probability")
    >>> model = SparseMarginClassifier(grid).fit(x, y)
    >>> model.predict([0.0, 1.8]), len(model.critical_) < 20
    (array([ 1., -1.]), True)
    """

    _result = "nu_"
    nu_: Floats
    critical_: NDArray[np.intp]
    slack_: Floats
    solution_: DualSolution

    def __init__(self, grid: MultiScaleGrid, *, eps: float = 0.01, gamma: float = 25.0,
                 rho: float | None = None, relaxation: Relaxation | None = None,
                 max_iter: int = 400) -> None:  # fmt: skip
        check_range("eps", eps, 0.0, 1.0, open_high=True)
        check_range("gamma", gamma, 0.0)
        if rho is not None:
            check_range("rho", rho, 0.0, 1.0, open_high=True)
        self.grid, self.eps, self.gamma, self.rho = grid, eps, gamma, rho
        self.relaxation, self.max_iter = relaxation or Relaxation.linear(100.0), max_iter

    def fit(self, X: ArrayLike, y: ArrayLike, nu: ArrayLike | None = None) -> Self:
        """Learn from labelled samples.

        Parameters
        ----------
        X : array_like of shape (n, p)
        y : array_like of shape (n,)
            +1 or -1.
        nu : array_like of shape (n,), optional
            Multipliers to start from, such as those that came with critical samples.

        Returns
        -------
        self
        """
        points, labels = as_points(X, "X"), np.asarray(y, dtype=np.float64)
        if labels.shape != (len(points),):
            raise ValueError(f"y: shape {labels.shape}, but X has {len(points)} samples")
        if not len(points):
            raise ValueError("X: no sample to learn from")
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise ValueError(f"y: classes must be -1 and +1, got {np.unique(labels)[:5]}")
        K, fit, q = self.grid.design(points), Margin(labels, self.eps), self.grid.weights
        if self.rho is not None:
            found = solve_relative(K, q, fit, self.rho, self.relaxation, self.max_iter)
        else:
            start = None if nu is None else np.asarray(nu, dtype=np.float64)
            found = solve_dual(K, q, fit, self.gamma, self.relaxation, self.max_iter, start)
        self.solution_, self.nu_, self.slack_ = found, found.variables, found.slack
        self.critical_ = np.flatnonzero(self.nu_ > CRITICAL * self.nu_.max(initial=0.0))
        self._cells = np.flatnonzero(found.alpha)
        self._atoms = self.grid.atoms.take(self._cells)
        return self

    @property
    def n_kernels(self) -> int:
        """Places that are in use, at any width."""
        return len(np.unique(self._cells % len(self.grid.places)))

    def decision_function(self, X: ArrayLike) -> Floats:
        """f at points.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        ndarray of shape (n,), float64
        """
        self._check_fitted()
        weights = (self.grid.weights * self.solution_.alpha)[self._cells]
        values: Floats = self._atoms.transform(X) @ weights
        return values

    def predict(self, X: ArrayLike) -> Floats:
        """Classes of points.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        ndarray of shape (n,), float64
            +1, -1, or 0 for no opinion.
        """
        return np.sign(self.decision_function(X))


class PairwiseClassifier(Parameters):
    """Any number of named classes, one against one, by votes (Sec. 2.4.3).

    With one class alone, that class is learnt against nothing, and every point it reaches is said to be of
    it.

    Parameters
    ----------
    grid, eps, gamma, rho, relaxation, max_iter
        As of SparseMarginClassifier.

    Attributes
    ----------
    classes_ : tuple of str
    pairs_ : dict of (str, str) to SparseMarginClassifier
    critical_ : ndarray of int
        Samples that matter to any pair.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import MultiScaleGrid, PairwiseClassifier
    >>> x = np.linspace(-3.0, 3.0, 60)
    >>> names = ["low" if v < -1.0 else "high" if v > 1.0 else "middle" for v in x]
    >>> grid = MultiScaleGrid.regular(-3.5, 3.5, 61, [0.3, 0.6], "probability")
    >>> PairwiseClassifier(grid).fit(x, names).predict([-2.0, 0.0, 2.0])
    ['low', 'middle', 'high']
    """

    _result = "pairs_"
    classes_: tuple[str, ...]
    pairs_: dict[tuple[str, str], SparseMarginClassifier]
    critical_: NDArray[np.intp]

    def __init__(self, grid: MultiScaleGrid, *, eps: float = 0.01, gamma: float = 25.0,
                 rho: float | None = None, relaxation: Relaxation | None = None,
                 max_iter: int = 400) -> None:  # fmt: skip
        self.grid, self.eps, self.gamma, self.rho = grid, eps, gamma, rho
        self.relaxation, self.max_iter = relaxation, max_iter
        self._pair()

    def _pair(self) -> SparseMarginClassifier:
        return SparseMarginClassifier(self.grid, eps=self.eps, gamma=self.gamma, rho=self.rho,
                                      relaxation=self.relaxation, max_iter=self.max_iter)  # fmt: skip

    def fit(self, X: ArrayLike, labels: Sequence[str],
            nu: Mapping[tuple[str, str], Floats] | None = None) -> Self:  # fmt: skip
        """Learn every pair of classes.

        Parameters
        ----------
        X : array_like of shape (n, p)
        labels : sequence of n str
            Classes.
        nu : mapping of pairs to ndarray of shape (n,), optional
            Multipliers to start from.

        Returns
        -------
        self
        """
        points, names = as_points(X, "X"), np.asarray(labels, dtype=np.str_)
        if names.shape != (len(points),):
            raise ValueError(f"labels: {len(names)}, but X has {len(points)} samples")
        if not len(points):
            raise ValueError("X: no sample to learn from")
        if (names == UNKNOWN).any():
            raise ValueError(f"labels[{int(np.argmax(names == UNKNOWN))}] is empty")
        self.classes_ = tuple(str(name) for name in np.unique(names))
        self.pairs_ = {}
        critical = np.zeros(len(points), np.bool_)
        for pair in pairs(self.classes_):
            rows = np.flatnonzero(np.isin(names, pair))
            start = None if nu is None or pair not in nu else nu[pair][rows]
            model = self._pair().fit(points[rows], np.where(names[rows] == pair[0], 1.0, -1.0), start)
            self.pairs_[pair] = model
            critical[rows[model.critical_]] = True
        self.critical_ = np.flatnonzero(critical)
        return self

    @property
    def converged(self) -> bool:
        """Whether the solver did, for every pair."""
        return all(model.solution_.converged for model in self.pairs_.values())

    def votes(self, X: ArrayLike) -> Floats:
        """Pairs that each class wins.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        ndarray of shape (n, n_classes), float64
        """
        self._check_fitted()
        points = as_points(X, "X")
        votes = np.zeros((len(points), len(self.classes_)))
        for (a, b), model in self.pairs_.items():
            side = model.predict(points)
            votes[side > 0.0, self.classes_.index(a)] += 1.0
            if b != UNKNOWN:
                votes[side < 0.0, self.classes_.index(b)] += 1.0
        return votes

    def predict(self, X: ArrayLike) -> list[str]:
        """The class with most votes.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        list of str
            Empty on a tie, or where every pair is silent.
        """
        votes = self.votes(X)
        best, top = votes.argmax(axis=1), votes.max(axis=1, initial=0.0)
        alone = (votes == top[:, None]).sum(axis=1) == 1
        return [
            self.classes_[k] if sure else UNKNOWN for k, sure in zip(best, alone & (top > 0), strict=True)
        ]


def pairs(classes: Sequence[str]) -> list[tuple[str, str]]:
    """All pairs of classes in order of their names; a single class against nothing."""
    names = sorted(classes)
    return list(itertools.combinations(names, 2)) if len(names) > 1 else [(names[0], UNKNOWN)]
