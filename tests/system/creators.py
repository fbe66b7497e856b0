"""Many clients that create domains and read them back, while a test disturbs the service."""

import http.client
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tests.system.processes import Answer, send, until
from tests.system.threads import Threads

CLIENTS = 8


class Outcome(NamedTuple):
    """The result of a request; `status` is None if there was no answer."""

    method: str
    domain: str
    status: int | None


class Creators(Threads):
    """Clients that create domains and read each back; `with` runs them.

    Args:
        keys: each client uses one of them.
    """

    def __init__(self, bind: str, keys: Sequence[str]) -> None:
        self._bind = bind
        self.outcomes: list[Outcome] = []
        clients = ((number, keys[number % len(keys)]) for number in range(CLIENTS))
        super().__init__(*(partial(self._run, *each) for each in clients))

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
        while not self.over.is_set():
            number += 1
            domain = f"d{number}.client{client}.example"
            body = f'{{"name": "{domain}"}}'
            for method, path in (("POST", "/api/domains"), ("GET", f"/api/domains/{domain}")):
                answer: Answer | None = None
                with suppress(OSError, http.client.HTTPException):
                    sent = body if method == "POST" else None
                    answer = send(self._bind, method, path, body=sent, headers=headers)
                self.outcomes.append(Outcome(method, domain, answer.status if answer else None))
