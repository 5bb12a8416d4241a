"""`detector try`: from a file that nobody configured to incidents, a report and a configuration that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import detector
from connectors.base import Expected, Unreadable
from detector.cli.main import cli
from detector.config.config import Config
from detector.replay.recordings import Grid, Recording
from detector.trial.survey import step_of, survey
from detector.trial.trial import Trial

START = 1_772_323_200
STEP = 30
NAMES = ["pump 1", "yes", "tank: 'a'", "n#4"]  # names that a careless configuration would mangle
CHANGE = (600, 680)
ROWS = 720


def signals(rows: int = ROWS, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1))
    X = 20.0 + 0.6 * common + rng.normal(size=(rows, len(NAMES)))
    X[CHANGE[0] : CHANGE[1], :2] += 5.0
    return np.round(X, 4)


def frame(rows: int = ROWS) -> pd.DataFrame:
    times = pd.to_datetime(START + STEP * np.arange(rows), unit="s", utc=True)
    return pd.DataFrame(signals(rows), columns=NAMES, index=pd.DatetimeIndex(times, name="when"))


def long_form(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.reset_index().melt(id_vars="when", var_name="sensor", value_name="value")


def run_daemon(config: Path) -> list[dict[str, Any]]:
    """What `detector run` says: on the way out of a pipe, JSON lines."""
    text = config.read_text()
    config.write_text(text.replace("port: 9178", "port: 0"))
    done = subprocess.run(
        [sys.executable, "-m", "detector", "run", "--once", "--config", config],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def opened(records: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(one["incident"], one["opened"]) for one in records if one["event"] == "incident.opened"]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """A wide CSV with a column that is no number and one that never moves, tried."""
    folder = tmp_path_factory.mktemp("wide")
    table = frame().assign(remark="fine", spare=7.0)
    table.to_csv(folder / "plant.csv")
    return detector.try_recording(folder / "plant.csv", folder=folder / "out")


def test_the_change_is_found_with_its_nodes_and_nothing_else(trial: Trial) -> None:
    begin, end = START + STEP * CHANGE[0], START + STEP * CHANGE[1]
    first = next(one for one in trial.incidents if begin <= one.opened <= begin + STEP * 15)
    assert {"pump 1", "yes"} <= set(first.nodes)
    false = [one for one in trial.incidents if not begin <= one.opened <= end + STEP * 40]
    assert len(false) <= 1  # the budget of so short a recording is one


def test_what_was_assumed_is_told(trial: Trial) -> None:
    said = dict(trial.assumed)
    assert said["nodes"].startswith("4: pump 1, yes")
    assert said["left out"] == "spare: is always 7"
    assert said["not used"] == "columns remark"
    assert "30 s apart" in said["time"]
    assert "360 times" in said["quiet part"]
    page = trial.report.read_text()
    assert "What was assumed" in page
    assert "spare: is always 7" in page


def test_the_configuration_runs_and_finds_the_same(trial: Trial) -> None:
    records = run_daemon(trial.config)
    assert opened(records) == [(one.id, one.opened) for one in trial.incidents]
    last = {
        one["incident"]: one["nodes"]
        for one in records
        if one["event"].startswith("incident.") and one["nodes"]
    }
    for one in trial.incidents:
        assert tuple(node["name"] for node in last[one.id] if node["changed"]) == one.nodes
        assert tuple(node["name"] for node in last[one.id] if not node["changed"]) == one.possibly


def test_the_configuration_passes_check(trial: Trial) -> None:
    result = CliRunner().invoke(cli, ["check", "--config", str(trial.config)])
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(trial.config.read_text())["graph"]["nodes"] == NAMES


@pytest.mark.parametrize("form", ["long.csv", "wide.parquet", "long.parquet", "long.jsonl", "wide.jsonl"])
def test_every_form_is_looked_at_alike(tmp_path: Path, form: str) -> None:
    wide, file = frame(), tmp_path / form
    table = long_form(wide) if form.startswith("long") else wide.reset_index()
    table = table.sort_values("when", kind="stable")
    if form.endswith("csv"):
        table.to_csv(file, index=False)
    elif form.endswith("parquet"):
        table.to_parquet(file)
    else:
        table.assign(when=table.when.astype(str)).to_json(file, orient="records", lines=True)
    found = survey(Recording(file))
    assert (found.names, found.dim, found.step, found.rows) == (tuple(NAMES), 1, STEP, ROWS)
    assert found.times == (START, START + STEP * (ROWS - 1))
    assert (found.quiet_rows, found.disorder, found.refused) == (360, 0, 0)


def test_a_parquet_file_with_an_index_of_times(tmp_path: Path) -> None:
    frame().rename_axis(None).to_parquet(tmp_path / "indexed.parquet")
    assert survey(Recording(tmp_path / "indexed.parquet")).names == tuple(NAMES)


def test_a_frame_sorted_by_node_is_sorted_by_time(tmp_path: Path) -> None:
    """Read as it is, all samples but those of the first node would be late."""
    trial = detector.try_recording(long_form(frame()), folder=tmp_path / "out")
    assert trial.survey.disorder > ROWS
    assert dict(trial.assumed)["order"].endswith("they were sorted by time")
    assert any({"pump 1", "yes"} <= set(one.nodes) for one in trial.incidents)
    assert opened(run_daemon(trial.config)) == [(one.id, one.opened) for one in trial.incidents]


def test_components_are_found_and_named_in_the_configuration(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = [f"{node}.{part}" for node in ("a", "b", "c") for part in ("flow", "pressure")]
    table = pd.DataFrame(rng.normal(size=(400, 6)), columns=columns)
    table.insert(0, "time", START + np.arange(400))
    table.to_csv(tmp_path / "two.csv", index=False)
    trial = detector.try_recording(tmp_path / "two.csv", folder=tmp_path / "out")
    config = Config.load(trial.config)
    assert (config.dim, config.components, config.names()) == (2, ["flow", "pressure"], ["a", "b", "c"])


def test_a_change_at_the_begin_is_not_learnt(tmp_path: Path) -> None:
    X = signals()
    X[CHANGE[0] : CHANGE[1], :2] -= 5.0
    X[40:140, 2] += 6.0
    pd.DataFrame(X, columns=NAMES).assign(t=START + STEP * np.arange(ROWS)).to_csv(
        tmp_path / "early.csv", index=False
    )
    trial = detector.try_recording(tmp_path / "early.csv", folder=tmp_path / "out")
    assert trial.survey.quiet[0] >= START + STEP * 130
    early = [one for one in trial.incidents if START + STEP * 40 <= one.opened <= START + STEP * 160]
    assert any("tank: 'a'" in one.nodes for one in early)
    assert opened(run_daemon(trial.config)) == [(one.id, one.opened) for one in trial.incidents]


def test_links_are_taken_from_a_file_that_has_further_nodes(tmp_path: Path) -> None:
    table = frame(400)
    table.columns = pd.Index(["a", "b", "c", "d"])
    table.to_csv(tmp_path / "x.csv")
    (tmp_path / "links.csv").write_text("u,v\na,b\nb,c\nc,zz\n")
    trial = detector.try_recording(tmp_path / "x.csv", graph=tmp_path / "links.csv", folder=tmp_path / "o")
    network = Config.load(trial.config).network()
    assert network is not None
    assert [edge[:2] for edge in network.edges()] == [("a", "b"), ("b", "c")]
    assert network.names == ("a", "b", "c", "d")
    (tmp_path / "links.csv").write_text("u,v\nq,zz\n")
    with pytest.raises(ValueError, match="it links none of the nodes of the recording"):
        detector.try_recording(tmp_path / "x.csv", graph=tmp_path / "links.csv", folder=tmp_path / "p")
    assert not (tmp_path / "p").exists()


def written(path: Path, X: Any, step: float = 1.0) -> Recording:
    rows = [f"{START + step * t}," + ",".join(map(str, x)) for t, x in enumerate(X)]
    path.write_text("time," + ",".join("abcdefgh"[: len(X[0])]) + "\n" + "\n".join(rows) + "\n")
    return Recording(path)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.random.default_rng(0).normal(size=(120, 2)), "120 times, 1 s apart; at least 300 are needed"),
        (np.full((400, 2), 3.0), "no node has a signal; a: is always 3"),
        (np.where(np.arange(800)[:, None] % [40, 1], np.nan, [5, 3]), "a: has samples at 20 of 800 times"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_from_is_refused_with_a_reason(tmp_path: Path, values: Any, words: str) -> None:
    rows = [["" if x != x else float(x) for x in row] for row in values]
    with pytest.raises(ValueError, match=words):
        survey(written(tmp_path / "x.csv", rows))


def test_text_is_refused_with_the_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,a,b\n" + "".join(f"{t},on,off\n" for t in range(400)))
    with pytest.raises(Unreadable, match="no column holds numbers"):
        Recording(tmp_path / "x.csv")


def test_other_things_than_recordings_are_refused() -> None:
    with pytest.raises(TypeError, match="expected the path of a file or a DataFrame, got ndarray"):
        detector.try_recording(np.zeros((400, 3)))


def test_a_given_quiet_part_is_taken(tmp_path: Path) -> None:
    made = written(tmp_path / "x.csv", np.random.default_rng(0).normal(size=(900, 2)))
    found = survey(made, (START + 500, START + 800))
    assert (found.quiet, found.quiet_rows) == ((START + 500, START + 800), 300)
    with pytest.raises(ValueError, match="only 50 times"):
        survey(made, (START + 500, START + 550))


def test_the_step_is_typical_whatever_gaps_and_phases() -> None:
    rng = np.random.default_rng(0)
    times = np.concatenate([np.sort(rng.permutation(1000)[:800]) * 10.0 + phase for phase in (0.0, 3.3, 7.0)])
    assert step_of(times, np.repeat([0, 1, 2], 800)) == 10.0
    assert step_of(np.array([5.0, 5.0]), np.array([0, 0])) is None


def test_the_command_tells_what_it_assumed_and_refuses_to_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame().to_csv("plant.csv")
    result = CliRunner().invoke(cli, ["try", "plant.csv", "--no-open"])
    assert result.exit_code == 0, result.output
    assert "quiet part" in result.stderr
    assert "detector run --config plant-detector/config.yaml" in result.stderr
    lines = result.stdout.splitlines()
    assert any("OPENED" in line for line in lines)
    assert Path("plant-detector/report.html").exists()
    again = CliRunner().invoke(cli, ["try", "plant.csv", "--no-open"])
    assert again.exit_code == 74
    assert "plant-detector holds a configuration already" in again.stderr
    forced = CliRunner().invoke(
        cli, ["try", "plant.csv", "--no-open", "--force", "--json", "--budget", "1 per 2d"]
    )
    assert forced.exit_code == 0, forced.output
    record = json.loads(forced.stdout)
    assert record["config"] == "plant-detector/config.yaml"
    assert str(Config.load("plant-detector/config.yaml").alarm.budget) == "1 per 2d"
    wrong = CliRunner().invoke(cli, ["try", "plant.csv", "-o", "other", "--budget", "few"])
    assert wrong.exit_code == 2
    assert not Path("other").exists()


def test_the_written_configuration_reads_all_samples(trial: Trial) -> None:
    """Names and components are found alike with and without a configuration."""
    config = Config.load(trial.config)
    source: Any = config.sources["recording"]
    grid = Grid(config.names(), config.dim)
    for part in Recording(source.path, Expected(config.names(), config.dim, config.components)):
        grid.add(part.batch.samples)
    assert len(grid.times) == ROWS * len(NAMES)
