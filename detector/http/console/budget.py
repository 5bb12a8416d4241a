"""The budget: what others would have raised in the time that is stored, and choosing another one."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import msgspec
import numpy as np
from aiohttp import web
from msgspec import Meta

from detector.engines.calibration_report import CalibrationReport
from detector.http.answers import Problem, answer, parse_body, parse_query
from detector.http.auth import VISITOR
from detector.http.console.remarks import note
from detector.http.service import SERVICE, Service
from detector.pipeline.signal_capture import COARSE, FINE
from detector.settings.budget import Budget
from detector.storage import records
from detector.storage.console import signals
from detector.storage.console.overrides import BudgetOverride
from estimators.core.types import Floats

OFFERED = ("1 per 1h", "1 per 6h", "1 per 1d", "1 per 7d", "1 per 30d", "1 per 90d", "1 per 365d")
TICKS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # times the present one, where that is in ticks
PAUSE = 25  # ticks below the threshold, after which another crossing counts as another event
ROWS = 1500
LISTED = 10_000  # incidents that are looked through

Words = Annotated[str, Meta(min_length=1, max_length=60)]


class BudgetQuery(msgspec.Struct):
    """What to compare."""

    budget: Annotated[Words | None, Meta(description="A further budget, such as 2 per week.")] = None


class NewBudget(msgspec.Struct, forbid_unknown_fields=True):
    """The budget to take from now on."""

    budget: Annotated[Words | None, Meta(description="Such as 1 per 30d; null: that of the configuration.")]


class BudgetRow(msgspec.Struct):
    """One budget, looked back from now."""

    budget: str
    threshold: float  # of the event statistic
    events: int  # how often the stored statistic passed it
    allowed: float  # false incidents in that time, by the budget
    in_use: bool


class BudgetView(msgspec.Struct):
    """Budgets compared on what is stored; no rows before learning, and where nothing is promised."""

    budget: str | None
    configured: str
    chosen: BudgetOverride | None
    promise: str | None
    since: float | None
    until: float | None
    recorded: int  # incidents opened in that time, with the thresholds of then
    rows: list[BudgetRow]
    times: list[float]
    highest: list[float]  # the largest event statistic of the network


async def show(request: web.Request) -> web.Response:
    given = parse_query(request, BudgetQuery).budget
    response = answer(await _view(request.app[SERVICE], None if given is None else _parsed(given)))
    response.enable_compression()
    return response


async def choose(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    given = (await parse_body(request, NewBudget)).budget
    budget = None if given is None else _parsed(given)
    before = str(service.configured_budget if service.budget_override is None
                 else service.budget_override.budget)  # fmt: skip
    try:
        await service.choose_budget(budget, request[VISITOR].name)
    except ValueError as error:
        raise Problem(409, str(error)) from None
    now = str(service.configured_budget if budget is None else budget)
    await note(request, "budget", "alarm.budget", {"before": before, "now": now})
    return answer(await _view(service, None))


def _parsed(words: str) -> Budget:
    try:
        return Budget.parse(words)
    except ValueError as error:
        raise Problem(400, f"budget: {error}") from None


async def _view(service: Service, further: Budget | None) -> BudgetView:
    view, report = service.view, service.view.report
    times, highest = await _highest(service)
    seen = np.isfinite(highest)
    times, highest = times[seen], highest[seen]
    since, until = (float(times[0]), float(times[-1])) if len(times) else (None, None)
    promising = isinstance(report, CalibrationReport) and report.allowed is not None
    rows = _rows(report, view.quiet_ratio, times, highest, further) if promising and len(times) > 1 else []
    thin = max(1, math.ceil(len(times) / ROWS))
    kept = [slice(i, i + thin) for i in range(0, len(times), thin)]
    return BudgetView(
        budget=str(report.allowed) if promising else None,
        configured=str(service.configured_budget), chosen=service.budget_override, promise=view.promise,
        since=since, until=until, recorded=await _recorded(service, since), rows=rows,
        times=[float(times[part].mean()) for part in kept],
        highest=[float(f"{highest[part].max():.6g}") for part in kept],
    )  # fmt: skip


def _rows(
    report: CalibrationReport, quiet: float, times: Floats, highest: Floats, further: Budget | None
) -> list[BudgetRow]:
    assert report.allowed is not None
    own, step = report.allowed, report.step
    if own.unit == "ticks":
        offered = [Budget(own.count, float(f"{own.period * factor:.2g}"), "ticks") for factor in TICKS]
    else:
        offered = [Budget.parse(words) for words in OFFERED]
    by_words = {str(one): one for one in (*offered, *([further] if further else ()), own)}
    span = float(times[-1] - times[0]) / step
    found = []
    for words, budget in by_words.items():
        threshold = dataclasses.replace(report, allowed=budget).event_threshold_at(quiet)
        events = crossings(times, highest, threshold, PAUSE * step)
        allowed = float(f"{budget.per_tick(step) * span:.3g}")
        found.append(BudgetRow(words, float(f"{threshold:.6g}"), events, allowed, words == str(own)))
    return sorted(found, key=lambda row: row.threshold)


def crossings(times: Floats, values: Floats, threshold: float, pause: float) -> int:
    """How often the values pass a threshold; passing it again within a pause is the same event.

    Examples
    --------
    >>> import numpy as np
    >>> crossings(np.arange(8.0), np.array([0, 5, 0, 5, 0, 0, 0, 5.0]), 3.0, 2.0)
    2
    """
    above = times[values > threshold]
    return int(np.count_nonzero(np.diff(above) > pause)) + int(len(above) > 0)


async def _highest(service: Service) -> tuple[Floats, Floats]:
    """The largest event statistic over all that is stored: the finer tier where both are."""
    names = list(service.view.names)
    under_way = await service.signals(names)
    found: dict[float, float] = {}
    begins: dict[int, float] = await service.read(signals.begins)
    fine = begins.get(FINE, math.inf)
    for tier, until in ((COARSE, fine), (FINE, math.inf)):
        for begin in await service.read(signals.blocks_since, tier, -math.inf):
            part: dict[float, float] = await service.read(signals.highest, tier, begin)
            found |= {time: value for time, value in part.items() if time < until}
    for block in under_way:
        if block.tier == FINE:
            signals.add_highest(found, block)
    order: Any = np.array(sorted(found), float)
    return order, np.array([found[time] for time in order.tolist()], float)


async def _recorded(service: Service, since: float | None) -> int:
    if since is None:
        return 0
    latest = await service.read(records.latest, LISTED)
    return sum((record.content()["opened"] or 0.0) >= since for record in latest)
