"""Packages as Debian ships them, unpacked without installing anything."""

import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest

from tests.system.kept import made_once
from tests.system.processes import KEPT

_SECONDS_MAX = 120


def unpacked(package: str) -> Path:
    """Return the directory of a Debian package's files, which is fetched once.

    Skips the test if it cannot be fetched.
    """
    missing = [each for each in ("apt-get", "dpkg-deb") if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{package} is not on this machine, and {', '.join(missing)} neither")
    return made_once(package, partial(_unpack, package))


def _unpack(package: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT) as directory:
        # The machine's package lists can be missing or unreadable.
        own = [f"-oDir::State::Lists={directory}/lists", f"-oDir::Cache={directory}/cache"]
        own.append("-oAPT::Sandbox::User=")
        if not _ran(["apt-get", "download", package], directory):
            (Path(directory) / "lists").mkdir()
            update, download = ["apt-get", *own, "update"], ["apt-get", *own, "download", package]
            if not (_ran(update, directory) and _ran(download, directory)):
                pytest.skip(f"Debian's package {package} cannot be had here")
        (archive,) = Path(directory).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, target], check=True)


def _ran(words: list[str], directory: str) -> bool:
    try:
        ended = subprocess.run(
            words, cwd=directory, capture_output=True, timeout=_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
