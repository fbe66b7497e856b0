"""Many clients at once, and the rules that their answers must keep."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.serve.limits.bucket import SECOND_NS, Rate
from tests.system.processes import connected

CLIENTS = 8


class Told(NamedTuple):
    """One answer's headers of the limit, and the wall clock's nanoseconds around it."""

    sent_ns: int
    received_ns: int
    status: int
    limit: int
    remaining: int
    reset: int


class Flood:
    """Sends requests as fast as possible; `told` are the answers, `lost` counts missing ones.

    Args:
        binds: the servers, which each client uses in turn.
    """

    def __init__(self, binds: Sequence[str], key: str, path: str = "/nothing") -> None:
        self._binds = binds
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        self._request = f"{head}Authorization: Bearer {key}\r\n\r\n".encode()
        self._lock = threading.Lock()
        self._left = 0
        self._after: Callable[[int], object] = lambda _: None
        self.told: list[Told] = []
        self.lost = 0

    def send(self, count: int, after: Callable[[int], object] = lambda _: None) -> None:
        """Send this many requests from eight clients.

        Args:
            after: called after each answer with the number of answers, by one client at a time.
        """
        self._left, self._after = count, after
        faults: list[BaseException] = []

        def run(number: int) -> None:
            try:
                self._run_client(number)
            except BaseException as error:
                faults.append(error)

        clients = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        if faults:
            raise faults[0]

    def _run_client(self, number: int) -> None:
        while self._take_one():
            number += 1
            try:
                told = self._ask(self._binds[number % len(self._binds)])
            except (OSError, EOFError):
                with self._lock:
                    self.lost += 1
                continue
            with self._lock:
                self.told.append(told)
                self._after(len(self.told))

    def _take_one(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _ask(self, bind: str) -> Told:
        with connected(bind) as connection:
            sent_ns = time.time_ns()
            connection.sendall(self._request)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        received_ns = time.time_ns()
        head, separator, _ = answer.decode("latin-1").partition("\r\n\r\n")
        if not separator:
            raise EOFError
        status, *lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        numbers = (int(headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset"))
        return Told(sent_ns, received_ns, int(status.split()[1]), *numbers)


def require_exact(flood: Flood, plan: Rate, kills: int = 0) -> None:
    """Fail unless exactly the plan was admitted, and no two answers contradict each other.

    The time of the flood adds tokens; each kill may have lost a token that was taken.
    """
    admitted = [told for told in flood.told if told.status != 429]
    assert {told.status for told in flood.told} == {404, 429}
    elapsed_ns = max(t.received_ns for t in flood.told) - min(t.sent_ns for t in flood.told)
    earned = elapsed_ns // plan.interval_ns
    assert plan.limit - kills <= len(admitted) <= plan.limit + earned
    repeated = Counter(told.remaining for told in admitted)
    assert len(admitted) - len(repeated) <= earned
    for told in flood.told:
        require_consistent(told, plan)


def require_consistent(told: Told, plan: Rate) -> None:
    """Fail unless Limit, Remaining and Reset of one answer fit each other and the plan."""
    assert told.limit == plan.limit
    assert 0 <= told.remaining < plan.limit
    assert told.status != 429 or told.remaining == 0
    used = plan.limit - told.remaining
    # The bucket lacks more than used - 1 tokens and at most used; Reset is rounded up.
    assert told.reset * SECOND_NS > told.sent_ns + (used - 1) * plan.interval_ns
    assert (told.reset - 1) * SECOND_NS < told.received_ns + used * plan.interval_ns


def at_each(step: int, times: int, act: Callable[[], object]) -> Callable[[int], None]:
    """Return a function that acts after each `step` answers, this many times."""

    def after(answers: int) -> None:
        if answers % step == 0 and answers // step <= times:
            act()

    return after
