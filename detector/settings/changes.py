"""What a change of settings means: read off the `applies` that every setting declares, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from detector.settings.base import Applies, applies
from detector.settings.wording import dotted

KeyPath = tuple[str | int, ...]


class Change(NamedTuple):
    """A setting that is not what it was."""

    path: KeyPath
    before: Any
    now: Any
    applies: Applies

    @property
    def key(self) -> str:
        return dotted(self.path)


class RelearnNeeded(ValueError):
    """A state rests on settings that have changed since it was learnt."""

    def __init__(self, changes: list[Change]) -> None:
        said = ", ".join(f"{c.key} was {in_words(c.before)} and is {in_words(c.now)} now" for c in changes)
        back = "it" if len(changes) == 1 else "them"
        super().__init__(
            f"state: learnt with other settings: {said}; set {back} back, or learn again: "
            "`detector learn FILE --force`, or another state.directory"
        )
        self.changes = changes


def changes(
    before: BaseModel, now: BaseModel, path: KeyPath = (), above: Applies = "now"
) -> Iterator[Change]:
    """The settings in which two models of one kind differ; what declares nothing applies as that above.

    A key that one of them does not have, as that of an analyzer which a file does not name, has its default.
    """
    for name, field in {**type(before).model_fields, **type(now).model_fields}.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        old, new = (getattr(one, name, default) for one in (before, now))
        if old != new:
            yield from _differences(old, new, (*path, name), applies(field) or above)


def _differences(old: Any, new: Any, path: KeyPath, means: Applies) -> Iterator[Change]:
    # By name: there is a class for each set of analyzers that a file names.
    if isinstance(new, BaseModel) and isinstance(old, BaseModel) and _kind(old) == _kind(new):
        yield from changes(old, new, path, means)
    elif isinstance(new, dict) and isinstance(old, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            if old.get(name) != new.get(name):
                yield from _differences(old.get(name), new.get(name), (*path, name), means)
    else:
        yield Change(path, old, new, means)


def _kind(model: BaseModel) -> str:
    return type(model).__name__


def learnt_with(settings: BaseModel) -> dict[str, Any]:
    """All settings of the groups of ``settings`` on which a learnt state rests, JSON-ready."""
    return {
        name: {key: value for key, value in _plain(getattr(settings, name)).items() if key in keys}
        for name, keys in _relearn(settings).items()
    }


def relearn_needed(settings: BaseModel, learnt: Mapping[str, Mapping[str, Any]]) -> list[Change]:
    """What changed since ``learnt``, from `learnt_with`, so that the state cannot be taken over.

    A key that came later had its default then; `auto` takes what the state was learnt with. A group that is
    missing is not known, and taken as it is now.
    """
    found = []
    for name, keys in _relearn(settings).items():
        group = getattr(settings, name)
        now, default = _plain(group), _plain(type(group)())
        for key in keys if name in learnt else ():
            before = learnt[name].get(key, default[key])
            if before != now[key] and now[key] != "auto":  # that is what learning has chosen
                found.append(Change((name, key), before, now[key], "relearn"))
    return found


def _relearn(settings: BaseModel) -> dict[str, list[str]]:
    """Group -> its keys on which a learnt state rests."""
    fields = {name: type(getattr(settings, name)).model_fields for name in type(settings).model_fields}
    found = {name: [key for key in keys if applies(keys[key]) == "relearn"] for name, keys in fields.items()}
    return {name: keys for name, keys in found.items() if keys}


def _plain(group: BaseModel) -> dict[str, Any]:
    return group.model_dump(mode="json")


def in_words(value: Any) -> str:
    """A value as a file would have it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)
