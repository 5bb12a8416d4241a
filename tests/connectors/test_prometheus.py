"""Prometheus: vectors joined by node and time, late series caught, queries bounded."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

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
        if str(form["query"]) == "broken(":
            return web.json_response({"status": "error", "error": "parse error"}, status=400)
        result = [
            {"metric": {"instance": node, "job": "j"}, "values": [[moment, value] for moment in times]}
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


async def read(door: PrometheusSource) -> Batch:
    batch = await door.read()
    assert batch is not None
    return batch


def test_expressions_are_joined_to_vectors() -> None:
    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1", "y": "2"}, "b": {"x": "3", "z": "+Inf"}}
        door = fake.source([{"query": ["a", "b"], "node": "{job}/{instance}"}], history=3)
        await door.open(None)
        batch = await read(door)
        found = {sample.node: sample.values for sample in batch.samples}
        assert found["j/x"] == (1.0, 3.0)
        assert found["j/y"][0] == 2
        assert math.isnan(found["j/y"][1])
        assert batch.rejected == {"values": 3}
        await door.close()

    run(test)


def test_a_late_series_is_caught_once() -> None:
    """It appears after its times were asked for: the overlap brings them, and nothing twice."""

    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1"}}
        door = fake.source([{"query": "a"}], history=5, overlap="4s")
        await door.open(None)
        first = await read(door)
        fake.table["a"]["late"] = "2"
        second = await read(door)
        places = [(sample.time, sample.node) for sample in (*first.samples, *second.samples)]
        assert len(places) == len(set(places))
        caught = [moment for moment, node in places if node == "late"]
        assert len(caught) >= 4
        await door.close()

    run(test)


def test_long_histories_are_asked_for_in_pieces() -> None:
    async def test(fake: Fake) -> None:
        fake.table = {"a": {"x": "1"}}
        door = fake.source([{"query": "a"}], history=100, max_points=30, overlap="5s")
        await door.open(None)
        times: list[float] = []
        while len(times) < 100:
            times += [sample.time for sample in (await read(door)).samples]
        assert times == sorted(set(times))
        assert max(fake.points) <= 35
        assert door.lag is not None
        assert abs(times[-1] - time.time()) < 5
        await door.close()

    run(test)


def test_a_wrong_query_is_a_mistake_not_an_outage() -> None:
    async def test(fake: Fake) -> None:
        door = fake.source([{"query": "broken("}], history=5)
        with pytest.raises(ConnectorError, match="parse error") as caught:
            await door.open(None)
        assert not caught.value.retry
        await door.close()

    run(test)
