"""An account's domains in the database; another account's do not exist here (D4)."""

import secrets
import string
from typing import Any

from app import clock
from app.domains.models import STATUSES, Domain
from app.errors import OperatorError, Problem
from app.storage.engine import Engine, Prepared, parameter

_ID_DIGITS = string.digits + string.ascii_letters
_ID_CHARACTERS = 20
_NO_LIMIT = 2**31 - 1
_CREATION_LOCK = 0x766665  # any number of our own; Postgres locks by numbers
_COLUMNS = (Domain.id, Domain.name, Domain.status, Domain.created_at)
Members = dict[str, object]


class Domains:
    """Lists, finds and creates domains; answers are the members of D14."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._list = Prepared(
            engine,
            lambda: (
                Domain.select(*_COLUMNS)
                .where(
                    (Domain.account == parameter("account"))
                    & (Domain.name > parameter("after"))
                    & Domain.status.in_([parameter("first_status"), parameter("second_status")])
                )
                .order_by(Domain.name)
                .limit(parameter("limit"))
            ),
        )
        self._find = Prepared(
            engine,
            lambda: Domain.select(*_COLUMNS).where(
                (Domain.account == parameter("account")) & (Domain.name == parameter("name"))
            ),
        )

    def list_domains(
        self,
        account_id: int,
        *,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Members]:
        """Return the account's domains by name, at most `limit` of those behind `after`."""
        first, second = (status, status) if status else STATUSES
        # Every name is behind the empty text.
        rows = self._list.rows(
            account=account_id,
            after=after or "",
            first_status=first,
            second_status=second,
            limit=_NO_LIMIT if limit is None else limit,
        )
        return [_members(*row) for row in rows]

    def find_domain(self, account_id: int, name: str) -> Members | None:
        """Return the account's domain of that canonical name."""
        row = self._find.row(account=account_id, name=name)
        return _members(*row) if row else None

    def create_domain(self, account_id: int, name: str, domains_max: int) -> Members:
        """Make a domain of a canonical name.

        Raises Problem domain_already_exists, or domain_quota_reached when the account holds
        `domains_max`. Of two at once one is made (D15).
        """
        domain_id = "dom_" + "".join(secrets.choice(_ID_DIGITS) for _ in range(_ID_CHARACTERS))
        values: dict[str, Any] = {"name": name, "status": "active", "created_at": clock.now()}
        with self._engine.atomic():
            self._take_turn(account_id)
            self._require_room(account_id, name, domains_max)
            insert = Domain.insert(id=domain_id, account=account_id, **values)
            insert.execute(self._engine)
        return _members(domain_id, **values)

    def count_domains(self, account_id: int) -> int:
        """Return how many domains the account has."""
        return int(Domain.select().where(Domain.account == account_id).count(self._engine))

    def set_status(self, account_id: int, name: str, status: str) -> Members:
        """Set `active` or `suspended`, as the operator may (D16)."""
        is_it = (Domain.account == account_id) & (Domain.name == name)
        Domain.update(status=status).where(is_it).execute(self._engine)
        domain = self.find_domain(account_id, name)
        if domain is None:
            raise OperatorError(f"the account has no domain {name}")
        return domain

    def _take_turn(self, account_id: int) -> None:
        """Let an account's creations run one by one: two at once would both find room (D15)."""
        self._engine.take_turn(_CREATION_LOCK, account_id)

    def _require_room(self, account_id: int, name: str, domains_max: int) -> None:
        if self.find_domain(account_id, name):
            raise Problem("domain_already_exists", f"The account already has the domain {name}.")
        if self.count_domains(account_id) >= domains_max:
            raise Problem(
                "domain_quota_reached", f"The account's plan allows {domains_max:,} domains."
            )


def _members(id: str, name: str, status: str, created_at: int) -> Members:
    return {"id": id, "name": name, "status": status, "created_at": clock.iso_utc(created_at)}
