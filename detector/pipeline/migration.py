"""States that earlier versions have written, under the names of this one.

1   before version 0.1: features of windows in single precision, which the windows take over; no case files;
    a tail that was fitted to heights, not to their squares
2   version 0.1: one block for all of preprocessing, the spike filter beside it; few settings told
3   each part under its own name, each step of preprocessing too; all settings that the state rests on
"""

from __future__ import annotations

import math

import numpy as np

from detector.stateful import Arrays, Meta, part, under
from estimators.timeseries.extremes import Tail

VERSION = 3

_STEPS = {  # names of version 2: names of version 3
    "profile": "seasonal.profile",
    "centre": "scale.centre",
    "scale": "scale.scale",
    "source": "scale.source",
    "centre_difference": "difference.centre",
    "scale_difference": "difference.scale",
    "clips": "clip.clipped",
    "ar": "whiten.ar",
    "order": "whiten.order",
    "centre_white": "whiten.centre",
    "scale_white": "whiten.scale",
    "learnt": "learnt",
}
_LAGS = {
    f"{step}_{name}": f"{step}.lags.{name}"
    for step in ("difference", "whiten", "embed")
    for name in ("ring", "head", "count")
}
_FEATURES = ("atoms", "projection", "widths", "known")


def migrated(arrays: Arrays, meta: Meta) -> tuple[Arrays, Meta]:
    """The same state with names as of `VERSION`."""
    if meta["version"] == VERSION:
        return arrays, meta
    kept = ("align", "history", "cases", "graph", "engine")
    made = {name: a for name, a in arrays.items() if name.split(".")[0] in kept or "." not in name}
    value, start, low = meta["coverage"]
    meta = meta | {
        "version": VERSION,
        "history": {},
        "cold_start": {},
        "coverage": {"value": value, "start": start, "low": low},
        "cases": {"pending": meta.get("cases", [])},
    }
    if meta["phase"] == "learning":
        return made, meta
    if newcomers := part("newcomers", arrays):
        made |= under("cold_start", newcomers | {"nodes": np.array(meta["unlearnt"], np.int32)})
    meta["settings"] = settings_of(meta)
    meta["report"] = _report(meta["report"])
    meta["dim_out"] = meta["dim"] * meta["preprocess"]["settings"]["embed"]
    preprocess, meta["preprocess"] = _preprocess(arrays, meta)
    engine, meta["engine"] = _engine(arrays, meta)
    return made | under("preprocess", preprocess) | under("engine", engine), meta


def _preprocess(arrays: Arrays, meta: Meta) -> tuple[Arrays, Meta]:
    old, said = part("preprocess", arrays), meta["preprocess"]
    made = {(_STEPS | _LAGS)[name]: array for name, array in old.items()}
    nothing = np.zeros_like(old["centre"])
    seasonal = said["period"] > 0.0
    made["seasonal.level"], made["scale.offset"] = (
        (old["centre"], nothing) if seasonal else (nothing, old["centre"])
    )
    made["whiten.clipped"] = np.zeros_like(old["clips"])  # they were counted together
    steps: Meta = {
        "seasonal": {"period": said["period"]},
        "scale": {},
        "difference": {"lag": said["lag"]},
        "clip": {},
        "whiten": {},
        "embed": {},
    }
    if screen := part("screen", arrays):
        made |= under("screen", screen)
        steps["screen"] = {"held": "as read"}
    return made, {"dim": meta["dim"], "warnings": said["warnings"], "steps": steps}


def settings_of(meta: Meta) -> Meta:
    """Those that a state of any version tells it rests on.

    Before version 3 nothing was told of `alarm` and `incidents`, which are taken as they are now.
    """
    if "settings" in meta:
        return dict(meta["settings"])
    align, preprocess = {"step": meta["align"]["step"]}, meta["preprocess"]["settings"]
    groups = {"align": align, "preprocess": preprocess}
    windows = meta["windows"] | {"tests": list(meta["windows"]["tests"])}  # a tuple, if it was never JSON
    return groups | {"windows": windows, "estimator": meta["estimator"]}


def _report(report: Meta) -> Meta:
    """With a tail that gives the threshold that was in use, whatever the tail was fitted to."""
    tail, promised, used = Tail(**report["tail"]), report["promised_per_tick"], report["event_threshold"]
    if (
        not promised
        or not 0.0 < promised < tail.rate
        or math.isclose(tail.threshold(promised), used, rel_tol=1e-9)
    ):
        return report
    scale = (used * used - tail.base * tail.base) / (2.0 * math.log(tail.rate / promised))
    return report | {"tail": report["tail"] | {"shape": 0.0, "scale": scale}}


def _engine(arrays: Arrays, meta: Meta) -> tuple[Arrays, Meta]:
    if "features" not in meta:
        return {}, {}
    features = part("features", arrays)
    made = {name: features[name] for name in _FEATURES if name in features}
    said = (
        meta["features"]
        | {"outside": True}
        | {key: meta[key] for key in ("choice", "coupling", "self_weight")}
    )
    return made | under("null", part("quiet", arrays)), said
