"""Signals of all nodes: every sample counts, the same blocks come out after a restart, sizes are bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.pipeline import signal_capture
from detector.pipeline.signal_capture import COARSE, FINE, ROWS, TIER_BYTES, Columns, widths
from tests.detector.learnt import NAMES, NOW, START, changed, frozen, pipeline, samples, thawed

TICKS = 2 * ROWS + 25


def watched():
    """A pipeline that saw n1 jump at NOW + 20, with the blocks it put down."""
    made = pipeline()
    made.blocks = []
    X = changed(NOW, NOW + TICKS, NOW + 20, [1])
    made.push(samples(X, NOW))
    return made, X


def rows(made, tier):
    """All rows of a tier with their times, those under way included."""
    blocks = [*made.blocks, *made.signals.under_way(list(range(len(NAMES))))]
    found = {}
    for block in blocks:
        if block.tier == tier:
            for k, row in enumerate(block.values):
                if not np.isnan(row).all():
                    found[round((block.begin + k * block.width) / block.width)] = row
    return found


def test_every_sample_is_in_its_row_with_the_statistic_after_it():
    made, X = watched()
    found = rows(made, FINE)
    columns = Columns(1)
    seen = [tick for tick in range(NOW, NOW + TICKS) if int(START) + tick in found]
    assert len(seen) >= TICKS - 5, "all but the ticks that are still open"
    for tick in seen:
        row = found[int(START) + tick]
        np.testing.assert_allclose(row[:, columns.mean], X[tick - NOW], rtol=1e-5)
        np.testing.assert_array_equal(row[:, columns.low], row[:, columns.high])
    last = found[max(found)]
    np.testing.assert_allclose(last[:, columns.statistics][:, 0], made.statistic, rtol=1e-5)
    assert len([block for block in made.blocks if block.tier == FINE]) >= 2
    assert all(block.values.shape == (ROWS, 8, columns.width) for block in made.blocks)


def test_coarse_rows_sum_up_fine_ones():
    made, X = watched()
    width = round(made.signals.tiers[COARSE].width)
    columns = Columns(1)
    coarse = rows(made, COARSE)
    whole = [
        row for row in coarse if row * width >= START + NOW and (row + 1) * width <= START + NOW + TICKS - 5
    ]
    assert len(whole) > 3
    for row in whole:
        inside = X[int(row * width - START - NOW) : int((row + 1) * width - START - NOW)]
        np.testing.assert_allclose(coarse[row][:, columns.mean], inside.mean(axis=0), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(coarse[row][:, columns.low], inside.min(axis=0), rtol=1e-5)
        np.testing.assert_allclose(coarse[row][:, columns.high], inside.max(axis=0), rtol=1e-5)


@settings(deadline=None, max_examples=12)
@given(st.integers(1, TICKS - 1))
def test_the_same_blocks_after_a_restart(cut):
    whole, X = watched()
    made = pipeline()
    made.blocks = []
    made.push(samples(X[:cut], NOW))
    again = thawed(frozen(made))
    again.blocks = []
    again.push(samples(X[cut:], NOW + cut))
    blocks = [*made.blocks, *again.blocks]
    assert len(blocks) == len(whole.blocks)
    for ours, theirs in zip(blocks, whole.blocks, strict=True):
        assert (ours.tier, ours.begin, ours.width, ours.names) == (
            theirs.tier,
            theirs.begin,
            theirs.width,
            theirs.names,
        )
        np.testing.assert_array_equal(ours.values, theirs.values)


def test_nothing_is_held_where_nobody_takes_it():
    made = pipeline()
    made.push(samples(changed(NOW, NOW + 50, NOW + 20, [1]), NOW))
    assert made.signals.state()[0] == {}
    assert made.signals.under_way([0]) == []


@pytest.mark.parametrize("step", [0.01, 1.0, 60.0, 3600.0])
@pytest.mark.parametrize(("n_nodes", "dim"), [(1, 1), (100, 2), (1000, 1), (10_000, 1), (10_000, 4)])
def test_a_span_fits_into_its_bytes(n_nodes, dim, step):
    row = 4 * n_nodes * Columns(dim).width
    for tier, width in enumerate(widths(n_nodes, dim, step)):
        span = max(signal_capture.SPANS[tier], signal_capture.TICKS[tier] * step)
        assert width >= step
        assert round(span / width) * row <= TIER_BYTES or width == step
