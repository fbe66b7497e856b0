"""The README tells what is there: settings, commands, paths, formats, decisions, files."""

import argparse
import re
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from app.cli import build_parser
from app.config import SETTINGS
from app.http.authentication import OPEN_PATHS
from app.registers.formats import FORMATS, native
from app.routes import ENDPOINTS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOLD_IN_WORDS = {
    "workers": "cores + 1",
    "state_dir": "`state/` beside the SQLite database",
    "data_dir": "the directory of the SQLite database, with Postgres `VERIFYD_STATE_DIR`",
    "trusted_proxies": "none",
    "socket_group": "none",
    "metrics_accounts": "none",
    "certificate": "none",
    "notify": "none",
    "notify_secret": "none",
}
# Written in two parts, so that this file does not name them itself.
REGISTRIES = [
    f"{name}.{domain}"
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("anaconda", "org"),
        ("rubygems", "org"),
        ("crates", "io"),
        ("jfrog", "io"),
        ("golang", "org"),
    )
]


def commands(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Every command of a parser, as the words that call it."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield words
    for group in groups:
        for name, command in group.choices.items():
            yield from commands(command, *words, name)


def usage(words: tuple[str, ...]) -> argparse.ArgumentParser:
    """The parser of one command."""
    parser = build_parser()
    for word in words:
        groups = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = next(groups).choices[word]
    return parser


@cache
def table(first_header: str) -> list[list[str]]:
    """The rows of the README's table whose first column has this header."""
    lines = iter(README.splitlines())
    for line in lines:
        if line.startswith(f"| {first_header} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert rows, f"the README has no table of {first_header}"
    return rows


def quoted(text: str) -> list[str]:
    """What stands in backticks, blocks left out."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    return re.findall(r"`([^`\n]+)`", text)


def sources(*folders: str) -> Iterator[Path]:
    """All text files that we wrote, in the repository or in some of its folders."""
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT)
        folder = relative.parts[:-1]
        is_ours = not any(part.startswith(".") and part != ".ci" for part in folder)
        is_ours = is_ours and "swagger-ui" not in folder
        is_text = path.is_file() and path.suffix not in (".pyc", ".db", ".gz", ".zip")
        if is_ours and is_text and (not folders or relative.parts[0] in folders):
            yield path


def test_the_settings_table_is_complete():
    """Every setting has its line, in the program's order, and no line is of anything else."""
    assert [quoted(row[0]) for row in table("Variable")] == [
        [setting.variable] for setting in SETTINGS.values()
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_table_tells_the_default(name):
    """The default is the program's own, or told in words where it depends on the machine."""
    variable = SETTINGS[name].variable
    (told,) = [row[1] for row in table("Variable") if row[0] == f"`{variable}`"]
    assert told == TOLD_IN_WORDS.get(name, f"`{SETTINGS[name].default}`")


def test_no_other_settings_are_named():
    """Whatever page or script names a `VERIFYD_` variable names one that there is."""
    known = {setting.variable for setting in SETTINGS.values()}
    for path in [ROOT / "README.md", ROOT / "Makefile", *sources("deploy")]:
        named = set(re.findall(r"VERIFYD_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8")))
        assert named - known == set(), path


def test_the_commands_table_is_complete():
    """Every command has a line, and every line is of a command."""
    told = {
        tuple(word for word in quoted(row[0])[0].split()[1:] if word.islower())
        for row in table("Command")
    }
    assert told == set(commands(build_parser()))


@pytest.mark.parametrize("row", table("Command"), ids=lambda row: row[0].strip("`"))
def test_a_command_takes_what_the_table_tells(row):
    """Arguments and options of a line are the command's own."""
    words = quoted(row[0])[0].split()[1:]
    command = usage(tuple(word for word in words if word.islower()))
    text = command.format_usage()
    for argument in [word for word in words if not word.islower()]:
        assert argument.strip("[].") in text, f"no argument {argument}"
    for option in re.findall(r"--[a-z-]+", row[1]):
        assert option in command._option_string_actions, f"no option {option}"


@pytest.mark.parametrize("line", re.findall(r"(?m)^(?:.*\| )?(verifyd [^#|\n]*)", README))
def test_the_examples_are_understood(line):
    """Commands in the examples can be typed as they stand."""
    build_parser().parse_args(line.split()[1:])


def test_every_path_is_named():
    """Each endpoint stands in the README, as it is or with an example in it."""
    for endpoint in ENDPOINTS:
        if endpoint.path == "/docs/{asset}":
            continue
        pattern = re.sub(r"\\\{\w+\\\}", "[^/ ]+", re.escape(endpoint.path))
        assert re.search(rf"(?<![\w/]){pattern}(?![\w/])|:8000{pattern}['?]", README), endpoint.path


def test_the_open_paths_are_those_that_need_no_key():
    """The table of paths without a key is the program's list."""
    assert {quoted(row[0])[0] for row in table("Path")} == OPEN_PATHS


def test_the_formats_table_is_complete():
    """Every format has its line, with the register it fills unless told."""
    told = {quoted(row[0])[0]: quoted(row[1])[0] for row in table("Format")}
    assert told == {each.name: each.register for each in FORMATS.values()}


def test_the_native_members_are_those_that_are_read():
    """Each kind has all its members; a fine's time is its load's."""
    layouts = {
        "vehicles": native.vehicle_layout(),
        "policies": native.policy_layout(),
        "fines": native.fine_layout(),
    }
    assert {row[0]: set(quoted(row[1])) for row in table("Kind")} == {
        kind: {column.label for column in layout.columns} for kind, layout in layouts.items()
    }


def test_every_decision_that_is_cited_is_told():
    """Whoever meets a D-number finds in the README what it stands for."""
    cited: set[str] = set()
    for path in [*sources("app", "tests", "deploy"), ROOT / "README.md"]:
        cited |= set(re.findall(r"(?<![\w%])D[1-9][0-9]?\b", path.read_text(encoding="utf-8")))
    told = [row[0] for row in table("No.")]
    assert sorted(cited - set(told), key=lambda number: int(number[1:])) == []
    assert told == sorted(told, key=lambda number: int(number[1:]))


def test_every_file_that_is_named_is_there():
    """Paths in backticks lead somewhere."""
    named = {
        name
        for name in quoted(README)
        if re.fullmatch(r"(app|tests|deploy|\.ci)(/[\w./-]*)?", name)
        or re.fullmatch(r"\w+\.(cfg|toml|py)", name)
    }
    assert {"app/main.py", "tests/api"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_room_is_in_the_table():
    """Folders and modules of the program have their line, or stand in one."""
    told = {name.rstrip("/") for row in table("Room") for name in quoted(row[0])}
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "app").iterdir()
        if path.name[0].isalpha() and any(path.rglob("*.py") if path.is_dir() else [path.name])
    }
    plain = {"app/clock.py", "app/config.py", "app/logs.py"}
    assert told <= there
    assert [name for name in sorted(there - told - plain) if name not in README] == []


def test_imports_point_the_way_that_is_told():
    """The line of layers names real modules, in the order that the import contracts hold."""
    (line,) = re.findall(r"`([^`]* -> [^`]*)`\.", README)
    told = [name.split(", ") for name in line.split(" -> ")]
    contracts = ConfigParser(interpolation=None)
    contracts.read(ROOT / "setup.cfg", encoding="utf-8")
    layers = contracts["importlinter:contract:one-way"]["layers"].split("\n")
    place = {name: n for n, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert {name for names in told for name in names} <= place.keys()
    for above, below in pairwise(told):
        assert max(place[name] for name in above) < min(place[name] for name in below)


def test_the_two_commands_are_there():
    """`make run` and `make test` stand in the README and in the Makefile, as do the others."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z-]+):", makefile))
    named = set(re.findall(r"(?m)`make ([a-z-]+)`|^make ([a-z-]+) ", README))
    named_targets = {name for pair in named for name in pair if name}
    assert {"run", "test"} <= named_targets <= targets


def test_no_registry_of_packages_is_named():
    """Where packages come from is set on the machine, and stands nowhere in the repository."""
    found = [
        (path.relative_to(ROOT).as_posix(), host)
        for path in sources()
        for host in REGISTRIES
        if host in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_titles_are_in_order():
    """The page begins with what one does first."""
    titles = re.findall(r"(?m)^## (.+)", README)
    assert titles[:3] == ["Two commands", "The six operations", "Installing it for good"]
    assert titles[-1] == "Decisions"
