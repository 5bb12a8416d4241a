"""The configuration in words for people: the manual page, and the JSON Schema for editors.

``python -m detector.config_text docs/configuration.md`` and ``detector schema`` write them anew.
"""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import connectors
from detector.config import Config
from detector.config_fields import Key, keys_of
from detector.config_groups import Group, group_model
from detector.config_model import GRAPH_WORDS, door_model
from detector.config_paths import model_in

SCHEMA_FILE = "schemas/config.schema.json"

INTRODUCTION = """\
# Configuration

*Made from the model by `python -m detector.config_text docs/configuration.md`; do not edit.*

One YAML file, by default `config.yaml`. Its top-level keys are the rooms of the house, in the order in which
a sample meets them. `detector init` writes a commented file to start from, `detector check` looks one over,
and `detector schema` prints a JSON Schema with which editors complete and check while you type.

**Strict.** An unknown key, a wrong type, a value out of range is an error that names file, line, column, key,
value and, for a misspelt key, the nearest known one. All errors are listed at once; the exit code is 78.

**Units in words.** A *duration* is `500ms`, `30s`, `5m`, `2h`, `7d`, `1h 30m`, or a number of seconds. A
*size* is `64KiB`, `1MiB`, or a number of bytes. A *budget* is `1 per 30d`, `2 per 1w` or `1 per 10000 ticks`.

**Paths.** A relative path is seen from the folder of the configuration file.

**Secrets** stand in files (`password_file: PATH`) or in the environment (`password: ${VARIABLE}`), never in
the configuration, and are never printed; neither are values near them when something is wrong.

**YAML.** Read as in version 1.2: `on`, `no` and `12:30` are texts, `1e-3` is a number. At most 256 KiB, 32
levels, 10,000 values. Anchors, aliases, merge keys, tags and keys given twice are refused.

The smallest useful file:

```yaml
graph:
  edges: pipes.csv
sources:
  plant: {type: mqtt, host: broker.example, topics: ["sensors/#"]}
sinks:
  pager: {type: webhook, url: "https://pager.example/hook"}
```
"""


def reference() -> str:
    """The text of docs/configuration.md."""
    parts = [INTRODUCTION, "## Top-level keys\n\n" + _overview()]
    shared: dict[str, type[BaseModel]] = {}
    for name, field in Config.model_fields.items():
        if name in ("sources", "sinks"):
            parts.append(_doors(name, field.description or "", shared))
            continue
        is_group = any(isinstance(mark, Group) for mark in field.metadata)
        model = group_model(field.annotation) if is_group else model_in(field.annotation)  # type: ignore[arg-type]
        assert model is not None
        parts.append(f"## {name}\n\n{_words(model)}\n\n{_table(keys_of(model))}")
        parts += _below(name, model)
    for title, model in shared.items():
        parts.append(f"## {title}\n\n{_words(model)}\n\n{_table(keys_of(model))}")
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _below(name: str, model: type[BaseModel]) -> list[str]:
    """The keys that are mappings themselves, level by level."""
    parts = []
    for key in keys_of(model):
        if key.model is not None:
            title = f"{name}.{key.name}"
            parts.append(f"### {title}\n\n{_words(key.model)}\n\n{_table(keys_of(key.model))}")
            parts += _below(title, key.model)
    return parts


def _doors(side: str, text: str, shared: dict[str, type[BaseModel]]) -> str:
    kind: Any = "source" if side == "sources" else "sink"
    parts = [f"## {side}\n\n{text} What each promises: [connectors.md](connectors.md).\n"]
    for name in connectors.SOURCES if kind == "source" else connectors.SINKS:
        model = door_model(kind, name)
        keys = keys_of(model)
        parts.append(f"### {side}: {name}\n\n{_words(model)}\n\n{_table(keys)}")
        for key in keys:
            if key.model is not None:
                below = shared.setdefault(_title(key.model), key.model)
                assert below is key.model, f"two models are called {_title(key.model)}"
    return "\n".join(parts)


def _title(model: type[BaseModel]) -> str:
    names = {"Change": "changes", "Pattern": "patterns", "Query": "queries"}
    return names.get(model.__name__, model.__name__.lower())


def _words(model: type[BaseModel] | None) -> str:
    text = " ".join((model.__doc__ or "").split("\n\n")[0].split()) if model is not None else ""
    return text.replace("``", "`").replace("`None`", "`null`")


def _overview() -> str:
    lines = ["| key | meaning |", "| --- | --- |"]
    for name, field in Config.model_fields.items():
        needed = " *Needed.*" if field.is_required() else ""
        lines.append(f"| [`{name}`](#{name}) | {field.description}{needed} |")
    return "\n".join(lines) + "\n"


def _table(keys: list[Key]) -> str:
    lines = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for key in keys:
        default = "*needed*" if key.default is None else f"`{key.default}`"
        lines.append(f"| `{key.name}` | {key.value} | {default} | {key.help} |")
    return "\n".join(lines) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration."""
    document: dict[str, Any] = Config.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_with_words(document)}


def _with_words(document: dict[str, Any]) -> dict[str, Any]:
    """The graph may be one word: a validator allows it, which the schema cannot know by itself."""
    graph = document["$defs"]["GraphConfig"]
    document["$defs"]["GraphConfig"] = {
        "description": graph.pop("description"),
        "anyOf": [{"type": "string", "enum": list(GRAPH_WORDS)}, graph],
    }
    return document


def shipped_schema() -> dict[str, Any]:
    """The JSON Schema as shipped with the package."""
    text = resources.files("detector").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
