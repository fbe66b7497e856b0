"""The pages of plans: list and detail (D12, D136)."""

from collections.abc import Mapping
from typing import cast

import falcon
import peewee

from app.accounts import administration, lifecycle
from app.accounts.administration import DEFAULT_PLAN, PLAN_LIMITS, PLAN_NAME_CHARACTERS_MAX
from app.accounts.models import (
    ENQUIRIES,
    ENQUIRY_CHARACTERS_MAX,
    REASONS_MAX,
    Account,
    Enquiry,
    EnquiryChange,
    Plan,
)
from app.actions import changing
from app.console.accounts import sentence
from app.console.forms import Field, Form, require_version, version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, PageError, Services, actor_of, redirect
from app.errors import OperatorError
from app.storage.engine import Engine

PLACE = "plans"


class PlanList:
    """All plans."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/plans. Parameters: `sort`, `page`."""
        accounts = Account.select(peewee.fn.COUNT(Account.id)).where(Account.plan == Plan.name)
        sortable = {
            "requests": Plan.requests,
            "name": Plan.name,
            "vehicles": Plan.bulk_max,
            "domains": Plan.domains_max,
        }
        listing = Listing(req, sortable, Plan.name)
        plans = listing.rows(Plan.select(Plan, accounts.alias("accounts")), self._services.engine)
        self._services.pages.send(
            req,
            resp,
            "plans/list.html",
            listing=listing,
            plans=[(plan, segment_of(plan.name)) for plan in plans],
            default=DEFAULT_PLAN,
            done=req.get_param("done"),
        )

    on_head = on_get


class PlanPage:
    """One plan, with its accounts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> None:
        """GET /console/plans/{plan}. Parameters: `sort`, `page`, for the accounts."""
        engine = self._services.engine
        found = require_plan(engine, plan)
        sortable = {
            "name": Account.name,
            "status": Account.suspended_at,
            "created": Account.created_at,
        }
        listing = Listing(req, sortable, Account.id)
        accounts = listing.rows(Account.select().where(Account.plan == found.name), engine)
        self._services.pages.send(
            req,
            resp,
            "plans/detail.html",
            plan=found,
            segment=plan,
            listing=listing,
            accounts=accounts,
            is_default=found.name == DEFAULT_PLAN,
            done=req.get_param("done"),
        )

    on_head = on_get


def segment_of(name: str) -> str:
    """Return a plan's name as a segment of a path; it can have any characters, a slash, too.

    Names of letters, digits and `-` stay as they are, unless a page has that path.
    """
    is_plain = name.isascii() and name.replace("-", "").isalnum() and name != "new"
    return name if is_plain else f"~{name.encode().hex()}"


def _name(segment: str) -> str | None:
    """Return the plan's name that a segment stands for; None if it stands for none."""
    if not segment.startswith("~"):
        return segment
    try:
        name = bytes.fromhex(segment[1:]).decode()
    except ValueError:  # UnicodeError is one, too.
        return None
    return name if name.isprintable() else None


def require_plan(engine: Engine, segment: str) -> Plan:
    """Return the plan of a path. Raises PageError if there is none."""
    name = _name(segment)
    plan: Plan | None = None
    if name is not None:
        plan = Plan.select().where(Plan.name == name).first(engine)
    if plan is None:
        text = "It was deleted, or never was."
        raise PageError(404, "There is no such plan", text, back=(PLACE,))
    return plan


def locked_plan(engine: Engine, segment: str) -> Plan:
    """Return the plan of a path, locked until the end of the transaction."""
    engine.lock_rows(Plan.select().where(Plan.name == _name(segment)))
    return require_plan(engine, segment)


def count_accounts(engine: Engine, plan: Plan) -> int:
    """Return how many accounts are on a plan."""
    return int(Account.select().where(Account.plan == plan.name).count(engine))


# What the console changes about plans: create, change and delete (D12, D81, D124, D136).

_LABELS: Mapping[str, tuple[str, str]] = {
    "requests": ("Requests", "How many requests an account may send in one window."),
    "window_seconds": ("Window in seconds", "60 is a minute, 3600 an hour, 86400 a day."),
    "bulk_max": ("Vehicles in one request", "The most plates in one bulk request."),
    "domains_max": ("Domains", "The most domains that an account may have."),
}
_LIMITS = tuple(
    Field(name, label, hint, kind="number", least=PLAN_LIMITS[name][0], most=PLAN_LIMITS[name][1])
    for name, (label, hint) in _LABELS.items()
)
_ENQUIRY = (
    Field(
        "enquiry",
        "Enquiry",
        "Whether look-ups give a reason. off ignores it, optional checks and records it, required "
        "refuses look-ups without one.",
        choices=ENQUIRIES,
    ),
    Field(
        "enquiry_reasons",
        "Accepted reasons",
        "Codes with commas between them, such as THEFT, COLLISION. Any reason if empty.",
        REASONS_MAX * (ENQUIRY_CHARACTERS_MAX + len(", ")),
        is_required=False,
    ),
)
_FIELDS = (*_LIMITS, *_ENQUIRY)
_NAME = Field(
    "name",
    "Name",
    "Accounts are on a plan by its name, which cannot be changed later.",
    PLAN_NAME_CHARACTERS_MAX,
)


class PlanCreation:
    """The form for a new plan."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/plans/new. Begins with the limits of the default plan."""
        default = Plan.select().where(Plan.name == DEFAULT_PLAN).first(self._services.engine)
        self._show(req, resp, Form((_NAME, *_FIELDS), _limits(default) if default else {}))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/plans/new. Opens the page of the new plan."""
        engine = self._services.engine
        form = Form.received(req, (_NAME, *_FIELDS))
        if form.is_sound:
            with changing(engine):
                if Plan.select().where(Plan.name == form["name"]).exists(engine):
                    form.faults["name"] = "There is already a plan of this name."
                else:
                    _set_plan(req, engine, form, form["name"])
        if form.is_sound:
            redirect(req, resp, PLACE, segment_of(form["name"]), done="created")
            return
        resp.status = falcon.HTTP_422
        self._show(req, resp, form)

    def _show(self, req: ConsoleRequest, resp: falcon.Response, form: Form) -> None:
        self._services.pages.send(req, resp, "plans/new.html", form=form)


class PlanChange:
    """The form for the limits of a plan."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> None:
        """GET /console/plans/{plan}/change."""
        found = require_plan(self._services.engine, plan)
        self._show(req, resp, found, Form(_FIELDS, _values(found)))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> None:
        """POST /console/plans/{plan}/change."""
        engine = self._services.engine
        found = require_plan(engine, plan)
        form = Form.received(req, _FIELDS)
        if form.is_sound:
            with changing(engine):
                current = locked_plan(engine, plan)
                require_version(req, _version(current), (PLACE, plan))
                _set_plan(req, engine, form, current.name, current)
        if form.is_sound:
            redirect(req, resp, PLACE, plan, done="changed")
            return
        resp.status = falcon.HTTP_422
        self._show(req, resp, found, form)

    def _show(self, req: ConsoleRequest, resp: falcon.Response, plan: Plan, form: Form) -> None:
        engine = self._services.engine
        self._services.pages.send(
            req,
            resp,
            "plans/change.html",
            plan=plan,
            segment=segment_of(plan.name),
            accounts=count_accounts(engine, plan),
            form=form,
            version=_version(plan),
        )


class PlanDeletion:
    """The confirmation that a plan without accounts is deleted."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> None:
        """GET /console/plans/{plan}/delete. Asks for confirmation."""
        found = require_plan(self._services.engine, plan)
        _require_unused(self._services.engine, found)
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Delete the plan {found.name}?",
            text="No account is on it, so nothing else changes.",
            button="Delete the plan",
            back=(PLACE, plan),
            version=_version(found),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> None:
        """POST /console/plans/{plan}/delete. Opens the list."""
        engine = self._services.engine
        with changing(engine):
            found = locked_plan(engine, plan)
            require_version(req, _version(found), (PLACE, plan))
            _require_unused(engine, found)
            lifecycle.delete_plan(engine, found.name, actor=actor_of(req))
        redirect(req, resp, PLACE, done="deleted")


def _require_unused(engine: Engine, plan: Plan) -> None:
    """Refuse to delete a plan that somebody needs. Raises PageError."""
    accounts = count_accounts(engine, plan)
    if plan.name == DEFAULT_PLAN:
        text = "New accounts get it unless another one is chosen. You can change its limits."
        heading = "The default plan cannot be deleted"
    elif accounts:
        are = "one account is" if accounts == 1 else f"{accounts:,} accounts are"
        text = f"{are[:1].upper()}{are[1:]} on it. Move them to another plan first."
        heading = "This plan is in use"
    else:
        return
    raise PageError(409, heading, text, back=(PLACE, segment_of(plan.name)))


def _set_plan(
    req: ConsoleRequest, engine: Engine, form: Form, name: str, former: Plan | None = None
) -> None:
    """Create or change a plan, or add to the form why its reasons are refused."""
    # A plan that does not ask any more keeps its reasons, as with `plans set`.
    is_kept = former is not None and form["enquiry_reasons"] == former.enquiry_reasons
    reasons = None if is_kept else form["enquiry_reasons"]
    try:
        administration.set_plan(
            engine,
            name,
            actor_of(req),
            EnquiryChange(cast("Enquiry", form["enquiry"]), reasons),
            requests=form.number("requests"),
            window_seconds=form.number("window_seconds"),
            bulk_max=form.number("bulk_max"),
            domains_max=form.number("domains_max"),
        )
    except OperatorError as error:
        form.faults["enquiry_reasons"] = sentence(error)


def _limits(plan: Plan) -> dict[str, str]:
    return {name: str(getattr(plan, name)) for name in PLAN_LIMITS}


def _values(plan: Plan) -> dict[str, str]:
    return {**_limits(plan), "enquiry": plan.enquiry, "enquiry_reasons": plan.enquiry_reasons}


def _version(plan: Plan) -> str:
    return version_of(plan.name, _values(plan))
