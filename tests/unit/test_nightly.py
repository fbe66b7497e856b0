"""What the run of a nightly job reports: everything, and nothing twice (D77)."""

from pathlib import Path
from unittest.mock import Mock

import peewee
import pytest

from app.jobs.drop_directory import DropDirectory, NotAllLoaded, NotLoaded


def drop_directory():
    """Return the job of a drop directory, which has not begun."""
    unused = Mock()
    return DropDirectory(
        Path("drop"), None, is_scheduled=True, waiting=unused, shown=unused, loaded=unused
    )


@pytest.fixture
def job():
    """Return a run with two failed loads; alerts read the first one from the history."""
    job = drop_directory()
    job.failed = [NotLoaded(["a.csv"], "not loaded", 1), NotLoaded(["a.csv"], "skipped", 2)]
    job.in_history = {1}
    return job


def test_files_of_the_same_name_are_different_failures(job):
    """Failures of files with the same name are reported separately."""
    job.failed.append(NotLoaded(["a.csv"], "left for the next run", None))
    assert job.faults(NotAllLoaded("not all")) == [
        "a.csv: skipped.",
        "a.csv: left for the next run.",
    ]


def test_the_run_does_not_repeat_alerts(job):
    """If alerts read all failures from the history, the run has nothing to add."""
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
def test_an_incomplete_run_says_so(job, error, reason):
    """A run that was stopped says so: loads that it did not begin are in no history."""
    job.in_history = {1, 2}
    assert job.faults(error) == [reason]
    job.in_history = set()
    assert job.faults(error)[-1] == reason


def test_a_warning_without_a_failure_has_its_reason_in_the_log():
    """A warning, such as a kept file that cannot be removed, refers to the log."""
    assert drop_directory().faults(NotAllLoaded("not all")) == ["Its log has the reason."]
    assert drop_directory().faults(None) == []
