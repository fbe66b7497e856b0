"""Run the command line within the test's own process."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.cli import main
from app.serve.http import metrics_files
from tests.stores import Store, Template


class Ended(NamedTuple):
    """The exit status of a command and its output; log lines are kept apart.

    The output includes the reason of a failed job, which is only in the log.
    """

    status: int
    stdout: str
    stderr: str
    log: list[dict[str, Any]]


class CommandLine:
    """Runs commands on an installation of its own."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.database = directory / "verifyd.db"
        self._capture = capture

    @property
    def database_url(self) -> str:
        """The database URL of the settings."""
        return os.environ["VERIFYD_DATABASE_URL"]

    def run(self, *words: object) -> Ended:
        """Run `verifyd WORDS` and return how it ended."""
        self._capture.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as exit_:  # argparse
            status = int(exit_.code or 0)
        stdout, stderr = self._capture.readouterr()
        lines = stderr.splitlines(keepends=True)
        log = [json.loads(line) for line in lines if line.startswith("{")]
        told = "".join(line for line in lines if not line.startswith("{"))
        told += "".join(f"{line['message']}\n" for line in log if line["level"] == "error")
        return Ended(status, stdout, told, log)

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
        """Run a command line that is a usage error, and return its message."""
        ended = self.run(*words)
        assert (ended.status, ended.stdout) == (2, "")
        return ended.stderr

    def file(self, name: str, *lines: str) -> Path:
        """Write a file that has these lines."""
        path = self.directory / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path


@pytest.fixture
def bare_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """The command line on an installation without a database."""
    for variable in [name for name in os.environ if name.startswith("VERIFYD_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(os, "nice", lambda _: 0)  # It cannot be undone.
    command_line = CommandLine(tmp_path, capsys)
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{command_line.database}")
    umask = os.umask(0o022)
    yield command_line
    os.umask(umask)
    # A command that starts the service makes its process a master.
    metrics_files._own = None


@pytest.fixture
def store(tmp_path: Path, template: Template) -> Iterator[Store]:
    """A migrated database without accounts."""
    store = template.store(tmp_path, accounts=False)
    yield store
    template.take_back(store)


@pytest.fixture
def cli(bare_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line on that database."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", store.url)
    # By default, commands would write their files to the working directory.
    monkeypatch.setenv("VERIFYD_STATE_DIR", str(bare_cli.directory / "state"))
    monkeypatch.setenv("VERIFYD_DATA_DIR", str(bare_cli.directory))
    return bare_cli
