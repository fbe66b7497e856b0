"""Starts other processes, and tells a process that its parent has ended."""

import ctypes
import fcntl
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import BinaryIO, NoReturn

_PR_SET_PDEATHSIG = 1  # prctl(2)
_ENDED = signal.SIGUSR2


def end_with_parent(parent_id: int) -> None:
    """Ask the kernel to kill this process when its parent ends.

    Raises ProcessLookupError if the parent has already ended.
    """
    if not _ask_for_signal(signal.SIGKILL, parent_id):
        raise ProcessLookupError(f"the parent process {parent_id} has already ended")


def end_with_bootloader() -> None:
    """Ask the kernel to kill this process when the bootloader of the binary ends.

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


def open_standard_streams() -> None:
    """Open /dev/null as stdin, stdout and stderr if they are closed.

    Otherwise another file would get their number, and output would be written to it; and Python has
    None in place of a stream that a command reads or prints to.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest free number, which is this one.
        if getattr(sys, name) is None:
            # Not by its number: once ctypes is imported, a file of libffi 3.5 can have it.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def keep_unpacked_files() -> None:
    """Lock the directory that the binary has unpacked itself into, as long as it is in use.

    systemd-tmpfiles removes what nobody has read in /var/tmp for 30 days, except what is locked.
    The lock ends with this process and its forked children. Commands that they start lock the
    directory themselves. Without the binary, this does nothing.
    """
    directory = getattr(sys, "_MEIPASS", None)
    if directory is None:
        return
    with suppress(OSError):  # Not every file system has locks, such as some NFS.
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # A standard stream that was closed must not become the directory.
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(descriptor)


@contextmanager
def signals_blocked(numbers: Iterable[signal.Signals] | None = None) -> Iterator[None]:
    """Hold signals back in this thread until the context ends; all signals by default.

    A thread that is started meanwhile never gets them. The kernel must deliver signals to the main
    thread, or it would not wake up.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers or signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def call_at_end_of_parent(parent_id: int, do: Callable[[], object]) -> None:
    """Call `do` in a thread of its own when the parent ends, or at once if it has already ended.

    A signal handler would be late: Python delays it until a call that waits, such as for a lock of
    SQLite, has returned.
    """

    def wait() -> None:
        if is_there:
            signal.sigwait({_ENDED})
        do()

    signal.pthread_sigmask(signal.SIG_BLOCK, {_ENDED})
    with signals_blocked():
        is_there = _ask_for_signal(_ENDED, parent_id)
        threading.Thread(target=wait, name="end of parent", daemon=True).start()


def _ask_for_signal(number: int, parent_id: int) -> bool:
    """Ask the kernel for a signal when the parent ends. Return False if it has already ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent_id


_SHELL = ("/bin/sh", "-c", '"$@" &', "sh")
"""The shell ends at once, so that init adopts the command, and no worker has to wait for it."""


def start(*arguments: str, kept: int | None = None) -> None:
    """Start a command of this program that outlives the request, the worker and the browser (D135).

    It has the settings and the user of this process.

    Args:
        kept: a descriptor that stays open in the command; None for none.

    Raises OSError.
    """
    is_binary = getattr(sys, "frozen", False)
    program = [sys.executable] if is_binary else [sys.executable, "-m", "app"]
    # The binary unpacks itself again: the directory of the service ends with the service.
    environ = {**os.environ, "PYINSTALLER_RESET_ENVIRONMENT": "1"}
    subprocess.run(  # noqa: S603 - our own program, with arguments that the caller makes
        [*_SHELL, *program, *arguments],
        check=False,
        pass_fds=[] if kept is None else [kept],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environ,
        start_new_session=True,
    )


CORES = len(os.sched_getaffinity(0))
STOPS = (signal.SIGINT, signal.SIGTERM)
"""The signals that stop a command."""
_SOON = 0.01
"""Seconds; the callback that swallowed an interrupt has returned by then."""


class ForkedWorker:
    """A process that does one part of a load on another core. It ends with its parent.

    If it fails, its parent does the same work again, and reports the error if it fails, too.

    Args:
        work: is called in the process, which succeeds if this does not raise.
        kept: the files that stay open in the process, besides the standard streams. `work` must
            use nothing else that the parent has open, above all no database connection.
    """

    def __init__(self, work: Callable[[], object], kept: Iterable[BinaryIO]) -> None:
        self._parent_id = os.getpid()
        # Signals that stop the load are held back: until `_work` resets their handlers, the worker
        # would handle them as its parent does.
        with signals_blocked(STOPS):
            # NOTE: beside other threads Python 3.15 warns once the child exists. Where warnings are
            # errors, the child would run without being known, and its parent would not wait.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process_id = os.fork()
            if self._process_id == 0:
                self._work(work, kept)

    def wait(self) -> bool:
        """Wait until the worker ends; return whether it succeeded."""
        _, status = os.waitpid(self._process_id, 0)
        self._process_id = 0
        return status == 0

    def stop(self) -> None:
        """Send TERM to the worker if it still runs."""
        if self._process_id:
            with suppress(ProcessLookupError):
                os.kill(self._process_id, signal.SIGTERM)

    def end(self) -> None:
        """Kill the worker if it still runs, and wait until it has ended."""
        if self._process_id:
            # Ctrl-C can arrive after `waitpid` in `wait`, before the process ID is cleared.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process_id, signal.SIGKILL)
                os.waitpid(self._process_id, 0)

    def _work(self, work: Callable[[], object], kept: Iterable[BinaryIO]) -> NoReturn:
        """Do the work in the new process, then end the process."""
        status = 1
        try:
            for number in STOPS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            end_with_parent(self._parent_id)
            # An open descriptor holds the register's lock, which must end with the parent.
            _close_all_but(sorted(file.fileno() for file in kept))
            gc.disable()
            work()
            status = 0
        finally:
            # NOTE: nothing is reported here: the parent does the work again and reports.
            os._exit(status)


def _close_all_but(kept: Iterable[int]) -> None:
    """Close all descriptors from 3 on but these, which must be in ascending order."""
    start = 3
    for descriptor in kept:
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt with the number of the signal on TERM, too: a command cleans up."""

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        # A second signal must not interrupt the clean-up.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextmanager
def swallowed_interrupts_raised_again() -> Iterator[None]:
    """Raise a KeyboardInterrupt again that Python could not raise, as in a callback of an import.

    The signal would be lost, and TERM is ignored after the first one.
    """
    former = sys.unraisablehook

    def raise_soon(unraisable: "sys.UnraisableHookArgs") -> None:
        error = unraisable.exc_value
        if not isinstance(error, KeyboardInterrupt):
            former(unraisable)
            return

        def raise_again(_number: int, _frame: FrameType | None) -> NoReturn:
            raise error

        signal.signal(signal.SIGALRM, raise_again)
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    sys.unraisablehook = raise_soon
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = former
