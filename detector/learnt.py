"""What learning has found, promised and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detector.engine import Choice
from detector.tail import Tail


@dataclass
class Report:
    """What was learnt, promised and checked; ``record`` for programs, ``text`` for people."""

    choice: Choice
    rank: int
    atoms: int
    n_ticks: int
    block: int
    step: float
    threshold: float
    event_threshold: float
    promised: float  # false incidents per tick
    budget: str
    tail: Tail
    validated: dict[str, float] = field(default_factory=dict)
    delays: list[dict[str, Any]] = field(default_factory=list)
    trials: list[dict[str, float]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        if not math.isfinite(self.promised):
            return f"watching with {self.budget}"
        return (
            f"watching: at most {self.budget} false incidents promised; "
            f"event threshold {self.event_threshold:.2f}, node threshold {self.threshold:.2f}"
        )

    def record(self) -> dict[str, Any]:
        return {
            "choice": vars(self.choice) | {},
            "rank": self.rank,
            "atoms": self.atoms,
            "ticks": self.n_ticks,
            "block": self.block,
            "step_seconds": self.step,
            "threshold": self.threshold,
            "event_threshold": self.event_threshold,
            "budget": self.budget,
            "promised_per_tick": self.promised,
            "tail": vars(self.tail) | {},
            "validated": self.validated,
            "delays": self.delays,
            "trials": self.trials,
            "warnings": self.warnings,
        }

    @classmethod
    def of(cls, record: dict[str, Any]) -> Report:
        """The report a record was made from."""
        return cls(
            Choice(**record["choice"]),
            record["rank"],
            record["atoms"],
            record["ticks"],
            record["block"],
            record["step_seconds"],
            record["threshold"],
            record["event_threshold"],
            record["promised_per_tick"],
            record["budget"],
            Tail(**record["tail"]),
            record["validated"],
            record["delays"],
            record["trials"],
            record["warnings"],
        )

    def text(self) -> str:
        c, v = self.choice, self.validated
        lines = [f"learnt from {self.n_ticks} ticks of {self.step:g} s; blocks of {self.block} ticks"]
        if np.isfinite(self.promised):
            lines += [
                (
                    f"kernel width {c.sigma:g} × median distance, coupling {c.coupling:g}, "
                    f"ridge {c.ridge:g}, gains {c.gain:g} and {c.inside:g}; {self.atoms} atoms, "
                    f"rank {self.rank}"
                ),
                f"thresholds: event {self.event_threshold:.2f}, node {self.threshold:.2f}",
                f"promised: {self.budget}, the whole network",
                (
                    f"checked on {v['ticks']:.0f} ticks not used before: {v['incidents']:.0f} false "
                    f"incidents, expected {v['expected']:.2f}; 95 % interval {v['low']:.3g} to "
                    f"{v['high']:.3g} times that"
                ),
                "expected delay in ticks (median; found within 150):",
            ]
        lines += [
            f"  {d['change']:<18} on {d['nodes']:>3} node{'s' if d['nodes'] != 1 else ' '}: "
            + (f"{d['delay']:.0f}" if np.isfinite(d["delay"]) else "not found")
            + f" ({100 * d['found']:.0f} %)"
            for d in self.delays
        ]
        return "\n".join(lines + [f"warning: {w}" for w in self.warnings])
