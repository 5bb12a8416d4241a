"""Whether the clock of the samples was set back: judged by a clock that nobody sets.

When a wrong clock is put right, all samples are older than what was judged already, and would be late until
it has caught up: for a day, if it was a day ahead. A source that gives old samples again looks the same, but
is as quick as it can be. So the stream is set back only if for ``silent_after`` most nodes were heard, none
of them on time, and their time went on about as fast as time does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from detector.ticks import AlignSettings

log = logging.getLogger("detector")


class Pace:
    """Looks now and then at the time of samples that come late."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: tuple[float, float] | None = None  # our clock, and the time of the samples

    def look(self, behind: float | None, settings: AlignSettings) -> float | None:
        """The time to which the stream is to be set back, if it is."""
        now = self._clock()
        if behind is None:
            self._since = None
        elif self._since is None:
            self._since = (now, behind)
        elif (passed := now - self._since[0]) >= settings.seconds("silent_after"):
            went_on = behind - self._since[1]
            self._since = None
            if abs(went_on - passed) <= passed / 2 + settings.step:
                return behind
            log.warning(
                "all samples are late: in %.0f s their time went on by %.0f s, so it is not a clock that was "
                "set back", passed, went_on, extra={"repeat": "late"},
            )  # fmt: skip
        return None
