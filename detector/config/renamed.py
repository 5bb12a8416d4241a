"""Keys of version 0.1 that have another name now: read under the old one for one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from detector.config.yaml_reader import Document, KeyPath, Place
from detector.settings.renamed import ANALYZERS, GROUPS, deprecated


@dataclass(frozen=True)
class Renamed:
    """A key that was given by its old name; ``path`` has the new one."""

    path: KeyPath
    message: str


def present_names(document: Document) -> tuple[Document, list[Renamed]]:
    """The document with today's keys, and which of them had old ones.

    Where both names are given, the old one stays, and is an unknown key.
    """
    found: list[Renamed] = []
    for old, new in GROUPS.items():
        document = _renamed(document, (), old, new, found)
    for old, new in ANALYZERS.items():
        document = _renamed(document, ("diagnosis",), old, new, found)
    return document, found


def _renamed(document: Document, parent: KeyPath, old: str, new: str, found: list[Renamed]) -> Document:
    group = document.data
    for key in parent:
        group = group.get(key) if isinstance(group, dict) else None
    if not isinstance(group, dict) or old not in group or new in group:
        return document
    found.append(Renamed((*parent, new), deprecated(old, new)))
    data = _with_key(document.data, parent, old, new)
    keys, values = (_moved(places, (*parent, old), new) for places in (document.keys, document.values))
    return Document(data, keys, values)


def _with_key(data: dict[str, Any], parent: KeyPath, old: str, new: str) -> dict[str, Any]:
    """A copy with one key renamed, in the same order."""
    if parent:
        return {key: _with_key(value, parent[1:], old, new) if key == parent[0] else value
                for key, value in data.items()}  # fmt: skip
    return {new if key == old else key: value for key, value in data.items()}


def _moved(places: dict[KeyPath, Place], old: KeyPath, new: str) -> dict[KeyPath, Place]:
    n = len(old)
    return {(*old[:-1], new, *path[n:]) if path[:n] == old else path: place for path, place in places.items()}
