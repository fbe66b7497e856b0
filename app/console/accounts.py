"""The pages of accounts: list, detail, create, suspend and resume (D81, D134)."""

from collections.abc import Callable
from typing import Any

import falcon

from app.accounts import administration, lifecycle
from app.accounts.models import Account
from app.actions import changing
from app.console.context import ConsoleRequest, PageError, Services, actor_of
from app.console.forms import Field, Form, require_version, version_of
from app.console.listing import Listing
from app.console.rendering import redirect
from app.domains.repository import Domains
from app.errors import OperatorError
from app.storage import reserve
from app.storage.engine import Engine

ACTIVE, SUSPENDED = STATUSES = ("active", "suspended")
_PLACE = "accounts"
_SORTABLE = {
    "name": Account.name,
    "plan": Account.plan,
    "status": Account.suspended_at,
    "created": Account.created_at,
}


class AccountList:
    """All accounts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/accounts. Parameters: `q`, `plan`, `status`, `sort`, `page`."""
        engine = self._services.engine
        plans = [plan.name for plan in administration.list_plans(engine)]
        filters = {"q": (), "plan": plans, "status": STATUSES}
        listing = Listing(req, _SORTABLE, Account.id, filters)
        self._services.pages.send(
            req,
            resp,
            "accounts/list.html",
            listing=listing,
            accounts=listing.rows(_chosen(listing.filters), engine),
            plans=plans,
            statuses=STATUSES,
        )

    on_head = on_get


class AccountPage:
    """One account, with its plan, keys and domains."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._domains = Domains(services.engine)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}."""
        engine = self._services.engine
        account = require_account(engine, tag)
        keys = administration.list_keys(engine, account.name)
        self._services.pages.send(
            req,
            resp,
            "accounts/detail.html",
            account=account,
            plan=administration.require_plan(engine, account.plan_id),
            keys=[(key, administration.status_of_key(key)) for key in reversed(keys)],
            domains=self._domains.count_domains(account.id),
            done=req.get_param("done"),
        )

    on_head = on_get


class AccountCreation:
    """The form for a new account."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/accounts/new."""
        fields = self._fields()
        self._show(req, resp, Form(fields, {"plan": administration.DEFAULT_PLAN}))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/accounts/new. Opens the page of the new account."""
        form = Form.received(req, self._fields())
        if form.is_sound:
            try:
                made = administration.create_account(
                    self._services.engine, form["name"], form["plan"], actor=actor_of(req)
                )
            except OperatorError as error:
                form.faults["name"] = sentence(error)
            else:
                redirect(req, resp, _PLACE, made.tag, done="created")
                return
        resp.status = falcon.HTTP_422
        self._show(req, resp, form)

    def _fields(self) -> tuple[Field, ...]:
        plans = [plan.name for plan in administration.list_plans(self._services.engine)]
        return (
            Field("name", "Name", "What you call the customer. No other account may have it."),
            Field("plan", "Plan", "Sets the limits. You can change it later.", choices=plans),
        )

    def _show(self, req: ConsoleRequest, resp: falcon.Response, form: Form) -> None:
        self._services.pages.send(req, resp, "accounts/new.html", form=form)


class AccountSuspension:
    """The confirmation that an account's keys are refused."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}/suspend. Asks for confirmation."""
        account = require_account(self._services.engine, tag)
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Suspend {account.name}?",
            text=(
                "From the next request on, all keys of this account get 401. Nothing is deleted, "
                "and you can resume the account at any time."
            ),
            button="Suspend the account",
            back=(_PLACE, tag),
            version=_version(account),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/suspend."""
        _change(req, self._services.engine, tag, lifecycle.suspend_account)
        redirect(req, resp, _PLACE, tag, done="suspended")


class AccountResumption:
    """The confirmation that a suspended account's keys are accepted again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}/resume. Asks for confirmation."""
        account = require_account(self._services.engine, tag)
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Resume {account.name}?",
            text="From the next request on, the keys of this account are accepted again.",
            button="Resume the account",
            back=(_PLACE, tag),
            version=_version(account),
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/resume."""
        _change(req, self._services.engine, tag, lifecycle.resume_account)
        redirect(req, resp, _PLACE, tag, done="resumed")


def require_account(engine: Engine, tag: str) -> Account:
    """Return the account with this tag. Raises PageError if there is none."""
    account: Account | None = Account.select().where(Account.tag == tag).first(engine)
    if account is None:
        raise PageError(
            404, "There is no such account", "It was deleted, or never was.", back=(_PLACE,)
        )
    return account


def sentence(error: OperatorError) -> str:
    """Return why something was refused as a sentence."""
    text = error.sentence
    return f"{text[:1].upper()}{text[1:]}."


def _chosen(filters: dict[str, str]) -> Any:
    """Return a query for the accounts that the filters leave."""
    query = Account.select()
    if filters["q"]:
        query = query.where(Account.name.contains(filters["q"]))
    if filters["plan"]:
        query = query.where(Account.plan == filters["plan"])
    if filters["status"]:
        query = query.where(Account.suspended_at.is_null(filters["status"] == ACTIVE))
    return query


def _change(req: ConsoleRequest, engine: Engine, tag: str, change: Callable[..., Account]) -> None:
    """Change an account, unless somebody else has changed it since the form was made."""

    def checked_change() -> None:
        with changing(engine):
            engine.lock_rows(Account.select().where(Account.tag == tag))
            account = require_account(engine, tag)
            require_version(req, _version(account), (_PLACE, tag))
            change(engine, account.name, actor=actor_of(req))

    # An account can be suspended on a full disk, too (D57).
    reserve.with_reserve(engine, checked_change)


def _version(account: Account) -> str:
    return version_of(account.tag, account.name, account.plan_id, account.suspended_at)
