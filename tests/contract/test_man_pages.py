"""Commands and settings have man pages, which are up to date, and which `man` understands."""

import importlib
import os
import re
import subprocess
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType

import pytest

from app.cli import COMMANDS
from app.config import SETTINGS
from tests.contract.pages import ROOT
from tests.programs import needs
from tests.rows import each_row
from tests.unit.test_help import EVERY, LEAVES, arguments

MAN = ROOT / "deploy" / "man"
PAGES = {str(path.relative_to(MAN)): path.read_text("ascii") for path in sorted(MAN.glob("*/*"))}
OF_COMMANDS = {name for name in PAGES if name.startswith("man1/verifyd-")}


def printed(*words: object) -> str:
    """Run a program, which must succeed without a warning, and return what it printed."""
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    command = [*map(str, words)]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    return ended.stdout


def typed(source: str) -> str:
    """Return the source of a page without the escapes of single characters and without fonts."""
    for escape, character in ((r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"')):
        source = source.replace(escape, character)
    return re.sub(r"\\(?:f[BIR]|[&:])", "", source)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that writes the pages."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    return importlib.import_module("man_pages")


def test_the_pages_are_up_to_date(writer: ModuleType) -> None:
    """Whoever changes a command, a setting or a table runs `deploy/man_pages.py`."""
    assert writer.pages() == PAGES


def test_each_command_has_its_page() -> None:
    """Beside the pages of commands there are those of the program and of its settings."""
    commands = {f"man1/verifyd-{name}.1" for names in COMMANDS.values() for name in names}
    assert commands == OF_COMMANDS
    assert PAGES.keys() - commands == {"man1/verifyd.1", "man5/verifyd.env.5"}


@each_row("words", LEAVES, ids=" ".join)
def test_a_page_tells_what_the_help_tells(words: tuple[str, ...]) -> None:
    """It has the usage, the summary, each option and each example of the command."""
    command = LEAVES[words]
    source = typed(PAGES[f"man1/verifyd-{words[0]}.1"])
    # Another command of its group can have the same options.
    (part,) = re.findall(rf"(?ms)^\.SS {command.prog}\n(.*?)^\.S", source) or [source]
    assert f"\n{command.usage_line()}\n" in source
    assert str(command.description).partition("\n")[0][1:] in " ".join(part.split())
    for action in arguments(command):
        for name in action.option_strings or [command.value_of(action)]:
            assert re.search(rf"(?m)^\.TP\n{re.escape(name)}( |$)", part), name
    for example in str(command.epilog).splitlines()[1:]:
        assert f"\n{example.strip()}\n" in source


@each_row("name", OF_COMMANDS)
def test_a_page_begins_with_what_the_command_is_for(name: str) -> None:
    """The sections have the usual order, and none is missing but for what a command lacks."""
    titles = re.findall(r"(?m)^\.SH (.+)$", PAGES[name])
    assert titles == [
        *("NAME", "SYNOPSIS", "DESCRIPTION"),
        *(title for title in ("OPTIONS", "COMMANDS") if title in titles),
        *("EXIT STATUS", "FILES", "EXAMPLES", "SEE ALSO"),
    ]


def test_the_page_of_the_program_leads_to_every_command() -> None:
    """Each command is there with its summary."""
    told = " ".join(typed(PAGES["man1/verifyd.1"]).split())
    for words, _, summary in EVERY:
        if len(words) == 1:
            assert f".TP verifyd-{words[0]}(1) {summary} " in told


def test_the_page_of_the_settings_has_them_all() -> None:
    """Each setting is an item, in the program's order."""
    (items,) = re.findall(r"(?ms)^\.SH SETTINGS\n(.*?)^\.SH ", PAGES["man5/verifyd.env.5"])
    told = re.findall(r"(?m)^\.TP\n\\fB(\w+)\\fR$", items)
    assert told == [setting.variable for setting in SETTINGS.values()]


def test_the_wheel_installs_the_pages() -> None:
    """Each page is in the data of the wheel, in the directory where `man` looks for it."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    installed = {
        Path(directory, path.name).as_posix()
        for directory, patterns in config["options.data_files"].items()
        for pattern in patterns.split()
        for path in ROOT.glob(pattern)
    }
    assert installed == {f"share/man/{name}" for name in PAGES}


@needs("mandoc", "mandoc")
def test_mandoc_has_no_advice() -> None:
    """Mandoc finds no fault and has nothing to say about style."""
    assert printed("mandoc", "-T", "lint", "-W", "all", *map(MAN.joinpath, PAGES)) == ""


@needs("man", "man-db")
def test_man_finds_each_page() -> None:
    """A page is found by its name."""
    names = [Path(name).stem for name in PAGES]
    assert printed("man", "-M", MAN, "-w", *names) == "".join(f"{MAN / name}\n" for name in PAGES)


@needs("man", "man-db")
@each_row("name", PAGES)
def test_man_shows_a_page_without_warnings(name: str) -> None:
    """Groff formats it for a terminal of 80 columns without a warning."""
    shown = printed("man", "--warnings", "--local-file", MAN / name)
    assert shown.startswith(Path(name).stem.upper())


@needs("lexgrog", "man-db")
def test_apropos_knows_what_each_page_is_for() -> None:
    """The line for `whatis` and `apropos` has the name and the summary."""
    lines = printed("lexgrog", *map(MAN.joinpath, PAGES)).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [str(MAN / name) for name in PAGES]
    for name, line in zip(PAGES, lines, strict=True):
        assert f': "{Path(name).stem} - ' in line
