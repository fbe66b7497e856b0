"""The end of an answer, which its client has not read yet."""

import socket
from collections.abc import Iterator
from contextlib import suppress


class Outgoing:
    """What is left of an answer.

    Args:
        answer: the answer, or its beginning.
        sent: how much of that was sent.
        rest: yields what follows; None for nothing.
    """

    __slots__ = ("_rest", "_sent", "_unread")

    def __init__(self, answer: bytes, sent: int, rest: Iterator[bytes] | None) -> None:
        self._unread, self._sent = answer, sent
        self._rest = rest
        self._forget_sent()

    @property
    def held_bytes(self) -> int:
        """How much of it is in memory."""
        return len(self._unread)

    @property
    def is_sent(self) -> bool:
        """Whether nothing is left."""
        return not self._unread and self._rest is None

    def take_more(self) -> bool:
        """Take the next piece into memory if nothing is left there; return whether it did.

        Raises OSError if the piece cannot be read.
        """
        if self._unread or self._rest is None:
            return False
        self._unread = next(self._rest, b"")
        if not self._unread:
            self._rest = None
        return True

    def send(self, client: socket.socket) -> None:
        """Send as much as the client takes now. Raises OSError."""
        with suppress(BlockingIOError):
            self._sent += client.send(memoryview(self._unread)[self._sent :])
            self._forget_sent()

    def _forget_sent(self) -> None:
        """Keep what is left, and at most as much again, because a copy takes time."""
        if self._sent * 2 >= len(self._unread):
            self._unread, self._sent = self._unread[self._sent :], 0
