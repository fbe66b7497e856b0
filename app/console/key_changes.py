"""What the console changes about keys: create, rotate and revoke (D41, D136).

SEC: a new key is in the answer to the form that made it, and nowhere else. A form that is sent
again, as by reloading that page, makes no second key: its version is that of an earlier state.
"""

from functools import partial

import falcon

from app import clock
from app.accounts import administration
from app.accounts.administration import GRACE_SECONDS_MAX, ROTATION_GRACE_SECONDS, status_of_key
from app.accounts.authentication import Token
from app.accounts.models import Account, ApiKey
from app.actions import changing
from app.console.accounts import PLACE as ACCOUNTS
from app.console.accounts import require_account, sentence
from app.console.forms import Field, Form, require_version, version_of
from app.console.keys import PLACE, require_key
from app.console.rendering import ConsoleRequest, PageError, Renderer, Services, actor_of, redirect
from app.errors import OperatorError
from app.storage import reserve
from app.storage.engine import Engine

_HOUR_SECONDS = 3600
_CREATION = (
    Field("label", "Label", "Tells keys apart, such as billing or test.", is_required=False),
    Field(
        "expires",
        "Last day",
        "The key works until the end of this day in UTC. Without a day it does not expire.",
        is_required=False,
        kind="date",
    ),
)
_ROTATION = (
    Field(
        "grace",
        "Hours",
        "How long the old key still works, so that the new one can be put in place. 0 ends it now.",
        kind="number",
        most=GRACE_SECONDS_MAX // _HOUR_SECONDS,
    ),
)


class KeyCreation:
    """The form for a new key of an account."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """GET /console/accounts/{tag}/keys/new."""
        self._show(req, resp, require_account(self._services.engine, tag), Form(_CREATION))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, tag: str) -> None:
        """POST /console/accounts/{tag}/keys/new. Shows the key, once."""
        engine, _, _, pages, _ = self._services
        account = require_account(engine, tag)
        form = Form.received(req, _CREATION)
        if form.is_sound:
            try:
                key, token = self._create(req, tag, form)
            except OperatorError as error:
                form.faults["expires"] = sentence(error)
            else:
                _show_new_key(pages, req, resp, key, token)
                return
        resp.status = falcon.HTTP_422
        self._show(req, resp, account, form)

    def _create(self, req: ConsoleRequest, tag: str, form: Form) -> tuple[ApiKey, Token]:
        engine, day = self._services.engine, form.day("expires")
        with changing(engine):
            engine.lock_rows(Account.select().where(Account.tag == tag))
            account = require_account(engine, tag)
            _require_unsent(req, _version_of_keys(engine, account), (ACCOUNTS, tag))
            return administration.create_key(
                engine,
                account.name,
                form["label"],
                administration.end_of_day(day) if day else None,
                actor=actor_of(req),
            )

    def _show(
        self, req: ConsoleRequest, resp: falcon.Response, account: Account, form: Form
    ) -> None:
        version = _version_of_keys(self._services.engine, account)
        self._services.pages.send(
            req, resp, "keys/new.html", account=account, form=form, version=version
        )


class KeyRotation:
    """The form for the successor of a key."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, key_id: str) -> None:
        """GET /console/keys/{key_id}/rotate."""
        key = require_key(self._services.engine, key_id)
        _require_rotatable(key)
        hours = ROTATION_GRACE_SECONDS // _HOUR_SECONDS
        self._show(req, resp, key, Form(_ROTATION, {"grace": str(hours)}))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, key_id: str) -> None:
        """POST /console/keys/{key_id}/rotate. Shows the new key, once."""
        engine, _, _, pages, _ = self._services
        key = require_key(engine, key_id)
        form = Form.received(req, _ROTATION)
        if not form.is_sound:
            resp.status = falcon.HTTP_422
            self._show(req, resp, key, form)
            return
        grace_seconds = form.number("grace") * _HOUR_SECONDS
        with changing(engine):
            engine.lock_rows(ApiKey.select().where(ApiKey.id == key_id))
            key = require_key(engine, key_id)
            _require_unsent(req, _version(key), (PLACE, key_id))
            _require_rotatable(key)
            made, token = administration.rotate_key(
                engine, key_id, grace_seconds, actor=actor_of(req)
            )
            old = require_key(engine, key_id)
        _show_new_key(pages, req, resp, made, token, old)

    def _show(self, req: ConsoleRequest, resp: falcon.Response, key: ApiKey, form: Form) -> None:
        self._services.pages.send(
            req, resp, "keys/rotate.html", key=key, form=form, version=_version(key)
        )


class KeyRevocation:
    """The confirmation that a key is refused for good."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, key_id: str) -> None:
        """GET /console/keys/{key_id}/revoke. Asks for confirmation."""
        key = require_key(self._services.engine, key_id)
        label = f" ({key.label})" if key.label else ""
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Revoke the key {key.id}?",
            text=(
                f"From the next request on, this key of {key.account.name}{label} gets 401. "
                "This cannot be undone; whoever uses it needs a new key."
            ),
            button="Revoke the key",
            back=(PLACE, key_id),
            version=_version(key),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, key_id: str) -> None:
        """POST /console/keys/{key_id}/revoke. Works on a full disk, too (D57)."""
        engine = self._services.engine
        reserve.with_reserve(engine, partial(_revoke, req, engine, key_id))
        redirect(req, resp, PLACE, key_id, done="revoked")


def _revoke(req: ConsoleRequest, engine: Engine, key_id: str) -> None:
    with changing(engine):
        engine.lock_rows(ApiKey.select().where(ApiKey.id == key_id))
        require_version(req, _version(require_key(engine, key_id)), (PLACE, key_id))
        administration.revoke_key(engine, key_id, actor=actor_of(req))


def _require_rotatable(key: ApiKey) -> None:
    """Refuse to rotate a key that no longer works, or was rotated before. Raises PageError."""
    if status_of_key(key) in ("revoked", "expired"):
        text = "Rotating would bring back access that was ended. Create a new key instead."
        raise PageError(409, "This key no longer works", text, back=(PLACE, key.id))
    if key.replaced_by is not None:
        text = f"The key {key.replaced_by} has replaced it. Rotate that one instead."
        raise PageError(409, "This key was rotated before", text, back=(PLACE, key.id))


def _require_unsent(req: ConsoleRequest, current: str, back: tuple[str, ...]) -> None:
    """Refuse a form that has made a key already. Raises PageError."""
    require_version(
        req,
        current,
        back,
        "The keys have changed meanwhile",
        "No key was created by this form. If you have sent it before, as by reloading the page "
        "with the new key: that key exists, and is not shown again. Revoke it if nobody saved it.",
    )


def _show_new_key(
    pages: Renderer,
    req: ConsoleRequest,
    resp: falcon.Response,
    key: ApiKey,
    token: Token,
    replaced: ApiKey | None = None,
) -> None:
    """Answer with the text of a new key, which nothing shows again."""
    is_over = replaced is not None and (replaced.expires_at or 0) <= clock.now()
    pages.send(
        req,
        resp,
        "keys/shown_once.html",
        key=key,
        text=token.text,
        replaced=replaced,
        is_over=is_over,
    )


def _version_of_keys(engine: Engine, account: Account) -> str:
    keys = ApiKey.select(ApiKey.id).where(ApiKey.account == account).order_by(ApiKey.id)
    return version_of(account.tag, [key.id for key in keys.execute(engine)])


def _version(key: ApiKey) -> str:
    return version_of(key.id, key.label, key.expires_at, key.revoked_at, key.replaced_by)
