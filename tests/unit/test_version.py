"""`verifyd version` and `--version`, and the source of the commit."""

import shutil
import subprocess
from pathlib import Path

import pytest

from app import version
from app.cli import main
from app.storage.versions import program_schema
from tests.programs import needs

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_version_needs_no_database(bare_cli):
    """`version` prints program, commit, schema, and the libraries that data depends on."""
    told = bare_cli.json("version")
    members = "version commit committed_at schema sqlite libpq tzdata python python_build"
    assert list(told) == members.split()
    assert told["version"] == version.VERSION
    assert told["schema"] == program_schema()


def test_a_working_copy_has_no_commit():
    """A working copy can differ from its commit, so none is printed."""
    assert version.revision() is None


@pytest.mark.parametrize("commit", [COMMIT, f"{COMMIT}-dirty"])
def test_the_commit_is_read_from_the_file(monkeypatch, tmp_path, commit):
    """A build or an archive has the commit and its time in one line of the file."""
    (tmp_path / "commit.txt").write_text(f"{commit} 1795262219\n")
    monkeypatch.setattr(version, "files", lambda _package: tmp_path)
    assert version.revision() == (commit, 1795262219)


@pytest.mark.parametrize(
    ("commit", "shown"),
    [
        (None, ""),
        (f"{COMMIT} 1795262219\n", " (0123456789ab)"),
        (f"{COMMIT}-dirty 1795262219\n", " (0123456789ab-dirty)"),
    ],
)
def test_the_option_prints_one_line(monkeypatch, tmp_path, capsys, commit, shown):
    """`--version` prints the name, the version and, in parentheses, the commit if it is known."""
    if commit:
        (tmp_path / "commit.txt").write_text(commit)
        monkeypatch.setattr(version, "files", lambda _package: tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"verifyd {version.VERSION}{shown}\n"


@needs("git", "git")
def test_an_archive_has_its_commit_written_into_it(tmp_path):
    """`git archive` fills in the line that `revision` reads (export-subst)."""
    (tmp_path / "app").mkdir()
    for name in ("app/commit.txt", ".gitattributes"):
        shutil.copy(ROOT / name, tmp_path / name)

    def git(*words: str) -> bytes:
        name = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        return subprocess.check_output(["git", "-C", str(tmp_path), *name, *words])

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-mx")
    assert git("log", "-1", "--format=%H %ct") in git("archive", "HEAD", "app/commit.txt")
