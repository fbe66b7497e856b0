"""What a run of a nightly job says of itself: nothing is lost, nothing is told twice (D76, D77)."""

import peewee
import pytest

from app.cli.nightly import Job, NotAllLoaded


@pytest.fixture
def job():
    """A run in which two loads failed; alerts take the first one from the history."""
    job = Job()
    job.failed = [(["a.csv"], "not loaded", 1), (["a.csv"], "skipped", 2)]
    job.in_history = {1}
    return job


def test_files_of_the_same_name_are_different_failures(job):
    """Each is of a load of its own, or of none that the history knows."""
    job.failed.append((["a.csv"], "left for the next run", None))
    assert job.faults(NotAllLoaded("not all")) == [
        "a.csv: skipped.",
        "a.csv: left for the next run.",
    ]


def test_what_alerts_tell_is_not_told_again(job):
    """Then the run itself has nothing to tell."""
    job.in_history = {1, 2}
    assert job.faults(NotAllLoaded("not all")) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(15), "It was stopped before its end."),
        (OSError(5, "Input/output error"), "It failed: Input/output error."),
        (peewee.OperationalError("gone"), "It failed: the database cannot be used."),
    ],
)
def test_a_run_that_did_not_come_to_its_end_says_so(job, error, reason):
    """What it had not begun is in no history, though every failure is told."""
    job.in_history = {1, 2}
    assert job.faults(error) == [reason]
    job.in_history = set()
    assert job.faults(error)[-1] == reason


def test_a_warning_without_a_failure_has_its_reason_in_the_log():
    """Such as a kept file that cannot be removed."""
    assert Job().faults(NotAllLoaded("not all")) == ["Its log has the reason."]
    assert Job().faults(None) == []
