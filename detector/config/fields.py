"""The keys of a model in words: what may stand there, what stands there by default, what it means."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, PlainValidator, SecretStr, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from connectors.settings.units import format_duration, format_size, parse_duration, parse_size
from detector.config.yaml_reader import plain_scalar
from detector.settings.base import Applies, applies
from detector.settings.budget import Budget, parse_budget
from detector.settings.span import parse_span, parse_ticks, parse_time


class Kind(Enum):
    """Quantities that are written in words."""

    DURATION = "duration"
    SIZE = "size"
    BUDGET = "budget"
    STRETCH = "ticks or duration"
    SPAN = "ticks, duration or `auto`"


_PARSERS = {
    parse_duration: Kind.DURATION, parse_size: Kind.SIZE, parse_budget: Kind.BUDGET,
    parse_time: Kind.STRETCH, parse_ticks: Kind.STRETCH, parse_span: Kind.SPAN,
}  # fmt: skip
_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text", NoneType: "null"}


@dataclass(frozen=True)
class Key:
    """One key of a model."""

    name: str
    value: str  # what may stand there
    default: str | None  # as it would be written in YAML; None: it must be given
    help: str
    applies: Applies  # what a change of it means
    model: type[BaseModel] | None  # of the keys below it


def keys_of(model: type[BaseModel], above: Applies = "now") -> list[Key]:
    """Its keys in order, `type` first; one that declares nothing applies as what stands ``above`` it."""
    found = [_key(name, field, above) for name, field in model.model_fields.items()]
    return sorted(found, key=lambda key: key.name != "type")


def _key(name: str, field: FieldInfo, above: Applies) -> Key:
    words, models = _values(field.annotation, tuple(field.metadata))
    if field.is_required():
        default = None
    else:
        factory: Any = field.default_factory
        value = factory() if factory is not None else field.default
        default = _yaml(value, _kind(field.annotation, field.metadata))
    below = next(iter(models), None)
    text, means = field.description or "", applies(field) or above
    return Key(name, " or ".join(dict.fromkeys(words)), default, text, means, below)


def _values(annotation: Any, marks: tuple[Any, ...]) -> tuple[list[str], list[type[BaseModel]]]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(parts[0], (*parts[1:], *marks))
    kind = _kind(annotation, marks)
    if kind is not None and origin not in (Union, UnionType):
        return [kind.value], []
    if origin in (Union, UnionType):
        found = [_values(part, marks if kind else ()) for part in parts if part is not NoneType]
        if SecretStr in parts:
            found = [(["`${VARIABLE}`"], [])]
        words = [word for one, _ in found for word in one] + (["null"] if NoneType in parts else [])
        return words, [model for _, some in found for model in some]
    choices = parts if origin is Literal else _choices(marks)
    if choices:
        return [" or ".join(f"`{choice}`" for choice in choices)], []
    if origin in (list, tuple):
        words, models = _values(parts[0], ())
        return ["list of " + (" or ".join(words) if not models else "mappings")], models
    if origin is dict:
        return [f"mapping of {' or '.join(_values(parts[1], ())[0])}"], []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return ["mapping"], [annotation]
    if isinstance(annotation, type) and issubclass(annotation, Path):
        return ["path"], []
    return [_WORDS.get(annotation, "value")], []


def _choices(marks: tuple[Any, ...]) -> list[Any]:
    """The words among which one is to be chosen, where a schema lists them."""
    schemas = (mark.json_schema or {} for mark in marks if isinstance(mark, WithJsonSchema))
    return next((schema["enum"] for schema in schemas if "enum" in schema), [])


def _kind(annotation: Any, marks: Any = ()) -> Kind | None:
    for mark in marks:
        if isinstance(mark, (BeforeValidator, PlainValidator)) and mark.func in _PARSERS:
            return _PARSERS[mark.func]
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0], get_args(annotation)[1:])
    if get_origin(annotation) in (Union, UnionType):
        return next((kind for part in get_args(annotation) if (kind := _kind(part))), None)
    return None


def _yaml(value: Any, kind: Kind | None) -> str:
    """A default in the notation of the file."""
    if value is None or value is PydanticUndefined:
        return "null"
    if kind is Kind.DURATION:
        return format_duration(value)
    if kind is Kind.SIZE:
        return format_size(value)
    if isinstance(value, BaseModel):
        given = value.model_dump(exclude_defaults=True, mode="json")
        return json.dumps(given).replace('"', "")
    if isinstance(value, (str, Path, Budget)):
        return _text(str(value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_yaml(part, None) for part in value) + "]"
    return json.dumps(value)


def _text(text: str) -> str:
    """In quotes where a plain word would be read as something else."""
    is_word = re.fullmatch(r"[A-Za-z/.][\w ./:-]*", text) and not text.endswith(":") and ": " not in text
    return text if is_word and isinstance(plain_scalar(text), str) else json.dumps(text)
