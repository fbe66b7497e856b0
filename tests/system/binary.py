"""The program as one file, built as `make binary` builds it, from this tree and others."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.system.processes import KEPT, ROOT

TOOLS = ROOT / ".venv-binary" / "bin"
_REQUIREMENTS = Path("deploy", "binary", "requirements.txt")
_PARTS = ("app", "deploy/binary")
_MIGRATIONS = ROOT / "app" / "storage" / "migrations" / "main"
_LEFT_OUT = shutil.ignore_patterns("__pycache__")
_COMMIT = f"{'0' * 40} 1795262219\n"


def last_commit_at(schema: int) -> str:
    """Return the last commit of the main branch whose program has at most this schema.

    Skips the test if the history does not tell.
    """
    (after,) = (path.name for path in _MIGRATIONS.glob(f"{schema + 1:04}_*.py"))
    for commit in _git("rev-list", "--first-parent", "HEAD"):
        # The directory of migrations may have had another name.
        files = _git("ls-tree", "-r", "--name-only", commit)
        if not any(path.endswith(f"/{after}") for path in files):
            return commit
    pytest.skip(f"this working copy has no history that tells when {after} came")


def _git(*words: str) -> list[str]:
    """Return the lines that git prints; none if this is no repository."""
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def copy_tree(target: Path, source: Path = ROOT) -> Path:
    """Copy the sources of a binary, without a known commit."""
    for part in _PARTS:
        shutil.copytree(source / part, target / part, ignore=_LEFT_OUT)
    (target / "app" / "commit.txt").write_text(_COMMIT)
    return target


def tree_of_commit(target: Path, commit: str) -> Path:
    """Check program and deploy folder out of the history; skip the test if it is not there."""
    words = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "app", "deploy"]
    archived = subprocess.run(words, capture_output=True, check=False)
    if archived.returncode:
        pytest.skip(f"commit {commit} is not in this working copy's history")
    target.mkdir()
    subprocess.run(["tar", "-x", "-C", str(target)], input=archived.stdout, check=True)
    return target


def built(tree: Path) -> Path:
    """Return the binary of a tree, which is built once.

    Skips the test if the environment for building is not there.
    """
    if not TOOLS.exists():
        pytest.skip(f"{TOOLS} is not there: make test-system and make binary make it")
    files = sorted(path for part in _PARTS for path in (tree / part).rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(tree)}\n".encode() + path.read_bytes())
    binary = KEPT / "binaries" / digest.hexdigest()[:16] / "verifyd"
    if not binary.exists():
        words = [tree / "deploy" / "binary" / "build.sh", _tools_for(tree)]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        binary.parent.mkdir(parents=True, exist_ok=True)
        # Copied, because /tmp may be another file system; the binary last, and each at once.
        for path in sorted((tree / "dist").iterdir(), key=lambda each: each.name == binary.name):
            copy = binary.with_name(f"{path.name}.{os.getpid()}")
            shutil.copy2(path, copy)
            copy.rename(binary.with_name(path.name))
    return binary


def _tools_for(tree: Path) -> Path:
    """Return the directory of tools for a tree; earlier commits list other packages."""
    listed = (tree / _REQUIREMENTS).read_bytes()
    if listed == (ROOT / _REQUIREMENTS).read_bytes():
        return TOOLS
    environment = KEPT / "environments" / hashlib.sha256(listed).hexdigest()[:16]
    if not environment.exists():
        unfinished = environment.with_suffix(".new")
        subprocess.run([TOOLS / "python", "-m", "venv", "--clear", unfinished], check=True)
        words = "-m pip -qq --disable-pip-version-check install --require-hashes --requirement"
        python = unfinished / "bin" / "python"
        subprocess.run([python, *words.split(), tree / _REQUIREMENTS], check=True)
        unfinished.rename(environment)
    return environment / "bin"
