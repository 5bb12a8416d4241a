"""Kernel ridge regression from parts of inputs to parts of labels: the core of localized prediction.

Equation numbers are those of "Localized structured prediction" (Ciliberto, Bach and Rudi, 2018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular

from estimators.core.base import Selection, check_range
from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.structured.kernel import NOBODY, Ids, PartKernel, as_ids
from estimators.structured.leave_out import leave_groups_out, rows_of

LAMBDAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_LEAST_RIDGE = 1e-8  # duplicated parts make K singular
_ROWS = 4096  # parts in memory at a time, beside the centres


class PartRidge(Parameters):
    """Kernel ridge regression of embedded labels H (m, T) on parts F (m, D).

        g(x) = sum_j alpha_j(x) H_j,    alpha(x) = (K + m lam W^-1)^-1 v(x),    v_j(x) = K(x_j, x)    (Eq. 9)

    Never by the inverse: g(x) = B' v(x) with B = (K + m lam W^-1)^-1 H, one factorisation. Rows of H are
    one-hot labels, expectations of uncertain ones, or any other embedding; W holds importance weights. One
    more column, of ones, is carried along: its output, the *support* sum_j alpha_j(x), is near 1 among the
    training parts and falls to 0 away from them.

    Parameters
    ----------
    sigma : float > 0, default=1.0
        Kernel width.
    lam : float >= 0, default=1e-3
        Ridge.
    kernel : {"gaussian", "laplace", "linear"}, default="gaussian"
        The linear one has no width.
    identity : float >= 0, default=0.0
        kappa of the kernel K(x, x') (1 + kappa [same node]): 0 lets nodes never seen profit.
    centres : int or ndarray of shape (M, D), optional
        None: exact, O(m^3). A number: Nystroem with so many of the parts, O(m M^2). An array: these. With
        centres, the sums over parts can grow: ``partial_fit``.
    seed : int, default=0
        Of the draw of centres.

    Attributes
    ----------
    parts_ : ndarray of shape (M, D), float64
        Parts learnt from, or centres.
    nodes_ : ndarray of shape (M,), int64
        Ids of their nodes.
    B_ : ndarray of shape (M, T + 1), float64
        Coefficients.
    gram_, right_ : ndarray of shape (M, M) and (M, T + 1), float64
        Sums over the ``m_`` parts seen, where there are centres.
    selection_, left_out_
        Losses of all candidates, and estimates without the own group; after ``select``.

    References
    ----------
    C. Ciliberto, F. Bach and A. Rudi, "Localized structured prediction", 2018: Eq. 9.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import PartRidge
    >>> F = np.linspace(-2.0, 2.0, 40)[:, None]
    >>> H = np.column_stack([F[:, 0] < 0.0, F[:, 0] >= 0.0]).astype(float)  # one-hot
    >>> g, support = PartRidge(sigma=0.5).fit(F, H).embed([[-1.0], [1.0], [9.0]])
    >>> g.argmax(axis=1)[:2]
    array([0, 1])
    >>> support.round(1)
    array([1., 1., 0.])
    """

    _result = "B_"
    parts_: Floats  # (M, D) parts learnt from, or centres
    nodes_: Ids  # (M,)
    B_: Floats  # (M, T + 1)
    gram_: Floats  # (M, M) and
    right_: Floats  # (M, T + 1): sums over the m_ parts seen, where there are centres
    m_: int
    selection_: Selection  # after select
    left_out_: tuple[Floats, Floats]

    def __init__(self, *, sigma: float = 1.0, lam: float = 1e-3, kernel: str = "gaussian",
                 identity: float = 0.0, centres: int | Floats | None = None,
                 seed: int = 0) -> None:  # fmt: skip
        check_range("lam", lam, 0.0)
        if isinstance(centres, (int, np.integer)):
            check_range("centres", centres, 1)
        elif centres is not None:
            centres = as_points(centres, "centres").copy()
        self.sigma, self.lam, self.kernel, self.identity = sigma, lam, kernel, identity
        self.centres, self.seed = centres, seed
        self._K = PartKernel(kernel, sigma, identity)

    def fit(self, F: ArrayLike, H: ArrayLike, weights: ArrayLike | None = None,
            nodes: ArrayLike | None = None) -> Self:  # fmt: skip
        """Learn from parts and their labels.

        Parameters
        ----------
        F : array_like of shape (m, D)
            Parts.
        H : array_like of shape (m, T)
            Labels.
        weights : array_like of shape (m,), optional
            Importance weights; by default ones.
        nodes : array_like of shape (m,), optional
            Ids of the nodes, where the kernel knows them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the arguments do not fit together.
        """
        x, y, w, ids = _checked(F, H, weights, nodes)
        if self.centres is None:
            self.parts_, self.nodes_ = x.copy(), ids
            K = self._K(x, ids, x, ids)
            K[np.diag_indices_from(K)] += self._ridge(len(x)) / w
            self.B_ = cho_solve(cho_factor(K, lower=True, overwrite_a=True), y)
            return self
        self.parts_, self.nodes_ = self._drawn(x, ids)
        M, T = len(self.parts_), y.shape[1]
        self.gram_, self.right_, self.m_ = np.zeros((M, M)), np.zeros((M, T)), 0
        return self._add(x, y, w, ids)

    def partial_fit(self, F: ArrayLike, H: ArrayLike, weights: ArrayLike | None = None,
                    nodes: ArrayLike | None = None) -> Self:  # fmt: skip
        """Learn more parts, with the centres as they are: the same as one ``fit`` with all of them.

        Parameters
        ----------
        F : array_like of shape (m, D)
            Parts.
        H : array_like of shape (m, T)
            Labels.
        weights : array_like of shape (m,), optional
            Importance weights; by default ones.
        nodes : array_like of shape (m,), optional
            Ids of the nodes, where the kernel knows them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are no centres, or the arguments do not fit together.
        """
        if self.centres is None:
            raise ValueError("centres: none, and an exact fit cannot grow; call fit with all parts")
        if not hasattr(self, "B_"):
            return self.fit(F, H, weights, nodes)
        x, y, w, ids = _checked(F, H, weights, nodes)
        if y.shape[1] != self.right_.shape[1]:
            raise ValueError(f"H: {y.shape[1] - 1} columns, but there were {self.right_.shape[1] - 1} before")
        _check_dimension(x, self.parts_)
        return self._add(x, y, w, ids)

    def embed(self, F: ArrayLike, nodes: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Estimates of parts.

        Parameters
        ----------
        F : array_like of shape (n, D)
            Parts.
        nodes : array_like of shape (n,), optional
            Ids of their nodes.

        Returns
        -------
        g : ndarray of shape (n, T), float64
            Estimated labels.
        support : ndarray of shape (n,), float64
            1 among the parts learnt from, 0 far from all.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        self._check_fitted()
        x = as_points(F, "F")
        _check_dimension(x, self.parts_)
        ids = as_ids(nodes, len(x))
        out = np.empty((len(x), self.B_.shape[1]))
        for k in range(0, len(x), _ROWS):
            some = slice(k, k + _ROWS)
            out[some] = self._K(x[some], ids[some], self.parts_, self.nodes_) @ self.B_
        return out[:, :-1], out[:, -1]

    def leave_out(self, F: ArrayLike, H: ArrayLike, groups: ArrayLike, weights: ArrayLike | None = None,
                  nodes: ArrayLike | None = None) -> tuple[Floats, Floats]:  # fmt: skip
        """Estimates of every part by a fit without its group: all of them in closed form.

        The product m lam stays what it is with all parts. Nystroem centres stay too, those of the group among
        them.

        Parameters
        ----------
        F : array_like of shape (m, D)
            Parts.
        H : array_like of shape (m, T)
            Labels.
        groups : array_like of shape (m,)
            Which parts are left out together.
        weights : array_like of shape (m,), optional
            Importance weights; by default ones.
        nodes : array_like of shape (m,), optional
            Ids of the nodes, where the kernel knows them.

        Returns
        -------
        g : ndarray of shape (m, T), float64
        support : ndarray of shape (m,), float64
        """
        x, y, w, ids = _checked(F, H, weights, nodes)
        rows = rows_of(groups, len(x))
        out = leave_groups_out(*self._spectrum(x, ids, w), y, w, self._ridge(len(x)), rows)
        return out[:, :-1], out[:, -1]

    @classmethod
    def select(cls, F: ArrayLike, H: ArrayLike, groups: ArrayLike, *, sigmas: Sequence[float] | None = None,
               lams: Sequence[float] = LAMBDAS, weights: ArrayLike | None = None,
               nodes: ArrayLike | None = None, **params: Any) -> Self:  # fmt: skip
        """The (sigma, lam) of the least mean squared error when groups are left out; then the fit with them.

        One spectrum per width serves all lam.

        Parameters
        ----------
        F : array_like of shape (m, D)
            Parts.
        H : array_like of shape (m, T)
            Labels.
        groups : array_like of shape (m,)
            Which parts are left out together.
        sigmas : sequence of float, optional
            Candidates; by default 1, 2, 4 times sqrt(D): right for features of unit spread.
        lams : sequence of float
            Candidates.
        weights : array_like of shape (m,), optional
            Importance weights; by default ones.
        nodes : array_like of shape (m,), optional
            Ids of the nodes, where the kernel knows them.
        **params
            Parameters of the constructor that are not searched.

        Returns
        -------
        PartRidge
            ``left_out_`` holds estimates (m, T) and support (m,) without the own group.

        Raises
        ------
        ValueError
            If there is one group only.
        """
        x, y, w, ids = _checked(F, H, weights, nodes)
        rows = rows_of(groups, len(x))
        if len(rows) < 2:
            raise ValueError("groups: one group only, so that nothing is left when it is left out")
        widths = sigmas or [k * max(x.shape[1], 1) ** 0.5 for k in (1.0, 2.0, 4.0)]
        table: list[tuple[float, float, float]] = []
        least = np.inf
        for sigma in widths[:1] if params.get("kernel") == "linear" else widths:
            spectrum = cls(sigma=sigma, **params)._spectrum(x, ids, w)
            for lam in lams:
                g = leave_groups_out(*spectrum, y, w, cls(lam=lam)._ridge(len(x)), rows)
                errors = ((g[:, :-1] - y[:, :-1]) ** 2).sum(axis=1)
                table.append((sigma, lam, float(np.average(errors, weights=w))))
                if table[-1][-1] < least:
                    least, left_out = table[-1][-1], g
        selection = Selection(("sigma", "lam", "loss"), np.array(table))
        best = selection.best()
        model = cls(sigma=best["sigma"], lam=best["lam"], **params).fit(x, y[:, :-1], w, ids)
        model.selection_, model.left_out_ = selection, (left_out[:, :-1], left_out[:, -1])
        return model

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was learnt, as plain values and arrays.

        Returns
        -------
        meta : dict
            JSON-ready.
        arrays : dict of str to ndarray
        """
        self._check_fitted()
        meta = {"sigma": self.sigma, "lam": self.lam, "kernel": self.kernel, "identity": self.identity,
                "seed": self.seed, "exact": self.centres is None}  # fmt: skip
        arrays: dict[str, NDArray[Any]] = {"parts": self.parts_, "nodes": self.nodes_, "B": self.B_}
        if self.centres is not None:
            meta["m"] = self.m_
            arrays |= {"gram": self.gram_, "right": self.right_}
        return meta, arrays

    @classmethod
    def of_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The estimator that gave ``state``.

        Parameters
        ----------
        meta : mapping
        arrays : mapping of str to array_like

        Returns
        -------
        PartRidge

        Raises
        ------
        ValueError
            If it is not such a state; says what is wrong with it.
        """
        parts = as_points(arrays["parts"], "parts")
        model = cls(sigma=meta["sigma"], lam=meta["lam"], kernel=meta["kernel"], identity=meta["identity"],
                    seed=meta["seed"], centres=None if meta["exact"] else parts)  # fmt: skip
        M, B = len(parts), as_points(arrays["B"], "B")
        model.parts_, model.nodes_, model.B_ = parts, as_ids(arrays["nodes"], M), B
        if not meta["exact"]:
            model.gram_, model.right_ = as_points(arrays["gram"], "gram"), as_points(arrays["right"], "right")
            model.m_ = int(meta["m"])
            if model.gram_.shape != (M, M) or model.right_.shape != B.shape:
                raise ValueError(f"gram: shape {model.gram_.shape}, but there are {M} centres")
        if len(B) != M or B.shape[1] < 2:
            raise ValueError(f"B: shape {B.shape}, but there are {M} parts")
        return model

    def _ridge(self, m: int) -> float:
        return max(m * self.lam, _LEAST_RIDGE)

    def _drawn(self, x: Floats, ids: Ids) -> tuple[Floats, Ids]:
        """Nystroem centres: no two alike, else K_MM is singular."""
        if isinstance(self.centres, np.ndarray):
            _check_dimension(x, self.centres)
            return self.centres, np.full(len(self.centres), NOBODY)
        assert self.centres is not None
        _, first = np.unique(np.column_stack([x, ids]) if self.identity else x, axis=0, return_index=True)
        first = np.sort(first)
        if len(first) > self.centres:
            first = np.sort(np.random.default_rng(self.seed).choice(first, self.centres, replace=False))
        return x[first], ids[first]

    def _root(self, parts: Floats, nodes: Ids) -> Floats:
        """L with K_MM = L L'."""
        K = self._K(parts, nodes, parts, nodes)
        K[np.diag_indices_from(K)] += 1e-10 * len(K)
        L: Floats = cholesky(K, lower=True, overwrite_a=True)
        return L

    def _add(self, x: Floats, y: Floats, w: Floats, ids: Ids) -> Self:
        L = self._root(self.parts_, self.nodes_)
        for k in range(0, len(x), _ROWS):
            some = slice(k, k + _ROWS)
            phi = _features(L, self._K(x[some], ids[some], self.parts_, self.nodes_))
            self.gram_ = self.gram_ + phi.T @ (w[some, None] * phi)
            self.right_ = self.right_ + phi.T @ (w[some, None] * y[some])
        self.m_ += len(x)
        Q = self.gram_ + self._ridge(self.m_) * np.eye(len(L))
        self.B_ = solve_triangular(
            L, cho_solve(cho_factor(Q, lower=True), self.right_), trans="T", lower=True
        )
        return self

    def _spectrum(self, x: Floats, ids: Ids, w: Floats) -> tuple[Floats, Floats]:
        """Z (m, r), e (r,): the smoother of weighted labels is Z diag(1 / (e + ridge)) Z' for every ridge."""
        root = np.sqrt(w)[:, None]
        if self.centres is None:
            e, U = eigh(root * self._K(x, ids, x, ids) * root.T, overwrite_a=True)
            e = np.maximum(e, 0.0)
            return U * np.sqrt(e), e
        parts, nodes = self._drawn(x, ids)
        phi = root * _features(self._root(parts, nodes), self._K(x, ids, parts, nodes))
        e, V = eigh(phi.T @ phi, overwrite_a=True)
        return phi @ V, np.maximum(e, 0.0)


def _features(L: Floats, K: Floats) -> Floats:
    """Features (n, M) whose products are the Nystroem kernel: K_nM L'^-1."""
    phi: Floats = solve_triangular(L, K.T, lower=True).T
    return phi


def _check_dimension(x: Floats, parts: Floats) -> None:
    if x.shape[1] != parts.shape[1]:
        raise ValueError(f"F: {x.shape[1]} features, but the parts learnt from have {parts.shape[1]}")


def _checked(F: ArrayLike, H: ArrayLike, weights: ArrayLike | None,
             nodes: ArrayLike | None) -> tuple[Floats, Floats, Floats, Ids]:  # fmt: skip
    """Parts, labels with their column of ones, weights and ids; errors name the argument."""
    x, y = as_points(F, "F"), as_points(H, "H")
    if not len(x):
        raise ValueError("F: no part")
    if len(y) != len(x):
        raise ValueError(f"H: {len(y)} rows, but F has {len(x)}")
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(x),):
        raise ValueError(f"weights: shape {w.shape}, but F has {len(x)} rows")
    if not (np.isfinite(w) & (w > 0.0)).all():
        raise ValueError("weights: must be finite and above zero")
    return x, np.column_stack([y, np.ones(len(y))]), w, as_ids(nodes, len(x))
