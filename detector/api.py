"""The Python interface: arrays in, events out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector.alignment.samples import Columns, Sampled
from detector.engines.calibration_report import CalibrationReport
from detector.events.model import Event
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings
from estimators.core.types import Floats


class NetworkDetector:
    """Change-point detection in all nodes of a network, as the daemon does it, on arrays.

    ``learn`` calibrates on history without changes; ``update`` takes one tick of the whole network at a time
    and gives the events of it: one incident per change, however many nodes it touches, with false alarms at
    the rate of ``alarm.budget``. No thread, no clock, no file: the same samples give the same events.

    Parameters
    ----------
    graph : networkx.Graph, array_like or sparse matrix of shape (N, N), Network, or list of N str
        The links between the nodes. Of a list of names the links are learnt from the history.
    dim : int, optional
        Components per sample; by default those of the first data.
    components : sequence of str, optional
        Names of the components, for the texts of events.
    **settings
        Groups of config.yaml by name (``alarm``, ``windows``, ``estimator``, ``preprocess``, ``incidents``,
        ``align``), each a mapping with the keys and the words of the file, such as
        ``alarm={"budget": "2 per week"}``; see docs/configuration.md.

    Attributes
    ----------
    network : Network or None
        The network; None until links are learnt.
    settings : Settings
        All settings, with their defaults.
    pipeline : Pipeline
        What does the work; RuntimeError before the first data.

    Raises
    ------
    ValueError
        If a setting is unknown or out of range; names the group and the key.

    See Also
    --------
    detector.river.GrulsifDrift : one stream, with the interface of river.
    estimators.Grulsif : two samples instead of a stream.

    Examples
    --------
    >>> import networkx as nx
    >>> import numpy as np
    >>> from detector import NetworkDetector
    >>> rng = np.random.default_rng(0)
    >>> ring = nx.cycle_graph(6)
    >>> watch = NetworkDetector(ring, alarm={"budget": "1 per 10000 ticks"}, estimator={"sigma": 1.0})
    >>> report = watch.learn(rng.normal(size=(1500, 6)))  # quiet history
    >>> opened = []
    >>> for t in range(120):
    ...     x = rng.normal(size=6)
    ...     if t >= 40:
    ...         x[:2] += 4.0  # two neighbours change
    ...     opened += [event for event in watch.update(x) if event.event == "incident.opened"]
    >>> len(opened)
    1
    >>> sorted(node.name for node in opened[0].nodes)
    ['0', '1']
    """

    def __init__(
        self, graph: Any, *, dim: int | None = None, components: Sequence[str] | None = None, **settings: Any
    ) -> None:
        self.network, self._names = _network(graph)
        chosen = Settings.of(**settings)
        # An update is a whole tick, its time the caller's word: nothing is late, nothing too far ahead.
        align = chosen.align.model_copy(update={"lateness": 0.0, "max_ahead": math.inf})
        self.settings = chosen.model_copy(update={"align": align})
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
        """The pipeline; RuntimeError before the first data."""
        if self._pipeline is None:
            raise RuntimeError("nothing seen yet: call learn or update first, or give dim")
        return self._pipeline

    def learn(
        self,
        history: ArrayLike | Sequence[Sampled],
        times: ArrayLike | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> CalibrationReport:
        """Learn from history without changes: scales, graph, hyper-parameters, thresholds.

        Parameters
        ----------
        history : array_like of shape (T, N, d) or (T, N), DataFrame, or sequence of samples
            NaN is missing. A DataFrame has a column per node, found by name where the nodes have names, and
            perhaps an index of times. Samples have ``time``, ``node`` and ``values``.
        times : array_like of shape (T,), optional
            Unix time of each row, for seasonal profiles; by default they follow each other by ``align.step``.
        progress : callable, optional
            Called as ``progress(stage, share)``.

        Returns
        -------
        CalibrationReport
            What was chosen and what is promised; ``text()`` tells it.

        Raises
        ------
        ValueError
            If the shape does not fit to the network, or the history is too short.
        """
        if hasattr(history, "columns") and hasattr(history, "to_numpy"):
            history, clock = _table(history, self._known_names)
            times = clock if times is None else times
        if len(history) and hasattr(history[0], "node"):  # type: ignore[arg-type, index]
            X, clock = self._grid(history)  # type: ignore[arg-type]
            return self._for(X).learn(X, clock, progress)
        X = np.asarray(history, dtype=np.float64)
        X = X[:, :, None] if X.ndim == 2 else X
        if X.ndim != 3:
            raise ValueError(f"history: expected (T, N, d) or (T, N), got shape {X.shape}")
        return self._for(X).learn(X, None if times is None else np.asarray(times, np.float64), progress)

    def update(self, x: ArrayLike, time: float | None = None) -> list[Event]:
        """Take one tick of the whole network.

        Parameters
        ----------
        x : array_like of shape (N, d) or (N,), or Series
            NaN is missing. A Series, such as a row of a DataFrame, is ordered by the names of the nodes.
        time : float, optional
            Unix time; by default it counts on by ``align.step``.

        Returns
        -------
        list of Event
            What this tick has brought about, often nothing.

        Raises
        ------
        ValueError
            If the shape does not fit to the network.
        """
        if hasattr(x, "index") and hasattr(x, "reindex"):  # a row of a DataFrame
            x = _in_order(x, self._known_names)
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

    @property
    def _known_names(self) -> Sequence[str]:
        return self.network.names if self.network is not None else self._names or ()

    def _for(self, X: Floats) -> Pipeline:
        pipeline = self._pipeline or self._begin(X.shape[2])
        if X.shape[1:] != (pipeline.network.n_nodes, pipeline.dim):
            raise ValueError(
                f"expected ({pipeline.network.n_nodes}, {pipeline.dim}) values, got {X.shape[1:]}"
            )
        return pipeline

    def _grid(self, samples: Sequence[Sampled]) -> tuple[Floats, Floats]:
        """Samples as rows of a history, aligned as the stream will be."""
        from detector.alignment.aligner import Aligner

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
        """Statistic of every node, (N,); NaN: no decision."""
        return self.pipeline.statistic

    @property
    def event_statistic(self) -> Floats:
        """Statistic pooled around every node, (N,)."""
        return self.pipeline.event_statistic

    @property
    def threshold(self) -> float:
        """Of the node statistic: above it a node is part of an incident."""
        return self.pipeline.threshold

    @property
    def event_threshold(self) -> float:
        """Of the event statistic: above it an incident opens."""
        return self.pipeline.event_threshold

    @property
    def scores(self) -> Floats:
        """Divergence of each test window from the reference, (N, scales)."""
        return self.pipeline.scores

    @property
    def report(self) -> CalibrationReport | None:
        """What `learn` gave; None before it."""
        return self.pipeline.report

    def accept(self, incident: str, time: float | None = None) -> list[Event]:
        """Take what an incident shows as the new normal.

        Parameters
        ----------
        incident : str
            Its id, ``event.incident``.
        time : float, optional
            Unix time; by default that of the last tick.

        Returns
        -------
        list of Event

        Raises
        ------
        IncidentError
            If there is no such incident, or it has ended.
        """
        return self.pipeline.accept(incident, self._now(time))

    def clear(self, incident: str, time: float | None = None) -> list[Event]:
        """End an incident: what it shows was nothing, and is watched again.

        Parameters
        ----------
        incident : str
            Its id, ``event.incident``.
        time : float, optional
            Unix time; by default that of the last tick.

        Returns
        -------
        list of Event

        Raises
        ------
        IncidentError
            If there is no such incident, or it has ended.
        """
        return self.pipeline.clear(incident, self._now(time))

    def label(self, incident: str, time: float | None = None, **labels: Any) -> list[Event]:
        """Say what an incident was; analyzers learn from it.

        Parameters
        ----------
        incident : str
            Its id, ``event.incident``.
        time : float, optional
            Unix time; by default that of the last tick.
        **labels
            Fields of a label: ``alarm``, ``type``, ``nodes`` and so on; see docs/events.md.

        Returns
        -------
        list of Event

        Raises
        ------
        IncidentError
            If there is no such incident, it has ended, or the label names an unknown node.
        """
        return self.pipeline.label(incident, self._now(time), **labels)

    def _now(self, time: float | None) -> float:
        return time if time is not None else float(self.pipeline.watermark or 0.0)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything that was learnt and seen; `from_state` goes on exactly.

        Returns
        -------
        arrays : dict of str to ndarray
        meta : dict
            JSON-ready.
        """
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
        """Continue from `state`.

        Parameters
        ----------
        graph, components, **settings
            As they were.
        arrays, meta : dict
            What `state` gave.

        Returns
        -------
        NetworkDetector

        Raises
        ------
        ValueError
            If a setting has changed that what was learnt depends on; names it.
        """
        made = cls(graph, components=components, **settings)
        made._pipeline = Pipeline.from_state(
            made.network, meta["dim"], made.settings, arrays, meta, names=made._names, components=components
        )
        return made


def _table(frame: Any, names: Sequence[str]) -> tuple[Floats, Floats | None]:
    """A DataFrame as an array in the order of the nodes, and its times if the index has them."""
    labels = [str(label) for label in frame.columns]
    missing = [name for name in names if name not in labels]
    if missing and len(missing) < len(names):
        raise ValueError(f"history: no column for {missing[0]!r} (columns: {', '.join(labels[:8])})")
    if not missing:
        frame = frame[[frame.columns[labels.index(name)] for name in names]]
    try:
        X = np.asarray(frame.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"history: expected a number in every column ({error})") from None
    index = getattr(frame, "index", None)
    if index is None or not hasattr(index, "tz"):
        return X, None
    nanoseconds = np.asarray(index.tz_convert("UTC").tz_localize(None) if index.tz is not None else index)
    return X, np.asarray(nanoseconds.astype("datetime64[ns]").astype(np.int64) / 1e9, np.float64)


def _in_order(row: Any, names: Sequence[str]) -> Any:
    """A Series by the names of the nodes, if it has them."""
    labels = [str(label) for label in row.index]
    if not names or not set(names) <= set(labels):
        return row
    return row.to_numpy()[[labels.index(name) for name in names]]


def _network(graph: Any) -> tuple[Network | None, list[str] | None]:
    if isinstance(graph, Network):
        return graph, None
    if isinstance(graph, nx.Graph):
        return Network.of([str(v) for v in graph.nodes], graph), None
    if isinstance(graph, list | tuple) and graph and all(isinstance(name, str) for name in graph):
        return None, list(graph)
    shape = getattr(graph, "shape", None) or np.shape(graph)
    return Network.of([str(v) for v in range(shape[0])], graph), None
