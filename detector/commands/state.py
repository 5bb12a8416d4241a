"""`detector state inspect|export`: look into what the daemon keeps on disk, without disturbing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from detector.commands.base import config_option, json_option, load_config
from detector.commands.output import print_json, print_table


@click.group()
def state() -> None:
    """Look into the saved state."""


@state.command()
@config_option
@json_option
def inspect(config_path: Path, as_json: bool) -> None:
    """Say what the state folder holds."""
    from detector.state_view import inspect as look

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
    from detector.state_view import export as records
    from detector.state_view import export_files

    folder = load_config(config_path).state.folder()
    if files is not None:
        counts = export_files(folder, files)
        click.echo(f"{counts['case_files']} case files and {counts['models']} models written to {files}")
        return
    found = records(folder)
    with click.open_file(str(output) if output else "-", "w", encoding="utf-8") as out:
        for record in found:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
