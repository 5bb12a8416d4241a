"""GRULSIF with a setting per node: candidates are solved for the whole network, each node keeps its best."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import Estimator, Progress, Samples, Selection, check_range, check_windows
from estimators.core.graph import Graph
from estimators.core.kernels import node_widths
from estimators.core.types import Floats
from estimators.ratio.grulsif import Grulsif
from estimators.ratio.moments import Moments, loss, mapped

WIDTHS = (0.7, 1.0, 1.5)  # in median distances
COUPLINGS = (0.003, 0.03)  # N lam
GAMMAS = (0.03, 0.3)


class GrulsifByNode(Estimator):
    """GRULSIF whose width and weights differ between nodes, for networks whose nodes want different ones.

    Where some nodes changed much and others not at all, one setting for all is a compromise: changed nodes
    want narrow kernels and little regularisation, unchanged ones the opposite. Here all candidates (sigma,
    lam, gamma) are solved for the whole network, as `Grulsif` does, and each node takes the one with the
    least loss (Eq. 42) on samples of its own that were held out. It needs enough of them: with some fifty
    points per window `Grulsif.select`, which has one choice for all nodes, is the better one.

    Parameters
    ----------
    alpha : float in [0, 1), default=0.1
        Share of q in the denominator; the ratio is at most 1/alpha.
    widths : sequence of float > 0
        Candidates of sigma, in the nodes' median distance.
    couplings : sequence of float >= 0
        Candidates of N lam.
    gammas : sequence of float >= 0
        Candidates of gamma.
    folds : int >= 2, default=5
        The last of so many parts of each window is held out for the choice; fits use all.
    kernel : {"gaussian", "laplace"}, default="gaussian"

    Attributes
    ----------
    choice_ : ndarray of shape (N,), int
        Number of each node's candidate in ``selection_``.
    models_ : dict of int to Grulsif
        The fits that a node has chosen.
    theta_ : list of N ndarray
        Parameters of every node, in the features of its own fit.
    selection_ : Selection
        Candidates and their mean held-out losses.

    See Also
    --------
    Grulsif : one setting for all nodes.

    References
    ----------
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025: Eq. 38, 42; the choice per
    node is ours.

    Examples
    --------
    >>> import networkx as nx
    >>> import numpy as np
    >>> from estimators import GrulsifByNode
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(2, 8, 100, 1))
    >>> test[:3] *= 0.2
    >>> model = GrulsifByNode().fit(ref, test, nx.cycle_graph(8))
    >>> np.sort(np.argsort(model.scores_)[-3:])
    array([0, 1, 2])
    """

    needs_graph: ClassVar[bool] = True
    choice_: NDArray[np.intp]
    models_: dict[int, Grulsif]

    def __init__(self, *, alpha: float = 0.1, widths: Sequence[float] = WIDTHS,
                 couplings: Sequence[float] = COUPLINGS, gammas: Sequence[float] = GAMMAS, folds: int = 5,
                 kernel: str = "gaussian") -> None:  # fmt: skip
        check_range("alpha", alpha, 0.0, 1.0, open_high=True)
        for name, values in (("widths", widths), ("couplings", couplings), ("gammas", gammas)):
            if not len(values):
                raise ValueError(f"{name}: there is no candidate")
            for value in values:
                check_range(name, value, 0.0, open_low=name == "widths")
        check_range("folds", folds, 2)
        self.alpha, self.widths, self.couplings, self.gammas = alpha, widths, couplings, gammas
        self.folds, self.kernel = folds, kernel

    def fit(self, ref: Samples, test: Samples, W: Any = None) -> Self:
        """Fit all candidates, and let every node choose.

        Parameters
        ----------
        ref, test
            As of ``Grulsif.fit``.
        W : Graph, networkx graph, sparse or dense matrix of shape (N, N)
            Symmetric, non-negative weights between the nodes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As ``Grulsif.fit``.
        """
        X, X_ = check_windows(ref, test)
        if W is None and len(X) > 1:
            raise ValueError("W: GrulsifByNode needs the graph over the nodes")
        graph = Graph.empty(1) if W is None else Graph.of(W, len(X))
        sigma = float(np.median(node_widths(X, self.kernel)))
        grid = [(width * sigma, coupling / len(X), gamma) for width, coupling, gamma in
                itertools.product(self.widths, self.couplings, self.gammas)]  # fmt: skip
        losses = np.stack([self._held_out(one, X, X_, graph) for one in grid])
        # A node with nothing held out follows the others.
        mean = np.nanmean(losses, axis=1)
        self.choice_ = np.where(np.isnan(losses), mean[:, None], losses).argmin(axis=0)
        self.selection_ = Selection(("sigma", "lam", "gamma", "loss"), np.column_stack([grid, mean]))
        self.models_ = {int(k): self._model(grid[k]).fit(X, X_, graph) for k in np.unique(self.choice_)}
        chosen = [self.models_[int(k)] for k in self.choice_]
        self.theta_ = [model.theta_[v] for v, model in enumerate(chosen)]
        self.scores_ = np.array([model.scores_[v] for v, model in enumerate(chosen)])
        self.n_iter_ = sum(model.n_iter_ for model in self.models_.values())
        self.residual_ = max(model.residual_ for model in self.models_.values())
        return self

    def ratio(self, v: int, x: ArrayLike) -> Floats:
        """Estimate of r_v (Eq. 3) at points, by the node's own fit.

        Parameters
        ----------
        v : int
            Number of the node.
        x : array_like of shape (n, d), or (n,) if d is 1
            Where to evaluate.

        Returns
        -------
        ndarray of shape (n,), float64
            NaN if no data reach the node.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        IndexError
            If there is no such node.
        """
        self._check_node(v)
        return self.models_[int(self.choice_[v])].ratio(v, x)

    @classmethod
    def select(cls, ref: Samples, test: Samples, W: Any = None, *, seed: int = 0,
               progress: Progress | None = None, **params: Any) -> Self:  # fmt: skip
        """The same as ``fit``, which chooses by itself.

        Parameters
        ----------
        ref, test, W
            As for ``fit``.
        seed : int, default=0
            Not used: nothing is drawn.
        progress : callable, optional
            Called as ``progress(1, 1)`` at the end.
        **params
            Parameters of the constructor.

        Returns
        -------
        GrulsifByNode
        """
        fitted = cls(**params).fit(ref, test, W)
        if progress is not None:
            progress(1, 1)
        return fitted

    def _model(self, setting: tuple[float, float, float]) -> Grulsif:
        sigma, lam, gamma = setting
        return Grulsif(alpha=self.alpha, sigma=sigma, lam=lam, gamma=gamma, kernel=self.kernel)

    def _held_out(self, setting: tuple[float, float, float], X: list[Floats], X_: list[Floats],
                  graph: Graph) -> Floats:  # fmt: skip
        """Loss (N,) of every node on the last part of its windows, by a fit to the others; NaN if none."""
        cut, cut_ = ([len(x) - len(x) // self.folds for x in side] for side in (X, X_))
        seen = [x[:c] for x, c in zip(X, cut, strict=True)], [x[:c] for x, c in zip(X_, cut_, strict=True)]
        model = self._model(setting).fit(*seen, graph)
        left = ([x[c:] for x, c in zip(side, ends, strict=True)] for side, ends in ((X, cut), (X_, cut_)))
        moments = Moments.of(*(mapped(model.features_, part) for part in left))
        A, h = moments.system(self.alpha)
        found = loss(A, h, model.theta_)
        found[moments.silent] = np.nan
        return found
