"""Grid, regression, dictionary, ratio and screen: what the sparse multi-scale methods find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.core.atoms import Atoms
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.parameters import NotFittedError
from estimators.sparse.dictionary import SparseDictionary
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.ratio import SparseRatioExplainer
from estimators.sparse.regression import SparseMultiScaleRegressor, noise
from estimators.sparse.relaxation import Relaxation
from tests.estimators.sparse.reading_screen import ReadingScreen, isolated


def two_modes(rng, n, shift=0.0, wide=0.0):
    """A wide mode at 0 and a narrow one, 0.05, at 4."""
    return np.where(rng.random(n) < 0.5, rng.normal(wide, 1.0, n), rng.normal(4.0 + shift, 0.05, n))


def test_measures():
    """Lebesgue sums to the volume, the others to one; on the scale measure geometric widths weigh alike."""
    widths = np.geomspace(0.1, 1.0, 21)
    lebesgue, probability, scale = (
        MultiScaleGrid.regular(0.0, 10.0, 1001, widths, measure)
        for measure in ("lebesgue", "probability", "scale")
    )
    assert lebesgue.volume == pytest.approx(10.01 * np.gradient(widths).sum())
    assert probability.volume == pytest.approx(1.0)
    np.testing.assert_allclose(probability.weights, lebesgue.weights / lebesgue.volume)
    per_width = scale.weights.reshape(21, -1).sum(axis=1) * widths  # dz is the same for all, not ~ w
    np.testing.assert_allclose(per_width[1:-1], per_width[1], rtol=1e-9)


def test_design_and_id():
    """The design is the atoms at the points; the id names places, widths and measure."""
    grid = MultiScaleGrid.regular((0.0, 0.0), (1.0, 2.0), (3, 4), (0.5, 1.0), "probability")
    x = np.random.default_rng(0).normal(size=(5, 2))
    others = [
        MultiScaleGrid.regular((0.0, 0.0), (1.0, 2.0), (3, 4), (0.5, 1.0), "scale"),
        MultiScaleGrid.regular((0.0, 0.0), (1.0, 2.0), (3, 4), (0.5, 1.1), "probability"),
        MultiScaleGrid.candidates(grid.places + 1e-9, (0.5, 1.0)),
    ]

    np.testing.assert_allclose(grid.design(x), grid.atoms.transform(x))
    assert grid.id == MultiScaleGrid.regular((0, 0), (1, 2), (3, 4), (0.5, 1.0), "probability").id
    assert len({grid.id, *(other.id for other in others)}) == 4


def test_local_maxima():
    """One cell per hill and per plateau; candidates have hills over the widths only."""
    alpha = np.zeros((3, 5))
    alpha[1, 1], alpha[1, 2], alpha[2, 4], alpha[0, 4] = -2.0, 1.0, 3.0, 3.0
    grid = MultiScaleGrid.regular(0.0, 1.0, 5, (0.1, 0.2, 0.3))
    lone = MultiScaleGrid.candidates(grid.places, (0.1, 0.2, 0.3))
    flat = np.zeros(15)
    flat[[6, 7, 8]] = 1.0

    assert grid.local_maxima(alpha.ravel()).tolist() == [4, 6, 14]
    assert lone.local_maxima(alpha.ravel()).tolist() == [4, 6, 7, 14]
    assert len(grid.local_maxima(flat)) == 1
    assert len(grid.local_maxima(np.zeros(15))) == 0


def test_the_26_extrema():
    """sin(pi x^2 / 2): the kernels are its 26 extrema, narrower outwards (and at most two more)."""
    x = np.linspace(-5.0, 5.0, 201)
    y = np.sin(0.5 * np.pi * x**2) + np.random.default_rng(7).normal(0.0, np.sqrt(1e-3), 201)
    grid = MultiScaleGrid.regular(-5.2, 5.2, 209, np.geomspace(0.06, 1.0, 20), "lebesgue")
    model = SparseMultiScaleRegressor(tol=0.1, gamma=500.0, relaxation=Relaxation.hard(), grid=grid,
                                      refine=False, max_iter=200).fit(x, y)  # fmt: skip
    extrema = np.concatenate([-np.sqrt(np.arange(25, 0, -2)), np.sqrt(np.arange(1, 26, 2))])
    centers, widths = model.atoms_.centers[:, 0], model.atoms_.widths
    nearest = np.abs(centers - extrema[:, None]).argmin(axis=1)
    test = np.random.default_rng(1).uniform(-5.0, 5.0, 1000)

    assert 26 <= len(model.atoms_) <= 28
    assert len(set(nearest.tolist())) == 26
    np.testing.assert_allclose(centers[nearest], extrema, atol=0.05)
    assert widths[nearest[-1]] < widths[nearest[-6]] < widths[nearest[13]]
    assert ((model.predict(test) - np.sin(0.5 * np.pi * test**2)) ** 2).mean() < 0.02


def test_one_gaussian_is_one_atom():
    """Remark 1: samples of one Gaussian without its top give back centre, width and height."""
    x = np.linspace(0.0, 5.0, 20)
    grid = MultiScaleGrid.regular(0.0, 5.0, 51, [0.8, 0.9, 1.0, 1.1, 1.2], "lebesgue")
    model = SparseMultiScaleRegressor(tol=0.02, gamma=100.0, relaxation=Relaxation.hard(), refine=False,
                                      grid=grid).fit(x, np.exp(-((x - 2.5) ** 2) / 2.0))  # fmt: skip

    assert len(model.atoms_) == 1
    assert model.atoms_.centers[0, 0] == pytest.approx(2.5)
    assert model.atoms_.widths[0] == pytest.approx(1.0, abs=0.11)
    assert model.coef_[0] == pytest.approx(1.0, abs=0.03)


def test_outliers_have_no_part():
    """Three spikes are told by their slack, exactly; the curve stays where it was."""
    rng = np.random.default_rng(3)
    x = np.linspace(-3.0, 3.0, 120)
    clean = np.exp(-(x**2) / 0.5) - 0.6 * np.exp(-((x - 1.8) ** 2) / 0.1)
    y = clean + rng.normal(0.0, 0.03, 120)
    y[[20, 61, 90]] += [4.0, -5.0, 1e6]
    model = SparseMultiScaleRegressor(tol=0.1).fit(x, y)
    naive = SparseMultiScaleRegressor(tol=0.1, refine=False, relaxation=Relaxation.hard()).fit(x, y)

    assert np.flatnonzero(model.slack_ > 0.5).tolist() == [20, 61, 90]
    errors = [((m.predict(x) - clean) ** 2).mean() for m in (model, naive)]
    assert errors[0] < 2e-3
    assert errors[1] > 50.0 * errors[0]


def test_tolerance_from_the_noise():
    """Without a tolerance it is three deviations of the noise, which spikes do not widen."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 500))
    y = np.sin(x) + rng.normal(0.0, 0.1, 500)
    y[::50] += 100.0

    assert noise(x[:, None], y) == pytest.approx(0.1, rel=0.15)
    model = SparseMultiScaleRegressor(max_atoms=5, max_iter=100).fit(x[::3], y[::3])
    assert len(model.atoms_) <= 5


def test_dictionary_has_atoms_of_both_sizes():
    """A narrow and a wide mode: few atoms, narrow ones on the narrow mode only, wide ones over all."""
    atoms = SparseDictionary().fit(two_modes(np.random.default_rng(0), 1000))
    narrow = atoms.widths < 0.15

    assert 5 <= len(atoms) <= 14
    assert narrow.any()
    assert np.all(np.abs(atoms.centers[narrow, 0] - 4.0) < 0.5)
    wide = atoms.take(~narrow)
    assert wide.transform(np.linspace(-2.0, 4.0, 50)).max(axis=1).min() > 0.1


def test_dictionary_is_scale_free_and_bounded():
    """The same values in other units give the same atoms in them; the budget holds in any dimension."""
    rng = np.random.default_rng(1)
    x = two_modes(rng, 400)
    plain, scaled = SparseDictionary().fit(x), SparseDictionary().fit(1e6 * x)
    cloud = SparseDictionary(max_atoms=12).fit(rng.normal(size=(400, 3)))

    np.testing.assert_allclose(scaled.centers, 1e6 * plain.centers, rtol=1e-6)
    np.testing.assert_allclose(scaled.widths, 1e6 * plain.widths, rtol=1e-6)
    assert len(cloud) <= 12
    assert cloud.centers.shape[1] == 3
    assert len(SparseDictionary().fit(np.full(50, 7.0))) == 1


@pytest.mark.parametrize("dim", [3, 5])
def test_dictionary_of_a_cloud_is_as_wide_as_its_cover(dim):
    """Points of a cloud are far apart: no heap of like atoms at the largest width, and none beside it."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1000, dim))
    atoms = SparseDictionary(cover=0.7 * dim**0.5, max_atoms=64).fit(x)
    D = Dictionary(atoms.centers, 1.0, widths=atoms.widths)
    features = Nystroem(D, tol=1e-3)(x)

    widest = atoms.widths.max()
    assert (atoms.widths == widest).mean() > 0.5
    assert ((atoms.widths > 0.7 * widest) == (atoms.widths == widest)).all()
    same = atoms.take(atoms.widths == widest)
    assert np.triu(same.transform(same.centers), 1).max() <= 0.9
    assert np.square(features).sum(axis=1).mean() > 0.65  # most of what the kernel sees is in the atoms' span


def test_features_of_many_widths():
    """The features are those of the mean kernel over the widths: of unit norm, exact on the atoms' span."""
    x = two_modes(np.random.default_rng(2), 500)[:, None]
    atoms = SparseDictionary().fit(x)
    D = Dictionary(atoms.centers, 1.0, widths=atoms.widths)
    psi, K = Nystroem(D, tol=0.0), D.gram()
    features = psi(x)

    assert D.n_widths == len(set(atoms.widths)) > 1
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert np.linalg.norm(features, axis=1).max() <= 1.0 + 1e-9
    # psi(x)'psi(y) = 1/S sum over widths of k_w(x)' K_w^-1 k_w(y)
    k = D.values(x[:5])
    expected = sum(
        k[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], k[:, rows].T)
        for rows in (np.flatnonzero(atoms.widths == w) for w in set(atoms.widths))
    )
    np.testing.assert_allclose(features[:5] @ features[:5].T, expected / D.n_widths, atol=1e-8)
    assert D.coverage(x).min() > 0.05
    assert D.coverage([[1e6]])[0] == 0.0


def test_atoms_are_distinct():
    """Near repeats go, the stronger stays; correlation in L2 agrees with a sum over a fine grid."""
    atoms = Atoms(np.array([0.0, 0.001, 1.0]), np.array([0.5, 0.5, 0.2]))
    kept = atoms.distinct(np.array([1.0, -2.0, 0.5]))
    K = atoms.transform(np.linspace(-8.0, 8.0, 20001))
    norms = np.sqrt((K**2).sum(axis=0))

    assert kept.tolist() == [1, 2]
    np.testing.assert_allclose(atoms.correlation(), K.T @ K / np.outer(norms, norms), atol=1e-9)


def test_explainer_says_where_and_how_wide():
    """The narrow mode moved by two of its deviations: mass lost where it was, gained where it is."""
    rng = np.random.default_rng(5)
    model = SparseRatioExplainer().fit(two_modes(rng, 200), two_modes(rng, 200, shift=0.15))
    gained = max(model.components_, key=lambda part: part.mass)
    lost = min(model.components_, key=lambda part: part.mass)

    assert gained.mass > 0.0 > lost.mass
    assert gained.center[0] == pytest.approx(4.15, abs=0.08)
    assert lost.center[0] == pytest.approx(4.0, abs=0.08)
    assert gained.width < 0.15
    assert gained.after > gained.before
    assert lost.after < lost.before
    assert model.score_ > 0.1


def test_explainer_is_silent_when_nothing_changed():
    """Most quiet pairs have no atom; the price that does it is found without solving anything."""
    rng = np.random.default_rng(6)
    pairs = [(two_modes(rng, 100), two_modes(rng, 100)) for _ in range(24)]
    models = [SparseRatioExplainer(seed=k).fit(*pair) for k, pair in enumerate(pairs)]

    silent = [not model.components_ for model in models]
    assert sum(silent) >= 12
    for model, quiet in zip(models, silent, strict=True):
        assert (model.score_ == 0.0) == quiet


def test_explainer_bears_what_comes():
    """A jump out of all experience, constant windows, two components, unequal windows."""
    rng = np.random.default_rng(7)
    far = SparseRatioExplainer().fit(rng.normal(size=80), rng.normal(1e9, 1.0, 40))
    constant = SparseRatioExplainer().fit(np.full(50, 3.0), np.full(20, 3.0))
    moved = SparseRatioExplainer().fit(np.full(50, 3.0), np.full(20, 4.0))
    plane = SparseRatioExplainer().fit(rng.normal(size=(100, 2)), rng.normal((3.0, 0.0), 1.0, (60, 2)))

    assert min(part.mass for part in far.components_) < 0.0
    assert constant.components_ == ()
    assert moved.components_
    assert plane.components_[0].center.shape == (2,)


def test_screen_masks_spikes_only():
    """Isolated spikes, one or two in a row, on a slow signal are masked, exactly."""
    rng = np.random.default_rng(0)
    y = 3.0 * np.sin(np.arange(200) / 30.0) + rng.normal(0.0, 0.3, 200)
    bad = [10, 50, 51, 90, 140, 141, 180]
    y[bad] += np.array([8.0, -9.0, -9.0, 300.0, 8.0, 12.0, -1e6])
    y[100] = np.nan

    assert np.flatnonzero(ReadingScreen().mask(y)).tolist() == bad


@pytest.mark.parametrize("at", [40, 120, 190, 197])
@pytest.mark.parametrize("size", [12.0, 1000.0])
def test_screen_does_not_hide_a_step(at, size):
    """Of a step that lasts, no more than two readings are masked; none when it is new."""
    y = np.random.default_rng(at).normal(size=200)
    y[at:] += size
    masked = ReadingScreen().mask(y)

    assert masked[at:].sum() <= 2
    if at >= 190:
        assert not masked[at:].any()


def test_screen_of_quiet_and_constant_windows():
    """Heavy tails and a constant signal: little or nothing is masked; a lone other value in a constant is."""
    rng = np.random.default_rng(2)
    constant = np.full(60, 5.0)
    spoilt = constant.copy()
    spoilt[30] = 5.1

    assert ReadingScreen().mask(rng.standard_t(3, 200)).sum() <= 4
    assert not ReadingScreen().mask(constant).any()
    assert np.flatnonzero(ReadingScreen().mask(spoilt)).tolist() == [30]
    assert not ReadingScreen().mask([1.0, 100.0, 1.0]).any()


@given(st.lists(st.booleans(), max_size=80), st.integers(0, 4), st.floats(0.0, 1.0))
def test_isolated(flags, in_a_row, share):
    """Only flagged readings, in whole runs of at most so many, and never beyond the share."""
    flagged = np.array(flags, np.bool_)
    masked = isolated(flagged, in_a_row, share)

    assert not (masked & ~flagged).any()
    assert masked.sum() <= share * len(flagged)
    runs = "".join("x" if m else " " for m in masked).split()
    assert all(len(run) <= in_a_row for run in runs)
    whole = "".join("x" if f else " " for f in flagged).split()
    assert all(run in whole for run in runs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultiScaleGrid.regular(0.0, 1.0, 5, [0.2, 0.1]), "widths: must be positive and increasing"),
        (lambda: MultiScaleGrid.regular(0.0, 1.0, 5, [0.1], "counting"), "measure: must be one of"),
        (lambda: MultiScaleGrid.regular(1.0, 1.0, 5, [0.1]), "counts: a grid needs two places"),
        (lambda: MultiScaleGrid.build(np.zeros((9, 3)), [0.1]), "3 dimensions is too large; give candidates"),
        (lambda: MultiScaleGrid.build(np.linspace(0, 1e6, 9), [0.1]), "are more than 200000"),
        (lambda: MultiScaleGrid.regular(0.0, 1.0, 5, [0.1]).design(np.zeros((1, 2))), "X: dimension 2"),
        (lambda: Atoms(np.zeros((2, 1)), np.array([1.0, 0.0])), "widths: must be positive"),
        (lambda: Atoms(np.zeros((2, 1)), np.ones(3)), r"widths: shape \(3,\)"),
        (lambda: SparseMultiScaleRegressor().fit(np.zeros(5), np.zeros(4)), "y: 4 values, but X has 5"),
        (lambda: SparseMultiScaleRegressor().fit(np.zeros(5), np.zeros(5)), "X: all points are equal"),
        (lambda: SparseMultiScaleRegressor().fit([0.0, np.nan], [0.0, 0.0]), r"X\[1, 0\] is nan"),
        (lambda: SparseDictionary().fit([1.0]), "X: needs at least two values, got 1"),
        (lambda: SparseDictionary(power=0.0), "power: must be in"),
        (lambda: SparseRatioExplainer().fit([1.0, 2.0], [1.0]), "test: needs at least two values"),
        (lambda: SparseRatioExplainer().fit(np.zeros((9, 3)), np.zeros((9, 3))), "ref: 3 dimensions"),
        (lambda: ReadingScreen().mask(np.zeros((2, 2))), "values: expected one window"),
        (lambda: ReadingScreen(share=1.5), "share: must be in"),
    ],
)
def test_refused(call, message):
    """Bad arguments are refused by name and value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_not_fitted():
    """No prediction before a fit."""
    with pytest.raises(NotFittedError, match="call fit first"):
        SparseMultiScaleRegressor().predict([0.0])
