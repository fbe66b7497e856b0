"""The pages of keys: all of them, one, and the one that somebody has at hand (D3, D136)."""

from typing import Any

import falcon

from app import clock
from app.accounts.administration import status_of_key
from app.accounts.authentication import KEY_ID_CHARACTERS, LENGTH, parse_token
from app.accounts.models import Account, ApiKey
from app.accounts.usage.report import last_days
from app.console.accounts import find_account
from app.console.forms import Field, Form
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, PageError, Services, redirect
from app.errors import KEY_PREFIX
from app.storage.engine import Engine

PLACE = "keys"
STATUSES = ("active", "suspended", "expired", "revoked")
_SORTABLE = {
    "created": ApiKey.created_at,
    "account": Account.name,
    "label": ApiKey.label,
    "expires": ApiKey.expires_at,
}
_LOST = Field(
    "key",
    "Key, or its id",
    f"A whole key of {LENGTH} characters, or the {KEY_ID_CHARACTERS} characters of an id.",
)


class KeyList:
    """The keys of all accounts, or of one."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/keys. Parameters: `q`, `status`, `account` (a tag), `sort`, `page`."""
        engine = self._services.engine
        filters = {"q": (), "status": STATUSES, "account": ()}
        listing = Listing(req, _SORTABLE, ApiKey.id, filters, default="-created")
        if KEY_PREFIX in listing.filters["q"]:  # SEC: no link of the list may hold a key.
            redirect(req, resp, PLACE, "find")
            return
        keys = listing.rows(_chosen(listing.filters), engine)
        tag = listing.filters["account"]
        self._services.pages.send(
            req,
            resp,
            "keys/list.html",
            listing=listing,
            keys=[(key, status_of_key(key)) for key in keys],
            statuses=STATUSES,
            account=find_account(engine, tag) if tag else None,
        )

    on_head = on_get


class KeyPage:
    """One key, without its secret."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, key_id: str) -> None:
        """GET /console/keys/{key_id}."""
        engine = self._services.engine
        key = require_key(engine, key_id)
        former = ApiKey.select(ApiKey.id).where(ApiKey.replaced_by == key.id).scalar(engine)
        self._services.pages.send(
            req,
            resp,
            "keys/detail.html",
            key=key,
            status=status_of_key(key),
            replaces=former,
            used=last_days(engine, key.account.id, [key.id]),
            done=req.get_param("done"),
        )

    on_head = on_get


class KeySearch:
    """The search for a key that somebody has at hand, such as one that was leaked.

    SEC: it is sent with POST, because the list's search is a part of the URL, which logs keep.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/keys/find."""
        self._services.pages.send(req, resp, "keys/find.html", form=Form([_LOST]))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/keys/find. Opens the page of the key."""
        form = Form.received(req, [_LOST])
        if form.is_sound:
            # Whether the secret is right does not matter, as for `verifyd keys revoke`.
            token = parse_token(form["key"])
            key = find_key(self._services.engine, token.key_id if token else form["key"])
            if key is not None:
                redirect(req, resp, PLACE, key.id)
                return
            form.faults["key"] = "No account has this key. It may be mistyped or deleted."
        form.values["key"] = ""  # SEC: a page must not show a key.
        resp.status = falcon.HTTP_422
        self._services.pages.send(req, resp, "keys/find.html", form=form)


def find_key(engine: Engine, key_id: str) -> ApiKey | None:
    """Return the key with this id and its account, None if there is none."""
    query = ApiKey.select(ApiKey, Account).join(Account).where(ApiKey.id == key_id)
    # NOTE: Postgres ignores spaces at the end of a CHAR.
    key: ApiKey | None = query.first(engine) if len(key_id) == KEY_ID_CHARACTERS else None
    return key


def require_key(engine: Engine, key_id: str) -> ApiKey:
    """Return the key with this id and its account. Raises PageError if there is none."""
    key = find_key(engine, key_id)
    if key is None:
        text = "Its account was deleted, or it never was."
        raise PageError(404, "There is no such key", text, back=(PLACE,))
    return key


def _chosen(filters: dict[str, str]) -> Any:
    """Return a query for the keys that the filters leave, with their accounts."""
    query = ApiKey.select(ApiKey, Account).join(Account)
    text = filters["q"]
    if text:
        fits = ApiKey.label.contains(text) | Account.name.contains(text) | (ApiKey.id == text)
        query = query.where(fits)
    if filters["account"]:
        query = query.where(Account.tag == filters["account"])
    if filters["status"]:
        query = query.where(_has_status(filters["status"]))
    return query


def _has_status(status: str) -> Any:
    """Return the condition that a key has a status, as `status_of_key` tells it."""
    is_revoked = ApiKey.revoked_at.is_null(False)
    is_expired = ApiKey.expires_at.is_null(False) & (ApiKey.expires_at <= clock.now())
    is_usable = ApiKey.revoked_at.is_null() & (
        ApiKey.expires_at.is_null() | (ApiKey.expires_at > clock.now())
    )
    return {
        "revoked": is_revoked,
        "expired": ApiKey.revoked_at.is_null() & is_expired,
        "active": is_usable & Account.suspended_at.is_null(),
        "suspended": is_usable & Account.suspended_at.is_null(False),
    }[status]
