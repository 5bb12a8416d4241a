"""Prometheus: vectors joined by node and time, late series caught, queries bounded."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from connectors import Batch, ConnectorError
from connectors.prometheus import PrometheusSource
from tests import servers


class Fake:
    """Answers range queries from a table: expression -> node -> value; counts grid times asked for."""

    def __init__(self) -> None:
        self.port = servers.free_port()
        self.table: dict[str, dict[str, str]] = {}
        self.points: list[int] = []
        self.until = math.inf  # there are no samples after it
        self.instead: bytes | None = None  # what it answers, whatever was asked

    async def __aenter__(self) -> Fake:
        app = web.Application()
        app.router.add_post("/api/v1/query_range", self._query)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runner.cleanup()

    async def _query(self, request: web.Request) -> web.Response:
        form = await request.post()
        start, end, step = (float(str(form[name])) for name in ("start", "end", "step"))
        times = [start + i * step for i in range(round((end - start) / step) + 1)]
        self.points.append(len(times))
        if self.instead is not None:
            return web.Response(body=self.instead, content_type="application/json")
        if str(form["query"]) == "broken(":
            return web.json_response({"status": "error", "error": "parse error"}, status=400)
        there = [moment for moment in times if moment <= self.until]
        result = [
            {"metric": {"instance": node, "job": "j"}, "values": [[moment, value] for moment in there]}
            for node, value in self.table.get(str(form["query"]), {}).items()
        ]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})

    def source(self, queries: list[dict[str, Any]], **more: Any) -> PrometheusSource:
        config = {"url": f"http://127.0.0.1:{self.port}", "queries": queries, "step": 1, "delay": 0, **more}
        return PrometheusSource(PrometheusSource.Config.model_validate(config))


def run(test: Callable[[Fake], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Fake() as fake:
            await asyncio.wait_for(test(fake), 20)

    asyncio.run(main())


async def read(connector: PrometheusSource) -> Batch:
    batch = await connector.read()
    assert batch is not None
    return batch


def test_expressions_are_joined_to_vectors() -> None:
    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1", "y": "2"}, "b": {"x": "3", "z": "+Inf"}}
        connector = fake.source([{"query": ["a", "b"], "node": "{job}/{instance}"}], history=3)
        await connector.open(None)
        batch = await read(connector)
        found = {sample.node: sample.values for sample in batch.samples}
        assert found["j/x"] == (1.0, 3.0)
        assert found["j/y"][0] == 2
        assert math.isnan(found["j/y"][1])
        assert batch.rejected == {"values": 3}
        await connector.close()

    run(test)


def test_a_late_series_is_caught_once() -> None:
    """It appears after its times were asked for: the overlap brings them, and nothing twice."""

    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1"}}
        connector = fake.source([{"query": "a"}], history=5, overlap="4s")
        await connector.open(None)
        first = await read(connector)
        fake.table["a"]["late"] = "2"
        second = await read(connector)
        places = [(sample.time, sample.node) for sample in (*first.samples, *second.samples)]
        assert len(places) == len(set(places))
        caught = [moment for moment, node in places if node == "late"]
        assert len(caught) >= 4
        await connector.close()

    run(test)


def test_long_histories_are_asked_for_in_pieces() -> None:
    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1"}}
        connector = fake.source([{"query": "a"}], history=100, max_points=30, overlap="5s")
        await connector.open(None)
        times: list[float] = []
        while len(times) < 100:
            times += [sample.time for sample in (await read(connector)).samples]
        assert times == sorted(set(times))
        assert max(fake.points) <= 35
        assert connector.lag is not None
        assert abs(times[-1] - time.time()) < 5
        await connector.close()

    run(test)


def test_a_wrong_query_is_a_mistake_not_an_outage() -> None:
    async def test(fake: Fake) -> None:
        connector = fake.source([{"query": "broken("}], history=5)
        with pytest.raises(ConnectorError, match="parse error") as caught:
            await connector.open(None)
        assert not caught.value.retry
        await connector.close()

    run(test)


def matrix(*values: Any, metric: Any = None) -> bytes:
    """An answer with one series."""
    series = {"metric": {"instance": "a"} if metric is None else metric, "values": list(values)}
    return msgspec.json.encode({"status": "success", "data": {"resultType": "matrix", "result": [series]}})


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"<html>gateway</html>", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000,
        b'{"status": "success"}', b'{"status": "success", "data": null}',
        b'{"status": "success", "data": {"result": {}}}',
        b'{"status": "error", "error": "' + b"x" * 100_000 + b'"}',
        matrix([1.0]), matrix(["x", "1"]), matrix([1.0, 2.0]),
        matrix([1.0, "1"], metric=[]), matrix([1.0, "1"], metric={"instance": 5}),
    ],
    ids=lambda answer: answer[:24].decode(errors="replace") + str(len(answer)),
)  # fmt: skip
def test_an_answer_that_is_none_is_an_outage(answer: bytes) -> None:
    async def test(fake: Fake) -> None:
        fake.table["up"] = {"a": "1"}
        connector = fake.source([{"query": "up"}], history=3)
        await connector.open(None)
        fake.instead = answer
        with pytest.raises(ConnectorError) as caught:
            await read(connector)
        assert caught.value.retry
        assert len(str(caught.value)) < 500
        fake.instead = None  # it goes on where it was
        await connector.open(None)
        assert (await read(connector)).samples
        await connector.close()

    run(test)


@pytest.mark.parametrize("text", ["abc", "", "+Inf", "-Inf", "NaN", "1e999", "0x10", "1_0", "١"])
def test_values_that_are_no_numbers_are_counted(text: str) -> None:
    async def test(fake: Fake) -> None:
        fake.table["up"] = {"a": "1", "b": text}
        connector = fake.source([{"query": "up"}], history=3)
        await connector.open(None)
        batch = await read(connector)
        good = [sample for sample in batch.samples if sample.node == "a"]
        assert len(good) == 3
        assert batch.received == 6
        assert batch.rejected == {"values": 3}
        await connector.close()

    run(test)


@pytest.mark.parametrize("moment", [-1e300, 1e300, 0.0, 1e15])
def test_samples_of_other_times_than_those_asked_for_are_counted(moment: float) -> None:
    """They move nothing: the next ones come as ever."""

    async def test(fake: Fake) -> None:
        fake.table["up"] = {"a": "1"}
        connector = fake.source([{"query": "up"}], history=3)
        await connector.open(None)
        fake.instead = matrix([moment, "5"])
        batch = await read(connector)
        assert (batch.samples, batch.rejected) == ([], {"time": 1})
        fake.instead = None
        assert (await read(connector)).samples
        await connector.close()

    run(test)


class Wall:
    """A wall clock that can be set."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead


def test_a_clock_that_was_ahead_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day ahead nothing is found; put right again, the very times that were passed over are asked for."""
    wall = Wall()
    monkeypatch.setattr("connectors.prometheus.time", wall)

    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1"}}
        fake.until = time.time() + 3
        connector = fake.source([{"query": "a"}], history=5, overlap=0, max_points=10_000)
        await connector.open(None)
        times = [sample.time for sample in (await read(connector)).samples]
        wall.ahead = 86400.0
        reading = asyncio.create_task(read(connector))
        while max(fake.points) < 1000:
            await asyncio.sleep(0.01)
        times += [sample.time for sample in (await reading).samples]  # up to the newest that there are
        fake.until = math.inf
        wall.ahead = 0.0
        while times[-1] < time.time() - 2:
            times += [sample.time for sample in (await asyncio.wait_for(read(connector), 30)).samples]
        assert times == [times[0] + k for k in range(len(times))]
        again = fake.source([{"query": "a"}])
        await again.open({"\n".join(["{instance}", "a"]): time.time() + 86400})
        assert abs((await asyncio.wait_for(read(again), 30)).samples[0].time - time.time()) < 3
        await again.close()
        await connector.close()

    run(test)


def test_a_clock_behind_the_samples_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old times would only be asked for again; it is an outage, and over when the clock is right."""
    wall = Wall()
    monkeypatch.setattr("connectors.prometheus.time", wall)

    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1"}}
        connector = fake.source([{"query": "a"}], history=5)
        await connector.open(None)
        position = (await read(connector)).position
        wall.ahead = -86400.0
        with pytest.raises(ConnectorError, match=r"clock is 8(6399|640\d) s behind") as caught:
            await asyncio.wait_for(read(connector), 30)
        assert caught.value.retry
        wall.ahead = 0.0
        await connector.open(position)
        assert (await asyncio.wait_for(read(connector), 30)).samples
        await connector.close()

    run(test)
