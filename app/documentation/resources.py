"""The resources of the pages. Each worker renders a page once, when it is first asked for."""

from collections.abc import Sequence
from functools import cache

import falcon
import msgspec

from app.documentation.assets import BY_SERVED_NAME
from app.documentation.openapi_document import read_document
from app.documentation.reference import Reference
from app.documentation.rendering import render
from app.documentation.samples import client_samples, error_samples
from app.error_codes import CATALOGUE
from app.serve.http.assets import send_asset
from app.serve.http.base_url import base_url
from app.serve.http.caching import send_document
from app.setting_values import Network
from app.version import VERSION

_HTML = "text/html; charset=utf-8"
# SEC: the pages need nothing but a style sheet and an icon of this service.
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# SEC: the page handles API keys; it may run and reach nothing that this service did not send.
# Swagger UI writes style attributes, hence 'unsafe-inline' for styles alone.
_TRY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# The codes that a client decides by; others are mistakes to correct, or pass by waiting.
_DECISIVE = (
    "vehicle_not_found",
    "invalid_registration",
    "too_many_registrations",
    "domain_not_found",
    "domain_already_exists",
    "domain_quota_reached",
    "domain_suspended",
    "unauthorized",
    "rate_limit_exceeded",
)


class StartPage:
    """Where a visitor of the service's address finds everything else."""

    _LINKS = msgspec.json.encode(
        {
            "name": "verifyd",
            "version": VERSION,
            "documentation": "/docs",
            "openapi": "/openapi.json",
            "errors": "/docs/errors",
            "health": "/healthz",
        }
    )

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /. A page if the client prefers HTML, as browsers do; otherwise links as JSON."""
        resp.set_header("Vary", "Accept")
        if req.client_prefers((falcon.MEDIA_JSON, falcon.MEDIA_HTML)) == falcon.MEDIA_HTML:
            _send_page(req, resp, _start_page())
            return
        resp.set_header("X-Content-Type-Options", "nosniff")
        send_document(req, resp, self._LINKS, falcon.MEDIA_JSON)

    on_head = on_get


class DocumentationPage:
    """The page that introduces the interface and describes each operation.

    Args:
        trusted_proxies: whose `X-Forwarded-Proto` counts (D94), besides a peer's on a Unix socket.
    """

    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._trusted_proxies = trusted_proxies

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs. Its samples have the address that the request was sent to (D94)."""
        page, packaged_url = _documentation_page()
        # SEC: base_url lets only letters, digits and .:[]- through.
        url = base_url(req, self._trusted_proxies) or packaged_url
        _send_page(req, resp, page.replace(packaged_url.encode(), url.encode()))

    on_head = on_get


class ErrorsPage:
    """The page that the `type` of every error leads to (D90)."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs/errors."""
        _send_page(req, resp, _errors_page())

    on_head = on_get


class TryPage:
    """Swagger UI, to try operations in the browser (D63)."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs/try."""
        _send_page(req, resp, _try_page(), _TRY_POLICY)

    on_head = on_get


class DocumentationAsset:
    """A file that a page loads."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, asset: str) -> None:
        """GET /docs/{asset}.

        Raises falcon.HTTPNotFound for all names except those that the pages name now.
        """
        if asset not in BY_SERVED_NAME:  # SEC: only these names ever become a path.
            raise falcon.HTTPNotFound
        _set_security_headers(resp, _TRY_POLICY)
        send_asset(req, resp, BY_SERVED_NAME[asset])

    on_head = on_get


@cache
def _start_page() -> bytes:
    return render("start.html", "")


@cache
def _documentation_page() -> tuple[bytes, str]:
    """Return the page, and the address in it that stands for the service's."""
    document = read_document()
    url: str = document["servers"][0]["url"]
    page = render(
        "docs.html",
        "",
        reference=Reference(document),
        clients=client_samples(url),
        errors=error_samples(url),
        decisive={code: CATALOGUE[code] for code in _DECISIVE},
        url=url,
    )
    return page, url


@cache
def _errors_page() -> bytes:
    return render("errors.html", "../", catalogue=CATALOGUE)


@cache
def _try_page() -> bytes:
    return render("try.html", "../")


def _send_page(
    req: falcon.Request, resp: falcon.Response, page: bytes, policy: str = _POLICY
) -> None:
    _set_security_headers(resp, policy)
    send_document(req, resp, page, _HTML)


def _set_security_headers(resp: falcon.Response, policy: str) -> None:
    resp.set_header("Content-Security-Policy", policy)
    resp.set_header("X-Content-Type-Options", "nosniff")
