"""Where a worker leaves idle connections before it is busy for long, and others find them (D106).

All workers of a server have the same lobby. A connection in it is like one that waits to be
accepted: the next worker that is free takes it, with what its client has sent meanwhile.
"""

import socket

_ADDRESS_BYTES_MAX = 64


class Lobby:
    """A queue of connections, created before the workers are forked."""

    def __init__(self) -> None:
        self._exit, self._entrance = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._exit.setblocking(False)
        self._entrance.setblocking(False)

    def fileno(self) -> int:
        """Return a descriptor that is readable while connections wait."""
        return self._exit.fileno()

    def leave(self, connected: socket.socket, address: str) -> bool:
        """Leave a connection to other workers. Return False if there is no room for it.

        It stays open in this process until it is closed here.

        Args:
            address: of the client, as WSGI has it.
        """
        try:
            # NOTE: a message without a byte would look like the end of the queue.
            socket.send_fds(self._entrance, [b"@", address.encode("ascii")], [connected.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> tuple[socket.socket, str] | None:
        """Return a connection and its client's address; None if no connection waits."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._exit, _ADDRESS_BYTES_MAX, 1)
        except OSError:
            return None
        if not descriptors:  # This process may open no more files.
            return None
        connected = socket.socket(fileno=descriptors[0])
        connected.setblocking(False)
        return connected, message[1:].decode("ascii")
