"""TERM, as systemd sends it at a shutdown, ends a command in good order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Let TERM raise KeyboardInterrupt, so that what was begun is tidied up and reported."""

    def abandon(number: int, _frame: FrameType | None) -> NoReturn:
        # A second one must not come between what is tidied up.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    former = signal.signal(signal.SIGTERM, abandon)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
