"""Ask a service whether it is ready, as a client does (`verifyd check --ready`)."""

import http.client
import socket
import time

from app import clock
from app.listeners import socket_address

DEADLINE_SECONDS = 30
_ANSWER_SECONDS = 5
_PAUSE_SECONDS = 0.2


def unreadiness(address: str) -> list[str]:
    """Wait until /readyz answers 200. Return no sentence, or after 30 s one that says why not.

    Args:
        address: `ADDRESS:PORT` or `unix:/PATH`.
    """
    deadline = clock.monotonic_ns() + DEADLINE_SECONDS * 1_000_000_000
    while fault := _fault(address):
        if clock.monotonic_ns() > deadline:
            return [f"the service at {address} is not ready: {fault}"]
        time.sleep(_PAUSE_SECONDS)
    return []


def _fault(address: str) -> str | None:
    family, target = socket_address(address)
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(family)
    connection.sock.settimeout(_ANSWER_SECONDS)
    try:
        connection.sock.connect(target)
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
    return None if response.status == http.HTTPStatus.OK else body
