"""Real or false, and of which type: learnt from labels, alone or by one file per site."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from detector.cli.main import cli
from detector.diagnosis.actions import ActionError, parse
from detector.diagnosis.analyzers.triage import ACTIONS, Settings, analyzer
from detector.diagnosis.case_features import NAMES, features, shared_grid
from detector.diagnosis.repository import Repository
from detector.storage.store import Bundle, Store
from tests.detector.storage.test_cases import case, label

SETTINGS = Settings()


def made_case(incident: str, kind: str, seed: int):
    """shift: lasting, on both nodes; noise: a wider spread; glitch: a few values of one node, then quiet."""
    rng = np.random.default_rng([seed, len(kind)])
    before = {name: rng.normal(size=(100, 1)).astype(np.float32) for name in ("a", "b", "c")}
    after = {name: rng.normal(size=(64, 1)).astype(np.float32) for name in ("a", "b", "c")}
    strength = rng.uniform(2.0, 4.0)
    for name in ("a", "b"):
        after[name] = (
            after[name] * strength if kind == "noise" else after[name] + strength * (kind == "shift")
        )
    if kind == "glitch":
        after["a"][:4] += 10.0
    base = case(incident, "settled")
    return replace(
        base, members=("a",) if kind == "glitch" else ("a", "b"), suspected=(),
        statistic=np.array([5 if kind == "glitch" else 4 * strength, 4 * strength, 1], np.float32),
        reference=before, recent=after,
        times={name: base.begin + np.arange(64.0) for name in before},
    )  # fmt: skip


KINDS = {"shift": "true", "noise": "true", "glitch": "false"}


def filled(folder: Path, seeds: range, kinds=tuple(KINDS), **options) -> Store:
    store = Store(folder)
    cases, labels = [], []
    for seed in seeds:
        for kind in kinds:
            name = f"{kind}-{seed}"
            cases.append(made_case(name, kind, seed))
            labels.append(label(name, **({"alarm": KINDS[kind], "type": kind} | options)))
    store.commit(Bundle(cases=cases, records=labels))
    return store


def act(repository: Repository, action: str, **arguments):
    chosen = ACTIONS[action]
    return chosen.run(repository, parse(chosen, msgspec.json.encode(arguments)))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    store = filled(tmp_path_factory.mktemp("one"), range(6))
    for question in ("alarm", "type"):
        told = act(Repository(store), "train", question=question)
        assert told["samples"] == 18
        assert 0 < told["critical"] <= 18
    yield Repository(store)
    store.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What three sites export; the third has seen false alarms only."""
    made = {}
    for k, kinds in enumerate((tuple(KINDS), ("shift", "glitch"), ("glitch",))):
        store = filled(tmp_path_factory.mktemp(f"site{k}"), range(10 * k + 20, 10 * k + 24), kinds)
        made[k] = act(Repository(store), "export", site=f"site {k}")["file"]
        store.close()
    return made


def answers(repository, kinds=tuple(KINDS), seeds=range(100, 104)):
    """What is said about new cases."""
    judge = analyzer(SETTINGS, repository)
    return [(kind, judge.analyze(made_case("new", kind, seed))) for kind in kinds for seed in seeds]


def test_features_are_bounded_and_stable():
    """Ten numbers between -1 and 1, the same for the same case; unknown things are 0."""
    x = features(made_case("i", "shift", 0))
    bare = replace(made_case("i", "shift", 0), recent={}, reference={}, times={}, centre={}, scale={})

    assert x.shape == (len(NAMES),)
    assert np.abs(x).max() <= 1.0
    np.testing.assert_array_equal(x, features(made_case("i", "shift", 0)))
    np.testing.assert_array_equal(features(bare)[5:], 0.0)
    nothing = replace(bare, statistic=np.full(3, np.nan, np.float32), threshold=float("nan"))
    assert np.isfinite(features(nothing)).all()
    assert shared_grid().id == shared_grid().id


def test_train_and_judge(repository):
    """From 18 labels: new incidents are told apart, with words and numbers; both questions in one finding."""
    found = answers(repository)
    right = [
        finding is not None and finding.data["alarm"]["answer"] == KINDS[kind] for kind, finding in found
    ]
    typed = [finding is not None and finding.data["type"]["answer"] == kind for kind, finding in found]

    assert np.mean(right) > 0.85
    assert np.mean(typed) > 0.85
    finding = found[0][1]
    assert "a real event" in finding.summary
    assert "type 'shift'" in finding.summary
    assert "by 18 labelled incidents" in finding.summary
    assert msgspec.json.decode(msgspec.json.encode(finding.data)) == finding.data


def test_merge(repository, files):
    """Three sites, one with a single class: one file each, fewer samples than they have."""
    messages = [files[k] for k in range(3)]
    told = act(repository, "merge", question="alarm", message=[_b64(m) for m in messages])
    found = answers(repository)
    right = [
        finding is not None and finding.data["alarm"]["answer"] == KINDS[kind] for kind, finding in found
    ]

    assert told["samples"] == 12 + 8 + 4
    assert told["critical"] < told["samples"]
    assert told["sites"] == ["site 0", "site 1", "site 2"]
    assert np.mean(right) > 0.85
    assert found[0][1].data["alarm"]["sites"] == told["sites"]
    shown = act(repository, "show")
    assert {"question": "alarm", "answer": "false", "incidents": 6} in shown["labels"]
    assert shown["models"][0]["usable"] is True
    assert shown["models"][0]["source"] == "sites"


def _b64(body: bytes) -> str:
    return msgspec.to_builtins(body)


def test_export_says_what_is_sent(files):
    """JSON that a person can read, with neither names of nodes nor values of sensors."""
    text = files[0].decode()
    message = json.loads(text)

    assert message["question"] == "alarm"
    assert message["site"] == "site 0"
    assert message.keys() == {"format", "version", "site", "features", "grid", "samples", "critical",
                              "multipliers", "question"}  # fmt: skip
    assert all(set(row) == {"x", "label"} for row in message["critical"])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda body: b"", "message 1 is no JSON, or cut off"),
        (lambda body: body[: len(body) // 2], "message 1 is no JSON, or cut off"),
        (lambda body: b"[1, 2]", "message 1: format: this is no message"),
        (
            lambda body: body.replace(b"case features 1", b"case features 0"),
            "message 1 of site 0: features 'case features 0', here",
        ),
        (
            lambda body: body.replace(shared_grid().id.encode(), b"0123456789abcdef"),
            "message 1 of site 0: grid 0123456789abcdef",
        ),
        (
            lambda body: body.replace(b'"question": "alarm"', b'"question": "type"'),
            "is about 'type', not about",
        ),
        (lambda body: body.replace(b'"version": 1', b'"version": 7'), "version: 7, this program reads 1"),
    ],
)
def test_foreign_and_damaged_files(repository, files, spoil, words):
    """Refused in words, and nothing is lost: the model that was there stays."""
    before = [(m["question"], m["version"]) for m in act(repository, "show")["models"]]
    with pytest.raises(ActionError, match=words):
        act(repository, "merge", message=[_b64(spoil(files[0])), _b64(files[1])])

    assert [(m["question"], m["version"]) for m in act(repository, "show")["models"]] == before
    assert analyzer(SETTINGS, repository) is not None


def test_too_little_to_learn_from(tmp_path, files):
    """No label, one answer only, nothing to forget: errors that say so."""
    store = Store(tmp_path)
    repository = Repository(store)
    assert analyzer(SETTINGS, repository) is None
    with pytest.raises(ActionError, match="labelled incidents: none; a second answer is needed"):
        act(repository, "train")
    with pytest.raises(ActionError, match="no settled case file has a label for type: nothing to send"):
        act(repository, "export", question="type", site="x")
    with pytest.raises(ActionError, match=r"samples of all sites: . 'false'; a second answer is needed"):
        act(repository, "merge", message=[_b64(files[2])])
    with pytest.raises(ActionError, match="there is no model for alarm"):
        act(repository, "forget")
    with pytest.raises(ActionError, match="site"):
        act(repository, "export", site="")
    store.close()


def test_models_of_other_features_are_left_alone(repository):
    """A model of older features is not used, and shown as such; another question still is."""
    model = repository.model("triage", "type")
    repository.save_model("triage", "alarm", {**model.meta, "features": "case features 0"}, model.arrays)

    assert set(analyzer(SETTINGS, repository).models) == {"type"}
    shown = {m["question"]: m["usable"] for m in act(repository, "show")["models"]}
    assert shown == {"alarm": False, "type": True}
    assert act(repository, "forget")["forgotten"] is True


def test_a_restart_judges_alike(tmp_path):
    """The model lies in the database: after a restart the same finding."""
    store = filled(tmp_path, range(3))
    act(Repository(store), "train")
    new = made_case("new", "shift", 50)
    before = analyzer(SETTINGS, Repository(store)).analyze(new)
    store.close()
    store = Store(tmp_path)

    assert analyzer(SETTINGS, Repository(store)).analyze(new) == before
    store.close()


def test_command_line(tmp_path, files, monkeypatch):
    """`federate` without a daemon: show, export to a file, merge files, refuse a broken one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(
        "graph: {edges: [[a, b], [b, c]]}\nsources: {log: {type: file, path: x.jsonl}}\n"
        "state: {directory: state}\nhttp: {enabled: false}\n"
    )
    filled(tmp_path / "state", range(2)).close()
    for k in range(3):
        (tmp_path / f"site{k}.json").write_bytes(files[k])
    (tmp_path / "broken.json").write_bytes(files[0][:200])

    def run(*arguments, code=0):
        result = CliRunner().invoke(cli, ["federate", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    assert "alarm" in run("show")
    assert "own" not in run("show")
    said = json.loads(run("export", "--site", "here", "--output", "mine.json", "--json"))
    assert said["samples"] == 6
    assert json.loads((tmp_path / "mine.json").read_text())["site"] == "here"
    merged = run("merge", "--message", "mine.json", "--message", "site0.json", "--message", "site2.json")
    assert "site 0" in merged
    (tmp_path / "foreign.json").write_bytes(files[0].replace(b"case features 1", b"case features 0"))
    for name, words in (
        ("broken.json", "broken.json is no JSON, or cut off"),
        ("foreign.json", "foreign.json of site 0: features 'case features 0', here 'case features 1'"),
    ):
        said = run("merge", "--message", "mine.json", "--message", name, code=1)
        assert said.startswith(f"detector: {words}")
    assert "sites" in run("show")
