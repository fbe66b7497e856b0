"""The address of this service as a client knows it (D94)."""

import re
from collections.abc import Sequence

import falcon

from app.serve.http.address import comes_from_proxy
from app.setting_values import Network

_NAME = r"[0-9A-Za-z](?:[0-9A-Za-z.-]{0,251}[0-9A-Za-z])?"
_HOST = re.compile(rf"({_NAME}|\[[0-9A-Fa-f:.]{{2,45}}\])(?::([0-9]{{1,5}}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def base_url(req: falcon.Request, trusted_proxies: Sequence[Network]) -> str | None:
    """Return `SCHEME://HOST[:PORT]`; None if the request names no valid host.

    SEC: `Host` comes from the client, so only a well-formed one is returned.
    """
    host = _HOST.fullmatch(req.env.get("HTTP_HOST", ""))
    if host is None:
        return None
    scheme = scheme_of(req, trusted_proxies)
    name, port = host.groups()
    if port in (None, _DEFAULT_PORTS[scheme]):
        return f"{scheme}://{name}"
    return f"{scheme}://{name}:{port}"


def scheme_of(req: falcon.Request, trusted_proxies: Sequence[Network]) -> str:
    """Return the scheme that the client used: `http` or `https`.

    The service itself speaks plain HTTP. A trusted proxy states its scheme in `X-Forwarded-Proto`;
    without that header it counts as TLS, which our nginx always speaks. SEC: the header of any
    other peer is ignored.
    """
    if not comes_from_proxy(req, trusted_proxies):
        return "http"
    return "http" if req.env.get("HTTP_X_FORWARDED_PROTO") == "http" else "https"
