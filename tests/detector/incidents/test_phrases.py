"""Every number in a statement can be recomputed from its samples, and its sign agrees with its words."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from detector.events.model import SINGLE, Change, ChangeKind
from detector.incidents.describe import compare, pool
from detector.incidents.phrases import Sizes, decimal, phrase

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


def check_values(change: Change, before: np.ndarray, after: np.ndarray, unit: str = "°C") -> None:
    """The values in brackets, in original units."""
    found = re.search(rf"\({NUMBER} → {NUMBER} {unit}\)", change.text)
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
        if found := re.search(r"(?:up|wider) at (\d+) nodes?, (?:down|narrower) at (\d+)", change.text):
            rose = int((sizes > (1.0 if change.kind == "spread" else 0.0)).sum())
            assert (int(found[1]), int(found[2])) == (rose, len(pairs) - rose)
        elif "almost constant" in change.text:
            assert (sizes > 100.0).all() if " was " in change.text else (sizes < 0.01).all()
        elif change.kind == "mean":
            assert (" up" in change.text) == (np.median(sizes) > 0.0)


twins = st.tuples(
    st.integers(0, 2**31), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([1.0, 3.0]),
    st.sampled_from([-0.95, -0.6, 0.0, 0.6, 0.95]), st.sampled_from([-0.95, -0.6, 0.0, 0.6, 0.95]),
)  # fmt: skip
NAMES, UNITS, CENTRE, SCALE = ["flow", "level"], ["l/s", "m"], np.array([43.0, -7.0]), np.array([0.5, 20.0])


def draw_twins(
    seed: int, shift: float, factor: float, before: float, after: float
) -> tuple[np.ndarray, np.ndarray]:
    """Two components that are correlated before and after; flow moves, and level spreads."""
    rng = np.random.default_rng(seed)
    x, y = (
        rng.multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]], n) for r, n in ((before, 150), (after, 90))
    )
    return x, y * [1.0, factor] + [shift, 0.0]


def correlated(x: np.ndarray) -> float:
    w = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    return float((w[:, 0] * w[:, 1]).mean())


@settings(max_examples=100, deadline=None)
@given(twin=twins)
def test_each_of_two_components_and_their_correlation(twin: tuple[int, float, float, float, float]) -> None:
    x, y = draw_twins(*twin)
    comparison = compare(x, y, (CENTRE, SCALE))
    assert comparison is not None
    for change in pool([comparison], NAMES, UNITS):
        if change.kind == "correlation":
            before, after = correlated(x), correlated(y)
            assert change.components == NAMES
            assert "of flow and level" in change.text
            check_correlation(change.text, before, after)
        if change.kind in ("correlation", "distribution"):
            continue
        (name,) = change.components
        j = NAMES.index(name)
        assert name in change.text
        assert NAMES[1 - j] not in change.text
        in_units = [CENTRE[j] + SCALE[j] * side[:, j] for side in (x, y)]
        check_values(change, *in_units, UNITS[j])
        check_size(change, x[:, j], y[:, j])


def check_correlation(text: str, before: float, after: float) -> None:
    """The verb and both values of one node."""
    verb = next(one for one in ("lost", "appeared", "reversed", "stronger", "weaker") if one in text)
    true = {
        "lost": abs(after) < 0.3 < abs(before), "appeared": abs(before) < 0.3 < abs(after),
        "reversed": before * after < 0.0, "stronger": abs(after) > abs(before),
        "weaker": abs(after) < abs(before),
    }  # fmt: skip
    assert true[verb], text
    found = re.search(rf"\({NUMBER} → {NUMBER}\)", text)
    assert found is not None
    for told, value in zip(found.groups(), (before, after), strict=True):
        assert abs(float(told) - value) <= 0.06 * abs(after - before) + 1e-5


@settings(max_examples=100, deadline=None)
@given(nodes=st.lists(twins, min_size=2, max_size=6))
def test_correlations_of_several_nodes(nodes: list[tuple[int, float, float, float, float]]) -> None:
    pairs = [draw_twins(*twin) for twin in nodes]
    compared = [compare(x, y, (CENTRE, SCALE)) for x, y in pairs]
    for change in pool([one for one in compared if one is not None], NAMES):
        if change.kind == "correlation":
            sizes = np.array([correlated(y) - correlated(x) for x, y in pairs])
            if found := re.search(r"up at (\d+) nodes?, down at (\d+)$", change.text):
                assert (int(found[1]), int(found[2])) == ((sizes > 0.0).sum(), (sizes <= 0.0).sum())
                continue
            found = re.search(rf"correlation of flow and level (up|down) by {NUMBER}$", change.text)
            assert found is not None, change.text
            assert close(found[2], abs(np.median(sizes)))
            assert (found[1] == "up") == (np.median(sizes) > 0.0)
        elif change.kind != "distribution":
            assert change.components[0] in change.text


def shape(low: float, high: float, up: int, nodes: int, size: float = 1.0) -> Sizes:
    return Sizes(size, low, high, up, nodes, np.nan, np.nan)


@pytest.mark.parametrize(
    ("kind", "sizes", "told"),
    [
        ("mean", shape(-2.0, 3.0, 1, 3, 2.0), "mean of flow up at 1 node, down at 2 (-2.0 to 3.0 sd)"),
        ("spread", shape(0.5, 3.0, 2, 3), "spread of flow wider at 2 nodes, narrower at 1 (×0.50 to ×3.0)"),
        ("tails", shape(-0.1, 0.1, 1, 2), "tails of flow shorter at 1 node, longer at 1"),
        ("asymmetry", shape(-1, 1, 2, 3), "flow leans more to high values at 2 nodes, to low values at 1"),
    ],
)  # fmt: skip
def test_nodes_that_disagree(kind: ChangeKind, sizes: Sizes, told: str) -> None:
    assert phrase(kind, ["flow"], sizes, agreed=False) == told


def test_almost_constant_is_said_only_of_all_nodes() -> None:
    def told(size: float, low: float, high: float, nodes: int = 3) -> str:
        return phrase("spread", ["flow"], shape(low, high, nodes, nodes, size), agreed=True)

    assert told(500.0, 200.0, 800.0) == "flow was almost constant at each node"
    assert told(500.0, 2.0, 800.0) == "spread of flow ×500 (×2.0 to ×800)"
    assert told(1e-6, 1e-7, 1e-5) == "flow is almost constant at each node"
    assert told(1e-6, 1e-7, 0.5) == "spread of flow much narrower"
    assert told(1e6, 1e6, 1e6, nodes=1) == "flow was almost constant"


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
