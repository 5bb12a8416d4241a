"""Samples from a Prometheus server by range queries."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from pydantic import Field, field_validator

from connectors.base import Batch, ConnectorError, Sample, Settings, Source
from connectors.codec.fast_json import Gate
from connectors.settings.http_client import HttpClient, HttpSettings
from connectors.settings.units import Duration, Size

MAX_VALUES = 64
PAUSED_S = 0.05  # how often we look whether a query that was paused may go on
MOST_BEHIND_S = 60.0  # of our clock, while that is only waited for


class Query(Settings):
    """One query, or several that are joined into the components of a vector."""

    query: str | list[str] = Field(description="PromQL; several give one component each.", min_length=1)
    node: str = Field(
        default="{instance}", description="Node id from labels: a template such as {job}/{instance}."
    )

    @field_validator("node")
    @classmethod
    def _template(cls, node: str) -> str:
        if not re.search(r"\{[A-Za-z_][A-Za-z0-9_]*\}", node):
            raise ValueError("must name at least one label in braces, such as {instance}")
        return node


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)


class PrometheusSource(Source):
    """Queries every grid time once it is old enough, and again within `overlap` to catch late series.

    The position is the last grid time of each query. Within the overlap a (node, time) is given once;
    after a restart everything up to the position counts as given.
    """

    name = "prometheus"
    example = ("url: http://127.0.0.1:9090", 'queries: [{query: node_load1, node: "{instance}"}]')
    replayable = True
    guarantee = "No lost alert, no distinct duplicate, as far as the server keeps its data."

    class Config(HttpSettings):
        queries: list[Query] = Field(description="The queries.", min_length=1)
        step: Duration = Field(default=15.0, description="Time between two samples.", gt=0)
        delay: Duration = Field(
            default=15.0,
            description="How old a sample must be before it is queried: at least the scrape interval.",
            ge=0,
        )
        overlap: Duration = Field(
            default=60.0, description="How far back each query overlaps the previous one.", ge=0
        )
        history: Duration = Field(default=0.0, description="How far back the very first query goes.", ge=0)
        max_points: int = Field(
            default=500, description="Largest number of grid times per query.", ge=1, le=10_000
        )
        max_answer: Size = Field(default=64 * 2**20, description="Largest answer.", gt=0)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._client = HttpClient(config)
        self._gate = Gate(MAX_VALUES)
        self._last: dict[str, int] = {}  # query -> last grid number asked for
        self._found: dict[str, int] = {}  # query -> last grid number that gave anything
        self._given: dict[str, dict[int, set[str]]] = {}  # query -> grid number -> nodes given
        self._turn = 0
        self._paused: Collection[str] = ()

    async def open(self, position: Any) -> None:
        for text in dict.fromkeys(text for query in self.config.queries for text in _texts(query)):
            now = time.time()
            await self._range(text, now, now)  # whether the server takes it, and us
        step, newest = self.config.step, self._newest()
        known = position or {}
        self._last = {
            # A position ahead of the clock is of a time when the clock was wrong.
            key: min(newest, round(known[key] / step))
            if key in known
            else newest - math.ceil(self.config.history / step)
            for key in map(_key, self.config.queries)
        }
        self._opened, self._found = dict(self._last), dict(self._last)
        self._given = {_key(query): {} for query in self.config.queries}

    async def read(self) -> Batch | None:
        step = self.config.step
        while True:
            for _ in self.config.queries:
                query = self.config.queries[self._turn % len(self.config.queries)]
                newest = self._newest()
                self._follow_clock(_key(query), newest)
                if _key(query) in self._paused:
                    self._turn += 1
                elif newest > self._last[_key(query)]:
                    end = min(newest, self._last[_key(query)] + self.config.max_points)
                    batch = await self._ask(query, end)
                    self._turn += 1
                    if batch.received:
                        return batch
                else:
                    self._turn += 1
            ready = min(self._last[_key(query)] for query in self.config.queries) + 1
            # No longer than a step: the clock may be set meanwhile.
            await asyncio.sleep(
                min(
                    PAUSED_S if self._paused else step,
                    max(0.01, ready * step + self.config.delay - time.time()),
                )
            )

    @property
    def partitions(self) -> Sequence[str]:
        return [_key(query) for query in self.config.queries]

    def pause(self, partitions: Collection[str]) -> None:
        self._paused = partitions

    def _newest(self) -> int:
        """The last grid number that is old enough to be asked for."""
        return int((time.time() - self.config.delay) // self.config.step)

    def _follow_clock(self, key: str, newest: int) -> None:
        """The clock may have been set back: what was asked for too early is asked for again."""
        if newest >= self._last[key]:
            return
        if self._found[key] <= newest:
            self._last[key] = self._found[key]
        elif (behind := (self._found[key] - newest) * self.config.step) > self.config.step + MOST_BEHIND_S:
            raise ConnectorError(f"prometheus: our clock is {behind:.0f} s behind the samples", retry=True)

    async def _ask(self, query: Query, end: int) -> Batch:
        """Query up to grid number `end`; state moves only after all answers are in."""
        key, step = _key(query), self.config.step
        first = max(self._opened[key], self._last[key] - math.ceil(self.config.overlap / step)) + 1
        texts = _texts(query)
        found: dict[tuple[int, str], list[float]] = {}
        batch = Batch()
        for i, text in enumerate(texts):
            for series in await self._range(text, first * step, end * step):
                node = _node(query.node, series.metric)
                for moment, value in series.values:
                    number = round(moment / step)
                    if not first <= number <= end:  # nobody asked for it
                        batch.reject("time")
                        continue
                    found.setdefault((number, node), [math.nan] * len(texts))[i] = _number(value)
        given = self._given[key]
        samples = []
        for (number, node), values in sorted(found.items()):
            if node in given.setdefault(number, set()):
                continue
            given[number].add(node)
            self._found[key] = max(self._found[key], number)
            if any(map(math.isinf, values)) or all(map(math.isnan, values)):
                batch.reject("values")
            else:
                samples.append(Sample(number * step, node, tuple(values)))
        self._gate.take(samples, batch)
        self._last[key] = end
        for number in [n for n in given if n <= end - math.ceil(self.config.overlap / step)]:
            del given[number]
        batch.partition, batch.position = key, {key: end * step}
        return batch

    async def _range(self, text: str, start: float, end: float) -> list[_Series]:
        url = self.config.url.rstrip("/") + "/api/v1/query_range"
        form = {
            "query": text,
            "start": f"{start:.3f}",
            "end": f"{end:.3f}",
            "step": f"{self.config.step:.3f}",
        }
        body = await self._client.post(url, form, {"User-Agent": "detector"}, self.config.max_answer)
        try:
            answer = _ANSWER.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise ConnectorError("prometheus: the answer is not understood", retry=True) from None
        if answer.status != "success" or answer.data is None:
            raise ConnectorError(f"prometheus: {answer.error[:200]}", retry=True)
        return answer.data.result

    async def close(self) -> None:
        await self._client.close()

    @property
    def lag(self) -> float | None:
        if not self._last:
            return None
        oldest: float = min(self._last.values()) * self.config.step
        return max(0.0, time.time() - oldest)


def _key(query: Query) -> str:
    """The name of a query in the position: what it asks and whom it names."""
    return "\n".join([query.node, *_texts(query)])


def _texts(query: Query) -> list[str]:
    return [query.query] if isinstance(query.query, str) else query.query


def _number(text: str) -> float:
    """As Prometheus writes numbers; what is none is infinite, which is refused."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.inf
    except ValueError:
        return math.inf


def _node(template: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda label: labels.get(label[1], ""), template)
