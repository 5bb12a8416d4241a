"""What all commands share: exit codes, errors as one clear line, tables, JSON and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from detector.config.config import Config

RUNTIME = 1
NOT_VOUCHED = 4  # learnt and saved, but the history itself contradicts what is promised
UNAVAILABLE = 69
INPUT_OUTPUT = 74
IN_USE = 75
CONFIG = 78


class Failure(click.ClickException):
    """The command ends with this message on standard error and this exit code."""

    def __init__(self, message: str, exit_code: int = RUNTIME) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"detector: {line}", err=True)


def load_config(path: Path) -> Config:
    """The configuration, or a failure with the exit code for configurations."""
    from detector.config.config import Config

    try:
        return Config.load(path)
    except OSError as error:
        hint = "; `detector init` writes one" if isinstance(error, FileNotFoundError) else ""
        raise Failure(f"{path}: {error.strerror or error}{hint}", CONFIG) from None


def failure_of(error: Exception) -> Failure:
    """What an exception means to the user."""
    from connectors.base import ConnectorError
    from detector.config.errors import ConfigError
    from detector.engines.base import EngineUnavailable
    from detector.storage.database import StateError, StateInUse

    text = str(error) or type(error).__name__
    if isinstance(error, ConfigError):
        return Failure(text, CONFIG)
    if isinstance(error, ConnectorError):
        return Failure(text, UNAVAILABLE)
    if isinstance(error, StateInUse):
        return Failure(text, IN_USE)
    if isinstance(error, (StateError, EngineUnavailable)):
        return Failure(text, INPUT_OUTPUT)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Failure(f"{where}{error.strerror or text}", INPUT_OUTPUT)
    if isinstance(error, (ValueError, ImportError)):
        return Failure(text, RUNTIME)
    return Failure(f"{type(error).__name__}: {text} (detector --debug shows where)", RUNTIME)


def on_terminal() -> bool:
    """Whether people look at standard output."""
    return sys.stdout.isatty()


def print_json(data: Any) -> None:
    """Indented on a terminal, one line when piped."""
    click.echo(as_json_text(data, indent=2 if on_terminal() else None))


def as_json_text(data: Any, indent: int | None = None) -> str:
    """As the sinks write it: a number that is not known is null, never NaN."""
    import msgspec

    text = msgspec.json.encode(data)
    return (text if indent is None else msgspec.json.format(text, indent=indent)).decode()


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


def print_text(lines: Sequence[str]) -> None:
    """Sentences that contain names from outside."""
    for line in lines:
        click.echo(_cell(line))


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    # Names come from outside: a control character must not reach a terminal.
    return "".join(letter if letter.isprintable() else "�" for letter in text)


class Progress:
    """What a long job reports to: (what is done, share done). This one shows nothing."""

    def __call__(self, step: str, share: float) -> None:
        return

    def echo(self, text: str) -> None:
        """A line on standard output while the job goes on."""
        click.echo(text)


class _Bar(Progress):
    """A bar on the terminal; lines appear above it."""

    def __init__(self, bar: Any, label: str) -> None:
        self._bar, self._task = bar, bar.add_task(label, total=1.0)

    def __call__(self, step: str, share: float) -> None:
        self._bar.update(self._task, description=step, completed=share)

    def echo(self, text: str) -> None:
        if on_terminal():
            from rich.text import Text

            self._bar.console.print(Text.from_ansi(text))
        else:
            click.echo(text)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """A bar on standard error, if that is a terminal; otherwise nothing is shown."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}", markup=False)
    look = (words, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    # Standard output stays what it is: rich would send it to the terminal even if it goes to a file.
    with Bar(*look, console=Console(stderr=True), transient=True, redirect_stdout=False,
             redirect_stderr=False) as bar:  # fmt: skip
        yield _Bar(bar, label)
