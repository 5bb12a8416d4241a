"""A commented configuration to start from, for a source and a sink of the user's choice."""

from __future__ import annotations

import textwrap
from typing import Any, Literal

from pydantic import BaseModel

from detector.config import Config
from detector.config_fields import Key, keys_of
from detector.config_groups import Group, group_model
from detector.config_model import door_model
from detector.config_paths import model_in

WIDTH = 110
# What a door needs and cannot guess, and what shows best what it can do.
SAMPLES: dict[tuple[str, str], dict[str, str]] = {
    ("source", "simulate"): {"nodes": "30", "speed": "60", "every": "30m"},
    ("source", "file"): {"path": "samples.jsonl", "mode": "tail"},
    ("source", "mqtt"): {"host": "127.0.0.1", "topics": '["sensors/#"]'},
    ("source", "kafka"): {"brokers": '["127.0.0.1:9092"]', "topics": "[samples]"},
    ("source", "redis"): {"streams": "[samples]"},
    ("source", "nats"): {"stream": "SAMPLES"},
    ("source", "prometheus"): {
        "url": "http://127.0.0.1:9090", "queries": '[{query: node_load1, node: "{instance}"}]',
    },
    ("sink", "file"): {"path": "incidents.jsonl"},
    ("sink", "webhook"): {"url": "http://127.0.0.1:8080/incidents"},
    ("sink", "alertmanager"): {"url": "http://127.0.0.1:9093"},
    ("sink", "mqtt"): {"host": "127.0.0.1"},
    ("sink", "kafka"): {"brokers": '["127.0.0.1:9092"]'},
}  # fmt: skip
# The key of a room that most people look at first; it stands there with its default.
FIRST = {"align": "step", "preprocess": "whiten", "windows": "reference", "estimator": "name",
         "alarm": "budget", "incidents": "clear_after", "aftermath": "settle", "http": "port"}  # fmt: skip

HEAD = """\
# Configuration of detector: one key per room of the house, in the order in which a sample meets them.
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
    """A configuration that can be used as it is, if the other sides of its doors are there."""
    parts = [HEAD.format(file=file)]
    for name, field in Config.model_fields.items():
        text = (field.description or "").removesuffix(".")
        if name == "graph":
            learnt = GRAPH.format(text=text)
            parts.append(f"# {text}\ngraph: simulate\n" if source == "simulate" else learnt)
        elif name == "sources":
            parts.append(f"# {text}\nsources:\n  {_name(source)}:\n" + _door("source", source))
        elif name == "sinks":
            parts.append(f"# {text}\nsinks:\n  {_name(sink)}:\n" + _door("sink", sink))
        else:
            is_group = any(isinstance(mark, Group) for mark in field.metadata)
            model = group_model(field.annotation) if is_group else model_in(field.annotation)  # type: ignore[arg-type]
            assert model is not None
            given = {"directory": "state"} if name == "state" else {}
            parts.append(f"# {text}\n{name}:\n" + _keys(model, "  ", given, FIRST.get(name)))
    return "\n".join(parts)


def _name(door: str) -> str:
    return {"simulate": "demo", "stdout": "console"}.get(door, f"my-{door}")


def _door(side: Literal["source", "sink"], name: str) -> str:
    given = {"type": name, **SAMPLES.get((side, name), {})}
    return _keys(door_model(side, name), "    ", given, None)


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
