"""The diagnosis service: every case file is analyzed once, whatever fails, hangs or is killed on the way."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.registry import Member
from detector.diagnosis.actions import Action, ActionError, Arguments, parse
from detector.diagnosis.analyzer import AnalyzerSettings, Finding
from detector.diagnosis.registry import ANALYZERS, find_action
from detector.diagnosis.service import DiagnosisService
from detector.events.model import Event
from detector.incidents.case import Case
from detector.runtime.committer import Committer
from detector.runtime.metrics import Metrics
from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.service import StateSettings
from detector.storage import cases as tables
from detector.storage.store import Bundle, Store
from tests.detector.storage.test_cases import case


class Says:
    """Analyzes the early files of the tests."""

    stages = frozenset({"early"})

    def __init__(self, kind: str, what: Callable[[Case], Finding | None]) -> None:
        self.kind, self.analyze = kind, what


class Rig:
    """A service over a real store; what it publishes is in `events`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **kinds: Any) -> None:
        self.folder, self.events = folder, list[Event]()
        self.metrics = Metrics()
        for name in list(ANALYZERS):
            monkeypatch.delitem(ANALYZERS._members, name)
        for name, what in kinds.items():
            module = types.ModuleType(f"kind_{name}")
            given = what if isinstance(what, dict) else {"analyze": what}

            def analyzer(settings: Any, repository: Any, name: str = name, given: Any = given) -> Any:
                if "build" in given:
                    return given["build"](repository)
                return Says(name, given["analyze"])

            vars(module).update(
                analyzer=analyzer,
                Settings=AnalyzerSettings,
                ACTIONS=given.get("actions", {}),
                __doc__=f"Analyzer {name}.",
            )
            monkeypatch.setitem(sys.modules, module.__name__, module)
            monkeypatch.setitem(ANALYZERS._members, name, Member(module.__name__))

    def run(
        self, *cases: Case, then: Callable[[DiagnosisService], Any] | None = None, limit: float = 5.0
    ) -> Any:
        """A life of the service: takes the cases, works until idle, does ``then``, and ends."""

        async def life() -> Any:
            store = Store(self.folder)
            store.commit(Bundle(cases=list(cases)))
            recorder = Committer(store, StateSettings(), self.metrics, lambda records: None, lambda _: None)

            async def publish(events: Any, key: Any) -> None:
                self.events += await recorder.add([], events, None, analyzed=[key])

            diagnosis = DiagnosisService(recorder, self.metrics, DiagnosisSettings(time_limit=limit), publish)
            recorder.filed = diagnosis.wake
            task = asyncio.create_task(diagnosis.run())
            try:
                async with asyncio.timeout(20):
                    await diagnosis.idle()
                    result = None if then is None else await then(diagnosis)
                    await diagnosis.idle()
                await recorder.commit()
                self.waiting = await recorder.ask(store.read, tables.waiting)
                return result
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                recorder.close()

        return asyncio.run(life())

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"detector_{name}", labels) or 0.0


def size(case: Case) -> Finding:
    return Finding("size", f"{len(case.members)} nodes", {"nodes": list(case.members)})


def test_a_finding_becomes_a_record(tmp_path, monkeypatch) -> None:
    """Its id is made from incident, kind and stage; other stages are only marked."""
    rig = Rig(tmp_path, monkeypatch, size=size)
    rig.run(case("i1"), case("i1", "settled"), case("i2"))
    first = rig.events[0]

    assert [event.id for event in rig.events] == ["i1-size-early", "i2-size-early"]
    assert (first.event, first.incident, first.time, first.summary) == (
        "incident.analyzed",
        "i1",
        1e9,
        "2 nodes",
    )
    assert first.details == {"kind": "size", "stage": "early", "nodes": ["a", "b"]}
    assert rig.waiting == []
    assert rig.count("findings_total", kind="size") == 2
    assert rig.count("diagnosis_cases_total", stage="early") == 2
    assert rig.count("diagnosis_cases_total", stage="settled") == 1


def test_a_second_life_says_nothing_twice(tmp_path, monkeypatch) -> None:
    """A case file whose finding is stored, but not the mark, is analyzed again and gives no second record."""
    rig = Rig(tmp_path, monkeypatch, size=size)
    rig.run(case("i1"))
    store = Store(tmp_path)
    store.write(lambda connection: connection.execute("UPDATE case_file SET examined = 0"))
    store.close()
    rig.run()

    assert [event.id for event in rig.events] == ["i1-size-early"]
    assert rig.waiting == []
    assert rig.count("findings_total", kind="size") == 2


def test_one_that_fails_does_not_stop_the_others(tmp_path, monkeypatch) -> None:
    """An exception is counted, and the next analyzer and the next case take their turn."""

    def fails(case: Case) -> Finding:
        raise ZeroDivisionError("of the test")

    rig = Rig(tmp_path, monkeypatch, fails=fails, size=size, silent=lambda case: None)
    rig.run(case("i1"), case("i2"))

    assert [event.id for event in rig.events] == ["i1-size-early", "i2-size-early"]
    assert rig.count("diagnosis_failures_total", kind="fails", reason="error") == 2
    assert rig.waiting == []


def test_one_that_hangs_is_left_behind(tmp_path, monkeypatch) -> None:
    """After the limit the case is done without it. With too many hanging, the rest waits."""
    freed = threading.Event()

    def hangs(case: Case) -> Finding | None:
        if case.incident != "i3":
            freed.wait(20)
        return size(case)

    rig = Rig(tmp_path, monkeypatch, size=hangs)
    monkeypatch.setattr("detector.diagnosis.service.RETRY_S", 0.05)
    try:
        threading.Timer(2.0, freed.set).start()
        rig.run(case("i1"), case("i2"), case("i3"), limit=0.05)
    finally:
        freed.set()

    assert rig.count("diagnosis_failures_total", kind="size", reason="time") == 2
    assert [event.id for event in rig.events] == ["i3-size-early"]
    assert rig.waiting == []


def test_one_that_has_to_wait_is_not_given_up(tmp_path, monkeypatch) -> None:
    """What is limited is CPU time: a busy core, or an answer that takes its time, loses no finding."""

    def waits(case: Case) -> Finding:
        time.sleep(0.3)
        return size(case)

    rig = Rig(tmp_path, monkeypatch, size=waits)
    rig.run(case("i1"), limit=0.1)

    assert [event.id for event in rig.events] == ["i1-size-early"]
    assert rig.count("diagnosis_failures_total", kind="size", reason="time") == 0


def test_one_that_computes_for_too_long_is_given_up(tmp_path, monkeypatch, caplog) -> None:
    """Long before the clock would: and the time that it spent before, on other cases, does not count."""
    ended = threading.Event()

    def computes(case: Case) -> Finding:
        begun = time.thread_time()
        while time.thread_time() - begun < (20.0 if case.incident == "i2" else 0.2) and not ended.is_set():
            sum(range(1000))
        return size(case)

    rig = Rig(tmp_path, monkeypatch, size=computes)
    monkeypatch.setattr("detector.diagnosis.executor.PATIENCE", 1000.0)
    try:
        rig.run(case("i1"), case("i2"), case("i3"), limit=0.35)
    finally:
        ended.set()

    assert [event.id for event in rig.events] == ["i1-size-early", "i3-size-early"]
    assert rig.count("diagnosis_failures_total", kind="size", reason="time") == 1
    assert "size of i2, early: given up after " in caplog.text
    assert "(time_limit: 0.35 s of computing)" in caplog.text


def test_a_damaged_case_file_is_passed_over(tmp_path, monkeypatch) -> None:
    """It is counted and marked, so that it does not come again and again."""
    rig = Rig(tmp_path, monkeypatch, size=size)
    store = Store(tmp_path)
    store.commit(Bundle(cases=[case("i1")]))
    store.write(lambda connection: connection.execute("UPDATE case_file SET meta = x'00'"))
    store.close()
    rig.run(case("i2"))

    assert [event.id for event in rig.events] == ["i2-size-early"]
    assert rig.count("diagnosis_failures_total", kind="", reason="damaged") == 1
    assert rig.waiting == []


class Train(Arguments):
    """Arguments of the tests' own action."""

    name: str
    weight: float = 1.0


def train(repository: Any, arguments: Train) -> dict[str, Any]:
    if arguments.weight <= 0:
        raise ActionError("weight must be positive")
    version = repository.save_model("size", arguments.name, {"weight": arguments.weight})
    return {"version": version}


def with_model(repository: Any) -> Says | None:
    models = repository.models("size")
    if not models:
        return None
    weight = models[-1].meta["weight"]
    return Says("size", lambda case: Finding("size", f"weight {weight:g}"))


def test_an_action_teaches_the_analyzer(tmp_path, monkeypatch) -> None:
    """Without a model nothing is analyzed; after training the next case is."""
    kind = {"build": with_model, "actions": {"train": Action("Train.", train, Train)}}
    rig = Rig(tmp_path, monkeypatch, size=kind)
    action = find_action("size", "train")
    arguments = parse(action, b'{"name": "a", "weight": 2}')
    assert rig.run(
        case("i1"), then=lambda diagnosis: diagnosis.act("size", "train", action, arguments).done
    ) == {"version": 1}
    assert rig.events == []
    assert rig.count("models", kind="size") == 1
    rig.run(case("i2"))

    assert [event.summary for event in rig.events] == ["weight 2"]


def test_actions_that_make_no_sense(tmp_path, monkeypatch) -> None:
    """Unknown kinds, actions and arguments, and what the action itself refuses: all say why."""
    kind = {"build": with_model, "actions": {"train": Action("Train.", train, Train)}}
    rig = Rig(tmp_path, monkeypatch, size=kind)
    with pytest.raises(ActionError, match="no analyzer 'sise'; known: size"):
        find_action("sise", "train")
    with pytest.raises(ActionError, match="no action 'tame'; known: train"):
        find_action("size", "tame")
    action = find_action("size", "train")
    for body, words in (
        (b"{}", "name"),
        (b'{"name": 3}', "name"),
        (b'{"name": "a", "x": 1}', "x"),
        (b"{", "truncated"),
    ):
        with pytest.raises(ActionError, match=words):
            parse(action, body)
    wrong = parse(action, b'{"name": "a", "weight": -1}')
    with pytest.raises(ActionError, match="positive"):
        rig.run(then=lambda diagnosis: diagnosis.act("size", "train", action, wrong).done)


def test_a_model_that_cannot_be_used(tmp_path, monkeypatch) -> None:
    """An analyzer that cannot be built is counted; the others work."""

    def broken(repository: Any) -> Any:
        raise ValueError("no good")

    rig = Rig(tmp_path, monkeypatch, broken={"build": broken}, size=size)
    rig.run(case("i1"))

    assert [event.id for event in rig.events] == ["i1-size-early"]
    assert rig.count("diagnosis_failures_total", kind="broken", reason="model") == 1


def test_a_remembered_failure_holds_nothing(tmp_path, monkeypatch) -> None:
    """The error of a job is kept for whoever asks for it, but not what the job had in its hands."""
    held: list[weakref.ref[Any]] = []

    class Large:
        """Stands for all labelled cases."""

    def fails() -> dict[str, Any]:
        large = Large()
        held.append(weakref.ref(large))
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ActionError("nothing was learnt") from error

    async def act(diagnosis: DiagnosisService) -> Any:
        job = diagnosis.jobs.add("size", "learn", fails)
        diagnosis.wake()
        with pytest.raises(ActionError, match="nothing was learnt"):
            await asyncio.shield(job.done)
        job.done.exception().__traceback__ = None  # the frames of this test, which waited for it
        gc.collect()
        return held[0](), diagnosis.jobs.find("1") is job

    assert Rig(tmp_path, monkeypatch, size=size).run(then=act) == (None, True)
