"""Lets TERM end a command as Ctrl-C does: in good order, so that nothing half-done stays."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt, with the signal's number, where TERM comes."""

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        # A second one must not come between what is tidied up.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
