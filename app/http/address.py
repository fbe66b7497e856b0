"""Where a request comes from: the client's address, believed only from a proxy we know (D10)."""

import ipaddress
from collections.abc import Sequence

import falcon

from app.config import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(req: falcon.Request, trusted_proxies: Sequence[Network]) -> Address | None:
    """Return the client's address; None for a local client on a Unix socket.

    `X-Real-IP` counts only if the peer is a Unix socket or a trusted proxy. SEC: any other
    header is the client's to choose.
    """
    peer = _parsed(req.env.get("REMOTE_ADDR", ""))
    forwarded = _parsed(req.env.get("HTTP_X_REAL_IP", ""))
    is_trusted = peer is None or any(peer in network for network in trusted_proxies)
    return forwarded if forwarded is not None and is_trusted else peer


def is_local(req: falcon.Request, trusted_proxies: Sequence[Network]) -> bool:
    """Tell whether a loopback or Unix-socket peer asks for itself, not on behalf of another."""
    if any(f"HTTP_{name}" in req.env for name in ("X_REAL_IP", "X_FORWARDED_FOR", "FORWARDED")):
        return False
    address = client_address(req, trusted_proxies)
    return address is None or address.is_loopback


def _parsed(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
