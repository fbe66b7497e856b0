"""The pages of plans: list, detail, create, change and delete."""

from collections.abc import Mapping
from typing import cast

import falcon
import peewee

from app.accounts import administration
from app.accounts.administration import DEFAULT_PLAN, PLAN_LIMITS, PLAN_NAME_CHARACTERS_MAX
from app.accounts.models import ENQUIRIES, ON_OFF, Account, Enquiry, OnOff, Plan
from app.actions import Actor, changing
from app.console.form_pages import Confirmation, ConfirmationText, Entity, FormPage, RowlessForm
from app.console.forms import Field, Form, version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, Resource, redirect, view
from app.settings.enquiries import ENQUIRY_CHARACTERS_MAX, REASONS_MAX
from app.storage.engine import Engine
from app.text import capitalised

PLACE = "plans"
_LABELS: Mapping[str, tuple[str, str]] = {
    "requests": ("Requests", "How many requests an account may send in one window."),
    "window_seconds": ("Window in seconds", "60 is a minute, 3600 an hour, 86400 a day."),
    "bulk_max": ("Vehicles in one request", "The most plates in one bulk request."),
    "domains_max": ("Domains", "The most domains that an account may have."),
    "watches_max": ("Watches", "The most vehicles that an account may watch for changes."),
}
_FIELDS = (
    *(
        Field(name, *texts, kind="number", least=PLAN_LIMITS[name][0], most=PLAN_LIMITS[name][1])
        for name, texts in _LABELS.items()
    ),
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
    Field(
        "suggest",
        "Suggestions",
        "Whether the 404 of a look-up shows known plates that look like the one asked for. This "
        "tells clients that they exist.",
        choices=ON_OFF,
    ),
)


def segment_of(name: str) -> str:
    """Return a plan's name as a segment of a path. Names can have any characters, a slash, too.

    Names of letters, digits and `-` stay as they are, unless a page has that path.
    """
    is_plain = name.isascii() and name.replace("-", "").isalnum() and name != "new"
    return name if is_plain else f"~{name.encode().hex()}"


def _name_of(segment: str) -> str | None:
    """Return the name of the plan of a segment; None if the segment is malformed."""
    if not segment.startswith("~"):
        return segment
    try:
        name = bytes.fromhex(segment[1:]).decode()
    except ValueError:  # UnicodeError is one, too.
        return None
    return name if name.isprintable() else None


def _limits(plan: Plan) -> dict[str, str]:
    return {name: str(getattr(plan, name)) for name in PLAN_LIMITS}


def _settings(plan: Plan) -> dict[str, str]:
    words = ("enquiry", "enquiry_reasons", "suggest")
    return {**_limits(plan), **{name: getattr(plan, name) for name in words}}


_PLANS = Entity[Plan](
    "plan",
    PLACE,
    lambda segment: Plan.select().where(Plan.name == _name_of(segment)),
    lambda plan: version_of(plan.name, _settings(plan)),
)


class PlanList(Resource):
    """All plans."""

    @view("plans/list.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/plans. Parameters: `sort`, `page`."""
        accounts = Account.select(peewee.fn.COUNT(Account.id)).where(Account.plan == Plan.name)
        sortable = {
            "requests": Plan.requests,
            "name": Plan.name,
            "vehicles": Plan.bulk_max,
            "domains": Plan.domains_max,
            "watches": Plan.watches_max,
        }
        listing = Listing(req, sortable, Plan.name)
        plans = listing.rows(Plan.select(Plan, accounts.alias("accounts")), self.engine)
        return {
            "listing": listing,
            "plans": [(plan, segment_of(plan.name)) for plan in plans],
            "default": DEFAULT_PLAN,
        }


class PlanPage(Resource):
    """One plan, with its accounts."""

    @view("plans/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> Values:
        """GET /console/plans/{plan}. Parameters: `sort`, `page`, for the accounts."""
        found = _PLANS.require(self.engine, plan)
        sortable = {
            "name": Account.name,
            "status": Account.suspended_at,
            "created": Account.created_at,
        }
        listing = Listing(req, sortable, Account.id)
        accounts = Account.select().where(Account.plan == found.name)
        return {
            "plan": found,
            "segment": plan,
            "accounts": listing.rows(accounts, self.engine),
            "listing": listing,
            "is_default": found.name == DEFAULT_PLAN,
        }


class PlanCreation(RowlessForm):
    """GET, POST /console/plans/new. Creates a plan, and opens its page.

    The form begins with the limits of the default plan.
    """

    template = "plans/new.html"
    fields = (
        Field(
            "name",
            "Name",
            "Accounts are on a plan by its name, which cannot be changed later.",
            PLAN_NAME_CHARACTERS_MAX,
        ),
        *_FIELDS,
        Field(
            "sandbox",
            "Sandbox",
            "Whether its accounts get invented answers, for tests. This can never be changed.",
            choices=ON_OFF,
        ),
    )

    def _initial(self, row: None) -> Mapping[str, str]:
        default = _PLANS.find(self.engine, DEFAULT_PLAN)
        return _limits(default) if default else {}

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        name = form["name"]
        with form.refused_for("enquiry_reasons"), changing(self.engine):
            if Plan.select().where(Plan.name == name).exists(self.engine):
                form.faults["name"] = "There is already a plan of this name."
            else:
                _set_plan(self.engine, form, name, req.actor)
        if form.is_sound:
            redirect(req, resp, PLACE, segment_of(name), done="created")


class PlanChange(FormPage[Plan]):
    """GET, POST /console/plans/{plan}/change. The limits of a plan."""

    entity, template = _PLANS, "plans/change.html"
    fields = _FIELDS

    def _initial(self, row: Plan) -> Mapping[str, str]:
        return _settings(row)

    def _values(self, req: ConsoleRequest, row: Plan) -> Values:
        return {
            "plan": row,
            "segment": segment_of(row.name),
            "accounts": _count_accounts(self.engine, row),
            "version": _PLANS.version(row),
        }

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: Plan, form: Form) -> None:
        def change(plan: Plan) -> None:
            # A plan that no longer asks for reasons keeps its list, as with `plans set`.
            _set_plan(self.engine, form, plan.name, req.actor, plan.enquiry_reasons)

        segment = segment_of(row.name)
        with form.refused_for("enquiry_reasons"):
            _PLANS.change(req, self.engine, segment, change)
            redirect(req, resp, PLACE, segment, done="changed")


def _set_plan(
    engine: Engine, form: Form, name: str, actor: Actor, former_reasons: str | None = None
) -> None:
    """Create or change a plan. Raises OperatorError if its reasons are refused."""
    reasons = form["enquiry_reasons"]
    administration.set_plan(
        engine,
        name,
        {name: form.number(name) for name in PLAN_LIMITS},
        enquiry=cast("Enquiry", form["enquiry"]),
        reasons=None if reasons == former_reasons else reasons,
        suggest=cast("OnOff", form["suggest"]),
        # Only the form of a new plan has this field.
        sandbox=cast("OnOff | None", form.values.get("sandbox")),
        actor=actor,
    )


class PlanDeletion(Confirmation[Plan]):
    """GET, POST /console/plans/{plan}/delete. Deletes a plan without accounts. Opens the list."""

    entity, done, leads_to_list = _PLANS, "deleted", True

    def _question(self, row: Plan) -> ConfirmationText:
        accounts = _count_accounts(self.engine, row)
        if row.name == DEFAULT_PLAN:
            text = "New accounts get it unless another one is chosen. You can change its limits."
            heading = "The default plan cannot be deleted"
        elif accounts:
            are = "one account is" if accounts == 1 else f"{accounts:,} accounts are"
            text = f"{capitalised(are)} on it. Move them to another plan first."
            heading = "This plan is in use"
        else:
            text = "No account is on it, so nothing else changes."
            return ConfirmationText(f"Delete the plan {row.name}?", text, "Delete the plan")
        raise PageError(409, heading, text, back=(PLACE, segment_of(row.name)))

    def _change(self, row: Plan, actor: Actor) -> None:
        administration.delete_plan(self.engine, row.name, actor=actor)


def _count_accounts(engine: Engine, plan: Plan) -> int:
    return int(Account.select().where(Account.plan == plan.name).count(engine))
