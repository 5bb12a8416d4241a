# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernels of estimators/streaming/graph_statistics.py: steps of a walk over the graph, and the largest standardised value."""

from libc.math cimport NAN, cbrt, isnan


def walk(const int[::1] rows, const int[::1] indptr, const int[::1] indices, const double[::1] weights,
         double self_weight, const double[:, ::1] source, double[:, ::1] target):
    """target[v] = weighted mean of source over v (weight self_weight) and its neighbours, for v in rows.

    Nodes without a verdict (NaN) do not count; a node without a verdict itself gets none.
    """
    cdef int k, v, s, e, u, S = source.shape[1]
    cdef double total, weight
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            for s in range(S):
                if isnan(source[v, s]):
                    target[v, s] = NAN
                    continue
                total = self_weight * source[v, s]
                weight = self_weight
                for e in range(indptr[v], indptr[v + 1]):
                    u = indices[e]
                    if not isnan(source[u, s]):
                        total += weights[e] * source[u, s]
                        weight += weights[e]
                target[v, s] = total / weight


def largest(const int[::1] rows, const double[:, ::1] values, const double[:, ::1] mean, const double[:, ::1] spread,
            const double[::1] skew, double[::1] out):
    """out[v] = the largest over scales of the standardised value, made nearly normal; NaN: no decision.

    With z = (value - mean)/spread of skewness g, Wilson and Hilferty's cube root
        (6/g) [ cbrt(1 + g z/2) - 1 ] + g/6
    is close to standard normal far into the tail, so that scales and levels can be compared.
    """
    cdef int k, v, s, S = values.shape[1]
    cdef double z, g, best
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            best = NAN
            for s in range(S):
                if isnan(values[v, s]):
                    continue
                g = skew[s]
                z = (values[v, s] - mean[v, s]) / spread[v, s]
                z = (6.0 / g) * (cbrt(1.0 + 0.5 * g * z) - 1.0) + g / 6.0
                if isnan(best) or z > best:
                    best = z
            out[v] = best


def mark(const int[::1] rows, const int[::1] indptr, const int[::1] indices, unsigned char[::1] marked):
    """Set marked[u] for every neighbour u of ``rows``."""
    cdef int k, e
    with nogil:
        for k in range(rows.shape[0]):
            for e in range(indptr[rows[k]], indptr[rows[k] + 1]):
                marked[indices[e]] = 1
