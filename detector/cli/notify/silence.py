"""`detector silence`: nothing about some nodes is sent for some time; incidents are recorded as always."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from connectors.settings.units import format_duration, parse_duration
from detector.cli.client import Daemon
from detector.cli.common import load_config, print_json, print_table
from detector.cli.options import config_option, json_option
from detector.events.model import iso


@click.group()
def silence() -> None:
    """Stop sending incidents of some nodes for a while: silences and maintenance windows."""


@silence.command("add")
@click.argument("nodes", nargs=-1)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of notify.groups.")
@click.option("--for", "lasts", required=True, metavar="TIME", help="Duration, such as 30m or 2h.")
@click.option("--from", "begin", metavar="WHEN", help="Start, such as 2026-11-22T02:00; default: now.")
@click.option(
    "--every",
    type=click.Choice(["once", "day", "week"]),
    default="once",
    show_default=True,
    help="Repeat every day or week at the same time, until it is ended.",
)
@click.option(
    "--zone", default="UTC", show_default=True, metavar="NAME",
    help="Time zone of --from and of repetitions, such as Europe/Berlin.",
)  # fmt: skip
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown to people.")
@config_option
@json_option
def add(config_path: Path, nodes: tuple[str, ...], groups: tuple[str, ...], lasts: str, begin: str | None,
        every: str, zone: str, reason: str, as_json: bool) -> None:  # fmt: skip
    """Silence NODES, given by name; * and ? are wildcards. Prints the id of the silence."""
    if not nodes and not groups:
        raise click.UsageError("name the nodes or a --group; '*' is all nodes")
    try:
        seconds = parse_duration(lasts)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    body = {"nodes": list(nodes), "groups": list(groups), "lasts": seconds, "begin": begin, "every": every,
            "zone": zone, "reason": reason}  # fmt: skip
    shown = Daemon(load_config(config_path)).post("/api/v1/silences", body)
    if as_json:
        print_json(shown)
    else:
        click.echo(shown["silence"]["id"])
        click.echo(f"{shown['state']}; {_when(shown['silence'])}", err=True)


@silence.command("list")
@config_option
@json_option
def list_silences(config_path: Path, as_json: bool) -> None:
    """List silences and maintenance windows, active ones first."""
    found = Daemon(load_config(config_path)).get("/api/v1/silences")
    if as_json:
        print_json(found)
        return
    rows = [
        [one["silence"]["id"], one["state"], _about(one["silence"]), _when(one["silence"]),
         one["silence"]["who"], one["silence"]["reason"]]
        for one in found["silences"]
    ]  # fmt: skip
    if rows:
        print_table(["id", "state", "nodes", "when", "by", "why"], rows, "silences")
    else:
        click.echo("no silences", err=True)


@silence.command("end")
@click.argument("silence_id", metavar="ID")
@config_option
@json_option
def end(config_path: Path, silence_id: str, as_json: bool) -> None:
    """End a silence early. ID is the one that `detector silence list` shows."""
    shown = Daemon(load_config(config_path)).post(f"/api/v1/silences/{quote(silence_id, safe='')}/end", {})
    if as_json:
        print_json(shown)
    else:
        click.echo(f"{silence_id} has ended", err=True)


def _about(one: dict[str, Any]) -> str:
    return ", ".join([*one["nodes"], *(f"group {group}" for group in one["groups"])])


def _when(one: dict[str, Any]) -> str:
    words = f"from {iso(one['begin']) or one['begin']} for {format_duration(one['lasts'])}"
    words += "" if one["every"] == "once" else f", every {one['every']}"
    words += "" if one["zone"] == "UTC" else f" ({one['zone']})"
    return words if one["ended"] is None else f"{words}; ended {iso(one['ended']) or one['ended']}"
