"""Training together by one upload per site: critical samples only (Peifer 2021, Ch. 3, Alg. 3 and 4).

A site learns on its own samples, sends those that matter to the classifier, once; whoever has the messages of
all sites learns on their union, starting from the multipliers received. All must use the same grid, measure
and meaning of features: `grid.id` and ``features`` are compared, and a message that differs is refused.
A message holds raw feature vectors: no privacy is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.kernels import as_points
from estimators.core.types import Floats
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.margin import UNKNOWN, PairwiseClassifier, pairs

FORMAT = "detector critical samples"
VERSION = 1
MOST_SAMPLES = 100_000


class ForeignMessage(ValueError):
    """A message that is not one, is damaged, or was made for another grid or meaning of features."""


@dataclass(frozen=True)
class CriticalSamples:
    """What one site sends: its critical samples, their labels and multipliers.

    Parameters
    ----------
    site : str
        Who sends it.
    features : str
        Name and version of what the columns mean.
    grid_id : str
        `MultiScaleGrid.id` of the grid it was found on.
    n_total : int
        Samples the site learnt from.
    X : ndarray of shape (n, p), float64
        The critical ones.
    labels : tuple of n str
    nu : dict of (str, str) to ndarray of shape (n,)
        Multipliers per pair of classes.

    Examples
    --------
    Two sites that each saw one side of the border, and a third party that gets their messages only:

    >>> import numpy as np
    >>> from estimators import CriticalSamples, MultiScaleGrid, PairwiseClassifier
    >>> from estimators import critical_samples, merge_critical_samples
    >>> grid = MultiScaleGrid.regular(-2.5, 2.5, 51, [0.3, 0.6], "probability")
    >>> sent = []
    >>> for site, x in (("east", np.linspace(-2.0, 0.2, 30)), ("west", np.linspace(-0.2, 2.0, 30))):
    ...     names = ["up" if v > 0.0 else "down" for v in x]
    ...     message = critical_samples(PairwiseClassifier(grid), x, names, site=site, features="x 1")
    ...     sent.append(CriticalSamples.of_json(message.as_json()))
    >>> model = merge_critical_samples(PairwiseClassifier(grid), sent, features="x 1")
    >>> model.predict([-1.0, 1.0])
    ['down', 'up']
    """

    site: str
    features: str  # name and version of what the columns mean
    grid_id: str
    n_total: int  # samples the site learnt from
    X: Floats  # (n, p)
    labels: tuple[str, ...]
    nu: dict[tuple[str, str], Floats]  # multipliers (n,) per pair of classes

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers; floats keep all their digits in JSON.

        Returns
        -------
        dict
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "site": self.site,
            "features": self.features,
            "grid": self.grid_id,
            "samples": self.n_total,
            "critical": [
                {"x": x.tolist(), "label": label} for x, label in zip(self.X, self.labels, strict=True)
            ],
            "multipliers": [{"pair": list(pair), "nu": nu.tolist()} for pair, nu in sorted(self.nu.items())],
        }

    @classmethod
    def of_json(cls, message: Any) -> CriticalSamples:
        """Read a message.

        Parameters
        ----------
        message : object
            What JSON decoded to.

        Returns
        -------
        CriticalSamples

        Raises
        ------
        ForeignMessage
            Saying what is wrong with it.
        """
        if not isinstance(message, Mapping) or message.get("format") != FORMAT:
            raise ForeignMessage(f"format: this is no message of {FORMAT}")
        if message.get("version") != VERSION:
            raise ForeignMessage(f"version: {message.get('version')!r}, this program reads {VERSION}")
        try:
            rows = message["critical"]
            if not 0 < len(rows) <= min(int(message["samples"]), MOST_SAMPLES):
                raise ForeignMessage(f"critical: {len(rows)} samples of {message['samples']}")
            X = as_points([row["x"] for row in rows], "critical")
            labels = tuple(str(row["label"]) for row in rows)
            nu = {(str(a), str(b)): as_points(part["nu"], "multipliers")[:, 0]
                  for part in message["multipliers"] for a, b in [part["pair"]]}  # fmt: skip
            made = cls(str(message["site"]), str(message["features"]), str(message["grid"]),
                       int(message["samples"]), X, labels, nu)  # fmt: skip
        except ForeignMessage:
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ForeignMessage(f"damaged message: {type(error).__name__}: {error}") from None
        if UNKNOWN in labels or not made.site:
            raise ForeignMessage("damaged message: empty label or site")
        for pair, values in nu.items():
            if len(values) != len(X) or (values < 0.0).any():
                raise ForeignMessage(f"multipliers of {pair}: {len(values)} values for {len(X)} samples")
        return made

    def check(self, grid: MultiScaleGrid, features: str) -> None:
        """Refuse what was made for another grid or meaning of features.

        Parameters
        ----------
        grid : MultiScaleGrid
        features : str

        Raises
        ------
        ForeignMessage
        """
        if self.grid_id != grid.id:
            raise ForeignMessage(f"{self.site}: grid {self.grid_id}, this one is {grid.id}")
        if self.features != features:
            raise ForeignMessage(f"{self.site}: features {self.features!r}, here {features!r}")
        if self.X.shape[1] != grid.places.shape[1]:
            raise ForeignMessage(f"{self.site}: {self.X.shape[1]} features per sample")


def critical_samples(model: PairwiseClassifier, X: ArrayLike, labels: Sequence[str], *, site: str,
                     features: str) -> CriticalSamples:  # fmt: skip
    """Learn on a site's own samples and pick what to send (Algorithm 3).

    Parameters
    ----------
    model : PairwiseClassifier
        Is fitted.
    X : array_like of shape (n, p)
    labels : sequence of n str
    site : str
        Who sends it.
    features : str
        Name and version of what the columns mean.

    Returns
    -------
    CriticalSamples

    Raises
    ------
    ValueError
        If the solver did not converge: critical samples would be wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import MultiScaleGrid, PairwiseClassifier, critical_samples
    >>> x = np.linspace(-2.0, 2.0, 41)
    >>> grid = MultiScaleGrid.regular(-2.5, 2.5, 51, [0.3, 0.6], "probability")
    >>> names = ["up" if v > 0.0 else "down" for v in x]
    >>> sent = critical_samples(PairwiseClassifier(grid), x, names, site="east", features="x 1")
    >>> len(sent.X) < 20
    True
    """
    points = as_points(X, "X")
    model.fit(points, labels)
    if not model.converged:
        raise ValueError(
            "the solver did not converge; nothing is sent, since critical samples would be wrong"
        )
    kept = model.critical_
    nu = {}
    for pair, part in model.pairs_.items():
        whole = np.zeros(len(points))
        whole[np.isin(np.asarray(labels), pair)] = part.nu_
        nu[pair] = whole[kept]
    return CriticalSamples(site, features, model.grid.id, len(points), points[kept],
                           tuple(labels[k] for k in kept), nu)  # fmt: skip


def merge_critical_samples(model: PairwiseClassifier, messages: Sequence[CriticalSamples], *,
          features: str) -> PairwiseClassifier:  # fmt: skip
    """Learn on the union of what sites sent (Algorithm 4); a site's last message replaces earlier ones.

    Parameters
    ----------
    model : PairwiseClassifier
        Is fitted.
    messages : sequence of CriticalSamples
    features : str
        Name and version of what the columns mean.

    Returns
    -------
    PairwiseClassifier

    Raises
    ------
    ForeignMessage
        If a message was made for another grid or meaning of features.

    Examples
    --------
    See CriticalSamples.
    """
    if not messages:
        raise ValueError("messages: none to merge")
    for message in messages:
        message.check(model.grid, features)
    last = list({message.site: message for message in messages}.values())
    X = np.concatenate([message.X for message in last])
    labels = [label for message in last for label in message.labels]
    nu = {pair: np.concatenate([message.nu.get(pair, np.zeros(len(message.X))) for message in last])
          for pair in pairs(sorted(set(labels)))}  # fmt: skip
    return model.fit(X, labels, nu)
