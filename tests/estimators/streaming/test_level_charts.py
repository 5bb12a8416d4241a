"""Level charts against plain arrays: windows, contrasts, null moments, state."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators.core.graph import Graph
from estimators.streaming.level_charts import CLIP, UNIT, LevelCharts, NullLevels

M, R = 4, 9
LEAST = M  # of the reference, before a verdict
GRAPH = Graph.of(nx.to_numpy_array(nx.compose(nx.path_graph(4), nx.empty_graph(5))) * 0.5)
VIEWS = (1, 2)


def made() -> LevelCharts:
    return LevelCharts(GRAPH, VIEWS, R, M)


def null(seed: int = 0) -> NullLevels:
    rng = np.random.default_rng(seed)
    n, d = 5, 3
    return NullLevels(
        rng.normal(size=(n, d)) * 0.1, rng.uniform(0.5, 1.0, (n, d)), rng.normal(size=(n, d)) * 0.1,
        rng.uniform(0.5, 1.0, (n, d)), rng.uniform(0.5, 1.0, (2, n, 2)), rng.uniform(0.3, 0.6, (2, n, 2)),
    )  # fmt: skip


class Twin:
    """Lists of values instead of rings, loops instead of kernels."""

    def __init__(self) -> None:
        self.test: list[list[np.ndarray]] = [[] for _ in range(5)]
        self.ref: list[list[np.ndarray]] = [[] for _ in range(5)]
        self.held, self.undecided, self.alone = np.zeros((3, 5), bool)
        self.behind = np.zeros(5, int)

    def slide(self, v: int, x: np.ndarray) -> None:
        self.behind[v] = max(self.behind[v] - 1, 0)
        self.alone[v] &= self.behind[v] > 0
        whole = np.rint(x / UNIT)
        if len(self.ref[v]) >= LEAST:
            centre = np.trunc(np.sum(self.ref[v], axis=0) / UNIT / len(self.ref[v]))
            whole = np.clip(whole, centre - CLIP / UNIT, centre + CLIP / UNIT)
        self.test[v].append(whole * UNIT)
        if len(self.test[v]) > M:
            out = self.test[v].pop(0)
            if not self.held[v]:
                self.ref[v] = [*self.ref[v], out][-R:]

    def restart(self, v: int) -> None:
        self.test[v], self.ref[v], self.behind[v] = [], [], R + M

    def settle(self, v: int) -> None:
        self.behind[v], self.alone[v] = R + M, True
        if not self.test[v] or not self.ref[v]:
            return
        moved = np.mean(self.test[v], axis=0) - np.mean(self.ref[v], axis=0)
        if (self.test[v][-1] - np.mean(self.ref[v], axis=0)) @ moved < 0.5 * moved @ moved:
            self.test[v] = []
        else:
            self.ref[v] = list(self.test[v])

    def difference(self, v: int) -> np.ndarray:
        if len(self.test[v]) < M or len(self.ref[v]) < LEAST:
            return np.full(3, np.nan)
        widened = (1 / M + 1 / R) / (1 / M + 1 / len(self.ref[v]))
        return np.sqrt(widened) * (np.mean(self.test[v], axis=0) - np.mean(self.ref[v], axis=0))

    def energy(self, moments: NullLevels) -> np.ndarray:
        D = np.array([self.difference(v) for v in range(5)])
        z = (D - moments.mean) / moments.spread
        W = GRAPH.matrix().toarray()
        total = np.zeros(5)
        view = np.repeat([0, 1], VIEWS)
        for v in range(5):
            if np.isnan(z[v]).any():
                continue
            linked = np.count_nonzero(W[v])
            mute = self.held | self.undecided
            near = [u for u in range(5) if W[v, u] > 0 and not mute[u] and not np.isnan(z[u]).any()]
            alone = self.alone | self.alone[v]
            step = [u for u in near if self.behind[u] == self.behind[v] and not alone[u]]
            contrasted = 2 * len(step) >= linked
            e = z[v] - (np.mean([np.clip(z[u], -CLIP, CLIP) for u in step], axis=0) if step else 0.0)
            e = (e - moments.apart_mean[v]) / moments.apart_spread[v]
            for w in (0, 1):
                own = [np.square(z[u, view == w]).sum() for u in (v, *near)]
                for k, value in enumerate((np.mean(own), np.square(e[view == w]).sum())[: 1 + contrasted]):
                    chart = (np.cbrt(value) - moments.middle[k, v, w]) / moments.unit[k, v, w]
                    total[v] += max(chart, 0.0) ** 2
        return total


whats = st.sampled_from(["slide"] * 12 + ["hold", "release", "restart", "settle", "undecided"])
moves = st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), whats), min_size=30, max_size=60)


@settings(deadline=None, max_examples=40)
@given(moves, st.integers(0, 2**16), st.integers(0, 60))
def test_any_course_agrees_with_the_twin_and_goes_on_after_a_stop(course, seed, stop):
    rng = np.random.default_rng(seed)
    charts, twin, moments = made(), Twin(), null(seed)
    for t, (some, what) in enumerate(course):
        nodes = np.array(sorted(some), np.int32)
        if what == "slide":
            x = rng.normal(size=(len(nodes), 3)) * rng.choice([1.0, 30.0])
            charts.slide(nodes, x)
            for v, value in zip(nodes.tolist(), x, strict=True):
                twin.slide(v, value)
        elif what == "restart":
            charts.restart(nodes)
            for v in nodes.tolist():
                twin.restart(v)
        elif what == "undecided":
            charts.undecided[:] = twin.undecided[:] = np.isin(np.arange(5), nodes)
        elif what == "settle":
            charts.settle(nodes)
            for v in nodes.tolist():
                twin.settle(v)
        else:
            charts.hold(nodes, what == "hold")
            twin.held[nodes] = what == "hold"
        if t == stop:
            other = made()
            other.restore(charts.state(), np.arange(5))
            other.undecided[:] = charts.undecided  # it follows from other windows
            charts = other
    charts.update(moments)
    np.testing.assert_allclose(charts.energy, twin.energy(moments), rtol=1e-9, atol=1e-9)


def test_a_new_node_has_no_past_and_the_others_keep_theirs():
    charts, rng = made(), np.random.default_rng(1)
    for _ in range(20):
        charts.slide(np.arange(5, dtype=np.int32), rng.normal(size=(5, 3)))
    other = made()
    other.restore(charts.state(), np.array([1, -1, 0, 2, 4]))
    moved = charts.differ()[[1, 0, 2, 4]]
    np.testing.assert_array_equal(other.differ()[[0, 2, 3, 4]], moved)
    assert np.isnan(other.differ()[1]).all()


def differences(charts: LevelCharts, x: np.ndarray) -> np.ndarray:
    nodes = np.arange(x.shape[1], dtype=np.int32)
    D = np.empty(x.shape)
    for t, row in enumerate(x):
        charts.slide(nodes, row)
        D[t] = charts.differ()
    return D


@pytest.mark.parametrize("heavy", [False, True])
def test_charts_are_in_quiet_units_and_a_shift_stands_out(heavy):
    """On data of the same law the charts are nearly normal; a shift on one node stands out after M."""
    rng = np.random.default_rng(3)
    graph = Graph.of(nx.to_numpy_array(nx.random_regular_graph(4, 30, seed=1)))
    draw = (lambda size: rng.standard_t(3, size)) if heavy else rng.standard_normal
    charts = LevelCharts(graph, (1, 1), 100, 25)
    D = differences(charts, draw((2500, 30, 2)))
    moments = charts.fit(D[125::5], 100.0)
    nodes, tops = np.arange(30, dtype=np.int32), []
    for _ in range(1000):
        charts.slide(nodes, draw((30, 2)))
        charts.update(moments)
        tops.append(np.sqrt(charts.energy))
    quiet = np.array(tops)
    assert 0.5 < np.sqrt(np.mean(quiet**2)) < 2.5  # four half-normal squares: about 1.4
    for _ in range(25):
        x = draw((30, 2))
        x[7] += 6.0 if heavy else 3.0
        charts.slide(nodes, x)
    charts.update(moments)
    assert np.sqrt(charts.energy[7]) > 1.3 * np.quantile(quiet, 0.999)
    assert charts.energy.argmax() == 7


def test_a_movement_of_all_is_shared_and_not_apart():
    rng = np.random.default_rng(4)
    graph = Graph.of(np.ones((6, 6)) - np.eye(6))
    charts = LevelCharts(graph, (1,), 60, 20)
    common = np.repeat(rng.normal(size=(1500, 1)), 6, axis=1)[:, :, None]
    D = differences(charts, common + 0.1 * rng.normal(size=(1500, 6, 1)))
    moments = charts.fit(D[80::4], 40.0)
    nodes = np.arange(6, dtype=np.int32)
    for _ in range(20):
        x = rng.normal() + 0.1 * rng.normal(size=(6, 1))
        x[2] += 0.5  # within the common movement, five times what sets nodes apart
        charts.slide(nodes, x)
    charts.update(moments)
    apart = (np.cbrt(charts.values[1, :, 0]) - moments.middle[1, :, 0]) / moments.unit[1, :, 0]
    shared = (np.cbrt(charts.values[0, :, 0]) - moments.middle[0, :, 0]) / moments.unit[0, :, 0]
    assert apart.argmax() == 2
    assert apart[2] > 4.0
    assert shared.max() < 3.5


def test_what_is_left_of_a_neighbourhood_is_no_contrast():
    """All move alike, and an incident holds most neighbours: nobody is apart."""
    n = 9
    charts = LevelCharts(Graph.of(nx.to_numpy_array(nx.star_graph(n - 1))), (1,), 50, 10)
    rng = np.random.default_rng(4)
    common = rng.normal(size=(600, 1, 1))
    null = charts.fit(differences(charts, common + 0.1 * rng.normal(size=(600, n, 1))), 15.0)
    charts.hold([1, 2, 3, 4, 5], True)
    for row in 0.5 + common[:30] + 0.1 * rng.normal(size=(30, n, 1)):
        charts.slide(np.arange(n, dtype=np.int32), row)
    charts.update(null)
    assert np.isnan(charts.values[1, 0]).all()
    assert np.isfinite(charts.values[1, 1:]).all()  # leaves hear the hub


def moving_together(n: int, rng: np.random.Generator, ticks: int) -> np.ndarray:
    """(T, n, 1): all follow one slow course, to a tenth of a standard deviation."""
    course = 3.0 * np.sin(np.arange(ticks) / 40.0)[:, None, None]
    return course + 0.1 * rng.normal(size=(ticks, n, 1))


def test_windows_that_began_anew_are_not_set_against_those_that_did_not():
    """Of a course that all follow, windows of other ticks hold another part: nobody is apart by that."""
    n, rng = 9, np.random.default_rng(6)
    charts = LevelCharts(Graph.of(np.ones((n, n)) - np.eye(n)), (1,), 100, 10)
    everyone = np.arange(n, dtype=np.int32)
    x = moving_together(n, rng, 2000)
    null = charts.fit(differences(charts, x[:1500])[200::5], 50.0)
    some = np.array([2, 3], np.int32)
    charts.restart(some)
    charts.adopt(5, 3)
    apart = []
    for row in x[1500:]:
        charts.slide(everyone, row)
        charts.update(null)
        apart.append((np.cbrt(charts.values[1, :, 0]) - null.middle[1, :, 0]) / null.unit[1, :, 0])
    away = np.array(apart)
    assert np.nanmax(away) < 5.0
    assert np.isnan(away[:109, some]).all()  # two of nine are no neighbourhood
    assert np.isfinite(away[110:, some]).all()
    assert np.isnan(away[:109, 5]).all()  # what it has learnt anew is its own
    assert np.isfinite(away[:, 4]).all()


def test_who_says_nothing_of_itself_says_nothing_to_others():
    """A node that learns a new normal moves far; what opens an incident must not be its neighbours."""
    n, rng = 9, np.random.default_rng(7)
    charts = LevelCharts(Graph.of(np.ones((n, n)) - np.eye(n)), (1,), 100, 10)
    null = charts.fit(differences(charts, rng.normal(size=(1500, n, 1)))[200::5], 50.0)
    for row in rng.normal(size=(10, n, 1)):
        row[3] += 8.0
        charts.slide(np.arange(n, dtype=np.int32), row)
    charts.update(null)
    heard = np.sqrt(charts.energy)[[0, 1, 2, 4, 5, 6, 7, 8]]
    charts.undecided[3] = True
    charts.update(null)
    unheard = np.sqrt(charts.energy)[[0, 1, 2, 4, 5, 6, 7, 8]]
    assert heard.min() > 5.0
    assert unheard.max() < 4.0
    assert np.isnan(charts.told(np.array([3], np.int32))[0, 0])


def test_a_reference_that_is_fixed_fills_and_then_stays():
    charts = LevelCharts(GRAPH, (1,), R, M, fixed=True)
    everyone = np.arange(5, dtype=np.int32)
    for value in range(40):
        charts.slide(everyone, np.full((5, 1), value * 0.125))
    charts.hold([0], True)
    charts.hold([0], False)
    charts.slide(everyone, np.full((5, 1), 5.0))
    assert charts.ref_count.tolist() == [R] * 5
    np.testing.assert_allclose(charts.ref_sum[:, 0] * UNIT / R, 0.5)  # of 0, .125 ... 1


def test_constant_sensors_and_silence_do_no_harm():
    """A constant has no spread: the floor keeps its chart finite; a node never heard takes no part."""
    charts = LevelCharts(Graph.of(np.ones((3, 3)) - np.eye(3)), (1,), 20, 5)
    nodes, rng = np.array([0, 1], np.int32), np.random.default_rng(5)
    D = []
    for _ in range(200):
        charts.slide(nodes, np.array([[1.0], [rng.normal()]]))
        D.append(charts.differ().copy())
    moments = charts.fit(np.array(D)[40:], 10.0)
    charts.update(moments)
    assert np.isfinite(charts.energy).all()
    assert charts.energy[2] == 0.0
    for name in vars(moments):
        assert np.isfinite(getattr(moments, name)).all(), name
