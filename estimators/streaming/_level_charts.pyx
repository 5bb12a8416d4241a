# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernels of estimators/streaming/level_charts.py: window sums, contrasts between linked nodes, charts."""

from libc.math cimport NAN, cbrt, fmax, fmin, isnan, sqrt


def slide(const int[::1] nodes, const int[:, ::1] x, int[:, :, ::1] test, int[::1] test_head, int[::1] test_count,
          long long[:, ::1] test_sum, int[:, :, ::1] ref, int[::1] ref_head, int[::1] ref_count,
          long long[:, ::1] ref_sum, const unsigned char[::1] held, int least, long long clip):
    """One new value of each of ``nodes``: what leaves the test window enters the reference, unless it is held.

    held: 1, the reference stays; 2, it stays once it is full.

    Once the reference holds ``least`` values, new ones are cut at ``clip`` from its mean: one wild reading must not
    pass for a change of level.
    """
    cdef int k, v, c, at, to, D = x.shape[1], M = test.shape[1], R = ref.shape[1]
    cdef int old, value
    cdef long long centre
    cdef bint moves
    with nogil:
        for k in range(nodes.shape[0]):
            v = nodes[k]
            at = test_head[v]
            moves = test_count[v] == M and (held[v] == 0 or (held[v] == 2 and ref_count[v] < R))
            to = ref_head[v]
            for c in range(D):
                old = test[v, at, c]
                value = x[k, c]
                if ref_count[v] >= least:
                    centre = ref_sum[v, c] // ref_count[v]
                    if value > centre + clip:
                        value = <int> (centre + clip)
                    elif value < centre - clip:
                        value = <int> (centre - clip)
                if test_count[v] == M:
                    test_sum[v, c] -= old
                if moves:
                    if ref_count[v] == R:
                        ref_sum[v, c] -= ref[v, to, c]
                    ref[v, to, c] = old
                    ref_sum[v, c] += old
                test[v, at, c] = value
                test_sum[v, c] += value
            test_head[v] = (at + 1) % M
            if test_count[v] < M:
                test_count[v] += 1
            if moves:
                ref_head[v] = (to + 1) % R
                if ref_count[v] < R:
                    ref_count[v] += 1


def differences(const int[::1] rows, const long long[:, ::1] test_sum, const int[::1] test_count,
                const long long[:, ::1] ref_sum, const int[::1] ref_count, double unit, int M, int R, int least,
                double[:, ::1] out):
    """out[v] = mean of the test window less mean of the reference; NaN until both hold enough.

    While the reference is short the difference spreads more widely; it is drawn in by as much, so that one
    spread, that of the full reference, standardises all.
    """
    cdef int k, v, c, D = test_sum.shape[1]
    cdef double full = 1.0 / M + 1.0 / R, shrink
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            if test_count[v] < M or ref_count[v] < least:
                for c in range(D):
                    out[v, c] = NAN
                continue
            shrink = sqrt(full / (1.0 / M + 1.0 / ref_count[v])) * unit
            for c in range(D):
                out[v, c] = shrink * (<double> test_sum[v, c] / M - <double> ref_sum[v, c] / ref_count[v])


def standardise(const int[::1] rows, const double[:, ::1] x, const double[:, ::1] mean, const double[:, ::1] spread,
                double[:, ::1] out):
    cdef int k, v, c
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            for c in range(x.shape[1]):
                out[v, c] = (x[v, c] - mean[v, c]) / spread[v, c]


def contrasts(const int[::1] rows, const int[::1] indptr, const int[::1] indices, const double[::1] weights,
              double clip, const unsigned char[::1] held, const int[::1] step, const double[:, ::1] z,
              double[:, ::1] out):
    """out[v] = z[v] less the weighted mean of its neighbours' z, each clipped; a node alone keeps its z.

    Neighbours that are held, nodes of an incident, say nothing about the others, nor do those whose windows
    hold other ticks: what moves all of them moves these by another amount. Where less than half of the
    neighbourhood speaks there is no contrast: what is left of a common movement would pass for one.
    """
    cdef int k, v, u, c, e
    cdef double total, weight, whole
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            for c in range(z.shape[1]):
                if isnan(z[v, c]):
                    out[v, c] = NAN
                    continue
                total = weight = whole = 0.0
                for e in range(indptr[v], indptr[v + 1]):
                    u = indices[e]
                    whole += weights[e]
                    if not held[u] and step[u] == step[v] and not isnan(z[u, c]):
                        total += weights[e] * fmin(fmax(z[u, c], -clip), clip)
                        weight += weights[e]
                if 2.0 * weight < whole:
                    out[v, c] = NAN
                else:
                    out[v, c] = z[v, c] - (total / weight if weight > 0.0 else 0.0)


def shared(const int[::1] rows, const int[::1] indptr, const int[::1] indices, const double[::1] weights,
           double self_weight, const unsigned char[::1] held, const double[:, ::1] own, double[:, ::1] out):
    """out[v] = weighted mean of own over v (weight self_weight) and its neighbours that are not held."""
    cdef int k, v, w, e, u
    cdef double total, weight
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            for w in range(own.shape[1]):
                if isnan(own[v, w]):
                    out[v, w] = NAN
                    continue
                total, weight = self_weight * own[v, w], self_weight
                for e in range(indptr[v], indptr[v + 1]):
                    u = indices[e]
                    if not held[u] and not isnan(own[u, w]):
                        total += weights[e] * own[u, w]
                        weight += weights[e]
                out[v, w] = total / weight


def squares(const int[::1] rows, const int[::1] view, const double[:, ::1] z, double[:, ::1] out):
    """out[v, w] = sum of the squares of the components of view w; NaN where there is no decision."""
    cdef int k, v, c, w
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            for w in range(out.shape[1]):
                out[v, w] = 0.0
            for c in range(z.shape[1]):
                out[v, view[c]] += z[v, c] * z[v, c]


def join(const int[::1] rows, const double[:, ::1] values, const double[:, ::1] middle, const double[:, ::1] unit,
         double[::1] out):
    """out[v] += sum over columns of max(0, (cbrt(value) - middle) / unit)^2; no decision adds nothing."""
    cdef int k, v, w
    cdef double x
    with nogil:
        for k in range(rows.shape[0]):
            v = rows[k]
            for w in range(values.shape[1]):
                if isnan(values[v, w]):
                    continue
                x = (cbrt(values[v, w]) - middle[v, w]) / unit[v, w]
                if x > 0.0:
                    out[v] += x * x
