"""The domain operations."""

import falcon
import msgspec

from app import clock
from app.domains.names import InvalidDomainName, require_domain_name
from app.domains.repository import (
    STATUSES,
    DomainExists,
    DomainQuotaReached,
    Domains,
    DomainSuspended,
    HeldDomain,
)
from app.errors import Problem
from app.serve.http.bodies import RequestBody, answer, read_json
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import (
    choice_parameter,
    integer_parameter,
    invalid_parameter,
    require_known_parameters,
    text_parameter,
)
from app.serve.sandbox_errors import refuse_domain

PAGE_DOMAINS_MAX = 1_000
_NOT_FOUND = "The account has no such domain."


class DomainRequest(RequestBody):
    """What a client sends to create a domain."""

    name: str


class DomainBody(msgspec.Struct):
    """A domain in an answer."""

    id: str
    name: str
    status: str
    created_at: str
    """`YYYY-MM-DDTHH:MM:SSZ`."""


class DomainListBody(msgspec.Struct):
    """All domains of the caller's account."""

    domains: list[DomainBody]


class DomainPageBody(DomainListBody):
    """One page of the domains of the caller's account."""

    next: str | None
    """The `after` of the next page; None on the last page."""


class DomainCollection:
    """The domains of the caller's account."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /api/domains. All of them by name, or a page of `limit` and `next`."""
        require_known_parameters(req, "limit", "after", "status")
        caller = caller_of(req)
        status = choice_parameter(req, "status", STATUSES)
        after = _after(req)
        limit = integer_parameter(req, "limit", 1, PAGE_DOMAINS_MAX)
        if caller.is_sandbox and after is not None:
            refuse_domain("list_domains", after)
        # One more than the page holds shows whether there is a next page.
        wanted = None if limit is None else limit + 1
        domains = self._domains.list_domains(
            caller.account_id, status=status, after=after, limit=wanted
        )
        if limit is None:
            answer(resp, DomainListBody(list(map(_body, domains))))
            return
        page = domains[:limit]
        following = page[-1].name if len(domains) > limit else None
        # With `limit`, `next` is always there: a loop over the pages needs no special case.
        answer(resp, DomainPageBody(list(map(_body, page)), following))

    on_head = on_get

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """POST /api/domains. 201 with the whole Domain and its `Location`."""
        require_known_parameters(req, members=DomainRequest.__struct_fields__)
        caller = caller_of(req)
        sent = read_json(req, DomainRequest)
        try:
            name = require_domain_name(sent.name)
        except InvalidDomainName as error:
            raise Problem.at("/name", "invalid_domain_name", str(error)) from None
        if caller.is_sandbox:
            refuse_domain("create_domain", name)
        domain = self._create(caller.account_id, name, caller.domains_max)
        resp.status = falcon.HTTP_201
        resp.location = f"/api/domains/{name}"
        answer(resp, _body(domain))

    def _create(self, account_id: int, name: str, domains_max: int) -> HeldDomain:
        try:
            return self._domains.create_domain(account_id, name, domains_max)
        except DomainExists:
            detail = f"The account already has the domain {name}."
            raise Problem("domain_already_exists", detail) from None
        except DomainQuotaReached:
            domains = "the only domain" if domains_max == 1 else f"all {domains_max:,} domains"
            detail = f"The account has {domains} that its plan allows."
            raise Problem("domain_quota_reached", detail) from None


class DomainItem:
    """One domain of the caller's account, by name."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def on_get(self, req: Request, resp: falcon.Response, domain: str) -> None:
        """GET /api/domains/{domain}. The name in any case or IDN form."""
        require_known_parameters(req)
        caller, name = caller_of(req), _require_name(domain)
        if caller.is_sandbox:
            refuse_domain("get_domain", name)
        found = self._domains.find_domain(caller.account_id, name)
        if found is None:
            raise Problem("domain_not_found", _NOT_FOUND)
        answer(resp, _body(found))

    on_head = on_get

    def on_delete(self, req: Request, resp: falcon.Response, domain: str) -> None:
        """DELETE /api/domains/{domain}. 204; a suspended domain stays."""
        require_known_parameters(req)
        caller, name = caller_of(req), _require_name(domain)
        if caller.is_sandbox:
            refuse_domain("delete_domain", name)
        try:
            is_deleted = self._domains.delete_domain(caller.account_id, name)
        except DomainSuspended:
            detail = f"The domain {name} is suspended. Only the operator can lift that."
            raise Problem("domain_suspended", detail) from None
        if not is_deleted:
            raise Problem("domain_not_found", _NOT_FOUND)
        resp.status = falcon.HTTP_204


def _require_name(text: str) -> str:
    """Return the canonical name. Raises Problem domain_not_found if the text is no name."""
    try:
        return require_domain_name(text)
    except InvalidDomainName as error:
        raise Problem("domain_not_found", str(error)) from None


def _body(domain: HeldDomain) -> DomainBody:
    return DomainBody(domain.id, domain.name, domain.status, clock.iso_utc(domain.created_at))


def _after(req: Request) -> str | None:
    """Return the name after which the list begins. Raises Problem invalid_parameter."""
    text = text_parameter(req, "after")
    if text is None:
        return None
    try:
        return require_domain_name(text)
    except InvalidDomainName as error:
        raise invalid_parameter("after", f"must be a domain name. {error}") from None
