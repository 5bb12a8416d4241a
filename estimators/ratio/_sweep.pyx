# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Cyclic block coordinate descent over the nodes of a graph (Algorithm 2, Eq. 39).

Minimises, in the document's letters and multiplied by N,

    sum_v [ 1/2 theta_v' A_v theta_v - h_v' theta_v ] + c/4 sum_uv W_uv ||theta_u - theta_v||^2
                                                      + k/2 sum_v ||theta_v||^2,     c = N lam, k = N lam gamma.

Block v has gradient  g_v = A_v theta_v - h_v + c (d_v theta_v - sum_u W_uv theta_u) + k theta_v  and is moved by
    theta_v <- theta_v - g_v * step_v        (gradient block: step_v = 1 / (eta_v + k) is Eq. 39), or
    theta_v <- theta_v - P_v g_v             (exact block: P_v = [A_v + (c d_v + k) I]^-1).
"""

from libc.math cimport sqrt
from scipy.linalg.cython_blas cimport dsymv

# Up to this rank a plain loop beats the call into BLAS.
cdef enum:
    SMALL = 20


cdef inline void symmetric_times(const double* A, const double* x, double* out, int r) noexcept nogil:
    """out = A x for a full symmetric A (r, r)."""
    cdef int i, j, one = 1
    cdef double a, zero = 0.0, unit = 1.0
    cdef const double* row
    if r > SMALL:
        dsymv(b"L", &r, &unit, <double*> A, &r, <double*> x, &one, &zero, out, &one)
        return
    for j in range(r):
        out[j] = 0.0
    for i in range(r):  # by rows as multiples, not dot products: vectorises without reordering sums
        a = x[i]
        row = A + i * r
        for j in range(r):
            out[j] += a * row[j]


def sweep(const double[:, :, ::1] A, const double[:, ::1] h, double[:, ::1] theta,
          const int[::1] indptr, const int[::1] indices, const double[::1] weights,
          const double[::1] degree, double c, double k,
          const double[::1] step, const double[:, :, ::1] P, bint exact,
          int max_iter, double tol, double[:, ::1] work):
    """Sweep all nodes in order until the gradient is below tol ||h||; theta is changed in place.

    Returns (sweeps made, residual): the residual is the norm of the block gradients, each taken when its
    block was visited in the last sweep, over ||h||.
    """
    cdef int n_nodes = theta.shape[0], r = theta.shape[1]
    cdef int v, e, j, iteration = 0
    cdef double scale = 0.0, square = 0.0, residual = 0.0, w, diagonal
    cdef const double* other
    cdef double* mine
    cdef double* g = &work[0, 0]
    cdef double* move = &work[1, 0]
    with nogil:
        for v in range(n_nodes):
            for j in range(r):
                scale += h[v, j] * h[v, j]
        scale = sqrt(scale)
        if scale == 0.0:
            scale = 1.0
        while iteration < max_iter:
            square = 0.0
            for v in range(n_nodes):
                mine = &theta[v, 0]
                symmetric_times(&A[v, 0, 0], mine, g, r)
                diagonal = c * degree[v] + k
                for j in range(r):
                    g[j] += diagonal * mine[j] - h[v, j]
                for e in range(indptr[v], indptr[v + 1]):
                    w = c * weights[e]
                    other = &theta[indices[e], 0]
                    for j in range(r):
                        g[j] -= w * other[j]
                for j in range(r):
                    square += g[j] * g[j]
                if exact:
                    symmetric_times(&P[v, 0, 0], g, move, r)
                    for j in range(r):
                        mine[j] -= move[j]
                else:
                    for j in range(r):
                        mine[j] -= step[v] * g[j]
            iteration += 1
            residual = sqrt(square) / scale
            if residual <= tol:
                break
    return iteration, residual
