"""The shape of a window of one sensor in ten numbers: what a regime looks like, whatever the sensor.

Values are first normalised by the sensor's own reference (median and MAD), so that a regime seen at one
sensor is known again at another; the numbers are then brought into [-1, 1] by one map for all,

    y = tanh((phi - mu) / 6 s)                                                            (Sec. 5)

with mu and s those of independent normal values. Distances between such points compare only under the same
map: its hash, ``spec_id``, goes with them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.kernels import as_points
from estimators.core.types import Floats

VERSION = 1  # raise it when a feature below changes its meaning
NAMES = ("median", "log sd", "log sd of differences", "autocorrelation 1", "autocorrelation 2",
         "second half minus first", "log kurtosis", "spectral centroid", "peak share of spectrum",
         "log share of standstill")  # fmt: skip
STILL = 0.05  # a difference below this many reference deviations is standstill
TINY = 1e-3  # deviations: less than this is nothing, and logarithms stay finite


@dataclass(frozen=True)
class FeatureSpec:
    """Ten features of the shape of a window, on one scale for all who compare distances.

    The defaults belong to windows of 64: mean and deviation over 200,000 windows of independent normal
    values, each normalised by 250 others, rounded. Programs that do not change them understand each other.

    Parameters
    ----------
    window : int >= 8, default=64
        Samples of a window.
    mu, s : tuple of 10 float
        Centres and scales of the features.
    version : int
        Of the meaning of the features.

    Raises
    ------
    ValueError
        If the parameters do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import FeatureSpec
    >>> rng = np.random.default_rng(0)
    >>> spec = FeatureSpec()
    >>> quiet = rng.normal(20.0, 0.5, size=(250, 1))
    >>> spec.transform(np.full((64, 1), 20.0), quiet).shape  # a stuck sensor as a point
    (10,)
    >>> spec.spec_id.startswith("v1-")
    True
    """

    window: int = 64
    mu: tuple[float, ...] = (0.0, -0.01, 0.34, -0.015, -0.015, 0.0, 1.05, 0.515, 0.13, -3.25)
    s: tuple[float, ...] = (0.18, 0.12, 0.13, 0.12, 0.12, 0.25, 0.17, 0.052, 0.034, 0.52)
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(f"features: version {self.version}, this program has {VERSION}")
        if self.window < 8:
            raise ValueError(
                f"features: a window of {self.window} samples has no shape, at least 8 are needed"
            )
        for name in ("mu", "s"):
            values = getattr(self, name)
            if len(values) != len(NAMES) or not np.isfinite(values).all():
                raise ValueError(f"features: {name} must be {len(NAMES)} numbers, got {list(values)}")
        if min(self.s) <= 0.0:
            raise ValueError(f"features: s must be positive, got {list(self.s)}")

    @property
    def spec_id(self) -> str:
        """Hash of all that distances depend on."""
        text = json.dumps([self.version, self.window, self.mu, self.s], separators=(",", ":"))
        return f"v{self.version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def transform(self, x: ArrayLike, ref: ArrayLike) -> Floats:
        """A window as a point.

        Parameters
        ----------
        x : array_like of shape (window, d)
            The window.
        ref : array_like of shape (n, d)
            The sensor's values in quiet times.

        Returns
        -------
        ndarray of shape (10 d,), float64
            In [-1, 1].

        Raises
        ------
        ValueError
            If the window has another length, or the reference another dimension.
        """
        values, quiet = as_points(x, "x"), as_points(ref, "ref")
        if len(values) != self.window:
            raise ValueError(f"x: {len(values)} samples, the window has {self.window}")
        if not len(quiet) or quiet.shape[1] != values.shape[1]:
            raise ValueError(f"ref: shape {quiet.shape} does not fit to x of shape {values.shape}")
        phi = shape_features((values - np.median(quiet, axis=0)) / spread(quiet))
        point: Floats = np.tanh((phi - np.array(self.mu)) / (6.0 * np.array(self.s)))
        return point.ravel()


def spread(ref: Floats) -> Floats:
    """Robust deviation (d,) of the columns of ref (n, d): 1.4826 MAD; plain if that is 0; 1 if constant."""
    mad: Floats = 1.4826 * np.median(np.abs(ref - np.median(ref, axis=0)), axis=0)
    wide = np.where(mad > 0.0, mad, ref.std(axis=0))
    return np.where(wide > 0.0, wide, 1.0)


def shape_features(x: Floats) -> Floats:
    """The ten features (d, 10), in the order of NAMES, of the normalised window x (W, d)."""
    W, mean = len(x), x.mean(axis=0)
    centred, steps = x - mean, np.diff(x, axis=0)
    power = np.mean(centred**2, axis=0)
    kept = power + TINY**2
    lags = [np.sum(centred[k:] * centred[:-k], axis=0) / W / kept for k in (1, 2)]
    kurtosis = (np.mean(centred**4, axis=0) + TINY**4) / (power**2 + TINY**4)
    spectrum = np.abs(np.fft.rfft(centred, axis=0))[1:] ** 2
    total = spectrum.sum(axis=0) + (TINY * W) ** 2
    frequencies = np.linspace(0.0, 1.0, len(spectrum) + 1)[1:]  # of the highest
    still = np.mean(np.abs(steps) < STILL, axis=0)
    phi: Floats = np.stack([
        np.median(x, axis=0),
        np.log(np.sqrt(power) + TINY),
        np.log(steps.std(axis=0) + TINY),
        *lags,
        x[W // 2 :].mean(axis=0) - x[: W // 2].mean(axis=0),
        np.log(kurtosis),
        frequencies @ spectrum / total,
        spectrum.max(axis=0) / total,
        np.log(still + 1.0 / W),
    ], axis=1)  # fmt: skip
    return phi
