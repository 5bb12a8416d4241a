"""Ratio, weighted regression and Christoffel function against what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators import Christoffel, Dictionary, Iwrls, NotFittedError, SpectralRatio
from estimators.core.kernels import gaussian
from estimators.spectral.filters import SCHEMES, Spectrum
from estimators.spectral.iwrls import effective_sample_size
from estimators.spectral.ratio import interleaved

SOURCE, TARGET = (0.5, 0.5), (0.0, 0.3)  # mean and spread
SEEDS = range(6)


def density(x, mean, spread):
    return np.exp(-0.5 * ((x - mean) / spread) ** 2) / spread


def beta(x):
    """The exact ratio of target over source: bounded, for the target is narrower."""
    return (density(x, *TARGET) / density(x, *SOURCE))[:, 0]


def draw(n, seed):
    """Source and target points (n, 1), and fresh source points to judge by."""
    rng = np.random.default_rng(seed)
    return rng.normal(*SOURCE, (n, 1)), rng.normal(*TARGET, (n, 1)), rng.normal(*SOURCE, (4000, 1))


def labelled(n, seed):
    """Source points with sinc(x) and noise, target points, and fresh target points with sinc(x)."""
    rng = np.random.default_rng(seed)
    x, t, z = rng.normal(*SOURCE, (n, 1)), rng.normal(*TARGET, (n, 1)), rng.normal(*TARGET, (4000, 1))
    return x, np.sinc(x[:, 0]) + 0.1 * rng.normal(size=n), t, z, np.sinc(z[:, 0])


def square(a, b):
    return float(np.mean(np.square(a - b)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ratio_of_gaussians(scheme):
    """The error falls with n, and is a small part of that of taking no shift for granted, var beta = 0.79."""
    errors = {}
    for n in (100, 800):
        found = []
        for seed in SEEDS:
            x, t, z = draw(n, seed)
            found.append(square(SpectralRatio(scheme=scheme).fit(x, t).ratio(z), beta(z)))
        errors[n] = np.mean(found)

    assert errors[100] < 0.25
    assert errors[800] < 0.06
    assert errors[800] < 0.5 * errors[100]


def test_tikhonov_is_kulsif():
    """Each candidate of the ridge solves (Sigma + lambda I) theta = h."""
    x, t, _ = draw(80, 0)
    fit = SpectralRatio(scheme="tikhonov", lams=[0.3, 0.01]).fit(x, t)
    psi, h = fit.features_(x), fit.features_(t).mean(axis=0)
    for lam, theta in zip(fit.lams_, fit.path_, strict=True):
        A = psi.T @ psi / len(psi) + lam * np.eye(len(h))
        np.testing.assert_allclose(A @ theta, h, atol=1e-10)


def test_higher_qualification_is_better():
    """A slight shift has a very smooth ratio: at the best lambda, order 3 is nearer to it than the ridge."""
    lams = np.geomspace(2.0, 1e-4, 30).tolist()
    best = {"tikhonov": [], "iterated": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, t, z = rng.normal(size=(100, 1)), rng.normal(0.2, 0.95, (100, 1)), rng.normal(size=(4000, 1))
        truth = (density(z, 0.2, 0.95) / density(z, 0.0, 1.0))[:, 0]
        for scheme, found in best.items():
            fit = SpectralRatio(scheme=scheme, lams=lams).fit(x, t)
            found.append(min(square(f, truth) for f in fit.candidates(z).T))

    assert np.mean(best["iterated"]) < 0.9 * np.mean(best["tikhonov"])
    assert sum(ours < ridge for ours, ridge in zip(best["iterated"], best["tikhonov"], strict=True)) >= 10


def test_aggregation_is_near_the_best():
    """Without knowing lambda: at most half above the error of the best one, and far below the mean one."""
    ours, best, mean = [], [], []
    for seed in range(20):
        x, t, z = draw(400, seed)
        fit = SpectralRatio().fit(x, t)
        each = [square(f, beta(z)) for f in fit.candidates(z).T]
        ours.append(square(fit.ratio(z), beta(z)))
        best.append(min(each))
        mean.append(np.mean(each))

    assert np.mean(ours) < 1.5 * np.mean(best)
    assert np.mean(ours) < 0.3 * np.mean(mean)


def test_no_shift_gives_equal_weights():
    """Two samples of one law: ratios stay near one, and the effective sample size near n."""
    sizes = []
    for seed in SEEDS:
        x, _, z = draw(200, seed)
        sizes.append(effective_sample_size(SpectralRatio().fit(x, z[:200]).ratio(x)))

    assert np.mean(sizes) > 190.0


def test_ratio_is_even_in_units():
    """Points in other units give the same ratio."""
    x, t, z = draw(100, 0)
    plain = SpectralRatio().fit(x, t).ratio(z)

    np.testing.assert_allclose(SpectralRatio().fit(x * 8.0, t * 8.0).ratio(z * 8.0), plain, rtol=1e-6)


def test_selection_finds_a_width():
    """Two narrow peaks far apart: the median distance is too wide, selection sees it."""
    rng = np.random.default_rng(0)
    where = rng.choice([-5.0, 5.0], 400)[:, None]
    x, t = where + rng.normal(0, 0.3, (400, 1)), where + rng.normal(0.2, 0.2, (400, 1))
    fit = SpectralRatio.select(x, t)

    assert fit.selection_.best()["sigma"] == fit.sigma_ < 0.5 * np.median(fit.selection_.rows[:, 0])
    assert fit.loss_ == fit.selection_.rows[:, -1].min()


def test_weights_help_a_line():
    """A straight line cannot be right everywhere: weighted, it is right at the target."""
    errors = {"none": [], "true": [], "estimated": []}
    for seed in SEEDS:
        x, y, t, z, truth = labelled(200, seed)
        ratio = SpectralRatio().fit(x, t).ratio(x)
        for name, w in (("none", None), ("true", beta(x)), ("estimated", ratio)):
            errors[name].append(square(Iwrls(linear=True).fit(x, y, w).predict(z), truth))

    assert np.mean(errors["true"]) < 0.5 * np.mean(errors["none"])
    assert np.mean(errors["estimated"]) < 0.6 * np.mean(errors["none"])


def test_weights_do_not_harm_a_flexible_model():
    """Kernels follow sinc anyway: weighted or not, the errors are alike, and a small part of the noise's."""
    errors = {"none": [], "estimated": []}
    for seed in SEEDS:
        x, y, t, z, truth = labelled(200, seed)
        for name, w in (("none", None), ("estimated", SpectralRatio().fit(x, t).ratio(x))):
            errors[name].append(square(Iwrls().fit(x, y, w).predict(z), truth))

    assert np.mean(errors["estimated"]) < 1.5 * np.mean(errors["none"])
    assert np.mean(errors["estimated"]) < 0.1 * 0.1**2


def test_regression_is_aggregated_near_the_best():
    """Error of predicting noisy labels at the target: within five per cent of the best lambda's."""
    ours, best = [], []
    for seed in SEEDS:
        x, y, t, z, truth = labelled(200, seed)
        fit = Iwrls().fit(x, y, SpectralRatio().fit(x, t).ratio(x))
        ours.append(square(fit.predict(z), truth) + 0.1**2)
        best.append(min(square(f, truth) for f in fit.candidates(z).T) + 0.1**2)

    assert np.mean(ours) < 1.05 * np.mean(best)


def test_weighted_line_is_weighted_least_squares():
    """With little regularisation the line is that of weighted least squares, whatever the units."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(5.0, [1.0, 100.0], (60, 2)), rng.random(60)
    y = 1e5 + 3.0 * x[:, 0] - 0.2 * x[:, 1] + rng.normal(size=60)
    fit = Iwrls(linear=True, lams=[1e-9]).fit(x, y, w)
    design = np.column_stack([x, np.ones(60)])
    root = np.sqrt(w)[:, None]
    exact = np.linalg.lstsq(design * root, y * root[:, 0], rcond=None)[0]

    np.testing.assert_allclose(fit.predict(x), design @ exact, rtol=1e-9)


def test_zero_weight_is_not_there():
    """Points of weight zero change nothing but the dictionary; with a line, nothing at all."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 1))
    y = x[:, 0] + 0.1 * rng.normal(size=50)
    far = np.vstack([x, [[100.0]]]), np.append(y, -1e6), np.append(np.ones(50), 0.0)
    lams = [0.1]

    np.testing.assert_allclose(
        Iwrls(linear=True, lams=lams).fit(*far).predict(x), Iwrls(linear=True, lams=lams).fit(x, y).predict(x)
    )


def test_labels_in_any_unit():
    """Labels scaled and moved move the predictions alike."""
    x, y, _, z, _ = labelled(80, 0)
    plain = Iwrls().fit(x, y).predict(z)

    np.testing.assert_allclose(Iwrls().fit(x, 1e5 + 250.0 * y).predict(z), 1e5 + 250.0 * plain, rtol=1e-6)


def test_constant_labels():
    """Labels that never change are predicted exactly."""
    x, _, _, z, _ = labelled(40, 0)

    np.testing.assert_allclose(Iwrls().fit(x, np.full(40, 7.5)).predict(z), 7.5)


def test_effective_sample_size():
    """n for equal weights, one for a single one, none for none."""
    assert effective_sample_size(np.full(7, 3.0)) == pytest.approx(7.0)
    assert effective_sample_size([0.0, 5.0, 0.0]) == 1.0
    assert effective_sample_size(np.zeros(4)) == 0.0


@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0, None])
def test_christoffel(lam):
    """It agrees with the full kernel matrix, is 1/lambda far off, and has the effective dimension as mean."""
    ref = np.random.default_rng(0).normal(size=(60, 2))
    score = Christoffel.of(ref, Dictionary(ref, 0.7), lam, tol=0.0)
    x = np.array([[0.0, 0.0], [1.5, -2.0], [1e6, 0.0]])
    K, k = gaussian(ref, ref, 0.7), gaussian(x, ref, 0.7)
    # <k_x, (lam + Sigma)^-1 k_x> by Woodbury, without any feature.
    direct = (
        1.0 - np.einsum("ij,ij->i", k, np.linalg.solve(K + 60 * score.lam * np.eye(60), k.T).T)
    ) / score.lam

    np.testing.assert_allclose(score.novelty(x), score.lam * direct, atol=1e-3)
    np.testing.assert_allclose(score(x) * score.lam, score.novelty(x))
    effective = Spectrum.of(K / 60).effective_dimension(score.lam)
    assert score(ref).mean() == pytest.approx(effective, rel=1e-2)
    np.testing.assert_allclose(score.novelty(x)[-1], 1.0)
    assert score.novelty(ref).max() <= 1.0


def test_christoffel_sees_what_a_dictionary_does_not():
    """Between two groups, or where one lone atom stands, a point is novel though an atom is near."""
    rng = np.random.default_rng(0)
    ref = np.vstack([rng.normal(size=(300, 1)), [[8.0]]])
    D = Dictionary.build([ref], mu_node=0.5, sigma=1.0)
    score = Christoffel.of(ref, D)

    assert D.coverage([[8.0]])[0] == 1.0
    assert score.novelty([[8.0]])[0] > 5.0 * score.novelty(ref[:300]).mean()


@st.composite
def awkward(draw):
    """Two samples of any size, shape and scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, scale = draw(st.integers(1, 3)), draw(st.sampled_from([1e-150, 1e-3, 1.0, 1e6, 1e150]))

    def sample():
        x = rng.normal(size=(draw(st.integers(5, 25)), d))
        kind = draw(st.sampled_from(["normal", "constant", "duplicated", "far", "heavy"]))
        if kind == "constant":
            x[:] = 1.5
        elif kind == "duplicated":
            x[:] = x[np.arange(len(x)) // 4]
        elif kind == "far":
            x += 1e4
        elif kind == "heavy":
            x = rng.standard_cauchy(size=x.shape)
        return x * scale

    return sample(), sample(), rng


@pytest.mark.parametrize("scheme", SCHEMES)
@given(case=awkward())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_finite(scheme, case):
    """Whatever the data: finite ratios, weights and predictions."""
    x, t, rng = case
    ratio = SpectralRatio(scheme=scheme).fit(x, t).ratio(np.concatenate([x, t]))
    y, w = rng.normal(size=len(x)), rng.random(len(x)) * (np.arange(len(x)) < 3)
    assert np.isfinite(ratio).all()
    for linear in (False, True):
        fit = Iwrls(scheme=scheme, linear=linear).fit(x, y, w)
        assert np.isfinite(fit.predict(np.concatenate([x, t]))).all()
        assert np.isfinite(fit.loss_)


def test_interleaved():
    """Both samples in their order, evenly mixed."""
    mixed = interleaved(np.arange(4.0)[:, None], 10.0 + np.arange(2.0)[:, None])[:, 0]

    np.testing.assert_array_equal(mixed, [0, 10, 1, 2, 11, 3])


NINE = np.zeros((9, 1))
ONE_ATOM = Dictionary(np.zeros((1, 1)), 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SpectralRatio(scheme="x"), "scheme: unknown name 'x'"),
        (lambda: SpectralRatio(lams=[0.1, 0.0]), r"lams: must be in \(0, inf\), got 0.0"),
        (lambda: SpectralRatio(folds=1), r"folds: must be in \[2, inf\), got 1"),
        (lambda: SpectralRatio().fit(np.zeros((9, 2)), NINE), "test: dimension 1, but the reference"),
        (lambda: SpectralRatio().fit(NINE, np.zeros((2, 1))), "test: 2 points, too few for 5 folds"),
        (lambda: SpectralRatio().fit([[np.nan]] * 9, NINE), r"ref\[0, 0\] is nan"),
        (lambda: Iwrls().fit(NINE, np.zeros(8)), "y: 8 labels, but x has 9 points"),
        (lambda: Iwrls().fit(NINE, np.zeros(9), np.ones(3)), "weights: 3 values, but x has 9 points"),
        (lambda: Iwrls().fit(NINE, np.zeros(9), -np.ones(9)), "weights: must be zero or above"),
        (lambda: Iwrls().fit(NINE, np.zeros(9), np.zeros(9)), "weights: must be zero or above"),
        (lambda: Iwrls().fit(np.zeros((3, 1)), np.zeros(3)), "x: n_samples=3, too few for 5 folds"),
        (lambda: Iwrls().fit(NINE, [*range(8), np.inf]), r"y\[8, 0\] is inf"),
        (lambda: Christoffel.of(np.empty((0, 1)), ONE_ATOM), "ref: no point"),
        (lambda: Christoffel.of(NINE, ONE_ATOM, 0.0), r"lam: must be in \(0, inf\), got 0.0"),
        (lambda: Christoffel.of(NINE, ONE_ATOM)([[0.0, 1.0]]), "x: dimension 2, but the dictionary has 1"),
    ],
)  # fmt: skip
def test_refused(call, message):
    """Bad data and parameters are refused by name and value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_not_fitted():
    """Results before a fit are refused."""
    with pytest.raises(NotFittedError, match="SpectralRatio: call fit first"):
        SpectralRatio().ratio([[0.0]])
    with pytest.raises(NotFittedError, match="Iwrls: call fit first"):
        Iwrls().predict([[0.0]])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("linear", [True, False])
def test_vector_labels(scheme, linear):
    """Every component is solved as if it were alone; one mean of the candidates is taken for all."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(90, 2))
    y = np.column_stack([np.sin(x[:, 0]), 30.0 * x[:, 1] ** 2 - 5.0, x.sum(axis=1)])
    w = rng.uniform(0.1, 2.0, 90)
    lams = [1.0, 0.1, 0.01]
    together = Iwrls(scheme=scheme, linear=linear, lams=lams).fit(x, y, w)
    assert together.theta_.shape == (together.path_.shape[1], 3)
    for k in range(3):
        alone = Iwrls(scheme=scheme, linear=linear, lams=lams).fit(x, y[:, k], w)
        np.testing.assert_allclose(together.path_[..., k], alone.path_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(together.candidates(x)[..., k], alone.candidates(x), rtol=1e-8, atol=1e-9)
    # The mean is the best one for the sum of squares over components, each in its own spread.
    unit = np.sqrt(np.average((y - np.average(y, axis=0, weights=w)) ** 2, axis=0, weights=w))
    assert together.coefficients_.sum() == pytest.approx(1.0)
    assert together.predict(x).shape == (90, 3)
    best = np.average((((together.held_out_ - y) / unit) ** 2).sum(axis=1), weights=w)
    one = Iwrls(scheme=scheme, linear=linear, lams=lams[:1]).fit(x, y, w)
    assert best <= np.average((((one.held_out_ - y) / unit) ** 2).sum(axis=1), weights=w) + 1e-9
    flat = Iwrls(scheme=scheme, linear=linear, lams=lams).fit(x, y[:, 0], w)
    column = Iwrls(scheme=scheme, linear=linear, lams=lams).fit(x, y[:, :1], w)
    np.testing.assert_allclose(column.predict(x)[:, 0], flat.predict(x))
    assert column.loss_ == pytest.approx(flat.loss_)


def test_order_of_the_iterated_scheme():
    x = np.linspace(-2.0, 2.0, 60)[:, None]
    y = np.sin(2.0 * x[:, 0])
    ridge = Iwrls(scheme="tikhonov", lams=[0.1]).fit(x, y)
    np.testing.assert_allclose(Iwrls(order=1, lams=[0.1]).fit(x, y).predict(x), ridge.predict(x), atol=1e-10)
    third = Iwrls(lams=[0.1]).fit(x, y)
    np.testing.assert_allclose(Iwrls(order=3, lams=[0.1]).fit(x, y).predict(x), third.predict(x))
    with pytest.raises(ValueError, match="order: 'cutoff' has none"):
        SpectralRatio(scheme="cutoff", order=2)
    with pytest.raises(ValueError, match="order: must be in"):
        SpectralRatio(order=0)
    with pytest.raises(ValueError, match="order: belongs to the scheme"):
        SpectralRatio(scheme=SCHEMES["iterated"], order=2)
