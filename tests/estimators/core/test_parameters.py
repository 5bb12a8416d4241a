"""Conventions of scikit-learn: parameters, clones, pipelines; one pair of samples as two plain arrays."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import estimators
from estimators import ESTIMATORS, Grulsif, GrulsifByNode, Iwrls, Kliep, Rulsif, SparseMultiScaleRegressor
from estimators.core.parameters import Parameters
from estimators.sparse.regression import noise

PUBLIC = [getattr(estimators, name) for name in estimators.__all__]
ALL = [
    kind
    for kind in PUBLIC
    if inspect.isclass(kind) and issubclass(kind, Parameters) and not inspect.isabstract(kind)
]
NEEDS = {
    "PairwiseClassifier": {"grid": None},
    "SparseMarginClassifier": {"grid": None},
    "LocalizedPredictor": {"loss": estimators.Hamming(2)},
}


# What check_estimator asks of them and is not given, with the reason.
CHECKED_WHEN_MADE = "parameters are checked when they are set, so that a mistake is reported where it is made"
VECTORS = "a vector is n points of dimension one, as everywhere in this package"
EXCEPTIONS = {
    "Iwrls": {"check_do_not_raise_errors_in_init_or_set_params": CHECKED_WHEN_MADE, "check_fit1d": VECTORS},
    "SparseMultiScaleRegressor": {
        "check_do_not_raise_errors_in_init_or_set_params": CHECKED_WHEN_MADE,
        "check_fit1d": VECTORS,
        "check_supervised_y_2d": "one column of labels is taken for a vector without a warning",
    },
}
# Estimators with `predict` that scikit-learn would not take for a regressor or a classifier.
OTHERS = {
    "FootprintPredictor": "learns from labelled events on a graph, not from a table",
    "LocalizedPredictor": "learns from sequences of parts, under a loss that it needs",
    "PairwiseClassifier": "needs a grid, and answers with no class where no class has more votes",
    "SparseMarginClassifier": "needs a grid and labels +1 and -1, and answers 0 where the model is silent",
}


def _exceptions(model: Any) -> dict[str, str]:
    return EXCEPTIONS[type(model).__name__]


@pytest.mark.filterwarnings("ignore:.*(does not inherit from|occurred during set_params):UserWarning")
@parametrize_with_checks([Iwrls(), SparseMultiScaleRegressor()], expected_failed_checks=_exceptions)
def test_scikit_learn_accepts_the_regressors(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_estimator_that_predicts_is_checked_or_named() -> None:
    predicting = {kind.__name__ for kind in ALL if hasattr(kind, "predict")}
    assert predicting == {*EXCEPTIONS, *OTHERS}


def test_the_score_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 3)), rng.normal(size=(80, 2))
    model = Iwrls(linear=True).fit(X, Y)
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)))


def test_several_signals_are_not_taken_for_the_first() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="y: 2 columns, but there is one signal"):
        SparseMultiScaleRegressor().fit(rng.normal(size=(20, 1)), rng.normal(size=(20, 2)))


def test_the_default_tolerance_in_several_dimensions_is_near_the_noise() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(400, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=400)
    assert noise(X, y) == pytest.approx(0.1, rel=0.2)
    bumps = np.exp(-8.0 * np.square(X[:, :2]).sum(axis=1)) + 0.01 * rng.normal(size=400)
    assert 0.005 < noise(X[:, :2], bumps) < 0.06
    assert SparseMultiScaleRegressor().fit(X, y).score(X, y) > 0.9


def test_an_error_of_not_fitted_is_that_of_scikit_learn() -> None:
    with pytest.raises(sklearn.exceptions.NotFittedError, match="Rulsif: call fit first") as caught:
        Rulsif().divergence()
    assert isinstance(caught.value, estimators.NotFittedError)


def test_an_error_of_not_fitted_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(estimators.NotFittedError("Rulsif: call fit first")))
    assert isinstance(error, estimators.NotFittedError)
    assert str(error) == "Rulsif: call fit first"


def test_scikit_learn_is_not_needed() -> None:
    """Nothing that works loads it, and an error is told without it."""
    code = (
        "import sys, numpy as np; from estimators import Iwrls, NotFittedError\n"
        "x = np.linspace(0.0, 1.0, 50)[:, None]; Iwrls().fit(x, x[:, 0]).score(x, x[:, 0])\n"
        "assert not any(name.split('.')[0] == 'sklearn' for name in sys.modules)\n"
        "sys.modules['sklearn'] = None\n"
        "try: Iwrls().predict([[0.0]])\n"
        "except NotFittedError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Iwrls: call fit first\n", "")


def made(kind: Any) -> Any:
    return kind(**NEEDS.get(kind.__name__, {}))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_clones_have_the_same_parameters(kind: Any) -> None:
    model = made(kind)
    copy = clone(model)
    assert copy is not model
    assert repr(copy) == repr(model)
    assert model.get_params(deep=False).keys() == inspect.signature(kind).parameters.keys()


def test_there_is_no_estimator_without() -> None:
    for kind in PUBLIC:
        fit = inspect.isclass(kind) and inspect.getattr_static(kind, "fit", None)
        if fit and not isinstance(fit, classmethod) and kind.__name__ not in ("KahmGroup", "Kahm"):
            assert issubclass(kind, Parameters), kind


def test_set_params_checks_as_the_constructor_does() -> None:
    model = Rulsif(alpha=0.2)
    assert model.set_params(gamma=0.5, sigma=2.0) is model
    assert model.get_params() == Rulsif(alpha=0.2, gamma=0.5, sigma=2.0).get_params()
    with pytest.raises(ValueError, match="alpha: must be in"):
        model.set_params(alpha=1.0)
    with pytest.raises(ValueError, match="alhpa: Rulsif has no such parameter; it has alpha, sigma"):
        model.set_params(alhpa=0.1)
    assert model.alpha == 0.2
    # What follows from a parameter follows it.
    assert Iwrls().set_params(scheme="tikhonov").filter == Iwrls(scheme="tikhonov").filter


def test_a_regressor_is_the_end_of_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-20.0, 20.0, size=(300, 1))
    y = np.sin(X[:, 0] / 4.0)
    made = make_pipeline(StandardScaler(), SparseMultiScaleRegressor()).fit(X, y)
    assert np.mean((made.predict(X) - y) ** 2) < 0.05 * np.var(y)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_two_arrays_are_one_pair_of_samples(name: str) -> None:
    rng = np.random.default_rng(0)
    ref, test = rng.normal(size=(200, 2)), rng.normal(1.0, 1.0, size=(150, 2))
    model = ESTIMATORS[name]().fit(ref, test)
    same = ESTIMATORS[name]().fit([ref], [test])
    assert model.scores_.shape == (1,)
    np.testing.assert_array_equal(model.scores_, same.scores_)
    tables = ESTIMATORS[name]().fit(pd.DataFrame(ref, columns=["a", "b"]), pd.DataFrame(test))
    np.testing.assert_array_equal(model.scores_, tables.scores_)


def test_two_vectors_are_points_of_dimension_one() -> None:
    rng = np.random.default_rng(0)
    x, x_ = rng.normal(size=100), rng.normal(2.0, 1.0, size=80)
    assert Kliep().fit(x, x_).scores_ == Kliep().fit(x[:, None], x_[:, None]).scores_
    assert GrulsifByNode().fit(x, x_).scores_.shape == (1,)


def test_shapes_that_do_not_fit_are_refused_with_a_sentence() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="test: 1 columns, but ref has 2: the rows of both are points"):
        Rulsif().fit(rng.normal(size=(200, 2)), rng.normal(size=(200, 1)))
    with pytest.raises(ValueError, match=r"ref: one sample of shape \(200, 2\), but test holds a window per"):
        Rulsif().fit(rng.normal(size=(200, 2)), rng.normal(size=(3, 200, 2)))
    bad = rng.normal(size=(200, 2))
    bad[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"ref\[4, 1\] is nan: values must be finite"):
        Rulsif().fit(bad, rng.normal(size=(200, 2)))
    with pytest.raises(ValueError, match="test: expected numbers"):
        Rulsif().fit(rng.normal(size=(3, 1)), pd.DataFrame({"a": ["x", "y", "z"]}))
    with pytest.raises(ValueError, match="Grulsif needs the graph"):
        Grulsif().fit(rng.normal(size=(2, 50, 1)), rng.normal(size=(2, 50, 1)))


def test_rows_with_missing_values_are_dropped_as_the_documents_say() -> None:
    text = (Path(__file__).parents[3] / "docs" / "compare.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    rng = np.random.default_rng(0)
    ref, test = rng.normal(size=(3, 50, 2)), rng.normal(size=(3, 40, 2))
    ref[0, :30], test[2, 5, 1] = np.nan, np.nan
    names = {"ref": ref, "test": test, "W": np.ones((3, 3)) - np.eye(3), "np": np, "Grulsif": Grulsif,
             "Rulsif": Rulsif, "before": pd.DataFrame(ref[0]), "after": pd.DataFrame(test[2])}  # fmt: skip
    exec(code, names)
    assert [len(x) for x in names["ref"]] == [20, 50, 50]
    assert [len(x) for x in names["test"]] == [40, 40, 39]
