"""`detector state`, `detector outbox`: look at what is stored, copy it, put it back, send it again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.client import Daemon, NotRunning
from detector.cli.common import Failure, load_config, print_json, print_table
from detector.cli.options import config_option, json_option

if TYPE_CHECKING:
    from detector.config.config import Config

Record = dict[str, Any]
sink_option = click.option("--sink", metavar="NAME", help="Only records set aside for this sink.")
all_option = click.option("--all", "everything", is_flag=True, help="All records that are set aside.")


@click.group()
def state() -> None:
    """Inspect, back up and restore the saved state."""


@state.command()
@config_option
@json_option
def inspect(config_path: Path, as_json: bool) -> None:
    """Summarise the contents of the state folder."""
    from detector.storage.inspect import inspect as look

    found = look(load_config(config_path).state.folder())
    if as_json:
        print_json(found)
    else:
        print_table(["what", "value"], [[name, _words(value)] for name, value in found.items()], "state")


def _words(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False) if value else "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


@state.command()
@config_option
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.option(
    "--files", type=click.Path(path_type=Path, file_okay=False),
    help="Write case files and models into this folder instead, as JSON and npz.",
)  # fmt: skip
def export(config_path: Path, output: Path | None, files: Path | None) -> None:
    """Print every record and every label as JSON lines, oldest first."""
    from detector.storage.inspect import export as records
    from detector.storage.inspect import export_files

    folder = load_config(config_path).state.folder()
    if files is not None:
        counts = export_files(folder, files)
        click.echo(f"{counts['case_files']} case files and {counts['models']} models written to {files}")
        return
    found = records(folder)
    with click.open_file(str(output) if output else "-", "w", encoding="utf-8") as out:
        for record in found:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


@state.command()
@config_option
@click.argument("target", type=click.Path(path_type=Path))
def backup(config_path: Path, target: Path) -> None:
    """Copy the whole state into a new file, whether or not the daemon is running.

    TARGET is the name of the file, or a folder for a file named after the time.
    """
    from detector.storage.backup import copy_whole

    if target.is_dir():
        target = target / time.strftime("detector-%Y%m%dT%H%M%SZ.db", time.gmtime())
    copy_whole(load_config(config_path).state.folder(), target)
    click.echo(f"state saved in {target}: {target.stat().st_size} bytes")


@state.command()
@config_option
@click.argument("copy", type=click.Path(path_type=Path), required=False)
def restore(config_path: Path, copy: Path | None) -> None:
    """Replace the state by a copy; the daemon must not be running.

    COPY is a file that `detector state backup` has written, or one of the folder backups of the state, where
    the daemon copies what it has learnt; without it, the newest of those. The former state is renamed, not
    removed.
    """
    from detector.storage.backup import copies
    from detector.storage.backup import restore as put_back

    folder = load_config(config_path).state.folder()
    if copy is None:
        found = copies(folder)
        if not found:
            raise click.UsageError(f"there are no copies in {folder}; name a file")
        copy = found[-1]
    former = put_back(folder, copy)
    click.echo(f"{folder} holds the state of {copy} now")
    if former is not None:
        click.echo(f"the former state is {former}")


@click.group()
def outbox() -> None:
    """List records that a sink did not accept, send them again, or drop them.

    A record is set aside when its sink refuses it, or takes others but not this one, `state.outbox_tries`
    times.
    """


@outbox.command("list")
@sink_option
@config_option
@json_option
def list_(sink: str | None, config_path: Path, as_json: bool) -> None:
    """List records that are set aside, oldest first."""
    found = [one for one in _set_aside(load_config(config_path)) if sink in (None, one["sink"])]
    if as_json:
        print_json(found)
    elif not found:
        click.echo("nothing is set aside")
    else:
        columns = ["record", "sink", "event", "since", "tries", "error"]
        print_table(columns, [_row(one) for one in found], "set aside")


def _row(one: Record) -> list[Any]:
    since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(one["since"]))
    return [one["record"]["id"], one["sink"], one["record"]["event"], since, one["tries"], one["error"]]


@outbox.command()
@click.argument("record")
@config_option
def show(record: str, config_path: Path) -> None:
    """Print one record as JSON, as it would be sent, and why it was set aside."""
    found = [one for one in _set_aside(load_config(config_path)) if one["record"]["id"] == record]
    if not found:
        raise Failure(f"not set aside: {record}")
    print_json(found)


@outbox.command()
@click.argument("records", nargs=-1)
@sink_option
@all_option
@config_option
def send(records: tuple[str, ...], sink: str | None, everything: bool, config_path: Path) -> None:
    """Send records again; without a running daemon, at its next start."""
    count = _tell("send", load_config(config_path), records, sink, everything)
    click.echo(f"{count} wait for their sinks again")


@outbox.command()
@click.argument("records", nargs=-1)
@sink_option
@all_option
@config_option
def drop(records: tuple[str, ...], sink: str | None, everything: bool, config_path: Path) -> None:
    """Drop records: they will not be sent. They stay in the history of the state."""
    count = _tell("drop", load_config(config_path), records, sink, everything)
    click.echo(f"{count} dropped")


def _set_aside(config: Config) -> list[Record]:
    """All that is set aside: from the daemon, else from its database."""
    try:
        return list(Daemon(config).get("/api/v1/outbox")["set_aside"])
    except NotRunning:
        from detector.storage.inspect import set_aside

        return set_aside(config.state.folder())


def _tell(what: str, config: Config, records: tuple[str, ...], sink: str | None, everything: bool) -> int:
    if not records and sink is None and not everything:
        raise click.UsageError("name records, or a --sink, or --all")
    given: Record = {"ids": list(records)} | ({} if sink is None else {"sink": sink})
    try:
        return int(Daemon(config).post(f"/api/v1/outbox/{what}", given)["records"])
    except NotRunning:
        return _write(what, config, records, sink)


def _write(what: str, config: Config, records: tuple[str, ...], sink: str | None) -> int:
    """The same in the database of a daemon that does not run."""
    from detector.storage.inspect import set_aside
    from detector.storage.store import Store

    folder = config.state.folder()
    found = [(one["sink"], one["record"]["id"]) for one in set_aside(folder) if sink in (None, one["sink"])]
    if unknown := set(records) - {id for _, id in found}:
        raise Failure(f"not set aside: {', '.join(sorted(unknown))}")
    chosen = [pair for pair in found if not records or pair[1] in records]
    store = Store(folder)
    try:
        return len(store.send_again(chosen)) if what == "send" else store.drop(chosen)
    finally:
        store.close()
