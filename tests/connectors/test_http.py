"""HTTP push: answers only after the commit, honest status codes, Telegraf's way of writing."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import web

from connectors import Batch
from connectors.http import HttpSource
from tests import servers

ONE = b'{"time":2,"node":"b","value":3}'


class Daemon:
    """As the daemon would: mounts the routes, reads, commits when told."""

    def __init__(self, **config: Any) -> None:
        self.source = HttpSource(HttpSource.Config.model_validate(config))
        self.port = servers.free_port()

    async def __aenter__(self) -> Daemon:
        app = web.Application()
        app.add_routes(self.source.routes())
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.source.close()
        await self.session.close()
        await self.runner.cleanup()

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(path, data=body, headers=named) as answer:
            return answer.status, await answer.text()

    def posting(self, path: str, body: bytes, **headers: str) -> asyncio.Task[tuple[int, str]]:
        return asyncio.create_task(self.post(path, body, **headers))

    async def read(self) -> Batch:
        batch = await asyncio.wait_for(self.source.read(), 30)
        assert batch is not None
        return batch


ALL = '{"received":1,"accepted":1,"rejected":{}}'


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


def test_the_answer_waits_for_the_commit() -> None:
    async def main() -> None:
        async with Daemon() as daemon:
            await daemon.source.open(None)
            first = daemon.posting("/ingest", ONE)
            one = await daemon.read()
            second = daemon.posting("/ingest", ONE)
            two = await daemon.read()
            await asyncio.sleep(0.1)
            assert not first.done()
            await daemon.source.commit(one.position)
            assert await first == (200, ALL)
            await asyncio.sleep(0.05)
            assert not second.done()
            await daemon.source.commit(two.position)
            assert await second == (200, ALL)

    run(main)


def test_a_batch_id_is_taken_once_even_after_a_crash() -> None:
    """While under way, after the commit, and in the next process if the position was stored."""

    async def main() -> None:
        async with Daemon() as daemon:
            await daemon.source.open(None)
            first = daemon.posting("/ingest", ONE, Idempotency_Key="k1")
            batch = await daemon.read()
            same = daemon.posting("/ingest", ONE, Idempotency_Key="k1")
            await asyncio.sleep(0.1)
            await daemon.source.commit(batch.position)
            assert (await first)[0] == (await same)[0] == 200
            assert (await daemon.post("/ingest", ONE, Idempotency_Key="k1"))[0] == 204
            lost = daemon.posting("/ingest", ONE, Idempotency_Key="k2")
            await daemon.read()
            await daemon.source.close()
            assert (await lost)[0] == 503
        async with Daemon() as daemon:
            assert (await daemon.post("/ingest", ONE))[0] == 503
            await daemon.source.open(batch.position)
            assert (await daemon.post("/ingest", ONE, Idempotency_Key="k1"))[0] == 204
            again = daemon.posting("/ingest", ONE, Idempotency_Key="k2")
            batch = await daemon.read()
            assert batch.received == 1
            await daemon.source.commit(batch.position)
            assert (await again)[0] == 200

    run(main)


def test_refusals_have_their_codes_and_are_counted() -> None:
    async def main() -> None:
        async with Daemon(decode={"max_bytes": 1000}, max_pending=2, commit_timeout="300ms") as daemon:
            await daemon.source.open(None)
            assert (await daemon.post("/ingest", b"nonsense"))[0] == 400
            assert (await daemon.post("/ingest", b""))[0] == 400
            assert (await daemon.post("/ingest", b" " * 2000))[0] == 413
            bomb = gzip.compress(b" " * 2**24)
            assert (await daemon.post("/ingest", bomb, Content_Encoding="gzip"))[0] == 413
            assert (await daemon.post("/ingest", b"no gzip", Content_Encoding="gzip"))[0] == 400
            assert (await daemon.post("/ingest", ONE, Idempotency_Key="x" * 200))[0] == 400
            assert (await daemon.session.get("/ingest")).status == 405
            counted = await daemon.read()
            assert counted.received == sum(counted.rejected.values()) == 5
            waiting = [daemon.posting("/ingest", ONE) for _ in range(2)]
            await asyncio.sleep(0.1)
            status, _ = await daemon.post("/ingest", ONE)
            assert status == 429
            assert [(await task)[0] for task in waiting] == [503, 503]  # nobody committed in time

    run(main)


def test_good_and_bad_together_are_told_apart() -> None:
    async def main() -> None:
        async with Daemon() as daemon:
            await daemon.source.open(None)
            posting = daemon.posting("/ingest", gzip.compress(ONE + b"\n{\n" + ONE), Content_Encoding="gzip")
            batch = await daemon.read()
            assert batch.received == 3
            await daemon.source.commit(batch.position)
            status, text = await posting
            assert status == 200
            assert text == '{"received":3,"accepted":2,"rejected":{"malformed":1}}'

    run(main)


def test_what_the_stream_did_not_take_is_told_to_whom_it_belongs() -> None:
    """The daemon counts in the accounts of a batch; each sender hears of its own samples only."""

    async def main() -> None:
        async with Daemon() as daemon:
            await daemon.source.open(None)
            senders = [daemon.posting("/ingest", ONE + b"\n" + ONE) for _ in range(3)]
            await asyncio.sleep(0.2)
            batch = await daemon.read()
            assert [size for size, _ in batch.accounts] == [2, 2, 2]
            batch.accounts[1][1]["late"] = 1
            batch.accounts[2][1]["node"] = 2
            await daemon.source.commit(batch.position)
            answers = [await sender for sender in senders]
            assert [status for status, _ in answers] == [200, 200, 422]
            assert [text for _, text in answers] == [
                '{"received":2,"accepted":2,"rejected":{}}',
                '{"received":2,"accepted":1,"rejected":{"late":1}}',
                '{"received":2,"accepted":0,"rejected":{"unknown_node":2}}',
            ]

    run(main)


def test_times_may_be_text() -> None:
    async def main() -> None:
        text = b'{"time":"2023-11-14T22:13:20Z","node":"a","value":1}'
        async with Daemon() as daemon:
            await daemon.source.open(None)
            posting = daemon.posting("/ingest", b"[" + text + b"," + text.replace(b"Z", b"+01:00") + b"]")
            batch = await daemon.read()
            assert [sample.time for sample in batch.samples] == [1_700_000_000.0, 1_699_996_400.0]
            await daemon.source.commit(batch.position)
            assert (await posting)[0] == 200
            assert (await daemon.post("/ingest", text.replace(b"-14T", b"-44T")))[0] == 400

    run(main)


def test_telegraf_can_send() -> None:
    """Version 1 (database asked for, /write) and version 2 (/api/v2/write with precision), gzip."""

    async def main() -> None:
        text = b"cpu,host=a idle=90.5,user=1i 1500000000\ncpu,host=b idle=91 2500000000\n"
        async with Daemon() as daemon:
            await daemon.source.open(None)
            assert (await daemon.post("/query?q=CREATE+DATABASE", b""))[0] == 200
            posting = daemon.posting(
                "/write?db=telegraf&precision=ns", gzip.compress(text), Content_Encoding="gzip"
            )
            batch = await daemon.read()
            assert [(s.time, s.node, s.values) for s in batch.samples] == [
                (1.5, "cpu,host=a", (90.5, 1.0)),
                (2.5, "cpu,host=b", (91.0,)),
            ]
            await daemon.source.commit(batch.position)
            assert (await posting)[0] == 204
            posting = daemon.posting("/api/v2/write?org=o&bucket=b&precision=s", b"cpu,host=a idle=1 7")
            batch = await daemon.read()
            assert batch.samples[0].time == 7
            await daemon.source.commit(batch.position)
            assert (await posting)[0] == 204
            assert (await daemon.post("/write?precision=fortnight", text))[0] == 400

    run(main)


def test_a_slow_body_is_cut_off() -> None:
    async def main() -> None:
        async with Daemon(body_timeout="200ms") as daemon:
            await daemon.source.open(None)
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            writer.write(b"POST /ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            answer = await asyncio.wait_for(reader.read(12), 30)
            assert answer == b"HTTP/1.1 408"
            writer.close()

    run(main)
