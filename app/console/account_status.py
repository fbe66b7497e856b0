"""What the console changes about the status of an account: suspend and resume (D81)."""

import falcon

from app.accounts import lifecycle
from app.console.accounts import PLACE, change_account, require_account, version_of_account
from app.console.context import ConsoleRequest, Services
from app.console.rendering import redirect


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
