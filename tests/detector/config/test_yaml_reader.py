"""Hostile YAML is refused within a second, with line and column, and never takes the process down."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from detector.config.yaml_reader import MAX_BYTES, Document, Place, YamlRefused, parse_yaml

ALIAS_BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
MERGE_BOMB = "a0: {k0: 0}\n" + "".join(f"a{i}: {{<<: {{x: 1}}, k{i}: 0}}\n" for i in range(1, 30))
INDENTED = "".join(" " * i + "a:\n" for i in range(600))
HOSTILE = {
    "alias bomb": (ALIAS_BOMB, "anchors", Place(1, 5)),
    "merge bomb": (MERGE_BOMB, "merge keys", Place(2, 6)),
    "deep list": ("[" * 200_000, "nested deeper", Place(1, 33)),
    "deep mapping": ("{a: " * 50_000, "nested deeper", Place(1, 129)),
    "deep indentation": (INDENTED, "nested deeper", Place(33, 33)),
    "deep dashes": ("- " * 100_000, "nested deeper", Place(1, 65)),
    "object tag": ("a: !!python/object/apply:os.system ['true']", "tags", Place(1, 4)),
    "own tag": ("a: !secret b", "tags", Place(1, 4)),
    "duplicate": ("a: 1\nb:\n  c: 1\n  c: 2\n", "'c' stands here twice, first in line 3", Place(4, 3)),
    "100 MB": ("a: " + "x" * 10**8, "longer than 256 KiB", Place(1, MAX_BYTES + 1)),
    "many values": ("- a\n" * 60_000, "more than 10000 values", Place(10_000, 3)),
    "many digits": ("a: " + "9" * 100_000, "more than 40 digits", Place(1, 4)),
    "two documents": ("a: 1\n---\nb: 2\n", "second document", Place(2, 1)),
    "key of a list": ("? [a]\n: b\n", "plain word", Place(1, 3)),
    "control character": ("a: b\nc: \x07\n", "character 0x7", Place(2, 4)),
    "tab": ("a:\n\tb: 1\n", "not YAML", Place(2, 1)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_quickly_with_its_place(name: str) -> None:
    text, message, place = HOSTILE[name]
    raw = text.encode()
    begun = time.process_time()
    with pytest.raises(YamlRefused, match=message) as caught:
        parse_yaml(raw)
    assert time.process_time() - begun < 10.0  # and not minutes, as a bomb would take
    assert caught.value.place == place


SLOW = {
    "block": "a: |\n" + " x\n" * (MAX_BYTES // 3 - 10),
    "folded": 'a: "' + "\n" * (MAX_BYTES - 10) + '"',
    "words": 'a: "' + "x " * (MAX_BYTES // 2 - 10) + '"',
    "plain words": "a: " + "xy " * (MAX_BYTES // 3 - 10),
    "blank lines": "\n" * (MAX_BYTES - 10),
}


@pytest.mark.parametrize("name", SLOW)
def test_the_slowest_texts_within_the_cap_are_bearable(name: str) -> None:
    """The cap is what keeps them so: the parser looks at letter after letter."""
    begun = time.process_time()
    parse_yaml(SLOW[name].encode())
    assert time.process_time() - begun < 1.5


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(YamlRefused, match="UTF-8") as caught:
        parse_yaml(b"a: 1\nbc: \xff\n")
    assert caught.value.place == Place(2, 5)


def test_errors_show_nothing_of_the_text() -> None:
    with pytest.raises(YamlRefused) as caught:
        parse_yaml(b"password: canary-9f3a7: x\n")
    assert "canary" not in str(caught.value)


def test_scalars_are_those_of_version_1_2() -> None:
    text = "[on, no, yes, 12:30, 2026-11-16, 1_000, 010, 1e-3, .5, 0x1F, 0o17, ~, null, true, -.inf, '7', 1.]"
    expected = ["on", "no", "yes", "12:30", "2026-11-16", "1_000", 10, 1e-3, 0.5, 31, 15, None, None, True,
                float("-inf"), "7", 1.0]  # fmt: skip
    assert parse_yaml(text.encode()).data == expected


def test_places_of_keys_and_values() -> None:
    document = parse_yaml(b"\xef\xbb\xbfa:\n  b: [1, {c: 2}]\n")
    assert document.data == {"a": {"b": [1, {"c": 2}]}}
    assert document.keys[("a", "b")] == Place(2, 3)
    assert document.values[("a", "b")] == Place(2, 6)
    assert document.keys[("a", "b", 1, "c")] == Place(2, 11)
    assert document.place(("a", "b", 1, "c", "absent")) == Place(2, 11)
    assert Document().place(("a",)) == Place(1, 1)


@pytest.mark.parametrize("name", ["deep list", "alias bomb", "object tag", "100 MB"])
def test_the_command_refuses_it_with_78(name: str, tmp_path: Path) -> None:
    """In a process of its own: the C parser would end it with a segmentation fault."""
    path = tmp_path / "hostile.yaml"
    path.write_text(HOSTILE[name][0])
    command = [sys.executable, "-m", "detector", "check", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    place = HOSTILE[name][2]
    assert done.returncode == 78
    assert done.stderr.startswith(f"detector: {path}:{place.line}:{place.column}: ")
    assert len(done.stderr.splitlines()) == 1
