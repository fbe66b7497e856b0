"""Accepts connections, and gives each of them its turn, in one thread."""

import errno
import os
import select
import socket
from collections.abc import Callable, Iterator, Sequence

from app import clock
from app.serve.http.context import Environ
from app.serve.worker.connection import HELD_BYTES_MAX, SECOND_NS, Connection, Phase, Shared
from app.serve.worker.lobby import IdleSocket

_SEND_BUFFER_BYTES = 128 * 1024
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_LATE_NS = SECOND_NS
_ACCEPTING_NS = SECOND_NS // 200
"""How long a worker accepts new connections in a turn.

PERF: in a burst of 400, beside 200 busy connections, each of these was answered 3 times before the
last new one, and 13 to 15 times with a limit of 32 connections instead of 5 ms.
"""
_TAKING_NS = SECOND_NS // 100
"""How long a worker takes connections from the lobby before it looks at its own."""
_SHARE_EVERY_NS = SECOND_NS // 100
_AT_REST = (Phase.IDLE, Phase.CLOSING)


class Loop:
    """The connections of one worker.

    Args:
        wakeup: a descriptor that becomes readable when a signal arrives.
        environs: what all requests of each listener have in common, for WSGI.
        connections_max: how many connections are kept open. More push out those idle longest.
        look_every_seconds: how often it should look for clients that take too long.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        wakeup: int,
        shared: Shared,
        environs: Sequence[Environ],
        connections_max: int,
        look_every_seconds: float,
    ) -> None:
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._wakeup = wakeup
        self._shared = shared
        self._environs = environs
        self._connections_max = connections_max
        self._shared_at_ns = 0
        self._is_interrupted = False
        self._look_every_ns = int(look_every_seconds * SECOND_NS)
        self._look_at_ns = shared.now_ns + self._look_every_ns
        shared.epoll.register(wakeup, select.EPOLLIN)
        shared.epoll.register(shared.lobby, select.EPOLLIN)
        for listener in listeners:
            listener.setblocking(False)
            if listener.family != socket.AF_UNIX:
                # Accepted connections inherit both. Small answers must not wait for each other.
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # SEC: otherwise the kernel holds up to 4 MB for a client that does not read.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            # NOTE: with EPOLLEXCLUSIVE the kernel would wake the same worker each time.
            shared.epoll.register(listener, select.EPOLLIN)

    @property
    def connections(self) -> list[Connection]:
        return list(self._shared.connections.values())

    @property
    def is_answering(self) -> bool:
        """Whether a request has begun to arrive, or an answer is not yet read."""
        return any(each.phase not in _AT_REST for each in self.connections)

    @property
    def is_time_to_look(self) -> bool:
        return self._shared.now_ns >= self._look_at_ns

    def turn(self) -> None:
        """Wait until something happens or it is time to look; give each ready connection a turn."""
        shared, lobby = self._shared, self._shared.lobby
        wait_ns = 0 if shared.queue else max(0, self._look_at_ns - shared.now_ns)
        lobby.wait()
        descriptors = [descriptor for descriptor, _ in shared.epoll.poll(wait_ns / SECOND_NS)]
        lobby.work()
        # NOTE: during a turn, a connection can close and another one get its descriptor.
        ready = [shared.connections[each] for each in descriptors if each in shared.connections]
        shared.now_ns = clock.monotonic_ns()
        self._is_interrupted = False
        for take_turn in self._turns(descriptors, ready):
            take_turn()
            if shared.held_bytes > HELD_BYTES_MAX:
                shared.free_memory()
            if self._is_interrupted:
                break
        shared.received.answer_waiting()
        if shared.held_bytes > HELD_BYTES_MAX:
            shared.free_memory()
        if len(descriptors) > 1 and not self._is_interrupted:
            self._share(ready)

    def _turns(
        self, descriptors: Sequence[int], ready: Sequence[Connection]
    ) -> Iterator[Callable[[], None]]:
        """Yield the turns of connections: those in the lobby, ready, queued, or new."""
        shared = self._shared
        if shared.lobby.fileno() in descriptors:
            # They have waited longest. Any of the next connections can take long.
            until_ns = shared.now_ns + _TAKING_NS
            while clock.monotonic_ns() < until_ns and (taken := self._take_waiting()):
                yield taken.is_ready
        for connection in ready:
            yield connection.is_ready
        queued = len(shared.queue)
        for _ in range(queued):
            yield shared.queue.popleft().take_turn
        for descriptor in descriptors:
            if listener := self._listeners.get(descriptor):
                for accepted in self._accept(listener, len(ready) + queued):
                    yield accepted.is_ready
        if self._wakeup in descriptors:
            os.read(self._wakeup, 4096)

    def interrupt(self) -> None:
        """End this turn after the current request; others can then be handed over."""
        self._is_interrupted = True

    def _share(self, ready: Sequence[Connection]) -> None:
        """Hand one of the connections that were ready together over to a waiting worker.

        PERF: otherwise 16 connections that are opened at once stay at one worker in one case of
        six, and it alone answers half as much as two. A move costs 0.1 ms.
        """
        shared = self._shared
        is_too_soon = shared.now_ns < self._shared_at_ns + _SHARE_EVERY_NS
        if is_too_soon or not (shared.may_hand_over and shared.lobby.is_one_waiting):
            return
        self._shared_at_ns = shared.now_ns
        for connection in ready:
            if connection.phase is Phase.IDLE:
                connection.hand_over(shared.lobby)
                return

    def look(self) -> None:
        """End what takes too long."""
        shared = self._shared
        late_ns = shared.now_ns - self._look_at_ns
        self._look_at_ns = shared.now_ns + self._look_every_ns
        for connection in self.connections:
            if late_ns > _LATE_NS:
                # The application took this time, or the host; its clients must not pay for it.
                connection.deadline_ns += late_ns
            if connection.deadline_ns <= shared.now_ns:
                connection.expire()
        shared.received.answer_waiting()

    def stop(self, linger_seconds: float, *, takes_waiting: bool) -> None:
        """Accept no more connections, and close each one after its next answer.

        Args:
            linger_seconds: how long an idle connection may wait for one more request.
            takes_waiting: first take the connections in the lobby: perhaps no other worker will.
        """
        shared = self._shared
        shared.is_ending = True
        for descriptor, listener in self._listeners.items():
            shared.epoll.unregister(descriptor)
            listener.close()
        self._listeners = {}
        shared.epoll.unregister(shared.lobby)
        while takes_waiting and (taken := self._take_waiting()):
            taken.is_ready()
        shared.received.answer_waiting()
        linger_ns = int(linger_seconds * SECOND_NS)
        until_ns = clock.monotonic_ns() + linger_ns
        # For those whose answer is still being written.
        shared.patience = shared.patience._replace(idle_ns=linger_ns)
        for connection in self.connections:
            if connection.phase is Phase.IDLE:
                connection.deadline_ns = min(connection.deadline_ns, until_ns)

    def hand_over_idle(self) -> None:
        """Hand the connections that have no request over to other workers."""
        self._shared.hand_over_idle()

    def close_idle(self) -> None:
        """Close the connections that have no request, after a last look at what has come.

        Requests can have come during a long turn.
        """
        for connection in self.connections:
            if connection.phase is Phase.IDLE:
                connection.is_ready()
            if connection.phase is Phase.IDLE:
                connection.close()
        self._shared.received.answer_waiting()

    def _accept(self, listener: socket.socket, served: int) -> Iterator[Connection]:
        """Yield one new connection, or as many as were served; one of them can take long."""
        # PERF: beside 200 busy connections, new ones wait 24 ms; with one a turn they wait 306 ms.
        left, until_ns = max(1, served), clock.monotonic_ns() + _ACCEPTING_NS
        while accepted := self._accept_waiting(listener, left, until_ns):
            yield from accepted
            left -= len(accepted)

    def _accept_waiting(
        self, listener: socket.socket, most: int, until_ns: int
    ) -> list[Connection]:
        accepted: list[Connection] = []
        while len(accepted) < most and clock.monotonic_ns() < until_ns:
            if accepted and len(self._shared.connections) >= self._connections_max:
                break  # None of them is pushed out before its turn.
            if (connection := self._accept_one(listener)) is None:
                break
            accepted.append(connection)
        return accepted

    def _accept_one(self, listener: socket.socket) -> Connection | None:
        """Take a new connection. Return None if there is none."""
        try:
            connected, address = listener.accept()
        except OSError as error:
            # Otherwise another worker was faster, or the client has gone.
            if error.errno in _NO_DESCRIPTORS:
                self._make_room()
            return None
        connected.setblocking(False)
        # WSGI has no address of a client on a Unix socket.
        remote = "" if listener.family == socket.AF_UNIX else address[0]
        now_ns = self._shared.now_ns
        deadline_ns = now_ns + self._shared.patience.head_ns
        place = [*self._listeners].index(listener.fileno())
        return self._add(IdleSocket(connected, remote, now_ns, deadline_ns, place))

    def _take_waiting(self) -> Connection | None:
        """Take a connection from the lobby. Return None if there is none."""
        taken = self._shared.lobby.take()
        return taken and self._add(taken)

    def _add(self, taken: IdleSocket) -> Connection:
        """Add a connection. Most clients have already sent their request."""
        if len(self._shared.connections) >= self._connections_max:
            self._make_room()
        return Connection(taken, self._environs[taken.listener], self._shared)

    def _make_room(self) -> None:
        """Close the connection that has been idle longest, or else has waited longest."""
        # Answer what was read first; those connections can then be closed.
        self._shared.received.answer_waiting()
        if connections := self.connections:
            min(connections, key=lambda each: (each.phase not in _AT_REST, each.since_ns)).close()
