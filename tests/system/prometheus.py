"""Prometheus and its promtool as Debian ships them, without installing anything."""

import shutil
from pathlib import Path

import pytest

from tests.system import debian


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`, the machine's or a fetched Debian one.

    Skips the test if neither is available.
    """
    if installed := shutil.which(name):
        return Path(installed)
    fetched = debian.unpacked("prometheus") / "usr" / "bin" / name
    if not fetched.exists():  # In Debian 13 the package has no promtool.
        pytest.skip(f"Debian's package prometheus has no {name} here")
    return fetched
