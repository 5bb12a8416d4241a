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

from estimators.base import check_range
from estimators.kernels import Array
from estimators.relaxation import Relaxation

GRADIENT_TOL = 1e-3  # of the projected gradient: implies a relative gap of the same order at gamma = 0
GAP_TOL = 1e-3  # relative
GAIN_TOL = 1e-5  # with kinks the gradient stays away from 0: a restart must not raise the dual by more
RESTARTS = 2


class FitTerm(Protocol):
    """How samples enter the dual, in variables v >= 0 or free, with multipliers lam(v)."""

    n_variables: int
    signed: bool  # v may be negative

    def multipliers(self, v: Array) -> Array:
        """lam (N,)."""
        ...

    def back(self, g: Array) -> Array:
        """Gradient in v of lam(v) . g."""
        ...

    def cost(self, v: Array) -> tuple[float, Array]:
        """fit*, and its gradient in v."""
        ...

    def violation(self, f: Array) -> Array:
        """How far each constraint is missed by the values f (N,) of the model."""
        ...

    def loss(self, f: Array) -> float:
        """Primal fit term, for fits that are a loss and not a constraint."""
        ...


class Tube:
    """|y_n - f(x_n)| <= tau: (2.25) with mu eliminated. v = (lam+, lam-)."""

    signed = False

    def __init__(self, y: Array, tau: float) -> None:
        check_range("tau", tau, 0.0)
        self.y, self.tau, self.n_variables = y, tau, 2 * len(y)

    def multipliers(self, v: Array) -> Array:
        return v[: len(self.y)] - v[len(self.y) :]

    def back(self, g: Array) -> Array:
        return np.concatenate([g, -g])

    def cost(self, v: Array) -> tuple[float, Array]:
        return float(self.tau * v.sum() - self.multipliers(v) @ self.y), self.tau - self.back(self.y)

    def violation(self, f: Array) -> Array:
        return np.maximum(np.abs(self.y - f) - self.tau, 0.0)

    def loss(self, f: Array) -> float:
        return 0.0


class Margin:
    """y_n f(x_n) >= 1 - eps for classes +-1 (3.2). v = nu = lam / N of the document, which is scale-free."""

    signed = False

    def __init__(self, y: Array, eps: float) -> None:
        self.y, self.eps, self.n_variables = y, eps, len(y)

    def multipliers(self, v: Array) -> Array:
        return v * self.y

    def back(self, g: Array) -> Array:
        return g * self.y

    def cost(self, v: Array) -> tuple[float, Array]:
        return float(-(1.0 - self.eps) * v.sum()), np.full(len(v), -(1.0 - self.eps))

    def violation(self, f: Array) -> Array:
        return np.maximum(1.0 - self.eps - self.y * f, 0.0)

    def loss(self, f: Array) -> float:
        return 0.0


class Quadratic:
    """kappa (1/2 c_n f_n^2 - b_n f_n) summed: the loss of a relative density ratio 1 + f."""

    signed = True

    def __init__(self, b: Array, c: Array, kappa: float) -> None:
        self.b, self.c, self.kappa, self.n_variables = b, c, kappa, len(b)

    def multipliers(self, v: Array) -> Array:
        return v

    def back(self, g: Array) -> Array:
        return g

    def cost(self, v: Array) -> tuple[float, Array]:
        miss = (self.kappa * self.b - v) / (self.kappa * self.c)
        return float(0.5 * miss @ (self.kappa * self.b - v)), -miss

    def violation(self, f: Array) -> Array:
        return np.zeros(len(f))

    def loss(self, f: Array) -> float:
        return float(self.kappa * (0.5 * self.c * f - self.b) @ f)


@dataclass(frozen=True)
class DualSolution:
    """Where the solver ended. Without ``converged`` neither sparsity nor critical samples mean anything."""

    variables: Array  # for a warm start
    multipliers: Array  # lam (N,)
    alpha: Array  # (G,)
    fitted: Array  # f(x_n) (N,)
    slack: Array  # u (N,): how far each constraint is relaxed; of a hard fit, by how much it is missed
    gamma: float
    dual: float
    primal: float
    gradient: float  # projected, largest entry
    n_iter: int
    converged: bool


def threshold(coefficient: Array, gamma: float) -> Array:
    """(2.15): nothing between 0 and sqrt(2 gamma) is worth its support."""
    return np.where(np.abs(coefficient) > np.sqrt(2.0 * gamma), coefficient, 0.0)


def solve_dual(K: Array, q: Array, fit: FitTerm, gamma: float, relaxation: Relaxation | None = None,
               max_iter: int = 400, start: Array | None = None) -> DualSolution:  # fmt: skip
    """Solve for the design K (N, G) with measure q (G,); ``start`` are variables of an earlier solution.

    L-BFGS-B can report success far from the solution, so the projected gradient is checked and the solver
    started again from its end, twice at most.
    """
    from scipy.optimize import minimize  # megabytes that a daemon without incidents does without

    check_range("gamma", gamma, 0.0)
    relaxation = relaxation or Relaxation.hard()
    curvature = relaxation.curvature
    gram = (K * q) @ K.T if gamma == 0.0 else None  # N^2 instead of 2 N G per iteration

    def negative(v: Array) -> tuple[float, Array]:
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
    fitted = K @ (q * alpha)
    slack = fit.violation(fitted)  # with it the primal point is feasible, so that primal >= dual, always
    on = alpha != 0.0
    priced = 0.0 if relaxation.is_hard else float(relaxation.price(slack).sum())
    primal = float(q[on] @ (0.5 * alpha[on] ** 2 + gamma)) + priced + fit.loss(fitted)
    if not relaxation.is_hard:  # nearly singular data keep the gradient away from 0, too; the gap certifies
        converged = converged or primal + value <= GAP_TOL * abs(value)
    return DualSolution(v, lam, alpha, fitted, slack, gamma, -value, primal, size, n_iter, converged)


def solve_relative(K: Array, q: Array, fit: FitTerm, rho: float, relaxation: Relaxation | None = None,
                   max_iter: int = 400) -> DualSolution:  # fmt: skip
    """gamma from its scale-free form: sqrt(2 gamma) = rho max |alpha| of the dense solution, then warm."""
    check_range("rho", rho, 0.0, 1.0, open_high=True)
    dense = solve_dual(K, q, fit, 0.0, relaxation, max_iter)
    gamma = 0.5 * (rho * float(np.abs(dense.alpha).max(initial=0.0))) ** 2
    return dense if gamma == 0.0 else solve_dual(K, q, fit, gamma, relaxation, max_iter, dense.variables)
