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
from detector.config.config import Config, ConfigError
from detector.config.fields import keys_of
from detector.config.model import connector_model
from detector.config.reference import reference, schema, shipped_schema
from detector.config.template import template
from detector.config.yaml_reader import read_yaml
from detector.diagnosis.registry import diagnosis_model

ROOT = Path(__file__).parents[3]
CONFIGS = Path(__file__).parent / "configs"
PAIRS = list(itertools.product(connectors.SOURCES, connectors.SINKS))


def test_the_manual_page_is_the_one_made_from_the_model() -> None:
    """`python -m detector.config.reference docs/configuration.md` writes it anew."""
    assert (ROOT / "docs" / "configuration.md").read_text() == reference()


def test_the_manual_page_names_every_key_with_words() -> None:
    text = reference()
    for name in Config.model_fields:
        assert f"\n## {name}\n" in text
    connector_types: list[tuple[Any, str]] = [("source", name) for name in connectors.SOURCES]
    connector_types += [("sink", name) for name in connectors.SINKS]
    for side, name in connector_types:
        section = text.split(f"### {side}s: {name}\n")[1].split("\n##")[0]
        for key in keys_of(connector_model(side, name)):
            assert f"| `{key.name}` | {key.value} |" in section
            assert key.help
    assert "| value |" not in re.sub(r"\| key \| value \|", "", text), "a type without words"


def test_the_example_of_the_manual_page_is_right() -> None:
    example = re.findall(r"```yaml\n(.*?)```", reference(), re.DOTALL)[0]
    assert Config.parse(example).sinks["pager"].type == "webhook"  # type: ignore[attr-defined]


def test_the_schema_shipped_is_the_one_made_from_the_model() -> None:
    """`detector schema > detector/config/config.schema.json` writes it anew."""
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
    elif path.stem in (
        "bad-unknown-top-key",
        "bad-unknown-key",
        "bad-types",
        "bad-connector-type",
        "bad-missing",
    ):
        assert faults


@pytest.mark.parametrize(
    ("group", "key", "wrong"),
    [
        ("estimator", "alpha", 7), ("estimator", "sweeps", 0), ("estimator", "name", "rulsif"),
        ("estimator", "sigma", 0), ("estimator", "dictionary", "large"), ("windows", "reference", -5),
        ("windows", "tests", []), ("windows", "tests", [1]), ("align", "confirm", 0), ("align", "step", -1),
        ("align", "step", "soon"), ("align", "missing", "nonsense"), ("preprocess", "clip", -1),
        ("preprocess", "whiten", "whatever"), ("preprocess", "difference", -1), ("alarm", "learn", 1),
        ("alarm", "release", 9), ("alarm", "budget", "often"), ("incidents", "confirm", 0),
        ("incidents", "after_hold", "forget"), ("diagnosis", "early", 0),
    ],
)  # fmt: skip
def test_the_schema_refuses_what_the_model_refuses(group: str, key: str, wrong: Any) -> None:
    """An editor finds a value out of range in every group, and so does the program."""
    data = {"graph": "simulate", "sources": {"demo": {"type": "simulate"}}, group: {key: wrong}}
    validator = jsonschema.Draft202012Validator(shipped_schema())
    assert [list(fault.absolute_path)[:2] for fault in validator.iter_errors(data)] == [[group, key]]
    with pytest.raises(ConfigError, match=rf"{group}\.{key}"):
        Config.of(data)


def test_the_manual_page_says_what_a_change_means() -> None:
    text = reference()
    for key, applies in (
        ("budget", "now"), ("whiten", "relearn"), ("clear_after", "relearn"), ("tests", "relearn"),
        ("directory", "restart"), ("dim", "relearn"), ("port", "now"),
    ):  # fmt: skip
        line = next(line for line in text.splitlines() if line.startswith(f"| `{key}` |"))
        assert line.split(" | ")[3] == applies, line


@pytest.mark.parametrize(("source", "sink"), PAIRS)
def test_every_template_can_be_used_as_it_is(source: str, sink: str) -> None:
    config = Config.parse(template(source, sink))
    config.network()
    assert config.source_objects()
    assert config.sink_objects()


def complete(config: Config) -> dict[str, Any]:
    """With the analyzers that the configuration does not name."""
    diagnosis = diagnosis_model().model_validate(config.diagnosis.model_dump())
    return config.model_dump() | {"diagnosis": diagnosis.model_dump()}


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
        assert complete(config) == complete(plain), line


def test_templates_keep_to_the_width() -> None:
    assert max(map(len, template("nats", "webhook").splitlines())) <= 110
