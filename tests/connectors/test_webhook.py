"""Webhooks: tokens, signatures, batches, and what each answer means."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from connectors import ConnectorError
from connectors.webhook import WebhookSink
from tests import servers


class Receiver:
    """Keeps what it gets and answers as told."""

    def __init__(self) -> None:
        self.port = servers.free_port()
        self.status = 200
        self.headers: dict[str, str] = {}
        self.delay = 0.0
        self.got: list[tuple[dict[str, str], bytes]] = []

    async def __aenter__(self) -> Receiver:
        app = web.Application()
        app.router.add_post("/hook", self._hook)
        app.router.add_post("/elsewhere", self._hook)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runner.cleanup()

    async def _hook(self, request: web.Request) -> web.Response:
        self.got.append((dict(request.headers), await request.read()))
        await asyncio.sleep(self.delay)
        return web.Response(status=self.status, headers=self.headers, text="why\nnot")

    async def write(self, records: list[dict[str, Any]], **config: Any) -> None:
        given = {"url": f"http://127.0.0.1:{self.port}/hook", **config}
        connector = WebhookSink(WebhookSink.Config.model_validate(given))
        try:
            await connector.write(records)
        finally:
            await connector.close()


def run(test: Callable[[Receiver], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Receiver() as receiver:
            await asyncio.wait_for(test(receiver), 20)

    asyncio.run(main())


def test_token_signature_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t0ken")
    monkeypatch.setenv("KEY", "k3y")

    async def test(receiver: Receiver) -> None:
        await receiver.write(
            [{"id": "a", "event": "opened"}],
            token="${TOKEN}",
            signing_key="${KEY}",
            headers_extra={"X-Site": "7"},
        )
        ((headers, body),) = receiver.got
        assert json.loads(body) == {"id": "a", "event": "opened"}
        assert headers["Authorization"] == "Bearer t0ken"
        assert headers["Idempotency-Key"] == "a"
        assert headers["X-Site"] == "7"
        signed = headers["X-Detector-Time"].encode() + b"." + body
        digest = hmac.new(b"k3y", signed, hashlib.sha256).hexdigest()
        assert headers["X-Detector-Signature"] == f"sha256={digest}"

    run(test)


def test_batches() -> None:
    async def test(receiver: Receiver) -> None:
        records = [{"id": str(i), "event": "opened"} for i in range(5)]
        await receiver.write(records, batch=2)
        assert [len(json.loads(body)) for _, body in receiver.got] == [2, 2, 1]
        first = receiver.got[0][0]["Idempotency-Key"]
        await receiver.write(records, batch=2)
        assert receiver.got[3][0]["Idempotency-Key"] == first
        assert receiver.got[1][0]["Idempotency-Key"] != first

    run(test)


@pytest.mark.parametrize("identity", ["../../etc", "a\r\nX-Evil: 1", "ü" * 10, "x" * 4000])
def test_hostile_ids_cannot_inject_headers(identity: str) -> None:
    async def test(receiver: Receiver) -> None:
        await receiver.write([{"id": identity, "event": "opened"}])
        ((headers, body),) = receiver.got
        assert "X-Evil" not in headers
        assert json.loads(body)["id"] == identity

    run(test)


@pytest.mark.parametrize(
    ("status", "retry"),
    [(400, False), (413, False), (422, False), (401, True), (404, True), (429, True), (500, True)],
)
def test_what_an_answer_means(status: int, retry: bool) -> None:
    async def test(receiver: Receiver) -> None:
        receiver.status = status
        with pytest.raises(ConnectorError, match=f"HTTP {status} whynot") as caught:
            await receiver.write([{"id": "a", "event": "opened"}])
        assert caught.value.retry is retry

    run(test)


def test_redirects_are_not_followed() -> None:
    """They would carry the token elsewhere."""

    async def test(receiver: Receiver) -> None:
        receiver.status, receiver.headers = 307, {"Location": "/elsewhere"}
        with pytest.raises(ConnectorError, match="307"):
            await receiver.write([{"id": "a", "event": "opened"}])
        assert len(receiver.got) == 1

    run(test)


def test_a_slow_receiver_is_a_timeout() -> None:
    async def test(receiver: Receiver) -> None:
        receiver.delay = 3
        with pytest.raises(ConnectorError) as caught:
            await receiver.write([{"id": "a", "event": "opened"}], timeout="200ms")
        assert caught.value.retry

    run(test)
