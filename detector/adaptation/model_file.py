"""The model file of `detector adapt`: JSON with everything that a prediction needs, and nothing that runs.

    z = (x - centre) / scale
    f_t(x) = intercepts_t + sum_j coefficients_tj K(z, centres_j; width)    for kernels
    f_t(x) = intercepts_t + sum_k coefficients_tk z_k                       for a line

for each target t, so that any language can evaluate it. Files of version 1, which have one target, are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from estimators.core.features import Affine, Nystroem, WithConstant
from estimators.core.kernels import KERNELS, as_points, kernel_named
from estimators.core.types import Floats
from estimators.spectral.iwrls import Iwrls

FORMAT = "detector-adapt"
VERSION = 2
LINE = "linear"


class AdaptedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The model file of `detector adapt`: a regression refitted under the shift of an incident.

    JSON with everything that a prediction needs, and nothing that runs; any language can evaluate it.

    Parameters
    ----------
    format, version
        What the file is, and of which version.
    targets : tuple of k str
        Names of what is predicted.
    features : tuple of d str
        Names of the columns it is predicted from.
    centre, scale : tuple of d float
        z = (x - centre) / scale.
    kernel : {"gaussian", "laplace", "linear"}
        Kernel, or a straight line.
    width : float > 0, default=1.0
        Kernel width.
    centres : tuple of L tuples of d float
        Kernel centres, in units of z; none for a line.
    coefficients : tuple of k tuples of L float, or of d for a line
        Their weights, for each target.
    intercepts : tuple of k float
        Added to the sums.
    about : dict
        Where it comes from: pairs, effective sample size, errors, incident, node.

    Examples
    --------
    >>> from detector import AdaptedModel
    >>> model = AdaptedModel(targets=("power",), features=("load",), centre=(10.0,), scale=(2.0,),
    ...                      kernel="linear", coefficients=((3.0,),), intercepts=(50.0,))
    >>> model.predict([[10.0], [12.0]])
    array([50., 53.])
    >>> AdaptedModel.decode(model.encode()) == model
    True
    """

    format: str = FORMAT
    version: int = VERSION
    targets: tuple[str, ...]
    features: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    kernel: str
    width: float = 1.0
    centres: tuple[tuple[float, ...], ...] = ()
    coefficients: tuple[tuple[float, ...], ...]
    intercepts: tuple[float, ...]
    about: dict[str, Any] = {}

    @classmethod
    def of(cls, fit: Iwrls, unit: Floats, targets: tuple[str, ...], features: tuple[str, ...], centre: Floats,
           scale: Floats, about: dict[str, Any]) -> AdaptedModel:  # fmt: skip
        """The function that a fit has found in units of z.

        Parameters
        ----------
        fit : Iwrls
            Fitted to z, with labels (n, k).
        unit : ndarray of shape (k,), float64
            What the labels were divided by.
        targets : tuple of k str
        features : tuple of d str
        centre, scale : ndarray of shape (d,), float64
        about : dict
            As of the class.

        Returns
        -------
        AdaptedModel
        """
        common: dict[str, Any] = {
            "targets": targets, "features": features, "about": about, "centre": tuple(centre.tolist()),
            "scale": tuple(scale.tolist()),
        }  # fmt: skip
        assert isinstance(fit.features_, WithConstant)
        basis, theta, intercepts = fit.features_.features, fit.theta_[:-1] * unit, fit.theta_[-1] * unit
        if isinstance(basis, Affine):
            slope = theta / basis.scale[:, None]  # (d, k)
            return cls(**common, kernel=LINE, coefficients=tuple(map(tuple, slope.T.tolist())),
                       intercepts=tuple((intercepts - basis.centre @ slope).tolist()))  # fmt: skip
        assert isinstance(basis, Nystroem)
        dictionary = basis.dictionary
        return cls(**common, kernel=dictionary.kernel, width=float(dictionary.sigma),
                   intercepts=tuple(intercepts.tolist()),
                   centres=tuple(map(tuple, dictionary.atoms.tolist())),
                   coefficients=tuple(map(tuple, (basis.projection @ theta).T.tolist())))  # fmt: skip

    def predict(self, values: ArrayLike) -> Floats:
        """The targets at given values.

        Parameters
        ----------
        values : array_like of shape (n, d)
            Columns in the order of ``features``, in their own units.

        Returns
        -------
        ndarray of shape (n,), or (n, k) if there are several targets, float64

        Raises
        ------
        ValueError
            If there is another number of columns.
        """
        x = as_points(values, "values")
        if x.shape[1] != len(self.features):
            raise ValueError(f"values: {x.shape[1]} columns, but the model has {', '.join(self.features)}")
        z = (x - self.centre) / self.scale
        if self.kernel != LINE:
            z = kernel_named(self.kernel)(z, np.array(self.centres), self.width)
        found = np.asarray(z @ np.array(self.coefficients).T + np.array(self.intercepts))
        return found[:, 0] if len(self.targets) == 1 else found

    def encode(self) -> bytes:
        """The model as JSON.

        Returns
        -------
        bytes
        """
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @classmethod
    def decode(cls, data: bytes, where: str = "model") -> AdaptedModel:
        """The model of `encode`.

        Parameters
        ----------
        data : bytes
        where : str, default="model"
            Named in errors.

        Returns
        -------
        AdaptedModel

        Raises
        ------
        ValueError
            If it is truncated, foreign or of another version.
        """
        try:
            head = msgspec.json.decode(data)
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise ValueError("no model of `detector adapt`")
            if head.get("version") == 1:
                head = _of_version_1(head)
            if head.get("version") != VERSION:
                raise ValueError(f"model of version {head.get('version')}, this detector reads {VERSION}")
            model = msgspec.convert(head, cls)
            model._check()
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ValueError(f"{where}: {error}") from None
        return model

    @classmethod
    def load(cls, path: str | Path) -> AdaptedModel:
        """Read a model file.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        AdaptedModel

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is not a model file.
        """
        return cls.decode(Path(path).read_bytes(), str(path))

    def _check(self) -> None:
        d, atoms = len(self.features), len(self.centres)
        if self.kernel not in (*KERNELS, LINE):
            raise ValueError(f"unknown kernel {self.kernel!r}")
        if not d or len(set(self.features)) != d or len(self.centre) != d or len(self.scale) != d:
            raise ValueError("features, centre and scale do not fit together")
        if any(len(row) != d for row in self.centres):
            raise ValueError(f"a centre has not {d} components")
        k = len(self.targets)
        if not k or len(set(self.targets)) != k or len(self.coefficients) != k or len(self.intercepts) != k:
            raise ValueError("targets, coefficients and intercepts do not fit together")
        for row in self.coefficients:
            if len(row) != (d if self.kernel == LINE else atoms):
                raise ValueError(f"{len(row)} coefficients do not fit")
        if not all(scale > 0.0 for scale in self.scale) or not self.width > 0.0:
            raise ValueError("scale and width must be above zero")


def _of_version_1(head: dict[str, Any]) -> dict[str, Any]:
    """The content of a file that has one target, as one of several."""
    names = {"target": "targets", "coefficients": "coefficients", "intercept": "intercepts"}
    return {names.get(key, key): [value] if key in names else value for key, value in head.items()} | {
        "version": VERSION
    }
