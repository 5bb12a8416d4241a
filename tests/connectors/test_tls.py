"""TLS: the right certificate is accepted; expired, self-signed and wrong-host ones are refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from connectors import ConnectorError
from connectors.mqtt import MqttSink, MqttSource
from connectors.nats import NatsSink
from connectors.redis import RedisSink
from connectors.webhook import WebhookSink
from tests import servers
from tests.certificates import Authority, Pair

KINDS = ["right", "expired", "self_signed", "wrong_host"]
RECORD = {"id": "i", "event": "opened"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def pairs(authority: Authority) -> dict[str, Pair]:
    return {
        "right": authority.issue("right"),
        "expired": authority.issue("expired", expired=True),
        "self_signed": authority.self_signed("self-signed"),
        "wrong_host": authority.issue("wrong-host", host="elsewhere.example"),
    }


@pytest.fixture(params=KINDS)
def broker(
    request: pytest.FixtureRequest, pairs: dict[str, Pair], tmp_path: Path
) -> Iterator[tuple[str, servers.Server]]:
    server = servers.mosquitto(tmp_path / "mosquitto", tls=pairs[request.param])
    yield request.param, server
    server.stop()


@pytest.mark.parametrize("connector", [MqttSource, MqttSink])
def test_mqtt(connector: Any, broker: tuple[str, servers.Server], authority: Authority) -> None:
    kind, server = broker
    config: dict[str, Any] = {
        "host": "127.0.0.1", "port": server.port, "timeout": "3s", "tls": {"ca_file": str(authority.file)},
    }  # fmt: skip
    if connector is MqttSource:
        config["topics"] = ["a"]

    async def attempt(config: dict[str, Any]) -> None:
        made = connector(connector.Config.model_validate(config))
        try:
            await (made.open(None) if connector is MqttSource else made.open())
            if connector is MqttSink:
                await made.write([RECORD])
        finally:
            await made.close()

    if kind == "right":
        asyncio.run(attempt(config))
        del config["tls"]["ca_file"]  # the system's authorities do not know ours
    elif kind == "wrong_host":
        asyncio.run(attempt({**config, "tls": {**config["tls"], "verify_hostname": False}}))
    with pytest.raises(ConnectorError) as caught:
        asyncio.run(attempt(config))
    assert "certificate" in str(caught.value).lower()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("connector", [RedisSink, NatsSink])
def test_redis_and_nats(
    connector: Any, kind: str, pairs: dict[str, Pair], authority: Authority, tmp_path: Path
) -> None:
    tls = {"ca_file": str(authority.file)}
    if connector is RedisSink:
        server = servers.redis(tmp_path / "redis", tls=pairs[kind])
        config: dict[str, Any] = {"port": server.port, "timeout": "3s", "tls": tls}
    else:
        server = servers.nats(tmp_path / "nats", tls=pairs[kind])
        config = {"servers": [f"tls://127.0.0.1:{server.port}"], "timeout": "3s", "tls": tls}

    async def attempt(config: dict[str, Any]) -> None:
        made = connector(connector.Config.model_validate(config))
        try:
            await made.open()
        finally:
            await made.close()

    try:
        if kind == "right":
            asyncio.run(attempt(config))
            config = {**config, "tls": {}}
        elif kind == "wrong_host":
            asyncio.run(attempt({**config, "tls": {**tls, "verify_hostname": False}}))
        with pytest.raises(ConnectorError, match=r"(?i)certificate") as caught:
            asyncio.run(attempt(config))
        assert caught.value.retry
    finally:
        server.stop()


def serve(pair: Pair, highest: ssl.TLSVersion | None = None) -> tuple[ssl.SSLContext, int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if highest is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = highest
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context, servers.free_port()


async def deliver(config: dict[str, Any], context: ssl.SSLContext, port: int) -> list[dict[str, str]]:
    """Start a receiver, write one record, give back the headers of the requests it got."""
    got: list[dict[str, str]] = []

    async def hook(request: web.Request) -> web.Response:
        await request.read()
        got.append(dict(request.headers))
        return web.Response()

    app = web.Application()
    app.router.add_post("/", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    connector = WebhookSink(WebhookSink.Config.model_validate(config))
    try:
        await connector.write([RECORD])
    finally:
        await connector.close()
        await runner.cleanup()
    return got


@pytest.mark.parametrize("kind", KINDS)
def test_webhook(kind: str, pairs: dict[str, Pair], authority: Authority) -> None:
    context, port = serve(pairs[kind])
    config = {"url": f"https://127.0.0.1:{port}/", "tls": {"ca_file": str(authority.file)}, "timeout": "3s"}
    if kind == "right":
        assert len(asyncio.run(deliver(config, context, port))) == 1
        return
    with pytest.raises(ConnectorError, match=r"(?i)certificate") as caught:
        asyncio.run(deliver(config, context, port))
    assert caught.value.retry


def test_webhook_without_our_authority_is_refused(pairs: dict[str, Pair]) -> None:
    context, port = serve(pairs["right"])
    with pytest.raises(ConnectorError, match=r"(?i)certificate"):
        asyncio.run(deliver({"url": f"https://127.0.0.1:{port}/"}, context, port))


def test_old_tls_is_refused(pairs: dict[str, Pair], authority: Authority) -> None:
    """A server that speaks TLS 1.1 at most gets nothing."""
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context, port = serve(pairs["right"], ssl.TLSVersion.TLSv1_1)
    config = {"url": f"https://127.0.0.1:{port}/", "tls": {"ca_file": str(authority.file)}, "timeout": "3s"}
    with pytest.raises(ConnectorError):
        asyncio.run(deliver(config, context, port))


def test_client_certificates(pairs: dict[str, Pair], authority: Authority) -> None:
    """A server that asks for one gets ours."""
    context, port = serve(pairs["right"])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.file)
    mine = authority.issue("client")
    config: dict[str, Any] = {
        "url": f"https://127.0.0.1:{port}/", "timeout": "3s",
        "tls": {
            "ca_file": str(authority.file), "cert_file": str(mine.certificate), "key_file": str(mine.key),
        },
    }  # fmt: skip
    assert len(asyncio.run(deliver(config, context, port))) == 1
    del config["tls"]["cert_file"], config["tls"]["key_file"]
    with pytest.raises(ConnectorError):
        asyncio.run(deliver(config, context, port))
