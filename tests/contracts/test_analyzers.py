"""What every analyzer must do, whatever the case file: crossed with all members of ANALYZERS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from pydantic import ValidationError

from detector.diagnosis.actions import Action, ActionError, Arguments
from detector.diagnosis.analyzer import Analyzer, AnalyzerSettings, Finding, finding_event
from detector.diagnosis.executor import LowPriorityExecutor
from detector.diagnosis.registry import ANALYZERS, build_analyzer, diagnosis_model, load, relearning
from detector.diagnosis.repository import Repository
from detector.events.schema import schema
from detector.incidents.case import STAGES, Case, Stage
from detector.settings.diagnosis import DiagnosisSettings
from detector.storage import cases as tables
from detector.storage.case_codec import encode
from detector.storage.database import FILE
from detector.storage.store import Bundle, Store
from tests.detector.storage.test_cases import label

ROOT = Path(__file__).parents[2]
TIME = 1_700_000_000.0
BEFORE, AFTER = 200, 100
EVENTS = jsonschema.Draft202012Validator(schema())
WITH_ANALYZER = [name for name in ANALYZERS if hasattr(load(name), "analyzer")]


def make(
    n: int = 6, changed: int = 2, dim: int = 1, kind: str = "shift", seed: int = 0, stage: Stage = "settled",
    incident: str = "i1", before: int = BEFORE, after: int = AFTER,
) -> Case:  # fmt: skip
    """A line of nodes of which the first ones changed."""
    rng = np.random.default_rng(seed)
    names = tuple(f"n{v}" for v in range(n))
    members = names[:changed]
    kept = names[: min(n, changed + 50)]
    reference = {name: rng.normal(size=(before, dim)).astype(np.float32) for name in kept}
    recent = {name: rng.normal(size=(after, dim)).astype(np.float32) for name in kept}
    onset = TIME - 80.0
    times = {name: TIME - after + 1 + np.arange(float(after)) for name in kept}
    for name in members:
        late = times[name] >= onset
        recent[name][late] = 5.0 * recent[name][late] if kind == "noise" else recent[name][late] + 4.0
    statistic = np.where(np.arange(n) < changed, 9.0, 0.5).astype(np.float32)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    return Case(
        incident=incident, stage=stage, time=TIME, opened=onset + 5.0, onset=onset, step=1.0, names=names,
        edges=edges, weights=np.ones(n - 1), members=members, suspected=members[1:2], onsets={},
        statistic=statistic, event_statistic=statistic, levels=np.tile(statistic[:, None], (1, 2)),
        lengths=(10, 100), increments=statistic, threshold=5.0, event_threshold=5.0,
        components=tuple(f"c{c}" for c in range(dim)), reference=reference, recent=recent, times=times,
        centre={name: np.full(dim, 20.0) for name in kept}, scale={name: np.full(dim, 0.5) for name in kept},
        plain=True,
    )  # fmt: skip


def filled(values: float, **given: Any) -> Case:
    """All samples since the onset are the same, whatever they are."""
    case = make(**given)
    recent = {name: np.full_like(window, values) for name, window in case.recent.items()}
    return replace(case, recent=recent)


def holes() -> Case:
    """Some values are missing, before and after."""
    case = make(dim=2)
    for windows in (case.reference, case.recent):
        for window in windows.values():
            window[::3, 0] = np.nan
            window[::5] = np.nan
    return case


def nothing_judged() -> Case:
    case = make()
    nan = np.full(len(case.names), np.nan, np.float32)
    return replace(
        case, statistic=nan, event_statistic=nan, increments=nan, levels=np.tile(nan[:, None], (1, 2))
    )


def without_windows(case: Case) -> Case:
    empty: dict[str, Any] = {}
    return replace(case, reference=empty, recent=empty, times=empty, centre=empty, scale=empty)


CASES = {
    "shift": lambda: make(),
    "noise": lambda: make(kind="noise"),
    "two components": lambda: make(dim=2),
    "one node": lambda: make(n=1, changed=1),
    "all nodes": lambda: make(n=6, changed=6),
    "many nodes": lambda: make(n=2000, changed=50),
    "no members": lambda: make(changed=0),
    "no windows": lambda: without_windows(make()),
    "nothing at all": lambda: without_windows(make(n=1, changed=0)),
    "no onset": lambda: replace(make(), onset=None),
    "onset to come": lambda: replace(make(), onset=TIME + 100.0),
    "few samples": lambda: make(before=3, after=2),
    "no samples": lambda: make(before=0, after=0),
    "missing values": holes,
    "only missing values": lambda: filled(np.nan),
    "infinite values": lambda: filled(np.inf),
    "constant values": lambda: filled(0.0),
    "huge values": lambda: filled(1e30),
    "constant before": lambda: replace(
        make(), reference=dict.fromkeys(make().recent, np.zeros((BEFORE, 1), np.float32))
    ),
    "no way back": lambda: replace(make(), scale={n: np.full(1, np.nan) for n in make().recent}, plain=False),
    "no statistic": nothing_judged,
    "threshold zero": lambda: replace(make(), threshold=0.0, event_threshold=0.0),
    "all suspected": lambda: replace(make(), suspected=make().members),
}  # fmt: skip


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A store with labelled incidents, from which every analyzer that learns has learnt."""
    store = Store(tmp_path_factory.mktemp("taught"))
    cases, labels = [], []
    for k in range(12):
        kind, false = ("shift", "noise")[k % 2], k % 3 == 0
        case = make(changed=1 + k % 3, kind=kind, seed=k, incident=f"t{k}")
        cases += [replace(case, stage=stage) for stage in STAGES]
        said = {"alarm": "false"} if false else {"alarm": "true", "type": kind, "nodes": list(case.members)}
        labels.append(label(f"t{k}", **said))
    store.commit(Bundle(cases=cases, records=labels, analyzed=[case.key for case in cases]))
    repository = Repository(store)
    for action in relearning(DiagnosisSettings()).values():
        action.run(repository, action.arguments())
    for name in ANALYZERS:
        train: Action | None = load(name).ACTIONS.get("train")
        if train is not None:
            train.run(repository, train.arguments())
    yield store
    store.close()


@pytest.fixture(params=WITH_ANALYZER)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def copied(store: Store, folder: Path) -> Iterator[Store]:
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(folder / FILE)) as copy:
        store.read(lambda connection: connection.backup(copy))
    (folder / FILE).chmod(0o600)
    made = Store(folder)
    try:
        yield made
    finally:
        made.close()


def built(name: str, store: Store) -> Analyzer:
    analyzer = build_analyzer(name, DiagnosisSettings(), Repository(store))
    assert analyzer is not None
    return analyzer


def check(name: str, case: Case, finding: Finding | None) -> None:
    """A finding is one sentence for people and plain JSON, and the event made of it is as documented."""
    assert finding is None or finding.kind == name
    if finding is not None:
        assert finding.summary
        assert finding.summary == finding.summary.strip()
        assert "\n" not in finding.summary
        assert not re.search(r"\b(nan|inf)\b", finding.summary, re.IGNORECASE), finding.summary
        event = finding_event(case, finding)
        text = msgspec.json.encode(event)
        record = json.loads(text)
        json.dumps(record, allow_nan=False)
        assert record["details"]["kind"] == name
        assert event.record() == record
        EVENTS.validate(record)


@pytest.mark.parametrize("which", CASES)
def test_any_case(name: str, taught: Store, which: str, tmp_path: Path) -> None:
    """Whatever a case file holds: a finding as promised or none, the same from the same store."""
    for stage in STAGES:
        case = replace(CASES[which](), stage=stage, incident=f"{which}-{stage}")
        if stage not in built(name, taught).stages:
            continue
        before = encode(case)
        for array in (*case.reference.values(), *case.recent.values(), case.statistic, case.levels):
            array.setflags(write=False)
        findings = []
        for k in range(2):  # what an analyzer keeps of a case must not be there for the other
            with copied(taught, tmp_path / f"{stage}{k}") as store:
                analyzer = built(name, store)
                findings.append(analyzer.analyze(case))
                check(name, case, findings[-1])
                check(name, case, analyzer.analyze(case))
        assert findings[0] == findings[1]
        assert encode(case) == before


def test_it_has_something_to_say(name: str, taught: Store) -> None:
    """Of some case: an analyzer that never says anything would pass all else."""
    analyzer = built(name, taught)
    stage = next(iter(analyzer.stages))
    cases = (
        make(changed=k, kind=kind, incident=f"{kind}{k}", stage=stage)
        for k in (1, 3)
        for kind in ("shift", "noise")
    )
    assert any(analyzer.analyze(case) is not None for case in cases)


def test_the_largest_case_is_within_the_time_limit(name: str, taught: Store) -> None:
    """In CPU time, as the service measures it."""
    case = make(n=2000, changed=50, dim=3, before=1000, after=500, incident="large")

    async def work() -> Finding | None:
        executor = LowPriorityExecutor()
        try:
            return await executor.run(DiagnosisSettings().time_limit, built(name, taught).analyze, case)
        finally:
            executor.close()

    check(name, case, asyncio.run(work()))


def test_stages(name: str, taught: Store) -> None:
    analyzer = built(name, taught)
    assert analyzer.kind == name
    assert analyzer.stages
    assert analyzer.stages <= set(STAGES)


def test_before_anything_was_learnt(name: str, tmp_path: Path) -> None:
    """With an empty store it is not there yet, or says what it can."""
    store = Store(tmp_path)
    analyzer = build_analyzer(name, DiagnosisSettings(), Repository(store))
    for stage in analyzer.stages if analyzer is not None else ():
        assert analyzer is not None
        case = make(stage=stage)
        check(name, case, analyzer.analyze(case))
    store.close()


def test_a_model_of_another_version_is_no_crash(name: str, tmp_path: Path) -> None:
    """It is left out: the analyzer works as without it."""
    store = Store(tmp_path)
    for model in ("alarm", "early", "settled", "x"):
        store.write(tables.write_model, name, model, TIME, {"version": 10**6}, {"x": np.zeros(3)})
    analyzer = build_analyzer(name, DiagnosisSettings(), Repository(store))
    for stage in analyzer.stages if analyzer is not None else ():
        assert analyzer is not None
        case = make(stage=stage)
        check(name, case, analyzer.analyze(case))
    store.close()


def test_switched_off(name: str, taught: Store) -> None:
    off = diagnosis_model([name]).model_validate({name: {"enabled": False}})
    assert build_analyzer(name, off, Repository(taught)) is None
    assert name not in relearning(off)


def test_settings_are_documented(name: str) -> None:
    """Every key has a sentence, a default and a range; the analyzer has a section in the manual."""
    kind = load(name).Settings
    assert issubclass(kind, AnalyzerSettings)
    assert kind() == kind()
    text = (kind.__doc__ or "").strip().split("\n\n")[0]
    assert text.endswith("."), text
    for key, field in kind.model_fields.items():
        assert (field.description or "").endswith("."), key
        assert not field.is_required(), key
    with pytest.raises(ValidationError):
        kind(no_such_key=1)
    with pytest.raises(ValidationError):
        kind().enabled = False
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    assert name not in ANALYZERS.builtin or re.search(rf"^## {name}$", page, re.MULTILINE)


@pytest.mark.parametrize("name", ANALYZERS)
def test_actions_are_documented(name: str) -> None:
    """One sentence each, and one for each argument: they become help texts and OpenAPI."""
    module = load(name)
    assert (module.__doc__ or "").strip().split("\n\n")[0].endswith((".", ":"))
    for action in module.ACTIONS.values():
        assert re.fullmatch(r"[A-Z].*\.", action.help), action.help
        assert issubclass(action.arguments, Arguments)
        for field in msgspec.json.schema_components([action.arguments])[1][action.arguments.__name__][
            "properties"
        ].values():
            assert field.get("description", "").endswith("."), (name, field)


@pytest.mark.parametrize("name", ANALYZERS)
def test_actions_on_an_empty_store(name: str, tmp_path: Path) -> None:
    """What can be asked without arguments either answers in JSON or says why not."""
    store = Store(tmp_path)
    for action in load(name).ACTIONS.values():
        try:
            arguments = action.arguments()
        except TypeError:  # it has some that must be given
            continue
        with contextlib.suppress(ActionError):
            result = action.run(Repository(store), arguments)
            json.dumps(msgspec.to_builtins(result), allow_nan=False)
    store.close()
