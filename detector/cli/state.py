"""`detector state inspect|export|backup|restore`: look at the stored state, copy it, put it back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from detector.cli.common import load_config, print_json, print_table
from detector.cli.options import config_option, json_option


@click.group()
def state() -> None:
    """Look into the saved state, copy it, put a copy back."""


@state.command()
@config_option
@json_option
def inspect(config_path: Path, as_json: bool) -> None:
    """Say what the state folder holds."""
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
    """Copy the whole state into a new file, while the daemon runs or not.

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
    """Put a copy in the place of the state; the daemon must not run.

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
