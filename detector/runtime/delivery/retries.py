"""Records that a sink did not take: how often each was tried, and when its turn comes again.

A receiver that is dead takes nothing; that is no record's fault, and none is given up for it. A record that
fails again and again while others are taken is at fault itself: it rests, longer each time, and after some
tries it is set aside. The records of its incident wait for it, so that their order stays; no others do. Where
nothing else waits, the next of its incident goes right behind it: if that is taken, the receiver lives.

A receiver that asks for a pause limits its rate, which is no record's fault either, until it has done so
several times in a row; from then on a pause counts as a failure of the record that went.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from connectors.base import BACKOFF_FIRST_S, backoff
from detector.runtime.delivery.outbox import ordering_key
from detector.storage.records import Record

LONGEST_REST_S = 60.0


@dataclass
class Trial:
    """The first record of an ordering key, which was not taken."""

    record: Record
    failures: int  # in all
    tries: int  # of these, with others taken in between: its own fault
    until: float  # it rests, by the monotonic clock
    taken: int  # records that the sink had taken in all when it failed last
    error: str = ""  # the latest


class Retries:
    """The trials of one sink, by ordering key."""

    def __init__(self) -> None:
        self.taken = 0  # records that the sink has taken in all
        self._trials: dict[str, Trial] = {}
        self._rng = random.Random()

    def took(self, record: Record) -> None:
        self.taken += 1
        self.forget(record)

    def forget(self, record: Record) -> None:
        """It was taken, dropped or set aside."""
        trial = self.trial(record)
        if trial is not None and trial.record.id == record.id:
            del self._trials[ordering_key(record)]

    def trial(self, record: Record) -> Trial | None:
        """What is known of the first record of its key."""
        return self._trials.get(ordering_key(record))

    def failed(self, record: Record, error: str, now: float) -> Trial:
        """It went alone, and was not taken."""
        trial = self.trial(record)
        if trial is None:
            trial = self._trials[ordering_key(record)] = Trial(record, 0, 0, now, -1)
        if trial.record.id != record.id:  # it went behind the one that is tried, and says nothing of itself
            return trial
        trial.failures, trial.error = trial.failures + 1, error
        if self.taken > trial.taken:
            trial.tries, trial.taken = trial.tries + 1, self.taken
            rest = min(LONGEST_REST_S, BACKOFF_FIRST_S * 2.0 ** min(trial.tries, 16))
        else:
            rest = backoff(trial.failures, self._rng)
        trial.until = now + rest
        return trial

    def resting(self, now: float) -> set[str]:
        """Keys whose turn is after all others: for a while, and until the sink has taken something."""
        return {
            name for name, trial in self._trials.items() if now < trial.until or trial.taken == self.taken
        }

    def next(self) -> tuple[str, float] | None:
        """The key whose rest ends first, and when; None if none rests."""
        if not self._trials:
            return None
        name, trial = min(self._trials.items(), key=lambda item: item[1].until)
        return name, trial.until
