"""Warm processes, which most tests use, do what `python -m app` does."""

import subprocess
import sys

import pytest

from app.cli import COMMANDS
from tests.system.processes import PROGRAM, environment, run_command

EACH_ALONE = """
import os, sys
from app.cli import build_parser

for name in sys.argv[1:]:
    if os.fork() == 0:
        build_parser([name])
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["keys", "list", "alice", "--json"], id="success"),
        pytest.param(["keys", "list", "nobody"], id="failure"),
        pytest.param(["keys", "lst"], id="usage"),
    ],
)
def test_both_say_and_end_alike(world, words):
    """Status, output and errors of a command are the same."""
    settings = {"database_url": world.config.database_url}
    warm = run_command(*words, **settings)
    real = subprocess.run(
        [*PROGRAM, *words],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (warm.returncode, warm.stdout, warm.stderr) == (
        real.returncode,
        real.stdout,
        real.stderr,
    )
    assert warm.stdout + warm.stderr


def test_each_command_imports_what_it_needs():
    """A command starts without the modules of the others, which a warm process has."""
    names = [names[0] for names in COMMANDS.values()]
    ended = subprocess.run(
        [sys.executable, "-c", EACH_ALONE, *names],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
