"""Many clients that create domains and read them back, while a test disturbs the service."""

import http.client
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from tests.system.processes import Answer, send, until

CLIENTS = 8


class Outcome(NamedTuple):
    """The result of a request; `status` is None if there was no answer."""

    method: str
    domain: str
    status: int | None


class Creators:
    """Clients that create domains and read each back; `with` runs them.

    Args:
        keys: each client uses one of them.
    """

    def __init__(self, bind: str, keys: Sequence[str]) -> None:
        self._bind = bind
        self._over = threading.Event()
        self.outcomes: list[Outcome] = []
        self._clients = [
            threading.Thread(target=self._run, args=(number, keys[number % len(keys)]))
            for number in range(CLIENTS)
        ]

    def __enter__(self) -> Self:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for client in self._clients:
            client.join()

    def statuses(self, method: str) -> set[int | None]:
        """Return the statuses of all requests of a method."""
        return {each.status for each in list(self.outcomes) if each.method == method}

    def acknowledged(self) -> set[str]:
        """Return the domains whose creation was answered with 201."""
        return {each.domain for each in list(self.outcomes) if each.status == 201}

    def wait_for(self, more: int) -> None:
        """Wait until this many further domains were created."""
        enough = len(self.acknowledged()) + more
        until(lambda: len(self.acknowledged()) >= enough, "further domains")

    def _run(self, client: int, key: str) -> None:
        headers = {"X-API-Key": key, "Content-Type": "application/json"}
        number = 0
        while not self._over.is_set():
            number += 1
            domain = f"d{number}.client{client}.example"
            body = f'{{"name": "{domain}"}}'
            for method, path in (("POST", "/api/domains"), ("GET", f"/api/domains/{domain}")):
                answer: Answer | None = None
                with suppress(OSError, http.client.HTTPException):
                    sent = body if method == "POST" else None
                    answer = send(self._bind, method, path, body=sent, headers=headers)
                self.outcomes.append(Outcome(method, domain, answer.status if answer else None))
