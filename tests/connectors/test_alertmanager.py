"""Alertmanager: one alert per incident, repeated while it fires, resolved when it ends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from connectors.alertmanager import AlertmanagerSink
from tests.connectors.sink_rigs import AlertmanagerRig


def test_firing_updated_resolved(running: Any, tmp_path: Path) -> None:
    """Three records of one incident are one alert; it stays alive by repeats and then resolves."""

    async def main() -> None:
        rig = AlertmanagerRig(running, tmp_path)
        connector = rig.make({**rig.config(), "resend": "300ms", "label_fields": ["site"]})
        await connector.open()
        opened = time.time() - 100
        common = {"incident": "i7", "site": "x", "opened": opened, "value": 1}
        await connector.write(
            [{"id": "i7-1", "event": "incident.opened", "nodes": [{"name": "a"}], **common}]
        )
        await connector.write(
            [
                {
                    "id": "i7-2",
                    "event": "incident.updated",
                    "nodes": [{"name": "a", "peak": 1, "changed": True}, {"name": "b", "changed": False}],
                    "score": 3.5,
                    **common,
                }
            ]
        )
        (alert,) = await rig.alerts()
        assert alert["labels"] == {
            "alertname": "DetectorIncident", "incident": "i7", "site": "x", "test": rig.unique,
        }  # fmt: skip
        assert alert["annotations"]["nodes"] == "a, b (possibly)"
        assert alert["annotations"]["score"] == "3.5"
        before = alert["endsAt"]
        await asyncio.sleep(1.6)  # longer than one endsAt: only the repeats keep it alive
        (alert,) = await rig.alerts()
        assert alert["status"]["state"] == "active"
        assert alert["endsAt"] > before
        await connector.write([{"id": "i7-3", "event": "incident.resolved", **common, "time": time.time()}])
        assert await rig.alerts() == []
        await connector.write(
            [{"id": "i7-4", "event": "incident.labelled", "labels": {"kind": "leak"}, **common}]
        )
        await connector.write([{"id": "n1", "event": "node.silent", "incident": None}])
        await connector.write([{"id": "i9-9", "event": "incident.labelled", "incident": "of long ago"}])
        await asyncio.sleep(0.7)  # it is still repeated, as resolved
        assert await rig.alerts() == []
        await connector.close()

    asyncio.run(main())


def test_findings_are_annotations(running: Any, tmp_path: Path) -> None:
    """They stay through later records of the incident, and start no alert by themselves."""

    async def main() -> None:
        rig = AlertmanagerRig(running, tmp_path)
        connector = rig.make()
        await connector.open()
        finding = {"event": "incident.analyzed", "summary": "grows", "details": {"kind": "trend"}}
        await connector.write([{"id": "i0-trend-settled", "incident": "unknown", **finding}])
        assert await rig.alerts() == []
        await connector.write(
            [{"id": "i8-1", "event": "incident.opened", "incident": "i8", "summary": "one"}]
        )
        await connector.write([{"id": "i8-trend-settled", "incident": "i8", **finding}])
        await connector.write(
            [{"id": "i8-2", "event": "incident.updated", "incident": "i8", "summary": "two"}]
        )
        (alert,) = await rig.alerts()
        assert alert["annotations"]["summary"] == "two"
        assert alert["annotations"]["finding_trend"] == "grows"
        await connector.close()

    asyncio.run(main())


def test_an_incident_that_opens_again_fires_again(running: Any, tmp_path: Path) -> None:
    async def main() -> None:
        rig = AlertmanagerRig(running, tmp_path)
        connector = rig.make()
        await connector.open()
        for event, count in (("opened", 1), ("resolved", 0), ("opened", 1)):
            await connector.write([{"id": "x", "incident": "j", "event": event, "value": 1}])
            assert len(await rig.alerts()) == count
        await connector.close()

    asyncio.run(main())


def test_resolved_ones_are_forgotten_in_the_end(
    running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No alert is kept for ever: five minutes (here 0.2 s) after its end it is gone from memory."""
    monkeypatch.setattr("connectors.alertmanager.RESOLVED_S", 0.2)

    async def main() -> None:
        rig = AlertmanagerRig(running, tmp_path)
        connector = rig.make({**rig.config(), "resend": "50ms"})
        assert isinstance(connector, AlertmanagerSink)
        await connector.open()
        await connector.write([{"id": "x", "event": "opened", "time": 1000.0}])
        await connector.write([{"id": "x", "event": "resolved", "time": 2000.0}])
        await asyncio.sleep(0.1)
        assert connector._alerts
        await asyncio.sleep(0.5)
        assert not connector._alerts
        await connector.close()

    asyncio.run(main())


def test_severity_is_a_label_and_the_alert_links_to_the_page(running: Any, tmp_path: Path) -> None:
    """An incident that becomes worse is one alert of the new severity; its end leaves none."""

    async def main() -> None:
        rig = AlertmanagerRig(running, tmp_path)
        connector = rig.make({**rig.config(), "console_url": "https://detector.example/"})
        await connector.open()
        changes = [{"kind": "mean", "text": "mean up 2.1 sd"}, {"kind": "spread", "text": "spread ×1.5"}]
        common = {"incident": "a b/c", "opened": time.time() - 100, "description": changes}
        await connector.write([{"id": "1", "event": "incident.opened", "severity": "warning", **common}])
        (alert,) = await rig.alerts()
        assert alert["labels"]["severity"] == "warning"
        assert "severity" not in alert["annotations"]
        assert alert["annotations"]["description"] == "mean up 2.1 sd; spread ×1.5"
        assert alert["generatorURL"] == "https://detector.example/incidents/a%20b%2Fc"
        await connector.write([{"id": "2", "event": "incident.updated", "severity": "critical", **common}])
        (alert,) = await rig.alerts()
        assert alert["labels"]["severity"] == "critical"
        ended = {"time": time.time(), **common}
        await connector.write([{"id": "3", "event": "incident.resolved", "severity": "critical", **ended}])
        assert await rig.alerts() == []
        await connector.close()

    asyncio.run(main())
