"""What regressors share: tables of points with the same features in ``fit`` and ``predict``, and a score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats


class Regressor(Parameters, ABC):
    """A function learnt from points and their labels.

    Attributes
    ----------
    n_features_in_ : int
        Components of the points that ``fit`` was given.
    """

    n_features_in_: int
    _estimator_type: ClassVar = "regressor"

    @abstractmethod
    def predict(self, X: ArrayLike) -> Floats:
        """Values at points (n, d)."""

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Share of the variance of labels that is explained, R².

        Parameters
        ----------
        X : array_like of shape (n, d)
        y : array_like of shape (n,) or (n, k)

        Returns
        -------
        float
            1 at best, 0 for a constant; the mean over the components of labels that are vectors.
        """
        labels = as_labels(y)
        missed = np.square(labels - as_points(self.predict(X), "prediction")).sum(axis=0)
        varied = np.square(labels - labels.mean(axis=0)).sum(axis=0)
        return float(np.mean(1.0 - missed / np.where(varied > 0.0, varied, 1.0)))

    def _table(self, X: ArrayLike, what: str) -> Floats:
        """Points (n, d) to learn from; d is remembered."""
        points = as_points(X, what)
        if not points.shape[1]:
            raise ValueError(f"{what}: 0 feature(s) (shape={points.shape}) while a minimum of 1 is required.")
        self.n_features_in_ = points.shape[1]
        return points

    def _same_table(self, X: ArrayLike, what: str) -> Floats:
        """Points with as many features as those learnt from."""
        self._check_fitted()
        points = as_points(X, what)
        if points.shape[1] != self.n_features_in_:
            reshape = ". Reshape your data: one row per point" if np.ndim(X) == 1 else ""
            raise ValueError(
                f"X has {points.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input{reshape}"
            )
        return points


def as_labels(y: ArrayLike | None) -> Floats:
    """Labels as (n, k)."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    return as_points(y, "y")
