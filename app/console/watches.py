"""The pages of watches: accounts that watch, what one watches and was told, held sweeps (D188).

SEC: lists of plates show who watches what, and answers. So they are for operators, and the audit
trail has each page and each file before it is shown.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import falcon
import peewee
from peewee import fn

from app import processes
from app.accounts.administration import require_plan
from app.accounts.models import Account
from app.actions import Actor
from app.audit.record import Criteria, Plate
from app.console.accounts import ACCOUNTS
from app.console.audit import AuditFile, AuditTaskPage, begin_task, new_version
from app.console.form_pages import Confirmation, ConfirmationText, Entity, first_row
from app.console.forms import read_fields, refresh, version_of
from app.console.listing import Listing, Permitted
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, Resource, view
from app.jobs.audit_tasks import EVENTS, WATCHES
from app.jobs.results import TrailQuestion as Asked
from app.jobs.sweeping import accept
from app.settings.enquiries import choices_of, enquiry_text_fault, reason_fault
from app.storage.engine import Engine
from app.watches.feed import Event
from app.watches.repository import COLUMNS, watch_of
from app.watches.sweep import is_accepted
from app.watches.tables import Watch, WatchEvent, WatchFeed
from app.watches.words import plates_of_events, plates_of_watches, states_of_event

PLACE = "watches"
_FILES = (PLACE, "files")
_UNRECORDED = (
    "The page cannot be recorded",
    "Plates are shown only if the audit trail has them. “verifyd check” says what is wrong.",
)
_SORTABLE = {
    "held": WatchFeed.held,
    "account": Account.name,
    "swept": WatchFeed.swept_at,
    "events": WatchFeed.last_event,
}


def _feeds() -> "peewee.ModelSelect[Any]":
    """Return a query for all accounts that watch, or did, each with how far it was swept."""
    columns = (WatchFeed.last_event, WatchFeed.swept, WatchFeed.swept_at)
    of_account = (Account.id, Account.name, Account.tag, Account.suspended_at)
    return (
        WatchFeed.select(*columns, WatchFeed.held, WatchFeed.held_at, *of_account)
        .join(Account, on=WatchFeed.account == Account.id)
        .namedtuples()
    )


def _find_feed(engine: Engine, tag: str) -> Any:
    return first_row(engine, _feeds().where(Account.tag == tag))


class WatchedAccounts(Resource):
    """The accounts that watch plates, and those whose changes are held back."""

    @view("watches/accounts.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/watches. Parameters: `sort`, `page`, `refresh`."""
        listing = Listing(req, _SORTABLE, Account.name, default="-held")
        rows = listing.rows(_feeds(), self.engine)
        accepted = {row.id for row in rows if row.held and is_accepted(row.swept)}
        return {
            "listing": listing,
            "rows": rows,
            "watches": _counts(self.engine, [row.id for row in rows]),
            "accepted": accepted,
            "refreshes": refresh(req, resp, is_running=bool(accepted)),
        }


def _counts(engine: Engine, accounts: Sequence[int]) -> Mapping[int, int]:
    """Return how many watches accounts have, by their numbers."""
    counted = Watch.select(Watch.account, fn.COUNT(Watch.id)).where(Watch.account.in_(accounts))
    return dict(counted.group_by(Watch.account).tuples().execute(engine))


class _AccountList(Resource, ABC):
    """A list of plates of an account.

    GET shows a page of it. Parameters: `reason`, `reference`, `sort`, `page`. POST begins a file of
    all.
    """

    kind: str
    """The kind of the task, and the operation of the records."""
    template: str

    @abstractmethod
    def _listing(self, req: ConsoleRequest, filters: Mapping[str, Permitted]) -> Listing:
        """Return the order and the page of the list."""

    @abstractmethod
    def _rows(self, listing: Listing, account: Account) -> tuple[Sequence[object], list[Plate]]:
        """Return the rows of the page, and what the trail has of them."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """Show a page."""
        account = ACCOUNTS.require(self.engine, tag)
        required = self.config.lookup_reasons
        reason: Permitted = choices_of(required) or _is_sound
        listing = self._listing(req, {"reason": reason, "reference": _is_sound})
        fault = reason_fault(listing.filters["reason"], required)
        rows: Sequence[object] = ()
        if fault is None:
            rows, plates = self._rows(listing, account)
            self._record(req, account, listing.filters, plates)
        values = {
            "account": account,
            "feed": _find_feed(self.engine, tag),
            "listing": listing,
            "rows": rows,
            "fault": fault,
            "choices": choices_of(required),
            "is_recorded": self.services.trail is not None,
            "version": new_version(),
        }
        self.show(req, resp, self.template, values)

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """Begin a file."""
        account, fields = ACCOUNTS.require(self.engine, tag), read_fields(req)
        reason, reference = (fields.get(name, "") for name in ("reason", "reference"))
        fault = reason_fault(reason, self.config.lookup_reasons)
        if fault or not all(map(_is_sound, filter(None, (reason, reference)))):
            text = f"Nothing was asked: {fault or 'the reason or the reference is not printable'}."
            raise PageError(422, "This file needs a reason", text, (PLACE, tag))
        asked = Asked(
            criteria=Criteria(account=account.name),
            reason=reason or None,
            reference=reference or None,
        )
        begin_task(self, req, resp, self.kind, asked, _FILES)

    def _record(
        self,
        req: ConsoleRequest,
        account: Account,
        said: Mapping[str, str],
        plates: list[Plate],
    ) -> None:
        """Record a page before it is shown, except of a sandbox (D182).

        Raises PageError if that fails.
        """
        if not plates or require_plan(self.engine, account.plan_id).is_sandbox:
            return
        # NOTE: the account has asked for nothing; the person in the console has.
        self.record(
            req,
            PageError(503, *_UNRECORDED, (PLACE,)),
            operation=self.kind,
            reason=said["reason"] or None,
            reference=said["reference"] or None,
            criteria=Criteria(account=account.name),
            plates=plates,
        )


def _is_sound(text: str) -> bool:
    return enquiry_text_fault(text) is None


class AccountWatches(_AccountList):
    """GET, POST /console/watches/{tag}. The watches, with the states reported last."""

    kind, template = WATCHES, "watches/watches.html"

    def _listing(self, req: ConsoleRequest, filters: Mapping[str, Permitted]) -> Listing:
        # PERF: an index has only this order, and there can be a million watches.
        return Listing(req, {"plate": Watch.registration}, Watch.id, filters)

    def _rows(self, listing: Listing, account: Account) -> tuple[Sequence[object], list[Plate]]:
        query = Watch.select(*COLUMNS).where(Watch.account == account.id).tuples()
        rows = [watch_of(row) for row in listing.rows(query, self.engine)]
        return rows, plates_of_watches(rows)


class AccountEvents(_AccountList):
    """GET, POST /console/watches/{tag}/events. Those of the last 90 days, the newest first."""

    kind, template = EVENTS, "watches/events.html"

    def _listing(self, req: ConsoleRequest, filters: Mapping[str, Permitted]) -> Listing:
        return Listing(req, {"time": WatchEvent.number}, WatchEvent.number, filters, "-time")

    def _rows(self, listing: Listing, account: Account) -> tuple[Sequence[object], list[Plate]]:
        columns = [getattr(WatchEvent, name) for name in Event._fields]
        query = WatchEvent.select(*columns).where(WatchEvent.account == account.id).tuples()
        events = [Event._make(row) for row in listing.rows(query, self.engine)]
        return [(each, states_of_event(each)) for each in events], plates_of_events(events)


class WatchFilePage(AuditTaskPage):
    """GET /console/watches/files/{audit_task}. The task that writes a file, and a link to it."""

    place, kinds, template = _FILES, (WATCHES, EVENTS), "watches/file.html"


class WatchFile(AuditFile):
    """GET /console/watches/files/{audit_task}/{file}. Watches or events, as a CSV file."""

    place, kinds = _FILES, (WATCHES, EVENTS)


_HELD = Entity[Any](
    "watch",
    PLACE,
    lambda tag: WatchFeed.select().where(
        WatchFeed.account.in_(Account.select(Account.id).where(Account.tag == tag))
    ),
    lambda row: version_of(row.tag, row.held, row.held_at, row.swept),
    _find_feed,
    "The account has never had one.",
)


class HeldAcceptance(Confirmation[Any]):
    """GET, POST /console/watches/{tag}/accept. What is held back is reported by a sweep (D185)."""

    entity, done, leads_to_list = _HELD, "accepted", True

    def _question(self, row: Any) -> ConfirmationText:
        if not row.held or is_accepted(row.swept):
            text = "Nothing is held back, or somebody has just accepted it."
            raise PageError(409, "There is nothing to accept", text, (PLACE,))
        if row.suspended_at is not None:
            text = "Suspended accounts are not swept. Resume it first."
            raise PageError(409, "The account is suspended", text, ("accounts", row.tag))
        return ConfirmationText(
            f"Report changes to {row.name}?",
            f"A load has changed what {row.held:,} of its watches say. If the load is right, "
            "accept this: a sweep begins now and reports them. If it is wrong, roll the "
            "register back: then nothing is reported.",
            "Accept and report",
        )

    def _change(self, row: Any, actor: Actor) -> None:
        accept(self.engine, row.name, actor)

    def _changed(self) -> None:
        with suppress(OSError):  # The sweep of the next hour does it.
            processes.start("sweep")
