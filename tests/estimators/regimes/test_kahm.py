"""Kernel affine hull machines: the document's equations, the facts that hold for them, groups of parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import special_ortho_group

from estimators import NotFittedError
from estimators.regimes.kahm import Kahm, KahmGroup, fixed_point
from tests.estimators.regimes.kahm_twin import Twin

SQUARE = 0.5 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
POLE = np.array([[-0.04, -0.31], [0.34, -0.24], [0.12, -0.33], [-0.29, 0.33]])
LITERAL = {"support": None, "guard": None}


def cloud(N=40, p=5, seed=0):
    """Points of order one on a bent sheet."""
    rng = np.random.default_rng(seed)
    return np.tanh(rng.normal(size=(N, p)) @ rng.normal(size=(p, p)) * 0.4 + rng.normal(size=p))


def samples():
    """Small sets of points in the cube, of all shapes, with ties and constant columns among them."""
    shapes = st.tuples(st.integers(2, 12), st.integers(1, 5))
    return arrays(np.float64, shapes, elements=st.floats(-1.0, 1.0, allow_subnormal=False, width=32))


def hull_distance(Y, y):
    """Distance of y to the affine hull of the rows of Y."""
    _, s, V = np.linalg.svd(Y - Y[0], full_matrices=False)
    V = V[s > 1e-9 * max(s.max(initial=0.0), 1e-300)]
    return np.linalg.norm((y - Y[0]) - (y - Y[0]) @ V.T @ V)


def test_worked_example():
    """The unit square halved, and the same one moved: hand-computed values."""
    a, b = Kahm(support=None).fit(SQUARE), Kahm(support=None).fit(SQUARE + np.array([1.0, 0.0]))
    questions = [[0.3, 0.2], [1.3, 0.2], [0.8, 1.5]]

    assert (a.n_, a.tau_) == (2, 0.25)
    assert a.lam_ == pytest.approx(0.2544953909, abs=5e-11)
    np.testing.assert_allclose(a.v_, 0.4128207823, atol=5e-11)
    np.testing.assert_allclose(
        a.distance([[0.25, 0.25], [0, 0], [1, 1]]), [0, 0.0559777750, 0.388626428], atol=5e-10
    )
    np.testing.assert_allclose(a.image([[1.0, 1.0]]), [[0.72519962, 0.72519962]], atol=5e-9)
    assert (b.tau_, b.lam_) == (pytest.approx(1.75), pytest.approx(1.9658669648, abs=5e-11))
    np.testing.assert_allclose(a.distance(questions), [0.008548, 0.511118, 0.706364], atol=5e-7)
    np.testing.assert_allclose(b.distance(questions), [0.614804, 0.030821, 0.919337], atol=5e-7)


SETS = [SQUARE, POLE, cloud(), cloud(12, 20, 1), cloud(60, 1, 2), cloud(9, 3, 3) * 0.05]


@pytest.mark.parametrize("Y", SETS, ids=["square", "pole", "cloud", "wide", "line", "small"])
def test_agrees_with_the_equations(Y):
    """The fast form is the document's, equation by equation, to twelve digits."""
    twin, fast = Twin(Y), Kahm(**LITERAL).fit(Y)
    questions = np.concatenate([Y, Y[:5] + 0.2 * Y.std(), Y[:5] * 1.3])

    assert fast.n_ == twin.n
    assert fast.lam_ == pytest.approx(twin.lam, rel=1e-12)
    np.testing.assert_allclose(fast.image(questions), [twin.image(y) for y in questions], atol=1e-12)
    np.testing.assert_allclose(fast.distance(questions), [twin.distance(y) for y in questions], atol=1e-12)
    assert twin.weights(questions[0]).sum() == pytest.approx(1.0, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(samples())
def test_ridge_is_between_tau_and_its_half_more(Y):
    """tau < lambda < 1.5 tau unless all samples are zero, and no digit of it comes from the start."""
    model = Kahm(support=None).fit(Y)

    if not np.any(Y):
        assert model.n_ == 0
        return
    assert model.tau_ < model.lam_ <= 1.5 * model.tau_


def test_fixed_point_does_not_depend_on_its_start():
    """Successive differences shrink to 4/27 or less, from anywhere in (0, tau / 2)."""
    Y = cloud()
    twin = Twin(Y)
    sigma, U = np.linalg.eigh(twin.K)
    energy = np.sum((U.T @ Y) ** 2, axis=1) / Y.size
    found = [fixed_point(np.maximum(sigma, 0), energy, twin.tau, share * twin.tau, 1e-12)
             for share in (1e-9, 0.1, 0.25, 0.499)]  # fmt: skip
    steps = np.abs(np.diff(twin.trace))
    steps = steps[steps > 1e-13]

    np.testing.assert_allclose(found, twin.lam - twin.tau, rtol=1e-10)
    assert len(steps) > 3
    assert np.max(steps[1:] / steps[:-1]) <= 4 / 27


@settings(deadline=None, max_examples=80)
@given(samples(), st.integers(0, 10**6), st.floats(0.0, 100.0), st.sampled_from([None, 2.0]))
def test_image_is_in_the_affine_hull(Y, seed, away, guard):
    """No point is nearer to its image than to the affine hull of the samples, guarded or not."""
    y = np.random.default_rng(seed).normal(size=(1, Y.shape[1])) * away
    model = Kahm(support=None, guard=guard).fit(Y)
    gamma = model.distance(y)[0]

    scale = 1.0 + np.linalg.norm(y) + np.linalg.norm(model.image(y))
    assert not gamma < hull_distance(Y, y[0]) - 1e-8 * scale


@settings(deadline=None, max_examples=80)
@given(samples(), st.integers(0, 10**6), st.floats(-3.0, 8.0))
def test_far_points_are_far(Y, seed, exponent):
    """With the guard the image stays within two radii of the mean, for every point, and nothing overflows."""
    y = np.random.default_rng(seed).normal(size=(3, Y.shape[1])) * 10.0**exponent
    model = Kahm().fit(Y)
    moved = np.linalg.norm(model.image(y) - model.mean_, axis=1)

    assert np.all(moved <= 2.0 * model.radius_ + 1e-9)
    lower = np.linalg.norm(y - model.mean_, axis=1) - 2.0 * model.radius_
    assert np.all(model.distance(y) >= lower - 1e-6 * (1.0 + np.abs(lower)))


def test_guard_is_needed():
    """The literal map has a pole, against Theorem 2.2: the denominator of (69) vanishes; ours has none."""
    line = np.array([[16.55, -23.4]])
    literal, guarded = Kahm(**LITERAL).fit(POLE), Kahm(support=None).fit(POLE)
    bound = np.linalg.norm(POLE, 2) * (1.0 + len(POLE) / literal.tau_)  # (11)
    near = 0.8439 + np.linspace(-1e-4, 1e-4, 2001)[:, None]

    assert literal.lam_ == pytest.approx(0.14829, abs=5e-6)
    np.testing.assert_allclose(literal.v_, [0.632, 0.644, -0.059, 0.589], atol=1e-3)
    assert bound == pytest.approx(20.2, abs=0.05)
    assert np.linalg.norm(literal.image(near * line), axis=1).max() > 1000 * bound
    assert np.linalg.norm(guarded.image(near * line), axis=1).max() < 3.0


def test_limits_of_the_ridge():
    """No ridge interpolates the samples; a large one averages with kernel weights (Nadaraya, Watson)."""
    Y = cloud(15, 3)
    tiny, large = Twin(Y, lam=1e-10), Twin(Y, lam=1e10)
    y = Y[0] + 0.1
    k = np.array([large.kernel(large.P @ y, x) for x in large.x])

    np.testing.assert_allclose([tiny.image(sample) for sample in Y], Y, atol=1e-5)
    np.testing.assert_allclose(large.image(y), k @ Y / k.sum(), atol=1e-8)


def test_order_and_rotation_do_not_matter():
    """Permuted samples and a rotated space give the same distances; scaled or shifted data do not."""
    Y, rng = cloud(), np.random.default_rng(4)
    y, turn = cloud(10, 5, 7), special_ortho_group.rvs(5, random_state=4)
    plain = Kahm().fit(Y).distance(y)

    np.testing.assert_allclose(Kahm().fit(rng.permutation(Y)).distance(y), plain, atol=1e-13)
    np.testing.assert_allclose(Kahm().fit(Y @ turn).distance(y @ turn), plain, atol=1e-13)
    assert np.abs(Kahm().fit(Y + 5.0).distance(y + 5.0) - plain).max() > 1e-3
    assert np.abs(Kahm().fit(Y * 9.0).distance(y * 9.0) / 9.0 - plain).max() > 1e-3


def test_leave_one_out_is_deletion():
    """The closed form equals a machine without the sample at the same subspace, whitening and ridge."""
    Y = cloud(20, 4)
    whole = Twin(Y)
    explicit = []
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        M = whole.K[np.ix_(rest, rest)] + whole.lam * np.eye(len(rest))
        h = np.linalg.inv(M) @ whole.K[rest, i]
        explicit.append(np.linalg.norm(Y[i] - h @ Y[rest] / h.sum()))

    np.testing.assert_allclose(Kahm(**LITERAL).fit(Y).loo_distance(), explicit, atol=1e-12)


@pytest.mark.parametrize(
    "Y", [np.full((30, 3), 0.4), np.zeros((5, 2)), [[0.1, -0.2, 0.7]], cloud(8, 3) * 1e-5]
)
def test_no_spread_is_a_point(Y):
    """One sample, equal ones, or a spread too small to count: the distance is that to the mean."""
    model, y = Kahm().fit(Y), cloud(6, np.shape(Y)[1], 5)

    assert model.n_ == 0
    np.testing.assert_allclose(model.distance(y), np.linalg.norm(y - np.mean(Y, axis=0), axis=1), atol=1e-12)
    with pytest.raises(ValueError, match="loo_distance"):
        model.loo_distance()


def test_singular_samples():
    """A constant column and duplicated rows are dropped directions, not an error."""
    Y = np.column_stack([cloud(20, 2), np.full(20, 0.3)])
    model = Kahm(support=None).fit(np.concatenate([Y, Y]))

    assert model.n_ == 2
    assert np.isfinite(model.distance(cloud(5, 3, 3))).all()


def test_few_samples_span_few_directions():
    """The subspace has at most a third of the samples' number; the document's rule allows all."""
    Y = cloud(9, 8)

    assert Kahm().fit(Y).n_ == 3
    assert Kahm(support=None).fit(Y).n_ == 8
    assert Kahm(n_max=2).fit(Y).n_ == 2


def test_kernel_of_rank_one():
    """The kernel (19) has rank one and is positive; the complexity of its hypotheses is at most 1/sqrt(N)."""
    Y, rng = cloud(60, 4), np.random.default_rng(0)
    g = np.exp(-Kahm().fit(Y).distance(Y) / 4.0)  # (44)
    gram = np.outer(g, g)
    sums = rng.choice((-1.0, 1.0), (20_000, 60)) @ g
    complexity = np.mean(np.where(sums > 0, sums * g.max(), sums * g.min())) / 60  # (30), by Monte Carlo

    assert np.all((g > 0) & (g <= 1))
    assert np.linalg.matrix_rank(gram) == 1
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    assert 0 <= complexity <= 1 / np.sqrt(60)


def test_two_clients_on_spirals():
    """Two sites with their own view of three arms: together they name all points of both."""
    r, t = np.linspace(0.25, 0.95, 100), np.linspace(0.0, 2.0, 100)
    first = [np.column_stack([r * np.sin(t + 2 * c), r * np.cos(t + 2 * c)]) for c in range(3)]
    second = [np.sin(0.75 * np.pi * Y) + 0.1 for Y in first]
    machines = [[Kahm(support=None).fit(Y) for Y in site] for site in (first, second)]
    for site in (first, second):
        points = np.concatenate(site)
        table = np.array([[m.distance(points) for m in client] for client in machines]).min(axis=0)  # (18)
        named = table.argmin(axis=0)  # (63)
        np.testing.assert_array_equal(named, np.repeat([0, 1, 2], 100))
    alone = np.argmin([m.distance(np.concatenate(second)) for m in machines[0]], axis=0)
    assert np.mean(alone == np.repeat([0, 1, 2], 100)) < 1.0


def test_group_is_the_minimum_over_its_parts():
    """Parts cut by k-means cover all samples; the nearest one decides; few samples are one part."""
    Y, y = np.concatenate([cloud(90, 3, 0), cloud(60, 3, 1) + 1.0]), cloud(20, 3, 2)
    group, one = KahmGroup(block=40).fit(Y), KahmGroup(block=1000).fit(Y)

    assert 2 <= len(group.parts_) <= 4
    assert group.sizes_.sum() == 150
    np.testing.assert_array_equal(np.sort(group.Y_, axis=0), np.sort(Y, axis=0))
    np.testing.assert_array_equal(group.distance(y), np.min([p.distance(y) for p in group.parts_], axis=0))
    np.testing.assert_allclose(np.linalg.norm(y - group.image(y), axis=1), group.distance(y), atol=1e-15)
    np.testing.assert_array_equal(one.distance(y), Kahm().fit(Y).distance(y))
    np.testing.assert_array_equal(KahmGroup(block=40).fit(Y).distance(y), group.distance(y))


def test_group_of_lonely_samples():
    """A part of one sample joins the nearest; equal samples make one part, whatever their number."""
    lonely = np.concatenate([cloud(40, 2), [[50.0, 50.0]], [[-50.0, 50.0]]])
    group = KahmGroup(block=6).fit(lonely)

    assert group.sizes_.min() >= 2
    assert group.sizes_.sum() == 42
    assert KahmGroup(block=5).fit(np.full((50, 2), 0.1)).sizes_.tolist() == [50]


def test_group_is_restored_from_its_samples():
    """Samples and sizes of the parts give back the group, bit by bit."""
    group, y = KahmGroup(block=30).fit(cloud(100, 3)), cloud(20, 3, 2)
    again = KahmGroup(block=30).fit(group.Y_, group.sizes_)

    np.testing.assert_array_equal(again.distance(y), group.distance(y))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Kahm(n_max=0), "n_max: must be in"),
        (lambda: Kahm(guard=0.5), r"guard: must be in \[1, inf\), got 0.5"),
        (lambda: Kahm(support=0), "support: must be in"),
        (lambda: Kahm().fit(np.empty((0, 3))), r"Y: no sample, shape \(0, 3\)"),
        (lambda: Kahm().fit([[0.0, np.nan]]), r"Y\[0, 1\] is nan: values must be finite"),
        (lambda: Kahm().fit([[1e200], [-1e200]]), "Y: the squares overflow"),
        (lambda: Kahm().fit(SQUARE).distance([[0.0]]), "y: dimension 1, but the samples have 2"),
        (lambda: KahmGroup(block=1), "block: must be in"),
        (lambda: KahmGroup().fit(SQUARE, [3, 2]), r"sizes: \[3, 2\] do not cut 4 samples into parts"),
    ],
)
def test_refused(call, message):
    """Bad arguments are refused by name and value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_not_fitted():
    """Questions before ``fit`` are refused."""
    for model in (Kahm(), KahmGroup()):
        with pytest.raises(NotFittedError, match="call fit first"):
            model.distance(SQUARE)
