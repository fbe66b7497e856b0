"""Prometheus and its promtool as Debian ships them, without installing anything."""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.processes import KEPT

_PACKAGE = "prometheus"
_SECONDS_MAX = 120


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`, the machine's or a fetched Debian one.

    Skips the test if neither is available.
    """
    installed = shutil.which(name)
    if installed:
        return Path(installed)
    missing = [each for each in ("apt-get", "dpkg-deb") if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{name} is not on this machine, and {', '.join(missing)} neither")
    unpacked = KEPT / _PACKAGE
    with _alone():
        if not unpacked.exists():
            _unpack(unpacked)
    return unpacked / "usr" / "bin" / name


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process of the tests fetch the package, and others wait."""
    KEPT.mkdir(exist_ok=True)
    with (KEPT / f".{_PACKAGE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unpack(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT) as directory:
        # The machine's package lists can be missing or unreadable.
        own = [f"-oDir::State::Lists={directory}/lists", f"-oDir::Cache={directory}/cache"]
        own.append("-oAPT::Sandbox::User=")
        if not _ran(["apt-get", "download", _PACKAGE], directory):
            (Path(directory) / "lists").mkdir()
            update, download = ["apt-get", *own, "update"], ["apt-get", *own, "download", _PACKAGE]
            if not (_ran(update, directory) and _ran(download, directory)):
                pytest.skip(f"Debian's package {_PACKAGE} cannot be had here")
        (package,) = Path(directory).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, f"{directory}/unpacked"], check=True)
        (Path(directory) / "unpacked").rename(target)


def _ran(words: list[str], directory: str) -> bool:
    try:
        ended = subprocess.run(
            words, cwd=directory, capture_output=True, timeout=_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
