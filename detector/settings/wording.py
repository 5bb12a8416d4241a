"""What is wrong with a setting, in words: the model's own errors, made readable in one place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

_TEXTS = {
    "string_type": "must be a text (put it in quotes)",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
    "path_type": "must be a path",
    "missing": "is needed",
    "none_required": "must be null",
}
_LIMITS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


def worded(detail: Any) -> str:
    """The message of one of pydantic's error details."""
    kind, message = detail["type"], detail["msg"].removeprefix("Value error, ")
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return f"must be {words} {detail['ctx'][limit]:.12g}"
    message = _TEXTS.get(kind, message)
    message = re.sub(r"^(Input|String|List|Tuple|Dictionary|Value) should ", "must ", message)
    return message[:1].lower() + message[1:] if message[1:2].islower() else message


def joined(messages: Sequence[str]) -> str:
    """A value that is refused by each branch of an either-or is refused once, with all branches named."""
    return " or ".join([messages[0], *(m.removeprefix("must be ") for m in messages[1:])])


def nearest(name: str, known: Sequence[str]) -> str:
    """The known name that was meant, or all of them if they are few."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(known)}" if 0 < len(known) <= 12 else ""


def dotted(path: Iterable[str | int]) -> str:
    """`sources.plant.topics[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
