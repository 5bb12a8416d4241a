"""Each node's samples in units of its own quiet spread, streamed after the learning period.

The steps, in this order; all but ``scale`` and ``clip`` are optional:

    seasonal     u = x - profile(time)                         per node and component, see seasonal.py
    scale        w = (u - centre) / scale                      robust, see robust.py
    difference   v = w_t - w_{t-lag}, scaled again             lag in samples of the node
    whiten       e = v - sum_j a_j v_{t-j}, scaled again       autoregression, see whiten.py
    clip         z within +-clip                               counted; before whitening too
    embed        (z_t, z_{t-1}, ..., z_{t-k+1})                d components become d k

Differencing shows changes of slope and hides lasting changes of level; whitening makes samples nearly
independent, but a change of level shrinks to its (1 - sum a)th part. How each step is learnt: quiet.py.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector.lags import Lags
from detector.quiet import FAR, PreprocessSettings, Quiet, learn
from detector.robust import SOURCES
from detector.samples import Floats, Nodes
from detector.seasonal import at_time

__all__ = ["Preprocess", "PreprocessSettings"]

_ARRAYS = ("learnt", "centre", "scale", "source", "profile", "centre_difference", "scale_difference", "ar",
           "order", "centre_white", "scale_white")  # fmt: skip
_WORDS = {
    "mad": "median absolute deviation",
    "range": "10 to 90 % range, since more than half of the values are equal",
    "sd": "standard deviation, since nearly all values are equal",
    "peers": "median of the other nodes, since this one was constant",
    "unit": "1, since nothing varied",
}


class Preprocess:
    """`learn` once, then `apply` layer by layer."""

    def __init__(self, settings: PreprocessSettings | None = None) -> None:
        self.settings = settings or PreprocessSettings()
        self._quiet: Quiet | None = None

    def learn(self, X: ArrayLike, times: ArrayLike | None = None) -> Preprocess:
        """Learn from X (T, N, d), NaN = missing, at ``times`` (T,), which a seasonal profile needs."""
        self._begin(learn(self.settings, X, times))
        return self

    def _begin(self, quiet: Quiet) -> None:
        self._quiet = quiet
        n_nodes, dim = quiet.centre.shape
        self.clips_: NDArray[np.int64] = np.zeros(n_nodes, np.int64)  # samples clipped, per node
        self._lags = {
            "difference": Lags(n_nodes, quiet.lag, dim),
            "whiten": Lags(n_nodes, len(quiet.ar), dim),
            "embed": Lags(n_nodes, self.settings.embed - 1, dim),
        }

    @property
    def quiet_(self) -> Quiet:
        """Everything learnt."""
        if self._quiet is None:
            raise RuntimeError("preprocess: call learn or restore first")
        return self._quiet

    @property
    def dim_out(self) -> int:
        """Components of z."""
        return int(self.quiet_.centre.shape[1]) * self.settings.embed

    @property
    def warnings_(self) -> list[str]:
        return self.quiet_.warnings

    @property
    def centre_(self) -> Floats:
        """(N, d) quiet level in original units, the season removed."""
        return self.quiet_.centre

    @property
    def scale_(self) -> Floats:
        """(N, d) original units per unit of z, for what z measures: a level, a difference, an innovation."""
        q = self.quiet_
        return q.scale * q.scale_difference * q.scale_white

    @property
    def level_per_z_(self) -> Floats:
        """(N, d) the lasting change of level, in original units, that moves z by one; NaN if none does."""
        left = 1.0 - self.quiet_.ar.sum(axis=0)
        none = (left < 1e-6) | (self.quiet_.lag > 0)
        return np.where(none, np.nan, self.scale_ / np.where(none, 1.0, left))

    @property
    def plain(self) -> bool:
        """Whether values are only centred and scaled (and clipped): each then has a way back."""
        q = self.quiet_
        return not (q.period or q.lag or q.order.any()) and self.settings.embed == 1

    def apply(self, nodes: Nodes, values: Floats, time: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
        """z (k, d') and valid (k,) for one new sample of each of the distinct ``nodes`` (k,).

        ``time`` is one for all or (k,). Invalid, with z = 0: while lags fill after a restart, nodes of which
        nothing was learnt, and values that are not finite (these leave no trace).
        """
        q, clip = self.quiet_, self.settings.clip
        valid: NDArray[np.bool_] = q.learnt[nodes] & np.isfinite(values).all(axis=1)
        at = np.flatnonzero(valid)  # positions still in the running; each step with lags may lose some
        node = nodes[at]
        v = self._scaled(node, values[at], np.broadcast_to(np.asarray(time), len(nodes))[at])
        if q.lag:
            lags, w = self._lags["difference"], v
            v = (w - lags.oldest(node) - q.centre_difference[node]) / q.scale_difference[node]
            full = lags.full(node)
            lags.push(node, w)
            at, node, v = at[full], node[full], v[full]
        wild: NDArray[np.bool_] = np.asarray((np.abs(v) > clip).any(axis=1))
        v = np.clip(v, -clip, clip)
        if len(q.ar):
            lags = self._lags["whiten"]
            e = v - np.einsum("jkd,kjd->kd", q.ar[:, node], lags.latest(node))
            full = lags.count[node] >= q.order[node].max(axis=1)
            lags.push(node, v)
            at, node, wild = at[full], node[full], wild[full]
            v = (e[full] - q.centre_white[node]) / q.scale_white[node]
            wild |= (np.abs(v) > clip).any(axis=1)
            v = np.clip(v, -clip, clip)
        self.clips_[node[wild]] += 1
        if self.settings.embed > 1:
            lags = self._lags["embed"]
            whole = np.concatenate([v[:, None], lags.latest(node)], axis=1).reshape(len(v), self.dim_out)
            full = lags.full(node)
            lags.push(node, v)
            at, v = at[full], whole[full]
        z = np.zeros((len(nodes), self.dim_out))
        z[at] = v
        valid[:] = False
        valid[at] = True
        return z, valid

    def _scaled(self, node: Nodes, values: Floats, time: Floats) -> Floats:
        q = self.quiet_
        with np.errstate(over="ignore"):
            v = values - q.centre[node]
            if q.period:
                v -= at_time(q.profile, node, time, q.period)
            return np.clip(v / q.scale[node], -FAR, FAR)

    def levels(self, nodes: Nodes, values: Floats, times: Floats) -> Floats:
        """(k, d) after the seasonal and scale steps alone; NaN where missing, or of nodes not learnt."""
        return np.where(self.quiet_.learnt[nodes, None], self._scaled(nodes, values, times), np.nan)

    def transform(self, X: ArrayLike, times: ArrayLike | None = None) -> Floats:
        """Z (T, N, d') of a history (T, N, d), NaN where invalid; the stream's own lags are not touched."""
        x = np.asarray(X, dtype=np.float64)
        clock = np.arange(len(x), dtype=np.float64) if times is None else np.asarray(times, dtype=np.float64)
        twin = Preprocess(self.settings)
        twin._begin(self.quiet_)
        nodes = np.arange(x.shape[1], dtype=np.int32)
        Z = np.full((*x.shape[:2], self.dim_out), np.nan)
        for row, values, now in zip(Z, x, clock, strict=True):
            z, valid = twin.apply(nodes, values, now)
            row[valid] = z[valid]
        return Z

    def adopt(self, nodes: Nodes, X: Floats, times: ArrayLike | None = None) -> None:
        """Learn ``nodes`` from their own X (T, k, d), with the steps that were chosen for the others."""
        q = self.quiet_
        steps = replace(self.settings, difference=q.lag, whiten="aic" if len(q.ar) else 0)
        other = learn(steps, X, times)
        for name in _ARRAYS:
            if name == "ar":
                q.ar[:, nodes] = other.ar[: len(q.ar)]
            else:
                getattr(q, name)[nodes] = getattr(other, name)
        self.restart(nodes)

    def restart(self, nodes: Nodes) -> None:
        """Forget the lags of those nodes, as after a gap."""
        for lags in self._lags.values():
            lags.restart(nodes)

    def inspect(self, node: int) -> dict[str, Any]:
        """What is done to one node, in words and original units; lists have one entry per component."""
        q = self.quiet_
        if not q.learnt[node]:
            return {"learnt": False, "why": "too few samples in the learning period"}
        said: dict[str, Any] = {
            "learnt": True,
            "centre": q.centre[node].tolist(),
            "scale": q.scale[node].tolist(),
            "scale from": [_WORDS[SOURCES[source]] for source in q.source[node]],
            "samples clipped": int(self.clips_[node]),
        }
        if q.period:
            said["seasonal period, s"] = q.period
            said["seasonal swing"] = np.ptp(q.profile[node], axis=0).tolist()
        if q.lag:
            said["difference, lag in samples"] = q.lag
        if len(q.ar):
            said["autoregression"] = [
                q.ar[: q.order[node, c], node, c].tolist() for c in range(q.centre.shape[1])
            ]
        if self.settings.embed > 1:
            said["vectors put together"] = self.settings.embed
        return said

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and JSON from which `restore` continues exactly."""
        q = self.quiet_
        arrays = {name: getattr(q, name).copy() for name in _ARRAYS} | {"clips": self.clips_.copy()}
        for step, lags in self._lags.items():
            arrays |= {f"{step}_{name}": array for name, array in lags.state().items()}
        meta = {
            "settings": asdict(self.settings),
            "period": q.period,
            "lag": q.lag,
            "warnings": list(q.warnings),
        }
        return arrays, meta

    @classmethod
    def restore(
        cls, arrays: dict[str, Any], meta: dict[str, Any], rows: ArrayLike | None = None
    ) -> Preprocess:
        """Continue from `state`, with the settings under which it was learnt.

        ``rows`` (N',) says which of the old nodes each node was, -1 for a new one: nothing is known of it.
        """
        made = cls(PreprocessSettings(**meta["settings"]))
        n_old = len(arrays["learnt"])
        row = np.arange(n_old) if rows is None else np.asarray(rows, dtype=np.intp)
        old, new = row[row >= 0], np.flatnonzero(row >= 0)
        dim, bins, order = arrays["centre"].shape[1], arrays["profile"].shape[1], len(arrays["ar"])
        quiet = Quiet.unknown(len(row), dim, bins, order)
        quiet.period, quiet.lag, quiet.warnings = (
            float(meta["period"]),
            int(meta["lag"]),
            list(meta["warnings"]),
        )
        for name in _ARRAYS:
            if name == "ar":
                quiet.ar[:, new] = arrays["ar"][:, old]
            else:
                getattr(quiet, name)[new] = arrays[name][old]
        made._begin(quiet)
        made.clips_[new] = arrays["clips"][old]
        for step, lags in made._lags.items():
            for name in ("ring", "head", "count"):
                getattr(lags, name)[new] = arrays[f"{step}_{name}"][old]
        return made
