"""What the streaming core is told: one group of settings per package, with the names of config.yaml."""

from __future__ import annotations

import warnings
from typing import Any

from pydantic import ValidationError, model_validator

from detector.settings import renamed
from detector.settings.alarm import AlarmSettings
from detector.settings.alignment import AlignSettings
from detector.settings.base import Group
from detector.settings.diagnosis import CaseSettings
from detector.settings.estimator import EngineSettings, EstimatorSettings
from detector.settings.incidents import IncidentSettings
from detector.settings.preprocessing import PreprocessSettings
from detector.settings.span import by_step
from detector.settings.windows import WindowSettings
from detector.settings.wording import dotted, joined, nearest, worded


class Settings(Group):
    """All groups; `of` takes nested mappings with the names and the words of config.yaml."""

    align: AlignSettings = AlignSettings()
    preprocess: PreprocessSettings = PreprocessSettings()
    windows: WindowSettings = WindowSettings()
    estimator: EstimatorSettings = EstimatorSettings()
    engine: EngineSettings = EngineSettings()
    alarm: AlarmSettings = AlarmSettings()
    incidents: IncidentSettings = IncidentSettings()
    diagnosis: CaseSettings = CaseSettings()

    @model_validator(mode="after")
    def _enough_to_learn(self) -> Settings:
        need = 2 * (self.windows.reference + self.windows.tests[-1])
        if self.alarm.learn < need:
            raise ValueError(
                f"alarm.learn: {self.alarm.learn} samples are too few for these windows; at least {need}, "
                "twice reference and longest test together"
            )
        return self

    @classmethod
    def of(cls, **groups: Any) -> Settings:
        """Groups as mappings or as settings objects; ValueError names everything that is wrong."""
        try:
            return cls.model_validate(by_step(_plain(_present_names(groups))))
        except ValidationError as error:
            raise ValueError(_all_wrong(error)) from None


def _present_names(groups: dict[str, Any]) -> dict[str, Any]:
    """With the groups that were given by their names of version 0.1, and without keys that are ignored."""
    for old, new in renamed.GROUPS.items():
        if old in groups and new not in groups:
            warnings.warn(renamed.deprecated(old, new), FutureWarning, stacklevel=4)
            groups = {new if name == old else name: group for name, group in groups.items()}
    for (group, key), now in renamed.DROPPED.items():
        if isinstance(given := groups.get(group), dict) and key in given:
            warnings.warn(renamed.dropped(key, now), FutureWarning, stacklevel=4)
            groups = {**groups, group: {name: value for name, value in given.items() if name != key}}
    return groups


def _plain(value: Any) -> Any:
    """As a file would have it: numbers of numpy, tuples and mappings of other kinds are no strict types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "items"):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _all_wrong(error: ValidationError) -> str:
    found: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        path, value = [str(part) for part in detail["loc"][:2]], detail["input"]
        key, message = dotted(path), worded(detail)
        if detail["type"] == "extra_forbidden":
            model: Any = Settings if len(path) == 1 else Settings.model_fields[path[0]].annotation
            message = "unknown" + nearest(path[-1], list(model.model_fields))
        elif "(got" not in message and not isinstance(value, dict | Group):
            shown[key] = f" (got {value!r})"
        if message not in found.setdefault(key, []):
            found[key].append(message)
    lines = {key: joined(messages) + shown.get(key, "") for key, messages in found.items()}
    return "; ".join(f"{key}: {line}" if key else line for key, line in lines.items())
