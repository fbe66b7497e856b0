"""When the master of a server starts the hourly jobs (D127, D185)."""

import signal
import sys

import pytest

from app import clock
from app.jobs import hourly
from app.watches.feed import next_sweep_at
from tests.rows import each_row


@each_row(
    ("now", "wanted"),
    [
        pytest.param(0, 180, id="on the hour"),
        pytest.param(179, 1, id="just before"),
        pytest.param(180, 3600, id="at the time"),
        pytest.param(181, 3599, id="just after"),
        pytest.param(3600 * 500_000 + 1800, 1980, id="half past"),
    ],
)
def test_it_runs_three_minutes_past_each_hour(now, wanted):
    """The next run is at least a second away, and at most an hour."""
    assert next_sweep_at(now) - now == wanted


@pytest.fixture
def alarm():
    """The alarm of this process, which is put back afterwards."""
    former = signal.getsignal(signal.SIGALRM)
    yield lambda: signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


@each_row(
    ("seals", "wanted"),
    [
        pytest.param(True, ["audit seal", "sweep"], id="with a trail"),
        pytest.param(False, ["sweep"], id="without one"),
    ],
)
def test_they_first_run_after_a_minute_and_then_every_hour(alarm, monkeypatch, seals, wanted):
    """Each alarm sets the next one, before anything can fail; watches need no audit trail."""
    runs = []
    monkeypatch.setattr(hourly, "_start", lambda *words: runs.append((" ".join(words), alarm())))
    monkeypatch.setattr(clock, "now", lambda: 3600 * 500_000 + 1800)
    hourly.start(seals=seals)
    assert 59 < alarm() <= 60
    signal.raise_signal(signal.SIGALRM)
    assert [words for words, _ in runs] == wanted
    assert all(1979 < remaining <= 1980 for _, remaining in runs)


def test_a_command_that_cannot_be_started_is_logged(monkeypatch, caplog):
    """The server goes on without it."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    hourly._start("sweep")
    assert '"verifyd sweep" cannot be started' in caplog.text
