"""Which kinds of change a configuration cannot see, in words: silence about them means nothing."""

from __future__ import annotations

from detector.settings.core import Settings
from detector.settings.span import worded


def blind_spots(settings: Settings, dim: int, differenced: bool | None = None) -> list[str]:
    """``differenced``: whether learning has decided so; None: as the settings say."""
    preprocess, windows = settings.preprocess, settings.windows
    found = []
    if dim == 1 and preprocess.embed == 1:
        found.append("changes of correlation: a sample has one component")
    if differenced is None:
        differenced = isinstance(preprocess.difference, int) and preprocess.difference > 0
    # The engines of density ratios watch plain levels beside what is differenced.
    levels = settings.estimator.level_charts and settings.estimator.name in ("grulsif", "pool")
    if differenced and not levels:
        found.append("lasting changes of level: values are differenced, so that only the jump itself shows")
    if windows.mode == "sliding":
        found.append(
            f"drift that takes much longer than {windows.reference + windows.tests[-1]} samples: "
            "the reference follows it (windows.mode: fixed shows it)"
        )
    found.append(f"changes that last less than about {windows.tests[0]} samples")
    if settings.estimator.name in ("adwin", "kswin", "page-hinkley"):
        found.append(f"changes that {settings.estimator.name} does not see in one component of one node")
    return found


def spans(settings: Settings, step: float) -> list[str]:
    """How long what is waited for, with the defaults that follow from the windows."""
    incidents = settings.incidents.resolved(settings.windows)
    after = "accepted as the new normal" if incidents.after_hold == "accept" else "let go"
    return [
        f"incidents.hold_for: a change that stays is {after} after {worded(incidents.hold_for, step)}",
        f"incidents.clear_after: back to before for {worded(f'{incidents.clear_after} ticks', step)}",
        f"incidents.update_every: {worded(incidents.update_every, step)}",
        f"incidents.cool_down: {worded(incidents.cool_down, step)}",
    ]
