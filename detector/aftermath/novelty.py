"""Whether the values since the onset are new, or were seen before and only became more frequent.

    n1: 97 % of the values since the onset lie outside of what the reference has seen; n2: 4 %

By the Christoffel function of each member's reference. A model that was taught on the reference knows nothing
about new values: `detector adapt` can weight pairs that it has, and not invent those it lacks.
"""

from __future__ import annotations

import numpy as np

from detector.adaptation import within
from detector.aftermath.actions import Action
from detector.aftermath.casefile import CaseFile, Stage
from detector.aftermath.examiner import Examiner, Finding
from detector.aftermath.settings import AftermathSettings
from detector.aftermath.shelf import Shelf
from detector.events import rounded

ACTIONS: dict[str, Action] = {}
LEAST = 8  # values past the onset
LEVEL = 0.99  # a value is new if it has less in common with the reference than so many of its own
MOST = 20  # members examined, strongest first
TOLD = 3  # in the summary
LEAST_NEW = 0.1  # below, a sample of the reference itself might show as much


def examiner(settings: AftermathSettings, shelf: Shelf) -> Examiner | None:
    return Novelty() if settings.novelty.enabled else None


class Novelty:
    """Needs no model."""

    kind = "novelty"
    stages: frozenset[Stage] = frozenset({"settled"})

    def examine(self, case: CaseFile) -> Finding | None:
        names = [name for name in case.certain or case.members if name in case.recent][:MOST]
        new = {name: share for name in names if (share := new_share(case, name)) is not None}
        if not new:
            return None
        ordered = sorted(new, key=lambda name: -new[name])
        told = "; ".join(f"{name}: {new[name]:.0%}" for name in ordered[:TOLD])
        if new[ordered[0]] >= LEAST_NEW:
            words = f"values outside of what the reference has seen: {told} of those since the onset"
        else:
            words = "all values since the onset were seen before; they only became more or less frequent"
        nodes = [{"name": name, "new": rounded(new[name])} for name in ordered]
        return Finding(self.kind, words, {"nodes": nodes})


def new_share(case: CaseFile, name: str) -> float | None:
    """Share of a member's values since the onset that are new; None if too little is known."""
    reference, after = case.reference[name].astype(np.float64), case.after(name).astype(np.float64)
    if len(after) < LEAST or len(reference) < LEAST:
        return None
    return 1.0 - float(within(reference, after, LEVEL).mean())
