"""YAML from strangers: small, shallow, without references, and every value knows its line.

The pure Python parser of PyYAML gives events one at a time, so that a hostile text is refused at the first
event too many, before anything is built of it: the C parser crashes on deep nesting, and references to
references (anchors, merge keys) cost seconds to minutes in whatever walks the result. Scalars are read as in
YAML 1.2: `on`, `no`, `12:30` and dates are texts, `1e-3` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import yaml

MAX_BYTES = 256 * 2**10  # the slowest text of this size takes the parser some 0.8 s
MAX_DEPTH = 32
MAX_NODES = 10_000
MAX_DIGITS = 40  # of a whole number

KeyPath = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True,
          "TRUE": True, "false": False, "False": False, "FALSE": False}  # fmt: skip


class Place(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class YamlRefused(Exception):
    """The text is no YAML, or not of the kind that is read here."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.place = place


@dataclass
class Document:
    """Plain data, and where each of its keys and values stands; paths are tuples of keys and indices."""

    data: Any = None
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)

    def place(self, path: KeyPath) -> Place:
        """Of the key, else the value, else of the nearest thing around it."""
        for end in range(len(path), -1, -1):
            found = self.keys.get(path[:end]) or self.values.get(path[:end])
            if found is not None:
                return found
        return Place(1, 1)


def read_yaml(path: str | PathLike[str]) -> Document:
    """The document in a file; OSError if it cannot be read."""
    with Path(path).open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    return parse_yaml(raw)


def parse_yaml(raw: bytes) -> Document:
    """The document in a text of UTF-8."""
    if len(raw) > MAX_BYTES:
        raise YamlRefused(f"longer than {MAX_BYTES // 1024} KiB", _place_of(raw, MAX_BYTES))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlRefused("not UTF-8 text", _place_of(raw, error.start)) from None
    try:
        return _Builder().build(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.reader.ReaderError as error:
        place = _place_of(raw, len(text[: error.position].encode()))
        raise YamlRefused(f"character {error.character:#x} is not allowed", place) from None
    except yaml.MarkedYAMLError as error:
        # Only what the parser says: its excerpt of the text might show a secret.
        mark = error.problem_mark or error.context_mark
        raise YamlRefused(f"not YAML: {error.problem or error.context}", _place(mark)) from None


@dataclass
class _Open:
    """A mapping or list whose end has not come yet."""

    value: Any
    path: KeyPath
    key: str | None = None  # of a mapping: read, its value is not


class _Builder:
    """Events to data, with a stack of its own: no recursion that a text could exhaust."""

    def __init__(self) -> None:
        self.document = Document()
        self.stack: list[_Open] = []
        self.nodes = 0
        self.documents = 0

    def build(self, events: Iterator[Any]) -> Document:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.documents += 1
                if self.documents > 1:
                    raise YamlRefused("a second document; one is enough", _place(event.start_mark))
            elif isinstance(event, yaml.NodeEvent):
                self._check(event)
                self._node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._put(self.stack.pop())
        return self.document

    def _check(self, event: Any) -> None:
        place = _place(event.start_mark)
        self.nodes += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise YamlRefused("anchors (&) and aliases (*) are not read; write the value out", place)
        if event.tag is not None:
            raise YamlRefused("tags (!) are not read", place)
        if self.nodes > MAX_NODES:
            raise YamlRefused(f"more than {MAX_NODES} values; put long lists into files of their own", place)
        if len(self.stack) >= MAX_DEPTH and not isinstance(event, yaml.ScalarEvent):
            raise YamlRefused(f"nested deeper than {MAX_DEPTH} levels", place)

    def _node(self, event: Any) -> None:
        parent = self.stack[-1] if self.stack else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            self._key(parent, event)
            return
        path = self._path(parent)
        self.document.values[path] = _place(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            self._put(_Open(_scalar(event), path))
        else:
            self.stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], path))

    def _key(self, parent: _Open, event: Any) -> None:
        place = _place(event.start_mark)
        if not isinstance(event, yaml.ScalarEvent):
            raise YamlRefused("a key must be a plain word", place)
        key: str = event.value
        if key == "<<" and event.implicit[0]:
            raise YamlRefused("merge keys (<<) are not read; write the keys out", place)
        if key in parent.value:
            first = self.document.keys[(*parent.path, key)]
            raise YamlRefused(f"{key[:80]!r} stands here twice, first in line {first.line}", place)
        parent.key = key
        self.document.keys[(*parent.path, key)] = place

    def _path(self, parent: _Open | None) -> KeyPath:
        if parent is None:
            return ()
        return (*parent.path, len(parent.value) if parent.key is None else parent.key)

    def _put(self, done: _Open) -> None:
        parent = self.stack[-1] if self.stack else None
        if parent is None:
            self.document.data = done.value
        elif isinstance(parent.value, list):
            parent.value.append(done.value)
        else:
            parent.value[parent.key] = done.value
            parent.key = None


def _scalar(event: Any) -> Any:
    text: str = event.value
    if not event.implicit[0]:  # quoted, or a block: a text
        return text
    if len(text) > MAX_DIGITS and _INTEGER.fullmatch(text):
        raise YamlRefused(f"a number of more than {MAX_DIGITS} digits", _place(event.start_mark))
    return plain_scalar(text)


def plain_scalar(text: str) -> Any:
    """What a text without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special:
        return float((special[1] or "") + "inf") if special[2] else float("nan")
    return text


def _place(mark: Any) -> Place:
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)


def _place_of(raw: bytes, offset: int) -> Place:
    before = raw[:offset]
    return Place(before.count(b"\n") + 1, offset - (before.rfind(b"\n") + 1) + 1)
