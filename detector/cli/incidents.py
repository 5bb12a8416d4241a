"""`detector status`, `incidents`, `explain`: what the daemon sees, and what people say back to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.client import Daemon, NotRunning, incident_path
from detector.cli.common import UNAVAILABLE, Failure, load_config, print_json, print_table
from detector.cli.options import config_option, json_option, struct_options
from detector.events.label import Label, parse_label
from detector.settings.renamed import deprecated

if TYPE_CHECKING:
    from detector.config.config import Config

Record = dict[str, Any]
WORTH = (
    "type",
    "error",
    "reload_refused",
    "damaged",
    "lag",
    "waiting",
    "set_aside",
)  # of what a part says about itself
LIMIT = 1000  # incidents listed, the newest
DONE = {"accept": "accepted", "clear": "cleared", "label": "labelled"}


@click.command()
@config_option
@json_option
def status(config_path: Path, as_json: bool) -> None:
    """Show the status of the running daemon. Exit code 69 if it is not ready or cannot be reached."""
    daemon = Daemon(load_config(config_path))
    ready: Record = daemon.get("/readyz")
    now: Record = daemon.get("/api/v1/status")
    if as_json:
        print_json({**now, "ready": ready["ready"], "status": ready["status"], "parts": ready["parts"]})
    else:
        print_table(["part", "state", "about"], status_rows(ready, now), f"detector at {daemon.address}")
        print_incidents(now["incidents_open"])
    if not ready["ready"]:
        raise Failure("the daemon is not ready", UNAVAILABLE)


def status_rows(ready: Record, now: Record) -> list[list[str]]:
    """One line per part of the daemon, the whole first."""
    states = ", ".join(f"{count} {name}" for name, count in now["nodes"]["states"].items() if count)
    rows = [["service", ready["status"], now["summary"]], ["nodes", str(now["nodes"]["count"]), states]]
    if now.get("event_threshold") is not None:
        largest, level = now.get("event_statistic_max"), now["event_threshold"]
        rows.append(["statistic", _word(largest), f"largest event statistic; the threshold is {level:g}"])
    if now.get("promised_rate") is not None:
        observed = now.get("observed_rate")
        seen = "" if observed is None else f"; labelled false so far: {observed * 86400:.3g} per day"
        budget = (now.get("report") or {}).get("budget")
        promise = now.get("promise")
        said = "promised" if promise in (None, budget) else f"promised, {promise}; the budget is {budget}"
        rows.append(["false incidents", f"{now['promised_rate'] * 86400:.3g} per day", f"{said}{seen}"])
    rows += [_row(name, part) for name, part in ready["parts"].items()]
    for side in ("sources", "sinks"):
        rows += [
            _row(f"{side}.{name}", {**now[side].get(name, {}), **part}) for name, part in ready[side].items()
        ]
    return rows


def _row(name: str, part: Record) -> list[str]:
    rest = {key: fact for key, fact in part.items() if key != "status"}
    plain = {key: fact for key, fact in rest.items() if key in WORTH and fact not in (None, "")}
    return [name, str(part["status"]), ", ".join(f"{key} {_word(fact)}" for key, fact in plain.items())]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


@click.group()
def incidents() -> None:
    """List incidents, and accept, clear or label them."""


@incidents.command("list")
@config_option
@click.option("--all", "everything", is_flag=True, help="Include closed incidents.")
@json_option
def list_(config_path: Path, everything: bool, as_json: bool) -> None:
    """List the open incidents, newest first."""
    found = [r for r in _latest(load_config(config_path)) if everything or not r.get("resolution")]
    if as_json:
        print_json(found)
    else:
        print_incidents(found)


@incidents.command()
@click.argument("incident")
@config_option
@json_option
def show(incident: str, config_path: Path, as_json: bool) -> None:
    """Show one incident, its nodes and findings; with --json all its records."""
    records = _records(load_config(config_path), incident)
    if as_json:
        print_json(records)
        return
    last, found = _split(records)
    print_incidents([last])
    nodes = last.get("nodes") or ()
    rows = [[node["name"], node["state"], node.get("statistic"), node.get("peak")] for node in nodes]
    print_table(["node", "state", "statistic", "peak"], rows, "nodes")
    print_findings(found)


@click.command()
@click.argument("incident")
@config_option
@json_option
def explain(incident: str, config_path: Path, as_json: bool) -> None:
    """Explain why an incident was raised: nodes, onset, statistic against threshold, how values changed."""
    records = _records(load_config(config_path), incident)
    if as_json:
        print_json(_split(records)[0])
        return
    from detector.events.terminal import describe

    click.echo(describe(records))


@incidents.command()
@click.argument("incident")
@config_option
def accept(incident: str, config_path: Path) -> None:
    """Accept the change as the new baseline, and close the incident."""
    _tell(config_path, incident, "accept", {})


@incidents.command()
@click.argument("incident")
@config_option
def clear(incident: str, config_path: Path) -> None:
    """Close the incident and keep the earlier baseline."""
    _tell(config_path, incident, "clear", {})


@incidents.command()
@click.argument("incident")
@config_option
@json_option
def analyze(incident: str, config_path: Path, as_json: bool) -> None:
    """Analyze an incident again with what the daemon has learnt meanwhile."""
    daemon = Daemon(load_config(config_path))
    found: list[Record] = daemon.act(incident_path(incident, "analyze"), {})["findings"]
    if as_json:
        print_json(found)
    else:
        print_findings(found)


@incidents.command(hidden=True, params=analyze.params)
@click.pass_context
def examine(context: click.Context, /, **given: Any) -> None:
    """The name of `analyze` in version 0.1."""
    click.echo(f"Warning: {deprecated('examine', 'analyze')}", err=True)
    context.invoke(analyze, **given)


@incidents.command()
@click.argument("incident")
@struct_options(Label)
@config_option
def label(incident: str, config_path: Path, said: Record) -> None:
    """Record what you know about an incident; labels are kept permanently."""
    try:
        parse_label(said)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _tell(config_path, incident, "label", said)


def _tell(config_path: Path, incident: str, action: str, body: Record) -> None:
    Daemon(load_config(config_path)).post(incident_path(incident, action), body)
    click.echo(f"{incident}: {DONE[action]}")


def _latest(config: Config) -> list[Record]:
    """The last record of every incident, newest first: from the daemon, else from its database."""
    try:
        return _listed(Daemon(config).get("/api/v1/incidents", limit=LIMIT))
    except NotRunning:
        latest: dict[str, Record] = {}
        for record in (one for one in _stored(config) if one["event"] != "incident.analyzed"):
            latest.pop(record["incident"], None)
            latest[record["incident"]] = record
        return list(latest.values())[::-1]


def _records(config: Config, incident: str) -> list[Record]:
    """All records of an incident, oldest first."""
    try:
        found = _listed(Daemon(config).get(incident_path(incident)))
    except NotRunning:
        found = [record for record in _stored(config) if record["incident"] == incident]
    if not found:
        raise Failure(f"there is no incident {incident!r}; `detector incidents list --all` names them")
    return found


def _stored(config: Config) -> list[Record]:
    from detector.storage.inspect import export

    records = [record for record in export(config.state.folder()) if record.pop("kind") == "record"]
    return [record for record in records if str(record["event"]).startswith("incident.")]


def _listed(answer: Record) -> list[Record]:
    found: list[Record] = answer["incidents"] if "incidents" in answer else answer["records"]
    return found


def _split(records: list[Record]) -> tuple[Record, list[Record]]:
    from detector.events.terminal import split

    last, found = split(records)
    return dict(last), [dict(one) for one in found]


def print_findings(records: list[Record]) -> None:
    if not records:
        click.echo("no findings")
        return
    rows = [[one["details"]["kind"], one["details"]["stage"], one["summary"]] for one in records]
    print_table(["finding", "stage", "summary"], rows, "findings")


def print_incidents(records: list[Record]) -> None:
    from detector.events.model import clock
    from detector.events.wording import extent, split_nodes

    if not records:
        click.echo("no incidents")
        return
    rows = []
    for record in records:
        opened = record.get("opened")
        since = "" if opened is None else clock(float(opened), 0.0)
        state = record.get("resolution") or "open"
        nodes = extent(*map(len, split_nodes(record.get("nodes") or ())))
        rows.append([record["incident"], state, record["severity"], since, nodes, record["summary"]])
    print_table(["incident", "state", "severity", "opened", "nodes", "summary"], rows, "incidents")
