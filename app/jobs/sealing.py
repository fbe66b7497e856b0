"""Has the audit trail sealed every hour by the master of a server, with or without timers (D127).

The master starts `verifyd audit seal` and goes on. A thread that waits in the master could hold a
lock while the master forks a worker, and a process that waits would take 30 MB. So an alarm of the
kernel wakes the master. gunicorn waits for all children of the master, also for this one.
"""

import logging
import os
import signal
import subprocess
import sys
from types import FrameType

from app import clock

_FIRST_SECONDS = 60
_MINUTE = 3
"""When it runs in each hour. The timer, where there is one, has sealed the hour by then."""
_log = logging.getLogger("app.audit")


def start() -> None:
    """Seal a minute from now, and then shortly after each hour, until this process ends."""
    master = os.getpid()

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        # A worker inherits the handler, but not the alarm.
        if os.getpid() == master:
            signal.setitimer(signal.ITIMER_REAL, seconds_to_next(clock.now()))
            _seal()

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, _FIRST_SECONDS)


def seconds_to_next(now: int) -> int:
    """Return how long it is until the next run, given a time in Unix seconds."""
    return 3600 - (now - 60 * _MINUTE) % 3600


def _seal() -> None:
    """Start the command, which ends with this process and logs the digest."""
    program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "app"]
    words = ["audit", "seal", "--scheduled", "--parent", str(os.getpid())]
    try:
        # Ctrl-C in a terminal is meant for the server. Its sockets are closed in the command.
        started = subprocess.Popen(  # noqa: S603 - this program
            [*program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        _log.error("the audit trail cannot be sealed: %s", error)
        return
    # NOTE: gunicorn learns how it ended. Otherwise the next call would wait for this id.
    started.returncode = 0
