"""The pages of domains: all of them, one, suspend and activate (D16, D136)."""

from typing import Any, Literal

import falcon

from app.accounts.models import Account
from app.actions import changing
from app.console.accounts import find_account
from app.console.forms import require_version, version_of
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, PageError, Services, actor_of, redirect
from app.domains.repository import STATUSES, Domain, set_domain_status
from app.storage.engine import Engine

_PLACE = "domains"
_SORTABLE = {
    "name": Domain.name,
    "account": Account.name,
    "status": Domain.status,
    "created": Domain.created_at,
}


class DomainList:
    """The domains of all accounts, or of one."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/domains. Parameters: `q`, `status`, `account` (a tag), `sort`, `page`."""
        engine = self._services.engine
        filters = {"q": (), "status": STATUSES, "account": ()}
        listing = Listing(req, _SORTABLE, Domain.id, filters)
        tag = listing.filters["account"]
        self._services.pages.send(
            req,
            resp,
            "domains/list.html",
            listing=listing,
            domains=listing.rows(_chosen(listing.filters), engine),
            statuses=STATUSES,
            account=find_account(engine, tag) if tag else None,
        )

    on_head = on_get


class DomainPage:
    """One domain."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, domain_id: str) -> None:
        """GET /console/domains/{domain_id}."""
        self._services.pages.send(
            req,
            resp,
            "domains/detail.html",
            domain=_require_domain(self._services.engine, domain_id),
            done=req.get_param("done"),
        )

    on_head = on_get


class DomainSuspension:
    """The confirmation that a domain is suspended."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, domain_id: str) -> None:
        """GET /console/domains/{domain_id}/suspend. Asks for confirmation."""
        domain = _require_domain(self._services.engine, domain_id)
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Suspend {domain.name}?",
            text=(
                f"{domain.account_name} sees that its domain is suspended, and cannot delete it. "
                "You can activate it at any time."
            ),
            button="Suspend the domain",
            back=(_PLACE, domain_id),
            version=_version(domain),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, domain_id: str) -> None:
        """POST /console/domains/{domain_id}/suspend."""
        _set_status(req, self._services.engine, domain_id, "suspended")
        redirect(req, resp, _PLACE, domain_id, done="suspended")


class DomainActivation:
    """The confirmation that a suspended domain is active again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, domain_id: str) -> None:
        """GET /console/domains/{domain_id}/activate. Asks for confirmation."""
        domain = _require_domain(self._services.engine, domain_id)
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Activate {domain.name}?",
            text=f"{domain.account_name} can use and delete its domain again.",
            button="Activate the domain",
            back=(_PLACE, domain_id),
            version=_version(domain),
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, domain_id: str) -> None:
        """POST /console/domains/{domain_id}/activate."""
        _set_status(req, self._services.engine, domain_id, "active")
        redirect(req, resp, _PLACE, domain_id, done="activated")


def _set_status(
    req: ConsoleRequest, engine: Engine, domain_id: str, status: Literal["active", "suspended"]
) -> None:
    """Set the status of a domain, unless somebody else has changed it since the form was made."""
    with changing(engine):
        engine.lock_rows(Domain.select().where(Domain.id == domain_id))
        domain = _require_domain(engine, domain_id)
        require_version(req, _version(domain), (_PLACE, domain_id))
        names = domain.account_name, domain.name
        set_domain_status(engine, domain.account_id, *names, status, actor=actor_of(req))


def _domains() -> Any:
    """Return a query for all domains, each with the name and tag of its account."""
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


def _chosen(filters: dict[str, str]) -> Any:
    """Return a query for the domains that the filters leave."""
    query = _domains()
    if filters["q"]:
        query = query.where(Domain.name.contains(filters["q"]))
    if filters["status"]:
        query = query.where(Domain.status == filters["status"])
    if filters["account"]:
        query = query.where(Account.tag == filters["account"])
    return query


def _require_domain(engine: Engine, domain_id: str) -> Any:
    """Return the domain with this id. Raises PageError if there is none."""
    # NOTE: not first(), which leaves a statement open with named tuples. On SQLite no later
    # transaction of this connection could write then.
    found = list(_domains().where(Domain.id == domain_id).execute(engine))
    if not found:
        text = "Its account has deleted it, or it never was."
        raise PageError(404, "There is no such domain", text, back=(_PLACE,))
    return found[0]


def _version(domain: Any) -> str:
    return version_of(domain.id, domain.name, domain.status)
