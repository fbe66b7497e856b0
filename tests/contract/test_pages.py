"""The pages name what is there, once: settings, commands, paths, metrics, formats, decisions."""

import argparse
import re
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path

import pytest

from app.accounts.administration import list_plans
from app.cli import build_parser
from app.config import SETTINGS
from app.error_codes import CATALOGUE
from app.http.authentication import METRICS_PATH, OPEN_PATHS
from app.registers.formats import FORMATS, native
from app.routes import ENDPOINTS
from app.storage.engine import close_quietly, open_engine
from app.storage.schema import migrate
from tests.contract.pages import PAGES, ROOT, quoted, table

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
    for path in [ROOT / "Makefile", *map(ROOT.joinpath, PAGES), *sources("deploy")]:
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


def test_the_paths_table_is_complete():
    """Every endpoint has its line, in the program's order, with the methods it answers."""
    assert [(quoted(row[0])[0], row[1].split(", ")) for row in table("Path")] == [
        (endpoint.path, methods(endpoint.resource)) for endpoint in ENDPOINTS
    ]


def methods(resource: type) -> list[str]:
    """The methods of a resource; HEAD comes with each GET, and is listed once."""
    return [name for name in ("GET", "POST") if hasattr(resource, f"on_{name.lower()}")]


def test_the_open_paths_are_those_that_need_no_key():
    """The paths that the table tells to need no key are the program's list."""
    told = {quoted(row[0])[0]: row[2] for row in table("Path")}
    assert {path for path, key in told.items() if key == "no"} == OPEN_PATHS | {"/docs/{asset}"}
    assert {path for path, key in told.items() if key == "local: no"} == {METRICS_PATH}


def test_the_errors_table_is_complete():
    """Every code of the catalogue has its line with its status."""
    told = {quoted(row[0])[0]: int(row[1]) for row in table("Code")}
    assert told == {code: kind.status for code, kind in CATALOGUE.items()}


def test_the_metrics_table_is_complete():
    """Every metric that the program makes has its line, and every line is of a metric."""
    made = {
        name
        for path in [*sources("app")]
        if path.suffix == ".py" and {"operations", "http"} & set(path.parts)
        for name in re.findall(r'"(verifyd_[a-z_]+)"', path.read_text(encoding="utf-8"))
    }
    told = [quoted(row[0])[0].removesuffix("_total") for row in table("Metric")]
    assert sorted(told) == sorted(made)


def test_the_plans_table_tells_the_plans_of_a_new_installation(tmp_path):
    """Their names, limits and windows."""
    engine = open_engine(f"sqlite:///{tmp_path / 'verifyd.db'}", create=True)
    migrate(engine)
    made = [
        [plan.name, plan.requests, plan.window_seconds, plan.bulk_max, plan.domains_max]
        for plan in list_plans(engine)
    ]
    close_quietly(engine)
    told = [
        [quoted(row[0])[0], *(int(re.sub(r"\D", "", cell)) for cell in row[1:])]
        for row in table("Plan")
    ]
    assert told == made


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
    """Whoever meets a D-number finds in the table what it stands for."""
    cited: set[str] = set()
    for path in [*sources("app", "tests", "deploy"), *map(ROOT.joinpath, PAGES)]:
        cited |= set(re.findall(r"(?<![\w%])D[1-9][0-9]?\b", path.read_text(encoding="utf-8")))
    told = [row[0] for row in table("No.")]
    assert sorted(cited - set(told), key=lambda number: int(number[1:])) == []
    assert told == sorted(told, key=lambda number: int(number[1:]))


def test_every_file_that_is_named_is_there():
    """Paths in backticks lead somewhere, from the root of the repository."""
    named = {
        name
        for text in PAGES.values()
        for name in quoted(text)
        if re.fullmatch(r"(app|tests|deploy|\.ci)(/[\w./-]*)?", name)
        or re.fullmatch(r"\w+\.(cfg|py)", name)
        if "N" not in name  # NAME and NNNN are for the reader to fill in.
    }
    assert {"app/main.py", "tests/api"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_package_is_in_the_table():
    """Packages and top modules of the program have their line, and each line is of one."""
    told = [name.rstrip("/") for row in table("Package") for name in quoted(row[0])]
    packages = {path.parent for path in (ROOT / "app").rglob("__init__.py")} - {ROOT / "app"}
    modules = {path for path in (ROOT / "app").glob("[a-z]*.*") if path.is_file()}
    there = {path.relative_to(ROOT).as_posix() for path in packages | modules}
    assert sorted(told) == sorted(there)


def test_imports_point_the_way_that_is_told():
    """The line of layers names real modules, in the order that the import contracts hold."""
    (line,) = re.findall(r"`([^`]* -> [^`]*)`\.", PAGES["app/README.md"])
    told = [name.split(", ") for name in line.split(" -> ")]
    contracts = ConfigParser(interpolation=None)
    contracts.read(ROOT / "setup.cfg", encoding="utf-8")
    layers = contracts["importlinter:contract:one-way"]["layers"].split("\n")
    place = {name: n for n, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert {name for names in told for name in names} <= place.keys()
    for above, below in pairwise(told):
        assert max(place[name] for name in above) < min(place[name] for name in below)


def test_every_target_of_make_is_in_the_table():
    """Every target has its line, and the README begins with the two that come first."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?m)^([a-z-]+):.*## ", makefile)
    assert sorted(quoted(row[0])[0] for row in table("Target")) == sorted(
        f"make {target}" for target in targets
    )
    assert [word for word in quoted(PAGES["README.md"]) if word.startswith("make ")][:1] == [
        "make run"
    ]
    assert "make test" in quoted(PAGES["README.md"])


def test_no_registry_of_packages_is_named():
    """Where packages come from is set on the machine, and stands nowhere in the repository."""
    found = [
        (path.relative_to(ROOT).as_posix(), host)
        for path in sources()
        for host in REGISTRIES
        if host in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_the_readme_is_short_and_begins_with_what_one_does_first():
    """At most 200 lines: what it is, how to try it, and where to read on."""
    assert PAGES["README.md"].count("\n") <= 200
    titles = re.findall(r"(?m)^## (.+)", PAGES["README.md"])
    assert titles[:3] == ["Two commands", "The six operations", "Load your own first file"]
    assert titles[-1] == "Read on"
