"""The pages of accounts: list, detail and create (D81, D134)."""

from collections.abc import Callable
from typing import Any

import falcon

from app.accounts import administration
from app.accounts.administration import status_of_key
from app.accounts.models import Account, ApiKey, Plan
from app.accounts.usage.report import last_days
from app.actions import changing
from app.console.forms import Field, Form, require_version, version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, PageError, Services, actor_of, redirect
from app.domains.repository import Domains
from app.errors import OperatorError
from app.serve.limits.bucket import rate
from app.serve.limits.file import StoreError
from app.serve.limits.store import LimitStore, account_slot
from app.storage import reserve
from app.storage.engine import Engine

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
            done=req.get_param("done"),
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
        plan = administration.require_plan(engine, account.plan_id)
        keys = ApiKey.select(ApiKey, Account).join(Account).where(ApiKey.account == account)
        newest = keys.order_by(ApiKey.created_at.desc(), ApiKey.id).limit(_KEYS_SHOWN)
        latest = list(newest.execute(engine))
        self._services.pages.send(
            req,
            resp,
            "accounts/detail.html",
            account=account,
            plan=plan,
            requests_left=requests_left(self._services.limits, account, plan),
            keys=[(key, status_of_key(key)) for key in latest],
            used=last_days(engine, account.id, [key.id for key in latest]),
            keys_total=keys.count(engine),
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
                redirect(req, resp, PLACE, made.tag, done="created")
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


def require_account(engine: Engine, tag: str) -> Account:
    """Return the account with this tag. Raises PageError if there is none."""
    account = find_account(engine, tag)
    if account is None:
        raise PageError(
            404, "There is no such account", "It was deleted, or never was.", back=(PLACE,)
        )
    return account


def find_account(engine: Engine, tag: str) -> Account | None:
    """Return the account with this tag, None if there is none."""
    account: Account | None = Account.select().where(Account.tag == tag).first(engine)
    return account


def change_account(
    req: ConsoleRequest, engine: Engine, tag: str, change: Callable[..., object]
) -> None:
    """Change an account, unless somebody else has changed it since the form was made.

    Args:
        change: takes the engine, the name of the account, and `actor`.
    """

    def checked_change() -> None:
        with changing(engine):
            engine.lock_rows(Account.select().where(Account.tag == tag))
            account = require_account(engine, tag)
            require_version(req, version_of_account(account), (PLACE, tag))
            change(engine, account.name, actor=actor_of(req))

    # An account can be suspended on a full disk, too (D57).
    reserve.with_reserve(engine, checked_change)


def version_of_account(account: Account) -> str:
    """Return the version of what pages about an account show."""
    return version_of(account.tag, account.name, account.plan_id, account.suspended_at)


def requests_left(limits: LimitStore, account: Account, plan: Plan) -> int | None:
    """Return how many requests an account could send now; None if that cannot be known."""
    try:
        slot = account_slot(account.id)
        return limits.peek(slot, rate(plan.requests, plan.window_seconds)).remaining
    except StoreError:  # The overview says why.
        return None


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
