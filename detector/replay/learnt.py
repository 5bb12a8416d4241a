"""A state that holds what was learnt and nothing else yet: `detector run` goes on from it."""

from __future__ import annotations

import time

from detector.pipeline.pipeline import Pipeline
from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.service import StateSettings
from detector.storage.backup import copy_learnt
from detector.storage.bundle import Bundle
from detector.storage.snapshot import Snapshot
from detector.storage.store import Store
from detector.storage.upkeep import Bounds


def save_learnt(state: StateSettings, diagnosis: DiagnosisSettings, pipeline: Pipeline) -> None:
    """In the place of what the folder held."""
    folder = state.folder()
    store = Store(folder, Bounds.of(state, diagnosis))
    try:
        store.discard()
        arrays, meta = pipeline.state()
        store.commit(Bundle(snapshot=Snapshot(arrays, meta, created=time.time())))
        if state.backup_keep:
            copy_learnt(folder, state.backup_keep)
    finally:
        store.close()
