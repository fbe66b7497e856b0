"""The events of an account, in order, from a cursor on (D186)."""

import re
from typing import NamedTuple

from app.storage.engine import Engine, Prepared, parameter
from app.watches.tables import WatchEvent, WatchFeed

KEPT_DAYS = 90
SWEEP_MINUTE = 3
"""When the server has the watches swept in each hour, besides after loads. By then the timer that
seals the trail, where there is one, has sealed the hour before."""
_CURSOR = re.compile("(?P<feed>[0-9a-f]{8})-(?P<number>0|[1-9][0-9]{0,17})")


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
    """Events of one account, in order."""

    feed: str
    """What the ids of its events begin with."""
    events: list[Event]
    last_event: int
    """The number of the account's newest event."""


class BadCursor(Exception):
    """The text is no cursor."""


class CursorGone(Exception):
    """Events after the cursor were removed, or it is from before a restore or of another feed."""


def next_sweep_at(now: int) -> int:
    """Return when the server has the watches swept next, given a time in Unix seconds."""
    return now + 3600 - (now - 60 * SWEEP_MINUTE) % 3600


def id_of(feed: str, number: int) -> str:
    """Return the id of an event, which is the cursor after it."""
    return f"{feed}-{number}"


class Feed:
    """Reads events."""

    def __init__(self, engine: Engine) -> None:
        self._find = Prepared(
            engine,
            lambda: WatchFeed.select(WatchFeed.feed, WatchFeed.last_event).where(
                WatchFeed.account == parameter("account")
            ),
        )
        columns = [getattr(WatchEvent, name) for name in Event._fields]
        self._list = Prepared(
            engine,
            lambda: (
                WatchEvent.select(*columns)
                .where(
                    (WatchEvent.account == parameter("account"))
                    & (WatchEvent.number > parameter("after"))
                )
                .order_by(WatchEvent.number)
                .limit(parameter("limit"))
            ),
        )

    def list_events(self, account_id: int, after: str | None, limit: int) -> Page:
        """Return the events after a cursor; without one, from the oldest that is kept on.

        Raises BadCursor or CursorGone.
        """
        cursor = _CURSOR.fullmatch(after) if after is not None else None
        if after is not None and cursor is None:
            raise BadCursor
        feed, last_event = self._find.row(account=account_id) or ("", 0)
        number = 0
        if cursor is not None:
            number = int(cursor["number"])
            if cursor["feed"] != feed or number > last_event:
                raise CursorGone
        rows = self._list.rows(account=account_id, after=number, limit=limit)
        events = [Event._make(row) for row in rows]
        oldest = events[0].number if events else last_event + 1
        if cursor is not None and oldest > number + 1:
            raise CursorGone
        return Page(feed, events, last_event)
