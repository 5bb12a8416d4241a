"""Two samples over a graph: which nodes differ, and does the network? p-values by permutation."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import Progress, check_range
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.ratio.block_sums import BlockSums, Split
from estimators.ratio.fourier_pcg import MAX_NODES, fourier_pcg
from estimators.ratio.moments import loss
from estimators.ratio.permutation import (
    LEAST_BLOCKS,
    benjamini_hochberg,
    block_of,
    family_p,
    labels,
    network_p,
    standardised,
    upper_p,
)
from estimators.ratio.solvers import Problem, pcg

LOT = 64  # permutations solved at once
LEAST_ROWS = 10
TOL = 1e-6  # of the solver: far below the spread of the scores over permutations
Control = Literal["family", "fdr", "none"]


class CollaborativeTwoSampleTest(Parameters):
    """Do two samples differ at the nodes of a graph? Relative ratios as statistic, p-values by permutation.

    For each node v the score is the larger of the two Pearson divergences between its samples,
    PE(q_v || p_v) and PE(p_v || q_v), from ratios that are smooth over the graph (Eq. 22 and 38, target
    ratio - 1). If nothing changed, times can be exchanged: the same permutation of times is applied to all
    nodes, so that what nodes have in common stays, and whole blocks of times are moved where neighbouring
    samples are correlated. Dictionary and width come from both samples alike, never from their difference.
    Features are computed once; a permutation only adds up sums of blocks in another way.

    Parameters
    ----------
    alpha : float in [0, 1), default=0.1
        Share of the numerator in the denominator of the ratio (Eq. 3).
    coupling : float >= 0, default=0.3
        Weight of the graph beside a node's own data: N lam times the mean degree. At 0 every node is by
        itself.
    ridge : float > 0, default=0.03
        Weight of the norm, N lam gamma.
    sigma : float > 0, optional
        Kernel width; by default the median heuristic over both samples.
    kernel : {"gaussian", "laplace"}, default="gaussian"
    budget : int >= 1, default=64
        Most atoms of the dictionary.
    feature_tol : float in [0, 1), default=1e-2
        Eigenvalues of its Gram matrix below this share of the largest are left out.
    permutations : int >= 19, default=999
        No p-value is below 1 / (permutations + 1).
    block : int >= 1, optional
        Length of the blocks of times; by default told from the correlation within the samples.
    seed : int, default=0
        Of the permutations.

    Attributes
    ----------
    scores_ : ndarray of shape (N,), float64
        The larger divergence; NaN where a node has no sample on one side.
    directions_ : ndarray of shape (2, N), float64
        PE(q || p), new values appeared, and PE(p || q), old ones vanished.
    p_values_ : ndarray of shape (N,), float64
        Of every node by itself.
    p_family_ : ndarray of shape (N,), float64
        Of every node among all: by the maximum over nodes, for control of the family-wise error.
    p_fdr_ : ndarray of shape (N,), float64
        ``p_values_`` adjusted by Benjamini and Hochberg, for control of the false discovery rate.
    p_own_ : ndarray of shape (N,), float64
        Of every node by its own samples alone, as if it had no neighbours.
    p_network_ : float
        Of the whole network: its strongest node, and all nodes together.
    block_ : int
        Length of the blocks.
    correlation_time_ : float
        Of the samples, in rows; NaN if ``block`` was given.
    rows_ : tuple of int
        Rows of both samples that were used: whole blocks.
    warnings_ : list of str
        What a reader of the p-values should know.

    Notes
    -----
    All p-values but ``p_own_`` hold under the hypothesis that no node changed: with ``coupling`` > 0 the
    score of a node also holds something of its neighbours. ``changed`` therefore also asks that the node's
    own samples agree, ``p_own_`` <= level: an unchanged node beside a changed one is named with at most
    that probability.

    See Also
    --------
    Grulsif : the ratios without a test.

    References
    ----------
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025: Sec. 1, 2.1 and 7 name the
    test as an application; Eq. 3, 22, 36, 38. P. Westfall and S. Young, "Resampling-based multiple
    testing", 1993.

    Examples
    --------
    >>> import networkx as nx
    >>> import numpy as np
    >>> from estimators import CollaborativeTwoSampleTest
    >>> rng = np.random.default_rng(0)
    >>> before, after = rng.normal(size=(2, 8, 60, 1))
    >>> after[2:4] += 1.0
    >>> test = CollaborativeTwoSampleTest(permutations=199).fit(before, after, nx.cycle_graph(8))
    >>> test.p_network_, np.flatnonzero(test.changed(0.05))
    (0.005, array([2, 3]))
    >>> [one.tolist() for one in test.sets(0.05)]
    [[2, 3]]
    """

    _result = "scores_"
    scores_: Floats
    directions_: Floats
    p_values_: Floats
    p_family_: Floats
    p_fdr_: Floats
    p_own_: Floats
    p_network_: float
    block_: int
    correlation_time_: float
    rows_: tuple[int, int]
    warnings_: list[str]

    def __init__(self, *, alpha: float = 0.1, coupling: float = 0.3, ridge: float = 0.03,
                 sigma: float | None = None, kernel: str = "gaussian", budget: int = 64,
                 feature_tol: float = 1e-2, permutations: int = 999, block: int | None = None,
                 seed: int = 0) -> None:  # fmt: skip
        check_range("alpha", alpha, 0.0, 1.0, open_high=True)
        check_range("coupling", coupling, 0.0)
        check_range("ridge", ridge, 0.0, open_low=True)
        if sigma is not None:
            check_range("sigma", sigma, 0.0, open_low=True)
        check_range("budget", budget, 1)
        check_range("feature_tol", feature_tol, 0.0, 1.0, open_high=True)
        check_range("permutations", permutations, 19)
        if block is not None:
            check_range("block", block, 1)
        self.alpha, self.coupling, self.ridge, self.sigma, self.kernel = alpha, coupling, ridge, sigma, kernel
        self.budget, self.feature_tol, self.permutations = budget, feature_tol, permutations
        self.block, self.seed = block, seed

    def fit(self, ref: ArrayLike, test: ArrayLike, W: Any = None, *,
            progress: Progress | None = None) -> Self:  # fmt: skip
        """Compare the samples of all nodes.

        Parameters
        ----------
        ref : array_like of shape (N, n, d), or (N, n) if d is 1
            First sample: row i of every node is of the same time. NaN where a sample is missing.
        test : array_like of shape (N, m, d), or (N, m)
            Second sample of the same nodes.
        W : Graph, networkx graph, sparse or dense matrix of shape (N, N), optional
            Weights between the nodes; none: every node by itself.
        progress : callable, optional
            Called as ``progress(done, total)``.

        Returns
        -------
        self
            The fitted test.

        Raises
        ------
        ValueError
            If samples and graph do not fit together, a value is infinite, or there are too few rows.
        """
        X, X_ = _samples(ref, "ref"), _samples(test, "test")
        if X.shape[0] != X_.shape[0] or X.shape[2] != X_.shape[2]:
            raise ValueError(f"test: {X_.shape[0]} nodes of dimension {X_.shape[2]}, "
                             f"but ref has {X.shape[0]} of {X.shape[2]}")  # fmt: skip
        n_nodes = X.shape[0]
        self.graph_ = Graph.empty(n_nodes) if W is None else Graph.of(W, n_nodes)
        X, X_ = self._blocked(X, X_)
        rng = np.random.default_rng(self.seed)
        sums, psi = self._sums(X, X_, rng)
        L = labels(self.rows_[0] // self.block_, self.rows_[1] // self.block_, self.permutations, rng)
        scores = np.empty((len(L), 2, n_nodes))
        own = np.empty((len(L), n_nodes))
        for first in range(0, len(L), LOT):
            lot = slice(first, min(first + LOT, len(L)))
            split = sums.split(L[lot])
            scores[lot], theta = self._scores(split, self.coupling)
            own[lot] = (self._scores(split, 0.0)[0] if self._linked else scores[lot]).max(axis=1)
            if first == 0:
                self._theta, self._features = theta[0], psi
            if progress is not None:
                progress(lot.stop, len(L))
        self._tell(scores, own, sums)
        return self

    def changed(self, level: float = 0.05, control: Control = "family") -> NDArray[np.bool_]:
        """The nodes whose p-value is at most ``level``, and that of their own samples too.

        Parameters
        ----------
        level : float in (0, 1), default=0.05
        control : {"family", "fdr", "none"}, default="family"
            Which p-values: by the maximum, by Benjamini and Hochberg, or of every node by itself.

        Returns
        -------
        ndarray of shape (N,), bool
        """
        self._check_fitted()
        check_range("level", level, 0.0, 1.0, open_low=True, open_high=True)
        known = {"family": self.p_family_, "fdr": self.p_fdr_, "none": self.p_values_}
        if control not in known:
            raise ValueError(f"control: unknown name {control!r}; known: {', '.join(known)}")
        mask: NDArray[np.bool_] = (known[control] <= level) & (self.p_own_ <= level)  # NaN is not
        return mask

    def sets(self, level: float = 0.05, control: Control = "family") -> list[NDArray[np.intp]]:
        """Changed nodes in sets that hang together over the graph, the strongest first.

        Parameters
        ----------
        level, control
            As for ``changed``.

        Returns
        -------
        list of ndarray of int
        """
        nodes = np.flatnonzero(self.changed(level, control))
        within = sp.csr_array(self.graph_.matrix()[nodes][:, nodes])
        count, part = sp.csgraph.connected_components(within, directed=False)
        found = [nodes[part == k] for k in range(count)]
        return sorted(found, key=lambda one: -float(self.scores_[one].sum()))

    def ratio(self, v: int, x: ArrayLike, direction: Literal["new", "old"] = "new") -> Floats:
        """Estimated relative ratio of one node.

        Parameters
        ----------
        v : int
            Number of the node.
        x : array_like of shape (n, d), or (n,) if d is 1
            Where to evaluate.
        direction : {"new", "old"}, default="new"
            Second sample over the mixture, or first sample over it.

        Returns
        -------
        ndarray of shape (n,), float64
        """
        self._check_fitted()
        if not 0 <= v < len(self.scores_):
            raise IndexError(f"v: node {v}, but there are nodes 0 to {len(self.scores_) - 1}")
        if direction not in ("new", "old"):
            raise ValueError(f"direction: must be 'new' or 'old', got {direction!r}")
        found: Floats = 1.0 + self._features(x) @ self._theta[int(direction == "old"), v]
        return found

    def _blocked(self, X: Floats, X_: Floats) -> tuple[Floats, Floats]:
        """Both samples in whole blocks: rows too many are left out where the samples do not meet."""
        self.warnings_ = []
        n, m = X.shape[1], X_.shape[1]
        if min(n, m) < LEAST_ROWS:
            raise ValueError(f"ref, test: {n} and {m} rows; at least {LEAST_ROWS} each are needed")
        if self.block is None:
            self.block_, self.correlation_time_, wanted = block_of(X, X_)
            if self.block_ < wanted:
                self.warnings_.append(
                    f"samples are correlated over {self.correlation_time_:.0f} rows, blocks should have "
                    f"{wanted} rows but can only have {self.block_}: p-values come out too small"
                )
        else:
            self.block_, self.correlation_time_ = int(self.block), float("nan")
        b = self.block_
        if min(n, m) // b < LEAST_BLOCKS:
            raise ValueError(f"block: the shorter sample has {min(n, m)} rows; at least {LEAST_BLOCKS} "
                             f"blocks of {b} rows are needed")  # fmt: skip
        self.rows_ = (n - n % b, m - m % b)
        return X[:, n % b :], X_[:, : m - m % b]

    def _sums(self, X: Floats, X_: Floats, rng: np.random.Generator) -> tuple[BlockSums, Nystroem]:
        Z = np.concatenate([X, X_], axis=1)  # (N, T, d)
        seen = np.isfinite(Z).all(axis=2)
        if not seen.any():
            raise ValueError("ref: no node has a sample")
        # In an order that knows nothing of the two samples: early points make the dictionary.
        order = rng.permutation(Z.shape[1])
        pooled = [z[order][mask[order]] for z, mask in zip(Z, seen, strict=True)]
        dictionary = Dictionary.build(pooled, mu_node=0.5, mu_graph=0.9, kernel=self.kernel,
                                      sigma=self.sigma, budget=self.budget)  # fmt: skip
        psi = Nystroem(dictionary, tol=self.feature_tol)
        return BlockSums.of(Z, seen, psi, self.block_), psi

    def _scores(self, split: Split, coupling: float) -> tuple[Floats, Floats]:
        """Both divergences (P, 2, N) and parameters (P, 2, N, r) of every permutation."""
        scores, thetas = [], []
        for own, other in ((split.test, split.ref), (split.ref, split.test)):
            A = (1.0 - self.alpha) * other.second + self.alpha * own.second
            h = (1.0 - self.alpha) * (own.first - other.first)
            A[split.silent], h[split.silent] = 0.0, 0.0
            theta = self._solved(A, h, coupling)
            thetas.append(theta)
            scores.append(-loss(A, h, theta))  # Eq. 22, target ratio - 1
        return np.stack(scores, axis=1), np.stack(thetas, axis=1)

    @property
    def _linked(self) -> bool:
        return self.coupling > 0.0 and len(self.graph_.weights) > 0

    def _solved(self, A: Floats, h: Floats, coupling: float) -> Floats:
        graph, (_, n_nodes, r) = self.graph_, h.shape
        coupling /= graph.mean_degree
        if coupling == 0.0 or not self._linked:
            solved = np.linalg.solve(A + self.ridge * np.eye(r), h[..., None])
            return np.asarray(solved[..., 0], dtype=np.float64)
        if n_nodes <= MAX_NODES:
            return fourier_pcg(A, h, graph, coupling, np.array([self.ridge]), tol=TOL)[0][:, 0]
        lam, gamma = coupling / n_nodes, self.ridge / coupling
        each = (Problem(a, b, graph, lam, gamma) for a, b in zip(A, h, strict=True))
        return np.stack([pcg(problem, tol=TOL).theta for problem in each])

    def _tell(self, scores: Floats, own: Floats, sums: BlockSums) -> None:
        blocks = self.rows_[0] // self.block_
        silent = np.asarray(~(sums.count[:blocks].any(axis=0) & sums.count[blocks:].any(axis=0)))
        larger = scores.max(axis=1)  # (P + 1, N)
        z = standardised(larger[:, ~silent])
        n_nodes = len(silent)
        self.directions_ = np.where(silent, np.nan, scores[0])
        self.scores_ = np.where(silent, np.nan, larger[0])
        self.p_values_, self.p_family_, self.p_own_ = np.full((3, n_nodes), np.nan)
        if silent.all():
            raise ValueError("test: no node has samples on both sides")
        self.p_values_[~silent] = upper_p(larger[:, ~silent])
        self.p_family_[~silent] = family_p(z)
        self.p_own_[~silent] = upper_p(own[:, ~silent])
        self.p_fdr_ = benjamini_hochberg(self.p_values_)
        self.p_network_ = network_p(z)
        heard = int(np.count_nonzero(~silent))
        if heard / (self.permutations + 1) > 0.05:
            self.warnings_.append(
                f"{self.permutations} permutations are few for {heard} nodes: a single changed node cannot "
                "be found by its false discovery rate; the family-wise p-values are not concerned"
            )


def _samples(x: ArrayLike, what: str) -> Floats:
    try:
        samples = np.asarray(x, dtype=np.float64)
    except ValueError:
        raise ValueError(f"{what}: nodes have different numbers of rows; rows are times that all share, "
                         "NaN where one has no sample") from None  # fmt: skip
    if samples.ndim == 2:
        samples = samples[:, :, None]
    if samples.ndim != 3 or not samples.size:
        raise ValueError(f"{what}: expected an (N, n, d) array with samples, got shape {samples.shape}")
    if np.isinf(samples).any():
        v, row, k = np.argwhere(np.isinf(samples))[0]
        raise ValueError(f"{what}[{v}, {row}, {k}] is {samples[v, row, k]}: values must be finite or missing")
    return samples
