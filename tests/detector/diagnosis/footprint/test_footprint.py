"""Footprints of incidents: by thresholds first, then as labelled incidents teach."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from detector.cli.main import cli
from detector.diagnosis.actions import ActionError, Arguments
from detector.diagnosis.footprint import analyzer as footprint
from detector.diagnosis.footprint.features import NAMES, by_thresholds, features, focus, truth
from detector.diagnosis.footprint.novelty import KnownPatterns
from detector.diagnosis.registry import diagnosis_model
from detector.diagnosis.repository import Repository
from detector.diagnosis.service import DiagnosisService
from detector.events.model import Labels
from detector.runtime.committer import Committer
from detector.runtime.metrics import Metrics
from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.service import StateSettings
from detector.storage import cases as tables
from detector.storage.store import Bundle, Store
from tests.detector import rig
from tests.detector.learnt import NOW, pipeline, quiet, samples
from tests.detector.storage.test_cases import case, label

RING = ([1, 2], [4, 5], [0, 1, 2], [3], [5, 0], [2, 3], [3, 4, 5], [0, 1])  # two nodes more stand apart


@cache
def incident(number: int, kind: str = "level"):
    """Both case files of a real incident: ``kind`` is what happened to the nodes."""
    nodes = RING[number % len(RING)]
    made, first = pipeline(), NOW + 200 * number + (7 if kind == "noise" else 0)  # other noise each time
    made.cases = []
    X = quiet(first, first + 110)
    if kind == "level":
        X[20:, nodes] += 3.0
    elif kind == "noise":
        X[20:, nodes] *= 4.0
    else:
        X[20:26, nodes[0]] += 14.0  # a glitch
    made.push(samples(X, NOW))
    found = {one.stage: replace(one, incident=f"{kind}-{number}") for one in made.cases}
    return found, Labels(time=1e9, alarm="false") if kind == "glitch" else Labels(
        time=1e9, alarm="true", type=kind, nodes=[f"n{v}" for v in nodes])  # fmt: skip


TAUGHT = [(k, kind) for k in range(5) for kind in ("level", "noise")] + [(k, "glitch") for k in (0, 3, 5, 6)]


def fill(store: Store, taught) -> None:
    """Case files and labels, as the daemon stores them."""
    for number, kind in taught:
        cases, said = incident(number, kind)
        given = {name: value for name, value in msgspec.structs.asdict(said).items() if name != "time"}
        name = f"{kind}-{number}"
        seen = [one.key for one in cases.values()]
        store.commit(Bundle(cases=list(cases.values()), records=[label(name, **given)], analyzed=seen))


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.close()


def repository_of(store: Store, **settings) -> Repository:
    return Repository(store, settings=diagnosis_model(["footprint"])(footprint=settings))


def built(repository):
    return footprint.analyzer(repository.settings_of("footprint"), repository)


def train(repository: Repository):
    return footprint.ACTIONS["train"].run(repository, Arguments())


def test_thresholds_serve_until_five_are_labelled(store):
    """Members over their threshold, and why nothing better is known."""
    fill(store, TAUGHT[:4])
    repository = repository_of(store)
    with pytest.raises(ActionError, match="nothing was learnt: early: events: 4 labelled, but at least 5"):
        train(repository)
    assert repository.models("footprint") == []
    cases, _ = incident(6)
    for stage in ("early", "settled"):
        finding = built(repository).analyze(cases[stage])

        assert finding.data["source"] == "threshold"
        assert finding.data["why"] == "too few incidents are labelled"
        assert finding.data["count"] == len(finding.data["nodes"]) >= 3
        assert {node["name"] for node in finding.data["nodes"]} <= set(cases[stage].members)
        assert finding.summary.endswith("; by thresholds")


def test_labels_teach(store):
    """Trained on 14 incidents: new ones get their nodes and type, a glitch none; all of it plain JSON."""
    fill(store, TAUGHT)
    repository = repository_of(store)
    said = train(repository)
    early, settled = said["stages"]

    assert (early["stage"], early["incidents"], early["false_alarms"]) == ("early", 14, 4)
    assert early["types"] == "level, noise"
    assert settled["used"]
    learnt, thresholds = (row for row in said["left_out"] if row["stage"] == "settled")
    assert (learnt["by"], thresholds["by"]) == ("learnt", "thresholds")
    assert learnt["cost"] < thresholds["cost"]
    assert learnt["types_right"] > 0.8
    for number, kind in ((6, "level"), (7, "level"), (7, "noise")):
        cases, labels = incident(number, kind)
        finding = built(repository).analyze(cases["settled"])

        assert finding.data["source"] == "learnt"
        assert finding.data["events"] == 14
        assert finding.data["type"] == kind
        assert finding.data["type_probability"] > 0.5
        named = {node["name"] for node in finding.data["nodes"]}
        assert len(named ^ set(labels.nodes)) <= 1
        assert f"type {kind}; learnt from 14 labelled incidents" in finding.summary
        assert all(
            0 <= node["probability"] <= 1 and node["source"] == "learnt" for node in finding.data["nodes"]
        )
        assert msgspec.json.decode(msgspec.json.encode(finding.data)) == finding.data
        assert built(repository).analyze(cases["settled"]) == finding
    glitch = built(repository).analyze(incident(2, "glitch")[0]["settled"])
    assert glitch.data["count"] <= 1


def test_what_was_learnt_is_shown(store):
    """Before and after training; versions count up."""
    repository = repository_of(store)
    show = footprint.ACTIONS["show"].run
    nothing = {"use": "better", "needed": 5, "labelled_early": 0, "labelled_settled": 0}
    assert show(repository, Arguments()) == nothing
    fill(store, TAUGHT)
    train(repository)
    train(repository)
    said = show(repository, Arguments())

    assert (said["labelled_early"], said["labelled_settled"]) == (14, 14)
    assert [(row["stage"], row["version"]) for row in said["stages"]] == [("early", 2), ("settled", 2)]
    assert json.loads(json.dumps(said)) == said


def test_labels_that_teach_nothing_are_told(store):
    """True alarms without nodes, and nodes of no network, are left out with the reason; nothing is lost."""
    fill(store, TAUGHT)
    for number, given in ((6, {"alarm": "true"}), (7, {"alarm": "true", "nodes": ["gone"]})):
        cases, _ = incident(number, "level")
        store.commit(Bundle(cases=list(cases.values()), records=[label(f"level-{number}", **given)]))
    said = train(repository_of(store))

    assert said["stages"][0]["incidents"] == 14
    assert said["teach_nothing"] == [
        {"incident": "level-6", "why": "its nodes were not told"},
        {"incident": "level-7", "why": "none of the nodes told is in the network"},
    ]


def test_one_class_teaches_nothing(store):
    """Only false alarms: an error that says so, and no model."""
    fill(store, [(k, "glitch") for k in range(6)])
    repository = repository_of(store)
    with pytest.raises(ActionError, match="no node is affected, so that there is nothing to tell apart"):
        train(repository)
    assert repository.models("footprint") == []


def test_types_need_not_be_told(store):
    """Without types one class serves; with some told, the others are of every type in part."""
    fill(store, [one for one in TAUGHT if one[1] == "level"])
    for number in range(6):
        store.commit(Bundle(records=[label(f"level-{number}", alarm="true", type="  ", nodes=["n1"])]))
    said = train(repository_of(store))
    assert said["stages"][0]["types"] == ""
    finding = built(repository_of(store, use="always")).analyze(incident(6)[0]["settled"])
    assert finding.data["type"] is None
    assert "type" not in finding.summary


def test_use_is_a_matter_of_configuration(store, monkeypatch):
    """never: thresholds; always: the model even if it is worse; better: it must be."""
    fill(store, TAUGHT)
    train(repository_of(store))
    one = incident(6)[0]["settled"]
    sources = {use: built(repository_of(store, use=use)).analyze(one).data["source"]
               for use in ("better", "always", "never")}  # fmt: skip
    assert sources == {"better": "learnt", "always": "learnt", "never": "threshold"}
    worse = store.read(tables.read_models, "footprint")[1]
    worse.meta["facts"]["learnt"]["cost"] = 99.0
    store.write(tables.write_model, "footprint", "settled", 0.0, worse.meta, worse.arrays)
    doubted = built(repository_of(store)).analyze(one)
    assert doubted.data["source"] == "threshold"
    assert doubted.data["why"] == "14 labelled incidents teach nothing better"
    assert built(repository_of(store, use="always")).analyze(one).data["source"] == "learnt"


@pytest.mark.parametrize("damage", ["features", "facts", "arrays", "version"])
def test_a_model_that_cannot_be_used_is_refused(store, caplog, damage):
    """Another version of features, truncated or foreign contents: said in log, finding and show."""
    fill(store, TAUGHT)
    repository = repository_of(store)
    train(repository)
    model = repository.model("footprint", "settled")
    meta, arrays = dict(model.meta), dict(model.arrays)
    if damage == "features":
        meta["facts"] = {**meta["facts"], "features": 99}
    elif damage == "facts":
        meta["facts"] = {"events": "many"}
    elif damage == "arrays":
        arrays["ridge_B"] = arrays["ridge_B"][:-3]
    else:
        meta["predictor"] = {**meta["predictor"], "version": 7}
    repository.save_model("footprint", "settled", meta, arrays)
    finding = built(repository).analyze(incident(6)[0]["settled"])
    shown = footprint.ACTIONS["show"].run(repository, Arguments())["stages"][1]

    assert finding.data["source"] == "threshold"
    assert finding.data["why"].startswith("footprint model settled, version 2")
    assert "thresholds are used" in caplog.text
    assert shown["why"] == finding.data["why"]
    if damage == "features":
        assert "features of version 99, this detector has 3: train it again" in shown["why"]


def test_nodes_like_nothing_seen_are_judged_by_thresholds(store, monkeypatch):
    """With no support anywhere the footprint is that of thresholds, node by node, and says so."""
    fill(store, TAUGHT)
    repository = repository_of(store)
    train(repository)
    one = incident(6)[0]["settled"]
    monkeypatch.setattr(footprint, "FAMILIAR", 9.0)
    nodes = built(repository).analyze(one).data["nodes"]

    assert {node["name"] for node in nodes} == {one.names[v] for v in np.flatnonzero(by_thresholds(one))}
    assert {node["source"] for node in nodes} == {"threshold"}


def test_a_new_type_is_left_to_thresholds(store):
    """Levels and glitches were labelled: noise is unlike all of them, the others are judged by the model."""
    fill(store, [one for one in TAUGHT if one[1] != "noise"] + [(5, "level"), (6, "level")])
    repository = repository_of(store)
    said = train(repository)["stages"][1]
    assert said["used"]
    assert said["novel"] <= 2
    analyzer = built(repository)
    for number in range(5):
        case = incident(number, "noise")[0]["settled"]
        finding = analyzer.analyze(case)
        assert finding.data["source"] == "threshold"
        assert finding.data["why"] == "unlike all 11 labelled incidents (p = 0.12)"
        assert "type" not in finding.data
        assert finding.data["count"] == by_thresholds(case).sum()
        assert finding.summary.endswith("; by thresholds, being unlike all labelled incidents")
        forced = built(repository_of(store, use="always")).analyze(case)
        assert forced.data["source"] == "learnt", "always is always"
    known = analyzer.analyze(incident(7)[0]["settled"])
    assert (known.data["source"], known.data["type"]) == ("learnt", "level")
    glitch = analyzer.analyze(incident(1, "glitch")[0]["settled"])
    assert (glitch.data["source"], glitch.data["count"]) == ("learnt", 0)


def test_novelty_is_rare_among_those_alike():
    """The p-value of one more of the same is uniform, nearly; far away it is the least there is."""
    rng = np.random.default_rng(0)
    pvalues = []
    for _ in range(300):
        points = rng.normal(size=(20, 2))
        known = KnownPatterns(points[1:], np.ones(19, np.bool_))
        pvalues.append(known.pvalue(points[0]))
        assert known.pvalue(np.array([30.0, 0.0])) == 1 / 20
        assert known.novel(1 / 20)
        assert not known.novel(2 / 20)
    for share in (0.05, 0.1, 0.25, 0.5):
        assert np.mean(np.array(pvalues) <= share + 1e-9) == pytest.approx(share, abs=0.06)


def test_company_is_one_event_or_two_false_alarms():
    """And a lone event calls nothing novel; what is kept is what was there."""
    points = np.array([[0.0, 0.0], [0.0, 0.1], [0.1, 0.0], [5.0, 5.0], [5.0, 5.1], [9.0, 9.0]])
    known = KnownPatterns.of_rows(KnownPatterns(points, np.array([1, 1, 1, 0, 0, 0], np.bool_)).rows)
    for point, novel in (((0.05, 0.05), False), ((5.0, 5.05), False), ((9.0, 9.0), True), ((3.0, 3.0), True)):
        assert known.novel(known.pvalue(np.array(point))) == novel
    assert known.left_out() == [False, False, False, True, True, True]
    lone = KnownPatterns(np.zeros((1, 2)), np.ones(1, np.bool_))
    assert not lone.novel(lone.pvalue(np.ones(2)))
    with pytest.raises(ValueError, match=r"labelled incidents: shape \(3, 1\), 3 events"):
        KnownPatterns(np.zeros((3, 1)), np.ones(3, np.bool_))
    with pytest.raises(ValueError, match="0 events"):
        KnownPatterns(np.zeros((3, 2)), np.zeros(3, np.bool_))


def test_features_are_bounded_and_complete():
    """Six numbers per node, whatever is missing, infinite or huge."""
    one = case()
    wild = replace(one, statistic=np.array([np.nan, np.inf, -1e30], np.float32),
                   levels=np.full((3, 2), np.nan, np.float32), threshold=0.0)  # fmt: skip
    for made in (one, wild):
        found = features(made)
        assert found.shape == (3, len(NAMES))
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= 4.0
    assert features(incident(1)[0]["settled"])[4, 4] > 0.5  # n4 went up
    np.testing.assert_array_equal(features(replace(one, recent={}, reference={}, times={}))[:, 4:], 0.0)


def test_where_it_looks(monkeypatch):
    """In a small network everywhere; in a large one within two hops of the members."""
    one = incident(0)[0]["early"]
    assert focus(one).all()
    monkeypatch.setattr("detector.diagnosis.footprint.features.EVERYWHERE", 5)
    lone = replace(one, members=("n1",))
    assert [name for name, here in zip(lone.names, focus(lone), strict=True) if here] == [
        "n0", "n1", "n2", "n3", "n5"]  # fmt: skip


def test_the_rule_of_thresholds():
    """Early: the members. Settled: those still over their threshold; all, if none is."""
    one = case()  # a and b are members, both over
    calm = replace(one, stage="settled", statistic=np.array([9, 3, 1], np.float32))
    assert by_thresholds(one).tolist() == [True, True, False]
    assert by_thresholds(replace(calm, stage="early")).tolist() == [True, True, False]
    assert by_thresholds(calm).tolist() == [True, False, False]
    assert by_thresholds(replace(calm, statistic=np.full(3, np.nan, np.float32))).tolist() == [
        True,
        True,
        False,
    ]


def test_what_people_said():
    assert truth(case(), Labels(time=0.0, alarm="false", nodes=["a"])).tolist() == [False] * 3
    assert truth(case(), Labels(time=0.0, nodes=["c", "gone"])).tolist() == [False, False, True]
    with pytest.raises(ValueError, match="its nodes were not told"):
        truth(case(), Labels(time=0.0, alarm="true", nodes=[]))


def test_node_identity_knows_names_not_numbers(store):
    """With identity on, nodes are known by name in any order, and new names do no harm."""
    fill(store, TAUGHT)
    repository = repository_of(store, node_identity=1.0, use="always")
    train(repository)
    one = incident(6)[0]["settled"]
    order = np.array([5, 2, 7, 0, 1, 6, 4, 3])
    place = np.argsort(order)
    moved = replace(one, names=tuple(one.names[v] for v in order), edges=place[one.edges].astype(np.int32),
                    **{name: getattr(one, name)[order] for name in
                       ("statistic", "event_statistic", "levels", "increments")})  # fmt: skip
    plain, turned = (built(repository).analyze(each).data["nodes"] for each in (one, moved))
    key = {node["name"]: node["probability"] for node in plain}
    assert key == pytest.approx({node["name"]: node["probability"] for node in turned})
    empty = {"recent": {}, "reference": {}, "times": {}}
    built(repository).analyze(replace(one, names=("new", *one.names[1:]), members=("n3",), **empty))


def test_a_label_has_it_learnt_once(store):
    """Labels that come together lead to one training; the next case is judged by its model."""
    fill(store, TAUGHT)
    metrics = Metrics()

    async def life():
        recorder = Committer(store, StateSettings(), metrics, lambda _: None, lambda _: None)
        said = []

        async def publish(events, key):
            said.extend(await recorder.add([], events, None, analyzed=[key]))

        diagnosis = DiagnosisService(recorder, metrics, DiagnosisSettings(), publish)
        recorder.filed = diagnosis.wake
        for _ in range(30):
            diagnosis.labelled()
        assert [job["kind"] for job in diagnosis.jobs.describe()].count("footprint") == 1
        task = asyncio.create_task(diagnosis.run())
        async with asyncio.timeout(60):
            await diagnosis.idle()
        await recorder.add([], [], None, cases=[incident(6)[0]["settled"]])
        await recorder.commit()
        diagnosis.wake()
        async with asyncio.timeout(60):
            await diagnosis.idle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return said

    said = asyncio.run(life())
    last = [event for event in said if event.details["kind"] == "footprint"][-1]
    assert last.details["source"] == last.source == "learnt"
    assert last.id == "level-6-footprint-settled"
    assert [model.version for model in store.read(tables.read_models, "footprint")] == [1, 1]
    assert metrics.registry.get_sample_value("detector_models", {"kind": "footprint"}) == 2


def test_no_learning_where_it_is_not_wanted():
    off = footprint.Settings(retrain=False)
    assert footprint.relearn(off) is None
    assert footprint.relearn(footprint.Settings()) is footprint.ACTIONS["train"]


def test_on_the_command_line(tmp_path):
    """Without a daemon the command opens the state itself; the short name is the long one."""
    config = rig.write_config(tmp_path)
    (tmp_path / "in.jsonl").touch()
    store = Store(tmp_path / "state")
    fill(store, TAUGHT)
    store.close()
    run = CliRunner().invoke
    trained = run(cli, ["footprint", "train", "--config", str(config)])
    shown = run(cli, ["diagnosis", "footprint", "show", "--config", str(config), "--json"])

    assert trained.exit_code == 0, trained.output
    assert "settled" in trained.output
    rows = json.loads(shown.output)["stages"]
    assert [row["incidents"] for row in rows] == [14, 14]
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = run(cli, ["footprint", "train", "--config", str(rig.write_config(empty))])
    assert refused.exit_code != 0
    assert "there is no state" in refused.output


def test_the_daemon_learns_from_a_label(tmp_path):
    """A real daemon with a history of labelled incidents: one more label over HTTP, and there is a model."""
    (tmp_path / "in.jsonl").write_text("\n".join(rig.lines(0, 700, every=100, size=6.0)) + "\n")
    config = rig.write_config(tmp_path)
    store = Store(tmp_path / "state")
    fill(store, TAUGHT)
    store.close()
    with rig.Service(config).wait_ready() as daemon:

        def seen(what):
            return daemon.ask("/api/v1/incidents")[1][what]

        one, *_ = rig.wait_for(lambda: [i for i in seen("incidents") if i["nodes"]], what="an incident")
        footprints = rig.wait_for(
            lambda: [f for f in seen("findings") if f["details"]["kind"] == "footprint"], what="a finding"
        )
        assert footprints[0]["details"]["source"] == "threshold"
        assert daemon.metric("models", kind="footprint") == 0
        nodes = [node["name"] for node in one["nodes"]]
        path = f"/api/v1/incidents/{one['incident']}/label"
        assert daemon.ask(path, "POST", {"alarm": "true", "nodes": ["nobody"]})[0] == 409
        assert daemon.ask(path, "POST", {"alarm": "true", "type": "level", "nodes": nodes})[0] == 200
        rig.wait_for(lambda: daemon.metric("models", kind="footprint") == 2, what="models")
        status, said = daemon.ask("/api/v1/diagnosis/footprint/show", "POST", {})
        assert status == 200
        assert [row["incidents"] for row in said["stages"]] == [15, 15]
        assert daemon.ask("/api/v1/diagnosis/footprint/train", "POST", {"x": 1})[0] == 400
        assert daemon.stop() == 0
