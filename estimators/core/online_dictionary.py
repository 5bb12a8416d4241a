"""A coherence dictionary that grows while points come in: Richard's online rule, behind Algorithm 3."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import check_range
from estimators.core.dictionary import Dictionary
from estimators.core.kernels import as_points, kernel_named
from estimators.core.types import Floats


class OnlineDictionary:
    """Kernel centres for a stream: a point joins if its coherence with those before is at most ``mu``.

    The dictionary is finite whatever the length of the stream, if the points stay in a bounded region. When
    ``budget`` atoms are in, the least used one gives way: a region that the stream has left is forgotten,
    one that it comes back to is learnt again.

    Parameters
    ----------
    sigma : float > 0
        Kernel width.
    mu : float in [0, 1), default=0.5
        Coherence threshold (Eq. 45).
    kernel : {"gaussian", "laplace"}, default="gaussian"
    budget : int >= 1, default=256
        Most atoms.
    memory : float > 0, default=inf
        Points after which the use of an atom counts for 1/e; by default use is never forgotten.

    Attributes
    ----------
    atoms_ : ndarray of shape (L, d), float64
        In the order in which they joined.
    use_ : ndarray of shape (L,), float64
        How many points each was the nearest of, with forgetting.
    n_seen_, n_joined_, n_dropped_ : int
        Points, atoms taken in, and atoms that gave way.

    See Also
    --------
    Dictionary.build : one pass over the points of all nodes at once.

    References
    ----------
    C. Richard, J. C. M. Bermudez and P. Honeine, "Online prediction of time series data with kernels", 2009;
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025: Algorithm 3 and Eq. 45.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import OnlineDictionary
    >>> online = OnlineDictionary(sigma=1.0)
    >>> rng = np.random.default_rng(0)
    >>> quiet = online.update(rng.normal(size=(500, 1)))
    >>> moved = online.update(rng.normal(20.0, 1.0, size=(500, 1)))  # the stream goes elsewhere
    >>> bool(moved.any()), bool((online.dictionary().coverage([[0.0], [20.0]]) > 0.5).all())
    (True, True)
    """

    atoms_: Floats
    use_: Floats

    def __init__(self, sigma: float, *, mu: float = 0.5, kernel: str = "gaussian", budget: int = 256,
                 memory: float = np.inf) -> None:  # fmt: skip
        check_range("sigma", sigma, 0.0, open_low=True)
        check_range("mu", mu, 0.0, 1.0, open_high=True)
        kernel_named(kernel)
        check_range("budget", budget, 1)
        if not memory > 0.0:
            raise ValueError(f"memory: must be above 0, got {memory!r}")
        self.sigma, self.mu, self.kernel, self.budget, self.memory = sigma, mu, kernel, budget, memory
        self.n_seen_ = self.n_joined_ = self.n_dropped_ = 0

    def update(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Take points in, one after the other.

        Parameters
        ----------
        x : array_like of shape (n, d), or (n,) if d is 1
            Points, in the order of the stream; how it is cut into calls makes no difference.

        Returns
        -------
        ndarray of shape (n,), bool
            Which of them joined the dictionary.

        Raises
        ------
        ValueError
            If a value is not finite, or the points have another dimension than those before.
        """
        points, K = as_points(x), kernel_named(self.kernel)
        if not hasattr(self, "atoms_"):
            self.atoms_, self.use_ = np.empty((0, points.shape[1])), np.empty(0)
        if points.shape[1] != self.atoms_.shape[1]:
            raise ValueError(f"x: dimension {points.shape[1]}, but the dictionary has {self.atoms_.shape[1]}")
        fade = np.exp(-1.0 / self.memory)
        joined = np.zeros(len(points), bool)
        for i, point in enumerate(points):
            self.n_seen_ += 1
            self.use_ *= fade
            near = K(point[None], self.atoms_, self.sigma)[0] if len(self.atoms_) else np.empty(0)
            if len(near) and near.max() > self.mu:
                self.use_[near.argmax()] += 1.0
                continue
            self._join(point)
            joined[i] = True
        return joined

    def _join(self, point: Floats) -> None:
        if len(self.atoms_) == self.budget:
            out = int(self.use_.argmin())  # the first of equals: the oldest
            self.atoms_, self.use_ = np.delete(self.atoms_, out, axis=0), np.delete(self.use_, out)
            self.n_dropped_ += 1
        self.atoms_ = np.concatenate([self.atoms_, point[None]])
        self.use_ = np.append(self.use_, 1.0)
        self.n_joined_ += 1

    def dictionary(self) -> Dictionary:
        """What there is now, for the estimators.

        Returns
        -------
        Dictionary

        Raises
        ------
        ValueError
            If no point has come yet.
        """
        if not self.n_seen_:
            raise ValueError("no point has come yet: there is no dictionary")
        return Dictionary(self.atoms_.copy(), self.sigma, self.kernel)
