"""Tables, progress bars and incidents: for people on a terminal, plain when piped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from detector.commands.base import on_terminal

Progress = Callable[[str, float], None]


def print_json(data: Any) -> None:
    """Indented on a terminal, one line when piped."""
    click.echo(json.dumps(data, indent=2 if on_terminal() else None, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """A ruled table on a terminal, tabs between the fields when piped."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not on_terminal():
        for line in [columns, *cells]:
            click.echo("\t".join(line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in cells:
        table.add_row(*map(Text, line))
    Console().print(table)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    # Names come from outside: a control character must not reach a terminal.
    return "".join(letter if letter.isprintable() else "�" for letter in text)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """Gives a function of (what is done, share done); draws on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda step, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    look = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*look, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda step, share: bar.update(task, description=step or label, completed=share)
