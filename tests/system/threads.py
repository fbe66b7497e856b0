"""Threads that go on until the end of a `with`, such as those of clients and servers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import Self, TypeVar

_PAUSE_SECONDS = 0.01
_S = TypeVar("_S", bound=BaseServer)


class Threads:
    """Threads that `with` starts; at its end it sets `over`, and waits for them.

    Args:
        runs: what each thread does until `over` is set.
    """

    def __init__(self, *runs: Callable[[], object]) -> None:
        self.over = threading.Event()
        self._threads = [threading.Thread(target=run) for run in runs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def serving(server: _S) -> Iterator[_S]:
    """Run a server of the standard library in a thread, until the `with` ends."""
    thread = threading.Thread(target=server.serve_forever, args=(_PAUSE_SECONDS,))
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
