"""The package keeps to itself, and its manual is true: examples load, every type has its section."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors import SINKS, SOURCES, sink, source
from connectors.base import REASONS
from connectors.codec.decoder import Decode

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "connectors.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL)]
GIVEN = [
    (side, name, settings)
    for example in EXAMPLES
    for side, types in example.items()
    for name, settings in types.items()
]


@pytest.mark.parametrize("path", sorted((ROOT / "connectors").glob("*.py")), ids=lambda path: path.name)
def test_imports_neither_the_daemon_nor_the_mathematics(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        assert not {name.split(".")[0] for name in names} & {"detector", "estimators"}


def test_client_libraries_are_loaded_on_use_only() -> None:
    """All classes can be loaded, and configurations checked, without any optional library."""
    code = (
        "import sys, connectors\n"
        "[connectors.source(n) for n in connectors.SOURCES]; [connectors.sink(n) for n in connectors.SINKS]\n"
        "clients = ('paho', 'confluent_kafka', 'redis', 'nats', 'line_protocol_parser', 'cramjam',"
        " 'opentelemetry', 'google.protobuf')\n"
        "print([name for name in clients if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted({*SOURCES, *SINKS}))
def test_every_type_has_a_section_and_an_example(name: str) -> None:
    assert f"\n## {name}\n" in MANUAL
    for side, types in (("sources", SOURCES), ("sinks", SINKS)):
        if name in types:
            assert any(r == side and settings["type"] == name for r, _, settings in GIVEN), f"{side}: {name}"


@pytest.mark.parametrize(("side", "name", "settings"), GIVEN)
def test_examples_are_valid(
    side: str, name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in re.findall(r"\$\{(\w+)\}", str(settings)):
        monkeypatch.setenv(variable, "x")
    rest = {key: value for key, value in settings.items() if key != "type"}
    kind = source(settings["type"]) if side == "sources" else sink(settings["type"])
    kind(kind.Config.model_validate(rest))  # type: ignore[call-arg]


def test_reasons_and_mapping_keys_are_described() -> None:
    for word in (*REASONS, *Decode.model_fields):
        assert f"`{word}`" in MANUAL, word


@pytest.mark.parametrize("name", sorted({*SOURCES, *SINKS}))
def test_settings_have_a_schema(name: str) -> None:
    """For editors: the JSON Schema can be made, and secrets are references in it."""
    for types, load in ((SOURCES, source), (SINKS, sink)):
        if name in types:
            schema = load(name).Config.model_json_schema()
            assert schema["additionalProperties"] is False
            for field, facts in schema["properties"].items():
                if field in ("password", "token", "signing_key"):
                    assert "pattern" in facts
