"""Prometheus and its promtool as Debian ships them, without installing anything."""

import shutil
from pathlib import Path

from tests.system import debian


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`, the machine's or a fetched Debian one.

    Skips the test if neither is available.
    """
    installed = shutil.which(name)
    return Path(installed) if installed else debian.unpacked("prometheus") / "usr" / "bin" / name
