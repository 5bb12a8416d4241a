"""Footprints by what labels at another site have taught, over a real broker."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector.diagnosis.actions import Arguments
from detector.diagnosis.exchange import messages
from detector.diagnosis.exchange.messages import FootprintAnswer, FootprintQuestion, OtherSpec
from detector.diagnosis.footprint import analyzer as footprint
from detector.diagnosis.footprint import elsewhere
from detector.diagnosis.footprint.features import truth
from detector.diagnosis.footprint.model import FootprintModel
from detector.diagnosis.footprint.settings import Settings
from detector.diagnosis.repository import Repository
from detector.storage.store import Store
from tests.detector import rig
from tests.detector.diagnosis.exchange.test_exchange import Site, broker, run, site
from tests.detector.diagnosis.footprint.test_footprint import TAUGHT, fill, incident, repository_of

__all__ = ["broker"]


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> dict[str, FootprintModel]:
    """What a site with 14 labelled incidents has learnt."""
    store = Store(tmp_path_factory.mktemp("taught"))
    fill(store, TAUGHT)
    repository = repository_of(store)
    footprint.ACTIONS["train"].run(repository, Arguments())
    models = {model.name: FootprintModel.of(model) for model in repository.models("footprint")}
    store.close()
    return models


def analyzer_of(repository: Repository, exchange: Any, **settings: Any) -> footprint.FootprintAnalyzer:
    repository.exchange = exchange
    return footprint.FootprintAnalyzer(Settings(**settings), repository)


def test_a_site_without_labels_is_taught_by_another(broker, tmp_path, taught):
    """Nodes and type as the other site would have named them; no name of a node, no value on the wire."""
    cases, said = incident(6, "level")
    case = cases["settled"]
    store = Store(tmp_path)
    nobody = Repository(store)

    async def test(a: Site, b: Site) -> None:
        b.exchange.hold(FootprintQuestion, partial(elsewhere.answer, taught["settled"]))
        alone = analyzer_of(nobody, None).analyze(case)
        assert alone.source == "threshold"

        asked = analyzer_of(nobody, a.exchange)
        finding = await asyncio.to_thread(asked.analyze, case)
        assert finding.source == "learnt"
        assert (finding.data["type"], finding.data["by"], finding.data["missing"]) == ("level", ["b"], [])
        told = {node["name"] for node in finding.data["nodes"]}
        true = {case.names[v] for v in np.flatnonzero(truth(case, said))}
        by_its_own = taught["settled"].predict(case)
        assert told == {case.names[v] for v in np.flatnonzero(by_its_own.labels > 0)}
        assert len(told ^ true) <= 1
        assert finding.summary.endswith("learnt from 14 labelled incidents of b")

        early = await asyncio.to_thread(asked.analyze, cases["early"])
        assert early.source == "threshold", "only settled incidents are asked about"
        assert analyzer_of(nobody, a.exchange, peers=False).analyze(case).source == "threshold"
        assert analyzer_of(nobody, a.exchange, use="never").analyze(case).source == "threshold"

    try:
        run(broker, test, {"name": "a", "peers": ["b"]}, {"name": "b", "peers": ["a"]})
    finally:
        store.close()


def test_what_goes_over_the_wire(taught):
    """Descriptors with three digits, and scores: within the bounds of a message, and without names."""
    case = incident(6, "level")[0]["settled"]
    sent: list[bytes] = []

    class Line:
        peers = ("b",)

        def ask(self, kind, **asked):
            question = kind(id="q", sender="a", until=0.0, **asked)
            body = json.dumps(messages.record(question)).encode()
            read = messages.parse(body)
            given = messages.answer(read, "b", elsewhere.answer(taught["settled"], read))
            back = json.dumps(messages.record(given)).encode()
            sent.extend((body, back))
            answer = messages.parse(back)
            assert answer.fits(question)
            return {"b": answer}

    found = elsewhere.ask(Line(), case, Settings())
    assert found is not None
    assert found.by == ["b"]
    asked, given = sent
    assert not [name for name in case.names if name.encode() in asked + given]
    head = {"event", "id", "version", "sender", "spec", "until"}
    assert set(json.loads(asked)) == head | {"incident", "parts"}
    assert len(asked) < 200 * len(case.names) < messages.MAX_BYTES
    np.testing.assert_allclose(found.said.g, taught["settled"].predict(case).g, atol=0.02)


def question(**changed: Any) -> FootprintQuestion:
    given = {"spec": elsewhere.SPEC, "incident": [0.0, 0.0], "parts": [[0.0] * 25]}
    return FootprintQuestion(id="q", sender="a", until=0.0, **given | changed)


def test_what_is_not_known_is_not_answered(taught):
    """Other features are refused, and new types of incident unknown, other lengths an error."""
    with pytest.raises(OtherSpec):
        elsewhere.answer(taught["settled"], question(spec="footprint 99 2"))
    assert elsewhere.answer(None, question()) == {}
    far = elsewhere.answer(taught["settled"], question(incident=[-30.0, -30.0]))
    assert far == {"events": 14, "novel": True}
    known = list(taught["settled"].known.points[0])
    assert elsewhere.answer(taught["settled"], question(incident=known))["scores"]
    with pytest.raises(ValueError, match="24 features, but 25 were learnt"):
        elsewhere.answer(taught["settled"], question(incident=known, parts=[[0.0] * 24]))


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ({}, True),
        ({"events": 9, "novel": True}, True),
        ({"events": 9, "novel": False, "types": ["x"], "scores": [[0.2, 0.8]], "support": [1.0]}, True),
        ({"events": 9, "novel": False, "scores": [[0.2, 0.8]], "support": [1.0]}, True),
        ({"events": 9, "novel": False, "types": ["x", "y"], "scores": [[0.2, 0.8]], "support": [1.0]}, False),
        ({"events": 9, "novel": False, "types": ["x"], "scores": [[0.2, 0.8]] * 2, "support": [1.0]}, False),
        ({"events": 9, "novel": False, "types": ["x"], "scores": [], "support": []}, False),
        ({"scores": [[0.2, 0.8]], "support": [1.0]}, False),
    ],
)
def test_answers_that_do_not_fit_do_not_count(answer, fits):
    made = messages.answer(question(), "b", answer)
    assert made.fits(question()) is fits


def test_sites_are_combined_by_what_they_know():
    """Means by incidents and familiarity, whatever the order; types are those of all; nobody knows: 0."""
    head = {"id": "x", "question": "q", "spec": elsewhere.SPEC, "novel": False}
    leak = FootprintAnswer(sender="b", events=10, types=["leak"], scores=[[0.0, 1.0], [1.0, 0.0], [0.4, 0.2]],
                           support=[1.0, 0.0, 0.0], **head)  # fmt: skip
    jam = FootprintAnswer(sender="c", events=30, types=["jam"], scores=[[1.0, 0.0], [0.0, 1.0], [0.4, 0.2]],
                          support=[0.5, 1.0, -0.2], **head)  # fmt: skip
    scores, support = elsewhere.together([leak, jam], ["jam", "leak"])
    np.testing.assert_allclose(scores, [[0.6, 0.0, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(support, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(elsewhere.together([jam, leak], ["jam", "leak"])[0], scores)


def test_two_daemons(broker, tmp_path: Path):
    """A daemon without labels has the nodes of its incident named by the labels of another one."""
    configs = {
        "knows": site(tmp_path / "knows", broker.port, "knows", ["asks"], changed=False),
        "asks": site(tmp_path / "asks", broker.port, "asks", ["knows", "nobody"], changed=True),
    }
    store = Store(tmp_path / "knows" / "state")
    fill(store, TAUGHT)
    footprint.ACTIONS["train"].run(repository_of(store), Arguments())
    store.close()

    with rig.Service(configs["knows"]).wait_ready() as knows:
        rig.wait_for(lambda: knows.metric("models", kind="footprint") == 2)
        with rig.Service(configs["asks"]).wait_ready() as asks:
            out = tmp_path / "asks" / "out.jsonl"
            rig.wait_for(lambda: any(id.endswith("-footprint-settled") for id in rig.ids(out)), 90)
            status, told = asks.ask("/api/v1/diagnosis/footprint/show", "POST", {})

    records = [json.loads(line) for line in out.read_text().splitlines()]
    finding = next(one for one in records if one["id"].endswith("-footprint-settled"))
    assert (finding["source"], finding["details"]["by"]) == ("learnt", ["knows"])
    assert finding["details"]["missing"] == ["nobody"]
    assert finding["details"]["type"] == "level"
    assert {node["name"] for node in finding["details"]["nodes"]} == {"n2", "n3", "n4"}
    assert (status, told["exchange"]) == (200, "asks with knows, nobody: connected")
