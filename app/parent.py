"""Lets a process notice that its parent has ended, however that ended."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # prctl(2)
_ENDED = signal.SIGUSR2


def end_with_parent(parent_id: int) -> None:
    """Let the kernel kill this process when its parent ends.

    Raises ProcessLookupError if the parent has ended already.
    """
    if not _told_by(signal.SIGKILL, parent_id):
        raise ProcessLookupError("the parent had ended before that")


def end_with_bootloader() -> None:
    """Where this is the binary, end with the process that was started, which unpacked it (D62).

    Raises ProcessLookupError if that has ended already.
    """
    if not getattr(sys, "frozen", False):
        return
    parent_id = os.getppid()
    with suppress(PermissionError):  # The rights of the file can keep us from looking.
        if not os.path.samefile(f"/proc/{parent_id}/exe", "/proc/self/exe"):
            raise ProcessLookupError("the process that was started has ended")
    end_with_parent(parent_id)


def call_at_end_of_parent(parent_id: int, do: Callable[[], object]) -> None:
    """Call `do` in a thread of its own when the parent ends, or at once if it has ended already.

    A signal's handler would have to wait where Python does, such as for SQLite's locks.
    """
    # The thread must get no other signal, or the main thread would sleep on.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def wait() -> None:
        if is_there:
            signal.sigwait({_ENDED})
        do()

    try:
        is_there = _told_by(_ENDED, parent_id)
        threading.Thread(target=wait, name="end of parent", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, _ENDED})


def _told_by(number: int, parent_id: int) -> bool:
    """Let the kernel send a signal when the parent ends; return whether it is still there."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent_id
