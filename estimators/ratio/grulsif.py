"""GRULSIF: relative likelihood ratios of all nodes together, smooth over the graph; POOL: without graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import Estimator, Progress, Samples, check_range, check_windows
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.kernels import as_points, kernel_named, node_widths
from estimators.core.types import Floats
from estimators.ratio.moments import Moments, loss, mapped
from estimators.ratio.selection import GAMMAS, LAMBDAS, POOL_GAMMAS, cross_validate, width_grid
from estimators.ratio.solvers import SOLVERS, Problem


class Grulsif(Estimator):
    """Relative likelihood ratios of all nodes together, smooth over the graph.

    With f_v(x) = theta_v' psi(x) find the f_v that come nearest to

        r_v(x) = q_v(x) / ((1 - alpha) p_v(x) + alpha q_v(x))                                     (Eq. 3)

    in mean square under the mixture, with linked nodes alike (Eq. 38):

        min (1/N) sum_v [ 1/2 theta_v' A_v theta_v - h'_v' theta_v ]
            + lam/4 sum_uv W_uv ||theta_u - theta_v||^2 + lam gamma/2 sum_v ||theta_v||^2.

    The score of a node is the Pearson divergence PE_v = h'_v' theta_v - 1/2 theta_v' A_v theta_v - 1/2
    (Eq. 22); identical windows score <= 0. A node with an empty window takes part through its neighbours
    only: its score is NaN, its ratio theirs.

    Parameters
    ----------
    alpha : float in [0, 1), default=0.1
        Share of q in the denominator; the ratio is at most 1/alpha.
    lam : float >= 0, optional
        Weight of the graph; by default 0.01 / mean degree.
    gamma : float >= 0, default=0.1
        Weight of the norm relative to ``lam``.
    sigma : float > 0, optional
        Kernel width; by default the median heuristic, or the width of ``dictionary``.
    kernel : {"gaussian", "laplace"}, default="gaussian"
        Kernel of the dictionary.
    dictionary : Dictionary or array_like of shape (L, d), optional
        Kernel centres; by default they are chosen from the data (Algorithm 3).
    mu_node, mu_graph : float in [0, 1), default=0.5 and 0.9
        Coherence thresholds of a dictionary chosen from the data.
    budget : int >= 1, default=256
        Largest size of such a dictionary.
    feature_tol : float in [0, 1), default=1e-4
        Eigenvalues of the dictionary's Gram matrix below this share of the largest are left out.
    jitter : float >= 0, default=0.0
        Added to the diagonal of that matrix.
    centred : bool, default=False
        Estimate r_v - 1 instead of r_v, so that no change is theta = 0 and no data means a ratio of 1.
    solver : {"pcg", "cbcgd", "direct"}, default="pcg"
        They agree, and differ in time (docs/decisions.md).
    block : {"exact", "gradient"}, default="exact"
        Step of "cbcgd" at each node: to the minimum over its block, or the document's gradient step (Eq. 39).
    tol : float > 0, default=1e-8
        Relative residual at which the solver stops.
    max_iter : int >= 1, default=10000
        Most iterations of the solver.

    Attributes
    ----------
    scores_ : ndarray of shape (N,), float64
        Pearson divergence of every node (Eq. 22); NaN where a window is empty.
    theta_ : ndarray of shape (N, r), float64
        Parameters of every node; NaN where no data reach the node.
    dictionary_ : Dictionary
        The kernel centres, with their width.
    features_ : Nystroem
        The feature map psi (Eq. 36).
    sigma_ : float
        Kernel width.
    lam_ : float
        Weight of the graph.
    n_iter_, residual_
        Iterations of the solver, and its relative residual at the end.

    See Also
    --------
    Pool : the same without a graph.
    Rulsif : every node with its own centres and width.

    References
    ----------
    A. de la Concha, N. Vayatis and A. Kalogeratos, "Collaborative likelihood-ratio estimation over graphs",
    JMLR 26(259), 2025: Eq. 3, 22, 36, 38, Algorithms 1 to 3.

    Examples
    --------
    Eight nodes in a ring, two neighbours of which change their mean:

    >>> import networkx as nx
    >>> import numpy as np
    >>> from estimators import Grulsif
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(8, 100, 1)), rng.normal(size=(8, 100, 1))
    >>> test[2:4] += 1.5
    >>> model = Grulsif(alpha=0.1).fit(ref, test, nx.cycle_graph(8))
    >>> np.sort(np.argsort(model.scores_)[-2:])
    array([2, 3])
    >>> model.ratio(2, [[-1.5], [3.0]]).round(0)  # hardly any low values left, many more high ones
    array([0., 4.])
    """

    needs_graph: ClassVar[bool] = True
    theta_: Floats  # (N, r)
    dictionary_: Dictionary
    features_: Nystroem
    sigma_: float
    lam_: float

    def __init__(self, *, alpha: float = 0.1, lam: float | None = None, gamma: float = 0.1,
                 sigma: float | None = None, kernel: str = "gaussian",
                 dictionary: Dictionary | ArrayLike | None = None, mu_node: float = 0.5,
                 mu_graph: float = 0.9, budget: int = 256, feature_tol: float = 1e-4, jitter: float = 0.0,
                 centred: bool = False, solver: str = "pcg", block: Literal["exact", "gradient"] = "exact",
                 tol: float = 1e-8, max_iter: int = 10_000) -> None:  # fmt: skip
        check_range("alpha", alpha, 0.0, 1.0, open_high=True)
        if lam is not None:
            check_range("lam", lam, 0.0)
        check_range("gamma", gamma, 0.0)
        if sigma is not None:
            check_range("sigma", sigma, 0.0, open_low=True)
        kernel_named(kernel)
        if isinstance(dictionary, Dictionary) and dictionary.kernel != kernel:
            raise ValueError(f"kernel: the dictionary was built for {dictionary.kernel!r}, got {kernel!r}")
        check_range("mu_node", mu_node, 0.0, 1.0, open_high=True)
        check_range("mu_graph", mu_graph, 0.0, 1.0, open_high=True)
        check_range("budget", budget, 1)
        check_range("feature_tol", feature_tol, 0.0, 1.0, open_high=True)
        check_range("jitter", jitter, 0.0)
        if solver not in SOLVERS:
            raise ValueError(f"solver: unknown name {solver!r}; known: {', '.join(sorted(SOLVERS))}")
        if block not in ("exact", "gradient"):
            raise ValueError(f"block: must be 'exact' or 'gradient', got {block!r}")
        check_range("tol", tol, 0.0, open_low=True)
        check_range("max_iter", max_iter, 1)
        self.alpha, self.lam, self.gamma, self.sigma, self.kernel = alpha, lam, gamma, sigma, kernel
        self.dictionary, self.mu_node, self.mu_graph, self.budget = dictionary, mu_node, mu_graph, budget
        self.feature_tol, self.jitter, self.centred = feature_tol, jitter, centred
        self.solver, self.block, self.tol, self.max_iter = solver, block, tol, max_iter

    def fit(self, ref: Samples, test: Samples, W: Any = None) -> Self:
        """Fit the ratios of all nodes together (Eq. 38).

        Parameters
        ----------
        ref : ndarray of shape (N, n, d), or sequence of N arrays of shape (n_v, d)
            Reference windows, one per node. Windows may differ in length, and be empty; a vector of
            length n stands for n points of dimension one. One array (n, d) or DataFrame is the window of
            a single node.
        test : ndarray of shape (N, n', d), or sequence of N arrays of shape (n'_v, d)
            Test windows of the same nodes.
        W : Graph, networkx graph, sparse or dense matrix of shape (N, N)
            Symmetric, non-negative weights between the nodes.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If there is no graph, windows and graph do not fit together, or a value is not finite.
            The message names window, node and entry.
        """
        X, X_ = check_windows(ref, test)
        graph = self._graph(W, len(X))
        self.dictionary_ = self._dictionary(X, X_)
        self.sigma_ = self.dictionary_.sigma
        self.features_ = Nystroem(self.dictionary_, tol=self.feature_tol, jitter=self.jitter)
        self.lam_ = self._lam(graph)
        moments = Moments.of(mapped(self.features_, X), mapped(self.features_, X_))
        A, h = moments.system(self.alpha, self.centred)
        solve = SOLVERS[self.solver]
        problem = Problem(A, h, graph, self.lam_, self.gamma)
        options: dict[str, Any] = (
            {} if self.solver == "direct" else {"tol": self.tol, "max_iter": self.max_iter}
        )
        if self.solver == "cbcgd":
            options["block"] = self.block
        solution = solve(problem, **options)
        self.theta_, self.n_iter_, self.residual_ = solution.theta, solution.n_iter, solution.residual
        self.theta_[_unreached(graph, self.lam_, moments.silent)] = np.nan
        self.scores_ = -loss(A, h, self.theta_) - (0.0 if self.centred else 0.5)  # Eq. 22
        self.scores_[moments.silent] = np.nan
        return self

    def ratio(self, v: int, x: ArrayLike) -> Floats:
        """Estimate of r_v (Eq. 3) at points.

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
        f: Floats = self.features_(x) @ self.theta_[v]
        return f + 1.0 if self.centred else f

    @classmethod
    def select(cls, ref: Samples, test: Samples, W: Any = None, *, sigmas: Sequence[float] | None = None,
               lams: Sequence[float] | None = None, gammas: Sequence[float] | None = None, folds: int = 5,
               seed: int = 0, progress: Progress | None = None, **params: Any) -> Self:  # fmt: skip
        """Algorithm 1: the (sigma, lam, gamma) with the lowest held-out loss (Eq. 42), then the fit with it.

        Parameters
        ----------
        ref, test, W
            As for ``fit``.
        sigmas, lams, gammas : sequence of float, optional
            Candidates; by default the grids of App. B.1, a little wider.
        folds : int, default=5
            Parts into which every window is split.
        seed : int, default=0
            Of that split.
        progress : callable, optional
            Called as ``progress(done, total)`` after each (sigma, lam).
        **params
            Parameters of the constructor that are not searched.

        Returns
        -------
        Grulsif
            The fit with the best combination; ``selection_`` holds the losses of all.
        """
        trial = cls(**params)
        X, X_ = check_windows(ref, test)
        graph = trial._graph(W, len(X))
        dictionary = trial._dictionary(X, X_)
        if sigmas is None:
            sigmas = width_grid(X, trial.kernel)
        if lams is None:
            lams = [weight / graph.mean_degree for weight in LAMBDAS] if cls.needs_graph else [1.0]
        if gammas is None:
            gammas = GAMMAS if cls.needs_graph else POOL_GAMMAS
        table = cross_validate(
            X, X_, graph, dictionary, sigmas, lams, gammas, alpha=trial.alpha, centred=trial.centred,
            folds=folds, seed=seed, progress=progress,
        )  # fmt: skip
        best = table.best()
        chosen = {"dictionary": replace(dictionary, sigma=best["sigma"]), "gamma": best["gamma"]}
        if cls.needs_graph:
            chosen["lam"] = best["lam"]
        fitted = cls(**{**params, **chosen, "sigma": best["sigma"]}).fit(X, X_, graph)
        fitted.selection_ = table
        return fitted

    def _graph(self, W: Any, n_nodes: int) -> Graph:
        if W is None and n_nodes == 1:
            return Graph.empty(1)
        if W is None:
            raise ValueError("W: Grulsif needs the graph over the nodes; Pool is the estimator without one")
        return Graph.of(W, n_nodes)

    def _lam(self, graph: Graph) -> float:
        return 0.01 / graph.mean_degree if self.lam is None else self.lam

    def _dictionary(self, X: list[Floats], X_: list[Floats]) -> Dictionary:
        if self.dictionary is None:
            return Dictionary.build(X, X_, mu_node=self.mu_node, mu_graph=self.mu_graph, kernel=self.kernel,
                                    sigma=self.sigma, budget=self.budget)  # fmt: skip
        if isinstance(self.dictionary, Dictionary):
            given = self.dictionary
            return given if self.sigma is None else replace(given, sigma=self.sigma)
        atoms = as_points(self.dictionary, "dictionary")
        sigma = self.sigma
        if sigma is None:
            sigma = float(np.median(node_widths(X, self.kernel)))
        return Dictionary(atoms, sigma, self.kernel)


class Pool(Grulsif):
    """GRULSIF without a graph: shared dictionary and parameters, every node for itself (Sec. 5.3).

    The problem (Eq. 40) is solved in closed form (Eq. 41), with lam = 1 as in the document:

        theta_v = [ A_v + N gamma I ]^-1 h'_v.

    Parameters
    ----------
    alpha, gamma, sigma, kernel, dictionary, mu_node, mu_graph, budget, feature_tol, jitter, centred
        As of Grulsif.

    Attributes
    ----------
    scores_, theta_, dictionary_, features_, sigma_
        As of Grulsif.

    References
    ----------
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025: Eq. 40 and 41.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Pool
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(3, 80, 1)), rng.normal(size=(3, 80, 1))
    >>> test[1] *= 4.0  # one node is noisier than before
    >>> model = Pool().fit(ref, test)
    >>> int(model.scores_.argmax())
    1
    """

    needs_graph: ClassVar[bool] = False

    def __init__(self, *, alpha: float = 0.1, gamma: float = 1e-4, sigma: float | None = None,
                 kernel: str = "gaussian", dictionary: Dictionary | ArrayLike | None = None,
                 mu_node: float = 0.5, mu_graph: float = 0.9, budget: int = 256, feature_tol: float = 1e-4,
                 jitter: float = 0.0, centred: bool = False) -> None:  # fmt: skip
        super().__init__(alpha=alpha, lam=1.0, gamma=gamma, sigma=sigma, kernel=kernel,
                         dictionary=dictionary, mu_node=mu_node, mu_graph=mu_graph, budget=budget,
                         feature_tol=feature_tol, jitter=jitter, centred=centred,
                         solver="direct")  # fmt: skip

    def _graph(self, W: Any, n_nodes: int) -> Graph:
        return Graph.empty(n_nodes)


def _unreached(graph: Graph, lam: float, silent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Silent nodes that no node with data reaches through the graph: nothing is known about them."""
    if lam == 0.0:
        return silent
    heard = np.zeros(graph.n_nodes, dtype=bool)  # by number of part
    heard[graph.parts[~silent]] = True
    return ~heard[graph.parts]
