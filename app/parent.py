"""Tells a process that its parent has ended, for whatever reason."""

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
    """Ask the kernel to kill this process when its parent ends.

    Raises ProcessLookupError if the parent has already ended.
    """
    if not _ask_for_signal(signal.SIGKILL, parent_id):
        raise ProcessLookupError(f"the parent process {parent_id} has already ended")


def end_with_bootloader() -> None:
    """Ask the kernel to kill this process when the bootloader of the binary ends (D62).

    The bootloader is the process that was started. It unpacked the program, and is its parent.
    Without the binary, this does nothing.

    Raises ProcessLookupError if the bootloader has already ended.
    """
    if not getattr(sys, "frozen", False):
        return
    parent_id = os.getppid()
    with suppress(PermissionError):  # The permissions of the binary can hide the link.
        if not os.path.samefile(f"/proc/{parent_id}/exe", "/proc/self/exe"):
            raise ProcessLookupError("the process that was started has already ended")
    end_with_parent(parent_id)


def call_at_end_of_parent(parent_id: int, do: Callable[[], object]) -> None:
    """Call `do` in a thread of its own when the parent ends, or at once if it has already ended.

    A signal handler would be late: Python delays it until a call that waits, such as for a lock of
    SQLite, has returned.
    """
    # The kernel must deliver other signals to the main thread, or it would not wake up.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def wait() -> None:
        if is_there:
            signal.sigwait({_ENDED})
        do()

    try:
        is_there = _ask_for_signal(_ENDED, parent_id)
        threading.Thread(target=wait, name="end of parent", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, _ENDED})


def _ask_for_signal(number: int, parent_id: int) -> bool:
    """Ask the kernel for a signal when the parent ends. Return False if it has already ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent_id
