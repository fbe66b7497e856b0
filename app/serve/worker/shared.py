"""What all connections of a worker have in common."""

import select
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from app import clock
from app.serve.worker.head import Environ
from app.serve.worker.lobby import Lobby

if TYPE_CHECKING:
    from app.serve.worker.connection import Connection

SECOND_NS = 1_000_000_000
HELD_BYTES_MAX = 32 * 1024 * 1024
"""How much of requests and answers is kept in memory for slow clients. An answer can exceed it."""
_PAUSE_NS = SECOND_NS // 1_000
"""For each connection that is left. To leave and take it takes about 0.1 ms."""
_TOGETHER_NS = SECOND_NS // 1_000
_TOGETHER_BYTES = 64 * 1024


class Phase(Enum):
    """What a connection waits for."""

    IDLE = "a request"
    QUEUED = "its turn"
    HEAD = "the rest of a head"
    BODY = "the rest of a body"
    WRITING = "the client to read its answer"
    ANSWER = "the application"
    CLOSING = "the client to close, too"
    CLOSED = "nothing"


class Patience(NamedTuple):
    """How long a connection waits for its client, in nanoseconds."""

    idle_ns: int
    """For the next request. Whoever connects has only the time for a head."""
    head_ns: int
    """For the rest of a head."""
    transfer_ns: int
    """For the rest of a body, and for an answer to be read."""


class Shared:
    """What the connections of a worker share.

    Args:
        answer: takes a request, and whether the connection closes after it; returns the answer, and
            the same again, which may have become true.
        lobby: where other workers find idle connections.
    """

    def __init__(
        self,
        answer: Callable[[Environ, bool], tuple[bytes, bool]],
        patience: Patience,
        lobby: Lobby,
    ) -> None:
        self.answer = answer
        self.patience = patience
        self.lobby = lobby
        self.epoll = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.queue: deque[Connection] = deque()
        """Those that have received another request already, in the order of their turns."""
        self.now_ns = clock.monotonic_ns()
        """When the last turn began."""
        self.held_bytes = 0
        """In all connections, of incomplete requests and of answers that wait for their readers."""
        self._make_way_at_ns = 0
        self._unsent: list[tuple[Connection, bytes]] = []
        self._unsent_bytes = 0
        self.is_ending = False
        """Whether each connection closes after its next answer."""

    def reply(self, connection: "Connection", answer: bytes, *, at_once: bool) -> None:
        """Send an answer with those of this turn, unless that would take long or much memory.

        PERF: each answer wakes up a client, which may take the processor. Sent together, answers to
        16 connections take 7 % less.
        NOTE: a quick method that takes long after all, as if the database does not answer, holds up
        the answers of the millisecond before it.
        """
        self._unsent.append((connection, answer))
        self._unsent_bytes += len(answer)
        is_late = clock.monotonic_ns() > self.now_ns + _TOGETHER_NS
        if at_once or is_late or self._unsent_bytes > _TOGETHER_BYTES:
            self.send_answers()

    def send_answers(self) -> None:
        """Send the answers of this turn that were not sent yet."""
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        for connection, answer in unsent:
            connection.send(answer)

    @property
    def may_leave(self) -> bool:
        """Whether others can take connections while this worker is busy."""
        return self.lobby.is_shared and not self.is_ending

    def make_way(self) -> None:
        """Leave idle connections before a request that can take long (D106).

        PERF: the workers would spend their time with this if there were many such requests.
        """
        if self.may_leave and self.now_ns >= self._make_way_at_ns:
            left = self.leave_idle_connections()
            self._make_way_at_ns = self.now_ns + left * _PAUSE_NS

    def leave_idle_connections(self) -> int:
        """Leave idle connections to other workers, as far as there is room; return how many."""
        idle = [each for each in self.connections.values() if each.phase is Phase.IDLE]
        for left, connection in enumerate(idle):
            if not connection.leave(self.lobby):
                return left
        return len(idle)

    def free_memory(self) -> None:
        """Close the connections that hold most memory; of equal ones, those that end soonest."""
        self.send_answers()  # Their requests need no more memory.
        holding = [each for each in self.connections.values() if each.held_bytes]
        for connection in sorted(holding, key=lambda each: (-each.held_bytes, each.deadline_ns)):
            if self.held_bytes <= HELD_BYTES_MAX:
                return
            connection.close()
