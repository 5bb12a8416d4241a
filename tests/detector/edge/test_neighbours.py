"""Boxes that hear each other in time are one network; what is late, lost, garbled or not theirs does no harm."""

from __future__ import annotations

import numpy as np
import pytest
from tests.detector.edge.boxes import BOXES, LEARN, NAMES, Boxes, changed, learnt_whole, row, samples, thawed

PATIENCE = 5


def started(**other: object) -> Boxes:
    return Boxes({name: thawed(learnt_whole(), name, **other) for name in BOXES})


def test_boxes_that_hear_in_time_give_the_bits_of_one_process() -> None:
    whole, boxes = thawed(learnt_whole(), None), started()
    for t in range(LEARN, LEARN + 120):
        values = changed(t, LEARN + 60, [3, 4])
        if t % 7 == 0:
            values[t % 12] = np.nan  # a sample that is missing
        whole.push(samples(values, t))
        boxes.tick(values, t)
        if not whole.incidents.open:
            for name in ("event_statistic", "statistic", "scores"):
                np.testing.assert_array_equal(boxes.statistic(name), getattr(whole, name), err_msg=f"{t} {name}")
    assert set(boxes.outcomes) == {"heard"}
    assert whole.incidents.open
    assert all(boxes.all[name].incidents.open for name in ("north", "south"))
