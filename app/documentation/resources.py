"""The pages of the service, what they load, and the OpenAPI document."""

import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import cache
from typing import Any

import falcon
import jinja2
import msgspec
import peewee
from markupsafe import Markup, escape

from app import clock
from app.documentation.markdown import markdown_of
from app.documentation.reference import (
    LIBRARIES,
    PACKAGED_URL,
    TYPED_CLIENTS,
    Reference,
    client_library,
    written_samples,
)
from app.errors import CATALOGUE
from app.serve.http.address import base_url
from app.serve.http.caching import (
    CSS,
    JAVASCRIPT,
    SVG,
    Asset,
    own_asset,
    send_asset,
    send_document,
    served_name,
)
from app.serve.http.context import Request
from app.serve.sandbox_errors import ERRORS
from app.settings.values import Network
from app.storage.engine import Engine
from app.storage.versions import tells_unknown
from app.text import capitalised
from app.vehicles.sandbox import judged
from app.version import VERSION

_PACKAGE = "app.documentation"


def _swagger_ui(name: str, content_type: str) -> Asset:
    """Return an unchanged file of the npm package swagger-ui-dist."""
    digest: str = _MANIFEST["files"][name]
    return Asset(_SWAGGER_UI / name, content_type, served_name(name, digest))


_SWAGGER_UI = importlib.resources.files(_PACKAGE) / "swagger-ui"
_MANIFEST = json.loads((_SWAGGER_UI / "manifest.json").read_bytes())

ASSETS: Mapping[str, Asset] = {
    "style.css": own_asset(_PACKAGE, "style.css", CSS),
    "icon.svg": own_asset(_PACKAGE, "icon.svg", SVG),
    "docs.js": own_asset(_PACKAGE, "docs.js", JAVASCRIPT),
    "try.css": own_asset(_PACKAGE, "try.css", CSS),
    "try.js": own_asset(_PACKAGE, "try.js", JAVASCRIPT),
    "swagger-ui.css": _swagger_ui("swagger-ui.css", CSS),
    "swagger-ui-bundle.js": _swagger_ui("swagger-ui-bundle.js", JAVASCRIPT),
}
"""All assets, by the names of their files."""

BY_SERVED_NAME: Mapping[str, Asset] = {asset.served_name: asset for asset in ASSETS.values()}

_DEPTH_MAX = 20
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def _rendered(template: str, here: str, **values: object) -> bytes:
    """Return a page in UTF-8.

    All links are relative, so that they work with a path prefix of a proxy.

    Args:
        template: the name of its file in `templates/`.
        here: the path of the page without its first slash, which menus mark.
        values: the values of the template.
    """
    values |= {"here": here, "root": way_to_root(here.count("/"))}
    return _environment().get_template(template).render(values).encode()


def way_to_root(depth: int) -> str:
    """Return how the links of a page at this depth begin, 0 for one at the root.

    SEC: each link repeats it, so a path of 8,000 slashes would get an answer thirty times its size.
    No page is that deep, so the links of a page about such a path need not know a path prefix.
    """
    return "../" * depth if depth <= _DEPTH_MAX else "/"


def prose(text: str) -> Markup:
    """Return a text of the OpenAPI document or the error catalogue as HTML.

    Only two marks of Markdown are known, because these texts use no others: code and bold.
    """
    # NOTE: a substitution in Markup would escape the inserted elements.
    marked = _CODE.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_STRONG.sub(r"<strong>\1</strong>", marked))  # noqa: S704 - escaped first


def templates_of(package: str) -> jinja2.Environment:
    """Return the templates of the pages of a package."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _environment() -> jinja2.Environment:
    environment = templates_of(_PACKAGE)
    environment.filters |= {"prose": prose, "capitalised": capitalised}
    environment.globals |= {
        "catalogue": CATALOGUE,
        "reference": _reference(),
        "assets": {name: f"docs/{asset.served_name}" for name, asset in ASSETS.items()},
        "version": VERSION,
    }
    return environment


@cache
def read_document() -> dict[str, Any]:
    """Return the OpenAPI document as it is served, with the version of the program.

    The parameters and responses of an operation are in it instead of references to them, which some
    generators ignore: swagger-typescript-api loses every body, openapi-python-generator every
    parameter. Schemas stay references, because they give types their names.

    All callers share it: do not change it.
    """
    text = (importlib.resources.files(_PACKAGE) / "openapi.json").read_bytes()
    document: dict[str, Any] = msgspec.json.decode(text)
    document["info"]["version"] = VERSION
    parameters = document["components"].pop("parameters")
    responses = document["components"].pop("responses")
    for item in document["paths"].values():
        for operation in item.values():
            found = [_inlined(each, parameters) for each in operation.get("parameters", [])]
            operation |= {"parameters": found} if found else {}
            for status, response in operation["responses"].items():
                operation["responses"][status] = _inlined(response, responses)
    return document


def _inlined(node: dict[str, Any], components: dict[str, Any]) -> Any:
    """Return what a reference to one of these components stands for."""
    return components[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


@cache
def _reference() -> Reference:
    return Reference(read_document())


class _Addressed:
    """Answers with the address of the service.

    Args:
        trusted_proxies: whose `X-Forwarded-Proto` counts, besides a peer's on a Unix socket.
    """

    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._trusted_proxies = trusted_proxies

    def _url(self, req: falcon.Request) -> str:
        """Return the address that a request was sent to."""
        # SEC: base_url lets only letters, digits and .:[]- through.
        return base_url(req, self._trusted_proxies) or PACKAGED_URL

    def _addressed(self, req: falcon.Request, page: bytes) -> bytes:
        """Return a page or file with the address of the service in place of the packaged one."""
        return page.replace(PACKAGED_URL.encode(), self._url(req).encode())


class OpenApiDocument(_Addressed):
    """The OpenAPI document."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /openapi.json. Its server is the address that the request was sent to."""
        document = read_document()
        (server,) = document["servers"]
        # Clients use this address as it is.
        body = msgspec.json.encode(document | {"servers": [server | {"url": self._url(req)}]})
        send_document(req, resp, body, falcon.MEDIA_JSON)

    on_head = on_get


# SEC: the pages need nothing but a style sheet and an icon of this service.
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# No path sends CORS headers either: a key in a web page is everybody's.
_DOCS_POLICY = f"{_POLICY}; script-src 'self'"
# SEC: the page handles API keys, so it runs and reaches only this service.
# Swagger UI writes style attributes, hence 'unsafe-inline' for styles alone.
_TRY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_RULE, _ZONE = "RULE-IN-FORCE", "ZONE-IN-FORCE"
"""Stands in the rendered page for one of these sentences, since a database can change its rule."""
_RULES: Mapping[bool | None, str] = {
    True: "This service tells what is not known.",
    False: "This service does not tell what is not known: its operator keeps the rule of 1.0.0.",
    None: "Whether this service tells what is not known could not be read.",
}
# The codes that a client decides by; others are mistakes to correct, or pass by waiting.
_DECISIVE = (
    "vehicle_not_found",
    "invalid_registration",
    "too_many_registrations",
    "domain_not_found",
    "domain_already_exists",
    "domain_quota_reached",
    "events_gone",
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

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /. A page if the client prefers HTML, as browsers do; otherwise links as JSON."""
        resp.set_header("Vary", "Accept")
        if req.prefers_html:
            _send_page(req, resp, _page("start.html", ""))
            return
        send_document(req, resp, self._LINKS, falcon.MEDIA_JSON)

    on_head = on_get


class DocumentationPage(_Addressed):
    """The page that introduces the interface and lists its operations.

    Args:
        trusted_proxies: whose `X-Forwarded-Proto` counts, besides a peer's on a Unix socket.
        engine: the database, which knows whether answers tell what is not known.
        zone: the name of the time zone that decides which day it is.
    """

    def __init__(
        self,
        trusted_proxies: Sequence[Network] = (),
        engine: Engine | None = None,
        zone: str = "UTC",
    ) -> None:
        super().__init__(trusted_proxies)
        self._engine, self._zone = engine, zone

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs. Its samples have the address that the request was sent to."""
        page = self._filled(documentation_page())
        _send_page(req, resp, self._addressed(req, page), _DOCS_POLICY)

    on_head = on_get

    def _filled(self, page: bytes) -> bytes:
        """Return a page that says whether answers tell what is not known (D198), and the zone."""
        page = page.replace(_RULE.encode(), _RULES[self._find_rule()].encode())
        return page.replace(_ZONE.encode(), escape(self._zone).encode())

    def _find_rule(self) -> bool | None:
        """Tell whether answers tell what is not known; None if the database cannot be read."""
        if self._engine is None:
            return None
        try:
            return tells_unknown(self._engine)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            self._engine.recover(error)
            return None


class OperationPage(_Addressed):
    """The page of an operation: what it takes and answers, with samples."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, operation: str) -> None:
        """GET /docs/operations/{operation}. Its samples have the address of the request.

        Raises falcon.HTTPNotFound for all names except the ids of operations for clients.
        """
        page = self._addressed(req, _operation_page(operation))
        _send_page(req, resp, page, _DOCS_POLICY)

    on_head = on_get


class DocumentationMarkdown(DocumentationPage):
    """All of it on one page as Markdown, to paste and for programs that read.

    It is made from the templates of the pages, so that both say the same.
    """

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs.md."""
        page = self._addressed(req, self._filled(_documentation_markdown()))
        send_document(req, resp, page, "text/markdown; charset=utf-8")

    on_head = on_get


class ErrorsPage:
    """The page that the `type` of every error leads to."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs/errors."""
        _send_page(req, resp, _page("errors.html", "docs/errors"))

    on_head = on_get


class TryPage:
    """Swagger UI, to try operations in the browser."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs/try."""
        _send_page(req, resp, _page("try.html", "docs/try"), _TRY_POLICY)

    on_head = on_get


class DocumentationAsset(_Addressed):
    """A file that a page loads, a client library, or a typed client."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, asset: str) -> None:
        """GET /docs/{asset}. A library calls the address that the request was sent to.

        Raises falcon.HTTPNotFound for all names except those that the pages name now.
        """
        if asset in (*LIBRARIES, *TYPED_CLIENTS):
            resp.downloadable_as = asset
            body = self._addressed(req, client_library(asset))
            send_document(req, resp, body, falcon.MEDIA_TEXT)
            return
        if asset not in BY_SERVED_NAME:  # SEC: only these names ever become a path.
            raise falcon.HTTPNotFound
        _set_security_headers(resp, _TRY_POLICY)
        send_asset(resp, BY_SERVED_NAME[asset])

    on_head = on_get


# PERF: each worker renders a page once.
_page = cache(_rendered)


@cache
def documentation_page() -> bytes:
    """Return the page /docs with the packaged address."""
    return _guide("docs.html", "docs")


@cache
def _operation_page(name: str) -> bytes:
    """Return the page of an operation; raises falcon.HTTPNotFound if there is none."""
    operation = _reference().operations.get(name)
    if operation is None:  # SEC: what is not found is not kept.
        raise falcon.HTTPNotFound
    return _rendered("operation_page.html", f"docs/operations/{name}", operation=operation)


@cache
def _documentation_markdown() -> bytes:
    return markdown_of(_guide("whole.html", "").decode()).encode()


def _guide(template: str, here: str) -> bytes:
    return _rendered(
        template,
        here,
        libraries=written_samples("libraries"),
        typed=written_samples("typed"),
        errors=written_samples("unknown_vehicle"),
        decisive={code: CATALOGUE[code] for code in _DECISIVE},
        vehicles=list(judged(clock.today(UTC), tells_unknown=True)),
        provoked=ERRORS,
        rule=_RULE,
        zone=_ZONE,
    )


def send_lost_page(req: falcon.Request, resp: falcon.Response) -> None:
    """Answer 404 with a page for a person; it repeats nothing of the path."""
    _set_security_headers(resp, _POLICY)
    resp.status = falcon.HTTP_404
    resp.content_type = falcon.MEDIA_HTML
    resp.set_header("Vary", "Accept")
    # It is not the path of any page, and can have any number of segments.
    resp.data = _rendered("lost.html", req.env["PATH_INFO"][1:])


def _send_page(
    req: falcon.Request, resp: falcon.Response, page: bytes, policy: str = _POLICY
) -> None:
    _set_security_headers(resp, policy)
    send_document(req, resp, page, falcon.MEDIA_HTML)


def _set_security_headers(resp: falcon.Response, policy: str) -> None:
    resp.set_header("Content-Security-Policy", policy)
    resp.set_header("X-Content-Type-Options", "nosniff")
