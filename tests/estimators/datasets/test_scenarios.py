"""The scenarios: graphs, samples, exact ratios and divergences, streams."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from estimators import SCENARIOS, scenario
from estimators.datasets.scenarios import UNCHANGED


@pytest.fixture(params=SCENARIOS)
def truth(request):
    return scenario(request.param, 60, seed=3)


def test_graph_and_groups(truth):
    """Every node is in exactly one group, and the graph has the nodes 0 to N - 1."""
    nodes = np.concatenate([g.nodes for g in truth.groups])

    assert sorted(nodes) == list(range(60)) == list(truth.graph)
    assert truth.n_nodes == 60
    assert truth.dim == {"Ia": 1, "Ib": 2, "IIa": 3, "IIb": 2}[truth.name]
    assert truth.group(int(nodes[0])) is truth.groups[0]
    with pytest.raises(IndexError, match="node 60"):
        truth.group(60)


def test_structure():
    """Blocks are dense inside and sparse between; the ego network is what is within two hops of a node."""
    blocks, ego = scenario("Ia", 100), scenario("IIa", 100)
    inside = sum(u // 25 == v // 25 for u, v in blocks.graph.edges)
    changed = ego.groups[0].nodes

    assert inside > 0.85 * blocks.graph.number_of_edges()
    assert ego.graph.number_of_edges() == 4 + 2 * 95
    assert nx.is_connected(ego.graph.subgraph(changed.tolist()))
    assert any(set(nx.ego_graph(ego.graph, int(u), 2)) == set(changed.tolist()) for u in changed)


@pytest.mark.parametrize("n_nodes", [8, 50, 250])
def test_any_size(n_nodes):
    """Scenarios of any size have samples of any size; unknown names and tiny networks are refused."""
    for name in SCENARIOS:
        ref, test = scenario(name, n_nodes, seed=1).sample(7, seed=2)
        assert ref.shape == test.shape == (n_nodes, 7, scenario(name, n_nodes).dim)
    with pytest.raises(ValueError, match="unknown scenario 'III'"):
        scenario("III")
    with pytest.raises(ValueError, match="n_nodes: must be at least 8, got 3"):
        scenario("Ia", 3)


def test_seeded(truth):
    """The same seeds give the same graph and the same points, other seeds others."""
    again = scenario(truth.name, 60, seed=3)

    assert nx.utils.edges_equal(truth.graph.edges, again.graph.edges)
    np.testing.assert_array_equal(truth.sample(5, 1), again.sample(5, 1))
    assert not np.array_equal(truth.sample(5, 1), truth.sample(5, 2))


def test_samples_follow_their_densities(truth):
    """Moments of many samples are those of p and q; the mean of the ratio under p^alpha is one."""
    rng = np.random.default_rng(0)
    for group in truth.groups:
        v = int(group.nodes[0])
        x, x_ = group.p.sample(40_000, rng), group.q.sample(40_000, rng)
        mixture = np.concatenate([x[:36_000], x_[:4_000]])

        assert truth.ratio(v, mixture).mean() == pytest.approx(1.0, abs=0.03)
        assert np.all(truth.ratio(v, mixture) <= 10.0)
        if group.kind == "normal to uniform":
            np.testing.assert_allclose([x.mean(), x.var(), x_.mean(), x_.var()], [0, 1, 0, 1], atol=0.03)
        if group.kind == "correlation lost":
            assert np.corrcoef(x.T)[0, 1] == pytest.approx(0.8, abs=0.02)
            assert np.corrcoef(x_.T)[0, 1] == pytest.approx(0.0, abs=0.02)
        if group.kind == "one mode to five":
            np.testing.assert_allclose(np.cov(x_.T), 15.0 * np.eye(2), atol=0.5)


def test_divergences(truth):
    """Quadrature agrees with large samples; unchanged nodes have ratio one and divergence zero."""
    rng = np.random.default_rng(1)
    for group in truth.groups:
        v = int(group.nodes[0])
        if group.kind == UNCHANGED:
            assert truth.divergence(v) == truth.kl(v) == 0.0
            np.testing.assert_array_equal(truth.ratio(v, group.p.sample(9, rng)), 1.0)
            continue
        x, x_ = group.p.sample(200_000, rng), group.q.sample(200_000, rng)
        r, r_ = truth.ratio(v, x), truth.ratio(v, x_)
        pearson = r_.mean() - 0.45 * np.mean(r**2) - 0.05 * np.mean(r_**2) - 0.5
        kl = np.mean(np.log(group.q.pdf(x_) / group.p.pdf(x_)))

        assert truth.divergence(v) == pytest.approx(pearson, rel=0.03)
        assert truth.kl(v) == pytest.approx(kl, rel=0.03)


def test_closed_forms():
    """Kullback-Leibler divergences of normal densities are those of the text books."""
    shifted, paired = scenario("Ia"), scenario("Ib")
    lost = int(paired.groups[1].nodes[0])

    assert shifted.kl(99) == pytest.approx(0.5, abs=1e-6)
    assert paired.kl(99) == pytest.approx(1.0, abs=1e-6)
    assert paired.kl(lost) == pytest.approx(0.5 * (2 / 0.36 - 2 + np.log(0.36)), abs=1e-6)


def test_infinite_divergence():
    """The plain ratio of a lost correlation has no finite divergence; the relative one has."""
    paired = scenario("Ib")
    lost = int(paired.groups[1].nodes[0])

    assert paired.divergence(lost, 0.0) == np.inf
    assert paired.divergence(lost, 0.01) < 100.0
    assert paired.divergence(99, 0.0) == pytest.approx((np.exp(2.0) - 1.0) / 2.0, rel=1e-6)


def test_error(truth):
    """The exact ratio has error zero; a constant ratio of one has twice the divergence."""
    exact = truth.error(truth.ratio, n=500)
    constant = truth.error(lambda v, x: np.ones(len(x)), n=20_000)
    divergences = np.array([truth.divergence(v) for v in range(60)])

    np.testing.assert_array_equal(exact, 0.0)
    np.testing.assert_allclose(constant, 2.0 * divergences, rtol=0.15)


def test_stream(truth):
    """A stream changes at its row, in the nodes it names, and its past does not depend on the change."""
    moved = truth.stream(300, 100, seed=5)
    quiet = truth.stream(300, 300, seed=5)
    changed = np.concatenate(list(moved.changed.values()))

    assert moved.x.shape == (300, 60, truth.dim)
    assert moved.change_at == 100
    assert UNCHANGED not in moved.changed
    assert set(changed) == {v for v in range(60) if truth.divergence(v) > 0.0}
    np.testing.assert_array_equal(moved.x[:100], quiet.x[:100])
    np.testing.assert_array_equal(moved.x, truth.stream(300, 100, seed=5).x)
    with pytest.raises(ValueError, match=r"change_at: must be in \[0, 300\], got 301"):
        truth.stream(300, 301, seed=5)
