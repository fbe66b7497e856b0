"""What else the console changes about an account: its plan, its limit, and its end (D81)."""

from functools import partial

import falcon

from app.accounts import administration, lifecycle
from app.accounts.models import Account, ApiKey
from app.actions import Actor
from app.console.accounts import (
    PLACE,
    change_account,
    requests_left,
    require_account,
    sentence,
    version_of_account,
)
from app.console.forms import Field, Form
from app.console.rendering import ConsoleRequest, PageError, Services, redirect
from app.domains.repository import Domains
from app.errors import OperatorError
from app.serve.limits.bucket import rate
from app.serve.limits.file import StoreError
from app.serve.limits.store import reset_limit
from app.storage.engine import Engine


class AccountPlan:
    """The form that moves an account to another plan."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}/plan."""
        account = require_account(self._services.engine, tag)
        self._show(req, resp, account, Form(self._fields(), {"plan": account.plan_id}))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/plan."""
        engine = self._services.engine
        account = require_account(engine, tag)
        form = Form.received(req, self._fields())
        if form.is_sound:
            try:
                change_account(req, engine, tag, partial(_set_plan, plan=form["plan"]))
            except OperatorError as error:  # The plan was deleted a moment ago.
                form.faults["plan"] = sentence(error)
            else:
                redirect(req, resp, PLACE, tag, done="moved")
                return
        resp.status = falcon.HTTP_422
        self._show(req, resp, account, form)

    def _fields(self) -> tuple[Field, ...]:
        plans = administration.list_plans(self._services.engine)
        hint = "It counts from the next request on."
        return (Field("plan", "Plan", hint, choices=[plan.name for plan in plans]),)

    def _show(
        self, req: ConsoleRequest, resp: falcon.Response, account: Account, form: Form
    ) -> None:
        self._services.pages.send(
            req,
            resp,
            "accounts/plan.html",
            account=account,
            form=form,
            plans=administration.list_plans(self._services.engine),
            version=version_of_account(account),
        )


class AccountReset:
    """The confirmation that an account gets all its requests back."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}/reset. Asks for confirmation."""
        engine, _, limits, pages, _ = self._services
        account = require_account(engine, tag)
        plan = administration.require_plan(engine, account.plan_id)
        left = requests_left(limits, account, plan)
        now = "" if left is None else f"It has {left:,} of {plan.requests:,} left. "
        pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Give {account.name} all its requests back?",
            text=f"{now}With several hosts, this counts only for the one that answers this page.",
            button="Give all requests back",
            back=(PLACE, tag),
            version=version_of_account(account),
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/reset. Works on a full disk, too (D57)."""
        change_account(req, self._services.engine, tag, self._reset)
        redirect(req, resp, PLACE, tag, done="reset")

    def _reset(self, engine: Engine, name: str, *, actor: Actor) -> object:
        account = administration.require_account(engine, name)
        plan = administration.require_plan(engine, account.plan_id)
        plan_rate = rate(plan.requests, plan.window_seconds)
        limits = self._services.limits
        try:
            return reset_limit(engine, limits, account.id, name, plan_rate, actor=actor)
        except StoreError:
            text = "Nothing was changed. The overview says what is wrong with the file of limits."
            raise PageError(503, "The rate limits cannot be used", text) from None


class AccountDeletion:
    """The confirmation, by its name, that an account and its keys are deleted."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._domains = Domains(services.engine)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}/delete. Asks for the name."""
        account = require_account(self._services.engine, tag)
        self._require_without_domains(account)
        self._show(req, resp, account, Form(_CONFIRMATION))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/delete. Opens the list."""
        engine = self._services.engine
        account = require_account(engine, tag)
        form = Form.received(req, _CONFIRMATION)
        if form.is_sound and form["name"] != account.name:
            form.faults["name"] = "This is not the name of the account."
        if not form.is_sound:
            resp.status = falcon.HTTP_422
            self._show(req, resp, account, form)
            return
        change_account(req, engine, tag, self._delete)
        redirect(req, resp, PLACE, done="deleted")

    def _delete(self, engine: Engine, name: str, *, actor: Actor) -> object:
        self._require_without_domains(administration.require_account(engine, name))
        return lifecycle.delete_account(engine, name, self._domains.count_domains, actor=actor)

    def _require_without_domains(self, account: Account) -> None:
        """Refuse to delete an account with domains, which would be lost. Raises PageError."""
        count = self._domains.count_domains(account.id)
        if count:
            raise PageError(
                409,
                "This account has domains",
                f"{account.name} has {count:,} {'domain' if count == 1 else 'domains'}, which only "
                "its keys can delete. Suspend the account to end its access and keep them.",
                back=(PLACE, account.tag),
            )

    def _show(
        self, req: ConsoleRequest, resp: falcon.Response, account: Account, form: Form
    ) -> None:
        keys = ApiKey.select().where(ApiKey.account == account).count(self._services.engine)
        self._services.pages.send(
            req,
            resp,
            "accounts/delete.html",
            account=account,
            keys=keys,
            form=form,
            version=version_of_account(account),
        )


_CONFIRMATION = (Field("name", "Name of the account", "Type it to confirm."),)


def _set_plan(engine: Engine, name: str, *, plan: str, actor: Actor) -> object:
    return administration.set_account_plan(engine, name, plan, actor=actor)


# What the console changes about the status of an account: suspend and resume (D81).


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
            back=(PLACE, tag),
            version=version_of_account(account),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/suspend. Works on a full disk, too (D57)."""
        change_account(req, self._services.engine, tag, lifecycle.suspend_account)
        redirect(req, resp, PLACE, tag, done="suspended")


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
            back=(PLACE, tag),
            version=version_of_account(account),
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/resume."""
        change_account(req, self._services.engine, tag, lifecycle.resume_account)
        redirect(req, resp, PLACE, tag, done="resumed")
