"""The concave dual behind sparse multi-scale models: one multiplier per sample (Peifer 2021, Ch. 2 to 4).

    max_lam  - fit*(lam) - h*(|lam|) - 1/2 sum_j q_j [ (K' lam)_j^2 - 2 gamma ]_+

The inner minimiser is the threshold rule (2.15): alpha_j = (K' lam)_j where that exceeds sqrt(2 gamma) in
modulus, else 0. The document ascends in (lam, mu) by supergradients; with mu = |lam| / (2 tau) put in, its
best value, what is left is smooth but for kinks, and L-BFGS-B solves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from estimators.core.base import check_range
from estimators.core.types import Floats
from estimators.sparse.relaxation import Relaxation

GRADIENT_TOL = 1e-3  # of the projected gradient: implies a relative gap of the same order at gamma = 0
GAP_TOL = 1e-3  # relative
GAIN_TOL = 1e-5  # with kinks the gradient stays away from 0: a restart must not raise the dual by more
RESTARTS = 2
FEASIBLE = 1e-2  # of its own size, by which a hard constraint may be missed
HARD_GAP = 5e-3  # relative; of a hard fit, whose coefficients are solved once more on their support


class FitTerm(Protocol):
    """How samples enter the dual, in variables v >= 0 or free, with multipliers lam(v)."""

    n_variables: int
    signed: bool  # v may be negative
    size: float  # of a constraint: what a violation is compared with

    def multipliers(self, v: Floats) -> Floats:
        """lam (N,)."""
        ...

    def back(self, g: Floats) -> Floats:
        """Gradient in v of lam(v) . g."""
        ...

    def cost(self, v: Floats) -> tuple[float, Floats]:
        """fit*, and its gradient in v."""
        ...

    def violation(self, f: Floats) -> Floats:
        """How far each constraint is missed by the values f (N,) of the model."""
        ...

    def loss(self, f: Floats) -> float:
        """Primal fit term, for fits that are a loss and not a constraint."""
        ...


class Tube:
    """|y_n - f(x_n)| <= tau: (2.25) with mu eliminated. v = (lam+, lam-)."""

    signed = False

    def __init__(self, y: Floats, tau: float) -> None:
        check_range("tau", tau, 0.0)
        self.y, self.tau, self.n_variables = y, tau, 2 * len(y)
        self.size = tau or float(np.abs(y).max(initial=0.0)) or 1.0

    def multipliers(self, v: Floats) -> Floats:
        return v[: len(self.y)] - v[len(self.y) :]

    def back(self, g: Floats) -> Floats:
        return np.concatenate([g, -g])

    def cost(self, v: Floats) -> tuple[float, Floats]:
        return float(self.tau * v.sum() - self.multipliers(v) @ self.y), self.tau - self.back(self.y)

    def violation(self, f: Floats) -> Floats:
        return np.maximum(np.abs(self.y - f) - self.tau, 0.0)

    def loss(self, f: Floats) -> float:
        return 0.0


class Margin:
    """y_n f(x_n) >= 1 - eps for classes +-1 (3.2). v = nu = lam / N of the document, which is scale-free."""

    signed = False

    def __init__(self, y: Floats, eps: float) -> None:
        self.y, self.eps, self.n_variables, self.size = y, eps, len(y), 1.0 - eps

    def multipliers(self, v: Floats) -> Floats:
        return v * self.y

    def back(self, g: Floats) -> Floats:
        return g * self.y

    def cost(self, v: Floats) -> tuple[float, Floats]:
        return float(-(1.0 - self.eps) * v.sum()), np.full(len(v), -(1.0 - self.eps))

    def violation(self, f: Floats) -> Floats:
        return np.maximum(1.0 - self.eps - self.y * f, 0.0)

    def loss(self, f: Floats) -> float:
        return 0.0


class Quadratic:
    """kappa (1/2 c_n f_n^2 - b_n f_n) summed: the loss of a relative density ratio 1 + f."""

    signed = True

    def __init__(self, b: Floats, c: Floats, kappa: float) -> None:
        self.b, self.c, self.kappa, self.n_variables, self.size = b, c, kappa, len(b), 1.0

    def multipliers(self, v: Floats) -> Floats:
        return v

    def back(self, g: Floats) -> Floats:
        return g

    def cost(self, v: Floats) -> tuple[float, Floats]:
        miss = (self.kappa * self.b - v) / (self.kappa * self.c)
        return float(0.5 * miss @ (self.kappa * self.b - v)), -miss

    def violation(self, f: Floats) -> Floats:
        return np.zeros(len(f))

    def loss(self, f: Floats) -> float:
        return float(self.kappa * (0.5 * self.c * f - self.b) @ f)


@dataclass(frozen=True)
class DualSolution:
    """Where the solver ended. Without ``converged`` neither sparsity nor critical samples mean anything.

    A hard fit has converged only if it keeps its constraints (but for FEASIBLE of their size) at a primal
    value that is the dual one (but for HARD_GAP), both computed from the coefficients that are handed out.
    """

    variables: Floats  # for a warm start
    multipliers: Floats  # lam (N,)
    alpha: Floats  # (G,) the model
    thresholded: Floats  # (G,) (2.15) of the multipliers, where peaks are sought; alpha but in hard fits
    fitted: Floats  # f(x_n) (N,)
    slack: Floats  # u (N,): how far each constraint is relaxed; of a hard fit, by how much it is missed
    gamma: float
    dual: float
    primal: float
    gradient: float  # projected, largest entry
    n_iter: int
    converged: bool


def threshold(coefficient: Floats, gamma: float) -> Floats:
    """(2.15): nothing between 0 and sqrt(2 gamma) is worth its support."""
    return np.where(np.abs(coefficient) > np.sqrt(2.0 * gamma), coefficient, 0.0)


def solve_dual(K: Floats, q: Floats, fit: FitTerm, gamma: float, relaxation: Relaxation | None = None,
               max_iter: int = 400, start: Floats | None = None) -> DualSolution:  # fmt: skip
    """Solve for the design K (N, G) with measure q (G,); ``start`` are variables of an earlier solution.

    L-BFGS-B can report success far from the solution, so the projected gradient is checked and the solver
    started again from its end, twice at most. At kinks of the dual (2.15) leaves some coefficients undecided,
    and a hard fit misses constraints however well the dual is solved: its coefficients are solved once more
    on their support, where there are no kinks.
    """
    from scipy.optimize import minimize  # megabytes that a daemon without incidents does without

    check_range("gamma", gamma, 0.0)
    relaxation = relaxation or Relaxation.hard()
    curvature = relaxation.curvature
    gram = (K * q) @ K.T if gamma == 0.0 else None  # N^2 instead of 2 N G per iteration

    def negative(v: Floats) -> tuple[float, Floats]:
        lam = fit.multipliers(v)
        if gram is not None:
            f = gram @ lam
            value = 0.5 * float(lam @ f)
        else:
            alpha = threshold(lam @ K, gamma)
            on = alpha != 0.0
            f = K @ (q * alpha)
            value = 0.5 * float(q[on] @ (alpha[on] ** 2 - 2.0 * gamma))
        cost, gradient = fit.cost(v)
        value += cost + relaxation.conjugate(lam)
        return value, gradient + fit.back(f if np.isinf(curvature) else f + lam / curvature)

    low, high = (-np.inf if fit.signed else 0.0), relaxation.cap
    options: dict[str, Any] = {"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 1e-14,
                               "gtol": 1e-7}  # the default ftol stops far too early  # fmt: skip
    v = np.zeros(fit.n_variables) if start is None else np.clip(start, low, high)
    value, n_iter, size, converged = np.inf, 0, np.inf, False
    for attempt in range(1 + RESTARTS):
        result = minimize(negative, v, jac=True, method="L-BFGS-B", bounds=[(low, high)] * len(v),
                          options=options)  # fmt: skip
        gained, v, value = value - float(result.fun), result.x, float(result.fun)
        n_iter += int(result.nit)
        step = v - result.jac
        size = float(np.abs(v - np.clip(step, low, high)).max(initial=0.0))
        kinked = gamma > 0.0 and attempt > 0 and gained <= GAIN_TOL * abs(value)
        converged = size <= GRADIENT_TOL or kinked
        if converged:
            break
    lam = fit.multipliers(v)
    alpha = threshold(lam @ K, gamma)
    thresholded = alpha
    if relaxation.is_hard and gamma > 0.0 and alpha.any() and not fit.signed:
        alpha, more = _on_support(K, q, fit, alpha, v, max_iter)
        n_iter += more
    fitted = K @ (q * alpha)
    slack = fit.violation(fitted)  # with it the primal point is feasible, so that primal >= dual, always
    on = alpha != 0.0
    priced = 0.0 if relaxation.is_hard else float(relaxation.price(slack).sum())
    primal = float(q[on] @ (0.5 * alpha[on] ** 2 + gamma)) + priced + fit.loss(fitted)
    if relaxation.is_hard and not fit.signed:
        kept = float(slack.max(initial=0.0)) <= FEASIBLE * fit.size
        converged = kept and abs(primal + value) <= HARD_GAP * abs(value)
    else:  # nearly singular data keep the gradient away from 0, too; the gap certifies
        converged = converged or primal + value <= GAP_TOL * abs(value)
    return DualSolution(v, lam, alpha, thresholded, fitted, slack, gamma, -value, primal, size, n_iter,
                        converged)  # fmt: skip


def _on_support(K: Floats, q: Floats, fit: FitTerm, alpha: Floats, v: Floats, max_iter: int
                ) -> tuple[Floats, int]:  # fmt: skip
    """The hard fit of least norm with the support of ``alpha``, and the iterations it took."""
    on = np.flatnonzero(alpha)
    found = solve_dual(K[:, on], q[on], fit, 0.0, Relaxation.hard(), max_iter, v)
    missed = fit.violation(K[:, on] @ (q[on] * alpha[on]))
    if found.slack.max() > missed.max():  # the support cannot keep the constraints: say what there is
        return alpha, found.n_iter
    solved = np.zeros_like(alpha)
    solved[on] = found.alpha
    return solved, found.n_iter


def solve_relative(K: Floats, q: Floats, fit: FitTerm, rho: float, relaxation: Relaxation | None = None,
                   max_iter: int = 400) -> DualSolution:  # fmt: skip
    """gamma from its scale-free form: sqrt(2 gamma) = rho max |alpha| of the dense solution, then warm."""
    check_range("rho", rho, 0.0, 1.0, open_high=True)
    dense = solve_dual(K, q, fit, 0.0, relaxation, max_iter)
    gamma = 0.5 * (rho * float(np.abs(dense.alpha).max(initial=0.0))) ** 2
    return dense if gamma == 0.0 else solve_dual(K, q, fit, gamma, relaxation, max_iter, dense.variables)
