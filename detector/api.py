"""The Python face: arrays in, events out.

from detector import NetworkDetector

watch = NetworkDetector(graph, alarm={"budget": "1 per 10000 ticks"})
print(watch.learn(history).text())          # (T, N, d), NaN = missing
for x in stream:                            # (N, d)
    for event in watch.update(x):
        print(event.summary)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector.events import Event
from detector.learnt import Report
from detector.network import Network
from detector.pipeline import Pipeline
from detector.samples import Columns, Sampled
from detector.settings import Settings

Floats = NDArray[np.float64]


class NetworkDetector:
    """Watches the nodes of a graph.

    ``graph``: a networkx graph, a (sparse) matrix of weights, a `Network`, or a list of names, whose links
    are then learnt. ``settings``: the groups of config.yaml by name, each a mapping. ``dim``: components per
    sample, taken from the first data if not given.
    """

    def __init__(
        self, graph: Any, *, dim: int | None = None, components: Sequence[str] | None = None, **settings: Any
    ) -> None:
        self.network, self._names = _network(graph)
        chosen = Settings.of(**settings)
        # An update is a whole tick, its time the caller's word: nothing is late, nothing too far ahead.
        self.settings = replace(chosen, align=replace(chosen.align, lateness=0.0, max_ahead=math.inf))
        self._components = components
        self._pipeline: Pipeline | None = None
        if dim is not None:
            self._begin(dim)

    def _begin(self, dim: int) -> Pipeline:
        self._pipeline = Pipeline(
            self.network, dim, self.settings, names=self._names, components=self._components
        )
        return self._pipeline

    @property
    def pipeline(self) -> Pipeline:
        if self._pipeline is None:
            raise RuntimeError("nothing seen yet: call learn or update first, or give dim")
        return self._pipeline

    def learn(
        self,
        history: ArrayLike | Sequence[Sampled],
        times: ArrayLike | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Report:
        """Learn from quiet history: an array (T, N, d) or (T, N), NaN = missing, or a sequence of samples."""
        if len(history) and hasattr(history[0], "node"):  # type: ignore[arg-type, index]
            X, clock = self._grid(history)  # type: ignore[arg-type]
            return self._for(X).learn(X, clock, progress)
        X = np.asarray(history, dtype=np.float64)
        X = X[:, :, None] if X.ndim == 2 else X
        if X.ndim != 3:
            raise ValueError(f"history: expected (T, N, d) or (T, N), got shape {X.shape}")
        return self._for(X).learn(X, None if times is None else np.asarray(times, np.float64), progress)

    def update(self, x: ArrayLike, time: float | None = None) -> list[Event]:
        """One tick of the whole network: x (N, d) or (N,), NaN = missing. ``time`` counts on by itself."""
        values = np.asarray(x, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        pipeline = self._for(values[None])
        step = self.settings.align.step
        if time is None:
            # Half a step in: the middle of the tick, so that rounding cannot move it into another.
            done = pipeline.watermark if pipeline.watermark is not None else pipeline.learnt_until
            time = 0.5 * step if done is None else (math.floor(done / step) + 1.5) * step
        seen = np.flatnonzero(~np.isnan(values).all(axis=1)).astype(np.int32)
        return pipeline.push_columns(Columns(seen, np.full(len(seen), time), values[seen])) + pipeline.flush()

    def _for(self, X: Floats) -> Pipeline:
        pipeline = self._pipeline or self._begin(X.shape[2])
        if X.shape[1:] != (pipeline.network.n_nodes, pipeline.dim):
            raise ValueError(
                f"expected ({pipeline.network.n_nodes}, {pipeline.dim}) values, got {X.shape[1:]}"
            )
        return pipeline

    def _grid(self, samples: Sequence[Sampled]) -> tuple[Floats, Floats]:
        """Samples as rows of a history, aligned as the stream will be."""
        from detector.align import Aligner

        pipeline = self._pipeline or self._begin(len(samples[0].values))
        aligner = Aligner(pipeline.names, pipeline.dim, self.settings.align)
        ticks = [*aligner.push_samples(sorted(samples, key=lambda s: s.time)), *aligner.flush()]
        layers = [layer for tick in ticks for layer in tick.layers]
        X = np.full((len(layers), pipeline.network.n_nodes, pipeline.dim), np.nan)
        times = np.array([layer.times.max() for layer in layers])
        for row, layer in zip(X, layers, strict=True):
            row[layer.nodes] = layer.values
        for t in range(1, len(times)):
            times[t] = max(times[t], np.nextafter(times[t - 1], np.inf))
        return X, times

    # ------------------------------------------------------------------------------------------- results

    @property
    def statistic(self) -> Floats:
        """(N,) node statistic; NaN: no verdict."""
        return self.pipeline.statistic

    @property
    def event_statistic(self) -> Floats:
        """(N,) statistic pooled around each node."""
        return self.pipeline.event_statistic

    @property
    def threshold(self) -> float:
        return self.pipeline.threshold

    @property
    def event_threshold(self) -> float:
        return self.pipeline.event_threshold

    @property
    def scores(self) -> Floats:
        """(N, scales) divergence of each test window from the reference."""
        return self.pipeline.scores

    @property
    def report(self) -> Report | None:
        return self.pipeline.report

    def accept(self, incident: str, time: float | None = None) -> list[Event]:
        return self.pipeline.accept(incident, self._now(time))

    def clear(self, incident: str, time: float | None = None) -> list[Event]:
        return self.pipeline.clear(incident, self._now(time))

    def label(self, incident: str, time: float | None = None, **labels: Any) -> list[Event]:
        return self.pipeline.label(incident, self._now(time), **labels)

    def _now(self, time: float | None) -> float:
        return time if time is not None else float(self.pipeline.watermark or 0.0)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON; `from_state` goes on exactly."""
        return self.pipeline.state()

    @classmethod
    def from_state(
        cls,
        graph: Any,
        arrays: dict[str, NDArray[Any]],
        meta: dict[str, Any],
        *,
        components: Sequence[str] | None = None,
        **settings: Any,
    ) -> NetworkDetector:
        """Continue from `state`, with the graph and settings it had."""
        made = cls(graph, components=components, **settings)
        made._pipeline = Pipeline.from_state(
            made.network, meta["dim"], made.settings, arrays, meta, names=made._names, components=components
        )
        return made


def _network(graph: Any) -> tuple[Network | None, list[str] | None]:
    if isinstance(graph, Network):
        return graph, None
    if isinstance(graph, nx.Graph):
        return Network.of([str(v) for v in graph.nodes], graph), None
    if isinstance(graph, list | tuple) and graph and all(isinstance(name, str) for name in graph):
        return None, list(graph)
    shape = getattr(graph, "shape", None) or np.shape(graph)
    return Network.of([str(v) for v in range(shape[0])], graph), None
