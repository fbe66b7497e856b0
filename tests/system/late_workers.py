"""The settings of gunicorn, with a second worker that a signal reaches right after its fork."""

import signal
import time
from typing import Any

from app.server import *  # noqa: F403 - gunicorn reads the variables of a module

_SECONDS_MAX = 3


def post_fork(_server: object, worker: Any) -> None:
    """Wait for TERM in the second worker, before it is ready to handle signals."""
    ends_at = time.monotonic() + _SECONDS_MAX
    while worker.age == 2 and time.monotonic() < ends_at:
        if signal.SIGTERM in signal.sigpending():
            return
        time.sleep(0.01)
