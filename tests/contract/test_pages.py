"""The pages name existing settings, commands, paths, metrics, formats and decisions, once."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath

from app.accounts.administration import list_plans
from app.cli import build_parser
from app.config import SETTINGS
from app.errors import CATALOGUE
from app.registers.formats import FORMATS, native
from app.routes import ENDPOINTS
from app.serve.http.authentication import METRICS_PATH, OPEN_PATHS
from app.storage.engine import close_quietly, open_engine
from app.storage.stores import migrate
from tests.contract.pages import PAGES, ROOT, decisions, files, quoted, table
from tests.rows import each_row

TOLD_IN_WORDS = {
    "workers": "cores + 1, at most 17",
    "state_dir": "`state/` beside the SQLite database, with Postgres in the current directory",
    "data_dir": "the directory of the SQLite database, with Postgres `VERIFYD_STATE_DIR`",
    "trusted_proxies": "none",
    "socket_group": "none",
    "metrics_accounts": "none",
    "certificate": "none",
    "audit_digests": "none",
    "audit_dir": "`audit/` in `VERIFYD_DATA_DIR`",
    "console_bind": "none",
    "console_url": "none",
    "console_limits": "none",
    "console_groups": "none",
    "console_proxy_secret": "none",
    "complete_registers": "none",
    "lookup_reasons": "none",
    "lookup_advice": "none",
    "notify": "none",
    "notify_secret": "none",
}
# Written in two parts, so that this file does not contain them.
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
    """Return every command of a parser, as the words that call it."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield words
    for group in groups:
        for name, command in group.choices.items():
            yield from commands(command, *words, name)


PARSER = build_parser()


def usage(words: tuple[str, ...]) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    parser = PARSER
    for word in words:
        groups = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = next(groups).choices[word]
    return parser


def sources(*folders: str) -> Iterator[Path]:
    """Return all text files that we wrote, in the repository or in some of its directories."""
    for path in files():
        parts = path.relative_to(ROOT).parts
        is_ours = "swagger-ui" not in parts
        is_text = path.suffix not in (".pyc", ".db", ".gz", ".png", ".zip")
        if is_ours and is_text and (not folders or parts[0] in folders):
            yield path


def test_the_settings_table_is_complete():
    """The table has exactly the settings, in the program's order."""
    assert [quoted(row[0]) for row in table("Variable")] == [
        [setting.variable] for setting in SETTINGS.values()
    ]


@each_row("name", SETTINGS)
def test_the_settings_table_has_the_defaults(name):
    """The default is the program's, or a text where it depends on the machine."""
    variable = SETTINGS[name].variable
    (told,) = [row[1] for row in table("Variable") if row[0] == f"`{variable}`"]
    assert told == TOLD_IN_WORDS.get(name, f"`{SETTINGS[name].default}`")


def test_no_other_settings_are_named():
    """Every `VERIFYD_` variable in a page or script is a setting."""
    known = {setting.variable for setting in SETTINGS.values()}
    for path in [ROOT / "Makefile", *map(ROOT.joinpath, PAGES), *sources("deploy")]:
        named = set(re.findall(r"VERIFYD_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8")))
        assert named - known == set(), path


def test_the_commands_table_is_complete():
    """The table has exactly the commands."""
    told = {
        tuple(word for word in quoted(row[0])[0].split()[1:] if word.islower())
        for row in table("Command")
    }
    assert told == set(commands(PARSER))


@each_row("row", table("Command"), ids=lambda row: row[0].strip("`"))
def test_a_command_has_the_arguments_of_the_table(row):
    """Arguments and options of a row are the command's own."""
    words = quoted(row[0])[0].split()[1:]
    command = usage(tuple(word for word in words if word.islower()))
    text = command.format_usage()
    for argument in [word for word in words if not word.islower()]:
        assert argument.strip("[].") in text, f"no argument {argument}"
    for option in re.findall(r"--[a-z-]+", row[1]):
        assert option in command._option_string_actions, f"no option {option}"


def test_the_paths_table_is_complete():
    """The table has every endpoint, in the program's order, with its methods."""
    assert [(quoted(row[0])[0], row[1].split(", ")) for row in table("Path")] == [
        (endpoint.path, methods(endpoint.resource)) for endpoint in ENDPOINTS
    ]


_METHODS = ("GET", "POST", "PUT", "DELETE")


def methods(resource: type) -> list[str]:
    """Return the methods of a resource; HEAD belongs to GET and is listed once."""
    return [name for name in _METHODS if hasattr(resource, f"on_{name.lower()}")]


def test_the_open_paths_are_those_that_need_no_key():
    """The table's paths without a key are the program's."""
    told = {quoted(row[0])[0]: row[2] for row in table("Path")}
    assert {path for path, key in told.items() if key == "no"} == OPEN_PATHS | {
        *("/docs/{asset}", "/docs/operations/{operation}")
    }
    assert {path for path, key in told.items() if key == "local: no"} == {METRICS_PATH}


def test_the_errors_table_is_complete():
    """The table has every code of the catalogue with status, meaning and retry."""
    told = {quoted(row[0])[0]: (int(row[1]), *row[2:]) for row in table("Code")}
    assert told == {
        code: (kind.status, kind.meaning, kind.retry) for code, kind in CATALOGUE.items()
    }


def test_the_metrics_table_is_complete():
    """The table has exactly the program's metrics."""
    made = {
        name
        for path in [*sources("app")]
        if path.suffix == ".py" and {"monitoring", "http"} & set(path.parts)
        for name in re.findall(r'"(verifyd_[a-z_]+)"', path.read_text(encoding="utf-8"))
    }
    told = [quoted(row[0])[0].removesuffix("_total") for row in table("Metric")]
    assert sorted(told) == sorted(made)


def test_the_plans_table_has_the_plans_of_a_new_installation(tmp_path):
    """The table has the plans' names, limits and windows."""
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
    """The table has every format, with its default register."""
    told = {quoted(row[0])[0]: quoted(row[1])[0] for row in table("Format")}
    assert told == {each.name: each.register for each in FORMATS.values()}


def test_the_native_members_are_those_that_are_read():
    """Each kind has all its members; the time of a fine is that of its load."""
    layouts = {
        "vehicles": native.vehicle_layout(),
        "policies": native.policy_layout(),
        "fines": native.fine_layout(),
    }
    assert {row[0]: set(quoted(row[1])) for row in table("Kind")} == {
        kind: {column.label for column in layout.columns} for kind, layout in layouts.items()
    }


def test_every_cited_decision_exists():
    """Every cited D-number, from D1 to the latest, is a decision."""
    cited: set[str] = set()
    for path in [*sources("app", "tests", "deploy"), *map(ROOT.joinpath, PAGES)]:
        cited |= set(re.findall(r"(?<![\w%])D[1-9][0-9]*\b", path.read_text(encoding="utf-8")))
    known = {each.number for each in decisions()}
    assert {"D20", "D130"} <= cited
    assert sorted(cited - known, key=lambda number: int(number[1:])) == []


def test_no_sentence_leads_to_a_document_that_is_not_here():
    """The code cites decisions and pages of this repository, and no document that readers lack."""
    # Written in two parts, so that this line cites nothing.
    elsewhere = re.compile(r"\b(?:sp" r"ec|form" r"ats|DES" r"IGN|iss" r"ue) \d")
    citing = [
        path.relative_to(ROOT).as_posix()
        for path in sources("app", "tests", "deploy", "findings")
        if elsewhere.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert citing == []


def test_each_decision_has_a_number_of_its_own():
    """A number belongs to one decision. Those of a room, and the headings, are in order."""
    numbers = [each.number for each in decisions()]
    assert [each for each, count in Counter(numbers).items() if count > 1] == []
    by_room = {room: list(group) for room, group in groupby(decisions(), lambda each: each.room)}
    for room, members in by_room.items():
        told = [int(each.number[1:]) for each in members]
        assert told == sorted(told), room
    headings = re.findall(r"(?m)^###+ (\S+)", PAGES["app/DECISIONS.md"])
    assert headings == numbers


def test_decisions_are_short():
    """A decision has at most 150 words."""
    words = {each.number: len(each.text.split()) for each in decisions()}
    assert {number: count for number, count in words.items() if not 0 < count <= 150} == {}


def test_every_file_that_is_named_is_there():
    """A path in backticks exists, from the root of the repository."""
    named = {
        name
        for text in PAGES.values()
        for name in quoted(text)
        if re.fullmatch(r"(app|tests|deploy|\.ci)(/[\w./-]*)?", name)
        or re.fullmatch(r"\w+\.(cfg|py)", name)
        if "N" not in name  # The reader fills in NAME and NNNN.
    }
    assert {"app/main.py", "tests/api"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_name_is_in_the_file_that_is_named():
    """What the pages say is in or of a file of the program is there."""
    named = {
        each
        for text in PAGES.values()
        for each in re.findall(r"`(\w+)`\s+(?:in|of)\s+`(app/[\w/]+\.py)`", text)
    }
    assert ("Config", "app/config.py") in named
    told = {(name, path): (ROOT / path).read_text(encoding="utf-8") for name, path in named}
    assert [each for each, code in told.items() if not re.search(rf"\b{each[0]}\b", code)] == []


def test_every_package_is_in_the_table():
    """The table has exactly the program's packages and top modules."""
    told = [name.rstrip("/") for row in table("Package") for name in quoted(row[0])]
    packages = {path.parent for path in (ROOT / "app").rglob("__init__.py")} - {ROOT / "app"}
    modules = {path for path in (ROOT / "app").glob("[a-z]*.*") if path.is_file()}
    there = {path.relative_to(ROOT).as_posix() for path in packages | modules}
    assert sorted(told) == sorted(there)


def test_imports_point_the_documented_way():
    """The lines of layers name real modules, in the order of the import contracts."""
    lines = re.findall(r"`([^`]* -> [^`]*)`\.", PAGES["app/README.md"])
    contracts = ConfigParser(interpolation=None)
    contracts.read(ROOT / "setup.cfg", encoding="utf-8")
    for line, contract in zip(lines, ("one-way", "loads"), strict=True):
        told = [name.split(", ") for name in line.split(" -> ")]
        layers = contracts[f"importlinter:contract:{contract}"]["layers"].split("\n")
        place = {name: n for n, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
        assert {name for names in told for name in names} <= place.keys()
        for above, below in pairwise(told):
            assert max(place[name] for name in above) < min(place[name] for name in below)


def test_every_target_of_make_is_in_the_table():
    """The table has every target, and the README begins with the two most important ones."""
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
    """The machine sets where packages come from, and the repository never does."""
    found = [
        (path.relative_to(ROOT).as_posix(), host)
        for path in sources()
        for host in REGISTRIES
        if host in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_the_readme_is_short_and_begins_with_the_first_steps():
    """At most 200 lines say what it is, how to try it, and where to read on."""
    assert PAGES["README.md"].count("\n") <= 200
    titles = re.findall(r"(?m)^## (.+)", PAGES["README.md"])
    assert titles[:3] == ["Two commands", "The operations", "Load your own first file"]
    assert titles[-1] == "Read on"


@each_row(
    "page", ["README", "LOADING", "REFERENCE", "FILES", "monitoring/README", "scale-out/README"]
)
def test_an_old_page_leads_to_the_new_ones(page):
    """Below each heading that links of 1.0.0 lead to is a link to where its text is now."""
    parts = re.split(r"(?m)^#+ .+\n", PAGES[f"deploy/{page}.md"])
    assert len(parts) > 2
    links = [
        re.fullmatch(r"\n\[[^\]]+\]\((?:\.\./)?docs/[\w#-]+\.md\S*\)\n+", each)
        for each in parts[1:]
    ]
    assert all(links)


@each_row("page", [page for page in PAGES if page.startswith("deploy/docs/")])
def test_a_page_can_be_read_to_its_end(page):
    """A page for users has at most 5,000 words, and the list of all pages has it."""
    assert len(PAGES[page].split()) <= 5_000
    name = PurePosixPath(page).name
    assert name == "README.md" or f"]({name})" in PAGES["deploy/docs/README.md"]
