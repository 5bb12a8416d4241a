"""Keys of version 0.1 that have another name now, or do nothing any more: accepted for one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from detector.config.yaml_reader import Document, KeyPath, Place
from detector.settings.renamed import ANALYZERS, DROPPED, GROUPS, MOVED, deprecated, dropped
from detector.settings.wording import dotted


@dataclass(frozen=True)
class Renamed:
    """A key that was given by its old name, or is ignored; ``path`` has the new name, if there is one."""

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
    for place, now in MOVED.items():
        document = _elsewhere(document, place, now, found)
    for (group, key), keys in DROPPED.items():
        if key in (_group(document.data, (group,)) or {}):
            found.append(Renamed((group, key), dropped(key, keys)))
            document = Document(_without(document.data, (group, key)), document.keys, document.values)
    return document, found


def _renamed(document: Document, parent: KeyPath, old: str, new: str, found: list[Renamed]) -> Document:
    group = _group(document.data, parent)
    if group is None or old not in group or new in group:
        return document
    found.append(Renamed((*parent, new), deprecated(old, new)))
    data = _with_key(document.data, parent, old, new)
    before, now = (*parent, old), (*parent, new)
    keys, values = (_at(places, before, now) for places in (document.keys, document.values))
    return Document(data, keys, values)


def _elsewhere(document: Document, old: KeyPath, new: KeyPath, found: list[Renamed]) -> Document:
    """A key that belongs to one of the groups above it now."""
    above, below = _group(document.data, new[:-1]), _group(document.data, old[:-1])
    if below is None or above is None or old[-1] not in below or new[-1] in above:
        return document
    found.append(Renamed(new, deprecated(dotted(old), dotted(new))))
    data = _with(_without(document.data, old), new, below[old[-1]])
    keys, values = (_at(places, old, new) for places in (document.keys, document.values))
    return Document(data, keys, values)


def _group(data: Any, path: KeyPath) -> dict[str, Any] | None:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else None


def _without(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return {key: _without(value, path[1:]) if key == path[0] else value for key, value in data.items()}


def _with(data: dict[str, Any], path: KeyPath, given: Any) -> dict[str, Any]:
    if len(path) == 1:
        return {**data, str(path[0]): given}
    return {key: _with(value, path[1:], given) if key == path[0] else value for key, value in data.items()}


def _with_key(data: dict[str, Any], parent: KeyPath, old: str, new: str) -> dict[str, Any]:
    """A copy with one key renamed, in the same order."""
    if parent:
        return {key: _with_key(value, parent[1:], old, new) if key == parent[0] else value
                for key, value in data.items()}  # fmt: skip
    return {new if key == old else key: value for key, value in data.items()}


def _at(places: dict[KeyPath, Place], old: KeyPath, new: KeyPath) -> dict[KeyPath, Place]:
    n = len(old)
    return {(*new, *path[n:]) if path[:n] == old else path: place for path, place in places.items()}
