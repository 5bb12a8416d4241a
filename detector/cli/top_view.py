"""The frame that `detector top` shows: a running daemon's status as panels for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from detector.events.model import clock
from detector.events.wording import duration, extent, number, split_nodes

Status = Mapping[str, Any]
STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
STATES = {"alarmed": "bold red", "suspected": "yellow", "silent": "magenta", "stuck": "magenta",
          "out_of_range": "magenta"}  # fmt: skip
MARKS = {"critical": "▲", "warning": "◆", "info": "●"}


@dataclass
class Rates:
    """Samples and ticks per second, from two statuses."""

    samples: float | None = None
    ticks: float | None = None
    _before: Status | None = None

    def take(self, status: Status) -> None:
        before, self._before = self._before, status
        if before is None or before["started"] != status["started"] or status["time"] <= before["time"]:
            self.samples = self.ticks = None
            return
        passed = status["time"] - before["time"]
        self.samples = (status["counts"]["accepted"] - before["counts"]["accepted"]) / passed
        self.ticks = (status["ticks"] - before["ticks"]) / passed


def frame(status: Status, rates: Rates, address: str, height: int = 40) -> RenderableType:
    """Everything, in about ``height`` lines."""
    rows = max(4, (height - 14) // 2)
    parts: list[RenderableType] = [_head(status, rates, address)]
    if status["phase"] == "learning":
        parts.append(_learning(status))
    parts += [_incidents(status, rows), _nodes(status, rows), _connectors(status)]
    return Group(*parts)


def _head(status: Status, rates: Rates, address: str) -> RenderableType:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"detector {address}  ", "bold")
    line.append(str(status["phase"]), "yellow" if status["phase"] == "learning" else "green")
    line.append(f"  up {duration(status['time'] - status['started'])}")
    if status["watermark"] is not None:
        line.append(f"  stream {clock(status['watermark'], status['watermark'])}")
    line.append(f"  {_rate(rates.samples)} samples/s  {_rate(rates.ticks)} ticks/s")
    queue = status["queue"]
    full = queue["samples"] / max(queue["capacity"], 1)
    line.append(f"  queue {full:.0%}", "red" if full > 0.9 else "")
    states = Text("nodes ")
    states.append(str(status["nodes"]["count"]), "bold")
    for state, count in status["nodes"]["states"].items():
        states.append(f"  {state} ")
        states.append(str(count), STATES.get(state, ""))
    promised, observed = status["promised_rate"], status["observed_rate"]
    if promised:
        said = "none labelled false" if not observed else f"one in {duration(1 / observed)}"
        states.append(f"  false incidents: promised one in {duration(1 / promised)}, observed {said}")
    if status["state"]["failing"]:
        states.append(f"  state not saved: {clean(status['state']['failing'])}", "bold red")
    for damage in status["state"]["damages"]:
        states.append(f"  damaged state: {clean(damage['damage'])}", "bold red")
    return Panel(Group(line, states), padding=(0, 1))


def _learning(status: Status) -> RenderableType:
    stage = status["calibrating"]
    share = stage["share"] if stage else status["learning_progress"]
    words = f"calibrating: {stage['stage']}" if stage else "learning the baseline"
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(ratio=2)
    grid.add_row(Text(f"{words} {share:.0%}"), ProgressBar(total=1.0, completed=share))
    return Panel(grid, padding=(0, 1))


def _incidents(status: Status, rows: int) -> RenderableType:
    found: Sequence[Status] = sorted(status["incidents_open"], key=lambda one: -float(one["opened"] or 0.0))
    table = _table("incident", "severity", "since", "nodes", "what")
    for one in found[:rows]:
        severity = str(one["severity"])
        table.add_row(
            Text(str(one["incident"])),
            Text(f"{MARKS.get(severity, '')} {severity}", STYLES.get(severity, "")),
            Text("–" if one["opened"] is None else clock(one["opened"], status["watermark"] or 0.0)),
            Text(extent(*map(len, split_nodes(one["nodes"])))),
            Text(clean(one["summary"])),
        )
    more = f", {len(found) - rows} not shown" if len(found) > rows else ""
    return Panel(table if found else Text("none", "dim"), title=f"open incidents: {len(found)}{more}",
                 title_align="left", padding=(0, 1))  # fmt: skip


def _nodes(status: Status, rows: int) -> RenderableType:
    threshold = status["threshold"]
    members = {node["name"]: node["state"] for one in status["incidents_open"] for node in one["nodes"]}
    figures = ("statistic", "of threshold")
    table = _table("node", *figures, "", "incident", right=figures)
    for one in status["top_nodes"][:rows]:
        share = one["statistic"] / threshold if threshold else 0.0
        state = members.get(one["name"], "")
        style = "bold red" if share >= 1.0 else "yellow" if share >= 0.7 else ""
        table.add_row(
            Text(clean(one["name"]), style),
            Text(number(one["statistic"]), style),
            Text(f"{share:.0%}", style),
            ProgressBar(total=1.0, completed=min(max(share, 0.0), 1.0), width=20),
            Text(state, STATES.get(state, "dim")),
        )
    shown = table if status["top_nodes"] else Text("none yet", "dim")
    title = f"largest statistics; threshold {number(threshold)}"
    return Panel(shown, title=title, title_align="left", padding=(0, 1))


def _connectors(status: Status) -> RenderableType:
    table = _table("connector", "type", "status", "about")
    for name, source in status["sources"].items():
        lag = "" if source["lag"] is None else f"lag {duration(source['lag'])} "
        about = [source["error"] or "", *source.get("trouble", ())]
        table.add_row(
            f"← {clean(name)}", clean(source["type"]), _state(source), lag + clean(" ".join(about).strip())
        )
    for name, sink in status["sinks"].items():
        waiting = f"{sink['waiting']} waiting " if sink["waiting"] else ""
        table.add_row(
            f"→ {clean(name)}", clean(sink["type"]), _state(sink), waiting + clean(sink["error"] or "")
        )
    return Panel(table, title="sources and sinks", title_align="left", padding=(0, 1))


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, expand=True, header_style="dim", pad_edge=False)
    for name in columns:
        table.add_column(
            name, justify="right" if name in right else "left", no_wrap=True, overflow="ellipsis",
            ratio=3 if name == "what" else None,
        )  # fmt: skip
    return table


def _state(part: Status) -> Text:
    good = part["status"] in ("up", "ended")
    return Text(str(part["status"]), "green" if good else "bold red")


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def clean(text: Any) -> str:
    """Names come from outside: no control character may reach the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in str(text))
