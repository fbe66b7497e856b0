"""One connection: reads requests, gets their answers and writes them, without ever waiting.

The phases are: idle, head, body, (the application answers), writing, then idle again or closing.
"""

import select
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from app import clock
from app.errors import Problem
from app.serve.http.bodies import DRAINED_BYTES_MAX
from app.serve.http.context import Environ
from app.serve.worker.answers import CONTINUE, REST, Outgoing
from app.serve.worker.head import Malformed
from app.serve.worker.intake import Intake, is_last, is_quick, problem_of
from app.serve.worker.lobby import IdleSocket, Lobby
from app.serve.worker.received import ReceivedRequest, ReceivedRequests

SECOND_NS = 1_000_000_000
HELD_BYTES_MAX = 32 * 1024 * 1024
"""How much of requests and answers is kept in memory for slow clients. An answer can exceed it."""
_PAUSE_NS = SECOND_NS // 1_000
"""The pause per connection handed over; a hand-over costs about 0.1 ms.

PERF: without it short changes beside 200 idle connections took 0.9 ms of CPU, with it 0.1 ms.
"""


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
    """For the next request. The first request of a connection has only `head_ns`."""
    head_ns: int
    """For the rest of a head."""
    transfer_ns: int
    """For the rest of a body, and for an answer to be read."""


class Shared:
    """What the connections of a worker share.

    Args:
        received: answers requests.
        lobby: where other workers find idle connections.
    """

    def __init__(self, received: ReceivedRequests, patience: Patience, lobby: Lobby) -> None:
        self.received = received
        self.patience = patience
        self.lobby = lobby
        self.epoll = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.queue: deque[Connection] = deque()
        """Connections that have already received another request, in the order of their turns."""
        self.now_ns = clock.monotonic_ns()
        """When the last turn began."""
        self.held_bytes = 0
        """In all connections, of incomplete requests and of answers that wait for their readers."""
        self._make_way_at_ns = 0
        self.is_ending = False
        """Whether each connection closes after its next answer."""

    @property
    def may_hand_over(self) -> bool:
        """Whether others can take connections while this worker is busy."""
        return self.lobby.is_shared and not self.is_ending

    def make_way(self) -> None:
        """Hand idle connections over before a request that can take long.

        PERF: beside one bulk of 10,000 after another, look-ups on two workers have a p99 of 21 to
        30 ms with this, 343 ms without. Many such requests would leave no time for anything else.
        """
        if self.may_hand_over and self.now_ns >= self._make_way_at_ns:
            number = self.hand_over_idle()
            self._make_way_at_ns = self.now_ns + number * _PAUSE_NS

    def hand_over_idle(self) -> int:
        """Hand idle connections over to other workers while there is room; return how many."""
        idle = [each for each in self.connections.values() if each.phase is Phase.IDLE]
        for number, connection in enumerate(idle):
            if not connection.hand_over(self.lobby):
                return number
        return len(idle)

    def free_memory(self) -> None:
        """Close the connections that hold most memory; of equal ones, those that end soonest."""
        self.received.answer_waiting()  # Their requests need no more memory.
        holding = [each for each in self.connections.values() if each.held_bytes]
        for connection in sorted(holding, key=lambda each: (-each.held_bytes, each.deadline_ns)):
            if self.held_bytes <= HELD_BYTES_MAX:
                return
            connection.close()


_READ_BYTES = 64 * 1024
_READING = (Phase.IDLE, Phase.HEAD, Phase.BODY)
_LINGER_NS = 2 * SECOND_NS


class Connection:
    """A client's connection, from when it is accepted until it is closed."""

    __slots__ = (
        "_accepted",
        "_discarded_bytes",
        "_intake",
        "_is_at_end",
        "_is_last",
        "_outgoing",
        "_shared",
        "_socket",
        "deadline_ns",
        "held_bytes",
        "phase",
        "since_ns",
    )

    def __init__(self, idle: IdleSocket, environ: Environ, shared: Shared) -> None:
        self._socket = idle.socket
        self._accepted = idle
        self._shared = shared
        self._intake = Intake(environ | {"REMOTE_ADDR": idle.address})
        self._discarded_bytes = 0
        self.held_bytes = 0
        """In memory, of incomplete requests and of an answer that is being written."""
        self._is_at_end = False
        """Whether the client sends nothing more."""
        self._is_last = False
        """Whether the connection closes after the answer that is being written."""
        self.phase = Phase.IDLE
        self.since_ns = idle.since_ns
        """When this phase began."""
        self.deadline_ns = idle.deadline_ns
        shared.connections[idle.socket.fileno()] = self
        shared.epoll.register(idle.socket, select.EPOLLIN)

    def is_ready(self) -> None:
        """Continue after the client has sent something, read something, or disconnected."""
        if self.phase is Phase.WRITING:
            self._write()
        elif self.phase is Phase.CLOSING:
            self._discard()
        elif self.phase in _READING:  # Otherwise its answer is to be sent, or it was closed.
            self._read()

    def take_turn(self) -> None:
        """Answer the next request of those that were received together."""
        if self.phase is Phase.QUEUED:
            self.phase = Phase.IDLE
            self._answer_next()

    def expire(self) -> None:
        """Refuse the request that did not arrive in time, or close the connection."""
        if self.phase in (Phase.HEAD, Phase.BODY):
            self._refuse(Problem("invalid_request", "The request did not arrive in time."))
        else:
            self.close()

    def hand_over(self, lobby: Lobby) -> bool:
        """Hand this idle connection over to another worker. Return False if that is impossible."""
        idle = self._accepted._replace(since_ns=self.since_ns, deadline_ns=self.deadline_ns)
        if not lobby.add(idle):
            return False
        # NOTE: closing the socket does not unregister it, because another process has it open.
        self._shared.epoll.unregister(self._socket)
        self.close()
        return True

    def close(self) -> None:
        """Close the connection now."""
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.CLOSED
            self._hold(0)
            # NOTE: this also ends its registration in the epoll.
            del self._shared.connections[self._socket.fileno()]
            self._socket.close()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._intake.add(data)
        self._is_at_end = not data
        self._answer_next()

    def _answer_next(self) -> None:
        intake = self._intake
        try:
            environ = intake.next_request()
        except Malformed as error:
            self._refuse(problem_of(error))
            return
        if intake.expects_continue:
            intake.expects_continue = False
            with suppress(OSError):
                self._socket.send(CONTINUE)
        if environ is None and self._is_at_end:
            environ = intake.last_request()
        if environ is not None:
            self._answer(environ)
        elif self._is_at_end:
            self.close()
        else:
            self._wait()

    def _wait(self) -> None:
        """Wait for the rest of a request."""
        patience = self._shared.patience
        if self._intake.is_in_body:
            self._enter(Phase.BODY, patience.transfer_ns)
        elif self._intake.held_bytes:
            self._enter(Phase.HEAD, patience.head_ns)
        self._hold(self._intake.held_bytes)

    def _enter(self, phase: Phase, patience_ns: int) -> None:
        if phase is not self.phase:
            self.phase = phase
            self.since_ns = self._shared.now_ns
            self.deadline_ns = self.since_ns + patience_ns

    def _refuse(self, problem: Problem) -> None:
        self._answer(self._intake.refused(problem))

    def _answer(self, environ: Environ) -> None:
        shared = self._shared
        self.phase = Phase.ANSWER
        can_send_more = self._intake.held_bytes or not self._is_at_end
        is_last_one = shared.is_ending or is_last(environ) or not can_send_more
        asked = ReceivedRequest(environ, is_last_one, self._take_answer)
        if is_quick(environ):
            shared.received.add(asked)
            return
        shared.received.answer_waiting()
        shared.make_way()
        shared.received.answer_alone(asked)
        if self.phase is Phase.IDLE and not shared.lobby.is_empty:
            # Its next request comes after those of the clients that wait there.
            self.hand_over(shared.lobby)

    def _take_answer(self, environ: Environ, answer: bytes, is_last: bool) -> None:
        """Send what the client takes of an answer now, and the rest when it has read that."""
        self._is_last = is_last
        rest: Iterator[bytes] | None = environ.get(REST)
        try:
            sent = self._socket.send(answer)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent == len(answer) and rest is None:
            self._is_answered()
            return
        self._enter(Phase.WRITING, self._shared.patience.transfer_ns)
        self._outgoing = Outgoing(answer, sent, rest)
        self._hold(self._outgoing.held_bytes + self._intake.held_bytes)
        # SEC: nothing is read until the client has read its answer.
        self._shared.epoll.modify(self._socket, select.EPOLLOUT)

    def _write(self) -> None:
        outgoing, shared = self._outgoing, self._shared
        try:
            if outgoing.take_more():
                self.deadline_ns = shared.now_ns + shared.patience.transfer_ns
            outgoing.send(self._socket)
        except OSError:
            self.close()
            return
        self._hold(outgoing.held_bytes + self._intake.held_bytes)
        if outgoing.is_sent:
            shared.epoll.modify(self._socket, select.EPOLLIN)
            self._is_answered()

    def _is_answered(self) -> None:
        shared = self._shared
        if self._is_last:
            self._begin_to_close()
            return
        self._enter(Phase.IDLE, shared.patience.idle_ns)
        if self._intake.held_bytes:
            # Other clients come first. Until then nothing more is read.
            self.phase = Phase.QUEUED
            shared.queue.append(self)
        elif self.held_bytes:
            self._hold(0)

    def _begin_to_close(self) -> None:
        """Tell the client that nothing more follows, and wait until it closes (RFC 9112, 9.6).

        If the connection were closed with bytes unread, the client could lose the answer.
        """
        self._intake.discard()
        self._hold(0)
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        if self._is_at_end:
            self.close()
        else:
            self._enter(Phase.CLOSING, _LINGER_NS)

    def _discard(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._discarded_bytes += len(data)
        if not data or self._discarded_bytes > DRAINED_BYTES_MAX:
            self.close()

    def _hold(self, held_bytes: int) -> None:
        self._shared.held_bytes += held_bytes - self.held_bytes
        self.held_bytes = held_bytes
