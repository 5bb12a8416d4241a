"""Who is at fault when a sink takes nothing, or not this one."""

from __future__ import annotations

from detector.runtime.delivery.retries import LONGEST_REST_S, Retries
from detector.storage.records import Record


def record(number: int, incident: str = "i") -> Record:
    return Record(f"{incident}-{number}", incident, "incident.updated", 0.0, b"{}")


def test_a_dead_receiver_is_no_fault_of_a_record() -> None:
    """However long it is dead: nothing was taken in between, so that only the first failure counts."""
    retries = Retries()
    for attempt in range(1000):
        trial = retries.failed(record(1), "refused", float(attempt))
    assert (trial.failures, trial.tries) == (1000, 1)


def test_what_fails_while_others_are_taken_rests_longer_each_time() -> None:
    retries, now, rests = Retries(), 0.0, []
    for other in range(12):
        trial = retries.failed(record(1), "500", now)
        rests.append(trial.until - now)
        assert "i" in retries.resting(now)
        retries.took(record(other, "other"))
        now = trial.until
        assert "i" not in retries.resting(now)
    assert trial.tries == 12
    assert rests == sorted(rests)
    assert rests[0] < 1
    assert rests[-1] == LONGEST_REST_S


def test_a_record_that_was_taken_is_forgotten() -> None:
    retries = Retries()
    retries.failed(record(1), "500", 0.0)
    assert retries.next() is not None
    retries.took(record(1))
    assert retries.next() is None
    assert retries.failed(record(1), "500", 0.0).tries == 1


def test_the_one_behind_says_nothing_of_itself() -> None:
    """It goes to see whether the receiver lives; its failure is not one more of the first."""
    retries = Retries()
    retries.failed(record(1), "500", 0.0)
    assert retries.failed(record(2), "501", 1.0).failures == 1
    trial = retries.trial(record(2))
    assert trial is not None
    assert (trial.record, trial.error) == (record(1), "500")
