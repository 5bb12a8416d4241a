"""A case file: all that the pipeline knows of one incident at one tick, as plain arrays and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from detector.aftermath.packing import Unreadable, pack, unpack
from estimators.graph import Graph

Stage = Literal["early", "settled"]
STAGES: tuple[Stage, ...] = get_args(Stage)
VERSION = 1

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CaseFile:
    """One incident, ``early`` or ``settled``. Values are preprocessed: units of each node's quiet spread.

    Arrays over N follow ``names``: the whole network, or of a very large one the part around the incident.
    NaN is "no verdict". Windows are kept of the strongest members and of some neighbours outside.
    """

    incident: str
    stage: Stage
    time: float  # of the tick, in the stream's own time, as all times here
    opened: float
    onset: float | None
    step: float  # time between ticks
    names: tuple[str, ...]
    edges: NDArray[np.int32]  # (E, 2) rows of `names`, each link once
    weights: Floats  # (E,)
    members: tuple[str, ...]  # nodes of the incident by the thresholds, largest peak first
    suspected: tuple[str, ...]  # those of them that only the evidence pooled around them names
    onsets: Mapping[str, float]  # of members whose own begin is known
    statistic: Singles  # (N,) of the node itself
    event_statistic: Singles  # (N,) pooled around it
    levels: Singles  # (N, S) standardised score per test window
    lengths: tuple[int, ...]  # (S,) of the test windows, in samples
    increments: Singles  # (N,) statistic now less what it was before the onset
    threshold: float
    event_threshold: float
    components: tuple[str, ...]  # (d,)
    reference: Mapping[str, Singles]  # node: (n, d) "before", in time order
    recent: Mapping[str, Singles]  # node: (m, d) longest test window, in time order
    times: Mapping[str, Floats]  # node: (m,) of `recent`
    centre: Mapping[str, Floats]  # node: (d,) original units = centre + scale value; NaN: no way back
    scale: Mapping[str, Floats]
    plain: bool = False  # values are only centred and scaled, so that each has a way back

    @property
    def key(self) -> tuple[str, Stage]:
        return self.incident, self.stage

    @property
    def begin(self) -> float:
        """The onset, or the opening where the onset is not known."""
        return self.opened if self.onset is None else self.onset

    @property
    def certain(self) -> tuple[str, ...]:
        """Members named by their own statistic."""
        doubtful = set(self.suspected)
        return tuple(name for name in self.members if name not in doubtful)

    @property
    def size(self) -> int:
        """Bytes of memory, nearly."""
        held: list[NDArray[Any]] = [getattr(self, name) for name in _ARRAYS]
        for windows in (self.reference, self.recent, self.times):
            held += windows.values()
        return sum(array.nbytes for array in held) + 20 * len(self.names)

    @cached_property
    def index(self) -> dict[str, int]:
        """Row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def graph(self) -> Graph:
        """The links, as the estimators take them."""
        n = len(self.names)
        u, v = self.edges[:, 0], self.edges[:, 1]
        ends = (np.concatenate([u, v]), np.concatenate([v, u]))
        return Graph.of(sp.csr_array((np.tile(self.weights, 2), ends), shape=(n, n)))

    def after(self, name: str) -> Singles:
        """The recent values of a node from the onset on."""
        return self.recent[name][self.times[name] >= self.begin]


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
_ARRAYS = ("edges", "weights", "statistic", "event_statistic", "levels", "increments")
_WINDOWS = ("reference", "recent", "times")


def encode(case: CaseFile) -> tuple[bytes, bytes]:
    """JSON and npz; the same case gives the same bytes."""
    nodes = tuple(case.recent)
    shared = {name: getattr(case, name) for name in _SHARED} | {"onsets": dict(case.onsets)}
    meta = _Meta(**shared, windows=nodes)
    arrays: dict[str, NDArray[Any]] = {name: getattr(case, name) for name in _ARRAYS}
    for name in _WINDOWS:  # one array of all nodes, and how much of it belongs to each
        parts = [getattr(case, name)[node] for node in nodes]
        arrays[name] = np.concatenate(parts) if parts else np.zeros((0, len(case.components)))
        arrays[f"{name}_lengths"] = np.array([len(part) for part in parts], np.int32)
    for name in ("centre", "scale"):
        rows = [getattr(case, name)[node] for node in nodes]
        arrays[name] = np.array(rows, np.float64).reshape(len(nodes), len(case.components))
    return msgspec.json.encode(meta), pack(arrays)


def decode(meta: bytes, body: bytes) -> CaseFile:
    """What `encode` was given; `Unreadable` if the bytes do not fit together."""
    try:
        said = msgspec.json.decode(meta, type=_Meta)
        if said.version != VERSION:
            raise Unreadable(f"case file of version {said.version}, this detector reads {VERSION}")
        arrays = unpack(body)
        parts: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        for name in _WINDOWS:
            ends = np.cumsum(arrays[f"{name}_lengths"])[:-1]
            split = np.split(arrays[name], ends) if said.windows else []
            parts[name] = dict(zip(said.windows, split, strict=True))
        for name in ("centre", "scale"):
            parts[name] = dict(zip(said.windows, arrays[name], strict=True))
        case = CaseFile(**{name: getattr(said, name) for name in _SHARED}, **parts)
        _check(case)
    except Unreadable:
        raise
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"case file cannot be read: {error}") from None
    return case


def _check(case: CaseFile) -> None:
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
