"""Each node's samples in units of its own spread: the steps one after the other.

    seasonal     u = x - level - profile(time)                 per node and component
    scale        w = (u - centre) / scale                      robust
    screen       isolated corrupt readings are held back       despiking
    difference   v = w_t - w_{t-lag}, scaled again             lag in samples of the node
    clip         v within +-clip                               counted
    whiten       e = v - sum_j a_j v_{t-j}, scaled again       autoregression
    embed        (z_t, z_{t-1}, ..., z_{t-k+1})                d components become d k

All but ``scale`` and ``clip`` are optional. Each is a file in steps/; other packages may bring more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step, step_classes
from detector.preprocessing.blocks import MIN_SAMPLES, Blocks
from detector.preprocessing.steps.screen import Screen
from detector.preprocessing.steps.seasonal import Seasonal
from detector.settings.preprocessing import PreprocessSettings
from detector.stateful import Arrays, Meta, Rows, part, under
from estimators.core.graph import Graph
from estimators.core.types import Floats, Nodes
from estimators.timeseries.robust_scale import SOURCES, centre_and_scale, quantiles

UNCUT = 1e6  # the largest clip there is
LEAST_SCALE = 1e-3  # of the scale before: a node that stands still keeps what it had
USUAL = (0.05, 0.95)  # quantiles of the spread of quiet stretches between which a spread is nothing new


class Preprocessor:
    """`learn` once, then `stream` layer by layer. ``window``: samples of the longest test window."""

    def __init__(self, settings: PreprocessSettings | None = None, window: int = 200) -> None:
        self.settings, self.window = settings or PreprocessSettings(), window
        self.steps: dict[str, Step] = {}  # all, in order; empty before anything is learnt
        self.learnt: NDArray[np.bool_] = np.zeros(0, np.bool_)  # (N,) whether the node had enough samples
        self.usual: Floats = np.ones((2, 0, 0))  # (2, N, d) spread of short stretches: the least, the most
        self.warnings: list[str] = []
        self._graph: Graph | None = None
        self._active: list[Step] = []

    def _build(self, n_nodes: int, dim: int) -> None:
        self.learnt = np.zeros(n_nodes, np.bool_)
        self.usual = np.ones((2, n_nodes, dim))
        self.steps = {}
        for kind in step_classes(self.settings.steps):
            made = self.steps[kind.name] = kind(self.settings, Shape(n_nodes, dim, self.window))
            dim = made.dim_out
        if self._graph is not None:
            self.link(self._graph)

    def link(self, graph: Graph) -> None:
        """The links of the network: some steps ask the neighbours."""
        self._graph = graph
        for step in self.steps.values():
            step.link(graph)

    # --------------------------------------------------------------------------------------- learning

    def learn(self, X: ArrayLike, times: ArrayLike | None = None) -> Preprocessor:
        """From X (T, N, d), NaN = missing, at ``times`` (T,), which a seasonal profile needs."""
        self._learn_cleaned(X, times)
        self._settle()
        return self

    def learn_views(
        self, X: ArrayLike, times: ArrayLike | None = None
    ) -> tuple[Floats, Floats, Floats | None]:
        """`learn`; X without what the steps that clean have dropped, and its `transform_views`.

        Here, what was learnt from a part of X does not flatter that part: thresholds come from these values.
        """
        cleaned = self._learn_cleaned(X, times)
        Z, levels = self.transform_views(cleaned, times)
        self._settle()
        return cleaned, Z, levels

    def _settle(self) -> None:
        for step in self.steps.values():
            step.settle()

    def _learn_cleaned(self, X: ArrayLike, times: ArrayLike | None = None) -> Floats:
        blocks = Blocks(X, times)
        self._build(*blocks.x.shape[1:])
        self._fit(blocks)
        screen = self.steps["screen"]
        if isinstance(screen, Screen) and screen.active:
            blocks.steps = self._before(screen)
            cleaned = Blocks(screen.clean(blocks), times)
            self._fit(cleaned, but=screen)  # corrupt readings are no part of the baseline
            screen.rescale(self._scaled)
            blocks = cleaned
        self.warnings = blocks.warnings
        return blocks.x

    def learn_variation(self, Z: Floats, stretch: int) -> None:
        """How much the spread of ``stretch`` ticks varies in the history Z (T, N, d') as preprocessed.

        A new normal is learnt from so few. What is correlated, or is restless by day and calm by night, has a
        spread of its own in each of them, and that alone is no new normal.
        """
        d = self.usual.shape[2]
        starts = range(0, max(len(Z) - stretch, 0) + 1, max(stretch // 2, 1))
        found = []
        for start in starts:
            _, scale, source = centre_and_scale(Z[start : start + stretch, :, :d])
            found.append(np.where(source == SOURCES.index("unit"), np.nan, scale))
        spreads = quantiles(np.array(found), USUAL)
        self.usual = np.where(np.isfinite(spreads), spreads, 1.0)

    def _fit(self, blocks: Blocks, like: Mapping[str, Step] | None = None, but: Step | None = None) -> None:
        self.learnt = blocks.learnt
        for name, step in self.steps.items():
            blocks.steps = self._before(step)
            if step is not but:
                step.fit(blocks, None if like is None else like[name])
        self._active = [step for step in self.steps.values() if step.active]
        if unknown := int(np.count_nonzero(~self.learnt)):
            blocks.warnings.append(
                f"{unknown} of {len(self.learnt)} nodes have fewer than {MIN_SAMPLES} samples to learn from: "
                "nothing can be said about them"
            )

    def _before(self, step: Step) -> list[Step]:
        steps = list(self.steps.values())
        return [other for other in steps[: steps.index(step)] if other.active]

    def _scaled(self, layer: Columns) -> Columns:
        """As the steps before the one that cleans leave it."""
        for step in self._before(self.steps["screen"]):
            (layer,) = step.apply(layer)
        return layer

    def adopt(self, nodes: Nodes, X: Floats, times: ArrayLike | None = None) -> None:
        """Learn ``nodes`` from their own X (T, k, d), with what was chosen for the others."""
        other = Preprocessor(self.settings, self.window)
        blocks = Blocks(X, times)
        other._build(*blocks.x.shape[1:])
        other._fit(blocks, like=self.steps)
        self.learnt[nodes] = other.learnt
        for step in self._active:
            step.adopt(nodes, other.steps[step.name])
            if not step.cleans:
                step.restart(nodes)

    def normal(self, v: int) -> Floats:
        """(4, d) what `restandardise` changes of node v; for `put_normal`."""
        return np.stack([array[v] for array in self._normal()])

    def put_normal(self, v: int, normal: Floats) -> None:
        for array, row in zip(self._normal(), normal, strict=True):
            array[v] = row

    def _normal(self) -> list[Floats]:
        scale: Any = self.steps["scale"]
        season: Any = self.steps["seasonal"]
        return [scale.centre, scale.offset, scale.scale, season.level]

    def standard(self, v: int, normal: Floats, X: Floats, times: Floats) -> Floats:
        """z (T, d) of samples X (T, d) of node v under ``normal``, not cut; NaN while lags fill."""
        twin = Preprocessor(self.settings, self.window)
        twin.learnt = self.learnt
        twin.steps = {name: step.fresh() for name, step in self.steps.items()}
        free = self.settings.model_copy(update={"clip": UNCUT})
        for name, arrays in (("scale", ("centre", "offset", "scale")), ("seasonal", ("level",))):
            for array in arrays:
                setattr(twin.steps[name], array, getattr(twin.steps[name], array).copy())
        for step in twin.steps.values():
            step.settings = free
        twin._active = [step for step in twin.steps.values() if step.active and step.dim_out == X.shape[1]]
        twin.put_normal(v, normal)
        Z = np.full(X.shape, np.nan)
        node = np.array([v], np.int32)
        for out, x, time in zip(Z, X, times, strict=True):
            for layer in twin.stream(Columns(node, np.array([time]), x[None]), cleaned=True):
                out[:] = layer.values[0]
        return Z

    def restandardise(self, v: int, X: Floats, times: Floats) -> None:
        """Centre and scale of node v from samples X (T, d) of its new normal; other steps stay as learnt."""
        centre, scale, _ = centre_and_scale(self.standard(v, self.normal(v), X, times)[:, None])
        scales: Any = self.steps["scale"]
        season = self.steps["seasonal"]
        _, per_z = self.to_units()
        shift = np.nan_to_num(per_z[v, : X.shape[1]] * centre[0])  # 0 where no level moves z
        least, most = self.usual[:, v]
        ratio = np.where(scale[0] > most, scale[0] / most, np.minimum(scale[0] / least, 1.0))
        known = np.isfinite(scale[0]) & (scale[0] > LEAST_SCALE)
        scales.centre[v] += shift
        (season.level if isinstance(season, Seasonal) and season.active else scales.offset)[v] += shift
        scales.scale[v] *= np.where(known, ratio, 1.0)
        self.restart(np.array([v], np.int32))

    # ------------------------------------------------------------------------------------- the stream

    def stream(self, layer: Columns, cleaned: bool = False) -> list[Columns]:
        """What may enter the windows after ``layer``, in order; ``cleaned``: it is part of a learnt history.

        Left out: samples while lags fill after a restart, those of nodes of which nothing was learnt, and
        values that are not finite (these leave no trace).
        """
        return self.views(layer, cleaned)[0]

    def views(self, layer: Columns, cleaned: bool = False) -> tuple[list[Columns], list[Columns]]:
        """`stream`, and the plain levels: scaled and cleaned, neither differenced nor whitened.

        Differencing and whitening hide a lasting change of level, so levels are a view of their own. There
        are none where the values are levels already.
        """
        if not self._active:
            raise RuntimeError("preprocess: call learn or restore first")
        layer = layer.kept(self.learnt[layer.nodes] & np.isfinite(layer.values).all(axis=1))
        layers, levels = [layer], [layer]
        for step in self._active:
            if cleaned and step.cleans:
                continue
            if len(layers) == 1:
                layers = step.apply(layers[0])
            else:
                layers = [made for one in layers for made in step.apply(one)]
            if step.keeps_level:
                levels = layers
        kept = [layer for layer in layers if len(layer)]
        return kept, [] if self.level else [layer for layer in levels if len(layer)]

    @property
    def level(self) -> bool:
        """Whether the values themselves are levels."""
        return all(step.keeps_level or step.name == "clip" for step in self._active)

    def apply(self, nodes: Nodes, values: Floats, time: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
        """z (k, d') and valid (k,) for a layer that was cleaned; z is 0 where invalid."""
        times = np.broadcast_to(np.asarray(time, np.float64), len(nodes))
        z, valid = np.zeros((len(nodes), self.dim_out)), np.zeros(len(nodes), np.bool_)
        place = np.full(len(self.learnt), -1, np.intp)
        place[nodes] = np.arange(len(nodes))
        for layer in self.stream(Columns(nodes, times, values), cleaned=True):
            at = place[layer.nodes]
            z[at], valid[at] = layer.values, True
        return z, valid

    def transform(self, X: ArrayLike, times: ArrayLike | None = None) -> Floats:
        """Z (T, N, d') of a history (T, N, d), NaN where invalid; the stream's own lags are not touched."""
        return self.transform_views(X, times)[0]

    def transform_views(self, X: ArrayLike, times: ArrayLike | None = None) -> tuple[Floats, Floats | None]:
        """`transform`, and the plain levels (T, N, d), None where Z is just that."""
        x = np.asarray(X, dtype=np.float64)
        clock = np.arange(len(x), dtype=np.float64) if times is None else np.asarray(times, dtype=np.float64)
        twin = Preprocessor(self.settings, self.window)
        twin.learnt = self.learnt
        twin.steps = {name: step.fresh() for name, step in self.steps.items()}
        twin._active = [step for step in twin.steps.values() if step.active]
        nodes = np.arange(x.shape[1], dtype=np.int32)
        Z = np.full((*x.shape[:2], self.dim_out), np.nan)
        Y = None if self.level else np.full(x.shape, np.nan)
        for t, (values, now) in enumerate(zip(x, clock, strict=True)):
            made, levels = twin.views(Columns(nodes, np.full(len(nodes), now), values), cleaned=True)
            for layer in made:
                Z[t, layer.nodes] = layer.values
            if Y is not None:
                for layer in levels:
                    Y[t, layer.nodes] = layer.values
        return Z, Y

    def restart(self, nodes: Nodes) -> None:
        """Forget what came before, as after a gap."""
        for step in self._active:
            step.restart(nodes)

    # ------------------------------------------------------------------------------------------ views

    @property
    def chosen(self) -> list[str]:
        """What learning has chosen by itself, and why: a sentence per step."""
        return [step.chosen for step in self.steps.values() if step.chosen]

    @property
    def dim_out(self) -> int:
        """Components of z."""
        if not self.steps:
            raise RuntimeError("preprocess: call learn or restore first")
        return list(self.steps.values())[-1].dim_out

    @property
    def plain(self) -> bool:
        """Whether values are only centred and scaled (and clipped): each then has a way back."""
        return all(step.plain for step in self._active)

    @property
    def counts(self) -> dict[str, int]:
        """Samples by what became of them."""
        return {what: n for step in self._active for what, n in step.counts.items()}

    def to_units(self) -> tuple[Floats, Floats]:
        """(N, d') each: a lasting level of z is centre + scale z in original units; NaN: no way back."""
        shape = next(iter(self.steps.values())).shape
        centre, scale = np.zeros((shape.n_nodes, shape.dim)), np.ones((shape.n_nodes, shape.dim))
        for step in self._active:
            centre, scale = step.to_units(centre, scale)
        return centre, scale

    def components(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of the components of z."""
        made = tuple(names)
        for step in self._active:
            made = step.components(made)
        return made

    def describe(self, v: int) -> dict[str, Any]:
        """What is done to node v, in words and original units; lists have one entry per component."""
        if not self.learnt[v]:
            return {"learnt": False, "why": "too few samples in the learning period"}
        said: dict[str, Any] = {"learnt": True}
        for step in self._active:
            said |= step.describe(v)
        return said

    # ------------------------------------------------------------------------------------------ state

    def state(self) -> tuple[Arrays, Meta]:
        arrays: Arrays = {"learnt": self.learnt.copy(), "usual": self.usual.swapaxes(0, 1).copy()}
        steps: Meta = {}
        for step in self._active:
            made, steps[step.name] = step.state()
            arrays |= under(step.name, made)
        dim = next(iter(self.steps.values())).shape.dim
        return arrays, {"dim": dim, "warnings": list(self.warnings), "steps": steps}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """Under the settings with which it was learnt; nothing is known of a new node."""
        self._build(len(rows), int(meta["dim"]))
        self.warnings = list(meta["warnings"])
        self.learnt[rows >= 0] = arrays["learnt"][rows[rows >= 0]]
        if "usual" in arrays:  # early states have none
            self.usual[:, rows >= 0] = arrays["usual"][rows[rows >= 0]].swapaxes(0, 1)
        for name, step in self.steps.items():
            if name in meta["steps"]:
                step.restore(part(name, arrays), meta["steps"][name], rows)
        self._active = [step for step in self.steps.values() if step.active]
        screen = self.steps["screen"]
        if isinstance(screen, Screen) and meta["steps"].get("screen", {}).get("held") == "as read":  # 0.1
            screen.rescale(self._scaled)
