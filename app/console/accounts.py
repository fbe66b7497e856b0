"""The pages of accounts: list, detail, and every change of an account."""

from collections.abc import Mapping, Sequence
from functools import partial

import falcon

from app.accounts import administration
from app.accounts.models import Account, ApiKey, Plan
from app.accounts.usage.report import last_days
from app.actions import Actor
from app.console.form_pages import Confirmation, ConfirmationText, Entity, FormPage, RowlessForm
from app.console.forms import Field, Form, version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, Resource, redirect, view
from app.domains.repository import Domains
from app.serve.limits.bucket import rate
from app.serve.limits.file import StoreError
from app.serve.limits.store import LimitStore, account_slot, reset_limit
from app.storage.engine import Engine
from app.text import counted
from app.watches.repository import Watches, count_of_account
from app.watches.tables import WatchFeed

ACTIVE = "active"
STATUSES = (ACTIVE, "suspended")
PLACE = "accounts"
_KEYS_SHOWN = 10
_SORTABLE = {
    "name": Account.name,
    "plan": Account.plan,
    "status": Account.suspended_at,
    "created": Account.created_at,
}
_CONDITIONS = {
    "q": Account.name.contains,
    "plan": lambda plan: Account.plan == plan,
    "status": lambda status: Account.suspended_at.is_null(status == ACTIVE),
}


def _version(account: Account) -> str:
    return version_of(account.tag, account.name, account.plan_id, account.suspended_at)


ACCOUNTS = Entity[Account](
    "account", PLACE, lambda tag: Account.select().where(Account.tag == tag), _version
)


def requests_left(limits: LimitStore, account: Account, plan: Plan) -> int | None:
    """Return how many requests an account could send now; None if that cannot be known."""
    try:
        slot = account_slot(account.id)
        return limits.peek(slot, rate(plan.requests, plan.window_seconds)).remaining
    except StoreError:  # The overview says why.
        return None


class AccountList(Resource):
    """All accounts."""

    @view("accounts/list.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/accounts. Parameters: `q`, `plan`, `status`, `sort`, `page`."""
        filters = {"q": (), "plan": _plan_names(self.engine), "status": STATUSES}
        listing = Listing(req, _SORTABLE, Account.id, filters)
        return {
            "listing": listing,
            "accounts": listing.rows(Account.select(), self.engine, _CONDITIONS),
        }


class AccountPage(Resource):
    """One account, with its plan, keys and domains."""

    @view("accounts/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> Values:
        """GET /console/accounts/{tag}."""
        account = ACCOUNTS.require(self.engine, tag)
        plan = administration.require_plan(self.engine, account.plan_id)
        keys = ApiKey.select(ApiKey, Account).join(Account).where(ApiKey.account == account)
        newest = keys.order_by(ApiKey.created_at.desc(), ApiKey.id).limit(_KEYS_SHOWN)
        latest = list(newest.execute(self.engine))
        return {
            "account": account,
            "plan": plan,
            "requests_left": requests_left(self.services.limits, account, plan),
            "keys": latest,
            "used": last_days(self.engine, account.id, [key.id for key in latest]),
            "keys_total": keys.count(self.engine),
            "domains": Domains(self.engine).count_domains(account.id),
            "watches": Watches(self.engine).count(account.id),
            "held": WatchFeed.select(WatchFeed.held)
            .where(WatchFeed.account == account.id)
            .scalar(self.engine),
        }


class AccountCreation(RowlessForm):
    """GET, POST /console/accounts/new. Creates an account, and opens its page."""

    template = "accounts/new.html"

    def _fields(self, row: None) -> Sequence[Field]:
        plans = _plan_names(self.engine)
        hint = "Sets the limits. It can be changed later, but a sandbox stays one."
        return (
            Field("name", "Name", "What you call the customer. No other account may have it."),
            Field("plan", "Plan", hint, choices=plans),
        )

    def _initial(self, row: None) -> Mapping[str, str]:
        return {"plan": administration.DEFAULT_PLAN}

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        with form.refused_for("name"):
            made = administration.create_account(
                self.engine, form["name"], form["plan"], actor=req.actor
            )
            redirect(req, resp, PLACE, made.tag, done="created")


class AccountPlan(FormPage[Account]):
    """GET, POST /console/accounts/{tag}/plan. Moves an account to another plan."""

    entity, template = ACCOUNTS, "accounts/plan.html"

    def _fields(self, row: Account) -> Sequence[Field]:
        hint = "It counts from the next request on."
        names = [plan.name for plan in _plans_for(self.engine, row)]
        return (Field("plan", "Plan", hint, choices=names),)

    def _initial(self, row: Account) -> Mapping[str, str]:
        return {"plan": row.plan_id}

    def _values(self, req: ConsoleRequest, row: Account) -> Values:
        return {
            "account": row,
            "plans": _plans_for(self.engine, row),
            "version": _version(row),
        }

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: Account, form: Form) -> None:
        def move(account: Account) -> None:
            administration.set_account_plan(
                self.engine, account.name, form["plan"], actor=req.actor
            )

        with form.refused_for("plan"):  # The plan was deleted a moment ago.
            ACCOUNTS.change(req, self.engine, row.tag, move, uses_reserve=True)
            redirect(req, resp, PLACE, row.tag, done="moved")


class AccountDeletion(FormPage[Account]):
    """GET, POST /console/accounts/{tag}/delete. Asks for the name; afterwards opens the list."""

    entity, template = ACCOUNTS, "accounts/delete.html"
    fields = (Field("name", "Name of the account", "Type it to confirm."),)

    def _initial(self, row: Account) -> Mapping[str, str]:
        self._require_without_domains(row)
        return {}

    def _values(self, req: ConsoleRequest, row: Account) -> Values:
        keys = ApiKey.select().where(ApiKey.account == row).count(self.engine)
        others = count_of_account(self.engine, row.id)
        return {"account": row, "keys": keys, **others, "version": _version(row)}

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: Account, form: Form) -> None:
        def delete(account: Account) -> None:
            self._require_without_domains(account)
            counts = Domains(self.engine).count_domains, partial(count_of_account, self.engine)
            administration.delete_account(self.engine, account.name, *counts, actor=req.actor)

        if form["name"] != row.name:
            form.faults["name"] = "This is not the name of the account."
            return
        ACCOUNTS.change(req, self.engine, row.tag, delete, uses_reserve=True)
        redirect(req, resp, PLACE, done="deleted")

    def _require_without_domains(self, account: Account) -> None:
        """Refuse to delete an account with domains, which would be lost. Raises PageError."""
        count = Domains(self.engine).count_domains(account.id)
        if count:
            raise PageError(
                409,
                "This account has domains",
                f"{account.name} has {counted(count, 'domain')}, which only "
                "its keys can delete. Suspend the account to end its access and keep them.",
                back=(PLACE, account.tag),
            )


class AccountSuspension(Confirmation[Account]):
    """GET, POST /console/accounts/{tag}/suspend. The account's keys are refused."""

    entity, done, uses_reserve = ACCOUNTS, "suspended", True

    def _question(self, row: Account) -> ConfirmationText:
        return ConfirmationText(
            f"Suspend {row.name}?",
            "From the next request on, all keys of this account get 401. Nothing is deleted, and "
            "you can resume the account at any time.",
            "Suspend the account",
        )

    def _change(self, row: Account, actor: Actor) -> None:
        administration.suspend_account(self.engine, row.name, actor=actor)


class AccountResumption(Confirmation[Account]):
    """GET, POST /console/accounts/{tag}/resume. The account's keys are accepted again."""

    entity, done, uses_reserve = ACCOUNTS, "resumed", True

    def _question(self, row: Account) -> ConfirmationText:
        text = "From the next request on, the keys of this account are accepted again."
        return ConfirmationText(
            f"Resume {row.name}?", text, "Resume the account", is_dangerous=False
        )

    def _change(self, row: Account, actor: Actor) -> None:
        administration.resume_account(self.engine, row.name, actor=actor)


class AccountReset(Confirmation[Account]):
    """GET, POST /console/accounts/{tag}/reset. The account gets all its requests back."""

    entity, done, uses_reserve = ACCOUNTS, "reset", True

    def _question(self, row: Account) -> ConfirmationText:
        plan = administration.require_plan(self.engine, row.plan_id)
        left = requests_left(self.services.limits, row, plan)
        now = "" if left is None else f"It has {left:,} of {plan.requests:,} left. "
        return ConfirmationText(
            f"Give {row.name} all its requests back?",
            f"{now}With several hosts, this counts only for the one that answers this page.",
            "Give all requests back",
            is_dangerous=False,
        )

    def _change(self, row: Account, actor: Actor) -> None:
        plan = administration.require_plan(self.engine, row.plan_id)
        plan_rate = rate(plan.requests, plan.window_seconds)
        try:
            reset_limit(self.engine, self.services.limits, row.id, row.name, plan_rate, actor=actor)
        except StoreError:
            text = "Nothing was changed. The overview says what is wrong with the file of limits."
            raise PageError(503, "The rate limits cannot be used", text) from None


def _plans_for(engine: Engine, account: Account) -> list[Plan]:
    """Return the plans that an account can be on: only sandboxes, or only others (D180)."""
    plans = administration.list_plans(engine)
    own = administration.require_plan(engine, account.plan_id)
    return [plan for plan in plans if plan.is_sandbox == own.is_sandbox]


def _plan_names(engine: Engine) -> list[str]:
    return [plan.name for plan in administration.list_plans(engine)]
