"""Incidents to the Prometheus Alertmanager, by its API version 2.

Alertmanager forgets: a firing alert must be sent again before its `endsAt`, a resolved one for five
minutes. Labels are identity, so they hold the incident's id, its severity and constants only; all else is
annotation. An incident of another severity than before is another alert, for which routes may differ: the
earlier one is resolved with the same request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from pydantic import Field, field_validator

from connectors.base import Accepted, ConnectorError, Sink, unheard
from connectors.settings.http_client import HttpClient, HttpSettings, json_headers
from connectors.settings.units import Duration

RESOLVED_S = 300.0  # how long a resolved alert is repeated
MAX_TEXT = 2000  # characters of one annotation
ENDING = ("incident.resolved", "resolved")
LABELLED = "incident.labelled"  # what people say later; it neither starts nor ends anything
ANALYZED = "incident.analyzed"  # what was found out later: one more annotation


class AlertmanagerSink(Sink):
    """One alert per incident, firing from its first record until a record ends it.

    The incident is the record's "incident" (its "id" if it has no such field), the start its "opened",
    "onset" or "time". Records that belong to no incident ("incident" is null) are no alerts: they go by.
    """

    name = "alertmanager"
    example = ("url: http://127.0.0.1:9093",)
    wants_open_incidents = True

    class Config(HttpSettings):
        alertname: str = Field(default="DetectorIncident", description="Label alertname.", min_length=1)
        labels: dict[str, str] = Field(default_factory=dict, description="Further constant labels.")
        label_fields: list[str] = Field(
            default_factory=list, description="Record fields copied to labels; they must never change."
        )
        console_url: str | None = Field(
            default=None,
            description="Public address of the detector's console, such as "
            "https://detector.example: alerts link to the incident's page.",
        )
        resend: Duration = Field(default=60.0, description="How often alerts are repeated.", gt=0)
        ending: list[str] = Field(default=list(ENDING), description="Values of event that end an incident.")

        @field_validator("console_url")
        @classmethod
        def _address(cls, url: str | None) -> str | None:
            if url is not None and not url.startswith(("http://", "https://")):
                raise ValueError("must begin with http:// or https://")
            return url

        @field_validator("labels", "label_fields")
        @classmethod
        def _names(cls, names: Any) -> Any:
            for name in names:
                if not name.isascii() or not name.replace("_", "a").isalnum() or name[:1].isdigit():
                    raise ValueError(f"not a label name: {name!r}")
            return names

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._client = HttpClient(config)
        self._alerts: dict[str, dict[str, Any]] = {}  # incident -> alert as last sent
        # incident -> when it ended by the stream's time, and when we heard of it by a clock that nobody sets
        self._ended: dict[str, tuple[float, float]] = {}
        self._former: dict[str, dict[str, Any]] = {}  # of another severity than now: to be resolved
        self._findings: dict[str, dict[str, str]] = {}  # annotations that stay while the alert lives
        self._repeating: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._client.reach()
        if self._repeating is None:
            self._repeating = asyncio.create_task(self._repeat(), name="alertmanager resend")

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        before = dict(self._alerts), dict(self._ended), dict(self._findings), dict(self._former)
        try:
            await self._send(dict.fromkeys(self._take(records)))
        except BaseException:  # an alert that is not taken must not spoil the repetition of all the others
            self._alerts, self._ended, self._findings, self._former = before
            raise

    def _take(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Bring the alerts up to date; the incidents that changed."""
        changed = []
        for record in records:
            if record.get("incident", record["id"]) is None:
                continue
            incident = str(record.get("incident", record["id"]))
            if record.get("event") == ANALYZED:
                if incident in self._alerts:
                    self._note(incident, record)
                    changed.append(incident)
                continue
            late_word = record.get("event") == LABELLED
            if late_word and incident not in self._alerts:
                continue
            self._alerts[incident] = self._alert(incident, record)
            if record.get("event") in self.config.ending:
                self._ended[incident] = (_moment(record, ("time",)) or time.time(), time.monotonic())
            elif not late_word:
                self._ended.pop(incident, None)
            changed.append(incident)
        return changed

    def _note(self, incident: str, record: Mapping[str, Any]) -> None:
        kind = str(record.get("details", {}).get("kind", ""))
        if kind.replace("_", "a").isalnum():
            note = {f"finding_{kind}": _text(record.get("summary", ""))}
            self._findings[incident] = self._findings.get(incident, {}) | note
            alert = self._alerts[incident]
            self._alerts[incident] = {**alert, "annotations": alert["annotations"] | note}

    def _alert(self, incident: str, record: Mapping[str, Any]) -> dict[str, Any]:
        copied = {
            name: str(record[name]) for name in self.config.label_fields if record.get(name) is not None
        }
        severity = {"severity": str(record["severity"])} if record.get("severity") is not None else {}
        labels = {"alertname": self.config.alertname, "incident": incident, **severity}
        labels |= {**self.config.labels, **copied}
        skipped = {"incident", *self.config.label_fields, *severity}
        annotations = {
            name: _text(value)
            for name, value in record.items()
            if value not in (None, [], {}) and name not in skipped and name.replace("_", "a").isalnum()
        }
        annotations |= self._findings.get(incident, {})
        begun = _moment(record, ("opened", "onset", "time")) or time.time()
        old = self._alerts.get(incident)
        started = old["startsAt"] if old else _stamp(begun)
        alert: dict[str, Any] = {"labels": labels, "annotations": annotations, "startsAt": started}
        if isinstance(record.get("url"), str):
            alert["generatorURL"] = record["url"]
        elif self.config.console_url is not None:
            alert["generatorURL"] = (
                f"{self.config.console_url.rstrip('/')}/incidents/{quote(incident, safe='')}"
            )
        if old is not None and old["labels"] != labels:
            self._former[msgspec.json.encode(old["labels"]).decode()] = old
        self._former.pop(msgspec.json.encode(labels).decode(), None)
        return alert

    async def _send(self, incidents: Mapping[str, Any]) -> None:
        now = time.time()
        alerts = []
        for incident in incidents:
            alert = self._alerts[incident]
            ended = self._ended.get(incident)
            # A firing alert lives for four resends, so that one lost request resolves nothing.
            ends = now + 4 * self.config.resend if ended is None else min(ended[0], now)
            alerts.append({**alert, "endsAt": _stamp(max(ends, _seconds(alert["startsAt"]) + 0.001))})
        alerts += [{**former, "endsAt": _stamp(now)} for former in self._former.values()]
        if alerts:
            url = self.config.url.rstrip("/") + "/api/v2/alerts"
            await self._client.post(url, msgspec.json.encode(alerts), json_headers())
            self._former.clear()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self.config.resend)
            now = time.monotonic()
            for incident, (_, heard) in list(self._ended.items()):
                if now - heard > RESOLVED_S + self.config.resend:
                    del self._ended[incident]
                    del self._alerts[incident]
                    self._findings.pop(incident, None)
            try:
                await self._send(self._alerts)
            except ConnectorError:
                continue  # the next round sends it again; new records report the failure themselves

    async def close(self) -> None:
        repeating, self._repeating = self._repeating, None
        if repeating is not None:
            repeating.cancel()
            await asyncio.gather(repeating, return_exceptions=True)
        await self._client.close()


def _text(value: Any) -> str:
    for key, between in (("name", ", "), ("text", "; ")):  # nodes, and what changed, as people read them
        if isinstance(value, list) and value and all(isinstance(one, dict) and key in one for one in value):
            value = between.join(
                f"{one[key]} (possibly)" if one.get("changed") is False else str(one[key]) for one in value
            )
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _moment(record: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """The first of these fields that is a time: unix seconds or ISO 8601."""
    for name in names:
        value = record.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str):
            try:
                return _seconds(value)
            except ValueError:
                continue
    return None


def _seconds(stamp: str) -> float:
    moment = datetime.fromisoformat(stamp)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
