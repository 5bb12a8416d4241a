"""Coherence dictionary (Algorithm 3): few points whose kernel functions are nearly independent.

Coherence of a dictionary: the largest kernel value between two different atoms (Eq. 45). A point
joins when its largest kernel value with the atoms so far is at most mu.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.atoms import Atoms
from estimators.core.kernels import as_points, kernel_named, median_distance
from estimators.core.types import Floats


def coherent_subset(x: ArrayLike, mu: float, sigma: float, kernel: str = "gaussian",
                    budget: int | None = None) -> Floats:  # fmt: skip
    """Points of x (n, d), in order, each joining if its coherence with those before is <= mu.

    The selection is greedy and deterministic in the order of x. When ``budget`` atoms are in, later
    points are dropped: early points win, so a stable prefix gives a stable dictionary.
    """
    if not 0.0 <= mu < 1.0:
        raise ValueError(f"mu: coherence threshold must be in [0, 1), got {mu}")
    if budget is not None and budget < 1:
        raise ValueError(f"budget: must be at least 1, got {budget}")
    points, K = as_points(x), kernel_named(kernel)
    chosen: list[int] = []
    free = np.ones(len(points), dtype=bool)  # still at coherence <= mu with every chosen atom
    while budget is None or len(chosen) < budget:
        first = int(free.argmax()) if free.size else 0
        if not free.size or not free[first]:
            break
        chosen.append(first)
        free[first] = False
        rest = np.flatnonzero(free[first + 1 :]) + first + 1
        if rest.size:
            free[rest] = K(points[rest], points[first : first + 1], sigma)[:, 0] <= mu
    return points[chosen]


@dataclass(frozen=True)
class Dictionary:
    """Kernel centres (atoms) shared by all nodes, with the kernel they were chosen for.

    Atoms may have ``widths`` of their own (`estimators.sparse.dictionary`); the functions of each width are
    then a space by themselves, and the kernel is the mean over the widths: the direct sum, of unit norm too.

    Parameters
    ----------
    atoms : ndarray of shape (L, d), float64
        The centres.
    sigma : float > 0
        Kernel width.
    kernel : {"gaussian", "laplace"}, default="gaussian"
        Kernel.
    widths : ndarray of shape (L,), float64, optional
        A width per atom, for the gaussian kernel only; by default all have ``sigma``.

    References
    ----------
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025: Eq. 45 and Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Dictionary
    >>> x = np.random.default_rng(0).normal(size=(5, 200, 1))  # five nodes
    >>> dictionary = Dictionary.build(list(x), mu_graph=0.5)
    >>> dictionary.atoms.shape[1], len(dictionary.atoms) < 20
    (1, True)
    >>> dictionary.coverage([[0.0], [50.0]]).round(1)  # amid the data, and far from all of them
    array([1., 0.])
    """

    atoms: Floats
    sigma: float
    kernel: str = "gaussian"
    widths: Floats | None = None

    @classmethod
    def build(cls, ref: Sequence[Floats], test: Sequence[Floats] = (), *, mu_node: float = 0.1,
              mu_graph: float = 0.9, kernel: str = "gaussian", sigma: float | None = None,
              budget: int = 256) -> Dictionary:  # fmt: skip
        """Algorithm 3: a pass over every node's points, then one over the nodes' dictionaries.

        The second pass takes atoms from the nodes in turn (every node's first, every node's second, ...), not
        node after node as the document has it: when the budget is reached, what is dropped are every node's
        later, rarer atoms instead of all atoms of the last nodes.

        Parameters
        ----------
        ref, test : sequence of N arrays of shape (n_v, d)
            Windows of every node; ``test`` may be left out.
        mu_node, mu_graph : float in [0, 1), default=0.1 and 0.9
            Coherence thresholds of the two passes.
        kernel : {"gaussian", "laplace"}, default="gaussian"
            Kernel.
        sigma : float > 0, optional
            Kernel width; by default the median over nodes of the nodes' median distances.
        budget : int >= 1, default=256
            Most atoms.

        Returns
        -------
        Dictionary
            Deterministic in the order of the points.

        Raises
        ------
        ValueError
            If no node has a point, or the windows are not of the same nodes.
        """
        if test and len(test) != len(ref):
            raise ValueError(f"test: {len(test)} nodes, but ref has {len(ref)}")
        node_atoms: list[Floats] = []
        widths: list[float] = []  # of the nodes that have one
        for v, x in enumerate(ref):
            points = np.concatenate([x, test[v]]) if test else x
            if not len(points):
                continue
            sigma_v = median_distance(x, kernel, default=0.0)
            if sigma_v > 0.0:
                widths.append(sigma_v)
            else:
                sigma_v = median_distance(points, kernel)
            node_atoms.append(coherent_subset(points, mu_node, sigma_v, kernel, budget))
        if not node_atoms:
            raise ValueError("ref: no node has a point, so there is nothing to build a dictionary from")
        if sigma is None:
            sigma = float(np.median(widths or [1.0]))
        turns = max(len(a) for a in node_atoms)
        union = np.concatenate([np.stack([a[i] for a in node_atoms if len(a) > i]) for i in range(turns)])
        return cls(coherent_subset(union, mu_graph, sigma, kernel, budget), sigma, kernel)

    @property
    def n_widths(self) -> int:
        """Number of different widths."""
        return 1 if self.widths is None else len(np.unique(self.widths))

    def values(self, x: Floats) -> Floats:
        """Kernel values of points with the atoms, each at its width.

        Parameters
        ----------
        x : ndarray of shape (n, d), float64

        Returns
        -------
        ndarray of shape (n, L), float64
        """
        if self.widths is None:
            return kernel_named(self.kernel)(x, self.atoms, self.sigma)
        return Atoms(self.atoms, self.widths).transform(x)

    def gram(self) -> Floats:
        """Inner products of the atoms: none between atoms of different widths.

        Returns
        -------
        ndarray of shape (L, L), float64
        """
        K = self.values(self.atoms)
        return K if self.widths is None else np.where(self.widths[:, None] == self.widths, K, 0.0)

    def coverage(self, x: ArrayLike) -> Floats:
        """Largest kernel value of each point with an atom.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), float64
            1 on an atom, 0 far away from all.
        """
        nearest: Floats = self.values(as_points(x)).max(axis=1)
        return nearest
