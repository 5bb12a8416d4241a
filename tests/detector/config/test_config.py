"""The configuration is strict, names every fault with its place, and builds what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import connectors
from connectors.settings.secrets import WithSecrets
from detector.config.config import Config, ConfigError
from detector.config.model import connector_model
from detector.network.network import Network
from detector.settings.core import Settings

ROOT = Path(__file__).parents[3]
CONFIGS = Path(__file__).parent / "configs"
CANARY = "canary-9f3a7"
SMALL: dict[str, Any] = {"graph": "simulate", "sources": {"demo": {"type": "simulate"}}}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("bad-*.yaml")), ids=lambda path: path.stem)
def test_a_bad_file_gives_exactly_these_messages(path: Path) -> None:
    """All of them, each with line, column, key and value."""
    expected = re.findall(r"^# expect: (.*)$", path.read_text(), re.MULTILINE)
    assert expected, "a bad file says what is expected"
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).splitlines() == [f"{path}:{line}" for line in expected]
    assert CANARY not in str(caught.value) + repr(caught.value.problems)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("good-*.yaml")), ids=lambda path: path.stem)
def test_a_good_file_loads(path: Path) -> None:
    config = Config.load(path)
    assert config.path == path
    assert config.settings() == Settings(
        align=config.align, preprocess=config.preprocess, windows=config.windows, estimator=config.estimator,
        alarm=config.alarm, incidents=config.incidents, diagnosis=config.diagnosis.cases,
    )  # fmt: skip


def test_the_embedded_default_has_every_group_in_order() -> None:
    """As the model has them, so that the file shows how the program is built."""
    text = (ROOT / "config.yaml").read_text()
    assert re.findall(r"^([a-z]+):", text, re.MULTILINE) == list(Config.model_fields)
    config = Config.load(ROOT / "config.yaml")
    network = config.network()
    assert network is not None
    assert network.n_nodes == 100
    assert config.state.folder() == ROOT / "state"
    assert config.http.loopback


def test_defaults_are_those_of_the_core() -> None:
    assert Config.of(SMALL).settings() == Settings()


def test_every_setting_of_the_core_has_words() -> None:
    for group, settings in Settings():
        for name, field in type(settings).model_fields.items():
            assert (field.description or "").endswith("."), f"{group}.{name}"


def test_durations_and_budgets_in_words() -> None:
    config = Config.load(CONFIGS / "good-every-group.yaml")
    assert config.align.step == 30.0
    assert config.align.lateness == 120.0
    assert config.align.seconds("max_gap") == 60 * 30.0  # follows from the step
    assert config.preprocess.seasonal == 86400.0
    assert config.alarm.budget.per_tick(1.0) == pytest.approx(2 / (7 * 86400))
    assert config.windows.tests == (5, 50)
    assert config.incidents.hold_for is None
    assert config.state.snapshot_every == 600.0


def test_relative_paths_are_seen_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = Config.load(CONFIGS / "good-every-group.yaml")
    assert config.sources["log"].path == CONFIGS / "samples.jsonl"  # type: ignore[attr-defined]
    assert config.state.directory == CONFIGS / "kept"
    assert Config.of(SMALL | {"state": {"directory": "/far"}}).state.directory == Path("/far")


def test_connectors_are_built_and_connected_to_nothing() -> None:
    config = Config.load(CONFIGS / "good-every-group.yaml")
    sources, sinks = config.source_objects(), config.sink_objects()
    assert [type(one) for one in sources.values()] == [connectors.source("file"), connectors.source("http")]
    assert [type(one) for one in sinks.values()] == [connectors.sink("file")]
    assert sources["log"].config is config.sources["log"]


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config.of(SMALL).http.port = 1


# ------------------------------------------------------------------------------------------ graphs


def network_of(graph: Any, folder: Path, **more: Any) -> Network | None:
    data = {"graph": graph, "sources": {"pipe": {"type": "stdin"}}, **more}
    return Config.of(data, folder).network()


def test_graphs_from_files_and_lists(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nb,c,0.5\n")
    (tmp_path / "matrix.csv").write_text("a,b,c\n0,1,0\n1,0,0.5\n0,0.5,0\n")
    (tmp_path / "names.txt").write_text("# the pumps\na\nb\n\nc\n")
    (tmp_path / "places.csv").write_text("name,x,y\na,0,0\nb,1,0\nc,2.5,0\n")
    expected = [("a", "b", 1.0), ("b", "c", 0.5)]
    for graph in (
        {"edges": "edges.csv"},
        {"edges": [["a", "b"], ["b", "c", 0.5]], "nodes": ["a", "b", "c"]},
        {"edges": "edges.csv", "nodes": "names.txt"},
        {"adjacency": "matrix.csv"},
    ):
        network = network_of(graph, tmp_path)
        assert network is not None
        assert network.edges() == expected
    near = network_of({"positions": {"file": "places.csv", "radius": 1.2}}, tmp_path)
    assert near is not None
    assert near.edges() == [("a", "b", 1.0)]
    assert near.positions is not None
    full = network_of({"complete": True, "nodes": "names.txt"}, tmp_path)
    assert full is not None
    assert len(full.edges()) == 3
    alone = network_of({"empty": True, "nodes": ["x", "y"]}, tmp_path)
    assert alone is not None
    assert not alone.edges()
    assert network_of({"learn": True, "nodes": ["x", "y"]}, tmp_path) is None


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"edges": "absent.csv"}, "graph.edges: .*absent.csv: no such file"),
        ({"positions": {"file": "absent.csv", "k": 1}}, "graph.positions: .*absent.csv: No such file"),
        ({"complete": True, "nodes": "absent.txt"}, "graph.complete: .*absent.txt: No such file"),
        ({"complete": True, "nodes": ["a", "a"]}, "'a' is named twice"),
        ({"complete": True, "nodes": ["a\n"]}, "is no node id"),
        ({"edges": [["a", "a"]]}, "'a' is linked to itself"),
    ],
)
def test_a_graph_that_cannot_be_built_is_a_fault_of_the_configuration(
    graph: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        network_of(graph, tmp_path)


def test_dimension_and_components() -> None:
    names = {"complete": True, "nodes": ["x"]}
    stdin = {"pipe": {"type": "stdin"}}
    assert Config.of({"graph": names, "sources": stdin}).dim == 1
    assert Config.of({"graph": {**names, "dim": 3}, "sources": stdin}).dim == 3
    two = Config.of({"graph": {**names, "components": ["t", "h"]}, "sources": stdin})
    assert (two.dim, two.components) == (2, ["t", "h"])
    with pytest.raises(ConfigError, match="dim is 3, but components names 2"):
        Config.of({"graph": {**names, "dim": 3, "components": ["t", "h"]}, "sources": stdin})
    simulated = {"demo": {"type": "simulate", "dimension": 2}}
    assert Config.of({"graph": "simulate", "sources": simulated}).dim == 2
    graph = {"simulate": True, "components": ["a", "b", "c"]}
    with pytest.raises(ConfigError, match="3 names, but the simulate source has dimension 2"):
        Config.of({"graph": graph, "sources": simulated})


# ------------------------------------------------------------------------------------------ secrets

MODELS = [("sources", name, connector_model("source", name)) for name in connectors.SOURCES]
MODELS += [("sinks", name, connector_model("sink", name)) for name in connectors.SINKS]
SECRETS = [
    (side, name, field)
    for side, name, model in MODELS
    if issubclass(model, WithSecrets)
    for field in model.secret_names()
]


@pytest.mark.parametrize(("side", "name", "field"), SECRETS)
def test_a_secret_in_the_file_is_refused_and_not_shown(side: str, name: str, field: str) -> None:
    """Nor is one under a misspelt key, nor in a wrong type beside it."""
    connector = {
        "type": name,
        field: CANARY,
        field[:-1]: CANARY,
        "tls": {"key_password": CANARY, "keypass": CANARY},
    }
    data: dict[str, Any] = {"graph": {"complete": True, "nodes": ["x"]}, "sources": {"x": {"type": "stdin"}}}
    data.setdefault(side, {})["one"] = connector
    with pytest.raises(ConfigError) as caught:
        Config.of(data)
    assert f"{field}_file" in str(caught.value)
    shown = str(caught.value) + repr(caught.value.problems) + str([p.record() for p in caught.value.problems])
    assert CANARY not in shown


def test_a_secret_of_the_environment_is_in_no_picture_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DETECTOR_TEST_TOKEN", CANARY)
    config = Config.of(SMALL | {"http": {"token": "${DETECTOR_TEST_TOKEN}"}})
    assert config.http.secret("token") == CANARY
    assert CANARY not in repr(config) + str(config) + config.model_dump_json() + str(config.model_dump())
