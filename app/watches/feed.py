"""The events of an account, in order, from a cursor on (D186)."""

import hashlib
import re
from typing import NamedTuple

import msgspec
from peewee import fn

from app.storage.engine import Engine, Prepared, parameter
from app.watches.tables import WatchEvent, WatchFeed

KEPT_DAYS = 90
SWEEP_MINUTE = 3
"""When the server has the watches swept in each hour, besides after loads. By then the timer that
seals the trail, where there is one, has sealed the hour before."""
_DIGESTS = range(1_000_000, 10_000_000)
_CURSOR = re.compile(
    "(?P<feed>[0-9a-f]{8})-"
    # Of an event: its digest, and its number in eleven digits. 1.0.0 takes both for a number that
    # is too high, and answers 410.
    "(?:(?P<digest>[1-9][0-9]{6})(?P<event>[0-9]{11})"
    # Before the first event, or made by 1.0.0: a number alone.
    "|(?P<number>0|[1-9][0-9]{0,16}))"
)


class Event(NamedTuple):
    """One event, as the database has it."""

    number: int
    at: int
    """Unix seconds."""
    type: str
    registration: str
    reference: str | None
    before: str
    """JSON of a check, of all checks, or null."""
    after: str


class Page(NamedTuple):
    """Events of one account, in order and without a gap."""

    feed: str
    """What the ids of its events begin with."""
    events: list[Event]
    next: str | None
    """The cursor after the page; None if the account never had a watch."""
    has_more: bool
    """Whether there are events after the page."""


class BadCursor(Exception):
    """The text is no cursor."""


class CursorGone(Exception):
    """Events after the cursor are missing, or it is not from this feed or not from this history."""


def next_sweep_at(now: int) -> int:
    """Return when the server has the watches swept next, given a time in Unix seconds."""
    return now + 3600 - (now - 60 * SWEEP_MINUTE) % 3600


def id_of(feed: str, event: Event) -> str:
    """Return the id of an event, which is the cursor after it.

    Args:
        feed: what the ids of the account's events begin with.
    """
    return f"{feed}-{_digest(event)}{event.number:011}"


def _digest(event: Event) -> str:
    """Return seven digits, which differ if another event has its number.

    That happens in a database that was turned back. Cursors of clients hold digests, so a release
    that changed them would end all feeds.
    """
    digest = hashlib.sha256(msgspec.json.encode(event)).digest()
    return str(_DIGESTS[int.from_bytes(digest[:8]) % len(_DIGESTS)])


class Feed:
    """Reads events."""

    def __init__(self, engine: Engine) -> None:
        self._find = Prepared(
            engine,
            lambda: WatchFeed.select(WatchFeed.feed, WatchFeed.last_event).where(
                WatchFeed.account == parameter("account")
            ),
        )
        of_account = WatchEvent.account == parameter("account")
        number = WatchEvent.number
        columns = [getattr(WatchEvent, name) for name in Event._fields]
        self._list = Prepared(
            engine,
            lambda: (
                WatchEvent.select(*columns)
                .where(of_account & (number >= parameter("first")))
                .order_by(number)
                .limit(parameter("limit"))
            ),
        )
        self._span = Prepared(
            engine,
            lambda: WatchEvent.select(fn.MIN(number), fn.MAX(number), fn.COUNT(number)).where(
                of_account
            ),
        )
        former = WatchEvent.alias()
        precedes = (former.account == WatchEvent.account) & (former.number == number - 1)
        self._newest_run = Prepared(
            engine,
            lambda: (
                WatchEvent.select(number)
                .where(of_account & ~fn.EXISTS(former.select(former.number).where(precedes)))
                .order_by(number.desc())
                .limit(1)
            ),
        )

    def find_feed(self, account_id: int) -> str:
        """Return what the ids of the account's events begin with; empty if it never had a watch."""
        feed, _ = self._find.row(account=account_id) or ("", 0)
        return str(feed)

    def list_kept(self, account_id: int, first: int, limit: int) -> list[Event]:
        """Return the events with this number or a higher one, whatever is missing between them."""
        rows = self._list.rows(account=account_id, first=first, limit=limit)
        return list(map(Event._make, rows))

    def list_events(self, account_id: int, after: str | None, limit: int) -> Page:
        """Return the events after a cursor.

        Without one, begin with the oldest event that all later ones have followed.

        Raises BadCursor or CursorGone.
        """
        cursor = _CURSOR.fullmatch(after) if after is not None else None
        if after is not None and cursor is None:
            raise BadCursor
        feed, last_event = self._find.row(account=account_id) or ("", 0)
        if cursor is None:
            number = self._before_newest_run(account_id, last_event)
        else:
            number = int(cursor["event"] or cursor["number"])
            if cursor["feed"] != feed or number > last_event:
                raise CursorGone
        events = self.list_kept(account_id, number, limit + 1)
        own = events.pop(0) if events and events[0].number == number else None
        # An event that was removed by its age has no digest any more.
        if cursor and own and cursor["digest"] not in (None, _digest(own)):
            raise CursorGone
        # A sweep may have added events since `last_event` was read.
        expected = range(number + 1, min(number + limit, last_event) + 1)
        del events[len(expected) :]
        if [each.number for each in events] != list(expected):
            raise CursorGone
        newest = events[-1] if events else own
        here = after or (f"{feed}-{number}" if feed else None)
        following = id_of(feed, newest) if newest else here
        return Page(feed, events, following, number + len(events) < last_event)

    def _before_newest_run(self, account_id: int, last_event: int) -> int:
        """Return the number after which no event is missing.

        PERF: to count a million events takes SQLite 0.3 s; to search them for a gap, 2.5 s.
        """
        oldest, newest, kept = self._span.row(account=account_id) or (None, None, 0)
        if newest is None or newest < last_event:
            return last_event
        if kept <= newest - oldest:
            ((oldest,),) = self._newest_run.rows(account=account_id)
        return int(oldest) - 1
