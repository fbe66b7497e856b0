"""Has the master of a server start the hourly jobs, with or without timers (D127, D185).

The master starts a command for each job and goes on. A thread that waits in the master could hold
a lock while the master forks a worker, and a process that waits would take 30 MB. So an alarm of
the kernel wakes the master. gunicorn waits for all children of the master, also for these.
"""

import logging
import os
import signal
import subprocess
import sys
from types import FrameType

from app import clock
from app.watches.feed import next_sweep_at

_FIRST_SECONDS = 60
_log = logging.getLogger("verifyd.hourly")


def start(*, seals: bool) -> None:
    """Run the jobs a minute from now, and then shortly after each hour, until this process ends.

    Args:
        seals: whether there is an audit trail to be sealed.
    """
    master = os.getpid()

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        # A worker inherits the handler, but not the alarm.
        if os.getpid() == master:
            now = clock.now()
            signal.setitimer(signal.ITIMER_REAL, next_sweep_at(now) - now)
            if seals:
                _start("audit", "seal")
            _start("sweep")

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, _FIRST_SECONDS)


def _start(*words: str) -> None:
    """Start a command, which ends with this process and logs how it ended."""
    program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "app"]
    try:
        # Ctrl-C in a terminal is meant for the server. Its sockets are closed in the command.
        started = subprocess.Popen(  # noqa: S603 - this program
            [*program, *words, "--scheduled", "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        _log.error('"verifyd %s" cannot be started: %s', " ".join(words), error)
        return
    # NOTE: gunicorn learns how it ended. Otherwise the next call would wait for this id.
    started.returncode = 0
