"""The dictionary and features that all boxes of a network share: learnt by one, shipped as a file.

A node's parameters are weights of features, so they mean something to another box only if the features are
the same. The file is JSON, with typical values in units of their spread and nothing that runs; its
fingerprint is part of every message.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from detector.engines.base import Shared
from detector.engines.calibration_report import Choice
from detector.settings.changes import learnt_with
from detector.settings.core import Settings
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.kernels import KERNELS

FORMAT = "detector-edge-dictionary"
VERSION = 1
MAX_BYTES = 64 * 2**20
Row = Annotated[list[float], Meta(max_length=1000)]


class SharedDictionary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `detector edge export` writes."""

    format: str = FORMAT
    version: int = VERSION
    settings: dict[str, Any]  # on which a learnt state rests: they must be the same in all boxes
    dim: int  # components of a preprocessed value
    kernel: str
    sigma: float
    outside: bool
    choice: dict[str, float]
    atoms: Annotated[list[Row], Meta(min_length=1, max_length=10_000)]
    projection: Annotated[list[Row], Meta(min_length=1, max_length=10_000)]
    widths: list[float] | None = None

    @classmethod
    def of(cls, shared: Shared, settings: Settings) -> SharedDictionary:
        """That of an engine which has learnt with ``settings``."""
        features, dictionary = shared.features, shared.features.dictionary
        return cls(
            settings=_settled(settings),
            dim=dictionary.atoms.shape[1],
            kernel=dictionary.kernel,
            sigma=float(dictionary.sigma),
            outside=features.outside,
            choice={name: float(value) for name, value in vars(shared.choice).items()},
            atoms=dictionary.atoms.tolist(),
            projection=features.projection.tolist(),
            widths=None if dictionary.widths is None else dictionary.widths.tolist(),
        )

    @classmethod
    def read(cls, path: Path) -> SharedDictionary:
        """ValueError says what is wrong with the file."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror or error}") from None
        if len(data) > MAX_BYTES:
            raise ValueError(f"{path}: {len(data)} bytes, at most {MAX_BYTES} are read")
        try:
            head = msgspec.json.decode(data)
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise ValueError("not written by `detector edge export`")
            if head.get("version") != VERSION:
                raise ValueError(f"of version {head.get('version')!r}, this detector reads {VERSION}")
            found = msgspec.convert(head, cls)
            found.features(), found.chosen()
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from None
        return found

    def encode(self) -> bytes:
        """As the file has it; floats are exact."""
        return msgspec.json.format(msgspec.json.encode(self), indent=0) + b"\n"

    def features(self) -> Nystroem:
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel {self.kernel!r} is not one of {', '.join(KERNELS)}")
        atoms, projection = np.array(self.atoms, np.float64), np.array(self.projection, np.float64)
        widths = None if self.widths is None else np.array(self.widths, np.float64)
        if atoms.ndim != 2 or atoms.shape[1] != self.dim:
            raise ValueError(f"atoms: expected rows of {self.dim} numbers")
        if projection.ndim != 2 or projection.shape[0] != len(atoms):
            raise ValueError(f"projection: expected {len(atoms)} rows of one length")
        made = Nystroem(Dictionary(atoms, self.sigma, self.kernel, widths), rank=1, outside=self.outside)
        made.projection = np.ascontiguousarray(projection)
        return made

    def chosen(self) -> Choice:
        return Choice(**self.choice)

    def check(self, settings: Settings, dim: int) -> None:
        """ValueError if what it was learnt with is not what this box does."""
        mine = _settled(settings)
        for group, keys in self.settings.items():
            for key, value in keys.items():
                if mine.get(group, {}).get(key) != value:
                    now = mine.get(group, {}).get(key)
                    said = f"made with {group}.{key} {value!r}, which is {now!r} here"
                    raise ValueError(f"edge.dictionary: {said}; it must be the same in all boxes")
        if dim != self.dim:
            raise ValueError(f"edge.dictionary: for values of {self.dim} components, they have {dim} here")

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


def _settled(settings: Settings) -> dict[str, Any]:
    """Settings that give numbers their meaning; who computes is free."""
    found = learnt_with(settings)
    found.pop("engine", None)
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return made
