"""The address of a client; headers that state it are believed from known proxies only (D10)."""

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

import falcon

from app.settings.values import Address, Network

_PEERS_CACHED_MAX = 1024


def client_address(req: falcon.Request, trusted_proxies: Sequence[Network]) -> Address | None:
    """Return the client's address; None if it is not known, or of a local client on a Unix socket.

    `X-Real-IP` counts only if the peer is a Unix socket or a trusted proxy. SEC: any other
    header is the client's to choose. What such a proxy forwards without a valid `X-Real-IP` has no
    known address: it must not pass for a request of the proxy's own host.
    """
    peer = _peer(req.env.get("REMOTE_ADDR", ""))
    if not (_is_trusted(peer, trusted_proxies) and _is_forwarded(req)):
        return peer
    stated = req.env.get("HTTP_X_REAL_IP", "")
    # SEC: a zone may hold any text, also a comma and the next of several addresses.
    return None if "%" in stated else _parsed(stated)


def comes_from_proxy(req: falcon.Request, trusted_proxies: Sequence[Network]) -> bool:
    """Tell whether headers about the request are believed, as `X-Real-IP` is."""
    return _is_trusted(_peer(req.env.get("REMOTE_ADDR", "")), trusted_proxies)


def is_local(req: falcon.Request, trusted_proxies: Sequence[Network]) -> bool:
    """Tell whether a process on this host asks for itself, and is not a proxy for another."""
    if _is_forwarded(req):
        return False
    address = client_address(req, trusted_proxies)
    return address is None or address.is_loopback


def _is_forwarded(req: falcon.Request) -> bool:
    return any(f"HTTP_{name}" in req.env for name in ("X_REAL_IP", "X_FORWARDED_FOR", "FORWARDED"))


def _is_trusted(peer: Address | None, trusted_proxies: Sequence[Network]) -> bool:
    return peer is None or any(peer in network for network in trusted_proxies)


def _parsed(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


# PERF: parsing an address takes 1.5 us, and proxies send many requests.
_peer = lru_cache(_PEERS_CACHED_MAX)(_parsed)


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
    without that header it counts as TLS, which our nginx always speaks: a key that is sent in clear
    is given away. SEC: the header of any other peer is ignored.
    """
    if not comes_from_proxy(req, trusted_proxies):
        return "http"
    return "http" if req.env.get("HTTP_X_FORWARDED_PROTO") == "http" else "https"
