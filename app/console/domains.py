"""The pages of domains: all of them, one, suspend and activate."""

from typing import Protocol

import falcon
import peewee

from app.accounts.models import Account
from app.actions import Actor
from app.console.accounts import ACCOUNTS
from app.console.form_pages import Confirmation, ConfirmationText, Entity, first_row
from app.console.forms import version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, view
from app.domains.repository import STATUSES, Domain, set_domain_status

_PLACE = "domains"
_SORTABLE = {
    "name": Domain.name,
    "account": Account.name,
    "status": Domain.status,
    "created": Domain.created_at,
}
_CONDITIONS = {
    "q": Domain.name.contains,
    "status": lambda status: Domain.status == status,
    "account": lambda tag: Account.tag == tag,
}


class _OwnedDomain(Protocol):
    """A domain with the number and name of its account."""

    id: str
    name: str
    status: str
    account_id: int
    account_name: str


def _domains() -> "peewee.ModelSelect[Domain]":
    """Return a query for all domains, each as an _OwnedDomain."""
    return (
        Domain.select(
            Domain.id,
            Domain.name,
            Domain.status,
            Domain.created_at,
            Account.id.alias("account_id"),
            Account.name.alias("account_name"),
            Account.tag.alias("account_tag"),
        )
        .join(Account, on=Domain.account == Account.id)
        .namedtuples()
    )


_DOMAINS = Entity[_OwnedDomain](
    "domain",
    _PLACE,
    lambda domain_id: Domain.select().where(Domain.id == domain_id),
    lambda domain: version_of(domain.id, domain.name, domain.status),
    lambda engine, domain_id: first_row(engine, _domains().where(Domain.id == domain_id)),
    "Its account has deleted it, or it never was.",
)


class DomainList(Resource):
    """The domains of all accounts, or of one."""

    @view("domains/list.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/domains. Parameters: `q`, `status`, `account` (a tag), `sort`, `page`."""
        filters = {"q": (), "status": STATUSES, "account": ()}
        listing = Listing(req, _SORTABLE, Domain.id, filters)
        tag = listing.filters["account"]
        return {
            "listing": listing,
            "domains": listing.rows(_domains(), self.engine, _CONDITIONS),
            "account": ACCOUNTS.find(self.engine, tag) if tag else None,
        }


class DomainPage(Resource):
    """One domain."""

    @view("domains/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, domain_id: str) -> Values:
        """GET /console/domains/{domain_id}."""
        return {"domain": _DOMAINS.require(self.engine, domain_id)}


class DomainSuspension(Confirmation[_OwnedDomain]):
    """GET, POST /console/domains/{domain_id}/suspend."""

    entity, done = _DOMAINS, "suspended"

    def _question(self, row: _OwnedDomain) -> ConfirmationText:
        return ConfirmationText(
            f"Suspend {row.name}?",
            f"{row.account_name} sees that its domain is suspended, and cannot delete it. "
            "You can activate it at any time.",
            "Suspend the domain",
        )

    def _change(self, row: _OwnedDomain, actor: Actor) -> None:
        owner = row.account_id, row.account_name
        set_domain_status(self.engine, *owner, row.name, "suspended", actor=actor)


class DomainActivation(Confirmation[_OwnedDomain]):
    """GET, POST /console/domains/{domain_id}/activate."""

    entity, done = _DOMAINS, "activated"

    def _question(self, row: _OwnedDomain) -> ConfirmationText:
        text = f"{row.account_name} can use and delete its domain again."
        return ConfirmationText(
            f"Activate {row.name}?", text, "Activate the domain", is_dangerous=False
        )

    def _change(self, row: _OwnedDomain, actor: Actor) -> None:
        owner = row.account_id, row.account_name
        set_domain_status(self.engine, *owner, row.name, "active", actor=actor)
