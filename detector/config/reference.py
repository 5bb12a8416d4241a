"""Documentation of the configuration: the reference page, and the JSON Schema for editors.

``python -m detector.config.reference docs/configuration.md`` and ``detector schema`` regenerate them.
"""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from detector.config.config import Config
from detector.config.fields import Key, keys_of
from detector.config.model import GRAPH_WORDS, connector_models
from detector.config.paths import model_in
from detector.settings.base import applies

SCHEMA_FILE = "config/config.schema.json"

INTRODUCTION = """\
# Configuration

*Generated from the model by `python -m detector.config.reference docs/configuration.md`; do not edit.*

One YAML file, by default `config.yaml`. Its top-level keys are groups of settings, in the order in which a
sample passes through them. `detector init` writes a commented file to start from, `detector check` validates
one, and `detector schema` prints a JSON Schema for completion and checks in editors.

**Strict.** An unknown key, a wrong type, a value out of range is an error that names file, line, column, key,
value and, for a misspelt key, the nearest known one. All errors are listed at once; the exit code is 78.

**Units.** A *duration* is `500ms`, `30s`, `5m`, `2h`, `7d`, `1h 30m`, or a number of seconds. What is
counted in the time of the stream takes ticks, `25 ticks`, as well as a duration; `align.step` converts them
(into whole ticks, rounded up). A bare number is ticks where the default is a number of ticks, else seconds.
A *size* is `64KiB`, `1MiB`, or a number of bytes. A *budget* is `1 per 30d`, `2 per week` or `1 per 10000
ticks`.

**Changing it.** The column *applies* says what a change means:

- `now`: it takes effect at a reload (SIGHUP, `systemctl reload`) or a restart.
- `restart`: a reload refuses it; restart instead.
- `relearn`: what was learnt depends on it. Before learning it may change like any other key. A state that was
  learnt with another value is refused, by a reload and at start; the message names the key, both values and
  the way out: set it back, or learn again with `detector learn FILE --force` or in another `state.directory`.

A reload applies the whole file or nothing.

**Paths.** A relative path is relative to the folder of the configuration file.

**Secrets** are in files (`password_file: PATH`) or in the environment (`password: ${VARIABLE}`), never in
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
            parts.append(_connectors(name, field.description or "", shared))
            continue
        model = model_in(field.annotation)
        assert model is not None
        keys = keys_of(model, applies(field) or "now")
        parts.append(f"## {name}\n\n{_words(model)}\n\n{_table(keys)}")
        parts += _below(name, keys)
    for title, model in shared.items():
        parts.append(f"## {title}\n\n{_words(model)}\n\n{_table(keys_of(model))}")
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _below(name: str, keys: list[Key]) -> list[str]:
    """The keys that are mappings themselves, level by level."""
    parts = []
    for key in keys:
        if key.model is not None:
            title, below = f"{name}.{key.name}", keys_of(key.model, key.applies)
            parts.append(f"### {title}\n\n{_words(key.model)}\n\n{_table(below)}")
            parts += _below(title, below)
    return parts


def _connectors(side: str, text: str, shared: dict[str, type[BaseModel]]) -> str:
    kind: Any = "source" if side == "sources" else "sink"
    parts = [f"## {side}\n\n{text} What each promises: [connectors.md](connectors.md).\n"]
    for name, model in connector_models(kind).items():
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
    lines = ["| key | value | default | applies | meaning |", "| --- | --- | --- | --- | --- |"]
    for key in keys:
        default = "*needed*" if key.default is None else f"`{key.default}`"
        lines.append(f"| `{key.name}` | {key.value} | {default} | {key.applies} | {key.help} |")
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
