"""Sends a POST request to an https server, through a proxy if the environment names one."""

import base64
import http.client
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from app.text import printable

ANSWER_SECONDS = 30
"""For the connection, and then for the answer."""
_CONNECT_SECONDS = 10
_LINE_BYTES_MAX = 4096
_LINE_CHARACTERS_MAX = 200
_HIDDEN_CHARACTERS_MIN = 4
# The host that built the program may keep certificates elsewhere than the host that runs it.
_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


class NotSent(Exception):
    """A message was not accepted. The text says why, and has no secret."""


def answer_of(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    """Send a POST request; return the status of the answer, and the first line of its body.

    The answer must come within ANSWER_SECONDS. Raises NotSent, OSError and HTTPException.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with closing(_connected(parts)) as connection, _limited(connection):
        connection.request("POST", target, body, headers)
        answer = connection.getresponse()
        content = b""
        with suppress(OSError, http.client.HTTPException):  # The status is enough.
            content = answer.read(_LINE_BYTES_MAX)
    lines = filter(None, map(str.strip, content.decode(errors="replace").splitlines()))
    line = next(lines, "")
    # SEC: servers like to repeat the path or its parts, and it can hold a token.
    for part in re.split("[/?&=]", target):
        for hidden in (part, unquote(part)):
            if len(hidden) >= _HIDDEN_CHARACTERS_MIN:
                line = re.sub(re.escape(hidden), "...", line, flags=re.IGNORECASE)
    return answer.status, printable(line)[:_LINE_CHARACTERS_MAX]


def _connected(url: SplitResult) -> http.client.HTTPSConnection:
    """Connect to the host of a URL, through a proxy if the environment names one.

    Raises NotSent and OSError.
    """
    to = partial(http.client.HTTPSConnection, timeout=_CONNECT_SECONDS, context=_tls())
    proxy = _proxy_for(url)
    if proxy:
        connection = to(proxy.hostname or "", proxy.port or 80)
        connection.set_tunnel(url.hostname or "", url.port, _authorization(proxy))
    else:
        connection = to(url.hostname or "", url.port)
    try:
        with _limited(connection):
            connection.connect()
    except OSError as error:
        connection.close()
        if not proxy or isinstance(error, ssl.SSLError | TimeoutError):
            raise
        # If the proxy refuses, the text has the status and reason of its answer.
        reason = printable(error.strerror or str(error))[:_LINE_CHARACTERS_MAX]
        raise NotSent(f"the proxy {connection.host}:{connection.port}: {reason}") from error
    return connection


def _proxy_for(url: SplitResult) -> SplitResult | None:
    """Return the proxy of HTTPS_PROXY, unless NO_PROXY names the host. Raises NotSent."""
    proxy = getproxies().get("https")
    if not proxy or proxy_bypass(url.netloc):
        return None
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    with suppress(ValueError):  # Its port is no number.
        if parts.scheme == "http" and parts.hostname and parts.port != 0:
            return parts
    # SEC: the message does not repeat the value, which can hold a password.
    raise NotSent("HTTPS_PROXY must be http://HOST:PORT, perhaps with USER:PASSWORD@")


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    name, password = unquote(proxy.username), unquote(proxy.password or "")
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {encoded}"}


@contextmanager
def _limited(connection: http.client.HTTPSConnection) -> Iterator[None]:
    """End what happens on a connection after ANSWER_SECONDS.

    The time limit of a read does not stop a server that sends single bytes.
    """
    deadline = threading.Timer(ANSWER_SECONDS, _shut, [connection])
    deadline.daemon = True
    deadline.start()
    try:
        yield
    finally:
        deadline.cancel()


def _shut(connection: http.client.HTTPSConnection) -> None:
    with suppress(OSError, AttributeError):  # Not connected, or just closed.
        connection.sock.shutdown(socket.SHUT_RDWR)


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    for bundle in _CERTIFICATES:
        if "SSL_CERT_FILE" not in os.environ and Path(bundle).is_file():
            context.load_verify_locations(bundle)
    return context
