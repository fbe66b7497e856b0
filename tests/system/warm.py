"""Processes of the program that need not import it: they are forked from a warm interpreter.

PERF: `python -m app` takes 0.3 s of CPU until a command begins, and a fork 0.04 s. The tests start
the program hundreds of times.

Such a process is real: it has a process id, environment, directory, arguments and standard streams
of its own, it runs `app/__main__.py` from its first line, and it ends as an interpreter ends. What
differs from `python -m app`: its parent is the warm interpreter, `/proc/PID/cmdline` shows that
one's words, and variables that Python itself reads at its start are those of the test session.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_REQUEST_BYTES_MAX = 200_000
_NUMBER_BYTES = 4
# It reads the environment when it is imported, so each process imports it itself.
_NOT_WARM = {"app.server"}


class WarmProcess:
    """A running process, with the methods of `subprocess.Popen` that tests use.

    Args:
        words: the command line after `verifyd`.
        streams: the files for stdin, stdout and stderr.
        is_leader: start a session and process group of its own.
    """

    def __init__(
        self,
        words: Sequence[str],
        streams: Sequence[int],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        is_leader: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._told, tell = os.pipe()
        directory = str(cwd or Path.cwd())
        request = json.dumps([list(words), dict(env), directory, is_leader]).encode()
        socket.send_fds(_interpreter(), [request], [*streams, tell])
        os.close(tell)
        self.pid = self._number()

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit status, which is negative after a signal."""
        if self.returncode is None:
            if not _readable([self._told], timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = self._number()
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        told = os.read(self._told, _NUMBER_BYTES)
        assert told, "the warm interpreter has ended"
        return int.from_bytes(told, "big", signed=True)


@functools.cache
def _interpreter() -> socket.socket:
    """Start the warm interpreter of this process. It ends when this socket is closed."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.warm", str(its.fileno())],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
            start_new_session=True,  # Ctrl-C at a terminal does not reach it.
        )
    process.returncode = 0  # Leave it running; nobody here waits for it.
    atexit.register(ours.close)
    return ours


def _import_program() -> None:
    import app.cli  # noqa: PLC0415

    commands = [module.name for module in pkgutil.iter_modules(app.cli.__path__, "app.cli.")]
    served = ("app.main", "app.serve.worker.worker", "gunicorn.app.base")
    for name in (*commands, *served, "psycopg"):
        importlib.import_module(name)
    assert _NOT_WARM.isdisjoint(sys.modules)
    gc.collect()
    gc.freeze()


def _fork_on_request(asked: socket.socket) -> bool:
    """Fork a process for each request. Return True in the new process, False at the end."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready = _readable([asked.fileno(), *running])
        for ended in running.keys() & ready:
            pid, tell = running.pop(ended)
            _say(tell, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os.close(tell)
            os.close(ended)
        if asked.fileno() not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, 4)
        if not request:
            return False
        *streams, tell = descriptors
        if not (pid := os.fork()):
            asked.close()
            for descriptor in (tell, *running, *(tell for _, tell in running.values())):
                os.close(descriptor)
            _become(streams, *json.loads(request))
            return True
        _say(tell, pid)
        running[os.pidfd_open(pid)] = pid, tell
        for descriptor in streams:
            os.close(descriptor)


def _readable(descriptors: Iterable[int], timeout_seconds: float | None = None) -> set[int]:
    """Wait until at least one descriptor can be read; return those that can."""
    # NOTE: select() takes no number over 1,023, and some tests hold more connections than that.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    timeout_ms = None if timeout_seconds is None else max(0, timeout_seconds) * 1000
    return {descriptor for descriptor, _ in poll.poll(timeout_ms)}


def _say(tell: int, number: int) -> None:
    with suppress(BrokenPipeError):  # The test does not wait for this process any more.
        os.write(tell, number.to_bytes(_NUMBER_BYTES, "big", signed=True))


def _become(streams: Sequence[int], words: list[str], env: dict[str, str], *where: Any) -> None:
    """Take the streams, arguments, environment and directory of a request."""
    directory, is_leader = where
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if is_leader:
        os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.path[0] = directory  # As `python -m` does.
    sys.argv[1:] = words


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        _import_program()
        is_new_process = _fork_on_request(requests)
    if is_new_process:
        runpy.run_module("app", run_name="__main__", alter_sys=True)
