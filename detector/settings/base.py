"""How a setting is declared: its default, its words, its range, and what a change of it means."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo

from connectors.model import Settings as Group

__all__ = ["APPLIES", "Applies", "AsTuple", "Group", "applies", "setting"]

Applies = Literal["now", "relearn", "restart"]
APPLIES = "x-applies"  # in the JSON Schema, where names of one's own begin with x-


def setting(default: Any, description: str, *, applies: Applies, **limits: Any) -> Any:
    """A field of a group; ``limits`` are those of `pydantic.Field`.

    ``applies`` is the only place that says what a change of the setting means:

    now       a reload takes it over, and so does a restart
    relearn   what was learnt rests on it: free until then, refused for a state that has learnt
    restart   a reload refuses it
    """
    return Field(default, description=description, json_schema_extra={APPLIES: applies}, **limits)


def applies(field: FieldInfo) -> Applies | None:
    """What the field declares itself; None: as the field above it."""
    extra = field.json_schema_extra
    return cast("Applies | None", extra.get(APPLIES)) if isinstance(extra, dict) else None


# A file has lists; what is frozen and compared has tuples. Strict models take no one for the other.
AsTuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
