"""Reports: one file that needs nothing else, true to what happened; hostile names stay text."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from connectors.base import Sample
from detector.cli.main import cli
from detector.diagnosis.inline import Inline
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.replay.ground_truth import Label, read_labels
from detector.replay.scoring import compare, matches
from detector.replay.timeline import ReplayedIncident, ReplayTimeline
from detector.report.figures import Timeline
from detector.report.html import Bar, Charts, Table, render_page
from detector.report.null_histogram import null_histogram
from detector.report.pages import calibration_page, replay_page
from detector.report.replay import findings, incident_table, true_ones
from detector.settings.alarm import AlarmSettings
from detector.settings.budget import Budget
from detector.settings.core import Settings
from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.estimator import EstimatorSettings
from detector.settings.windows import WindowSettings
from tests.browser import chromium, console, until

HOSTILE = "<img src=x onerror=window.hacked=1>"
NAMES = [HOSTILE, "</script><script>window.hacked=1</script>", *(f"n{i}" for i in range(2, 8))]
START = 1_700_000_000.0
LEARN, TOTAL = 300, 700
CHANGE = (420, 460)
SETTINGS = Settings(
    windows=WindowSettings(reference=40, tests=(5, 10)),
    estimator=EstimatorSettings(sigma=1.0, coupling=0.5, ridge=0.1, rank=6, atoms=16),
    alarm=AlarmSettings(learn=LEARN, budget=Budget(1, 500, "ticks")),
)


def samples() -> list[Sample]:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(TOTAL, 8))
    values[CHANGE[0] : CHANGE[1], :2] += 4.0
    return [
        Sample(START + t, name, (float(values[t, v]),)) for t in range(TOTAL) for v, name in enumerate(NAMES)
    ]


def network() -> Network:
    return Network.from_edges([(NAMES[i], NAMES[(i + 1) % 8]) for i in range(8)])


@pytest.fixture(scope="module")
def track(tmp_path_factory: pytest.TempPathFactory) -> ReplayTimeline:
    pipeline = Pipeline(network(), 1, SETTINGS)
    examine, pipeline.cases = Inline(DiagnosisSettings(), tmp_path_factory.mktemp("none")), []
    made = ReplayTimeline(pipeline)
    made.push(samples())
    made.flush()
    made.add_findings(examine(pipeline))
    return made


@pytest.fixture(scope="module")
def labels() -> list[Label]:
    return [Label(START + CHANGE[0], START + CHANGE[1], frozenset(NAMES[:2]), "mean <b>")]


@pytest.fixture(scope="module")
def replayed(track: ReplayTimeline, labels: list[Label]) -> str:
    return replay_page(track, labels, "data <i>.csv")


@pytest.fixture(scope="module")
def replay_file(replayed: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "replay.html"
    path.write_text(replayed)
    return path


@pytest.fixture(scope="module")
def calibrated() -> str:
    X = np.random.default_rng(5).normal(size=(500, 8, 1))
    times = START + np.arange(500.0)
    pipeline = Pipeline(network(), 1, SETTINGS)
    pipeline.learn(X, times)
    quiet = null_histogram(pipeline, X, times)
    assert quiet is not None
    assert quiet.event.sum() == pytest.approx(8 * quiet.ticks)
    return calibration_page(pipeline, quiet, "quiet.csv")


@pytest.fixture(scope="module")
def calibration_file(calibrated: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "calibration.html"
    path.write_text(calibrated)
    return path


def test_track_changes_nothing(track: ReplayTimeline) -> None:
    """Tick by tick or all at once: the pipeline says the same."""
    other = Pipeline(network(), 1, SETTINGS)
    events = other.push(samples()) + other.flush()
    opened = [event.incident for event in events if event.event == "incident.opened"]
    assert opened == list(track.incidents)
    assert opened


def test_track_keeps_extremes_in_few_bins(monkeypatch: pytest.MonkeyPatch, track: ReplayTimeline) -> None:
    monkeypatch.setattr("detector.replay.timeline.BINS", 100)
    thin = ReplayTimeline(Pipeline(network(), 1, SETTINGS))
    thin.push(samples())
    assert thin.limit == 100
    assert thin.rows <= 100
    assert thin.per_bin == 8
    assert np.nanmax(thin.statistic) == pytest.approx(np.nanmax(track.statistic))
    assert np.nanmin(thin.low) == pytest.approx(np.nanmin(track.low))
    assert thin.strongest(2) == track.strongest(2)


def test_replay_report_tells_what_happened(replay_file: Path, track: ReplayTimeline) -> None:
    text = replay_file.read_text()
    for incident in track.incidents.values():
        assert incident.id in text
    for words in (
        "Against the labels",
        "random times",
        "even spacing",
        "Strongest nodes",
        "Promise and check",
    ):
        assert words in text
    assert "100%" in text  # of the labels
    assert NAMES[1] not in text
    assert HOSTILE not in text
    assert "mean <b>" not in text


def test_findings_stand_with_their_incident(track: ReplayTimeline, replayed: str) -> None:
    """Each kind once per sentence, with the stages; names in it are only text."""
    told = [incident for incident in track.incidents.values() if incident.findings]
    folds = re.findall(r"<details open><summary>(.*?)</details>", replayed, re.DOTALL)
    assert len(folds) == len(told) > 0
    for incident, fold in zip(told, folds, strict=True):
        assert fold.startswith(incident.id)
        assert "<b>footprint</b>: " in fold
        assert fold.count("<li>") == len({(e.details["kind"], e.summary) for e in incident.findings})
        assert "settled)</span>" in fold
        assert HOSTILE not in fold
    assert findings([_incident(10)]) == []


def test_findings_of_many_incidents_are_folded(track: ReplayTimeline) -> None:
    told = next(incident for incident in track.incidents.values() if incident.findings)
    many = dataclasses.replace(track, incidents={str(k): told for k in range(21)})
    page = replay_page(many)
    assert page.count(f"<details><summary>{told.id}") == 21
    assert "<details open>" not in page


def test_a_finding_of_an_incident_nobody_opened(track: ReplayTimeline) -> None:
    """A track that was begun late has not heard of it."""
    known = sum(len(incident.findings) for incident in track.incidents.values())
    event = next(e for incident in track.incidents.values() for e in incident.findings)
    track.add_findings([msgspec.structs.replace(event, incident="other")])
    assert sum(len(incident.findings) for incident in track.incidents.values()) == known


def test_reports_load_nothing(replay_file: Path, calibration_file: Path) -> None:
    for path in (replay_file, calibration_file):
        text = path.read_text()
        assert not re.search(r"<(link|img|iframe)\b|<script[^>]*\ssrc=|@import|url\(", text)
        assert "default-src &#39;none&#39;" in text
        assert "unsafe" not in text.split("</head>")[0]


def test_both_reports_in_a_browser(replay_file: Path, calibration_file: Path, tmp_path: Path) -> None:
    with chromium(tmp_path, (1100, 1400)) as browser:
        for path, charts in ((replay_file, 13), (calibration_file, 2)):
            browser.get(path.as_uri())
            until(browser, f"document.querySelectorAll('.chart canvas').length === {charts}")
            assert browser.execute_script("return window.hacked") is None
            assert browser.execute_script("return document.querySelectorAll('main img').length") == 0
            saved = "HTMLAnchorElement.prototype.click = function () { window.saved = this.href; }; "
            for figure in ("figure:has(svg)", "figure:has(canvas)"):
                browser.execute_script(
                    f"window.saved = ''; {saved} document.querySelector('{figure} .png').click()"
                )
                until(browser, "window.saved.startsWith('data:image/png;base64,iVBOR')")
            assert console(browser) == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 1100


def test_incidents_that_overlap_stand_in_rows() -> None:
    incidents = [_incident(10), _incident(12), _incident(300)]
    bars = Timeline(incidents, [], (0.0, 1000.0), None, 10.0, set()).bars()
    assert [(one.begin, one.row) for one in bars] == [(10, 0), (12, 1), (300, 0)]
    assert all(one.end - one.begin == 5.0 for one in bars)


def test_labels_of_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("series,kind,start,end,size\na,mean,10,20,1\nb,spread,30,,2\n\n")
    assert read_labels(path) == [Label(10.0, 20.0, frozenset(), "mean"), *read_labels(path, "b")]
    assert read_labels(path, "a") == [Label(10.0, 20.0, frozenset(), "mean")]
    path.write_text("start,end,nodes\n2026-11-16T08:00:00Z,2026-11-16T09:00:00Z,n1 n2;n3\n")
    (label,) = read_labels(path)
    assert label.end - label.start == 3600.0
    assert label.nodes == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,end\n1,2\n", "need a column called start"),
        ("start,end\n5,2\n", "line 2: end 2 is before start 5"),
        ("start,end\nyesterday,\n", "line 2: start 'yesterday' is no time"),
        ("start,end\n,5\n", "line 2: start is missing"),
    ],
)
def test_wrong_labels_are_told_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        read_labels(path)


def _incident(opened: float, *nodes: str) -> ReplayedIncident:
    return ReplayedIncident(f"i{opened:g}", opened, None, opened + 5, "info", nodes, "")


def test_scores_against_arithmetic() -> None:
    labels = [Label(100, 200, frozenset("ab")), Label(500), Label(900, 910)]
    incidents = [_incident(90), _incident(110, "a", "c"), _incident(150), _incident(505), _incident(700)]
    detector, random, even = compare(incidents, labels, 0, 1000, grace=10)
    assert (detector.alarms, detector.false, detector.precision) == (5, 3, 0.4)
    assert detector.recall == pytest.approx(2 / 3)
    assert detector.delay == 7.5
    # One random alarm of five falls into 100 of 1000 with probability 1 - 0.9^5, into 10 with 1 - 0.99^5.
    expected = ((1 - 0.9**5) + 2 * (1 - 0.99**5)) / 3
    assert random.recall == pytest.approx(expected, abs=0.04)
    assert even.recall == pytest.approx((0.5 + 2 * 0.05) / 3, abs=0.04)
    first = matches(incidents, labels, 10)[0]
    assert (first.delay, first.nodes_found, first.nodes_right) == (10, 0.5, 0.5)
    assert matches(incidents, labels, 10)[2].incident is None


def test_an_alarm_finds_only_what_it_fits() -> None:
    """One that names none of the label's nodes, or goes the other way, is no hit, however timely."""
    label = [Label(100, 200, frozenset("ab"), direction="up")]
    elsewhere, down = _incident(110, "c"), dataclasses.replace(_incident(120, "a"), direction="down")
    for wrong in (elsewhere, down):
        assert matches([wrong], label, 10)[0].incident is None
        assert compare([wrong], label, 0, 300, 10)[0].recall == 0.0
        assert true_ones([wrong], label, 10) == set()
    guess = dataclasses.replace(_incident(130), possibly=("b", "c"))
    (found,) = matches([elsewhere, down, guess], label, 10)
    assert (found.incident, found.delay) == (guess, 30)
    assert true_ones([elsewhere, down, guess], label, 10) == {guess.id}
    assert compare([elsewhere, down, guess], label, 0, 300, 10)[0].false == 2


def test_only_nodes_that_changed_count_as_named() -> None:
    """Those that possibly did are shown, and spoil no score."""
    incident = dataclasses.replace(_incident(110, "a", "b"), possibly=("c", "d", "e"))
    (found,) = matches([incident], [Label(100, 200, frozenset("ab"))], 10)
    assert (found.nodes_right, found.nodes_found) == (1.0, 1.0)
    table = incident_table([incident], set(), False)
    assert table is not None
    assert table.rows[0][table.head.index("nodes")] == "2 changed, 3 possibly"


def test_no_alarms_no_dummies() -> None:
    (only,) = compare([], [Label(1, 2)], 0, 10, 1)
    assert only.recall == 0.0
    assert np.isnan(only.delay)


def test_text_is_escaped_everywhere() -> None:
    """Titles, facts, cells, captions, settings and the data of charts."""
    charts = Charts()
    chart = charts.add("<c>", x=[0], series=[{"label": "</script>"}])
    learnt = {
        "promised": [("<d>", "<e>")], "checked": "<f>", "charts": [chart], "tail": "<g>", "trials": None,
        "delays": Table(["<h>"], [["<i>"], [Bar(1.0, "<j>")]], "<k>"),
    }  # fmt: skip
    text = render_page(
        "calibration.html", "<t>", charts, summary=[("<l>", "<m>")], warnings=["<n>"], learnt=learnt,
        network="<o>", settings="<q>", version="<r>",
    )  # fmt: skip
    assert "&lt;t&gt;" in text
    for letter in "cdefghijklmnoqrt":
        assert f"&lt;{letter}&gt;" in text, letter
        assert f"<{letter}>" not in text, letter
    data = re.search(r'id="data">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])["chart0"]["series"][0]["label"] == "</script>"


def test_columns_of_numbers_stand_to_the_right() -> None:
    assert Table(["a", "b", "c", "d"], [["1.5", "x", "–", "3 %"], ["–", "2", "–", "-4e-5"]]).numeric == [
        True, False, False, True,
    ]  # fmt: skip
    assert Table(["a"], []).numeric == [False]


def _config(folder: Path) -> Path:
    from tests.detector import rig

    edges = [[f"n{i}", f"n{(i + 1) % 8}"] for i in range(8)]
    return rig.write_config(
        folder, graph={"edges": edges}, alarm={"learn": LEARN, "budget": "1 per 500 ticks"}
    )


def _recording(folder: Path) -> Path:
    rows = ["time," + ",".join(f"n{i}" for i in range(8))]
    by_time: dict[float, list[str]] = {}
    for sample in samples():
        by_time.setdefault(sample.time, []).append(f"{sample.values[0]:.4f}")
    rows += [f"{time:.0f},{','.join(values)}" for time, values in by_time.items()]
    path = folder / "data.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def test_commands_write_reports(tmp_path: Path) -> None:
    config, data = _config(tmp_path), _recording(tmp_path)
    marks = tmp_path / "labels.csv"
    marks.write_text(f"start,end,nodes\n{START + CHANGE[0]:.0f},{START + CHANGE[1]:.0f},n0 n1\n")
    out = tmp_path / "replay.html"
    done = run("replay", data, "--config", config, "--report", out, "--labels", marks)
    assert done.exit_code == 0, done.output
    assert "Against the labels" in out.read_text()
    assert "<h3>Findings</h3>" in out.read_text()
    assert '"event":"incident.analyzed"' in done.output
    times = [json.loads(line)["time"] for line in done.stdout.splitlines()]
    assert times == sorted(times), "findings stand among the events of their time"
    out = tmp_path / "calibration.html"
    done = run("calibrate", data, "--config", config, "--until", START + 400, "--dry-run", "--report", out)
    assert done.exit_code == 0, done.output
    assert "Distribution of the statistics without a change" in out.read_text()


def test_labels_without_report_are_refused(tmp_path: Path) -> None:
    config, data = _config(tmp_path), _recording(tmp_path)
    done = run("replay", data, "--config", config, "--labels", data)
    assert done.exit_code == 2
    assert "--labels needs --report" in done.output


def test_report_while_still_learning() -> None:
    short = ReplayTimeline(Pipeline(network(), 1, SETTINGS))
    short.push(samples()[:80])
    short.flush()
    assert "never: still learning" in replay_page(short, [Label(START)])
    empty = ReplayTimeline(Pipeline(network(), 1, SETTINGS))
    empty.flush()
    assert "None." in replay_page(empty)
    with pytest.raises(ValueError, match="nothing has been learnt"):
        calibration_page(empty.pipeline)
