"""Directories that long tests make once, such as installed tools, and keep for the next run."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.system.processes import KEPT


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory that is made when it is missing; other processes wait meanwhile.

    Args:
        make: fills the empty directory. If it fails or skips the test, the next call begins again.
    """
    KEPT.mkdir(exist_ok=True)
    path = KEPT / name
    with (KEPT / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = path / ".done"
        if not done.exists():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            make(path)
            done.touch()
    return path
