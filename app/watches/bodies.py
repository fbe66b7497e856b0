"""The JSON that the operations on watches take and give (D183, D186)."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from app import clock
from app.serve.http.bodies import RequestBody
from app.settings.enquiries import enquiry_text_fault
from app.watches.feed import Event, id_of
from app.watches.repository import StoredWatch, Terms
from app.watches.terms import lead_days_fault, until_fault
from app.watches.told import CheckBody, answer_of


class WatchRequest(RequestBody, rename="camel"):
    """What a client sends to watch a vehicle."""

    # JSON Schema has one type for 28 and 28.0, and some languages write the latter.
    lead_days: list[int | float] = msgspec.field(default_factory=list)
    reference: str | None = None
    until: str | None = None

    def fault(self, today: str, *, needs_end: bool) -> tuple[str, str] | None:
        """Return the first member that is wrong, and the end of a sentence about it.

        Args:
            today: ISO date.
            needs_end: whether the account's plan needs a reason for each watch.
        """
        reference = self.reference
        faults = (
            ("leadDays", lead_days_fault(self.lead_days)),
            ("reference", None if reference is None else enquiry_text_fault(reference)),
            ("until", until_fault(self.until, today, needs_end=needs_end)),
        )
        return next(((name, fault) for name, fault in faults if fault is not None), None)

    def terms(self, plate: str, reason: str | None) -> Terms:
        """Return what the client wants of the watch of a plate."""
        lead_days = tuple(sorted(map(int, self.lead_days), reverse=True))
        return Terms(plate, lead_days, self.reference, reason, self.until)


class AddedWatch(WatchRequest, kw_only=True):
    """One of many vehicles to watch."""

    registration: str


class BulkWatchRequest(RequestBody):
    """What a client sends to add and remove many watches."""

    add: list[AddedWatch] = msgspec.field(default_factory=list)
    remove: list[str] = msgspec.field(default_factory=list)


class WatchBody(msgspec.Struct, rename="camel", gc=False):
    """A watch, with what the account was told last."""

    registration: str
    lead_days: Sequence[int]
    reference: str | None
    until: str | None
    created: str
    """`YYYY-MM-DDTHH:MM:SSZ`."""
    as_of: str
    known: bool
    checks: Mapping[str, CheckBody] | CheckBody | None


class WatchListBody(msgspec.Struct):
    """A page of the watches of the caller's account, by plate."""

    watches: list[WatchBody]
    next: str | None
    """The `after` of the next page; None on the last page."""


class BulkWatchItem(msgspec.Struct, rename="camel", gc=False):
    """What a bulk request did with a plate: with its watch, or with why it failed."""

    registration: str
    status: str
    """`created`, `replaced`, `removed` or `failed`."""
    lead_days: Sequence[int] | UnsetType = UNSET
    reference: str | UnsetType | None = UNSET
    until: str | UnsetType | None = UNSET
    created: str | UnsetType = UNSET
    as_of: str | UnsetType = UNSET
    known: bool | UnsetType = UNSET
    checks: Mapping[str, CheckBody] | CheckBody | UnsetType | None = UNSET
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class BulkWatchBody(msgspec.Struct):
    """One item for each plate, in the order sent: first those to add."""

    results: list[BulkWatchItem]
    processed: int
    successful: int
    failed: int


class EventBody(msgspec.Struct, gc=False):
    """A change of a watched vehicle, as an account reads it."""

    id: str
    type: str
    time: str
    registration: str
    reference: str | None
    before: msgspec.Raw
    after: msgspec.Raw


class EventListBody(msgspec.Struct, rename="camel"):
    """A page of the events of the caller's account, the oldest first."""

    events: list[EventBody]
    next: str | None
    """What to send as `after` next; None if the account never had a watch."""
    has_more: bool
    next_sweep: str


def watch_body(watch: StoredWatch) -> WatchBody:
    """Return a watch as answers have it."""
    plate, lead_days, reference, _, until = watch.terms
    created, known = clock.iso_utc(watch.created_at), watch.told is not None
    state = answer_of(watch.told)
    return WatchBody(plate, lead_days, reference, until, created, watch.as_of, known, state)


def bulk_item(watch: StoredWatch, status: str) -> BulkWatchItem:
    """Return a watch as answers to bulk requests have it."""
    members = msgspec.structs.asdict(watch_body(watch))
    return BulkWatchItem(status=status, **members)


def event_body(feed: str, event: Event) -> EventBody:
    """Return an event as answers have it.

    Args:
        feed: what the ids of the account's events begin with.
    """
    _, at, kind, plate, reference, before, after = event
    states = (msgspec.Raw(before.encode()), msgspec.Raw(after.encode()))
    return EventBody(id_of(feed, event), kind, clock.iso_utc(at), plate, reference, *states)
