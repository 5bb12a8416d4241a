"""`detector compare`: every form of input, what it prints, and what is wrong with bad files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from detector.cli.main import cli

NAMES = [f"n{k}" for k in range(6)]


def wide(path: Path, x: np.ndarray, columns: list[str]) -> Path:
    rows = [",".join([str(1000 + k), *(f"{v:.4f}" for v in row)]) for k, row in enumerate(x)]
    path.write_text("\n".join([",".join(["time", *columns]), *rows]) + "\n")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    rng = np.random.default_rng(0)
    before, after = rng.normal(50.0, 4.0, size=(2, 80, 6))
    after[:, :2] += 6.0
    edges = tmp_path / "edges.csv"
    edges.write_text("u,v\n" + "\n".join(f"{a},{b}" for a, b in itertools.pairwise(NAMES)) + "\n")
    return wide(tmp_path / "before.csv", before, NAMES), wide(tmp_path / "after.csv", after, NAMES), edges


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)])


def facts(*arguments: object) -> dict:
    done = run(*arguments, "--json", "--permutations", "99")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_nodes_sets_and_p_values(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    before, after, edges = files
    found = facts(before, after, "--graph", edges)
    assert found["p_network"] == 0.01
    assert found["sets"] == [["n0", "n1"]]
    assert [one["name"] for one in found["nodes"] if one["changed"]] == ["n0", "n1"]
    assert found["links"] == 5
    assert facts(before, before, "--graph", edges)["conclusion"].startswith("no difference is shown")
    alone = facts(before, after)
    assert alone["links"] == 0
    assert {"n0", "n1"} == {name for one in alone["sets"] for name in one}
    page = tmp_path / "page.html"
    done = run(before, after, "--graph", edges, "--report", page, "--permutations", 99)
    assert done.exit_code == 0
    assert "the recordings differ (p = 0.01): 2 of 6 nodes" in done.stdout
    assert "set 1: n0, n1" in done.stdout
    text = page.read_text()
    assert "n0: relative ratios" in text
    assert "p-value 0.01" in text


def test_the_same_from_long_files_and_json(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Three forms of one recording give one answer."""
    before, after, edges = files
    made = {}
    for path in (before, after):
        table = [line.split(",") for line in path.read_text().splitlines()]
        long = ["time,node,value"] + [
            f"{row[0]},{name},{row[k]}" for row in table[1:] for k, name in enumerate(NAMES, 1)
        ]
        lines = [
            json.dumps({"time": float(row[0]), "node": name, "values": [float(row[k])]})
            for row in table[1:] for k, name in enumerate(NAMES, 1)
        ]  # fmt: skip
        made[path] = (tmp_path / f"long-{path.name}", tmp_path / f"{path.stem}.jsonl")
        made[path][0].write_text("\n".join(long) + "\n")
        made[path][1].write_text("\n".join(lines) + "\n")
    first = facts(before, after, "--graph", edges)
    for k in (0, 1):
        assert facts(made[before][k], made[after][k], "--graph", edges) == first


def test_several_components_and_steps(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = [f"{name}.{part}" for name in ("a", "b") for part in ("flow", "heat")]
    before, after = rng.normal(size=(2, 60, 4))
    after[:, 3] += 2.0
    files = wide(tmp_path / "before.csv", before, columns), wide(tmp_path / "after.csv", after, columns)
    found = facts(*files, "--report", tmp_path / "page.html")
    assert found["sets"] == [["b"]]
    assert "b: where heat is" in (tmp_path / "page.html").read_text()
    coarse = facts(*files, "--step", 2)
    assert (coarse["rows_before"], coarse["rows_after"]) == (30, 30)


def test_a_graph_of_any_form(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    before, after, edges = files
    matrix = tmp_path / "matrix.csv"
    W = np.eye(6, k=1) + np.eye(6, k=-1)
    matrix.write_text("\n".join([",".join(NAMES), *(",".join(f"{v:g}" for v in row) for row in W)]))
    config = tmp_path / "config.yaml"
    config.write_text(
        "graph: {edges: edges.csv}\nsources: {log: {type: stdin}}\nsinks: {out: {type: stdout}}\n"
    )
    first = facts(before, after, "--graph", edges)
    assert facts(before, after, "--graph", matrix) == first
    assert facts(before, after, "--graph", config) == first
    part = tmp_path / "part.csv"
    part.write_text("n0,n1\nn1,x9\n")
    done = run(before, after, "--graph", part, "--permutations", 19)
    assert done.exit_code == 0
    assert "no links of n2, n3, n4, n5" in done.stderr


def test_what_is_wrong_is_told(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    before, after, _ = files
    empty, others, short, mixed, strange = (tmp_path / f"{name}.csv" for name in "abcde")
    empty.write_text("")
    others.write_text(before.read_text().replace("n", "m"))
    short.write_text("\n".join(before.read_text().splitlines()[:6]) + "\n")
    mixed.write_text(
        '{"time": 1, "node": "n0", "values": [1]}\n{"time": 1, "node": "n1", "values": [1, 2]}\n'
    )
    strange.write_text("p,q\n")
    for arguments, words in (
        ((empty, after), "a.csv: the file is empty"),
        ((before, others), "b.csv: no node of"),
        ((short, after), "5 and 80 rows; at least 10"),
        ((mixed, after), "d.csv: samples have different numbers of values: [1, 2]"),
        ((before, after, "--graph", strange), "e.csv: none of the nodes of the recordings"),
        ((before, after, "--block", 30), "block: the shorter sample has "),
    ):
        done = run(*arguments)
        assert done.exit_code == 1, done.output
        assert words in done.stderr
    assert run(before, after, "--level", 0).exit_code == 2
    lost = tmp_path / "lost.csv"
    text = after.read_text().splitlines()
    lost.write_text("\n".join([text[0], text[1].rsplit(",", 1)[0] + ",what", *text[2:]]) + "\n")
    done = run(before, lost, "--permutations", 19)
    assert "1 samples could not be read" in done.stderr
