"""Names of version 0.1: accepted for one release, each with a warning that gives the new one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from detector.api import NetworkDetector
from detector.cli.main import cli
from detector.config.config import Config, ConfigError
from detector.diagnosis.registry import ANALYZERS, find_action, load, settings_of
from detector.network.network import Network
from detector.runtime.metrics import Metrics
from detector.settings.core import Settings
from detector.settings.renamed import ANALYZERS as RENAMED
from detector.settings.renamed import METRICS

HEAD = "graph: {empty: true, nodes: [a, b]}\nsources: {in: {type: stdin}}\nsinks: {out: {type: stdout}}\n"
OLD = """aftermath:
  settle: 20
  course: {enabled: false}
  explanation: {nodes: 7}
  verdict: {}
"""


def test_old_keys_are_read_with_a_warning_each() -> None:
    config = Config.parse(HEAD + OLD)
    assert config.diagnosis.settle == 20
    assert settings_of(config.diagnosis, "trend").enabled is False
    assert settings_of(config.diagnosis, "value_ranges").nodes == 7
    assert [str(doubt) for doubt in config.doubts()] == [
        f"configuration:{line}: {key}: {old} is called {new} now; the old name is accepted until version 0.3"
        for line, key, old, new in (
            ("4:1", "diagnosis", "aftermath", "diagnosis"),
            ("6:3", "diagnosis.trend", "course", "trend"),
            ("7:3", "diagnosis.value_ranges", "explanation", "value_ranges"),
            ("8:3", "diagnosis.triage", "verdict", "triage"),
        )
    ]


def test_keys_of_severity_are_ignored_with_a_warning_each() -> None:
    """A count of nodes and a multiple of a threshold have become shares and sizes: no value carries over."""
    old = "incidents: {warning_nodes: 3, critical_nodes: 9, warning_excess: 2, critical_excess: 5, keep: 2}"
    config = Config.parse(HEAD + old)
    assert config.incidents == Config.parse(HEAD + "incidents: {keep: 2}").incidents
    assert [str(doubt) for doubt in config.doubts()] == [
        f"configuration:4:{column}: incidents.{level}_{by}: {level}_{by} is ignored: {level}_share and "
        f"{level}_size are used instead; it is refused from version 0.3 on"
        for level, by, column in (
            ("warning", "nodes", 13), ("warning", "excess", 50), ("critical", "nodes", 31),
            ("critical", "excess", 69),
        )
    ]  # fmt: skip
    with pytest.warns(FutureWarning, match="critical_nodes is ignored: critical_share and critical_size"):
        assert Settings.of(incidents={"critical_nodes": 3}) == Settings()


def test_the_exchange_is_read_where_it_was() -> None:
    """It belonged to regimes; now footprints have it, too. Its problems are told at its old place."""
    peers = "sources: {in: {type: stdin}, hear: {type: mqtt, host: h, topics: [t]}}"
    head = HEAD.replace("sources: {in: {type: stdin}}", peers)
    exchange = "{name: a, peers: [b], source: hear, sink: out}"
    text = head.replace("{type: stdout}", "{type: mqtt, host: h, topic: t}")
    old = f"diagnosis:\n  regime: {{alpha: 0.1, exchange: {exchange}}}\n"
    config = Config.parse(text + old)
    assert config.exchange == Config.parse(text + f"diagnosis: {{exchange: {exchange}}}\n").exchange
    assert settings_of(config.diagnosis, "regime").alpha == 0.1
    (doubt,) = config.doubts()
    assert str(doubt).startswith(
        "configuration:5:24: diagnosis.exchange: diagnosis.regime.exchange is called"
    )
    with pytest.raises(
        ConfigError, match=r"configuration:5:56: diagnosis\.exchange\.source: there is no source 'x'"
    ):
        Config.parse(text + old.replace("source: hear", "source: x"))
    with pytest.raises(ConfigError, match=r"diagnosis\.regime\.exchange: unknown key"):
        Config.parse(text + old + f"  exchange: {exchange}\n")


def test_new_keys_give_no_warning() -> None:
    text = HEAD + OLD.replace("aftermath", "diagnosis")
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    config = Config.parse(text)
    assert config.doubts() == []
    assert config.diagnosis == Config.parse(HEAD + OLD).diagnosis


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("aftermath: {settle: 0}", "4:21: diagnosis.settle: must be at least 1 (got 0)"),
        (
            "aftermath: {verdict: {enabeld: true}}",
            "4:23: diagnosis.triage.enabeld: unknown key; did you mean",
        ),
        ("aftermath: 7", "4:12: diagnosis: must be a mapping of keys (got 7)"),
        ("aftermath: {}\ndiagnosis: {}", "4:1: aftermath: unknown key"),
        ("diagnosis: {course: {}, trend: {}}", "4:13: diagnosis.course: unknown key"),
    ],
)
def test_errors_under_old_names_are_where_they_are(text: str, problem: str) -> None:
    """Line and column of the file, key by its new name; both names at once are one too many."""
    with pytest.raises(ConfigError) as refused:
        Config.parse(HEAD + text)
    assert f"configuration:{problem}" in str(refused.value)


def test_every_new_name_exists() -> None:
    assert set(RENAMED.values()) <= set(ANALYZERS)
    assert not set(RENAMED) & set(ANALYZERS)


def test_python() -> None:
    """`NetworkDetector(aftermath=...)` warns, and is what `diagnosis=` is."""
    network = Network.complete(["a", "b"])
    with pytest.warns(FutureWarning, match="aftermath is called diagnosis now") as told:
        detector = NetworkDetector(network, aftermath={"settle": 7})
    assert detector.settings == NetworkDetector(network, diagnosis={"settle": 7}).settings
    assert [Path(one.filename).name for one in told] == [Path(__file__).name]


def test_commands(tmp_path: Path) -> None:
    """Group and analyzers by their old names: one warning for each on standard error, the same commands."""
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + f"state: {{directory: {tmp_path / 'state'}}}\nhttp: {{enabled: false}}\n")

    def run(*arguments: str) -> tuple[str, str]:
        done = CliRunner().invoke(cli, [*arguments, "--help"])
        assert done.exit_code == 0, done.output
        return done.stdout, done.stderr

    now, nothing = run("diagnosis", "triage", "train")
    assert nothing == ""
    for old in (("aftermath", "triage"), ("diagnosis", "verdict"), ("verdict",)):
        told, warning = run(*old, "train")
        assert told.split("\n", 2)[2] == now.split("\n", 2)[2]
        assert warning.count("Warning:") == 1
        assert "now; the old name is accepted until version 0.3" in warning
    done = CliRunner().invoke(cli, ["incidents", "examine", "i1", "--config", str(config)])
    assert done.stderr.count("examine is called analyze now") == 1
    listed, _ = run()
    assert "diagnosis" in listed
    assert "aftermath" not in listed


def test_actions_by_old_names() -> None:
    """As HTTP paths name them."""
    for old, new in RENAMED.items():
        for name, action in load(new).ACTIONS.items():
            assert find_action(old, name) is action


def test_metrics_have_both_names() -> None:
    metrics = Metrics()
    metrics.add_analyzer("trend")
    metrics.count("diagnosis_failures_total", 3, kind="trend", reason="time")
    metrics.count("diagnosis_cases_total", 2, stage="early")
    metrics.observe("diagnosis_seconds", 0.5)
    value = metrics.registry.get_sample_value
    labels = {"kind": "trend", "reason": "time"}
    assert (
        value("detector_aftermath_failures_total", labels)
        == value("detector_diagnosis_failures_total", labels)
        == 3
    )
    assert value("detector_aftermath_cases_total", {"stage": "early"}) == 2
    assert value("detector_aftermath_seconds_count") == value("detector_diagnosis_seconds_count") == 1
    assert value("detector_aftermath_seconds_bucket", {"le": "1.0"}) == 1
    page = metrics.page().decode()
    for old, new in METRICS.items():
        assert f"detector_{old} is called detector_{new} now" in page


def test_check_says_so(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + OLD)
    done = CliRunner().invoke(cli, ["check", "--config", str(path), "--json"])
    assert done.exit_code == 0, done.output
    assert [one["key"] for one in json.loads(done.stdout)["warnings"]][:2] == ["diagnosis", "diagnosis.trend"]
