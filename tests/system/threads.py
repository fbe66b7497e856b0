"""Threads that go on until the end of a `with`, such as those of clients."""

import threading
from collections.abc import Callable
from typing import Self


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
