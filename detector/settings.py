"""What the streaming core is told: one group of settings per room, with the names of config.yaml.

align        samples to ticks                  detector/ticks.py (AlignSettings)
preprocess   values to units of quiet spread   detector/quiet.py (PreprocessSettings)
windows      reference and test windows        here
estimator    features, graph coupling, solver  here
alarm        budget, learning, levels          here
incidents    life cycle of incidents           detector/verdict.py (IncidentSettings)
aftermath    when case files are taken         detector/aftermath/settings.py (CaseSettings)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from connectors.units import parse_duration
from detector.aftermath.settings import CaseSettings
from detector.quiet import PreprocessSettings
from detector.ticks import AlignSettings
from detector.verdict import IncidentSettings

ESTIMATORS = ("grulsif", "pool", "adwin", "kswin", "page-hinkley")
DICTIONARIES = ("coherence", "sparse")


@dataclass(frozen=True)
class Budget:
    """False incidents that the whole network may open, per period of time or per number of ticks."""

    count: float = 1.0
    period: float = 30 * 86400.0
    unit: Literal["seconds", "ticks"] = "seconds"

    _WORDS = re.compile(r"\s*([0-9.eE+]+)\s+per\s+(.+?)\s*")

    def __post_init__(self) -> None:
        if not (self.count > 0.0 and math.isfinite(self.count) and self.period > 0.0):
            raise ValueError(f"budget: needs a positive count and period, got {self}")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``1 per 30d``, ``2 per week``-like durations, or ``1 per 10000 ticks``."""
        match = cls._WORDS.fullmatch(text)
        if match is None:
            raise ValueError(f"budget: expected words like '1 per 30d' or '1 per 10000 ticks', got {text!r}")
        count, period = float(match[1]), match[2]
        if period.endswith(("ticks", "tick")):
            return cls(count, float(period.removesuffix("s").removesuffix("tick")), "ticks")
        return cls(count, parse_duration(period))

    def per_tick(self, step: float) -> float:
        """False incidents per tick of ``step`` seconds."""
        return self.count / (self.period if self.unit == "ticks" else self.period / step)

    def __str__(self) -> str:
        if self.unit == "ticks":
            return f"{self.count:g} per {self.period:g} ticks"
        for name, seconds in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
            if self.period >= seconds:
                return f"{self.count:g} per {self.period / seconds:g}{name}"
        return f"{self.count:g} per {self.period:g}s"


@dataclass(frozen=True)
class WindowSettings:
    """Lengths in samples of a node."""

    reference: int = field(default=250, metadata={"help": 'Samples of a node that stand for "before".'})
    mode: Literal["sliding", "fixed"] = field(
        default="sliding",
        metadata={
            "help": "sliding: the reference follows the stream; fixed: it stays the first one, which shows "
            "slow drift.",
        },
    )
    tests: tuple[int, ...] = field(
        default=(5, 10, 25, 100, 200),
        metadata={
            "help": 'Lengths of the test windows, the samples that stand for "now": short ones are fast, '
            "long ones see small changes.",
        },
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "tests", tuple(self.tests))
        if self.reference < 20:
            raise ValueError(f"reference: must be at least 20 samples, got {self.reference}")
        if self.mode not in ("sliding", "fixed"):
            raise ValueError(f"mode: must be sliding or fixed, got {self.mode!r}")
        if not self.tests or list(self.tests) != sorted(set(self.tests)) or self.tests[0] < 2:
            raise ValueError(f"tests: lengths must be increasing and at least 2, got {list(self.tests)}")


@dataclass(frozen=True)
class EstimatorSettings:
    """``None`` is chosen while learning, by the power to see injected changes under a limit on leakage."""

    name: str = field(
        default="grulsif",
        metadata={
            "help": "grulsif: density ratios coupled over the graph; pool: the same without the graph; "
            "adwin, kswin, page-hinkley: one classic detector per node.",
        },
    )
    alpha: float = field(
        default=0.1,
        metadata={"help": 'Share of "now" mixed into "before", which bounds the ratio by its inverse.'},
    )
    sigma: float | None = field(
        default=None,
        metadata={
            "help": "Kernel width, in units of the median distance between values; null: chosen while "
            "learning.",
        },
    )
    coupling: float | None = field(
        default=None,
        metadata={"help": "Pull of the neighbours against a node's own data; null: chosen while learning."},
    )
    ridge: float | None = field(
        default=None, metadata={"help": "Weight of the ridge penalty; null: chosen while learning."}
    )
    dictionary: str = field(
        default="coherence",
        metadata={
            "help": "coherence: many points, one kernel width; sparse: few points with widths of "
            "their own, for values with modes of very different width.",
        },
    )
    rank: int = field(default=32, metadata={"help": "Most features."})
    atoms: int = field(
        default=256, metadata={"help": "Most points of the dictionary from which features are made."}
    )
    sweeps: int = field(default=1, metadata={"help": "Passes of the solver over the nodes, per tick."})

    def __post_init__(self) -> None:
        if self.name not in ESTIMATORS:
            raise ValueError(f"name: must be one of {', '.join(ESTIMATORS)}, got {self.name!r}")
        if self.dictionary not in DICTIONARIES:
            raise ValueError(f"dictionary: must be one of {', '.join(DICTIONARIES)}, got {self.dictionary!r}")
        if not 0.0 <= self.alpha < 1.0:
            raise ValueError(f"alpha: must be in [0, 1), got {self.alpha}")
        for name in ("sigma", "ridge"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name}: must be positive, got {value}")
        if self.coupling is not None and not self.coupling >= 0.0:
            raise ValueError(f"coupling: must not be negative, got {self.coupling}")
        for name, least in (("rank", 2), ("atoms", 1), ("sweeps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")


@dataclass(frozen=True)
class AlarmSettings:
    """One knob in words: how many false incidents the whole network may open."""

    budget: Budget = field(
        default_factory=Budget,
        metadata={
            "help": 'False incidents that the whole network may open: "1 per 30d", "2 per 1w", "1 per 10000 '
            'ticks".',
        },
    )
    learn: int = field(
        default=3000, metadata={"help": "Samples per node to learn from, before the first verdict."}
    )
    release: float = field(
        default=0.7, metadata={"help": "An alarmed node is cool below this share of its threshold."}
    )
    seed: int = field(default=0, metadata={"help": "Seed of everything random while learning."})

    def __post_init__(self) -> None:
        budget: Any = self.budget
        if isinstance(budget, str):
            object.__setattr__(self, "budget", Budget.parse(budget))
        if self.learn < 200:
            raise ValueError(f"learn: needs at least 200 samples per node, got {self.learn}")
        if not 0.0 < self.release <= 1.0:
            raise ValueError(f"release: must be in (0, 1], got {self.release}")


@dataclass(frozen=True)
class Settings:
    """All groups; ``of`` takes nested mappings with the names of config.yaml."""

    align: AlignSettings = field(default_factory=AlignSettings)
    preprocess: PreprocessSettings = field(default_factory=PreprocessSettings)
    windows: WindowSettings = field(default_factory=WindowSettings)
    estimator: EstimatorSettings = field(default_factory=EstimatorSettings)
    alarm: AlarmSettings = field(default_factory=AlarmSettings)
    incidents: IncidentSettings = field(default_factory=IncidentSettings)
    aftermath: CaseSettings = field(default_factory=CaseSettings)

    def __post_init__(self) -> None:
        need = 2 * (self.windows.reference + self.windows.tests[-1])
        if self.alarm.learn < need:
            raise ValueError(
                f"alarm.learn: {self.alarm.learn} samples are too few for these windows; at least {need}, "
                "twice reference and longest test together"
            )

    @classmethod
    def of(cls, **groups: Any) -> Settings:
        """Groups as mappings or as settings objects; an unknown name is an error naming the known ones."""
        known = {f.name: f.default_factory for f in fields(cls)}
        chosen: dict[str, Any] = {}
        for name, group in groups.items():
            if name not in known:
                raise ValueError(f"{name}: unknown group of settings; known: {', '.join(known)}")
            chosen[name] = _group(name, known[name], group)
        return cls(**chosen)


def _group(name: str, kind: Any, group: Any) -> Any:
    if isinstance(group, kind):
        return group
    if not isinstance(group, Mapping):
        raise ValueError(f"{name}: expected a mapping, got {group!r}")
    known = [f.name for f in fields(kind)]
    for key in group:
        if key not in known:
            raise ValueError(f"{name}.{key}: unknown; known: {', '.join(known)}")
    try:
        return kind(**group)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}.{error}") from None
