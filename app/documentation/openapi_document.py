"""The OpenAPI document, with the version of the program and the address of the service (D94)."""

import importlib.resources
from collections.abc import Sequence
from typing import Any

import falcon
import msgspec

from app.serve.http.base_url import base_url
from app.serve.http.caching import send_document
from app.setting_values import Network
from app.version import VERSION


def read_document() -> dict[str, Any]:
    """Return the OpenAPI document with the version of the program."""
    text = (importlib.resources.files(__package__) / "openapi.json").read_bytes()
    document: dict[str, Any] = msgspec.json.decode(text)
    document["info"]["version"] = VERSION
    return document


class OpenApiDocument:
    """The OpenAPI document, read once.

    Args:
        trusted_proxies: whose `X-Forwarded-Proto` counts (D10), besides a peer's on a Unix socket.
    """

    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._document = read_document()
        self._trusted_proxies = trusted_proxies

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /openapi.json. Its server is the address that the request was sent to (D94)."""
        resp.set_header("X-Content-Type-Options", "nosniff")
        (server,) = self._document["servers"]
        url = base_url(req, self._trusted_proxies) or server["url"]
        body = msgspec.json.encode(self._document | {"servers": [server | {"url": url}]})
        send_document(req, resp, body, falcon.MEDIA_JSON)

    on_head = on_get
