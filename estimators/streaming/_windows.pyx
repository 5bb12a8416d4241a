# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Window moves and warm refits of a bank of test windows that share features and reference.

Per node v: sums of psi psi' and of psi over the reference (slot 0) and over the latest n_s samples for every
scale s (slots 1..S). Sums, not means: windows that are still filling need nothing special. Features are whole
numbers of a unit, so sums are whole numbers, too: nothing is ever rounded, however many samples come and go.
"""

from libc.math cimport NAN
from libc.string cimport memcpy
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

cdef extern from *:
    """
    typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));
    typedef double quad __attribute__((vector_size(32), aligned(8), may_alias));
    #define SPLAT2(a) {a, a}
    #define SPLAT4(a) {a, a, a, a}

    typedef int two __attribute__((vector_size(8), aligned(4), may_alias));
    typedef int four __attribute__((vector_size(16), aligned(4), may_alias));
    #define REALS2(p) (*(const pair *) (p))
    #define REALS4(p) (*(const quad *) (p))
    #define INTS2(p) __builtin_convertvector(*(const two *) (p), pair)
    #define INTS4(p) __builtin_convertvector(*(const four *) (p), quad)

    /* y = A x for a full symmetric A (r, r): sums of rows, a few columns at a time, which stay in registers.
       Rows go to separate sums, so that an addition need not wait for the one before. The last columns overlap
       those before where r is no multiple of the register. */
    #define TIMES(NAME, ISA, NUMBER, AT, VEC, L, SPLAT)                                                       \
    ISA static void NAME(const NUMBER *A, const double *x, double *y, int r) {                                \
        int j = 0, i;                                                                                         \
        for (; j + 4 * L <= r; j += 4 * L) {                                                                  \
            VEC a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};                       \
            for (i = 0; i + 1 < r; i += 2) {                                                                  \
                const NUMBER *p = A + (size_t) i * r + j, *q = p + r;                                         \
                VEC s = SPLAT(x[i]), t = SPLAT(x[i + 1]);                                                     \
                a += s * AT(p);         b += s * AT(p + L);                                                   \
                c += s * AT(p + 2 * L); d += s * AT(p + 3 * L);                                               \
                e += t * AT(q);         f += t * AT(q + L);                                                   \
                g += t * AT(q + 2 * L); h += t * AT(q + 3 * L);                                               \
            }                                                                                                 \
            if (i < r) {                                                                                      \
                const NUMBER *p = A + (size_t) i * r + j;                                                     \
                VEC s = SPLAT(x[i]);                                                                          \
                a += s * AT(p);         b += s * AT(p + L);                                                   \
                c += s * AT(p + 2 * L); d += s * AT(p + 3 * L);                                               \
            }                                                                                                 \
            *(VEC *) (y + j) = a + e;         *(VEC *) (y + j + L) = b + f;                                   \
            *(VEC *) (y + j + 2 * L) = c + g; *(VEC *) (y + j + 3 * L) = d + h;                               \
        }                                                                                                     \
        for (; j < r && r >= 2 * L; j += 2 * L) {                                                             \
            int n = r - 2 * L < j ? r - 2 * L : j;                                                            \
            VEC a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};                       \
            for (i = 0; i + 3 < r; i += 4) {                                                                  \
                const NUMBER *p = A + (size_t) i * r + n, *q = p + r, *u = q + r, *w = u + r;                 \
                VEC s = SPLAT(x[i]), t = SPLAT(x[i + 1]), m = SPLAT(x[i + 2]), o = SPLAT(x[i + 3]);           \
                a += s * AT(p); b += s * AT(p + L);                                                           \
                c += t * AT(q); d += t * AT(q + L);                                                           \
                e += m * AT(u); f += m * AT(u + L);                                                           \
                g += o * AT(w); h += o * AT(w + L);                                                           \
            }                                                                                                 \
            for (; i < r; i++) {                                                                              \
                const NUMBER *p = A + (size_t) i * r + n;                                                     \
                VEC s = SPLAT(x[i]);                                                                          \
                a += s * AT(p); b += s * AT(p + L);                                                           \
            }                                                                                                 \
            *(VEC *) (y + n) = (a + c) + (e + g); *(VEC *) (y + n + L) = (b + d) + (f + h);                   \
        }                                                                                                     \
        for (; j < r; j++) {                                                                                  \
            y[j] = 0.0;                                                                                       \
            for (i = 0; i < r; i++) y[j] += A[i * r + j] * x[i];                                              \
        }                                                                                                     \
    }

    /* A = p G + q H, n numbers */
    #define MIX(NAME, ISA)                                                                                    \
    ISA static void NAME(double *restrict A, double p, const int *restrict G, double q,                       \
                         const int *restrict H, size_t n) {                                                   \
        for (size_t j = 0; j < n; j++) A[j] = p * G[j] + q * H[j];                                            \
    }

    /* G += new new' - gone gone', m += new - gone, in one pass over G. */
    #define SWAP(NAME, ISA)                                                                                   \
    ISA static void NAME(int *restrict G, int *restrict m, const int *restrict new,                           \
                         const int *restrict gone, int r) {                                                   \
        for (int i = 0; i < r; i++) {                                                                         \
            int a = new[i], b = gone[i], *restrict row = G + (size_t) i * r;                                  \
            m[i] += a - b;                                                                                    \
            for (int j = 0; j < r; j++) row[j] += a * new[j] - b * gone[j];                                   \
        }                                                                                                     \
    }

    #define DOT(NAME, ISA, VEC, L)                                                                            \
    ISA static double NAME(const double *x, const double *y, int r) {                                         \
        VEC a = {0}, b = {0};                                                                                 \
        double sum = 0.0;                                                                                     \
        int j = 0;                                                                                            \
        for (; j + 2 * L <= r; j += 2 * L) {                                                                  \
            a += *(const VEC *) (x + j) * *(const VEC *) (y + j);                                             \
            b += *(const VEC *) (x + j + L) * *(const VEC *) (y + j + L);                                     \
        }                                                                                                     \
        a += b;                                                                                               \
        for (int k = 0; k < L; k++) sum += a[k];                                                              \
        for (; j < r; j++) sum += x[j] * y[j];                                                                \
        return sum;                                                                                           \
    }

    /* near += w other */
    #define PLUS(NAME, ISA)                                                                                   \
    ISA static void NAME(double *restrict near, double w, const double *restrict other, int n) {              \
        for (int j = 0; j < n; j++) near[j] += w * other[j];                                                  \
    }

    /* One scale of one node: gradient, step, and with `out` what is left of it for scores. See refit below. */
    #define VISIT(NAME, ISA, TIMES_, TIMES_INTS, MIX_, DOT_)                                                  \
    ISA static void NAME(const struct block *at, double *restrict theta, const double *u, int r,              \
                         double *restrict work, double *out) {                                                \
        double *restrict b = work, *restrict g = b + r, *restrict y = g + r, *restrict t = y + r;             \
        double *restrict A = t + r;                                                                           \
        const double b_ref = at->b_ref, b_test = at->b_test, c = at->c, diagonal = at->diagonal;              \
        const int *m = at->m_ref, *m_test = at->m_test;                                                       \
        MIX_(A, at->a_ref, at->G_ref, at->a_test, at->G_test, (size_t) r * r);                                \
        TIMES_(A, theta, y, r);                                                                               \
        for (int j = 0; j < r; j++) {                                                                         \
            b[j] = b_test * m_test[j] - b_ref * m[j];                                                         \
            g[j] = y[j] + diagonal * theta[j] - c * u[j] - b[j];                                              \
        }                                                                                                     \
        TIMES_(at->P, g, y, r);                                                                               \
        for (int j = 0; j < r; j++) theta[j] -= y[j];                                                         \
        if (!out) return;                                                                                     \
        TIMES_(A, theta, y, r);                                                                               \
        for (int j = 0; j < r; j++) t[j] = b[j] - 0.5 * y[j];                                                 \
        out[0] = DOT_(theta, t, r);                                                                           \
        TIMES_INTS(at->G_ref, u, y, r);                                                                       \
        out[1] = DOT_(u, y, r);                                                                               \
        for (int j = 0; j < r; j++) t[j] = m[j];                                                              \
        out[2] = DOT_(u, t, r);                                                                               \
    }

    struct block {
        const int *G_ref, *G_test, *m_ref, *m_test;
        const double *P;
        double a_ref, a_test, b_ref, b_test, c, diagonal;
    };

    TIMES(times_pair, , double, REALS2, pair, 2, SPLAT2)
    TIMES(times_ints_pair, , int, INTS2, pair, 2, SPLAT2)
    MIX(mix_pair, )
    SWAP(swap_pair, )
    DOT(dot_pair, , pair, 2)
    PLUS(plus_pair, )
    VISIT(visit_pair, , times_pair, times_ints_pair, mix_pair, dot_pair)
    #if defined(__x86_64__) && defined(__GNUC__)
    /* Registers of four on processors that have them: asked once, so one machine always gives the same bits. */
    #define FOUR __attribute__((target("avx2,fma")))
    TIMES(times_quad, FOUR, double, REALS4, quad, 4, SPLAT4)
    TIMES(times_ints_quad, FOUR, int, INTS4, quad, 4, SPLAT4)
    MIX(mix_quad, FOUR)
    SWAP(swap_quad, FOUR)
    DOT(dot_quad, FOUR, quad, 4)
    PLUS(plus_quad, FOUR)
    VISIT(visit_quad, FOUR, times_quad, times_ints_quad, mix_quad, dot_quad)
    static int wide(void) {
        static int known = -1;
        if (known < 0) known = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        return known;
    }
    #define BEST(name) (wide() ? name##_quad : name##_pair)
    #else
    #define BEST(name) name##_pair
    #endif

    static void swap_outer(int *G, int *m, const int *new, const int *gone, int r) {
        BEST(swap)(G, m, new, gone, r);
    }
    static void plus(double *near, double w, const double *other, int n) {
        BEST(plus)(near, w, other, n);
    }
    static void visit(const struct block *at, double *theta, const double *u, int r, double *work, double *out) {
        BEST(visit)(at, theta, u, r, work, out);
    }
    static void add_outer(int *restrict G, int *restrict m, const int *restrict new, int r) {
        for (int i = 0; i < r; i++) {  /* only while windows fill */
            m[i] += new[i];
            for (int j = 0; j < r; j++) G[(size_t) i * r + j] += new[i] * new[j];
        }
    }
    """
    void __builtin_prefetch(const void* address) noexcept nogil
    struct block:
        const int* G_ref
        const int* G_test
        const int* m_ref
        const int* m_test
        const double* P
        double a_ref, a_test, b_ref, b_test, c, diagonal
    void plus(double* near, double w, const double* other, int n) noexcept nogil
    void visit(const block* at, double* theta, const double* u, int r, double* work, double* out) noexcept nogil
    void swap_outer(int* G, int* m, const int* new, const int* gone, int r) noexcept nogil
    void add_outer(int* G, int* m, const int* new, int r) noexcept nogil


cdef inline const int* widened(const short* psi, int* out, int r) noexcept nogil:
    """The same numbers with room for their products."""
    cdef int j
    for j in range(r):
        out[j] = psi[j]
    return out


cdef void factor_one(const int* G, int count, double unit, double diagonal, double alpha, double* P,
                     int r) noexcept nogil:
    cdef int i, j, info
    cdef double scale = (1.0 - alpha) * unit * unit / count if count > 0 else 0.0
    for i in range(r):
        for j in range(r):
            P[i * r + j] = scale * G[i * r + j]
        P[i * r + i] += diagonal
    dpotrf(b"L", &r, P, &r, &info)
    dpotri(b"L", &r, P, &r, &info)
    for i in range(r):  # LAPACK wrote the lower triangle, by columns
        for j in range(i):
            P[i * r + j] = P[j * r + i]


def factor(const int[::1] nodes, const int[:, :, :, ::1] G, const int[::1] ref_count, double unit,
           const double[::1] degree, double alpha, double c, double k, double slack, double[:, :, ::1] P):
    """P_v = [ (1 - alpha) H_v + (c d_v + k + alpha/2 + slack) I ]^-1 for each of ``nodes``.

    Twice the bracket is at least every scale's block A_s + (c d_v + k) I, because e_max(H'_s) <= 1 for a
    unit-norm kernel, and stays so while H_v gains at most 2 slack/(1 - alpha): the step theta - P g lowers the
    objective for every scale.
    """
    cdef int n, v, r = G.shape[2]
    with nogil:
        for n in range(nodes.shape[0]):
            v = nodes[n]
            factor_one(&G[v, 0, 0, 0], ref_count[v], unit, c * degree[v] + k + 0.5 * alpha + slack, alpha,
                       &P[v, 0, 0], r)


def advance(const int[::1] nodes, const int[::1] sample, const short[:, ::1] psi, const float[:, ::1] z,
            double unit, const int[::1] lengths, short[:, :, ::1] ref_psi, float[:, :, ::1] ref_z, int[::1] ref_head,
            int[::1] ref_count, short[:, :, ::1] test_psi, float[:, :, ::1] test_z, int[::1] test_head,
            int[::1] test_count, int[::1] moves, int every, int[:, :, :, ::1] G, int[:, :, ::1] m,
            const unsigned char[::1] held, const unsigned char[::1] silent, double[:, :, ::1] P,
            double[:, :, ::1] theta, const int[::1] indptr, const int[::1] indices, const double[::1] weights,
            const double[::1] degree, double alpha, double c, double k, double slack, int sweeps,
            double[:, ::1] scores, double[:, ::1] exposure, double[::1] work, int[::1] counts):
    """Window moves and sweeps of ``nodes``, node by node, so that the sums of a node are fetched once.

    Features psi, sums G and m are whole numbers of ``unit`` (G: of its square).

    Move: node nodes[n] takes the sample with features psi[i] and values z[i], i = sample[n]; -1: none. While its
    reference is not full, the sample goes there. Otherwise it enters every test window; what leaves the longest
    one moves on to the reference, pushing out its oldest sample, unless the node's reference is held: then it is
    dropped. Every so many moves P is made anew.

    Sweeps, all scales of a node together, theta (N, S, r) changed in place. Centred target: g = A theta - b with
    b = (1 - alpha)(mean_test psi - mean_ref psi). A node (or scale) without data keeps only its coupling. The
    last sweep leaves, NaN meaning no decision,
        scores[v, s] = b' theta - 1/2 theta' A theta                        (Eq. 22, centred)
        exposure[v, s] = (1 - alpha)^2 u' C_v u (1/n'_s + 1/n)
    with u the mean parameter of the neighbours as v met them and C_v the reference covariance of psi: the
    variance that b'u has for a node that did not change, whatever its neighbours do. It tells how much of a
    score may have leaked in from its neighbours.

    ``sweeps`` may be 0: moves only.
    """
    cdef int n, v, i, s, e, j, age, slot, iteration, n_nodes = nodes.shape[0], S = lengths.shape[0]
    cdef int r = G.shape[2], d = ref_z.shape[2], n_ref = ref_psi.shape[1], n_long = test_psi.shape[1]
    cdef size_t psi_bytes = r * sizeof(short), z_bytes = d * sizeof(float)
    cdef double variance, mean, one_ref = 1.0 / n_ref, one_test
    cdef double out[3]
    cdef block at
    cdef const int* new
    cdef const short* leaving
    cdef int* gone = &counts[r]
    cdef double* near = &work[(4 + r) * r]  # (S, r) weighted sum of the neighbours' parameters
    at.b_ref, at.c = (1.0 - alpha) * one_ref * unit, c
    at.a_ref = at.b_ref * unit
    with nogil:
        for iteration in range(max(sweeps, 1)):
            for n in range(n_nodes):
                v = nodes[n]
                if iteration == 0 and n + 1 < n_nodes and sample[n + 1] >= 0:
                    e = nodes[n + 1]  # what the next node needs lies scattered: ask for it now
                    for s in range(S):
                        age = (test_head[e] + max(test_count[e], lengths[s]) - lengths[s]) % n_long
                        __builtin_prefetch(&test_psi[e, age, 0])
                        __builtin_prefetch(&test_psi[e, age, r - 1])
                    __builtin_prefetch(&ref_psi[e, ref_head[e], 0])
                    __builtin_prefetch(&ref_psi[e, ref_head[e], r - 1])
                    __builtin_prefetch(&ref_z[e, ref_head[e], 0])
                    __builtin_prefetch(&test_z[e, test_head[e], 0])
                i = sample[n]
                if iteration == 0 and i >= 0:
                    new = widened(&psi[i, 0], &counts[0], r)
                    if ref_count[v] < n_ref:
                        slot = (ref_head[v] + ref_count[v]) % n_ref
                        memcpy(&ref_psi[v, slot, 0], &psi[i, 0], psi_bytes)
                        memcpy(&ref_z[v, slot, 0], &z[i, 0], z_bytes)
                        ref_count[v] += 1
                        add_outer(&G[v, 0, 0, 0], &m[v, 0, 0], new, r)
                    else:
                        for s in range(S):
                            if test_count[v] < lengths[s]:
                                add_outer(&G[v, s + 1, 0, 0], &m[v, s + 1, 0], new, r)
                            else:  # the oldest sample of this window stands lengths[s] behind the next free slot
                                age = (test_head[v] + test_count[v] - lengths[s]) % n_long
                                swap_outer(&G[v, s + 1, 0, 0], &m[v, s + 1, 0], new,
                                           widened(&test_psi[v, age, 0], gone, r), r)
                        if test_count[v] < n_long:
                            slot = (test_head[v] + test_count[v]) % n_long
                            test_count[v] += 1
                        else:
                            slot = test_head[v]
                            if not held[v]:
                                leaving = &test_psi[v, slot, 0]
                                new = widened(leaving, &counts[0], r)
                                swap_outer(&G[v, 0, 0, 0], &m[v, 0, 0], new,
                                           widened(&ref_psi[v, ref_head[v], 0], gone, r), r)
                                memcpy(&ref_psi[v, ref_head[v], 0], leaving, psi_bytes)
                                memcpy(&ref_z[v, ref_head[v], 0], &test_z[v, slot, 0], z_bytes)
                                ref_head[v] = (ref_head[v] + 1) % n_ref
                            test_head[v] = (test_head[v] + 1) % n_long
                        memcpy(&test_psi[v, slot, 0], &psi[i, 0], psi_bytes)
                        memcpy(&test_z[v, slot, 0], &z[i, 0], z_bytes)
                    moves[v] = (moves[v] + 1) % every
                    if moves[v] == 0:
                        factor_one(&G[v, 0, 0, 0], ref_count[v], unit, c * degree[v] + k + 0.5 * alpha + slack,
                                   alpha, &P[v, 0, 0], r)
                if sweeps == 0:
                    continue
                at.diagonal = c * degree[v] + k
                at.G_ref, at.m_ref, at.P = &G[v, 0, 0, 0], &m[v, 0, 0], &P[v, 0, 0]
                for j in range(S * r):
                    near[j] = 0.0
                for e in range(indptr[v], indptr[v + 1]):
                    plus(near, weights[e], &theta[indices[e], 0, 0], S * r)
                for s in range(S):
                    if silent[v] or ref_count[v] < n_ref or test_count[v] < lengths[s]:
                        if at.diagonal > 0.0:  # no data: the mean of the neighbours, shrunk by the ridge
                            for j in range(r):
                                theta[v, s, j] = c * near[s * r + j] / at.diagonal
                        scores[v, s] = NAN
                        exposure[v, s] = NAN
                        continue
                    one_test = 1.0 / lengths[s]
                    at.G_test, at.m_test = &G[v, s + 1, 0, 0], &m[v, s + 1, 0]
                    at.a_test, at.b_test = alpha * one_test * unit * unit, (1.0 - alpha) * one_test * unit
                    if iteration < sweeps - 1:
                        visit(&at, &theta[v, s, 0], near + s * r, r, &work[0], NULL)
                        continue
                    visit(&at, &theta[v, s, 0], near + s * r, r, &work[0], out)
                    scores[v, s] = out[0]
                    mean = out[2] * one_ref * unit
                    variance = max(out[1] * one_ref * unit * unit - mean * mean, 0.0)
                    if variance > 0.0:
                        variance = variance / (degree[v] * degree[v])
                    exposure[v, s] = (1.0 - alpha) * (1.0 - alpha) * variance * (one_test + one_ref)
