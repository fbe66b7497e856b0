"""Addresses to listen on: parsed from settings, and told of sockets.

As those of `app/settings/values.py`, a parser returns the value of a text, or raises ValueError
with what the text must be.
"""

import os
import socket

_SOCKET_PATH_BYTES_MAX = 107  # The kernel has room for 108, with the NUL.


def listen_address(text: str) -> str:
    """Return an address to listen on: `ADDRESS:PORT` or `unix:/PATH`."""
    if text.startswith("unix:"):
        size = len(os.fsencode(text.removeprefix("unix:")))
        if size > _SOCKET_PATH_BYTES_MAX:
            raise ValueError(
                f"must be at most {_SOCKET_PATH_BYTES_MAX} bytes after unix:, as Linux allows; "
                f"got {size}"
            )
        if text.startswith("unix:/"):
            return text
        raise ValueError("the path of a Unix socket must be absolute: unix:/PATH")
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError("must be ADDRESS:PORT, the port from 1 to 65535, or unix:/PATH")
    return text


def optional_address(text: str) -> str:
    """Return an address to listen on, or an empty text."""
    return listen_address(text) if text else ""


def socket_address(bind: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Return the family and the address of a socket, from `ADDRESS:PORT` or `unix:/PATH`."""
    if bind.startswith("unix:"):
        return socket.AF_UNIX, bind.removeprefix("unix:")
    host, _, port = bind.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return family, (host.strip("[]"), int(port))


def address_of(listener: socket.socket) -> str:
    """Return where a socket listens, as `listen_address` takes it."""
    name = listener.getsockname()
    return f"unix:{os.fsdecode(name)}" if isinstance(name, str | bytes) else _joined(*name[:2])


def resolved(bind: str) -> str:
    """Return what `address_of` returns of a socket that listens at an address.

    Raises OSError if its host is unknown.
    """
    family, target = socket_address(bind)
    if isinstance(target, str):
        return bind
    found = socket.getaddrinfo(*target, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    host, port = found[0][4][:2]
    return _joined(str(host), int(port))


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
