"""An account's domains in the database; another account's do not exist here (D4)."""

import secrets
import string
from typing import Literal, NamedTuple

import peewee

from app import clock
from app.actions import Actor, Name, Subject, changing, record
from app.domains.names import IDENTIFIER_PREFIX
from app.storage.engine import Engine, Prepared, parameter

STATUSES = ("active", "suspended")


class Domain(peewee.Model):
    """One name of one account; unique within the account."""

    id = peewee.FixedCharField(24, primary_key=True)
    # NOTE: the account's number instead of a foreign key: domains must not import accounts.
    account = peewee.IntegerField(column_name="account_id")
    name = peewee.CharField(253)
    status = peewee.CharField(10)
    created_at = peewee.BigIntegerField()

    class Meta:
        table_name = "domain"


_ID_DIGITS = string.digits + string.ascii_letters
_ID_CHARACTERS = 20
_NO_LIMIT = 2**31 - 1
_CREATION_LOCK = 0x766665  # Postgres locks by numbers; any number serves.
_COLUMNS = (Domain.id, Domain.name, Domain.status, Domain.created_at)


class HeldDomain(NamedTuple):
    """A domain that an account holds."""

    id: str
    name: str
    """The canonical name."""
    status: str
    """One of STATUSES."""
    created_at: int
    """Unix seconds."""


class DomainExists(Exception):
    """The account holds a domain of this name already."""


class DomainSuspended(Exception):
    """The domain is suspended."""


class DomainQuotaReached(Exception):
    """The account holds as many domains as its plan allows."""


class Domains:
    """Lists, finds, creates, counts and deletes domains, and sets their status."""

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
    ) -> list[HeldDomain]:
        """Return the account's domains by name: at most `limit`, from names after `after`."""
        first, second = (status, status) if status else STATUSES
        # Every name sorts after the empty text.
        rows = self._list.rows(
            account=account_id,
            after=after or "",
            first_status=first,
            second_status=second,
            limit=_NO_LIMIT if limit is None else limit,
        )
        return [HeldDomain._make(row) for row in rows]

    def find_domain(self, account_id: int, name: str) -> HeldDomain | None:
        """Return the account's domain of a canonical name, None if there is none."""
        row = self._find.row(account=account_id, name=name)
        return HeldDomain._make(row) if row else None

    def create_domain(self, account_id: int, name: str, domains_max: int) -> HeldDomain:
        """Create a domain of a canonical name and return it.

        Raises DomainExists, or DomainQuotaReached if the account holds `domains_max`. Of two
        requests at once for one name, one succeeds.
        """
        digits = (secrets.choice(_ID_DIGITS) for _ in range(_ID_CHARACTERS))
        domain_id = IDENTIFIER_PREFIX + "".join(digits)
        created = HeldDomain(domain_id, name, "active", clock.now())
        with self._engine.atomic():
            # Two creations at once would both find room.
            self._engine.take_advisory_lock(_CREATION_LOCK, account_id)
            # A name is unique within its account: a refusal must not tell what others hold. It
            # comes before the quota, because that the name is there already tells the client more.
            if self.find_domain(account_id, name):
                raise DomainExists(name)
            if self.count_domains(account_id) >= domains_max:
                raise DomainQuotaReached(name)
            insert = Domain.insert(account=account_id, **created._asdict())
            insert.execute(self._engine)
        return created

    def count_domains(self, account_id: int) -> int:
        """Return how many domains the account has."""
        return int(Domain.select().where(Domain.account == account_id).count(self._engine))

    def set_status(self, account_id: int, name: str, status: str) -> HeldDomain | None:
        """Set `active` or `suspended`; return the domain, None if the account has none."""
        is_it = (Domain.account == account_id) & (Domain.name == name)
        Domain.update(status=status).where(is_it).execute(self._engine)
        return self.find_domain(account_id, name)

    def delete_domain(self, account_id: int, name: str) -> bool:
        """Delete the account's domain of a canonical name; return False if it has none.

        Raises DomainSuspended: deleting and creating again would lift the suspension. A domain
        that is suspended at the same moment is either deleted first or kept.
        """
        is_it = (Domain.account == account_id) & (Domain.name == name)
        with self._engine.atomic():
            deleted = Domain.delete().where(is_it, Domain.status != "suspended")
            if deleted.execute(self._engine):
                return True
            found = self.find_domain(account_id, name)
        # On Postgres it may have been created or activated since.
        if found and found.status == "suspended":
            raise DomainSuspended(name)
        return False


_ACTIONS: dict[str, Name] = {"suspended": "domains.suspend", "active": "domains.activate"}


def set_domain_status(
    engine: Engine,
    account_id: int,
    account_name: str,
    name: str,
    status: Literal["active", "suspended"],
    *,
    actor: Actor | None = None,
) -> HeldDomain | None:
    """Set the status of an account's domain, and record who did it.

    Args:
        name: the canonical name.
        actor: None for the user of this process.

    Returns the domain; None if the account has none of that name.
    """
    domains = Domains(engine)
    with changing(engine):
        is_it = (Domain.account == account_id) & (Domain.name == name)
        # On Postgres, the account could delete it meanwhile.
        engine.lock_rows(Domain.select().where(is_it))
        former = domains.find_domain(account_id, name)
        domain = domains.set_status(account_id, name, status)
        if former is not None:
            subject = Subject("domain", name, account_name)
            states = {"status": former.status}, {"status": status}
            record(engine, actor, _ACTIONS[status], subject, *states)
        return domain
