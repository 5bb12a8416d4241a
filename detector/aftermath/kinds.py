"""The kinds of findings: one line each. A kind is a module with two names.

def examiner(settings: AftermathSettings, shelf: Shelf) -> Examiner | None
    Who examines; None if it is switched off or has nothing to go by yet, such as a model. Called at the
    start and after every action of the kind, in the desk's thread.
ACTIONS: dict[str, Action]
    What people can have done with it; may be empty.
def relearn(settings: AftermathSettings) -> Action | None
    Only where labels teach: the action that is done, without arguments, after a new label; None: not wanted.
"""

from __future__ import annotations

import importlib
from typing import Any

from detector.aftermath.actions import Action, ActionError
from detector.aftermath.examiner import Examiner
from detector.aftermath.settings import AftermathSettings
from detector.aftermath.shelf import Shelf

KINDS: dict[str, str] = {
    "adapt": "detector.aftermath.adapt",
    "course": "detector.aftermath.course",
    "explanation": "detector.aftermath.explanation",
    "footprint": "detector.aftermath.footprint",
    "novelty": "detector.aftermath.novelty",
    "regime": "detector.aftermath.regime",
    "verdict": "detector.aftermath.verdict",
}


def kind_module(kind: str) -> Any:
    return importlib.import_module(KINDS[kind])


def build_examiner(kind: str, settings: AftermathSettings, shelf: Shelf) -> Examiner | None:
    built: Examiner | None = kind_module(kind).examiner(settings, shelf)
    return built


def relearning(settings: AftermathSettings) -> dict[str, Action]:
    """What is to be done after a new label, by kind."""
    wanted = {kind: getattr(kind_module(kind), "relearn", lambda _: None)(settings) for kind in KINDS}
    return {kind: action for kind, action in wanted.items() if action is not None}


def find_action(kind: str, name: str) -> Action:
    """ActionError names the known ones."""
    if kind not in KINDS:
        raise ActionError(f"there is no kind {kind!r}; known: {', '.join(KINDS) or 'none'}")
    actions: dict[str, Action] = kind_module(kind).ACTIONS
    if name not in actions:
        raise ActionError(f"{kind} has no action {name!r}; known: {', '.join(actions) or 'none'}")
    return actions[name]
