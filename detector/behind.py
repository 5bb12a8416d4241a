"""What is heard while nothing is on time: a clock that was set back looks so, or samples given again.

Which of the two it is cannot be told by the samples: a source repeats itself as fast as it can, a clock goes
on at its own pace (see pace.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.samples import Columns, Floats


class Behind:
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
