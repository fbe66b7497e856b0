"""Checks the keys of requests with one compiled query per request, without a cache (D3)."""

import hmac
from typing import NamedTuple

from app import clock
from app.accounts.models import Account, ApiKey, Plan
from app.accounts.tokens import parse_token
from app.storage.engine import Engine, Prepared, parameter
from app.storage.registers import state_expression


class Caller(NamedTuple):
    """The account of a valid key, its plan, and the state of the registers at that moment."""

    account_id: int
    account: str
    """The account's name."""
    key_id: str
    plan: str
    requests: int
    window_seconds: int
    bulk_max: int
    domains_max: int
    registers: str
    """The state of the registers (D36); empty if there are none."""


class Authenticator:
    """Checks the keys of requests against the database."""

    def __init__(self, engine: Engine) -> None:
        self._find = Prepared(
            engine,
            lambda: (
                ApiKey.select(
                    Account.tag,
                    ApiKey.secret_hash,
                    ApiKey.expires_at,
                    ApiKey.revoked_at,
                    Account.id,
                    Account.name,
                    ApiKey.id,
                    Plan.name,
                    Plan.requests,
                    Plan.window_seconds,
                    Plan.bulk_max,
                    Plan.domains_max,
                    state_expression(),
                )
                .join(Account)
                .join(Plan)
                .where(ApiKey.id == parameter("key_id"), Account.suspended_at.is_null())
            ),
        )

    def find_caller(self, key: str) -> Caller | None:
        """Return the account of a key; None if the key does not work.

        A key does not work if it is malformed, unknown, expired or revoked, or if its account is
        suspended. Raises peewee.PeeweeException if the database cannot answer.
        """
        token = parse_token(key)
        if token is None:
            return None
        row = self._find.row(key_id=token.key_id)
        if row is None:
            return None
        tag, secret_hash, expires_at, revoked_at, *caller, registers = row
        is_right = hmac.compare_digest(secret_hash, token.secret_hash)
        if not is_right or tag != token.account_tag or revoked_at is not None:
            return None
        if expires_at is not None and expires_at <= clock.now():
            return None
        return Caller._make((*caller, registers or ""))
