"""Whether the clock of the samples was set back: judged by a clock that nobody sets.

When a wrong clock is put right, all samples are older than what was judged already, and would be late until
it has caught up: for a day, if it was a day ahead. A source that gives old samples again looks the same, but
is as quick as it can be. So the stream is set back only if for ``silent_after`` most nodes were heard, none
of them on time (`ClockReset`), and their time went on about as fast as time does (`ClockPace`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.settings.alignment import AlignSettings
from estimators.core.types import Floats


class ClockReset:
    """The latest time of each node since the last sample that was on time; NaN for those not heard since."""

    def __init__(self, n_nodes: int) -> None:
        self._latest: Floats = np.full(n_nodes, np.nan)
        self._any = False

    def take(self, batch: Columns, late: NDArray[np.bool_]) -> None:
        """Samples in arrival order, and which of them were late."""
        after = len(late) - int(np.argmin(late[::-1])) if not late.all() else 0
        if after and self._any:
            self.forget()
        if after < len(late):
            self._any = True
            self._latest[batch.nodes[after:]] = batch.times[after:]

    def forget(self) -> None:
        self._latest[:] = np.nan
        self._any = False

    def time(self, alive: int, within: float) -> float | None:
        """What time it is to those that come late, if more than half of the ``alive`` nodes agree on it."""
        if not self._any:
            return None
        times = np.sort(self._latest[~np.isnan(self._latest)])
        middle = float(times[(len(times) - 1) // 2])
        agree = np.count_nonzero(np.abs(times - middle) <= within)
        return middle if 2 * agree > alive else None


class Late(NamedTuple):
    """Samples that all come late, observed for ``passed`` seconds in which their time went on so far."""

    passed: float
    went_on: float
    set_back_to: float | None  # None: not at the pace of a clock, so they are given again


class ClockPace:
    """Compares the time of samples that come late with a clock that only goes on."""

    def __init__(self) -> None:
        self._since: tuple[float, float] | None = None  # that clock, and the time of the samples

    def look(self, behind: float | None, settings: AlignSettings, now: float) -> Late | None:
        """Now and then, ``now`` by that clock; what was found when it was observed for long enough."""
        if behind is None:
            self._since = None
        elif self._since is None:
            self._since = (now, behind)
        elif (passed := now - self._since[0]) >= settings.seconds("silent_after"):
            went_on = behind - self._since[1]
            self._since = None
            steady = abs(went_on - passed) <= passed / 2 + settings.step
            return Late(passed, went_on, behind if steady else None)
        return None
