"""What is made from the model: manual page, schema for editors, commented templates."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import connectors
from detector.config import Config, ConfigError
from detector.config_fields import keys_of
from detector.config_init import template
from detector.config_model import door_model
from detector.config_text import reference, schema, shipped_schema
from detector.yaml_guard import read_yaml

ROOT = Path(__file__).parents[2]
CONFIGS = Path(__file__).parent / "configs"
PAIRS = list(itertools.product(connectors.SOURCES, connectors.SINKS))


def test_the_manual_page_is_the_one_made_from_the_model() -> None:
    """`python -m detector.config_text docs/configuration.md` writes it anew."""
    assert (ROOT / "docs" / "configuration.md").read_text() == reference()


def test_the_manual_page_names_every_key_with_words() -> None:
    text = reference()
    for name in Config.model_fields:
        assert f"\n## {name}\n" in text
    doors: list[tuple[Any, str]] = [("source", name) for name in connectors.SOURCES]
    doors += [("sink", name) for name in connectors.SINKS]
    for side, name in doors:
        section = text.split(f"### {side}s: {name}\n")[1].split("\n##")[0]
        for key in keys_of(door_model(side, name)):
            assert f"| `{key.name}` | {key.value} |" in section
            assert key.help
    assert "| value |" not in re.sub(r"\| key \| value \|", "", text), "a type without words"


def test_the_example_of_the_manual_page_is_right() -> None:
    example = re.findall(r"```yaml\n(.*?)```", reference(), re.DOTALL)[0]
    assert Config.parse(example).sinks["pager"].type == "webhook"  # type: ignore[attr-defined]


def test_the_schema_shipped_is_the_one_made_from_the_model() -> None:
    """`detector schema > detector/schemas/config.schema.json` writes it anew."""
    assert shipped_schema() == schema() == json.loads(json.dumps(schema()))


@pytest.mark.parametrize(
    "path", [ROOT / "config.yaml", *sorted(CONFIGS.glob("*.yaml"))], ids=lambda p: p.stem
)
def test_the_schema_agrees_with_the_model(path: Path) -> None:
    """Every good file passes. A bad file of a wrong key or type fails; finer rules only the model knows."""
    validator = jsonschema.Draft202012Validator(schema())
    try:
        data = read_yaml(path).data
    except Exception:
        return
    faults = list(validator.iter_errors(data))
    if not path.stem.startswith("bad-"):
        assert not faults
    elif path.stem in ("bad-unknown-top-key", "bad-unknown-key", "bad-types", "bad-door-type", "bad-missing"):
        assert faults


@pytest.mark.parametrize(("source", "sink"), PAIRS)
def test_every_template_can_be_used_as_it_is(source: str, sink: str) -> None:
    config = Config.parse(template(source, sink))
    config.network()
    assert config.source_objects()
    assert config.sink_objects()


@pytest.mark.parametrize(("source", "sink"), PAIRS[:: len(connectors.SINKS) + 1])
def test_every_default_shown_in_a_template_is_the_default(source: str, sink: str) -> None:
    """Taking the # away changes nothing."""
    text = template(source, sink)
    plain = Config.parse(text)
    lines = text.splitlines()
    for i, line in enumerate(lines):
        shown = re.fullmatch(r"( +)# ([a-z_]+: \S.*)", line)
        if shown is None or shown[2].split(":")[0] in ("edges", "positions", "components"):
            continue
        changed = [*lines[:i], shown[1] + shown[2], *lines[i + 1 :]]
        try:
            config = Config.parse("\n".join(changed))
        except ConfigError as error:
            if "unknown key" in str(error) or "not YAML" in str(error):
                continue  # a line of words that looks like a key
            raise
        assert config.model_dump() == plain.model_dump(), line


def test_templates_keep_to_the_width() -> None:
    assert max(map(len, template("nats", "webhook").splitlines())) <= 110
