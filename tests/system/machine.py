"""A small Debian with its own systemd, in namespaces, as an operator would install on."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tests.system.kept import made_once
from tests.system.processes import ROOT, descendants, until

_PACKAGES = "systemd-sysv,nginx-light,curl,sudo"
_NEEDED = ("debootstrap", "unshare", "nsenter")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT = Path(__file__).parent / "boot.sh"


def debian_root(name: str, suite: str, packages: str) -> Path:
    """Return a minimal Debian with some packages, which is made once.

    Skips the test if it cannot be made.

    Args:
        name: the name of its directory in `KEPT`.
        suite: the release, such as `bookworm`.
        packages: their names, separated by commas.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can make a Debian root directory and start it")
    missing = [program for program in _NEEDED if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not on this machine")

    def make(root: Path) -> None:
        words = ["--variant=minbase", f"--include={packages}", suite, str(root)]
        made = subprocess.run(["debootstrap", *words], capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"debootstrap cannot make a root directory: {made.stdout[-200:]}")

    return made_once(name, make)


class Machine:
    """A running machine; `with` stops it with all its processes.

    Args:
        directory: for what the machine writes.
        packages: names of Debian packages that it has beside those of each machine.
        suite: the release of Debian.
    """

    def __init__(self, directory: Path, *packages: str, suite: str = "bookworm") -> None:
        name = "-".join((f"debian-{suite}", *packages))
        root = debian_root(name, suite, ",".join((_PACKAGES, *packages)))  # It has no Python.
        self._boot = subprocess.Popen([_BOOT, root, directory], start_new_session=True)
        self._init: int | None = None

    def __enter__(self) -> Self:
        try:
            self._init = until(self._found_init, "systemd to start")
            until(self._is_up, "systemd to have started all")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        # All processes of a machine end with the first one.
        for pid in [self._init] if self._init else list(descendants(self._boot.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._boot.wait(30)

    def run(self, command: str, *, seconds: int = 300) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root in its home directory, whether it succeeds or not."""
        entered = ["nsenter", "--target", str(self._init), "--all", "--"]
        return subprocess.run(
            [*entered, "env", "-i", f"PATH={_PATH}", "HOME=/root", "sh", "-c", f"cd\n{command}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def do(self, command: str) -> str:
        """Run a shell command that must succeed, and return its output."""
        ended = self.run(command)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def beside(self, *words: str) -> list[str]:
        """Return the words that run a program of the host in the machine's network."""
        return ["nsenter", "--target", str(self._init), "--net", "--", *words]

    def path(self, name: str) -> Path:
        """Return the path of a machine's file, seen from the host."""
        return Path(f"/proc/{self._init}/root/{name.lstrip('/')}")

    def _found_init(self) -> int | None:
        assert self._boot.poll() is None, "the machine does not start"
        for pid in descendants(self._boot.pid):
            with suppress(FileNotFoundError, ProcessLookupError):  # It has ended meanwhile.
                if Path(f"/proc/{pid}/comm").read_text() == "systemd\n":
                    return pid
        return None

    def _is_up(self) -> bool:
        state = self.run("systemctl is-system-running").stdout.strip()
        return state in ("running", "degraded")


def bring(machine: Machine, binary: Path, name: str = "verifyd", tree: Path = ROOT) -> None:
    """Copy a binary and the deploy folder of a tree to root's home."""
    home = machine.path("/root")
    shutil.rmtree(home / "deploy", ignore_errors=True)
    shutil.copytree(tree / "deploy", home / "deploy")
    shutil.copy(binary, home / name)
