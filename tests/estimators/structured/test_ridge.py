"""Ridge regression on parts, against the literal sums and refits of the document."""

from __future__ import annotations

import numpy as np
import pytest

from estimators import PartRidge
from estimators.core.kernels import gaussian

WIDTHS = (0.1, 1.0, 4.0)
NAMES = np.array(["north", "east", "south", "west", "gate", "mill", "lock", "weir"])


def draw(m=60, D=3, T=3, seed=0):
    """Parts of eight inputs, soft labels, and the names of the inputs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, D)), rng.dirichlet(np.ones(T), m), rng.choice(NAMES, m)


def test_worked_example():
    """Two events on a path of six nodes: nodes 4 and 5 are found though no event has ever touched them."""

    def parts(s):
        rims = [[u for u in (v - 1, v + 1) if 0 <= u < 6] for v in range(6)]
        return np.array([[s[v], np.mean([s[u] for u in rims[v]])] for v in range(6)], dtype=float)

    F = np.vstack([parts([0, 0, 3, 3, 0, 0]), parts([3, 3, 0, 0, 0, 0])])
    H = np.eye(2)[[0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0]]
    g, _ = PartRidge(sigma=1.0, lam=0.01).fit(F, H).embed(parts([0, 0, 0, 0, 3, 3]))

    np.testing.assert_allclose(g[:, 1], [0, 0, 0, 0.0004, 0.9700, 0.9190], atol=1e-4)
    np.testing.assert_allclose(g[:, 0], [0.9821, 0.9821, 0.9821, 0.9708, 0.0004, -0.0001], atol=1e-4)


def test_is_the_double_sum_of_equation_six():
    """g is sum_j alpha_j H_j with alpha = (K + m lam I)^-1 v, and the support is sum_j alpha_j."""
    F, H, _ = draw()
    x = draw(20, seed=1)[0]
    alpha = np.linalg.inv(gaussian(F, F, 1.5) + 60 * 0.01 * np.eye(60)) @ gaussian(F, x, 1.5)
    g, support = PartRidge(sigma=1.5, lam=0.01).fit(F, H).embed(x)

    expected = [[sum(alpha[j, i] * H[j, c] for j in range(60)) for c in range(3)] for i in range(20)]
    np.testing.assert_allclose(g, expected, atol=1e-12)
    np.testing.assert_allclose(support, alpha.sum(axis=0), atol=1e-12)


def test_support_ends_where_the_parts_end():
    """Support is near one among the parts, and zero far away, where g is zero as well."""
    F, H, _ = draw(400, 2)
    model = PartRidge(sigma=1.0, lam=1e-4).fit(F, H)
    g, support = model.embed([[0.1, -0.2], [30.0, 0.0]])

    assert abs(support[0] - 1.0) < 0.05
    assert support[1] < 1e-6
    np.testing.assert_allclose(g[1], 0.0, atol=1e-6)


def test_weights_are_repetitions():
    """A part of weight three counts like three parts: K + m lam W^-1 with the same product m lam."""
    F, H, _ = draw(30)
    times = np.random.default_rng(2).integers(1, 4, 30)
    rows, x = np.repeat(np.arange(30), times), draw(10, seed=3)[0]
    repeated = PartRidge(lam=0.01).fit(F[rows], H[rows])
    weighted = PartRidge(lam=0.01 * len(rows) / 30).fit(F, H, weights=times)
    centred = PartRidge(lam=0.01 * len(rows) / 30, centres=F).fit(F, H, weights=times)

    for model in (weighted, centred):
        np.testing.assert_allclose(model.embed(x)[0], repeated.embed(x)[0], atol=1e-7)


@pytest.mark.parametrize("centres", [None, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_left_out_are_refits(centres, weighted):
    """The closed form equals a fit without the group, with m lam and the centres as they were."""
    F, H, groups = draw()
    w = np.random.default_rng(4).uniform(0.5, 2.0, 60) if weighted else None
    model = PartRidge(sigma=1.5, lam=0.01, centres=centres)
    g, support = model.leave_out(F, H, groups, w)
    fixed = None if centres is None else PartRidge(centres=centres).fit(F, H).parts_
    for name in NAMES:
        out = groups == name
        rest = PartRidge(sigma=1.5, lam=0.01 * 60 / (~out).sum(), centres=fixed)
        rest.fit(F[~out], H[~out], None if w is None else w[~out])

        np.testing.assert_allclose(g[out], rest.embed(F[out])[0], atol=1e-9)
        np.testing.assert_allclose(support[out], rest.embed(F[out])[1], atol=1e-9)


def test_all_centres_are_the_exact_solution():
    """Nystroem with every part a centre is no approximation; duplicated parts are one centre."""
    F, H, _ = draw()
    twice, labels = np.vstack([F, F]), np.vstack([H, H[::-1]])
    exact = PartRidge(sigma=1.5, lam=0.01).fit(twice, labels)
    centred = PartRidge(sigma=1.5, lam=0.01, centres=1000).fit(twice, labels)

    assert len(centred.parts_) == 60
    np.testing.assert_allclose(centred.embed(F)[0], exact.embed(F)[0], atol=1e-8)


def test_partial_fits_are_one_fit():
    """Parts that come in three batches give what they give at once."""
    F, H, _ = draw()
    w = np.random.default_rng(5).uniform(0.5, 2.0, 60)
    centres = F[::4]
    once = PartRidge(centres=centres).fit(F, H, w)
    grown = PartRidge(centres=centres)
    for some in (slice(0, 7), slice(7, 40), slice(40, 60)):
        assert grown.partial_fit(F[some], H[some], w[some]) is grown

    np.testing.assert_allclose(grown.B_, once.B_, atol=1e-9)
    meta, arrays = grown.state()
    more = PartRidge.of_state(meta, arrays).partial_fit(F, H)
    np.testing.assert_allclose(more.B_, once.partial_fit(F, H).B_, atol=1e-9)


def test_product_kernel_is_vector_ridge_on_whole_inputs():
    """Eq. 13 with all parts is the estimator without parts, at lam times the number of parts."""
    rng = np.random.default_rng(6)
    n, P, T = 12, 5, 3
    inputs, labels, x = rng.normal(size=(n, 4)), rng.dirichlet(np.ones(T), (n, P)), rng.normal(size=(7, 4))
    K = np.kron(gaussian(inputs, inputs, 2.0), np.eye(P))  # K_0(x, x') [p = p']
    v = np.kron(gaussian(x, inputs, 2.0), np.eye(P))
    by_parts = v @ np.linalg.solve(K + n * P * 0.01 * np.eye(n * P), labels.reshape(n * P, T))
    whole, _ = PartRidge(sigma=2.0, lam=P * 0.01).fit(inputs, labels.reshape(n, P * T)).embed(x)

    np.testing.assert_allclose(whole.reshape(7 * P, T), by_parts, atol=1e-12)


def test_identity_favours_the_own_node():
    """With identity a part at the same node weighs 1 + kappa times; unseen nodes gain nothing from it."""
    F, H, _ = draw(40)
    nodes = np.arange(40) % 10
    x, at = draw(3, seed=7)[0], np.array([3, 99, -1])
    K = gaussian(F, F, 1.0) * (1 + 2.0 * (nodes[:, None] == nodes[None, :]))
    v = gaussian(x, F, 1.0) * (1 + 2.0 * (at[:, None] == nodes[None, :]))
    g, _ = PartRidge(lam=0.01, identity=2.0).fit(F, H, nodes=nodes).embed(x, at)

    np.testing.assert_allclose(g, v @ np.linalg.solve(K + 0.4 * np.eye(40), H), atol=1e-12)


def test_angles_by_their_embedding():
    """For the loss sin^2 the minimiser is half the angle of sum alpha (cos 2 eta, sin 2 eta) (Eq. 24, 25)."""
    F, _, _ = draw(50)
    rng = np.random.default_rng(8)
    eta, x = rng.uniform(-np.pi, np.pi, 50), draw(5, seed=9)[0]
    g, _ = PartRidge(lam=0.05).fit(F, np.column_stack([np.cos(2 * eta), np.sin(2 * eta)])).embed(x)
    angle = 0.5 * np.arctan2(g[:, 1], g[:, 0])
    alpha = np.linalg.solve(
        gaussian(F, F, 1.0) + 2.5 * np.eye(50), gaussian(F, x, 1.0)
    )  # signs of both kinds
    grid = np.linspace(-np.pi / 2, np.pi / 2, 20001)
    loss = np.sin(grid[:, None] - eta[None, :]) ** 2 @ alpha  # (grid, x)
    at = [np.interp(z, grid, loss[:, i]) for i, z in enumerate(angle)]

    assert (alpha < 0).any()
    np.testing.assert_allclose(at, loss.min(axis=0), atol=1e-6)


def test_selection_leaves_whole_groups_out():
    """Copies within a group tempt to a small width; only leaving groups out tells that they teach nothing."""
    rng = np.random.default_rng(10)
    centres = rng.normal(size=(30, 2))
    F = np.repeat(centres, 8, axis=0) + 1e-3 * rng.normal(size=(240, 2))
    H = np.eye(2)[np.repeat(rng.integers(0, 2, 30), 8)]
    groups = np.repeat(np.arange(30), 8)
    by_group = PartRidge.select(F, H, groups, sigmas=WIDTHS).selection_
    by_part = PartRidge.select(F, H, np.arange(240), sigmas=WIDTHS).selection_

    assert by_part.best()["loss"] < 0.01
    assert by_group.best()["loss"] > 0.3
    model = PartRidge.select(F, H, groups, sigmas=WIDTHS)
    best = by_group.best()
    assert (model.sigma, model.lam) == (best["sigma"], best["lam"])
    for found, refit in zip(model.left_out_, model.leave_out(F, H, groups), strict=True):
        np.testing.assert_allclose(found, refit, atol=1e-9)


@pytest.mark.parametrize("centres", [None, 15])
def test_state_gives_the_same_model(centres):
    """State is plain values and arrays; what is built from it answers the same, bit by bit."""
    F, H, _ = draw()
    model = PartRidge(sigma=1.3, identity=0.5, centres=centres).fit(F, H, nodes=np.arange(60) % 7)
    again = PartRidge.of_state(*model.state())

    np.testing.assert_array_equal(again.embed(F, np.arange(60) % 7)[0], model.embed(F, np.arange(60) % 7)[0])
    meta, arrays = model.state()
    with pytest.raises(ValueError, match="B: shape"):
        PartRidge.of_state(meta, {**arrays, "B": arrays["B"][:3], "right": arrays["B"][:3]})


def test_fit_keeps_no_hold_of_its_input():
    """Inputs stay as they were, and writing to them later changes nothing."""
    F, H, _ = draw()
    before = F.copy()
    model = PartRidge().fit(F, H)
    answer = model.embed(before)[0]
    np.testing.assert_array_equal(F, before)
    F[:] = 7.0

    np.testing.assert_array_equal(model.embed(before)[0], answer)


def test_duplicates_and_no_ridge():
    """Equal parts with unequal labels give their mean, even without a ridge."""
    F, H = np.zeros((6, 2)), np.eye(2)[[0, 1, 1, 1, 0, 1]]
    for centres in (None, 3):
        g, _ = PartRidge(lam=0.0, centres=centres).fit(F, H).embed(F[:1])
        np.testing.assert_allclose(g, [[1 / 3, 2 / 3]], atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: PartRidge(kernel="sinc"), "kernel: unknown name 'sinc'; known: gaussian, laplace, linear"),
        (lambda: PartRidge(sigma=0.0), "sigma: must be in"),
        (lambda: PartRidge(lam=-1.0), "lam: must be in"),
        (lambda: PartRidge(centres=0), "centres: must be in"),
        (lambda: PartRidge().fit(np.zeros((0, 2)), np.zeros((0, 2))), "F: no part"),
        (lambda: PartRidge().fit([[np.nan, 0.0]], [[1.0]]), r"F\[0, 0\] is nan"),
        (lambda: PartRidge().fit(np.zeros((3, 2)), np.zeros((2, 2))), "H: 2 rows, but F has 3"),
        (lambda: PartRidge().fit(np.zeros((2, 2)), np.eye(2), weights=[1.0, 0.0]), "weights: must be finite"),
        (lambda: PartRidge().fit(np.zeros((2, 2)), np.eye(2), nodes=[0.5, 1.0]), "nodes: expected 2 whole"),
        (lambda: PartRidge().fit(np.zeros((2, 2)), np.eye(2)).embed(np.zeros((1, 3))), "F: 3 features"),
        (lambda: PartRidge().fit(np.zeros((2, 2)), np.eye(2)).partial_fit([[0, 0]], [[0, 1]]), "cannot grow"),
        (lambda: PartRidge().embed([[0.0]]), "call fit first"),
        (lambda: PartRidge.select(np.zeros((2, 2)), np.eye(2), ["a", "a"]), "groups: one group only"),
        (lambda: PartRidge.select(np.zeros((2, 2)), np.eye(2), ["a"]), "groups: shape"),
    ],
)  # fmt: skip
def test_bad_input_is_named(wrong, told):
    """Errors name the argument."""
    with pytest.raises(ValueError, match=told):
        wrong()
