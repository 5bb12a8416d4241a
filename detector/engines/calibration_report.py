"""What learning has found, promised and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from detector.events.wording import duration
from detector.settings.budget import Budget
from estimators.timeseries.extremes import Tail

TRUSTED = (1.0, 20.0)  # times the length of a history, at least and at most, that its tail is trusted
ENOUGH = 400.0  # ticks with which it is trusted once its length, and in proportion to the ticks from there on
NO_PROMISE = "no rate of false incidents is promised"
_TOO_SHORT = "history too short for the budget"
_OTHER = "the budget was"


def horizon(n_ticks: float) -> float:
    """Ticks of which quiet data of ``n_ticks`` can vouch for one false incident.

    Examples
    --------
    >>> [horizon(n) for n in (230, 4000, 20_000)]
    [230.0, 40000.0, 400000.0]
    """
    return float(n_ticks * np.clip(n_ticks / ENOUGH, *TRUSTED))


def to_learn_from(n_ticks: int) -> int:
    """How many ticks of a history are learnt from; the rest checks the promise."""
    return 3 * n_ticks // 4


@dataclass(frozen=True)
class Choice:
    """Hyper-parameters of the density-ratio engine, given or chosen while learning."""

    sigma: float  # kernel width, in units of the nodes' median distance
    coupling: float  # N lam mean degree
    ridge: float  # N lam gamma
    gain: float  # how far neighbours lower the bar of the node statistic
    inside: float = 2.0  # the same next to an open incident


@dataclass
class CalibrationReport:
    """What was learnt, promised and checked; ``record`` for programs, ``text`` for people."""

    choice: Choice
    rank: int
    atoms: int
    n_ticks: int
    block: int
    step: float
    threshold: float  # of a node by itself
    tail: Tail
    allowed: Budget | None  # of now, which may be another than when it was learnt; None: nothing is promised
    checked_budget: str = ""  # with which `validated` and `delays` were found
    validated: dict[str, float] = field(default_factory=dict)
    near: tuple[float, float] | None = None  # a level that quiet data pass often, and how often per tick
    caution: float = 1.0  # the threshold is that of so many times fewer
    delays: list[dict[str, Any]] = field(default_factory=list)
    trials: list[dict[str, float]] = field(default_factory=list)
    preprocessing: list[str] = field(default_factory=list)  # what learning chose by itself, and why
    notes: list[str] = field(default_factory=list)  # warnings that hold for any budget

    @property
    def budget(self) -> str:
        return NO_PROMISE if self.allowed is None else str(self.allowed)

    @property
    def asked(self) -> float:
        """False incidents per tick that the budget allows; NaN where nothing is promised."""
        return float("nan") if self.allowed is None else self.allowed.per_tick(self.step)

    @property
    def promised(self) -> float:
        """False incidents per tick that are promised at the end of learning: see `promised_after`."""
        return self.promised_after(0.0)

    def promised_after(self, quiet: float) -> float:
        """What is promised per tick with ``quiet`` ticks watched since: the budget, if that is vouched for.

        Where unused data contradicted the budget, what was counted there, and nothing since, is the promise.
        """
        if self.contradicted:
            v = self.validated
            return max(self.asked, (v["incidents"] + 1.0) / (v["ticks"] + quiet))
        return max(self.asked, 1.0 / horizon(self.kept + quiet))

    @property
    def kept(self) -> int:
        """Ticks that thresholds were learnt from."""
        return to_learn_from(self.n_ticks) if self.validated else self.n_ticks

    def promise_after(self, quiet: float) -> str:
        """`promised_after` in words."""
        rate = self.promised_after(quiet)
        if self.allowed is None or rate <= self.asked:
            return self.budget
        ticks = float(f"{1.0 / rate:.2g}")
        if self.allowed.unit == "ticks":
            return str(Budget(1.0, ticks, "ticks"))
        return f"1 per {duration(ticks * self.step)}"

    @property
    def promise(self) -> str:
        """What is promised at the end of learning, in words."""
        return self.promise_after(0.0)

    @property
    def event_threshold(self) -> float:
        """What the tail says of the budget: never stored, so that another budget is another threshold."""
        return self.event_threshold_at(1.0)

    def event_threshold_at(self, ratio: float) -> float:
        """The same where quiet data come near it ``ratio`` times as often as it was learnt."""
        if self.allowed is None:
            return self.threshold
        caution = self.caution * ratio
        if caution >= 1.0:
            return self.tail.threshold(self.asked / caution)
        return min(self.tail.height(self.asked / caution), self.tail.threshold(self.asked))

    @property
    def contradicted(self) -> bool:
        """Whether the part of the history that was kept for it shows that more was promised than holds."""
        return self.validated.get("low", 0.0) > 1.0

    @property
    def warnings(self) -> list[str]:
        told = list(self.notes)
        if self.promised > self.asked and not self.contradicted:
            told.append(
                f"{_TOO_SHORT}: {self.budget} was asked for, {self.kept} ticks can vouch for {self.promise}. "
                "The threshold is extrapolated to it; the promise tightens with the quiet ticks watched"
            )
        if self.allowed is not None and self.checked_budget != self.budget:
            told.append(
                f"{_OTHER} {self.checked_budget} when it was learnt: the check on unused data and the "
                "expected delays are of that one"
            )
        return told

    @classmethod
    def without_promise(cls, why: str, n_ticks: int, step: float, threshold: float) -> CalibrationReport:
        """For an engine with a fixed threshold: nothing is promised, and a warning says ``why``."""
        none, nothing = Choice(0.0, 0.0, 0.0, 0.0), Tail(0.0, 0.0, 0.0, 1.0, 0)
        return cls(none, 0, 0, n_ticks, 0, step, threshold, nothing, None, notes=[why])

    @property
    def check(self) -> str:
        """What the unused part of the history says of the promise."""
        v = self.validated
        if not v:
            return "not checked: the history is too short to keep a part of it"
        return (
            f"checked on {v['ticks']:.0f} ticks not used before: {v['incidents']:.0f} false incidents, "
            f"expected {v['expected']:.2f}; 95 % interval {v['low']:.3g} to {v['high']:.3g} times that"
        )

    @property
    def summary(self) -> str:
        if not math.isfinite(self.promised):
            return f"watching: {self.budget}"
        return (
            f"watching: at most {self.promise} false incidents promised; "
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
            "checked_budget": self.checked_budget,
            "asked_per_tick": self.asked,
            "promise": self.promise,
            "promised_per_tick": self.promised,
            "caution": self.caution,
            "near": None if self.near is None else list(self.near),
            "tail": vars(self.tail) | {},
            "validated": self.validated,
            "delays": self.delays,
            "trials": self.trials,
            "preprocessing": self.preprocessing,
            "warnings": self.warnings,
        }

    @classmethod
    def of(cls, record: dict[str, Any], budget: Budget) -> CalibrationReport:
        """The report a record was made from, for the budget of now."""
        promised = record["promised_per_tick"]
        is_promise = promised is not None and math.isfinite(promised)
        return cls(
            Choice(**record["choice"]),
            record["rank"],
            record["atoms"],
            record["ticks"],
            record["block"],
            record["step_seconds"],
            record["threshold"],
            Tail(**record["tail"]),
            budget if is_promise else None,
            record.get("checked_budget", record["budget"]),  # of version 0.1: never another
            record["validated"],
            (float(near[0]), float(near[1])) if (near := record.get("near")) else None,
            record.get("caution", 1.0),
            record["delays"],
            record["trials"],
            record.get("preprocessing", []),
            [
                text
                for text in record["warnings"]
                if not text.startswith((_TOO_SHORT, _OTHER, "history too short for this promise"))
            ],
        )

    def of_share(self, share: float) -> CalibrationReport:
        """For a part of the network with that share of its nodes, by thresholds of the whole.

        Its budget is that share of the budget, and so is how often quiet data come near the threshold.
        """
        near = None if self.near is None else (self.near[0], self.near[1] * share)
        tail = replace(self.tail, rate=self.tail.rate * share)
        return replace(self, tail=tail, near=near, checked_budget=self.budget)

    def text(self) -> str:
        c = self.choice
        lines = [f"learnt from {self.n_ticks} ticks of {self.step:g} s; blocks of {self.block} ticks"]
        lines += [f"preprocessing: {text}" for text in self.preprocessing]
        if np.isfinite(self.promised):
            lines += [
                (
                    f"kernel width {c.sigma:g} × median distance, coupling {c.coupling:g}, "
                    f"ridge {c.ridge:g}, gains {c.gain:g} and {c.inside:g}; {self.atoms} atoms, "
                    f"rank {self.rank}"
                ),
                f"thresholds: event {self.event_threshold:.2f}, node {self.threshold:.2f}",
                f"promised: {self.promise}, the whole network"
                + ("" if self.promise == self.budget else f" (the budget is {self.budget})"),
                self.check,
                "expected delay in ticks (median; found within 150):",
            ]
        lines += [
            f"  {d['change']:<18} on {d['nodes']:>3} node{'s' if d['nodes'] != 1 else ' '}: "
            + (f"{d['delay']:.0f}" if np.isfinite(d["delay"]) else "not found")
            + f" ({100 * d['found']:.0f} %)"
            for d in self.delays
        ]
        return "\n".join(lines + [f"warning: {w}" for w in self.warnings])
