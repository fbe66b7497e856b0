"""A small disk that holds an installation, and that another process fills."""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from app.storage.engine import close_quietly
from tests.conftest import World

_BLOCK = bytes(4096)
# Takes every block that becomes free, until it is stopped.
_GREEDY = """
import os, sys
rest = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
has_told = False
while True:
    try:
        os.write(rest, bytes(4096))
    except OSError:
        if not has_told:
            print("full", flush=True)
            has_told = True
"""


class Disk:
    """A mounted file system with the database of a world on it.

    Args:
        path: where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rest = path / "rest"

    def move_here(self, world: World) -> dict[str, Any]:
        """Move a world's database here; return its settings."""
        close_quietly(world.engine)
        for path in world.directory.glob("verifyd.*"):
            shutil.move(path, self.path)
        return {
            "database_url": f"sqlite:///{self.path / 'verifyd.db'}",
            "state_dir": world.config.state_dir,
        }

    @property
    def free_bytes(self) -> int:
        """Return the bytes that any user can take."""
        return shutil.disk_usage(self.path).free

    @property
    def names(self) -> list[str]:
        """Return the files of the installation, except those that only hold a lock."""
        names = [path.name for path in self.path.iterdir() if path != self._rest]
        return sorted(name for name in names if not name.endswith(".lock"))

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all blocks except these."""
        with suppress(OSError), open(self._rest, "ab", buffering=0) as rest:
            while self.free_bytes > leave_bytes:
                rest.write(_BLOCK)

    def empty(self) -> None:
        """Release the blocks that were taken."""
        self._rest.unlink(missing_ok=True)


class Greed:
    """Another process that takes every free block of a disk; `with` runs it."""

    def __init__(self, disk: Disk) -> None:
        self._file = disk.path / "greed"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _GREEDY, str(self._file)], stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"full\n"
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._file.unlink()
