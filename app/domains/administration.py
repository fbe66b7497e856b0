"""Lets an operator suspend and activate domains (D16)."""

from typing import Literal

from app.actions import Name, Subject, changing, record
from app.actor import Actor
from app.domains.models import Domain
from app.domains.repository import Domains, HeldDomain
from app.storage.engine import Engine

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
    """Set the status of an account's domain, and record who did it (D130).

    Args:
        name: the canonical name (D14).
        actor: None for whoever runs this process.

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
