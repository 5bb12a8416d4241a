"""Every number in a statement can be recomputed from its samples, and its sign agrees with its words."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from detector.events.model import SINGLE, Change
from detector.incidents.describe import compare, pool
from detector.incidents.phrases import decimal

NUMBER = r"(-?[0-9.]+(?:e[+-]?[0-9]+)?)"
sides = st.tuples(
    st.integers(0, 2**31),
    st.sampled_from([0.0, 1e-7, 0.3, 1.0, 4.0]),
    st.floats(-6.0, 6.0),
    st.floats(0.05, 8.0),
)


def draw(seed: int, spread: float, shift: float, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Reference and later values of one node, in units of its usual spread."""
    rng = np.random.default_rng(seed)
    before = spread * rng.standard_normal((120, 1))
    return before, shift + factor * spread * rng.standard_normal((60, 1))


def close(told: str, true: float) -> bool:
    """Whether ``told`` is ``true`` to the digits it has."""
    digits = len(told.partition(".")[2].partition("e")[0])
    power = 10.0 ** int(told.partition("e")[2] or 0)
    return abs(float(told) - true) <= 0.5001 * 10.0**-digits * power + 1e-6 * abs(true)


@settings(max_examples=150, deadline=None)
@given(side=sides, centre=st.sampled_from([0.0, 43.0, -1e4]), scale=st.sampled_from([1e-6, 0.5, 300.0]))
def test_one_node(side: tuple[int, float, float, float], centre: float, scale: float) -> None:
    x, y = draw(*side)
    comparison = compare(x, y, (np.array([centre]), np.array([scale])))
    assert comparison is not None
    for change in pool([comparison], [SINGLE], ["°C"]):
        assert "component" not in change.text
        check_values(change, centre + scale * x[:, 0], centre + scale * y[:, 0])
        check_size(change, x[:, 0], y[:, 0])


def check_values(change: Change, before: np.ndarray, after: np.ndarray) -> None:
    """The values in brackets, in original units."""
    found = re.search(rf"\({NUMBER} → {NUMBER} °C\)", change.text)
    if found is None:
        assert change.kind not in ("mean", "spread") or change.before is None
        return
    of = np.mean if change.kind == "mean" else lambda v: np.std(v, ddof=1)
    step = abs(of(after) - of(before))
    for told, true in zip(found.groups(), (of(before), of(after)), strict=True):
        assert abs(float(told) - true) <= 0.06 * step + 1e-5 * abs(true)
    if change.kind == "mean":
        assert (" up" in change.text) == (float(found[2]) > float(found[1]))
    elif "×" in change.text:
        assert (float(re.search(rf"×{NUMBER}", change.text)[1]) >= 1.0) == (
            float(found[2]) >= float(found[1])
        )


def check_size(change: Change, x: np.ndarray, y: np.ndarray) -> None:
    if change.kind == "mean":
        found = re.search(rf"(up|down) {NUMBER} sd", change.text)
        assert found is not None
        unit = x.std(ddof=1) if x.std(ddof=1) >= 1e-3 else 1.0
        true = (y.mean() - x.mean()) / unit
        if abs(true) < 1000.0:
            assert close(found[2], abs(true))
        assert (found[1] == "up") == (true > 0.0)
    if change.kind == "spread" and (found := re.search(rf"×{NUMBER}", change.text)):
        assert close(found[1], y.std(ddof=1) / x.std(ddof=1))


@settings(max_examples=100, deadline=None)
@given(nodes=st.lists(sides, min_size=2, max_size=6))
def test_several_nodes_share_sizes_but_no_values(nodes: list[tuple[int, float, float, float]]) -> None:
    pairs = [draw(*side) for side in nodes]
    levels = [(np.array([float(10**k)]), np.array([1.0 + k])) for k in range(len(pairs))]
    compared = [compare(x, y, level) for (x, y), level in zip(pairs, levels, strict=True)]
    for change in pool([one for one in compared if one is not None], [SINGLE]):
        assert (change.before, change.after, change.nodes) == (None, None, len(pairs))
        assert "→" not in change.text
        if change.kind not in ("mean", "spread"):
            continue
        sizes = np.array([size(change.kind, x[:, 0], y[:, 0]) for x, y in pairs])
        assert change.low == pytest.approx(sizes.min(), rel=1e-4)
        assert change.high == pytest.approx(sizes.max(), rel=1e-4)
        if found := re.search(rf"{NUMBER} to ×?{NUMBER}", change.text):
            assert close(found[1], sizes.min())
            assert close(found[2], sizes.max())
        if found := re.search(r"(?:up|wider) at (\d+), (?:down|narrower) at (\d+) nodes", change.text):
            rose = int((sizes > (1.0 if change.kind == "spread" else 0.0)).sum())
            assert (int(found[1]), int(found[2])) == (rose, len(pairs) - rose)
        elif change.kind == "mean":
            assert (" up" in change.text) == (np.median(sizes) > 0.0)


def size(kind: str, x: np.ndarray, y: np.ndarray) -> float:
    """Of a mean in deviations of the reference, of a spread as a ratio; with the same floors."""
    before, after = max(x.std(ddof=1), 1e-9), max(y.std(ddof=1), 1e-9)
    return float(
        after / before if kind == "spread" else (y.mean() - x.mean()) / (before if before >= 1e-3 else 1.0)
    )


def test_as_many_digits_as_the_change_needs() -> None:
    assert decimal(52.6123, 0.02) == "52.612"
    assert decimal(52.6123, 31.0) == "53"
    assert decimal(1234567.0, 25000.0) == "1235000"
    assert decimal(7.0, 0.0) == "7"
