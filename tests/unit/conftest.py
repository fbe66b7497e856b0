"""The command line, run within the test's own process."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.cli import main
from app.database import close_quietly, open_engine
from app.schema import migrate


class Ended(NamedTuple):
    """How a command ended, and what it wrote."""

    status: int
    stdout: str
    stderr: str


class CommandLine:
    """Runs commands on an installation of its own."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.database = directory / "verifyd.db"
        self._capture = capture

    def run(self, *words: object) -> Ended:
        """Run `verifyd WORDS`, whatever comes of it."""
        self._capture.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as exit_:  # argparse
            status = int(exit_.code or 0)
        return Ended(status, *self._capture.readouterr())

    def json(self, *words: object) -> Any:
        """Run a command that must succeed and write one JSON document, and nothing else."""
        ended = self.run(*words, "--json")
        assert (ended.status, ended.stderr) == (0, "")
        return json.loads(ended.stdout)

    def refusal(self, *words: object) -> str:
        """Run a command that must fail, and return its reason."""
        ended = self.run(*words)
        assert (ended.status, ended.stdout) == (1, "")
        assert "Traceback" not in ended.stderr
        return ended.stderr

    def misuse(self, *words: object) -> str:
        """Run what is no command, and return what it is told."""
        ended = self.run(*words)
        assert (ended.status, ended.stdout) == (2, "")
        return ended.stderr

    def file(self, name: str, *lines: str) -> Path:
        """Write a file of these lines."""
        path = self.directory / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path


@pytest.fixture
def bare_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """The command line where there is no database yet."""
    for variable in [name for name in os.environ if name.startswith("VERIFYD_")]:
        monkeypatch.delenv(variable)
    command_line = CommandLine(tmp_path, capsys)
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{command_line.database}")
    umask = os.umask(0o022)
    yield command_line
    os.umask(umask)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database without accounts, made once and copied for each test."""
    path = tmp_path_factory.mktemp("empty") / "verifyd.db"
    engine = open_engine(f"sqlite:///{path}", create=True)
    migrate(engine)
    close_quietly(engine)
    return path


@pytest.fixture
def cli(bare_cli: CommandLine, empty_database: Path) -> CommandLine:
    """The command line on a migrated database without accounts."""
    shutil.copy(empty_database, bare_cli.database)
    return bare_cli
