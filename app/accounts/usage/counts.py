"""Counts answers in memory, until they are written.

One thread counts and another one writes, without a lock. Each number has only one thread that
changes it: counts only grow, and the writer notes how much of each count was written.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app import clock
from app.accounts.authentication import Caller

OTHER = "other"
"""The operation of OPTIONS, and of a request whose path or method does not exist."""
CONSOLE = "console"
"""The name under which usage counts look-ups of people in the console, and their operation. No
account gets this name."""
PEOPLE = Caller(
    account_id=0,  # The number of no account.
    account=CONSOLE,
    key_id="",
    plan="",
    requests=0,
    window_seconds=0,
    bulk_max=0,
    domains_max=0,
    watches_max=0,
    enquiry="off",
    enquiry_reasons="",
    suggest="off",
    only="",
    networks="",
    registers="",
)
"""Stands for the people in the console. It has no plan."""
QUARTER_SECONDS = 900
"""Hours and days begin with a quarter of an hour, in every time zone."""
COUNTS_MAX = 20_000
"""How many different counts a process keeps while they cannot be written. They take 10 MB."""

_Place = tuple[str, str, str, int]
"""Key id, path template, method, status."""


@dataclass(slots=True, eq=False)
class Count:
    """The answers of one kind to one key in one quarter of an hour."""

    caller: Caller
    operation: str
    status: str
    """The class of the answers, such as `4xx`."""
    answers: int = 0
    vehicles: int = 0
    written_answers: int = 0
    written_vehicles: int = 0


class CountIncrease(NamedTuple):
    """The answers and vehicles of a count since it was last written."""

    began_at: int
    """When the quarter of an hour began, in Unix seconds."""
    counted: Count
    answers: int
    vehicles: int


class Quarter(NamedTuple):
    """The counts of a quarter of an hour."""

    began_at: int
    counts: dict[_Place, Count]


class Pending(NamedTuple):
    """The counts to write."""

    changes: list[CountIncrease]
    ended: int
    """How many quarters have ended, and are complete with these changes."""


class Counts:
    """The counts of one process.

    Args:
        operations: the name of each operation, by path template and method, without HEAD.
    """

    def __init__(self, operations: Mapping[tuple[str, str], str]) -> None:
        gets = [(path, name) for (path, method), name in operations.items() if method == "GET"]
        self._operations = {**operations, **{(path, "HEAD"): name for path, name in gets}}
        self._ended: deque[Quarter] = deque()
        self._current = Quarter(_quarter_began_at(), {})
        self._counts = self._current.counts
        self._room = COUNTS_MAX
        self.lost = 0
        """How many answers found no room."""
        self.has_begun = threading.Event()
        """Set by the first answer."""

    def add(self, caller: Caller, template: str, method: str, status: int, vehicles: int) -> None:
        """Count an answer.

        PERF: this takes 0.1 us alone, and 0.9 us within a look-up. With a lock, and the time of
        each answer, it would take 1.9 us.

        Args:
            template: of the path; empty if there is nothing at it.
        """
        place = (caller.key_id, template, method, status)
        count = self._counts.get(place) or self._new(place, caller)
        if count is None:
            self.lost += 1
        else:
            count.answers += 1
            count.vehicles += vehicles

    def look_at_clock(self) -> None:
        """Begin a quarter of an hour if it is time. The thread that counts calls this."""
        began_at, ended = _quarter_began_at(), self._current
        if began_at == ended.began_at:
            return
        self._current = Quarter(began_at, {})
        self._counts = self._current.counts
        self.has_begun.set()  # The other thread removes quarters that have ended.
        # NOTE: in this order, so that the other thread never finds a quarter twice.
        self._ended.append(ended)
        self._room = COUNTS_MAX - sum(len(each.counts) for each in list(self._ended))

    def pending(self) -> Pending:
        """Return the counts that were not written yet."""
        ended = list(self._ended)
        quarters = [*ended, self._current]
        return Pending([each for some in quarters for each in _changes(some)], len(ended))

    def note_written(self, pending: Pending) -> None:
        """Note that these changes were written, or must not be written again."""
        for each in pending.changes:
            each.counted.written_answers += each.answers
            each.counted.written_vehicles += each.vehicles
        for _ in range(pending.ended):
            self._ended.popleft()

    def _new(self, place: _Place, caller: Caller) -> Count | None:
        """Return a count that does not exist yet; None if there is no room for it."""
        key_id, template, method, status = place
        operation = self._operations.get((template, method))
        if operation is None:
            # SEC: a client can make up any number of methods.
            place, operation = (key_id, "", "", status), OTHER
            if place in self._counts:
                return self._counts[place]
        if self._room <= 0:
            return None
        self._room -= 1
        count = self._counts[place] = Count(caller, operation, class_of(status))
        self.has_begun.set()
        return count


def _changes(quarter: Quarter) -> Iterator[CountIncrease]:
    """Yield the counts of a quarter that were not written yet."""
    for count in list(quarter.counts.values()):
        answers = count.answers - count.written_answers
        vehicles = count.vehicles - count.written_vehicles
        if answers or vehicles:
            yield CountIncrease(quarter.began_at, count, answers, vehicles)


def _quarter_began_at() -> int:
    now = clock.now()
    return now - now % QUARTER_SECONDS


def class_of(status: int) -> str:
    """Return the class that an answer of this status is counted in."""
    if status == 429:
        return "429"
    return "5xx" if status >= 500 else "4xx" if status >= 400 else "2xx"
