"""What all commands share: exit codes, options, errors as one clear line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from detector.config import Config

RUNTIME = 1
UNAVAILABLE = 69
INPUT_OUTPUT = 74
CONFIG = 78

Command = TypeVar("Command", bound=Callable[..., Any])


class Failure(click.ClickException):
    """The command ends with this message on standard error and this exit code."""

    def __init__(self, message: str, exit_code: int = RUNTIME) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"detector: {line}", err=True)


def config_option(command: Command) -> Command:
    """``--config``, of every command that reads one."""
    return click.option(
        "--config", "-c", "config_path", type=click.Path(path_type=Path, dir_okay=False),
        default=lambda: Path(os.environ.get("DETECTOR_CONFIG", "config.yaml")),
        show_default="$DETECTOR_CONFIG or config.yaml", help="The configuration file.",
    )(command)  # fmt: skip


def json_option(command: Command) -> Command:
    """``--json``, of every command that prints data."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def load_config(path: Path) -> Config:
    """The configuration, or a failure with the exit code for configurations."""
    from detector.config import Config

    try:
        return Config.load(path)
    except OSError as error:
        hint = "; `detector init` writes one" if isinstance(error, FileNotFoundError) else ""
        raise Failure(f"{path}: {error.strerror or error}{hint}", CONFIG) from None


def failure_of(error: Exception) -> Failure:
    """What an exception means to the user."""
    from connectors.base import ConnectorError
    from detector.config_errors import ConfigError
    from detector.database import StateError

    text = str(error) or type(error).__name__
    if isinstance(error, ConfigError):
        return Failure(text, CONFIG)
    if isinstance(error, ConnectorError):
        return Failure(text, UNAVAILABLE)
    if isinstance(error, StateError):
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
