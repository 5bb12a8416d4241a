"""The arguments of an action as options of the command line."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import inspect

Values = Callable[[dict[str, Any]], dict[str, Any]]


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
    flag = f"--{field.encode_name.replace('_', '-')}"
    if isinstance(kind, inspect.BoolType):
        return click.Option([f"{flag}/--no-{flag[2:]}", field.encode_name], default=None, help=words)
    repeated = " May be repeated." if many else ""
    return click.Option(
        [flag, field.encode_name],
        type=_type(kind),
        multiple=many,
        required=field.required,
        help=words + repeated,
    )


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
