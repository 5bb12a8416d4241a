"""Whether a source brings samples that can be used: the share that is late, unknown or malformed, lately.

A source that sends the wrong thing looks healthy: it is connected, and samples come. So what share of the
last minute could not be used is told in the log, on the page, by `/readyz` and as a metric.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from detector.runtime.metrics import Metrics

log = logging.getLogger("detector.source")
HALF_S = 30.0  # the share is that of this half minute and the one before
LEAST = 20  # samples of no use, below which nothing is said
HIGH, LOW = 0.1, 0.05  # told from the one on, until it falls below the other

KINDS = {  # what is told -> what it means
    "late": "late: their tick was closed when they came",
    "unknown": "of nodes that are not in the network",
    "malformed": "not readable with the decode settings, or have another number of values than the network",
}
OF_REASON = {"late": "late", "node": "unknown", "dimension": "malformed"}  # of the stream


@dataclass
class _Half:
    received: int = 0
    useless: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


class Usefulness:
    """Of one source. All times are monotonic."""

    def __init__(self, source: str, metrics: Metrics, now: float) -> None:
        self.trouble: dict[str, str] = {}  # kind -> words
        self._source, self._metrics, self._begun = source, metrics, now
        self._halves = (_Half(), _Half())  # before, now
        self._example = dict.fromkeys(KINDS, "")
        for kind in KINDS:
            metrics.set("source_useless_ratio", 0.0, source=source, kind=kind)

    def received(self, count: int, rejected: Mapping[str, int], example: str | None = None) -> None:
        """So many came, of which so many could not be decoded, by reason."""
        self._halves[1].received += count
        if rejected:
            self._halves[1].useless["malformed"] += sum(rejected.values())
            self._example["malformed"] = example or f"reason {next(iter(rejected))}"

    def discarded(self, reason: str, count: int, example: str) -> None:
        """The stream did not take so many."""
        kind = OF_REASON[reason]
        self._halves[1].useless[kind] += count
        self._example[kind] = example

    def look(self, now: float) -> None:
        """Judge the last minute; now and then."""
        before, this = self._halves
        received = before.received + this.received
        for kind, meaning in KINDS.items():
            count = before.useless[kind] + this.useless[kind]
            share = min(1.0, count / received) if received else 0.0
            self._metrics.set("source_useless_ratio", share, source=self._source, kind=kind)
            if share >= HIGH and count >= LEAST:
                if kind not in self.trouble:
                    log.warning(
                        "source %s: %.0f %% of its samples are %s; for example %s", self._source, 100 * share,
                        meaning, self._example[kind], extra={"repeat": f"useless {kind} {self._source}"},
                    )  # fmt: skip
                self.trouble[kind] = f"{share:.0%} of the samples are {meaning}; e.g. {self._example[kind]}"
            elif share < LOW and kind in self.trouble:
                del self.trouble[kind]
                log.info("source %s: no more than %.0f %% %s", self._source, 100 * LOW, kind)
        if now - self._begun >= HALF_S:
            self._halves, self._begun = (this, _Half()), now
