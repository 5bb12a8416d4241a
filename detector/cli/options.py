"""Options of commands: those that many share, and those made from the fields of a struct."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec
from msgspec import inspect

Command = TypeVar("Command", bound=Callable[..., Any])
Values = Callable[[dict[str, Any]], dict[str, Any]]


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


def report_option(about: str) -> Callable[[Command], Command]:
    """``--report``; ``about`` says what the page shows."""
    return click.option("--report", "report_path", type=click.Path(path_type=Path, dir_okay=False),
                        metavar="FILE.html", help=about)  # fmt: skip


def options_of(struct: type[msgspec.Struct]) -> tuple[list[click.Parameter], Values]:
    """Options in the order of the fields, and what makes JSON of the values that click hands over."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    fields = {field.encode_name: field for field in info.fields}
    options: list[click.Parameter] = [_option(field) for field in fields.values()]

    def values(given: dict[str, Any]) -> dict[str, Any]:
        said = {name: given[name] for name in fields if given[name] not in (None, ())}
        return {name: _plain(value) for name, value in said.items()}

    return options, values


def struct_options(struct: type[msgspec.Struct]) -> Callable[[Command], Command]:
    """Options from the fields of a struct; the command gets what was given as the argument ``said``."""
    options, values = options_of(struct)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**given: Any) -> Any:
            own = {option.name: given.pop(str(option.name)) for option in options}
            return command(said=values(own), **given)

        # Click collects the options of a command from the last to the first.
        run.__click_params__ = [*getattr(command, "__click_params__", []), *reversed(options)]  # type: ignore[attr-defined]
        return cast(Command, run)

    return decorate


def files_of(given: dict[str, Any]) -> dict[str, Path]:
    """The files among the values that click hands over: "pairs", or "message 1" and so on."""
    found: dict[str, Path] = {}
    for name, value in given.items():
        several = enumerate(value, 1) if isinstance(value, tuple) else ()
        found |= {f"{name} {k}": one for k, one in several if isinstance(one, Path)}
        found |= {name: value} if isinstance(value, Path) else {}
    return found


def _option(field: inspect.Field) -> click.Option:
    kind, words = _bare(field.type)
    many = isinstance(kind, inspect.ListType)
    if isinstance(kind, inspect.ListType):
        kind, _ = _bare(kind.item_type)
    extra = field.type.extra if isinstance(field.type, inspect.Metadata) else None
    flag = f"--{(extra or {}).get('option', field.encode_name).replace('_', '-')}"
    if isinstance(kind, inspect.BoolType):
        return click.Option(
            [f"{flag}/--no-{flag[2:]}", field.encode_name], default=None, help=_sentence(words)
        )
    repeated = " May be repeated." if many else ""
    return click.Option(
        [flag, field.encode_name],
        type=_type(kind),
        multiple=many,
        required=field.required,
        help=_sentence(words) + repeated,
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') or not words else '.'}"


def _bare(kind: inspect.Type) -> tuple[inspect.Type, str]:
    """Without description and null."""
    words = ""
    if isinstance(kind, inspect.Metadata):
        words = str((kind.extra_json_schema or {}).get("description", ""))
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
        kind, inner = _bare(kind)
        words = words or inner
    return kind, words


def _type(kind: inspect.Type) -> Any:
    if isinstance(kind, inspect.LiteralType):
        return click.Choice([str(value) for value in kind.values])
    if isinstance(kind, inspect.BytesType):
        return click.Path(path_type=Path, dir_okay=False, exists=True)
    known: dict[type[inspect.Type], Any] = {
        inspect.IntType: int,
        inspect.FloatType: float,
        inspect.StrType: str,
    }
    return known[type(kind)]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return base64.b64encode(value.read_bytes()).decode() if isinstance(value, Path) else value
