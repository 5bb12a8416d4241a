"""Series of metrics systems to samples: named numbers with labels, some of them components of a node."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pydantic import Field, model_validator

from connectors.base import Batch, Sample, Settings
from connectors.codec.fast_json import Gate
from connectors.settings.units import Duration, Size

_SELECTOR = re.compile(r"\s*([^{}\"=,\s]+)\s*(?:\{(.*)\}\s*)?", re.DOTALL)
_MATCHER = re.compile(r"\s*([^{}\"=,\s]+)\s*=\s*\"([^\"]*)\"\s*(?:,|$)")
_LABEL = re.compile(r"\{([^{}]+)\}")
MAX_VALUES = 64


class Point(NamedTuple):
    """One number of one series; NaN: it has none at this time."""

    metric: str
    labels: Mapping[str, str]
    time: float
    value: float


class Series(Settings):
    """How series map to nodes and components."""

    metrics: list[str] | None = Field(
        default=None,
        description='Metrics that are the components, in this order, such as node_load1 or cpu{mode="user"}; '
        "others are ignored. null: every series is a node of its own, with one component.",
        min_length=1,
        max_length=MAX_VALUES,
    )
    node: str | None = Field(
        default=None,
        description="With metrics: the node id from labels or attributes, such as {job}/{instance}.",
    )
    within: Duration = Field(default=1.0, description="Numbers of a node within this time form one sample.")
    max_bytes: Size = Field(default=4 * 2**20, description="Largest request, after decompression.", gt=0)

    @model_validator(mode="after")
    def _together(self) -> Series:
        if (self.metrics is None) != (self.node is None):
            raise ValueError("metrics and node belong together: give both or neither")
        for metric in self.metrics or ():
            _selector(metric)
        if len(set(self.metrics or ())) != len(self.metrics or ()):
            raise ValueError("metrics names one twice")
        if self.node is not None and not _LABEL.search(self.node):
            raise ValueError("node must name at least one label in braces, such as {instance}")
        return self


class SeriesReader:
    """Puts the numbers of one request together to samples."""

    def __init__(self, config: Series) -> None:
        self.config = config
        self._gate = Gate(MAX_VALUES)
        self._columns: dict[str, list[tuple[int, Mapping[str, str]]]] = {}
        for place, text in enumerate(config.metrics or ()):
            name, labels = _selector(text)
            self._columns.setdefault(name, []).append((place, labels))

    def read(self, points: Iterable[Point], into: Batch) -> str | None:
        """Accept or count what is asked for; where nothing was, the name of the first metric that came."""
        found: dict[str, list[tuple[float, int, float]]] = {}
        ignored = None
        for point in points:
            component = self._component(point)
            if component is None:
                ignored = ignored or point.metric
                continue
            node = self._node(point)
            if node is None:
                into.reject("missing")
            elif math.isinf(point.value) or math.isnan(point.time):
                into.reject("values")
            else:
                found.setdefault(node, []).append((point.time, component, point.value))
        for node, numbers in found.items():
            self._join(node, sorted(numbers, key=lambda number: number[0]), into)
        return ignored if not found and not into.received else None

    def wants(self, metric: str) -> bool:
        """Whether a metric of this name is looked at."""
        return self.config.metrics is None or metric in self._columns

    def _component(self, point: Point) -> int | None:
        if self.config.metrics is None:
            return 0
        for place, labels in self._columns.get(point.metric, ()):
            if all(point.labels.get(name) == value for name, value in labels.items()):
                return place
        return None

    def _node(self, point: Point) -> str | None:
        """Labels that the template names and the point has not: None."""
        if self.config.node is None:
            return series_name(point.metric, point.labels)
        try:
            return _LABEL.sub(lambda found: point.labels[found[1].strip()], self.config.node)
        except KeyError:
            return None

    def _join(self, node: str, numbers: list[tuple[float, int, float]], into: Batch) -> None:
        """Numbers in order of time. A component that comes again begins another sample."""
        size = len(self.config.metrics or "1")
        begin, values = math.nan, [math.nan] * size
        held: set[int] = set()
        for time, component, value in numbers:
            if component in held and time == begin:
                into.reject("values")  # two numbers for one place: labels in node or metrics tell them apart
                continue
            if held and (component in held or time - begin > self.config.within):
                self._take(Sample(begin, node, tuple(values)), into)
                held, values = set(), [math.nan] * size
            if not held:
                begin = time
            held.add(component)
            values[component] = value
        if held:
            self._take(Sample(begin, node, tuple(values)), into)

    def _take(self, sample: Sample, into: Batch) -> None:
        if all(map(math.isnan, sample.values)):  # a series that has ended says so by a number that is none
            into.reject("values")
        else:
            self._gate.take([sample], into)


def series_name(metric: str, labels: Mapping[str, str]) -> str:
    """
    Examples
    --------
    >>> series_name("load", {"job": "node", "host": "a"})
    'load{host="a",job="node"}'
    """
    inner = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{metric}{{{inner}}}" if inner else metric


def _selector(text: str) -> tuple[str, dict[str, str]]:
    """`name` or `name{label="value",...}`: the name and the labels it asks for."""
    whole = _SELECTOR.fullmatch(text)
    inner = (whole[2] or "").strip() if whole else ""
    labels, at = {}, 0
    while whole and at < len(inner):
        match = _MATCHER.match(inner, at)
        if match is None:
            whole = None
            break
        labels[match[1]] = match[2]
        at = match.end()
    if whole is None:
        raise ValueError(f'not a metric: {text!r}; write it like node_load1 or cpu{{mode="user"}}')
    return whole[1], labels
