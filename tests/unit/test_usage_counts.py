"""Counts of answers in memory, which one thread makes and another one writes (D128)."""

import sys
import threading
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from app import clock
from app.accounts.authentication import Caller
from app.accounts.usage import counts as module
from app.accounts.usage.counts import COUNTS_MAX, OTHER, QUARTER_SECONDS, Counts
from app.routes import OPERATIONS
from app.serve.http.metrics import Metrics

_PLAN = ("standard", 600, 60, 1_000, 1_000, 0, "off", "", "off")
ALICE = Caller(1, "alice", "aaaaaaaa", *_PLAN, only="", networks="", registers="")
BOB = ALICE._replace(account_id=2, account="bob", key_id="bbbbbbbb")
INSURANCE = "/v1/vehicle/{registration}/insurance"
NOON = 1_900_022_400
QUARTER = NOON - NOON % QUARTER_SECONDS


@pytest.fixture
def now(monkeypatch):
    """`now(seconds)` sets the clock to so many seconds after the beginning of a quarter."""

    def move(seconds):
        monkeypatch.setattr(clock, "now", lambda: QUARTER + seconds)

    move(0)
    return move


@pytest.fixture
def counts(now):
    return Counts(OPERATIONS)


def told(pending):
    """Return account, operation, class, answers and vehicles of each change."""
    return [
        (each.counted.caller.account, each.counted.operation, each.counted.status, *each[2:])
        for each in pending.changes
    ]


def test_answers_add_up_by_key_operation_and_class(counts):
    """Answers of the same kind are one count, with their vehicles."""
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    counts.add(ALICE, "/v1/compliance/bulk", "POST", 200, 500)
    counts.add(BOB, INSURANCE, "GET", 404, 1)
    assert told(counts.pending()) == [
        ("alice", "insurance", "2xx", 2, 2),
        ("alice", "bulk_compliance", "2xx", 1, 500),
        ("bob", "insurance", "4xx", 1, 1),
    ]


def test_answers_are_counted_if_the_metrics_fail(counts):
    """Accounts are charged by their usage, so an error of the metrics must not lose it."""

    class Failing:
        is_kept = True

        def count(self, *_args):
            raise ValueError("a damaged file")

    context = SimpleNamespace(caller=ALICE, vehicles=1)
    parts: list[Any] = [Failing(), counts, None]
    answers: list[Any] = [(context, "GET", "/v1/x", INSURANCE, 200)]
    with pytest.raises(ValueError, match="damaged"):
        Metrics(*parts).note(answers, 0)
    assert told(counts.pending()) == [("alice", "insurance", "2xx", 1, 1)]


def test_the_first_answer_after_a_pause_counts_for_its_own_time(counts, now):
    """An answer belongs to its quarter of an hour, also if none was given in the one before."""
    context = SimpleNamespace(caller=ALICE, vehicles=1)
    parts: list[Any] = [SimpleNamespace(count=lambda *_: None), counts, None]
    answers: list[Any] = [(context, "GET", "/v1/x", INSURANCE, 200)]
    metrics = Metrics(*parts)
    for seconds in (0, 10 * QUARTER_SECONDS):
        now(seconds)
        metrics.note(answers, (1_000 + seconds) * 10**9)
    assert [(each.began_at, each.answers) for each in counts.pending().changes] == [
        (QUARTER, 1),
        (QUARTER + 10 * QUARTER_SECONDS, 1),
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((200, "2xx"), (201, "2xx"), (204, "2xx"), (304, "2xx")),
        *((400, "4xx"), (404, "4xx"), (428, "4xx"), (430, "4xx"), (499, "4xx")),
        *((429, "429"), (500, "5xx"), (503, "5xx")),
    ],
)
def test_each_status_has_a_class(counts, status, expected):
    """429 is a class of its own; the others are those of HTTP."""
    counts.add(ALICE, INSURANCE, "GET", status, 0)
    assert [each.counted.status for each in counts.pending().changes] == [expected]


def test_head_counts_as_get(counts):
    """HEAD is the same operation as GET, and not one where there is no GET."""
    counts.add(ALICE, INSURANCE, "HEAD", 200, 1)
    counts.add(ALICE, "/v1/vehicle/bulk-insurance", "HEAD", 405, 0)
    assert [each[1] for each in told(counts.pending())] == ["insurance", OTHER]


def test_made_up_methods_take_no_memory(counts):
    """However many methods and paths a client makes up, they are one count per class."""
    for number in range(1_000):
        counts.add(ALICE, INSURANCE, f"METHOD{number}", 405, 0)
        counts.add(ALICE, "", "GET", 404, 0)
    assert told(counts.pending()) == [("alice", OTHER, "4xx", 1_000, 0)] * 2


def test_what_is_written_is_not_written_again(counts):
    """Only what was added since the last successful write is pending."""
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    first = counts.pending()
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    assert told(counts.pending()) == [("alice", "insurance", "2xx", 2, 2)]
    counts.note_written(first)
    assert told(counts.pending()) == [("alice", "insurance", "2xx", 1, 1)]
    counts.note_written(counts.pending())
    assert counts.pending().changes == []


def test_a_quarter_of_an_hour_is_kept_until_it_is_written(counts, now):
    """Answers belong to the quarter in which they were given, also if they are written later."""
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    now(QUARTER_SECONDS - 1)
    counts.look_at_clock()
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    now(QUARTER_SECONDS)
    counts.look_at_clock()
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    pending = counts.pending()
    assert [(each.began_at, each.answers) for each in pending.changes] == [
        (QUARTER, 2),
        (QUARTER + QUARTER_SECONDS, 1),
    ]
    counts.note_written(pending)
    assert counts.pending() == ([], 0)


def test_a_quarter_that_ends_during_a_write_is_written_later(counts, now):
    """What is counted between reading and noting is pending once, and not lost."""
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    pending = counts.pending()
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    now(QUARTER_SECONDS)
    counts.look_at_clock()
    counts.note_written(pending)
    assert [(each.began_at, each.answers) for each in counts.pending().changes] == [(QUARTER, 1)]


def test_there_is_a_limit(counts, now, monkeypatch):
    """Beyond the limit known counts go on, and answers of further kinds are counted as lost."""
    monkeypatch.setattr(module, "COUNTS_MAX", 2)
    now(QUARTER_SECONDS)
    counts.add(ALICE, INSURANCE, "GET", 200, 1)
    counts.look_at_clock()
    for caller in (ALICE, BOB, ALICE):
        counts.add(caller, INSURANCE, "GET", 200, 1)
    assert counts.lost == 1
    assert sum(each.answers for each in counts.pending().changes) == 3
    counts.note_written(counts.pending())
    now(2 * QUARTER_SECONDS)
    counts.look_at_clock()
    counts.add(BOB, INSURANCE, "GET", 200, 1)
    assert counts.lost == 1


def test_the_limit_keeps_memory_small(counts):
    """As many counts as there can be take at most 10 MB."""
    tracemalloc.start()
    try:
        for number in range(COUNTS_MAX + 1):
            caller = ALICE._replace(key_id=f"{number:08}")
            for _ in range(2):
                counts.add(caller, INSURANCE, "GET", 200, 1_000)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counts.lost == 2
    assert size <= 10_000_000


def test_nothing_is_lost_between_two_threads(now):
    """Every answer is written exactly once, however the threads interrupt each other."""
    counts, written, is_over = Counts(OPERATIONS), [0, 0], threading.Event()

    def write():
        while True:
            is_last = is_over.is_set()
            pending = counts.pending()
            written[0] += sum(each.answers for each in pending.changes)
            written[1] += sum(each.vehicles for each in pending.changes)
            counts.note_written(pending)
            if is_last:
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer = threading.Thread(target=write)
        writer.start()
        for number in range(50_000):
            if number % 100 == 0:
                now(number * QUARTER_SECONDS)
                counts.look_at_clock()
            counts.add(ALICE if number % 3 else BOB, INSURANCE, "GET", 200, 2)
        is_over.set()
        writer.join()
    finally:
        sys.setswitchinterval(interval)
    assert written == [50_000, 100_000]
