"""`verifyd completion`: what a shell offers for the words typed so far."""

import subprocess
from pathlib import Path

import pytest

from app.cli import COMMANDS, build_parser
from app.cli.program import _arguments
from tests.programs import needs
from tests.rows import each_row

_TRY = """
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"$(complete -p verifyd | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def database_kind() -> str:
    """SQLite: no database is opened."""
    return "sqlite"


@pytest.fixture
def script(bare_cli) -> Path:
    """The script for bash."""
    ended = bare_cli.run("completion", "bash")
    assert (ended.status, ended.stderr) == (0, "")
    path: Path = bare_cli.file("verifyd.bash", ended.stdout)
    return path


def offered(script: Path, *words: str) -> set[str]:
    """What bash offers after these words, in a directory with a file and a directory."""
    place = script.parent / "place"
    (place / "sub").mkdir(parents=True, exist_ok=True)
    (place / "cars.csv").touch()
    ended = subprocess.run(
        ["bash", "-c", _TRY, "bash", str(script), "verifyd", *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == ""
    return {word for word in ended.stdout.splitlines() if word}


def test_every_command_is_offered(script):
    """At first the commands of all modules."""
    assert {name for names in COMMANDS.values() for name in names} <= offered(script, "")


@each_row(
    ("words", "wanted"),
    [
        (("ke",), {"keys"}),
        (("keys", "r"), {"revoke", "rotate"}),
        (("keys", "rotate", "--gr"), {"--grace"}),
        (("import", "--kind", "p"), {"policies"}),
        (("import", "c"), {"cars.csv"}),
        (("import", "--map", "c"), {"cars.csv"}),
        (("import", "--drop", ""), {"sub"}),
        (("backup", ""), {"sub"}),
        (("completion", ""), {"bash", "zsh"}),
    ],
)
def test_words_are_completed(script, words, wanted):
    """Commands, options, values, files, and directories alone where only they make sense."""
    assert offered(script, *words) == wanted


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_knows_every_option(bare_cli, shell):
    """It is made from the parser."""
    script = bare_cli.run("completion", shell).stdout
    for action in _arguments(build_parser()):
        for option in action.option_strings:
            assert option in script


@needs("zsh", "zsh")
def test_zsh_understands_the_script(bare_cli):
    """It defines a completion of the command."""
    path = bare_cli.file("_verifyd", bare_cli.run("completion", "zsh").stdout)
    program = f'autoload -Uz compinit; compinit -D -u; eval "$(cat {path})"; print $_comps[verifyd]'
    ended = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("_shtab_verifyd\n", "")


def test_another_shell_is_refused(bare_cli):
    """With those that there are."""
    assert "must be bash or zsh, not 'fish'" in bare_cli.misuse("completion", "fish")
