"""The window bank: contents, sums, refit and scores against a naive model and against the solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.ratio.solvers import Problem, direct
from estimators.streaming.windows import WindowBank, unit_for
from tests.estimators.streaming.window_twin import Twin

RING = np.roll(np.eye(6), 1, axis=1) * 0.5
W6 = RING + RING.T
W6[5] = W6[:, 5] = 0.0  # the last node is isolated


def nystroem(rank, dim=1, seed=0):
    atoms = np.random.default_rng(seed).normal(size=(max(40, 2 * rank), dim)) * 1.5
    return Nystroem(Dictionary(atoms, 0.7), rank=rank)


def made(W=W6, rank=5, dim=1, **options):
    options = {"reference": 12, "tests": (2, 4, 9)} | options
    return WindowBank(Graph.of(W), nystroem(rank, dim), **options)


def run(bank, ticks, seed=1, shift=0.0, sweeps=None):
    rng, nodes = np.random.default_rng(seed), np.arange(bank.n_nodes, dtype=np.int32)
    for _ in range(ticks):
        bank.slide(nodes, rng.normal(size=(bank.n_nodes, bank.ref_z.shape[2])) + shift)
        bank.refit(sweeps=sweeps)
    return bank


def problem(bank, s):
    """The centred problem of one scale, in the solvers' own form, from the bank's sums."""
    n, (n_ref, length) = bank.n_nodes, (bank.ref_psi.shape[1], bank.lengths[s])
    G, m = bank.G * bank.unit**2, bank.m * bank.unit
    A = (1 - bank.alpha) * G[:, 0] / n_ref + bank.alpha * G[:, s + 1] / length
    b = (1 - bank.alpha) * (m[:, s + 1] / length - m[:, 0] / n_ref)
    there = bank.ready[:, s]
    A, b = A * there[:, None, None], b * there[:, None]
    return Problem(A, b, bank.graph, bank.coupling / n, bank.ridge / bank.coupling)


# ------------------------------------------------------------------------------------- against the twin

NODE = st.integers(0, 5)
OPERATIONS = st.one_of(
    st.tuples(st.just("slide"), st.integers(1, 63), st.integers(1, 6)),
    st.tuples(st.just("hold"), NODE, st.booleans()),
    st.tuples(st.just("silence"), NODE, st.booleans()),
    st.tuples(st.just("restart"), NODE, st.none()),
    st.tuples(st.just("rebaseline"), NODE, st.integers(0, 12)),
    st.tuples(st.just("refit"), st.integers(1, 63), st.integers(1, 3)),
)


def members(mask):
    return np.flatnonzero([(mask >> v) & 1 for v in range(6)]).astype(np.int32)


def agree(bank, twin):
    for v in range(bank.n_nodes):
        np.testing.assert_array_equal(bank.window(v), np.array(twin.z_ref[v]).reshape(-1, 1))
        for s in range(len(bank.lengths)):
            recent = np.array(twin.z_test[v][-bank.lengths[s] :]).reshape(-1, 1)
            np.testing.assert_array_equal(bank.window(v, s), recent)
        for slot in range(len(bank.lengths) + 1):
            np.testing.assert_array_equal(bank.G[v, slot] * bank.unit**2, twin.G(v, slot))
            np.testing.assert_array_equal(bank.m[v, slot] * bank.unit, twin.window(v, slot).sum(0))
        np.testing.assert_allclose(bank.P[v], twin.P[v], rtol=1e-8, atol=1e-10)
    for name in ("theta", "scores", "exposure"):
        np.testing.assert_allclose(
            getattr(bank, name), getattr(twin, name), rtol=1e-8, atol=1e-10, err_msg=name
        )


@given(st.lists(OPERATIONS, max_size=30), st.integers(0, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_bank_follows_the_twin(operations, seed, fixed):
    """Whatever arrives at whichever node, contents, sums, parameters, scores and exposures are the twin's."""
    bank, rng = made(), np.random.default_rng(seed)
    twin = Twin(bank)
    bank.held[:] = twin.held[:] = fixed
    for what, a, b in [("slide", 63, 20), ("refit", 63, 1), *operations, ("refit", 63, 1)]:
        if what == "slide":
            for _ in range(b):
                z = rng.normal(size=(len(members(a)), 1))
                bank.slide(members(a), z)
                twin.slide(members(a), z)
        elif what == "hold":
            bank.held[a] = twin.held[a] = b
        elif what == "silence":
            bank.silent[a] = twin.silent[a] = b
        elif what == "restart":
            bank.restart(np.array([a], np.int32))
            twin.restart(a)
        elif what == "rebaseline":
            bank.rebaseline(a, b)
            twin.rebaseline(a, b)
        else:
            bank.refit(members(a), sweeps=b)
            twin.refit(members(a), sweeps=b)
            assert bank.residual() == pytest.approx(twin.residual(), rel=1e-6, abs=1e-12, nan_ok=True)
    agree(bank, twin)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 17, 20, 24, 31, 33])
@pytest.mark.parametrize("dim", [1, 3])
def test_every_rank_follows_the_twin(rank, dim):
    """The kernels that work in groups of columns are right where the rank is no multiple of a group."""
    bank = made(rank=rank, dim=dim, reference=60, coupling=0.3)
    twin, rng = Twin(bank), np.random.default_rng(rank)
    for _ in range(75):
        z = rng.normal(size=(6, dim))
        bank.step(np.arange(6, dtype=np.int32), z, np.arange(6, dtype=np.int32))
        twin.slide(range(6), z)
        twin.refit(range(6))

    np.testing.assert_allclose(bank.theta, twin.theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(bank.scores, twin.scores, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(bank.exposure, twin.exposure, rtol=1e-8, atol=1e-12)


def test_one_pass_is_slide_then_refit():
    """`step` gives the bits of `slide` followed by `refit`, also when only some nodes have a sample."""
    one, two, rng = made(sweeps=2, reference=60), made(sweeps=2, reference=60), np.random.default_rng(4)
    everyone = np.arange(6, dtype=np.int32)
    for t in range(150):
        nodes = everyone if t < 80 else np.flatnonzero(rng.random(6) < 0.6).astype(np.int32)
        z = rng.normal(size=(len(nodes), 1))
        one.step(nodes, z, everyone)
        two.slide(nodes, z)
        two.refit(everyone)

    for name in ("G", "m", "P", "theta", "scores", "exposure", "moves"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name


# ------------------------------------------------------------------------------------------ identities


def test_sliding_sums_stay_exact():
    """After 50,000 slides the moved sums equal rebuilt ones to the last digit: whole numbers do not round."""
    bank = made(np.zeros((2, 2)), rank=6)
    rng, nodes = np.random.default_rng(0), np.arange(2, dtype=np.int32)
    for z in rng.normal(size=(50_000, 2, 1)):
        bank.slide(nodes, z)
    G, m = bank.G.copy(), bank.m.copy()
    bank.rebuild()

    np.testing.assert_array_equal(G, bank.G)
    np.testing.assert_array_equal(m, bank.m)


@pytest.mark.parametrize("longest", [2, 250, 512, 513, 10_000, 10**6])
def test_sums_of_rounded_features_fit(longest):
    """The worst window, every feature 1, is just within 32 bits, or the unit is as fine as 16 bits allow."""
    unit = unit_for(longest)
    assert longest / unit**2 < 2**31
    assert 4 * longest / unit**2 >= 2**31 - 1 or unit == 2**-14


def test_rounded_features_give_the_same_scores():
    """Scores from features as they are differ by less than a hundredth of their spread over the nodes."""
    W = np.zeros((40, 40))
    bank = WindowBank(Graph.of(W), nystroem(8), reference=250, tests=(50,), ridge=0.01)
    run(bank, 300)
    bank.refit(sweeps=200)
    exact = []
    for v in range(40):
        psi, now = bank.features(bank.window(v)), bank.features(bank.window(v, 0))
        A = (1 - bank.alpha) * psi.T @ psi / 250 + bank.alpha * now.T @ now / 50
        b = (1 - bank.alpha) * (now.mean(0) - psi.mean(0))
        theta = np.linalg.solve(A + bank.ridge * np.eye(8), b)
        exact.append(b @ theta - 0.5 * theta @ A @ theta)

    off = np.abs(bank.scores[:, 0] - exact).max() / np.std(exact)
    assert off < 0.01, off


def test_states_with_features_in_single_precision_are_taken_over():
    """As they were stored once: rounded, they are the same windows and sums."""
    one = run(made(reference=60), 100)
    old = one.state()
    for name in ("ref_psi", "test_psi"):
        old[name] = (old[name] * one.unit).astype(np.float32)
    two = made(reference=60)
    two.restore(old)

    for name in ("ref_psi", "test_psi", "G", "m"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("coupling", [0.02, 1.0])
def test_converged_refit_is_the_direct_solution(coupling):
    """Warm sweeps iterated reach the direct solution of the centred problem, for every scale."""
    bank = run(made(coupling=coupling), 40)
    bank.silent[2] = 1
    bank.refit(sweeps=20_000)

    for s in range(3):
        np.testing.assert_allclose(bank.theta[:, s], direct(problem(bank, s)).theta, atol=1e-8)
    assert bank.residual() < 1e-8


@pytest.mark.parametrize(("reference", "coupling"), [(250, 0.001), (250, 1.0), (50, 0.001), (12, 0.001)])
def test_every_block_step_lowers_the_objective(reference, coupling):
    """The step is safe for every scale while a new, narrow regime moves through all windows."""
    bank = made(reference=reference, tests=(2, 9, 40), coupling=coupling, ridge=0.001, rank=6)
    rng, nodes = np.random.default_rng(3), np.arange(6, dtype=np.int32)
    for t in range(2 * reference + 90):
        spread, level = (1.0, 0.0) if t < reference + 40 else (0.01, 1.5)
        bank.slide(nodes, level + spread * rng.normal(size=(6, 1)))
        if not bank.ready.any():
            continue
        for v in nodes if t % 7 == 0 else ():
            before = [problem(bank, s).objective(bank.theta[:, s]) for s in range(3)]
            bank.refit(np.array([v], np.int32))
            after = [problem(bank, s).objective(bank.theta[:, s]) for s in range(3)]
            assert (np.array(after) <= np.array(before) + 1e-15).all(), (t, v)


def test_identical_windows_do_not_score():
    """A test window with the points of the reference gives a score of zero: nothing changed."""
    bank = made(reference=12, tests=(12,))
    x = np.random.default_rng(0).normal(size=(12, 6, 1))
    for z in np.concatenate([x, x]):
        bank.slide(np.arange(6, dtype=np.int32), z)
    bank.refit(sweeps=50)

    np.testing.assert_allclose(bank.scores, 0.0, atol=1e-12)


def test_changed_nodes_score():
    """A shift on half of the nodes raises their scores well above the others'."""
    bank = made(np.zeros((6, 6)), reference=60, tests=(30,))
    run(bank, 60)
    run(bank, 30, seed=2, shift=np.array([2.0, 2.0, 2.0, 0.0, 0.0, 0.0])[:, None])

    assert bank.scores[:3].min() > 3.0 * bank.scores[3:].max()


def test_silent_node_keeps_its_coupling_only():
    """A silent node takes the shrunken mean of its neighbours, has no decision, and still carries over."""
    bank = run(made(coupling=0.5), 40)
    bank.silent[1] = 1
    bank.refit(sweeps=2000)

    expected = 0.5 * (W6[1] @ bank.theta.reshape(6, -1)) / (0.5 * W6[1].sum() + bank.ridge)
    np.testing.assert_allclose(bank.theta[1].ravel(), expected, atol=1e-12)
    assert np.isnan(bank.scores[1]).all()
    assert np.isfinite(bank.scores[[0, 2, 3, 4, 5]]).all()


def test_permuted_nodes_permute_the_scores():
    """Numbering the nodes differently only numbers the converged scores differently."""
    order = np.array([3, 0, 5, 1, 4, 2])
    one, two = made(), made(W6[np.ix_(order, order)])
    z = np.random.default_rng(5).normal(size=(30, 6, 1))
    for row in z:
        one.slide(np.arange(6, dtype=np.int32), row)
        two.slide(np.arange(6, dtype=np.int32), row[order])
    one.refit(sweeps=3000)
    two.refit(sweeps=3000)

    np.testing.assert_allclose(two.scores, one.scores[order], atol=1e-10)


def test_no_coupling_leaves_every_node_alone():
    """With coupling 0 a node's scores are those it has in a network of its own."""
    bank = run(made(coupling=0.0), 40)
    for v in range(6):
        alone = made(np.zeros((1, 1)), coupling=0.0)
        rng = np.random.default_rng(1)
        for _ in range(40):
            alone.slide(np.zeros(1, np.int32), rng.normal(size=(6, 1))[v : v + 1])
            alone.refit()
        np.testing.assert_array_equal(bank.scores[v], alone.scores[0])


def test_no_verdict_before_windows_are_full():
    """A scale has no decision (NaN) until reference and its own test window are full; then it has one."""
    bank = made()
    for t in range(1, 25):
        run(bank, 1, seed=t)
        full = np.array([t - 12 >= length for length in bank.lengths])
        assert (np.isfinite(bank.scores) == full).all()
        assert (bank.ready == full).all()


def test_held_reference_stands_still():
    """What leaves the longest test window of a held node is dropped; the others' references move."""
    bank = run(made(), 30)
    bank.held[2] = 1
    before = [bank.window(v).copy() for v in range(6)]
    run(bank, 5, seed=9)

    np.testing.assert_array_equal(bank.window(2), before[2])
    np.testing.assert_array_equal(bank.window(3)[:-5], before[3][5:])


def test_memory_is_bounded_and_small():
    """At rank 16 with default windows a node takes at most 30 KB, and the stream does not add to it."""
    bank = WindowBank(Graph.of(np.zeros((20, 20))), nystroem(16))

    def size():
        arrays = [a for a in vars(bank).values() if isinstance(a, np.ndarray) and len(a) == 20]
        return sum(a.nbytes for a in arrays)

    before = size()
    run(bank, 700)
    assert size() == before
    assert before / 20 <= 30 * 1024


def test_restored_bank_goes_on_alike():
    """State and restore give the same bits from there on, to the bank itself and to its copy."""
    one = run(made(reference=60, sweeps=2), 100)
    one.held[1], one.silent[4] = 1, 1
    two = made(reference=60, sweeps=2)
    two.restore(one.state())
    run(one, 30, seed=8)
    run(two, 30, seed=8)

    for name in ("G", "m", "P", "theta", "scores", "exposure", "ref_z", "test_z", "moves"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name


def test_restored_rows_are_matched():
    """Rows say which old node each one was; a new one starts empty."""
    one = run(made(), 40)
    two = made(np.zeros((3, 3)))
    two.restore(one.state(), np.array([4, -1, 0]))

    np.testing.assert_array_equal(two.window(0), one.window(4))
    np.testing.assert_array_equal(two.G[2], one.G[0])
    assert two.ref_count[1] == 0
    assert np.isnan(two.scores[1]).all()


def test_ratio_rises_where_values_became_likelier():
    """After a shift upwards the estimated ratio is above one up there and below one down here."""
    bank = made(np.zeros((6, 6)), reference=60, tests=(30,), ridge=0.01)
    run(bank, 60)
    run(bank, 30, seed=2, shift=2.0)

    low, high = bank.ratio(0, 0, np.array([[-1.0], [2.0]]))
    assert high > 1.5 > 0.9 > low


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reference": 1}, "reference: needs at least 2"),
        ({"tests": ()}, "tests: lengths"),
        ({"tests": (5, 5)}, "increasing"),
        ({"tests": (0, 5)}, "positive"),
        ({"alpha": 1.0}, r"alpha: must be in \[0, 1\)"),
        ({"coupling": -1.0}, "coupling must be >= 0"),
        ({"ridge": 0.0}, "ridge > 0"),
        ({"sweeps": 0}, "sweeps: must be at least 1"),
    ],
)
def test_bad_options_are_named(options, words):
    """What cannot be is refused with the name of the option."""
    with pytest.raises(ValueError, match=words):
        made(**options)
