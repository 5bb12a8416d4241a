# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Window moves and warm refits of a bank of test windows that share features and reference.

Per node v: sums of psi psi' and of psi over the reference (slot 0) and over the latest n_s samples for every
scale s (slots 1..S). Sums, not means: windows that are still filling need nothing special. Features are float32,
sums are float64, so what enters a sum and what leaves it later are the same numbers.
"""

from libc.math cimport NAN, sqrt
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dsymv
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

cdef enum:
    SMALL = 20  # up to this rank a plain loop beats the call into BLAS; benchmarks/sweep.py measures it


cdef inline void add_outer(double* G, double* m, const float* psi, double sign, int r) noexcept nogil:
    """G += sign psi psi', m += sign psi."""
    cdef int i, j
    cdef double a
    cdef double* row
    for i in range(r):
        a = sign * <double> psi[i]
        m[i] += a
        row = G + i * r
        for j in range(r):
            row[j] += a * <double> psi[j]


cdef inline void swap_outer(double* G, double* m, const float* new, const float* old, int r) noexcept nogil:
    """G += new new' - old old', m += new - old, in one pass over G."""
    cdef int i, j
    cdef double a, b
    cdef double* row
    for i in range(r):
        a = <double> new[i]
        b = <double> old[i]
        m[i] += a - b
        row = G + i * r
        for j in range(r):
            row[j] += a * <double> new[j] - b * <double> old[j]


cdef inline void plus_symmetric_times(const double* A, double factor, const double* x, double* out,
                                      int r) noexcept nogil:
    """out += factor A x for a full symmetric A (r, r)."""
    cdef int i, j, one = 1
    cdef double a, unit = 1.0
    cdef const double* row
    if r > SMALL:
        dsymv(b"L", &r, &factor, <double*> A, &r, <double*> x, &one, &unit, out, &one)
        return
    for i in range(r):
        a = factor * x[i]
        row = A + i * r
        for j in range(r):
            out[j] += a * row[j]


def slide(const int[::1] nodes, const float[:, ::1] psi, const float[:, ::1] z, const int[::1] lengths,
          float[:, :, ::1] ref_psi, float[:, :, ::1] ref_z, int[::1] ref_head, int[::1] ref_count,
          float[:, :, ::1] test_psi, float[:, :, ::1] test_z, int[::1] test_head, int[::1] test_count,
          double[:, :, :, ::1] G, double[:, :, ::1] m, const unsigned char[::1] held):
    """One new sample for each of ``nodes``, with features psi (k, r) and values z (k, d).

    A node whose reference is not full takes the sample into the reference. Otherwise it enters every test
    window; what leaves the longest one moves on to the reference, pushing out its oldest sample, unless the
    node's reference is held: then it is dropped.
    """
    cdef int k, v, s, age, slot, n_nodes = nodes.shape[0], S = lengths.shape[0]
    cdef int r = psi.shape[1], d = z.shape[1], n_ref = ref_psi.shape[1], n_long = test_psi.shape[1]
    cdef const float* new
    cdef const float* leaving
    cdef size_t psi_bytes = r * sizeof(float), z_bytes = d * sizeof(float)
    with nogil:
        for k in range(n_nodes):
            v = nodes[k]
            new = &psi[k, 0]
            if ref_count[v] < n_ref:
                slot = (ref_head[v] + ref_count[v]) % n_ref
                memcpy(&ref_psi[v, slot, 0], new, psi_bytes)
                memcpy(&ref_z[v, slot, 0], &z[k, 0], z_bytes)
                ref_count[v] += 1
                add_outer(&G[v, 0, 0, 0], &m[v, 0, 0], new, 1.0, r)
                continue
            for s in range(S):
                if test_count[v] < lengths[s]:
                    add_outer(&G[v, s + 1, 0, 0], &m[v, s + 1, 0], new, 1.0, r)
                else:  # the oldest sample of this window stands lengths[s] behind the next free slot
                    age = (test_head[v] + test_count[v] - lengths[s]) % n_long
                    swap_outer(&G[v, s + 1, 0, 0], &m[v, s + 1, 0], new, &test_psi[v, age, 0], r)
            if test_count[v] < n_long:
                slot = (test_head[v] + test_count[v]) % n_long
                test_count[v] += 1
            else:
                slot = test_head[v]
                if not held[v]:
                    leaving = &test_psi[v, slot, 0]
                    swap_outer(&G[v, 0, 0, 0], &m[v, 0, 0], leaving, &ref_psi[v, ref_head[v], 0], r)
                    memcpy(&ref_psi[v, ref_head[v], 0], leaving, psi_bytes)
                    memcpy(&ref_z[v, ref_head[v], 0], &test_z[v, slot, 0], z_bytes)
                    ref_head[v] = (ref_head[v] + 1) % n_ref
                test_head[v] = (test_head[v] + 1) % n_long
            memcpy(&test_psi[v, slot, 0], new, psi_bytes)
            memcpy(&test_z[v, slot, 0], &z[k, 0], z_bytes)


def factor(const int[::1] nodes, const double[:, :, :, ::1] G, const int[::1] ref_count, const double[::1] degree,
           double alpha, double c, double k, double[:, :, ::1] P):
    """P_v = [ (1 - alpha) H_v + (c d_v + k + alpha/2) I ]^-1 for each of ``nodes``.

    Twice the bracket is at least every scale's block A_s + (c d_v + k) I, because e_max(H'_s) <= 1 for a
    unit-norm kernel: the step theta - P g lowers the objective for every scale, also when H_v has moved on
    a little since.
    """
    cdef int i, j, n, v, r = G.shape[2], info
    cdef double scale, diagonal
    cdef double* p
    with nogil:
        for n in range(nodes.shape[0]):
            v = nodes[n]
            p = &P[v, 0, 0]
            scale = (1.0 - alpha) / ref_count[v] if ref_count[v] > 0 else 0.0
            diagonal = c * degree[v] + k + 0.5 * alpha
            for i in range(r):
                for j in range(r):
                    p[i * r + j] = scale * G[v, 0, i, j]
                p[i * r + i] += diagonal
            dpotrf(b"L", &r, p, &r, &info)
            dpotri(b"L", &r, p, &r, &info)
            for i in range(r):  # BLAS wrote the lower triangle, by columns
                for j in range(i):
                    p[i * r + j] = p[j * r + i]


def refit(const int[::1] nodes, const int[::1] lengths, const double[:, :, :, ::1] G, const double[:, :, ::1] m,
          const int[::1] ref_count, int n_ref, const int[::1] test_count, const unsigned char[::1] silent,
          const double[:, :, ::1] P, double[:, :, ::1] theta,
          const int[::1] indptr, const int[::1] indices, const double[::1] weights, const double[::1] degree,
          double alpha, double c, double k, int sweeps, double[::1] work):
    """Sweep ``nodes`` in order, all scales of a node together; theta (N, S, r) is changed in place.

    Centred target: g = A theta - b with b = (1 - alpha)(mean_test psi - mean_ref psi). A node (or scale) without
    data keeps only its coupling. Returns the residual of the last sweep: the norm of the block gradients, each
    taken when its block was visited, over the norm of b.
    """
    cdef int n, v, s, e, j, i, iteration, r = theta.shape[2], S = theta.shape[1], width
    cdef double diagonal, w, one_ref, one_test, square = 0.0, scale = 0.0, b, factor
    cdef const double* other
    cdef double* mine
    cdef double* g
    cdef double* gs
    cdef double* move = &work[S * r]
    width = S * r
    with nogil:
        for iteration in range(sweeps):
            square = 0.0
            scale = 0.0
            for n in range(nodes.shape[0]):
                v = nodes[n]
                mine = &theta[v, 0, 0]
                g = &work[0]
                diagonal = c * degree[v] + k
                for j in range(width):
                    g[j] = diagonal * mine[j]
                for e in range(indptr[v], indptr[v + 1]):
                    w = c * weights[e]
                    other = &theta[indices[e], 0, 0]
                    for j in range(width):
                        g[j] -= w * other[j]
                one_ref = (1.0 - alpha) / n_ref
                for s in range(S):
                    gs = g + s * r
                    if silent[v] or ref_count[v] < n_ref or test_count[v] < lengths[s]:
                        if diagonal > 0.0:  # no data: the mean of the neighbours, shrunk by the ridge
                            for j in range(r):
                                mine[s * r + j] -= gs[j] / diagonal
                        continue
                    one_test = 1.0 / lengths[s]
                    plus_symmetric_times(&G[v, 0, 0, 0], one_ref, mine + s * r, gs, r)
                    plus_symmetric_times(&G[v, s + 1, 0, 0], alpha * one_test, mine + s * r, gs, r)
                    for j in range(r):
                        b = (1.0 - alpha) * one_test * m[v, s + 1, j] - one_ref * m[v, 0, j]
                        gs[j] -= b
                        scale += b * b
                        square += gs[j] * gs[j]
                        move[j] = 0.0
                    plus_symmetric_times(&P[v, 0, 0], 1.0, gs, move, r)
                    for j in range(r):
                        mine[s * r + j] -= move[j]
    return sqrt(square / scale) if scale > 0.0 else 0.0


def score(const int[::1] nodes, const int[::1] lengths, const double[:, :, :, ::1] G, const double[:, :, ::1] m,
          const int[::1] ref_count, int n_ref, const int[::1] test_count, const unsigned char[::1] silent,
          const double[:, :, ::1] theta, const int[::1] indptr, const int[::1] indices, const double[::1] weights,
          const double[::1] degree, double alpha, double[:, ::1] out, double[:, ::1] exposure, double[::1] work):
    """Scores and exposures of ``nodes``; NaN: no verdict.

    out[v, s] = b' theta - 1/2 theta' A theta (Eq. 22, centred).
    exposure[v, s] = (1 - alpha)^2 u' C_v u (1/n'_s + 1/n) with u the mean parameter of the neighbours and C_v the
    reference covariance of psi: the variance that b'u has for a node that did not change, whatever its
    neighbours do. It tells how much of a score may have leaked in from next door.
    """
    cdef int n, v, s, e, j, r = theta.shape[2], S = theta.shape[1]
    cdef double one_ref, one_test, total, w, mean, variance
    cdef const double* mine
    cdef const double* other
    cdef double* u
    cdef double* a = &work[S * r]
    with nogil:
        one_ref = 1.0 / n_ref
        for n in range(nodes.shape[0]):
            v = nodes[n]
            for j in range(S * r):
                work[j] = 0.0
            if degree[v] > 0.0:
                for e in range(indptr[v], indptr[v + 1]):
                    w = weights[e] / degree[v]
                    other = &theta[indices[e], 0, 0]
                    for j in range(S * r):
                        work[j] += w * other[j]
            for s in range(S):
                if silent[v] or ref_count[v] < n_ref or test_count[v] < lengths[s]:
                    out[v, s] = NAN
                    exposure[v, s] = NAN
                    continue
                mine = &theta[v, s, 0]
                one_test = 1.0 / lengths[s]
                for j in range(r):
                    a[j] = 0.0
                plus_symmetric_times(&G[v, 0, 0, 0], (1.0 - alpha) * one_ref, mine, a, r)
                plus_symmetric_times(&G[v, s + 1, 0, 0], alpha * one_test, mine, a, r)
                total = 0.0
                for j in range(r):
                    total += mine[j] * ((1.0 - alpha) * (one_test * m[v, s + 1, j] - one_ref * m[v, 0, j])
                                        - 0.5 * a[j])
                out[v, s] = total
                u = &work[s * r]
                mean = 0.0
                for j in range(r):
                    mean += u[j] * m[v, 0, j] * one_ref
                    a[j] = 0.0
                plus_symmetric_times(&G[v, 0, 0, 0], one_ref, u, a, r)
                variance = -mean * mean
                for j in range(r):
                    variance += u[j] * a[j]
                if variance < 0.0:
                    variance = 0.0
                exposure[v, s] = (1.0 - alpha) * (1.0 - alpha) * variance * (one_test + one_ref)
