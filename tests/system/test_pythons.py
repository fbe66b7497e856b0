"""The tests of every change with each version of Python, in the Debian that has it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.conftest import SAMPLES
from tests.system.machine import debian_root
from tests.system.processes import KEPT, ROOT

pytestmark = pytest.mark.system_long

PYTHONS = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid", "3.15": "sid"}
PACKAGES = {
    # debootstrap does not know that this provides python3.11-distutils.
    "bookworm": "python3.11-venv,python3-distutils",
    "trixie": "python3.13-venv",
    "sid": "python3.14-venv,python3.15-venv",
}
ENTER = Path(__file__).with_name("enter.sh")
# Everything that make makes; .gitignore has the same.
MADE = (".git", ".venv*", ".demo", ".peers", ".system-tests", "build", "dist", "*.egg-info")
NOT_COPIED = shutil.ignore_patterns(*MADE, "__pycache__", ".*_cache", ".hypothesis")
KEPT_LINES = 200


@pytest.mark.parametrize("version", PYTHONS)
def test_the_tests_of_every_change_pass(version):
    """`make test` passes with each Python that the pages promise."""
    suite = PYTHONS[version]
    root = debian_root(f"python-{suite}", suite, f"make,{PACKAGES[suite]}")
    with tempfile.TemporaryDirectory(dir=KEPT) as directory:
        home = Path(directory, "upper", "root")
        shutil.copytree(ROOT, home / "verifyd", ignore=NOT_COPIED)
        if SAMPLES.exists():
            shutil.copytree(SAMPLES, home / "shared" / SAMPLES.name)
        ended = subprocess.run(
            [ENTER, root, directory, f"cd ~/verifyd && make test PYTHON=python{version}"],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, "\n".join(ended.stdout.splitlines()[-KEPT_LINES:])


def environment() -> dict[str, str]:
    """Return an environment with the host's way to the package index."""
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return pip | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
