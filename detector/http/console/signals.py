"""Signals over time: of the members of an incident, stored with it, and of one node over hours and days."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import numpy as np
from aiohttp import web
from msgspec import Meta
from numpy.typing import NDArray

from detector.diagnosis.distributions import Distribution, distributions
from detector.http.answers import Problem, answer, parse_query
from detector.http.service import SERVICE, Service
from detector.pipeline.signal_capture import COARSE, FINE, Block, Columns
from detector.storage import cases, records
from detector.storage.arrays import Unreadable
from detector.storage.console import incident_signals, signals
from detector.storage.console.signals import Signal

ROWS = 1500  # of a node's history
DAY = 86400.0
LISTED = 1000  # incidents that are looked through for those of a node

Numbers = list[float | None]


class NodeSignal(msgspec.Struct):
    """One node over time; a row is a stretch of time, with mean, lowest and highest value per component.

    Without lowest and highest there is one sample in each row.
    """

    name: str
    times: list[float]
    mean: list[Numbers]
    low: list[Numbers]
    high: list[Numbers]
    statistic: Numbers
    event_statistic: Numbers


class IncidentSignals(msgspec.Struct):
    """Signals of the members of an incident, before, during and after, the strongest first."""

    incident: str
    onset: float | None
    opened: float | None
    ended: float | None
    threshold: float | None  # of a node's own statistic
    event_threshold: float | None  # of the pooled one
    components: list[str]
    nodes: list[NodeSignal]
    distributions: list[Distribution]


class Marked(msgspec.Struct):
    """A stretch of time in which an incident had the node."""

    incident: str
    begin: float
    end: float | None
    severity: str
    summary: str


class NodeHistory(msgspec.Struct):
    """A node over time, oldest first, at a resolution that fits; the incidents that it was part of."""

    name: str
    width: float | None  # seconds of one row
    components: list[str]
    times: list[float]
    mean: list[Numbers]
    low: list[Numbers]
    high: list[Numbers]
    statistic: Numbers
    event_statistic: Numbers
    threshold: float | None
    event_threshold: float | None
    incidents: list[Marked]


class HistoryQuery(msgspec.Struct):
    """How far back."""

    span: Annotated[float, Meta(gt=0, le=366 * DAY, description="Seconds before the latest data.")] = (
        3 * 3600.0
    )


async def of_incident(request: web.Request) -> web.Response:
    """Everything that is drawn of an incident."""
    service, incident = request.app[SERVICE], request.match_info["incident"]
    told = incident_signals.latest(await service.incident(incident))
    if told is None:
        raise Problem(404, f"there is no incident {incident!r}")
    under_way = await service.signals([node["name"] for node in told["nodes"]])
    found = await service.read(incident_signals.read, incident, under_way)
    assert found is not None
    told, drawn = found
    content = IncidentSignals(
        incident=incident, onset=told.get("onset"), opened=told.get("opened"), ended=told.get("ended"),
        threshold=told.get("node_threshold"), event_threshold=told.get("threshold"),
        components=_components(service, drawn.values()),
        nodes=sorted((NodeSignal(name, **_columns(one)) for name, one in drawn.items()), key=_strongest),
        distributions=await _distributions(service, incident),
    )  # fmt: skip
    return _large(content)


def _strongest(node: NodeSignal) -> float:
    return -max((value for value in node.statistic if value is not None), default=-math.inf)


async def _distributions(service: Service, incident: str) -> list[Distribution]:
    for stage in ("settled", "early"):
        try:
            case = await service.read(cases.read_case, incident, stage)
        except Unreadable:
            continue
        if case is not None:
            return distributions(case)
    return []


async def of_node(request: web.Request) -> web.Response:
    span = parse_query(request, HistoryQuery).span
    return _large(await history(request.app[SERVICE], request.match_info["name"], span, ROWS))


async def history(service: Service, name: str, span: float, most: int) -> NodeHistory:
    """What is stored of a node, in at most so many rows; Problem if there is none of that name."""
    view = service.view
    if name not in view.network.node_index.index:
        raise Problem(404, "there is no such node")
    now = math.inf if view.watermark is None else view.watermark
    blocks = await service.signals([name])
    since = (now if math.isfinite(now) else 0.0) - span
    tier = _tier(await service.read(signals.begins), blocks, since)
    stored = (await service.read(signals.read_signals, [name], tier, since, math.inf))[name]
    parts = [stored, *(signals.of_block(one, 0) for one in blocks if one.tier == tier and one.names)]
    signal = Signal.joined(parts).between(since, math.inf).thinned(most)
    width = next((block.width for block in blocks if block.tier == tier), None)
    return NodeHistory(
        name=name, width=width, components=_components(service, [signal]), **_columns(signal),
        threshold=_number(view.threshold), event_threshold=_number(view.event_threshold),
        incidents=await _incidents_of(service, name, since),
    )  # fmt: skip


def _tier(stored: dict[int, float], blocks: list[Block], since: float) -> int:
    """The fine one, unless the coarse one reaches further back into what was asked for."""
    begins = dict(stored)
    slack = 0.0
    for block in blocks:
        begins[block.tier] = min(block.begin, begins.get(block.tier, math.inf))
        slack = max(slack, block.until - block.begin)  # both begin with a block of their own
    if COARSE not in begins or FINE not in begins:
        return FINE
    return COARSE if begins[FINE] > max(since, begins[COARSE]) + slack else FINE


async def _incidents_of(service: Service, name: str, since: float) -> list[Marked]:
    found = []
    for record in await service.read(records.latest, LISTED):
        if record.time < since and record.incident not in service.view.open_incidents:
            continue
        content = record.content()
        if any(node["name"] == name for node in content["nodes"]):
            begin = content["onset"] or content["opened"] or content["time"]
            end = None if record.incident in service.view.open_incidents else content["time"]
            found.append(Marked(str(record.incident), begin, end, content["severity"], content["summary"]))
    return found


def _components(service: Service, drawn: Any) -> list[str]:
    kept = max((_dim(signal) for signal in drawn), default=0)
    return list(service.view.components)[:kept]


def _dim(signal: Signal) -> int:
    return max(0, (int(signal.values.shape[1]) - 2) // 3)


def _columns(signal: Signal) -> dict[str, Any]:
    columns, values = Columns(_dim(signal)), signal.values
    if not len(values):
        values = np.zeros((0, columns.width), np.float32)
    own, pooled = _numbers(values[:, columns.statistics])
    mean, low, high = (values[:, place] for place in (columns.mean, columns.low, columns.high))
    single = np.array_equal(low, high, equal_nan=True)  # one sample in each row: nothing lies around the mean
    return {
        "times": np.round(signal.times, 3).tolist(),
        "mean": _numbers(mean),
        "low": [] if single else _numbers(low),
        "high": [] if single else _numbers(high),
        "statistic": own,
        "event_statistic": pooled,
    }


def _numbers(values: NDArray[Any]) -> list[Numbers]:
    """One list per column, in six digits; what is not known is null."""
    return [[None if math.isnan(x) else float(f"{x:.6g}") for x in column] for column in values.T.tolist()]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _large(content: Any) -> web.Response:
    response = answer(content)
    response.enable_compression()
    return response
