"""What is wrong with a configuration, in lines that name file, line, column, key and value.

Values are shown only where no secret can stand: never under a key that sounds like one, never for an unknown
key among the keys of a model that has secrets (a misspelt `password` is an unknown key), never credentials in
an address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from connectors.settings.secrets import WithSecrets
from detector.config.paths import model_at
from detector.config.yaml_reader import Document, KeyPath, Place
from detector.settings.wording import dotted, joined, nearest, worded

SHOWN = 60  # characters of a value
_SECRET = re.compile(r"pass|token|secret|credential|auth|private|key|signing", re.IGNORECASE)
_CREDENTIALS = re.compile(r"//[^/\s]*@|\$\{")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    key: str
    message: str
    place: Place | None = None
    file: Path | None = None

    def __str__(self) -> str:
        where = str(self.file) if self.file else "configuration"
        if self.place:
            where += f":{self.place.line}:{self.place.column}"
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        line, column = self.place or (None, None)
        file = str(self.file) if self.file else None
        return {"file": file, "line": line, "column": column, "key": self.key, "message": self.message}


class ConfigError(Exception):
    """The configuration cannot be used; all that is wrong with it, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


def problems_of(
    error: ValidationError, root: type[BaseModel], document: Document, file: Path | None
) -> list[Problem]:
    """Every error of the model as a problem, those of one place joined, in the order of the file."""
    found: dict[KeyPath, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=False):
        path, message = _explain(detail, root, document)
        if message not in found.setdefault(path, []):
            found[path].append(message)
    problems = []
    for path, messages in found.items():
        message = joined(messages)
        # An unknown key is the fault of the key, anything else of the value.
        place = document.keys.get(path) if "unknown key" in message else document.values.get(path)
        shown = _shown(path, message, root, document)
        problems.append(Problem(dotted(path), message + shown, place or document.place(path), file))
    return sorted(problems, key=lambda problem: problem.place or Place(0, 0))


def _explain(detail: Any, root: type[BaseModel], document: Document) -> tuple[KeyPath, str]:
    kind = detail["type"]
    path = _path_in(detail["loc"], document.data, needs_last=kind == "missing")
    if kind == "extra_forbidden":
        return path, "unknown key" + _nearest(path, root, document)
    if kind in ("type_missing", "type_unknown", "type_broken"):  # of a source or sink: config/model.py
        return (*path, "type"), detail["msg"]
    return path, worded(detail)


def _path_in(loc: Sequence[str | int], data: Any, needs_last: bool) -> KeyPath:
    """The part of a model's location that exists in the data: branches of unions have no key there."""
    path: list[str | int] = []
    for i, part in enumerate(loc):
        inside = range(len(data)) if isinstance(data, list) else data if isinstance(data, dict) else ()
        if part in inside:
            data = data[part]
        elif not (needs_last and i == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _nearest(path: KeyPath, root: type[BaseModel], document: Document) -> str:
    model = model_at(root, path[:-1], document.data)
    return nearest(str(path[-1]), list(model.model_fields) if model is not None else [])


def _shown(path: KeyPath, message: str, root: type[BaseModel], document: Document) -> str:
    """`` (got 'x')``, unless it is said already, is no scalar, or may be a secret."""
    value: Any = document.data
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return ""
    if re.search(r"\bgot\b", message) or isinstance(value, (dict, list)):
        return ""
    if may_be_secret(path, value, "unknown key" in message, root, document):
        return " (value not shown)"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return f" (got {text if len(text) <= SHOWN else text[:SHOWN] + '…'})"


def may_be_secret(
    path: KeyPath, value: Any, unknown: bool, root: type[BaseModel], document: Document
) -> bool:
    """Whether a value should not be shown."""
    if any(_SECRET.search(part) for part in path if isinstance(part, str)):
        return True
    if isinstance(value, str) and _CREDENTIALS.search(value):
        return True
    model = model_at(root, path[:-1], document.data)
    return unknown and (model is None or issubclass(model, WithSecrets))
