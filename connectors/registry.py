"""Members of an extension point by name: the built-in ones, and those that other installed packages bring.

A package brings a member by an entry point, in its pyproject.toml:

    [project.entry-points."detector.sources"]
    acme = "acme_detector:AcmeSource"

Built-in names win. Nothing is imported before it is asked for, and one plug-in that cannot be loaded does not
keep the others from working: the error names the distribution it came from.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple


class PluginError(Exception):
    """A member that another package brings cannot be used; the message names the package."""


class Member(NamedTuple):
    """Where a member is, and which distribution brings it; None: this one."""

    place: str  # "module:Name", or "module" if the module itself is the member
    origin: str | None = None


class Registry(Mapping[str, str]):
    """Names of one extension point, in order: built-in members first, then those of plug-ins by name.

    As a mapping it holds the places ("module:Name") of all members that a configuration may name.
    """

    def __init__(self, group: str, what: str, builtin: Mapping[str, str]) -> None:
        self.group = group  # of entry points
        self.what = what  # one member in words, for errors: "source"
        self.builtin = dict(builtin)

    def __getitem__(self, name: str) -> str:
        return self._members[name].place

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def origin(self, name: str) -> str | None:
        """The distribution with its version that brings a member; None for built-in ones."""
        return self._members[name].origin

    def load(self, name: str) -> Any:
        """The object of that name. KeyError if there is none, PluginError if it cannot be imported."""
        if name in self._clashes:
            raise PluginError(self._clashes[name])
        place, origin = self._members[name]
        module, _, attribute = place.partition(":")
        if origin is None:
            return _find(module, attribute)
        try:
            return _find(module, attribute)
        except Exception as error:  # whatever a foreign module raises while it is imported
            message = f"{type(error).__name__}: {error}"
            raise self.refusal(name, f"cannot be loaded: {message}") from error

    def refusal(self, name: str, why: str) -> PluginError:
        """The error for a plug-in that does not keep the contract of this extension point."""
        return PluginError(f"{self.what} {name!r} of {self.origin(name)} {why}")

    @property
    def problems(self) -> list[str]:
        """What is wrong with the names that installed packages bring, without importing any of them."""
        return [*self._shadowed, *self._clashes.values()]

    @cached_property
    def _members(self) -> dict[str, Member]:
        members = {name: Member(place) for name, place in self.builtin.items()}
        for name, points in self._plugins.items():
            members.setdefault(name, Member(points[0].value, _origin(points[0])))
        return members

    @cached_property
    def _plugins(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in sorted(entry_points(group=self.group), key=lambda point: (point.name, _origin(point))):
            same = found.setdefault(point.name, [])
            # A distribution may be found twice, by two entries of the path that lead to it.
            if all((_origin(point), point.value) != (_origin(other), other.value) for other in same):
                same.append(point)
        return found

    @property
    def _shadowed(self) -> list[str]:
        return [
            f"{_origins(points)} brings a {self.what} {name!r}, which is built in: the built-in one is used"
            for name, points in self._plugins.items()
            if name in self.builtin
        ]

    @property
    def _clashes(self) -> dict[str, str]:
        return {
            name: f"{self.what} {name!r} is brought by {_origins(points)}: uninstall all but one"
            for name, points in self._plugins.items()
            if len(points) > 1 and name not in self.builtin
        }


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


def _origins(points: list[EntryPoint]) -> str:
    return " and ".join(_origin(point) for point in points)


def _find(module: str, attribute: str) -> Any:
    """An attribute of a module, or the module itself where the place names none."""
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
