"""Triage learnt with other sites over a real broker: what was shared, by whom, and nothing else."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector.cli.diagnosis import federate
from detector.diagnosis.actions import ActionError
from detector.diagnosis.analyzers import triage_exchange
from detector.diagnosis.analyzers.triage import Settings, analyzer
from detector.diagnosis.analyzers.triage_model import load
from detector.diagnosis.exchange.messages import TriageQuestion
from detector.diagnosis.repository import Repository
from detector.storage.store import Store
from tests.detector import rig
from tests.detector.diagnosis.analyzers.test_triage import act, filled
from tests.detector.diagnosis.exchange.test_exchange import Site, broker, run, site

__all__ = ["broker"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two sites: one has seen shifts and glitches, the other noise and glitches."""
    folder = tmp_path_factory.mktemp("sites")
    made = {
        "a": filled(folder / "a", range(6), ("shift", "glitch")),
        "b": filled(folder / "b", range(10, 16), ("noise", "glitch")),
    }
    yield made
    for store in made.values():
        store.close()


def connected(store: Store, site: Site) -> Repository:
    repository = Repository(store)
    repository.exchange = site.exchange
    analyzer(Settings(), repository)
    return repository


def test_the_model_is_that_of_the_files(broker, stores):
    """Sharing and gathering ends in the same model as export and merge; after withdrawing there is none."""

    async def test(a: Site, b: Site) -> None:
        one, other = connected(stores["a"], a), connected(stores["b"], b)
        with pytest.raises(ActionError, match="nobody has shared anything about type; b with a: connected"):
            await asyncio.to_thread(act, other, "gather", question="type")

        told = act(one, "share", question="type")
        assert (told["site"], told["samples"]) == ("a", 12)
        assert 0 < told["shared"] <= 12
        analyzer(Settings(), one)  # as the daemon builds it after each action
        gathered = await asyncio.to_thread(act, other, "gather", question="type")
        assert (gathered["sites"], gathered["missing"], gathered["samples"]) == (["a", "b"], [], 24)
        assert gathered["classes"].keys() == {"shift", "noise", "glitch"}
        (model,) = [made for made in other.models("triage") if made.name == "type"]

        files = [act(Repository(stores[name]), "export", site=name, question="type")["file"] for name in "ab"]
        act(other, "merge", question="type", message=[base64.b64encode(file).decode() for file in files])
        (merged,) = [made for made in other.models("triage") if made.name == "type"]
        np.testing.assert_array_equal(model.arrays["X"], merged.arrays["X"])
        np.testing.assert_allclose(model.arrays["nu"], merged.arrays["nu"])
        assert load(model).predict(model.arrays["X"]) == load(merged).predict(model.arrays["X"])

        with pytest.raises(ActionError, match="nobody has shared anything about alarm"):
            await asyncio.to_thread(act, other, "gather")
        act(one, "withdraw", question="type")
        analyzer(Settings(), one)
        with pytest.raises(ActionError, match="nobody has shared"):
            await asyncio.to_thread(act, other, "gather", question="type")
        with pytest.raises(ActionError, match="nothing is shared for type"):
            act(one, "withdraw", question="type")

    run(broker, test, {"name": "a", "peers": ["b"]}, {"name": "b", "peers": ["a"]})


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ({"grid": "other"}, "what a has shared: a: grid other, this one is"),
        ({"site": "c"}, "what a has shared is of c"),
        ({"version": 9}, "what a has shared: version: 9"),
        ({"critical": [{"x": ["one"], "label": "true"}]}, "what a has shared: damaged message"),
        ({"multipliers": 3}, "what a has shared: damaged message"),
    ],
)
def test_what_is_unsound_changes_nothing(broker, stores, spoil, words):
    """Each is refused with the name of the peer, and the model that was there stays."""

    async def test(a: Site, b: Site) -> None:
        one, other = connected(stores["a"], a), connected(stores["b"], b)
        act(one, "share")
        (shared,) = [
            made.meta["message"] for made in one.models(triage_exchange.KIND) if made.name == "alarm"
        ]
        before = [(made.name, made.version) for made in other.models("triage")]
        said = {"alarm": {**shared, **spoil}}
        a.exchange.hold(TriageQuestion, partial(triage_exchange.answer, said))
        with pytest.raises(ActionError) as caught:
            await asyncio.to_thread(act, other, "gather")
        assert words in str(caught.value)
        assert [(made.name, made.version) for made in other.models("triage")] == before

    run(broker, test, {"name": "a", "peers": ["b"]}, {"name": "b", "peers": ["a"], "timeout": 2.0})


def test_other_features_are_not_answered(stores):
    question = TriageQuestion(id="q", sender="b", until=0.0, spec="case features 9, grid x", about="alarm")
    assert triage_exchange.answer({}, question) == {}
    with pytest.raises(ValueError, match="case features 9"):
        triage_exchange.answer({"alarm": {}}, question)


def test_without_an_exchange_it_says_what_is_needed(stores):
    for action in ("share", "gather"):
        with pytest.raises(ActionError, match=r"it needs diagnosis\.exchange, and a daemon"):
            act(Repository(stores["a"]), action)


def test_too_much_for_a_message_goes_by_file(broker, stores, monkeypatch):
    async def test(a: Site) -> None:
        monkeypatch.setattr(triage_exchange, "MOST_BYTES", 100)
        with pytest.raises(ActionError, match="at most 100 go through the exchange: export a file"):
            act(connected(stores["a"], a), "share")

    run(broker, test, {"name": "a", "peers": ["b"]})


def test_two_daemons(broker, tmp_path: Path):
    """One shares, the other gathers, which is what `detector federate` asks them to do."""
    configs = {
        "a": site(tmp_path / "a", broker.port, "a", ["b"], changed=False),
        "b": site(tmp_path / "b", broker.port, "b", ["a", "gone"], changed=False),
    }
    filled(tmp_path / "a" / "state", range(6)).close()
    with rig.Service(configs["a"]).wait_ready() as a, rig.Service(configs["b"]).wait_ready() as b:
        told = act_at(a, "share")
        assert (told["site"], told["samples"]) == ("a", 18)
        gathered = act_at(b, "gather")
        assert (gathered["sites"], gathered["missing"], gathered["shared_nothing"]) == (["a"], ["gone"], [])
        shown = act_at(b, "show")
        assert [(one["source"], one["sites"]) for one in shown["models"]] == [("peers", "a")]


def act_at(daemon: rig.Service, action: str) -> dict[str, Any]:
    status, told = daemon.ask(f"/api/v1/diagnosis/triage/{action}", "POST", {})
    while status == 202:
        status, told = daemon.ask(f"/api/v1/diagnosis/actions/{told['action']}")
    assert status == 200, told
    return told


def test_the_short_names_are_there():
    assert {"export", "merge", "share", "gather", "withdraw", "show"} == set(federate.commands)
