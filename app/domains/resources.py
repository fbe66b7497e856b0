"""The domain operations (spec 4)."""

import falcon
import msgspec

from app.domains.models import STATUSES
from app.domains.names import canonical_domain_name
from app.domains.repository import Domains
from app.errors import Problem
from app.http.bodies import answer, read_json
from app.http.context import caller_of
from app.http.parameters import (
    choice_parameter,
    integer_parameter,
    invalid_parameter,
    text_parameter,
)

PAGE_DOMAINS_MAX = 1_000


class NewDomain(msgspec.Struct):
    """What a client sends to create a domain."""

    name: str


class DomainCollection:
    """The domains of the caller's account."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /api/domains. All of them by name, or a page of `limit` and `next` (D17)."""
        account_id = caller_of(req).account_id
        status = choice_parameter(req, "status", STATUSES)
        after = _name_parameter(req, "after")
        limit = integer_parameter(req, "limit", 1, PAGE_DOMAINS_MAX)
        if limit is None:
            domains = self._domains.list_domains(account_id, status=status, after=after)
            answer(resp, {"domains": domains})
            return
        # One more than asked for tells whether there is a next page.
        domains = self._domains.list_domains(
            account_id, status=status, after=after, limit=limit + 1
        )
        page = domains[:limit]
        has_more = len(domains) > limit
        answer(resp, {"domains": page, "next": page[-1]["name"] if has_more else None})

    on_head = on_get

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """POST /api/domains. 201 with the whole Domain and its `Location` (D15)."""
        caller = caller_of(req)
        sent = read_json(req, NewDomain)
        name = canonical_domain_name(sent.name)
        if name is None:
            raise Problem.at("/name", "invalid_domain_name", "This is not a domain name.")
        domain = self._domains.create_domain(caller.account_id, name, caller.domains_max)
        resp.status = falcon.HTTP_201
        resp.location = f"/api/domains/{name}"
        answer(resp, domain)


class DomainItem:
    """One domain of the caller's account, by name."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def on_get(self, req: falcon.Request, resp: falcon.Response, domain: str) -> None:
        """GET /api/domains/{domain}. The name in any case or IDN form (D18)."""
        name = canonical_domain_name(domain)
        found = name and self._domains.find_domain(caller_of(req).account_id, name)
        if not found:
            raise Problem("domain_not_found", "The account has no such domain.")
        answer(resp, found)

    on_head = on_get


def _name_parameter(req: falcon.Request, name: str) -> str | None:
    text = text_parameter(req, name)
    if text is None:
        return None
    canonical = canonical_domain_name(text)
    if canonical is None:
        raise invalid_parameter(name, "must be a domain name")
    return canonical
