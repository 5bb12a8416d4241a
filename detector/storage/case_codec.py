"""A case file as JSON and bytes, and back, with a check that the two fit together."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.incidents.case import ARRAYS, Case, Stage
from detector.storage.arrays import Unreadable, pack, unpack

VERSION = 1


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a case file that is JSON."""

    incident: str
    stage: Stage
    time: float
    opened: float
    onset: float | None
    step: float
    names: tuple[str, ...]
    members: tuple[str, ...]
    suspected: tuple[str, ...]
    onsets: dict[str, float]
    lengths: tuple[int, ...]
    threshold: float
    event_threshold: float
    components: tuple[str, ...]
    windows: tuple[str, ...]  # nodes whose values are kept
    plain: bool = False
    version: int = VERSION


_SHARED = tuple(name for name in _Meta.__struct_fields__ if name not in ("windows", "version"))
_WINDOWS = ("reference", "recent", "times")


def encode(case: Case) -> tuple[bytes, bytes]:
    """JSON and packed arrays; the same case gives the same bytes."""
    nodes = tuple(case.recent)
    shared = {name: getattr(case, name) for name in _SHARED} | {"onsets": dict(case.onsets)}
    meta = _Meta(**shared, windows=nodes)
    arrays: dict[str, NDArray[Any]] = {name: getattr(case, name) for name in ARRAYS}
    for name in _WINDOWS:  # one array of all nodes, and how much of it belongs to each
        parts = [getattr(case, name)[node] for node in nodes]
        arrays[name] = np.concatenate(parts) if parts else np.zeros((0, len(case.components)))
        arrays[f"{name}_lengths"] = np.array([len(part) for part in parts], np.int32)
    for name in ("centre", "scale"):
        rows = [getattr(case, name)[node] for node in nodes]
        arrays[name] = np.array(rows, np.float64).reshape(len(nodes), len(case.components))
    return msgspec.json.encode(meta), pack(arrays)


def decode(meta: bytes, body: bytes) -> Case:
    """What `encode` was given; `Unreadable` if the bytes do not fit together."""
    try:
        said = msgspec.json.decode(meta, type=_Meta)
        if said.version != VERSION:
            raise Unreadable(f"case file of version {said.version}, this detector reads {VERSION}")
        arrays = unpack(body)
        parts: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
        for name in _WINDOWS:
            ends = np.cumsum(arrays[f"{name}_lengths"])[:-1]
            split = np.split(arrays[name], ends) if said.windows else []
            parts[name] = dict(zip(said.windows, split, strict=True))
        for name in ("centre", "scale"):
            parts[name] = dict(zip(said.windows, arrays[name], strict=True))
        case = Case(**{name: getattr(said, name) for name in _SHARED}, **parts)
        _check(case)
    except Unreadable:
        raise
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"case file cannot be read: {error}") from None
    return case


def _check(case: Case) -> None:
    n, d, s = len(case.names), len(case.components), len(case.lengths)
    shapes = {"statistic": (n,), "event_statistic": (n,), "increments": (n,), "levels": (n, s),
              "edges": (len(case.weights), 2)}  # fmt: skip
    for name, shape in shapes.items():
        if getattr(case, name).shape != shape:
            raise Unreadable(f"case file: {name} has shape {getattr(case, name).shape}, expected {shape}")
    if case.edges.size and not (case.edges.min() >= 0 and case.edges.max() < n):
        raise Unreadable("case file: a link leads out of the network")
    for node, values in case.recent.items():
        if values.shape != (len(case.times[node]), d) or case.reference[node].shape[1:] != (d,):
            raise Unreadable(f"case file: the windows of {node} do not fit together")
    known = set(case.names)
    if not (known.issuperset(case.members) and known.issuperset(case.recent)):
        raise Unreadable("case file: a node that is not in the network")
