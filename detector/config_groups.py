"""Settings that live as dataclasses in the streaming core, read strictly from a configuration.

Key, default and help of a setting stand in its dataclass and nowhere else; here they become fields of a model
that knows durations in words, refuses unknown keys, and names the key in every error.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field as ModelField
from pydantic import (
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from connectors.base import Settings as Model
from connectors.units import Duration
from detector.settings import Budget

_NAMED = re.compile(r"([a-z_]+): (.*)", re.DOTALL)


class Group:
    """Marks a dataclass field of the configuration: ``align: Annotated[AlignSettings, Group()]``."""

    def __get_pydantic_core_schema__(
        self, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        def build(value: Any, validate: core_schema.ValidatorFunctionWrapHandler) -> Any:
            if isinstance(value, kind):
                return value
            try:
                model = validate(value)
            except ValidationError as error:
                raise _with_checks(kind, value, error) from None
            return build_group(kind, model)

        return core_schema.no_info_wrap_validator_function(
            build,
            handler.generate_schema(group_model(kind)),
            serialization=core_schema.plain_serializer_function_ser_schema(_plain),
        )


@cache
def group_model(kind: type) -> type[Model]:
    """The model of a dataclass; it checks types, the dataclass itself checks values."""
    hints = get_type_hints(kind)
    keys: dict[str, Any] = {key.name: _key(key, hints[key.name]) for key in fields(kind)}
    return create_model(kind.__name__.removesuffix("Settings"), __base__=Model, __doc__=kind.__doc__, **keys)


def build_group(kind: type, model: Any) -> Any:
    """The dataclass; what its own checks refuse is collected under the keys they name."""
    refused: list[InitErrorDetails] = []
    kept = {key: getattr(model, key) for key in model.model_fields_set}
    while True:
        try:
            built = kind(**kept)
            break
        except ValueError as error:
            named = _NAMED.fullmatch(str(error))
            key, message = (named[1], named[2]) if named and named[1] in kept else (None, str(error))
            # A key that was dropped is at its default again: what is measured against that proves nothing.
            if any(re.search(rf"\b{gone['loc'][0]}\b", message) for gone in refused if "loc" in gone):
                built = None
                break
            refused.append(_line("settings", message, (key,) if key else ()))
            if key is None:
                built = None
                break
            del kept[key]
    if refused:
        raise ValidationError.from_exception_data(kind.__name__, refused)
    return built


def _with_checks(kind: type, value: Any, error: ValidationError) -> ValidationError:
    """The error, and what the dataclass says about those keys whose type is right."""
    lines = [_line(e["type"], e["msg"], e["loc"]) for e in error.errors()]
    if isinstance(value, dict):
        wrong = {line["loc"][0] for line in lines if line.get("loc")}
        rest = {key: given for key, given in value.items() if key not in wrong}
        try:
            build_group(kind, group_model(kind).model_validate(rest))
        except ValidationError as more:
            lines += [_line(e["type"], e["msg"], e["loc"]) for e in more.errors()]
    return ValidationError.from_exception_data(kind.__name__, lines)


def _line(kind: str, message: str, place: tuple[int | str, ...]) -> InitErrorDetails:
    wrong: Any = PydanticCustomError(kind, "{message}", {"message": message})
    return InitErrorDetails(type=wrong, loc=place, input=None)


def _plain(group: Any) -> dict[str, Any]:
    values = {key.name: getattr(group, key.name) for key in fields(group)}
    return {key: str(value) if isinstance(value, Budget) else value for key, value in values.items()}


def _key(key: Field[Any], hint: Any) -> tuple[Any, Any]:
    default = key.default if key.default_factory is MISSING else key.default_factory()
    # Only shown, in schema and manual: keys that are not given are left to the dataclass.
    default = list(default) if isinstance(default, tuple) else default
    default = str(default) if isinstance(default, Budget) else default
    described = ModelField(default=default, description=key.metadata["help"])
    return _model_type(hint, "unit" in key.metadata), described


def _model_type(hint: Any, is_duration: bool) -> Any:
    """As the dataclass has it, but durations in words, tuples as lists, budgets in words."""
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_model_type(part, is_duration) for part in get_args(hint))]  # noqa: UP007
    if hint is float and is_duration:
        return Duration
    if get_origin(hint) is tuple:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    return _BUDGET if hint is Budget else hint


def parse_budget(value: Any) -> Budget:
    if isinstance(value, Budget):
        return value
    if not isinstance(value, str):
        raise ValueError("must be words such as 1 per 30d or 1 per 10000 ticks")
    try:
        return Budget.parse(value)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("budget: ")) from None


_BUDGET = Annotated[
    Any,
    PlainValidator(parse_budget),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["1 per 30d", "1 per 10000 ticks"]}),
]
