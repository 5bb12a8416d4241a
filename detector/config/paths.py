"""Finding one's way: which model stands under a path of keys, and files seen from the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

import connectors
from connectors.settings.secrets import WithSecrets
from detector.config.model import Side, connector_model, registry
from detector.config.yaml_reader import KeyPath
from detector.diagnosis.registry import diagnosis_model
from detector.settings.diagnosis import DiagnosisSettings


def model_at(root: type[BaseModel], path: KeyPath, data: Any) -> type[BaseModel] | None:
    """The model whose keys stand under that path; the data tell the type of a source or sink."""
    if not path:
        return root
    field = root.model_fields.get(str(path[0]))
    if field is None:
        return None
    model: type[BaseModel] | None
    if path[0] in ("sources", "sinks"):
        model = _connector_at(path, data)
        path = path[1:]
    else:
        model = model_in(field.annotation)
    for part in path[1:]:
        if model is None or isinstance(part, int):
            continue
        below = model.model_fields.get(part)
        model = model_in(below.annotation) if below is not None else None
    return model


def _connector_at(path: KeyPath, data: Any) -> type[BaseModel] | None:
    try:
        kind = data[path[0]][path[1]]["type"]
    except (KeyError, IndexError, TypeError):
        return None
    side: Side = "source" if path[0] == "sources" else "sink"
    try:
        return connector_model(side, kind) if kind in registry(side) else None
    except connectors.PluginError:
        return None


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model in an annotation such as ``list[Change] | None``; `diagnosis` with all analyzers."""
    if annotation is DiagnosisSettings:
        return diagnosis_model()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part)) is not None), None)


def anchored(value: Any, folder: Path) -> Any:
    """The same with relative paths seen from that folder."""
    if isinstance(value, Path):
        return value if value.is_absolute() else folder / value
    if isinstance(value, BaseModel):
        found = {name: getattr(value, name) for name in type(value).model_fields}
        moved = {name: anchored(given, folder) for name, given in found.items()}
        changed = {name: given for name, given in moved.items() if given is not found[name]}
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, dict):
        return _same_if_equal(value, {key: anchored(given, folder) for key, given in value.items()})
    if isinstance(value, list):
        return _same_if_equal(value, [anchored(given, folder) for given in value])
    return value


def secret_files(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Path]]:
    """Every file with a secret that a configuration names, and under which key."""
    if isinstance(value, WithSecrets):
        for name in value.secret_names():
            file = getattr(value, f"{name}_file")
            if file is not None:
                yield (*path, f"{name}_file"), file
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secret_files(getattr(value, name), (*path, name))
    elif isinstance(value, dict):
        for key, given in value.items():
            yield from secret_files(given, (*path, key))


def _same_if_equal(before: Any, after: Any) -> Any:
    return before if before == after else after
