"""One partition of a source: what it gave and the pipeline has not got yet, and how far its time has come.

A partition is what comes in an order of its own: a Redis stream, a partition of a Kafka topic, an MQTT
connection, a NATS stream, a file. Its *progress* is the newest time that it has given, which a few wild time
stamps cannot move: one more than ``max_ahead`` away is believed only after ``confirm`` of them in a row.
Every sample is held with the progress at its arrival as its *key*; keys never fall, so that releasing by key
keeps the order of the partition.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from connectors.base import Batch, Sample


@dataclass(slots=True)
class _Held:
    """A batch of which some samples are still here."""

    batch: Batch
    keys: NDArray[np.float64]
    arrived: float
    at: int = 0  # the first sample that is still here


class Slice(NamedTuple):
    """Consecutive samples of one batch."""

    batch: Batch
    first: int
    last: int
    arrived: float

    @property
    def samples(self) -> list[Sample]:
        return self.batch.samples[self.first : self.last]

    @property
    def whole(self) -> bool:
        """Whether the batch ends with it."""
        return self.last == len(self.batch.samples)


class Partition:
    """Used on the event loop only; all times of ours are monotonic and given by the caller."""

    def __init__(self, source: str, name: str, now: float) -> None:
        self.source, self.name = source, name
        self.progress: float | None = None
        self.since = now  # when it last gave something, or was emptied
        self.patience: float | None = None  # how long it may be silent, if not as everybody
        self.ended = False  # nothing more comes
        self.count = 0  # samples held
        self.jumped: float | None = None  # when a jump of its time was believed
        self.lags = False  # it is far behind and does not catch up
        self.waited, self.waited_from = 0.0, 0.0  # seconds that others waited for it, its progress before
        self.repeats = False  # all that it gave last had gone on before a stop: what is new is still to come
        self._held: deque[_Held] = deque()
        self._astray = 0  # samples in a row that are too far away

    @property
    def empty(self) -> bool:
        return not self._held

    def take(self, batch: Batch, now: float, max_ahead: float, confirm: int, first: int = 0) -> None:
        times = np.fromiter((sample.time for sample in batch.samples), np.float64, len(batch.samples))
        self._held.append(_Held(batch, self._keys(times, now, max_ahead, confirm), now, first))
        self.count += len(times) - first
        self.since, self.patience = now, None
        self.repeats = 0 < len(times) <= first

    def _keys(
        self, times: NDArray[np.float64], now: float, max_ahead: float, confirm: int
    ) -> NDArray[np.float64]:
        if not len(times):
            return times
        begin = float(times[0]) if self.progress is None else self.progress
        keys = np.maximum(np.maximum.accumulate(times), begin)
        before = np.concatenate([[begin], keys[:-1]])
        if self._astray or (np.abs(times - before) > max_ahead).any():
            keys = self._doubt(times, begin, now, max_ahead, confirm)
        self.progress = float(keys[-1])
        return keys

    def _doubt(
        self, times: NDArray[np.float64], progress: float, now: float, max_ahead: float, confirm: int
    ) -> NDArray[np.float64]:
        """The same one by one: what is too far away does not count until enough of it has come."""
        keys = np.empty_like(times)
        for i, time in enumerate(times.tolist()):
            if abs(time - progress) <= max_ahead:
                progress, self._astray = max(progress, time), 0
            else:
                self._astray += 1
                if self._astray >= confirm:
                    self._astray = 0
                    if time > progress:
                        self.jumped = now
                    else:  # set back: nothing before may wait for a time that does not come
                        keys[:i] = np.minimum(keys[:i], time)
                        for held in self._held:
                            np.minimum(held.keys, time, out=held.keys)
                    progress = time
            keys[i] = progress
        return keys

    def keys(self, upto: float, most: int) -> NDArray[np.float64]:
        """The keys of the first samples held, as far as they are not beyond ``upto``; about ``most``."""
        found: list[NDArray[np.float64]] = []
        for held in self._held:
            keys = held.keys[held.at :]
            if len(keys) and keys[-1] > upto:
                keys = keys[: int(np.searchsorted(keys, upto, side="right"))]
                found.append(keys)
                break
            found.append(keys)
            most -= len(keys)
            if most <= 0:
                break
        return np.concatenate(found) if found else np.empty(0)

    def pop(self, number: int, now: float) -> list[Slice]:
        """So many samples, and the batches without any that come next."""
        slices = []
        self.count -= number
        while self._held:
            held = self._held[0]
            size = min(number, len(held.batch.samples) - held.at)
            if not size and held.at < len(held.batch.samples):
                break
            slices.append(Slice(held.batch, held.at, held.at + size, held.arrived))
            held.at += size
            number -= size
            if held.at == len(held.batch.samples):
                self._held.popleft()
        if slices and not self._held:
            self.since = now
        return slices

    def describe(self) -> dict[str, Any]:
        """For pages, JSON-ready."""
        return {"time": self.progress, "held": self.count}
