"""A commented configuration to start from, for a source and a sink of the user's choice."""

from __future__ import annotations

import textwrap
from typing import Any

from pydantic import BaseModel

import connectors
from detector.config.config import Config
from detector.config.fields import Key, keys_of
from detector.config.model import Side, connector_model
from detector.config.paths import model_in

WIDTH = 110
# The key of a group that most people look at first; it is written with its default.
FIRST = {"align": "step", "preprocess": "whiten", "windows": "reference", "estimator": "name",
         "engine": "type", "alarm": "budget", "incidents": "clear_after", "diagnosis": "settle",
         "notify": "maintenance",
         "http": "port"}  # fmt: skip

HEAD = """\
# Configuration of detector: one key per group of settings, in the order in which a sample meets them.
#   detector check --config {file}     looks it over
#   detector run --config {file}       starts it
# Lines with a leading # show defaults. Durations: 500ms, 30s, 2h, 7d. Sizes: 64KiB, 1MiB.
# Secrets stand in files (password_file: PATH) or in the environment (password: ${{VARIABLE}}).
"""
GRAPH = """\
# {text}
graph:
  learn: true                         # link nodes that are correlated; better, if you know the links:
  # edges: edges.csv                  # lines u,v or u,v,weight
  # positions: {{file: places.csv, k: 3}}   # lines name,x,y
  nodes: [sensor-1, sensor-2, sensor-3]   # the names in your data, or a file with one name a line
  # components: [temperature, humidity]   # if a sample has several values
"""


def template(source: str, sink: str, file: str = "config.yaml") -> str:
    """A configuration that can be used as it is, if what its source and sink connect to is there."""
    parts = [HEAD.format(file=file)]
    for name, field in Config.model_fields.items():
        text = (field.description or "").removesuffix(".")
        if name == "graph":
            learnt = GRAPH.format(text=text)
            parts.append(f"# {text}\ngraph: simulate\n" if source == "simulate" else learnt)
        elif name == "sources":
            parts.append(f"# {text}\nsources:\n  {_name(source)}:\n" + _connector("source", source))
        elif name == "sinks":
            parts.append(f"# {text}\nsinks:\n  {_name(sink)}:\n" + _connector("sink", sink))
        elif field.default is None:  # a group that most do without
            parts.append(
                "\n".join(textwrap.wrap(f"# {text}", WIDTH, subsequent_indent="# ")) + f"\n{name}: null\n"
            )
        else:
            model = model_in(field.annotation)
            assert model is not None
            given = {"directory": "state"} if name == "state" else {}
            parts.append(f"# {text}\n{name}:\n" + _keys(model, "  ", given, FIRST.get(name)))
    return "\n".join(parts)


def _name(kind: str) -> str:
    return {"simulate": "demo", "stdout": "console"}.get(kind, f"my-{kind}")


def _connector(side: Side, name: str) -> str:
    kind = connectors.source(name) if side == "source" else connectors.sink(name)
    given = {"type": name, **dict(line.split(": ", 1) for line in kind.example)}
    return _keys(connector_model(side, name), "    ", given, None)


def _keys(model: type[BaseModel], margin: str, given: dict[str, str], first: str | None) -> str:
    lines: list[str] = []
    keys = keys_of(model)
    for key in sorted(keys, key=lambda key: key.name not in given and key.name != first):
        active = key.name in given or key.name == first
        lines += _key(key, margin, given.get(key.name, key.default), active)
    return "\n".join(lines) + "\n"


def _key(key: Key, margin: str, value: Any, active: bool) -> list[str]:
    entry = f"{margin}{'' if active else '# '}{key.name}: {value}"
    line = f"{entry:<36}  # {key.help}"
    if len(line) <= WIDTH:
        return [line]
    about = textwrap.wrap(key.help, WIDTH - len(margin) - 2)
    return [*(f"{margin}# {text}" for text in about), entry]
