"""Where busy workers hand connections over to idle ones.

All workers of a server have the same lobby. A connection in it is like one that waits to be
accepted: the next worker that is free takes it, with what its client has sent meanwhile.
"""

import mmap
import select
import socket
import struct
from typing import NamedTuple

_MESSAGE_BYTES_MAX = 128
# The listener and both times of an IdleSocket. All processes of a host have the same clock.
_FIXED = struct.Struct("=Bqq")
_WORKERS_MAX = 256
_WAITING, _WORKING = 1, 0


class IdleSocket(NamedTuple):
    """A connection without a request, which any worker can take."""

    socket: socket.socket
    address: str
    """Of the client, as WSGI has it."""
    since_ns: int
    """Since when it is idle."""
    deadline_ns: int
    """When it is closed."""
    listener: int = 0
    """Which one accepted it, of the listeners that all workers have."""


class Lobby:
    """A queue of connections, created before the workers are forked.

    Args:
        is_shared: whether there is more than one worker. If not, no connection is handed over.
    """

    def __init__(self, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self._exit, self._entrance = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._exit.setblocking(False)
        self._entrance.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._exit, select.POLLIN)
        # A byte per worker, in memory that all of them share.
        self._states = mmap.mmap(-1, _WORKERS_MAX)
        self._place = 0

    def fileno(self) -> int:
        """Return a descriptor that is readable while connections wait."""
        return self._exit.fileno()

    @property
    def is_empty(self) -> bool:
        """Whether no connection waits."""
        return not self._poll.poll(0)

    def enter(self, number: int) -> None:
        """Take a place among the workers. To be called once in each, after the fork.

        Args:
            number: of this worker; a later worker has a greater one.
        """
        self._place = number % _WORKERS_MAX
        # Killed workers may still be marked as waiting. The living ones soon mark themselves again.
        self._states[:] = bytes(_WORKERS_MAX)

    def wait(self) -> None:
        """Say that this worker waits for something to do."""
        self._states[self._place] = _WAITING

    def work(self) -> None:
        """Say that this worker has something to do."""
        self._states[self._place] = _WORKING

    @property
    def is_one_waiting(self) -> bool:
        """Whether another worker waits for something to do; only to be asked between requests."""
        return self._states.find(_WAITING.to_bytes()) >= 0

    def add(self, idle: IdleSocket) -> bool:
        """Hand a connection over to other workers. Return False if there is no room for it.

        The socket stays open in this process until the caller closes it.
        """
        fixed = _FIXED.pack(idle.listener, idle.since_ns, idle.deadline_ns)
        message = [fixed, idle.address.encode("ascii")]
        try:
            socket.send_fds(self._entrance, message, [idle.socket.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> IdleSocket | None:
        """Return a connection that waits, or None."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._exit, _MESSAGE_BYTES_MAX, 1)
        except OSError:
            return None
        if not descriptors:  # This process may open no more files.
            return None
        connected = socket.socket(fileno=descriptors[0])
        connected.setblocking(False)
        listener, since_ns, deadline_ns = _FIXED.unpack_from(message)
        address = message[_FIXED.size :].decode("ascii")
        return IdleSocket(connected, address, since_ns, deadline_ns, listener)
