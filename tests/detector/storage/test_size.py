"""As docs/state.md says: with the defaults and every part full, the database of 100 nodes stays small."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from detector.events.model import Event, Labels, detector_event
from detector.incidents.case import Case
from detector.pipeline.signal_capture import COARSE, FINE, ROWS, Block, Columns
from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.service import StateSettings
from detector.storage import cases
from detector.storage.bundle import Bundle
from detector.storage.console import remarks
from detector.storage.console.signals import Signal
from detector.storage.database import FILE
from detector.storage.journal import Entry
from detector.storage.records import Record, SetAside
from detector.storage.snapshot import Snapshot
from detector.storage.store import Store
from detector.storage.upkeep import Bounds
from tests.detector.storage.test_cases import case

MB = 10**6
PROMISED = 100 * MB
NODES = tuple(f"node-{v:03}" for v in range(100))
SNAPSHOT = 2_600_000  # bytes: 100 nodes, one component, rank 16
RECORD = 1100  # bytes of one, as in the soak
SHARES = (1.0, 0.04, 0.04, 0.04)  # of every part that comes between two snapshots
RNG = np.random.default_rng(3)


def noise(*shape: int) -> np.ndarray:
    """Nothing of it can be compressed away."""
    return RNG.standard_normal(shape).astype(np.float32)


def warnings(name: str, size: int) -> list[Record]:
    padding = "x" * (RECORD - 530)
    events = (detector_event("detector.warning", 1e9, f"{name} {k} {padding}") for k in range(size // RECORD))
    return [Record.of(event) for event in events]


def labelled(name: str, size: int) -> list[Record]:
    return [
        Record.of(
            Event(id=f"{name}-{k}-label", event="incident.labelled", time=1e9, summary="y" * (RECORD - 530),
                  incident=f"{name}-{k}", labels=Labels(time=1e9, alarm="true"))
        )
        for k in range(size // RECORD)
    ]  # fmt: skip


def case_file(incident: str) -> Case:
    """Of 35 kB, as in the soak."""
    values = {name: noise(1400, 1) for name in ("a", "b", "c")}
    return dataclasses.replace(case(incident), reference=values, recent=values)


def case_files(incidents: Sequence[str], size: int) -> list[Case]:
    return [case_file(name) for name in incidents[-(size // 35_000) :]]


def blocks(number: int, size: int) -> list[Block]:
    """Signals of all nodes in both tiers."""
    width = Columns(1).width
    count = max(1, size // (2 * 4 * ROWS * len(NODES) * width))
    return [
        Block(tier, (number * count + k) * ROWS * 10.0, 10.0, NODES, noise(ROWS, len(NODES), width))
        for tier in (FINE, COARSE)
        for k in range(count)
    ]


def keep_signals(store: Store, number: int, size: int) -> None:
    """Of incidents."""
    body = Signal(np.arange(1200.0), noise(1200, Columns(1).width)).pack()
    rows = [(f"{number}-{k}", "a", 0, number, body) for k in range(size // len(body))]
    insert = "INSERT INTO incident_signal (incident, node, place, until, body) VALUES (?,?,?,?,?)"
    store.write(lambda connection: connection.executemany(insert, rows))


def remark(store: Store, size: int) -> None:
    for _ in range(size // 4000):
        store.write(remarks.add_comment, "i", 1e9, "Ada", "z" * 3900)
        store.write(remarks.add_deed, 1e9, "Ada", "silence", "s", {"nodes": "z" * 3900})


def learn(store: Store, number: int) -> None:
    for kind in ("regime", "footprint", "triage"):
        store.write(cases.write_model, kind, "x", float(number), {}, {"x": noise(25_000)})


def test_the_defaults_with_every_part_full(tmp_path: Path) -> None:
    settings, diagnosis = StateSettings(), DiagnosisSettings()
    bounds = Bounds.of(settings, diagnosis)
    assert bounds == Bounds()
    store = Store(tmp_path, bounds)
    # A sink that is dead, whose outbox holds old records, and refused some more before.
    refused = warnings("refused", bounds.set_aside_bytes)
    store.commit(Bundle(records=refused, sinks=("dead",)))
    store.commit(Bundle(set_aside=[SetAside("dead", one.id, 1.0, 8, "422") for one in refused]))
    store.commit(Bundle(records=warnings("waiting", settings.outbox_size), sinks=("dead",)))
    largest = 0
    for number, share in enumerate(SHARES):
        said = labelled(f"labelled{number}", int(share * bounds.labelled_bytes))
        unlabelled = [f"unlabelled{number}-{k}" for k in range(1000)]
        filed = case_files(unlabelled, int(share * bounds.case_bytes))
        filed += case_files([str(one.incident) for one in said], int(share * bounds.labelled_case_bytes))
        bundles = [
            Bundle(records=warnings(f"round {number}", int(share * bounds.record_bytes)) + said),
            Bundle(cases=filed, analyzed=[one.key for one in filed]),
            Bundle(blocks=blocks(number, int(share * bounds.signal_bytes))),
        ]
        entries = [
            Entry("samples", RNG.bytes(2**16), "a", {}, 3000) for _ in range(settings.journal_max >> 16)
        ]
        bundles += [Bundle(entries[begin : begin + 16]) for begin in range(0, len(entries), 16)]
        bundles.append(Bundle(snapshot=Snapshot({"x": RNG.integers(0, 256, SNAPSHOT, np.uint8)}, {}, {})))
        keep_signals(store, number, int(share * bounds.signal_bytes / 2))
        remark(store, int(share * remarks.SIZE))
        learn(store, number)
        for bundle in bundles:
            store.commit(bundle)
            largest = max(largest, sum(path.stat().st_size for path in tmp_path.glob(f"{FILE}*")))
    full = {
        "journal": settings.journal_max, "records": bounds.record_bytes + bounds.labelled_bytes
        + settings.outbox_size + bounds.set_aside_bytes, "labels": bounds.labelled_bytes,
        "cases": bounds.case_bytes + bounds.labelled_case_bytes, "signals": 1.5 * bounds.signal_bytes,
        "comments": remarks.SIZE, "audit": remarks.SIZE,
    }  # fmt: skip
    store.close()
    for part, size in full.items():
        assert 0.93 * size <= store.sizes[part] <= 1.01 * size, part
    assert largest <= PROMISED
