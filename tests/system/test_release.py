"""Releases: built twice, verified and installed as the page says, and refused once changed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from app.documentation.reference import LIBRARIES, TYPED_CLIENTS
from app.version import VERSION
from tests.contract.pages import first_block
from tests.programs import needs
from tests.system.binary import TOOLS, copy_tree
from tests.system.debian import unpacked
from tests.system.machine import Machine
from tests.system.processes import ROOT

PROJECT = ".gitattributes .gitignore CHANGELOG.md README.md SECURITY.md pyproject.toml setup.cfg"
NAME = f"verifyd-{VERSION}-linux-{os.uname().machine}"
# The same commit, wherever it is made.
COMMITTED = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@example.com"), ("DATE", "1795262219 +0000"))
}


def copy(target: Path) -> Path:
    """Copy this tree into a repository of its own, with one commit."""
    copy_tree(target)
    shutil.copytree(ROOT / "deploy", target / "deploy", dirs_exist_ok=True)
    for name in ("app/commit.txt", *PROJECT.split()):
        shutil.copy(ROOT / name, target / name)
    return commit(target)


def commit(tree: Path) -> Path:
    """Make the tree a repository with one commit."""
    for words in ("init -q", "add --all", "commit -q -m release"):
        command = ["git", "-C", str(tree), *words.split()]
        subprocess.run(command, check=True, env={**os.environ, **COMMITTED})
    return tree


def release(tree: Path, *key: Path) -> subprocess.CompletedProcess[str]:
    """Run what `make release` runs, and return how it ended."""
    command = map(str, [tree / "deploy" / "binary" / "release.sh", TOOLS, *key])
    return subprocess.run([*command], capture_output=True, text=True, check=False)


@needs("git", "git")
def test_only_a_commit_is_released(tmp_path):
    """Changes that nobody can find again are refused, also in files that git does not know."""
    shutil.copytree(ROOT / "deploy" / "binary", tmp_path / "deploy" / "binary")
    tree = commit(tmp_path)
    (tree / "further.py").touch()
    ended = release(tree)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "make release: there are changes that are not committed (git status)\n"


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> Path:
    """The private key of the releases; the public one is beside it."""
    path = tmp_path_factory.mktemp("keys") / "release-key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest.fixture(scope="module")
def dist(tmp_path_factory, key) -> Path:
    """The files of a signed release."""
    if not TOOLS.exists():
        pytest.skip(f"{TOOLS} is not there: make test-system and make binary make it")
    tree = copy(tmp_path_factory.mktemp("release") / "tree")
    ended = release(tree, key)
    assert ended.returncode == 0, ended.stderr
    assert "is signed." in ended.stdout
    return tree / "dist"


@pytest.mark.system_long
def test_a_release_is_built_twice_alike(dist, tmp_path, key):
    """The same commit gives the same bytes on another path."""
    names = {f"{NAME}.tar.gz", f"verifyd-{VERSION}-py3-none-any.whl", f"verifyd-{VERSION}.tar.gz"}
    names |= {*LIBRARIES, *TYPED_CLIENTS}
    assert {path.name for path in dist.iterdir()} == names | {"SHA256SUMS", "SHA256SUMS.sig"}
    assert {line[66:] for line in (dist / "SHA256SUMS").read_text().splitlines()} == names
    again = copy(tmp_path / "elsewhere" / "again")
    assert release(again, key).returncode == 0
    for path in dist.iterdir():
        assert path.read_bytes() == (again / "dist" / path.name).read_bytes(), path.name


@pytest.mark.system_long
def test_the_archive_is_what_is_installed(dist, tmp_path):
    """The checksums cover each file of the archive, and the installer installs them all."""
    subprocess.run(["tar", "-xzf", dist / f"{NAME}.tar.gz", "-C", tmp_path], check=True)
    archive = tmp_path / NAME
    summed = {line[66:] for line in (archive / "SHA256SUMS").read_text().splitlines()}
    assert names_below(archive) == summed | {"SHA256SUMS", "SHA256SUMS.sig"}
    words = [archive / "install.sh", "--prefix", tmp_path / "root"]
    subprocess.run(words, capture_output=True, check=True)
    assert names_below(tmp_path / "root/opt/verifyd/current") == names_below(archive)


def names_below(directory: Path) -> set[str]:
    """Return the paths of all files below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)) for path in files}


@pytest.mark.system_long
def test_the_page_verifies_and_installs_a_release(dist, key, socket_directory):
    """Signature and checksums are verified by hand, then by the installer; changes are refused."""
    by_hand = first_block("deploy/docs/install.md", "Verify the release")
    install = f"{NAME}/install.sh"
    with Machine(socket_directory) as machine:
        home = machine.path("/root")
        for path in (*dist.iterdir(), key.with_suffix(".pub")):
            shutil.copy(path, home / path.name)
        ssh_keygen = unpacked("openssh-client") / "usr/bin/ssh-keygen"
        shutil.copy(ssh_keygen, machine.path("/usr/bin/ssh-keygen"))
        told = machine.do(by_hand.replace("RELEASE", NAME))
        assert 'Good "verifyd-release" signature for verifyd' in told
        assert f"{NAME}.tar.gz: OK" in told
        machine.do(f"{install} --trust-key release-key.pub")
        assert machine.do("systemctl is-active verifyd") == "active\n"

        binary = home / NAME / "verifyd"
        content = bytearray(binary.read_bytes())
        content[len(content) // 2] ^= 1
        binary.write_bytes(content)
        refused = machine.run(install)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "SHA256SUMS does not have the checksum of verifyd; do not install" in refused.stderr
        assert VERSION in machine.do("verifyd --version")
