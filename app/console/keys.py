"""The pages of keys: list, one key, search, and every change of a key.

SEC: only the answer to the form that creates a key shows that key. If a browser sends the form
again, as when the page is reloaded, no second key is created: the form's version is outdated.
"""

from collections.abc import Mapping

import falcon
import peewee

from app import clock
from app.accounts import administration
from app.accounts.administration import GRACE_SECONDS_MAX, ROTATION_GRACE_SECONDS, find_key
from app.accounts.models import Account, ApiKey
from app.accounts.restrictions import (
    AREAS,
    NETWORK_CHARACTERS_MAX,
    NETWORKS_MAX,
    NO_ADDRESS,
    Restrictions,
)
from app.accounts.tokens import KEY_ID_CHARACTERS, Token, parse_token
from app.accounts.usage.report import last_days
from app.actions import Actor
from app.console.accounts import ACCOUNTS
from app.console.form_pages import Confirmation, ConfirmationText, Entity, FormPage, RowlessForm
from app.console.forms import Field, Form, version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, Resource, redirect, view
from app.errors import KEY_PREFIX

PLACE = "keys"
STATUSES = ("active", "suspended", "expired", "revoked")
_SORTABLE = {
    "created": ApiKey.created_at,
    "account": Account.name,
    "label": ApiKey.label,
    "expires": ApiKey.expires_at,
}
_HOUR_SECONDS = 3600


def _mentions(text: str) -> peewee.Expression:
    return ApiKey.label.contains(text) | Account.name.contains(text) | (ApiKey.id == text)


def _has_status(status: str) -> peewee.Expression:
    """Return the condition of keys with a status, as `ApiKey.status` defines it."""
    is_usable = ApiKey.revoked_at.is_null() & (
        ApiKey.expires_at.is_null() | (ApiKey.expires_at > clock.now())
    )
    return {
        "revoked": ApiKey.revoked_at.is_null(False),
        "expired": ApiKey.revoked_at.is_null() & (ApiKey.expires_at <= clock.now()),
        "active": is_usable & Account.suspended_at.is_null(),
        "suspended": is_usable & Account.suspended_at.is_null(False),
    }[status]


_CONDITIONS = {
    "q": _mentions,
    "account": lambda tag: Account.tag == tag,
    "status": _has_status,
}
_EVERYTHING = "everything"
_SENT_BEFORE = (
    "The keys have changed meanwhile",
    "No key was created by this form. If you have sent it before, as by reloading the page with "
    "the new key: that key exists, and is not shown again. Revoke it if nobody saved it.",
)
"""The refusal of a form that has created a key before."""


def _version(key: ApiKey) -> str:
    return version_of(key.id, key.label, key.expires_at, key.revoked_at, key.replaced_by)


_KEYS = Entity(
    "key",
    PLACE,
    lambda key_id: ApiKey.select().where(ApiKey.id == key_id),
    _version,
    find_key,
    "Its account was deleted, or it never was.",
)


class KeyList(Resource):
    """The keys of all accounts, or of one."""

    @view("keys/list.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values | None:
        """GET /console/keys. Parameters: `q`, `status`, `account` (a tag), `sort`, `page`."""
        filters = {"q": (), "status": STATUSES, "account": ()}
        listing = Listing(req, _SORTABLE, ApiKey.id, filters, default="-created")
        if KEY_PREFIX in listing.filters["q"]:  # SEC: no link of the list may hold a key.
            redirect(req, resp, PLACE, "find")
            return None
        query = ApiKey.select(ApiKey, Account).join(Account)
        tag = listing.filters["account"]
        return {
            "listing": listing,
            "keys": listing.rows(query, self.engine, _CONDITIONS),
            "account": ACCOUNTS.find(self.engine, tag) if tag else None,
        }


class KeyPage(Resource):
    """One key, without its secret."""

    @view("keys/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, key_id: str) -> Values:
        """GET /console/keys/{key_id}."""
        key = _KEYS.require(self.engine, key_id)
        former = ApiKey.select(ApiKey.id).where(ApiKey.replaced_by == key.id).scalar(self.engine)
        return {
            "key": key,
            "replaces": former,
            "is_sandbox": administration.require_plan(self.engine, key.account.plan_id).is_sandbox,
            "used": last_days(self.engine, key.account.id, [key.id]),
        }


class KeySearch(RowlessForm):
    """GET, POST /console/keys/find. Opens the page of a key at hand, such as one that was leaked.

    SEC: the key is sent with POST, because logs keep URLs with the search of a list.
    """

    template = "keys/find.html"
    fields = (
        Field(
            "key", "Key, or its id", f"A whole key, or the {KEY_ID_CHARACTERS} characters of an id."
        ),
    )

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        # Whether the secret is right does not matter, as for `verifyd keys revoke`.
        token = parse_token(form["key"])
        key = find_key(self.engine, token.key_id if token else form["key"])
        if key is None:
            form.faults["key"] = "No account has this key. It may be mistyped or deleted."
        else:
            redirect(req, resp, PLACE, key.id)

    def _show(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        form.values["key"] = ""  # SEC: a page must not show a key.
        super()._show(req, resp, None, form)


class KeyCreation(FormPage[Account]):
    """GET, POST /console/accounts/{tag}/keys/new. Creates a key, and shows it once."""

    entity, template = ACCOUNTS, "keys/new.html"
    fields = (
        Field("label", "Label", "Tells keys apart, such as billing or test.", is_required=False),
        Field(
            "expires",
            "Last day",
            "The key works until the end of this day in UTC. Without a day it does not expire.",
            is_required=False,
            kind="date",
        ),
        Field(
            "only",
            "Operations",
            "What the key may be used for.",
            is_required=False,
            choices=(_EVERYTHING, *AREAS),
        ),
        Field(
            "networks",
            "Networks",
            f"Where the key may be used from, such as 203.0.113.0/24: up to {NETWORKS_MAX}, each "
            f"on a line of its own. All addresses if empty. With networks, {NO_ADDRESS}.",
            NETWORKS_MAX * (NETWORK_CHARACTERS_MAX + len("\r\n")),
            is_required=False,
            kind="lines",
        ),
    )

    def _values(self, req: ConsoleRequest, row: Account) -> Values:
        return {"account": row, "version": self._version(row)}

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: Account, form: Form) -> None:
        restrictions = _restrictions(form)
        if form.is_sound:
            with form.refused_for("expires"):
                _show_new_key(self, req, resp, self._create(req, row.tag, form, restrictions))

    def _create(
        self, req: ConsoleRequest, tag: str, form: Form, restrictions: Restrictions
    ) -> tuple[ApiKey, Token]:
        day = form.day("expires")
        ends_at = administration.end_of_day(day) if day else None

        def create(account: Account) -> tuple[ApiKey, Token]:
            return administration.create_key(
                self.engine, account.name, form["label"], ends_at, restrictions, actor=req.actor
            )

        accounts = ACCOUNTS._replace(version=self._version, refusal=_SENT_BEFORE)
        return accounts.change(req, self.engine, tag, create)

    def _version(self, account: Account) -> str:
        keys = ApiKey.select(ApiKey.id).where(ApiKey.account == account).order_by(ApiKey.id)
        return version_of(account.tag, [key.id for key in keys.execute(self.engine)])


def _restrictions(form: Form) -> Restrictions:
    """Return the restrictions that a form asks for; note what is wrong with its networks."""
    only = form["only"] if form["only"] != _EVERYTHING else None
    restrictions = Restrictions(only, form["networks"].split())
    with form.refused_for("networks"):
        restrictions.columns()
    return restrictions


class KeyRotation(FormPage[ApiKey]):
    """GET, POST /console/keys/{key_id}/rotate. Creates a key's successor, and shows it once."""

    entity, template = _KEYS, "keys/rotate.html"
    fields = (
        Field(
            "grace",
            "Hours",
            "How long the old key still works, so that the new one can be put in place. 0 ends it "
            "now.",
            kind="number",
            most=GRACE_SECONDS_MAX // _HOUR_SECONDS,
        ),
    )

    def _initial(self, row: ApiKey) -> Mapping[str, str]:
        _require_rotatable(row)
        return {"grace": str(ROTATION_GRACE_SECONDS // _HOUR_SECONDS)}

    def _values(self, req: ConsoleRequest, row: ApiKey) -> Values:
        return {"key": row, "version": _version(row)}

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: ApiKey, form: Form) -> None:
        grace_seconds = form.number("grace") * _HOUR_SECONDS

        def rotate(key: ApiKey) -> tuple[tuple[ApiKey, Token], ApiKey]:
            _require_rotatable(key)
            made = administration.rotate_key(self.engine, key.id, grace_seconds, actor=req.actor)
            return made, _KEYS.require(self.engine, key.id)

        keys = _KEYS._replace(refusal=_SENT_BEFORE)
        made, replaced = keys.change(req, self.engine, row.id, rotate)
        _show_new_key(self, req, resp, made, replaced)


def _show_new_key(
    resource: Resource,
    req: ConsoleRequest,
    resp: falcon.Response,
    made: tuple[ApiKey, Token],
    replaced: ApiKey | None = None,
) -> None:
    """Answer with the text of a new key. No other page shows it."""
    key, token = made
    is_over = replaced is not None and (replaced.expires_at or 0) <= clock.now()
    values = {"key": key, "text": token.text, "replaced": replaced, "is_over": is_over}
    resource.show(req, resp, "keys/shown_once.html", values)


def _require_rotatable(key: ApiKey) -> None:
    """Refuse to rotate a key that no longer works, or was rotated before. Raises PageError."""
    if key.status in ("revoked", "expired"):
        text = "Rotating would bring back access that was ended. Create a new key instead."
        raise PageError(409, "This key no longer works", text, back=(PLACE, key.id))
    if key.replaced_by is not None:
        text = f"The key {key.replaced_by} has replaced it. Rotate that one instead."
        raise PageError(409, "This key was rotated before", text, back=(PLACE, key.id))


class KeyRevocation(Confirmation[ApiKey]):
    """GET, POST /console/keys/{key_id}/revoke. The key is refused for good."""

    entity, done, uses_reserve = _KEYS, "revoked", True

    def _question(self, row: ApiKey) -> ConfirmationText:
        label = f" ({row.label})" if row.label else ""
        return ConfirmationText(
            f"Revoke the key {row.id}?",
            f"From the next request on, this key of {row.account.name}{label} gets 401. "
            "This cannot be undone; whoever uses it needs a new key.",
            "Revoke the key",
        )

    def _change(self, row: ApiKey, actor: Actor) -> None:
        administration.revoke_key(self.engine, row.id, actor=actor)
