"""Incidents that open again at the same nodes after an accept are counted; those by chance are not."""

from __future__ import annotations

from detector.incidents.reopening import AGAIN, MEMORY, Reopening


def test_openings_since_an_accept_are_counted() -> None:
    reopening = Reopening()
    assert reopening.open(["a", "b"], 0.0, 1.0) == 0, "nothing was accepted"
    reopening.accept(["a", "b"], 10.0)
    told = [reopening.open(["a", "b"], 20.0 + t, 1.0) for t in range(AGAIN + 1)]
    assert told == [0] * (AGAIN - 1) + [AGAIN, AGAIN + 1]
    reopening.accept(["a"], 50.0)
    assert reopening.open(["a"], 60.0, 1.0) == AGAIN + 2, "another accept forgets nothing"


def test_it_is_about_the_nodes_that_were_accepted() -> None:
    reopening = Reopening()
    reopening.accept(["a"], 0.0)
    for t in range(AGAIN):
        assert reopening.open(["a", "x", "y"], t, 1.0) == 0
    assert reopening.open(["a", "x"], 9.0, 1.0) == AGAIN + 1


def test_what_stays_quiet_or_comes_back_is_forgotten() -> None:
    for forget in (lambda one: one.restore(["a"]), lambda one: one.open(["b"], 10.0 * MEMORY + 30.0, 10.0)):
        reopening = Reopening()
        reopening.accept(["a"], 0.0)
        for t in range(AGAIN):
            reopening.open(["a"], float(t), 10.0)
        forget(reopening)
        assert "a" not in reopening.nodes
