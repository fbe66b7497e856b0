"""The operations on watches and their events (D183, D186)."""

from collections.abc import Iterable

import falcon

from app import clock
from app.errors import Problem
from app.serve.http.bodies import answer, read_json
from app.serve.http.context import Request, caller_of
from app.serve.http.enquiry import NO_ENQUIRY, Enquiry, enquiry_of
from app.serve.http.parameters import (
    integer_parameter,
    invalid_parameter,
    require_known_parameters,
    text_parameter,
)
from app.serve.sandbox_errors import refuse_plates
from app.vehicles.answers import invalid_registration
from app.vehicles.questions import require_allowed, require_registration
from app.vehicles.registration import canonical_registration, registration_fault
from app.watches.bodies import (
    BulkWatchBody,
    BulkWatchItem,
    BulkWatchRequest,
    EventListBody,
    WatchListBody,
    WatchRequest,
    bulk_item,
    event_body,
    watch_body,
)
from app.watches.feed import BadCursor, CursorGone, Feed, next_sweep_at
from app.watches.repository import Edit, WatchesChange
from app.watches.watching import Watching

PAGE_MAX = 1_000
"""The most watches or events of one page."""
_PAGE = 100
_NOT_FOUND = "The account has no such watch"
_REPEATED = "The request has this registration number more than once"
_GONE = (
    "The events after this one are no longer kept, or the feed has begun again since. To start "
    "over, list the watches, which have their states; then read events without the parameter after."
)


class WatchItem:
    """One watch of the caller's account, by plate."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._watches = watching.watches

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/watches/{registration}. The watch, with the state that was told last."""
        require_known_parameters(req)
        plate = require_registration(registration)
        _refuse(req, "get_watch", [plate])
        watch = self._watches.find_watches(caller_of(req).account_id, [plate]).get(plate)
        if watch is None:
            raise Problem("watch_not_found", f"{_NOT_FOUND}.")
        self._watching.record_shown(req, "get_watch", [watch])
        answer(resp, watch_body(watch))

    on_head = on_get

    def on_put(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """PUT /v1/watches/{registration}. 201 with a new watch, 200 with one that was replaced."""
        require_known_parameters(req, members=WatchRequest.__struct_encode_fields__)
        sent, plate = read_json(req, WatchRequest), require_registration(registration)
        fault = sent.fault(self._watching.today(), needs_end=_needs_reason(req))
        if fault is not None:
            member, text = fault
            raise Problem.at(f"/{member}", "invalid_body", f"The member {member} {text}.")
        enquiry = _enquiry(req)
        _refuse(req, "put_watch", [plate])
        edit = Edit([sent.terms(plate, enquiry.reason)])
        changed = self._watching.change(req, "put_watch", enquiry, edit)
        if plate not in changed.watches:
            raise Problem("watch_quota_reached", f"{_quota_reached(req)}.")
        if changed.created:
            resp.status = falcon.HTTP_201
            resp.location = f"/v1/watches/{plate}"
        answer(resp, watch_body(changed.watches[plate]))

    def on_delete(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """DELETE /v1/watches/{registration}. 204; its events stay."""
        require_known_parameters(req)
        plate = require_registration(registration)
        _refuse(req, "delete_watch", [plate])
        if not self._watches.remove_watches(caller_of(req).account_id, [plate]):
            raise Problem("watch_not_found", f"{_NOT_FOUND}.")
        resp.status = falcon.HTTP_204


class WatchCollection:
    """The watches of the caller's account."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._watches = watching.watches

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /v1/watches. A page of them by plate, with the states that were told last."""
        require_known_parameters(req, "limit", "after")
        text = text_parameter(req, "after")
        after = "" if text is None else canonical_registration(text)
        if after is None:
            fault = f"must be a registration number: {registration_fault(text or '')}"
            raise invalid_parameter("after", fault)
        limit = integer_parameter(req, "limit", 1, PAGE_MAX) or _PAGE
        # One more than the page holds shows whether there is a next page.
        watches = self._watches.list_watches(caller_of(req).account_id, after, limit + 1)
        self._watching.record_shown(req, "list_watches", watches[:limit])
        page = list(map(watch_body, watches[:limit]))
        answer(resp, WatchListBody(page, page[-1].registration if len(watches) > limit else None))

    on_head = on_get


class BulkWatches:
    """Many watches of the caller's account. All methods but POST are about the plate BULK (D92)."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._item = WatchItem(watching)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /v1/watches/bulk. The watch of the plate BULK."""
        self._item.on_get(req, resp, "bulk")

    on_head = on_get

    def on_put(self, req: Request, resp: falcon.Response) -> None:
        """PUT /v1/watches/bulk. Watches the plate BULK."""
        self._item.on_put(req, resp, "bulk")

    def on_delete(self, req: Request, resp: falcon.Response) -> None:
        """DELETE /v1/watches/bulk. Ends the watch of the plate BULK."""
        self._item.on_delete(req, resp, "bulk")

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """POST /v1/watches/bulk. One item for each plate, in the order sent."""
        sent = _read_bulk(req)
        enquiry = _enquiry(req) if sent.add else NO_ENQUIRY
        added = [each.registration for each in sent.add]
        _refuse(req, "bulk_watch", map(canonical_registration, added), "/add/{}/registration")
        _refuse(req, "bulk_watch", map(canonical_registration, sent.remove), "/remove/{}")
        today, needs_end = self._watching.today(), _needs_reason(req)
        plates = _Plates()
        wanted = [
            each.terms(plate, enquiry.reason)
            for each in sent.add
            if (plate := plates.take(each.registration, each.fault(today, needs_end=needs_end)))
        ]
        unwanted = [plate for each in sent.remove if (plate := plates.take(each))]
        changed = self._watching.change(req, "bulk_watch", enquiry, Edit(wanted, unwanted))
        answer(resp, _bulk_body(plates.items, len(sent.add), changed, _quota_reached(req)))


class _Plates:
    """The plates of a bulk request, in their order."""

    def __init__(self) -> None:
        self.items: list[BulkWatchItem] = []
        """One for each plate; without a status if nothing is wrong with it."""
        self._seen: set[str] = set()

    def take(self, text: str, fault: tuple[str, str] | None = None) -> str | None:
        """Return the canonical form of a plate; None if nothing is to be done with it.

        Args:
            fault: a member beside the plate that is wrong, and the end of a sentence.
        """
        plate = canonical_registration(text)
        item = BulkWatchItem(plate or text, "")
        self.items.append(item)
        if plate is None:
            _fail(item, invalid_registration(text), "invalid_registration")
        elif plate in self._seen:
            _fail(item, _REPEATED, "invalid_body")
        elif fault is not None:
            _fail(item, f"The member {' '.join(fault)}", "invalid_body")
        self._seen.add(item.registration)
        return None if item.status else plate


def _fail(item: BulkWatchItem, error: str, code: str) -> None:
    item.status, item.error, item.code = "failed", error, code


def _bulk_body(
    items: list[BulkWatchItem], added: int, changed: WatchesChange, quota: str
) -> BulkWatchBody:
    """Return the answer of a bulk request.

    Args:
        items: those of `_Plates`.
        added: how many of them are to be added.
        quota: what is said of a watch that the plan does not allow.
    """
    for place, item in enumerate(items):
        plate = item.registration
        if item.status:
            continue
        if place >= added:
            if plate in changed.removed:
                item.status = "removed"
            else:
                _fail(item, _NOT_FOUND, "watch_not_found")
        elif plate in changed.watches:
            status = "created" if plate in changed.created else "replaced"
            items[place] = bulk_item(changed.watches[plate], status)
        else:
            _fail(item, quota, "watch_quota_reached")
    failed = sum(item.status == "failed" for item in items)
    return BulkWatchBody(items, len(items), len(items) - failed, failed)


class EventList:
    """The events of the caller's account."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /v1/events. Those after a cursor, the oldest first; they are kept for 90 days."""
        require_known_parameters(req, "after", "limit")
        after = text_parameter(req, "after")
        limit = integer_parameter(req, "limit", 1, PAGE_MAX) or _PAGE
        try:
            page = self._feed.list_events(caller_of(req).account_id, after, limit)
        except BadCursor:
            raise invalid_parameter("after", "must be the `next` of an earlier answer") from None
        except CursorGone:
            raise Problem("events_gone", _GONE) from None
        bodies = [event_body(page.feed, each) for each in page.events]
        sweep = clock.iso_utc(next_sweep_at(clock.now()))
        answer(resp, EventListBody(bodies, page.next, page.has_more, sweep))

    on_head = on_get


def _read_bulk(req: Request) -> BulkWatchRequest:
    """Return the body of a bulk request.

    Raises Problem: unknown_parameter, those of read_json, invalid_body or too_many_registrations.
    """
    require_known_parameters(req, members=BulkWatchRequest.__struct_fields__)
    sent = read_json(req, BulkWatchRequest)
    count = len(sent.add) + len(sent.remove)
    if not count:
        detail = "The members add and remove must have at least one registration number together."
        raise Problem.at("", "invalid_body", detail)
    require_allowed(req, count, "/add" if sent.add else "/remove")
    return sent


def _enquiry(req: Request) -> Enquiry:
    """Return what the request says about new watches. Raises Problem as `enquiry_of` does."""
    return NO_ENQUIRY if caller_of(req).enquiry == "off" else enquiry_of(req)


def _needs_reason(req: Request) -> bool:
    return caller_of(req).enquiry == "required"


def _quota_reached(req: Request) -> str:
    watches_max = caller_of(req).watches_max
    watches = "the only watch" if watches_max == 1 else f"all {watches_max:,} watches"
    return f"The account has {watches} that its plan allows"


def _refuse(req: Request, operation: str, plates: Iterable[str | None], pointer: str = "") -> None:
    """Raise the Problem that a plate provokes in a sandbox."""
    if caller_of(req).is_sandbox:
        refuse_plates(operation, plates, pointer)
