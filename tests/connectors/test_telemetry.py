"""Metrics pushed by OpenTelemetry's own SDK and by a real Prometheus; and by programs that do it wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import cramjam
import pytest
from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from connectors import Batch
from connectors.base import installed
from connectors.codec.remote_write import _write_request
from connectors.http import HttpSource
from tests import servers
from tests.connectors.test_http import Daemon, run

OTLP = {"metrics": ["flow", 'level{side="left"}'], "node": "{service.name}"}
PROTOBUF = {"Content_Type": "application/x-protobuf"}
JSON = {"Content_Type": "application/json"}


def number(value: float, second: int, **attributes: str) -> dict[str, Any]:
    named = [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()]
    return {"timeUnixNano": str(second * 10**9), "asDouble": value, "attributes": named}


def document(*metrics: dict[str, Any]) -> bytes:
    """A request in JSON, of the service `plant`."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "plant"}}]}
    scope = {"scope": {"name": "test"}, "metrics": list(metrics), "unknownToUs": 7}
    return json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]}).encode()


FLOW = {"name": "flow", "gauge": {"dataPoints": [number(1.5, 10), number(2.5, 11)]}}
SIDES = [number(3.0, 10, side="left"), number(9.0, 10, side="right")]
LEVEL = {"name": "level", "sum": {"isMonotonic": False, "aggregationTemporality": 2, "dataPoints": SIDES}}
HISTOGRAM = {"name": "flow", "histogram": {"dataPoints": [{"timeUnixNano": "1", "count": "3", "sum": 4.0}]}}


async def exported(daemon: Daemon, posting: asyncio.Task[tuple[int, str]]) -> tuple[Batch, tuple[int, str]]:
    batch = await daemon.read()
    await daemon.source.commit(batch.position)
    return batch, await posting


def test_the_sdk_of_opentelemetry_exports_to_us() -> None:
    """Its exporter, with gzip, as a program that knows nothing of us would use it."""

    async def main() -> None:
        async with Daemon(otlp={"metrics": ["flow", "pumped"], "node": "{host.name}/{pump}"}) as daemon:
            await daemon.source.open(None)
            url = f"http://127.0.0.1:{daemon.port}/v1/metrics"

            def export() -> bool:
                from opentelemetry.exporter.otlp.proto.http import Compression

                exporter = OTLPMetricExporter(endpoint=url, compression=Compression.Gzip)
                reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
                provider = MeterProvider([reader], resource=Resource.create({"host.name": "edge-7"}))
                meter = provider.get_meter("plant")
                meter.create_gauge("flow").set(21.5, {"pump": "a"})
                meter.create_counter("pumped").add(3, {"pump": "a"})
                meter.create_histogram("latency").record(0.2, {"pump": "a"})  # nobody asked for it
                done = provider.force_flush()
                provider.shutdown()
                return done

            exporting = asyncio.create_task(asyncio.to_thread(export))
            for _ in range(2):  # the flush, and once more at the end
                batch = await daemon.read()
                assert [(s.node, s.values) for s in batch.samples] == [("edge-7/a", (21.5, 3.0))]
                assert batch.rejected == {}
                await daemon.source.commit(batch.position)
            assert await exporting

    run(main)


@pytest.mark.parametrize("packed", [False, True])
def test_json_and_protobuf_are_read_alike(packed: bool) -> None:
    from google.protobuf import json_format

    text = document(FLOW, LEVEL)
    binary = json_format.Parse(text, ExportMetricsServiceRequest(), ignore_unknown_fields=True)

    async def main() -> None:
        async with Daemon(otlp=OTLP) as daemon:
            await daemon.source.open(None)
            found = []
            for body, kind in ((text, JSON), (binary.SerializeToString(), PROTOBUF)):
                headers = {**kind, "Content_Encoding": "gzip"} if packed else kind
                posting = daemon.posting("/v1/metrics", gzip.compress(body) if packed else body, **headers)
                batch, (status, answer) = await exported(daemon, posting)
                assert status == 200
                assert answer in ("", "{}"), "all was taken"
                found.append([(s.node, s.time, str(s.values)) for s in batch.samples])
            assert found[0] == found[1] == [("plant", 10.0, "(1.5, 3.0)"), ("plant", 11.0, "(2.5, nan)")]

    run(main)


def test_senders_hear_what_was_not_taken() -> None:
    async def main() -> None:
        async with Daemon(otlp=OTLP) as daemon:
            await daemon.source.open(None)
            posting = daemon.posting("/v1/metrics", document(FLOW, HISTOGRAM), **JSON)
            _, (status, text) = await exported(daemon, posting)
            assert (status, json.loads(text)) == (
                200, {"partialSuccess": {"rejectedDataPoints": "1", "errorMessage": "1 type"}},
            )  # fmt: skip
            posting = daemon.posting("/v1/metrics", document(FLOW), **JSON)
            batch = await daemon.read()
            batch.accounts[0][1]["late"] = 2
            await daemon.source.commit(batch.position)
            status, text = await posting
            assert (status, json.loads(text)["partialSuccess"]["errorMessage"]) == (200, "2 late")

            other = document({"name": "other", "gauge": {"dataPoints": [number(1.0, 1)]}})
            status, text = await daemon.post("/v1/metrics", other, **JSON)
            assert status == 200
            assert "the first is 'other'" in json.loads(text)["partialSuccess"]["errorMessage"]
            status, text = await daemon.post("/v1/metrics", document(HISTOGRAM), **PROTOBUF)
            assert status == 400
            assert (await daemon.post("/v1/metrics", b"{", **JSON))[0] == 400
            assert (await daemon.post("/v1/metrics", b"text", Content_Type="text/plain"))[0] == 415
            async with daemon.session.post(
                "/v1/metrics", data=b"", headers={"Content-Type": "application/x-protobuf"}
            ) as answer:
                assert answer.status == 200
                assert ExportMetricsServiceResponse.FromString(await answer.read()) is not None

    run(main)


def test_prometheus_writes_to_us(tmp_path: Path) -> None:
    """A real server scrapes a page and writes what it scraped; both metrics of a target are one sample."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text='flow{pump="a"} 21.5\nflow{pump="b"} 3\nlevel{pump="a"} 7\n')

    async def main() -> None:
        target = servers.free_port()
        app = web.Application()
        app.router.add_get("/metrics", page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", target).start()
        config = {"metrics": ["flow", "level"], "node": "{job}/{pump}"}
        async with Daemon(remote_write=config) as daemon:
            await daemon.source.open(None)
            scrape = f"[{{job_name: plant, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]"
            url = f"http://127.0.0.1:{daemon.port}/api/v1/write"
            write = f"[{{url: '{url}', queue_config: {{max_shards: 1, batch_send_deadline: 1s}}}}]"
            server = await asyncio.to_thread(
                servers.prometheus, tmp_path / "prometheus", scrape=scrape, remote_write=write
            )
            try:
                found: dict[str, set[str]] = {}
                while len(found) < 2 or len(found["plant/a"]) < 3:
                    batch = await asyncio.wait_for(daemon.source.read(), 120)
                    assert batch is not None
                    for sample in batch.samples:
                        found.setdefault(sample.node, set()).add(f"{sample.time} {sample.values}")
                    await daemon.source.commit(batch.position)
            finally:
                await asyncio.to_thread(server.stop)
                await runner.cleanup()
        assert {text.split(" ", 1)[1] for text in found["plant/a"]} == {"(21.5, 7.0)"}
        assert {text.split(" ", 1)[1] for text in found["plant/b"]} == {"(3.0, nan)"}

    asyncio.run(asyncio.wait_for(main(), 240))


def test_what_is_configured_needs_its_library() -> None:
    """`detector check` names what is missing before a sender meets it."""
    assert HttpSource.requires(HttpSource.Config()) == {}
    needed = HttpSource.requires(HttpSource.Config.model_validate({"otlp": OTLP}))
    assert set(needed) == {"otlp"}
    assert all(map(installed, needed["otlp"]))
    assert not installed("opentelemetry.no_such_package")
    assert not installed("no_such_package.at_all")


def written(**labels: str) -> bytes:
    request = _write_request()()
    series = request.timeseries.add()
    for name, value in labels.items():
        series.labels.add(name=name, value=value)
    series.samples.add(value=2.0, timestamp=5500)
    return request.SerializeToString()  # type: ignore[no-any-return]


def snappy(body: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(body))


def test_remote_write_has_honest_statuses() -> None:
    good = snappy(written(__name__="up", job="x"))
    headers = {**PROTOBUF, "Content_Encoding": "snappy"}

    async def main() -> None:
        async with Daemon(remote_write={"max_bytes": "1KiB"}) as daemon:
            await daemon.source.open(None)
            batch, (status, text) = await exported(daemon, daemon.posting("/api/v1/write", good, **headers))
            assert (status, text) == (204, "")
            assert [(s.node, s.time, s.values) for s in batch.samples] == [('up{job="x"}', 5.5, (2.0,))]
            posting = daemon.posting("/api/v1/write", good, **headers)
            batch = await daemon.read()
            batch.accounts[0][1]["node"] = 1
            await daemon.source.commit(batch.position)
            assert (await posting)[0] == 422
            assert (await daemon.post("/api/v1/write", b"no snappy at all", **headers))[0] == 400
            assert (await daemon.post("/api/v1/write", snappy(b"\xff\xff no protobuf"), **headers))[0] == 400
            assert (await daemon.post("/api/v1/write", snappy(b" " * 10_000), **headers))[0] == 413
            second = {
                **headers,
                "Content_Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request",
            }
            assert (await daemon.post("/api/v1/write", good, **second))[0] == 415
            assert (await daemon.post("/api/v1/write", good, Content_Encoding="identity"))[0] == 415

    run(main)
