"""Progress bars at a terminal."""

import sys
from threading import RLock
from typing import Any

from tqdm import tqdm


def progress(*, is_shown: bool = True, **options: Any) -> "tqdm[Any]":
    """Return a progress bar on stderr, which is shown only at a terminal.

    Args:
        options: of tqdm.
    """
    tqdm.monitor_interval = 0  # No thread, because a load forks.
    # tqdm's own lock has a semaphore. From Python 3.14 on, a forked process that ends leaves a
    # warning about it between our log lines.
    tqdm.set_lock(RLock())
    return tqdm(unit_scale=True, disable=not (is_shown and sys.stderr.isatty()), **options)
