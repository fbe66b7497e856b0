"""The environments of the contestants, made once below `.peers`, with pinned versions."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.system.processes import ROOT

APPS = Path(__file__).parent / "apps"
KEPT = ROOT / ".peers"
"""`make clean` removes it."""


class MissingError(Exception):
    """A contestant cannot run here; the text says what to install."""


def require_program(name: str, package: str) -> None:
    """Raise MissingError with the Debian package that has a program, unless it is installed."""
    if shutil.which(name) is None:
        raise MissingError(
            f"{name} is not installed; on Debian and Ubuntu: apt-get install {package}"
        )


def python_programs() -> Path:
    """Return the directory with the programs of the Python contestants; install them first."""
    directory = KEPT / "python"
    words: Sequence[object] = (
        *(directory / "bin" / "python", "-m", "pip", "-qq", "--disable-pip-version-check"),
        *("install", "-r", APPS / "requirements.txt"),
    )
    environment = (sys.executable, "-m", "venv", directory)
    _make_once(directory, [APPS / "requirements.txt"], [environment, words])
    return directory / "bin"


def verifyd_python(python: str) -> str:
    """Return an interpreter with what verifyd needs, made from another one; install it first.

    Raises MissingError.
    """
    directory = KEPT / f"verifyd-{hashlib.sha256(python.encode()).hexdigest()[:8]}"
    wanted = ROOT / "deploy" / "binary" / "requirements.txt"
    words: Sequence[object] = (
        *(directory / "bin" / "python", "-m", "pip", "-qq", "--disable-pip-version-check"),
        *("install", "--require-hashes", "-r", wanted),
    )
    _make_once(directory, [wanted], [(python, "-m", "venv", directory), words])
    return str(directory / "bin" / "python")


def commit_tree(commit: str, directory: Path) -> Path:
    """Return a directory with the files of a commit. Raises MissingError if there is none."""
    if not commit:
        raise MissingError("no commit was named; use BEFORE=COMMIT")
    directory.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "app"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        raise MissingError(archive.stderr.decode().strip())
    subprocess.run(["tar", "-x"], cwd=directory, input=archive.stdout, check=True)
    return directory


def node_modules() -> Path:
    """Return the directory with the packages of the Node.js contestants; install them first.

    Raises MissingError without Node.js, npm, or what compiles the driver.
    """
    require_program("node", "nodejs npm")
    require_program("npm", "nodejs npm")
    directory = KEPT / "node"
    files = [APPS / "package.json", APPS / "package-lock.json"]
    words = ("npm", "ci", "--no-audit", "--no-fund")
    _make_once(directory, files, [words])
    return directory / "node_modules"


def _make_once(
    directory: Path, sources: Sequence[Path], commands: Sequence[Sequence[object]]
) -> None:
    """Run commands in a directory with these files, unless that was done with the same files.

    Raises MissingError with the end of the output if a command fails.
    """
    contents = b"".join(source.read_bytes() for source in sources) + sys.version.encode()
    done, made_from = directory / ".made-from", hashlib.sha256(contents).hexdigest()
    if done.exists() and done.read_text() == made_from:
        return
    print(f"Installing into {directory} ...", file=sys.stderr, flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for source in sources:
        shutil.copy(source, directory)
    for command in commands:
        ended = subprocess.run(
            [str(word) for word in command],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise MissingError(f"{command[0]} failed: {ended.stdout[-500:]}")
    done.write_text(made_from)
