"""`verifyd imports list`: the history of loads."""

import getpass
import re
from hashlib import sha256

import pytest

from app.registers.applying.counts import MEMBERS
from app.registers.generations import locked
from app.storage.engine import close_quietly, open_engine
from app.storage.tables import Kind
from tests.unit.held import begun

HEADER = "registration,make"
KNOWN = [member.name for member in MEMBERS[Kind.VEHICLES]]
COUNTS = ("rows", "loaded", "changed", "rejected", "skipped")


@pytest.fixture
def engine(cli):
    """The database, as another process would open it."""
    engine = open_engine(cli.database_url)
    yield engine
    close_quietly(engine)


def load(cli, *, register: str = "native", make: str = "FORD"):
    """Load one vehicle into a register."""
    file = cli.file("vehicles.csv", HEADER, f"AB12CDE,{make}")
    return cli.json("import", file, "--register", register)


def test_a_load_is_remembered(cli):
    """A line says who loaded what and when, and how it ended."""
    load(cli)
    (line,) = cli.json("imports", "list")
    checksum = sha256((cli.directory / "vehicles.csv").read_bytes()).hexdigest()
    assert line | {"started_at": "", "finished_at": "", "seconds": 0} == {
        "id": 1,
        "register": "native",
        "kind": "vehicles",
        "status": "done",
        "rows": 1,
        "loaded": 1,
        "changed": 1,
        "rejected": 0,
        "skipped": 0,
        "started_at": "",
        "loaded_by": getpass.getuser(),
        "reason": None,
        "mode": "merge",
        "format": "native-csv",
        "files": ["vehicles.csv"],
        "finished_at": "",
        "seconds": 0,
        "checksum": checksum,
        "held": 1,
        "known": dict.fromkeys(KNOWN, 0) | {"rows": 1, "make": 1},
        "accepted": [],
        "accepts": None,
        "accepted_as": None,
        "broken": {},
        "is_terminated": True,
        "sizes": [(cli.directory / "vehicles.csv").stat().st_size],
        "reasons": [],
        "notes": [],
        "change": line["change"],
    }
    assert (line["change"]["added"], line["change"]["answers"]["known"]) == (1, [1, 0])
    assert line["started_at"] <= line["finished_at"]


def test_a_line_says_in_120_characters_how_a_load_ended(cli):
    """It has what the load changed or why it failed, as far as there is room, and no status twice.

    `imports show` has everything; there, how many rows the register holds is not called held.
    """
    load(cli)
    cli.refusal("import", cli.file("b.csv", HEADER, '"'), "--register", "r" * 30)
    heading, failed, done, _, count = cli.run("imports", "list").stdout.splitlines()
    assert heading.split() == "id register kind mode status rows started outcome".split()
    assert done.endswith("Z  +1")
    assert (len(failed), failed[-3:]) == (120, "...")
    assert count == "2 attempts"
    told = cli.run("imports", "show", 1).stdout
    assert re.search("(?m)^rows_afterwards  1$", told)
    assert not re.search("(?m)^held ", told)


def test_loads_are_listed_the_latest_first(cli):
    """The list has all registers, or only the named one."""
    for register in ("native", "fleet"):
        load(cli, register=register)
    assert [line["register"] for line in cli.json("imports", "list")] == ["fleet", "native"]
    (line,) = cli.json("imports", "list", "--register", "native")
    assert line["id"] == 1


def test_the_list_is_empty_at_first(cli):
    """Without loads the array is empty, and the table has no rows."""
    assert cli.json("imports", "list") == []
    assert cli.run("imports", "list").stdout.splitlines()[1:] == ["", "0 attempts"]


def test_a_failed_load_has_its_reason(cli):
    """A failed load's line has the reason that the operator was shown."""
    good, bad = cli.file("a.csv", HEADER, "AB12CDE,X"), cli.file("b.csv", HEADER, 'AB13CDE,"X')
    refusal = cli.refusal("import", good, bad)
    (line,) = cli.json("imports", "list")
    assert (line["status"], line["reason"]) == ("failed", refusal.strip())
    assert line["finished_at"] is not None


def test_a_failed_load_has_its_counts(cli):
    """The line has the counts up to the failure; none of these rows are loaded."""
    good, bad = cli.file("a.csv", HEADER, "AB12CDE,X", ",X"), cli.file("b.csv", HEADER, '"')
    cli.refusal("import", good, bad)
    (line,) = cli.json("imports", "list")
    assert {name: line[name] for name in COUNTS} == dict(zip(COUNTS, (2, 0, 0, 1, 0), strict=True))


def test_a_killed_load_is_interrupted(cli, engine):
    """It is shown at once, before the next load settles it, with `--json` or without."""
    killed = begun(engine, "native")
    (line,) = cli.json("imports", "list")
    assert (line["id"], line["status"]) == (killed, "interrupted")
    assert " interrupted " in cli.run("imports", "list").stdout
    load(cli)
    assert [line["status"] for line in cli.json("imports", "list")] == ["done", "failed"]


def test_a_running_load_is_shown_as_running(cli, engine):
    """A load whose process holds the register's lock is shown as running."""
    with locked(engine, "native"):
        begun(engine, "native")
        assert cli.json("imports", "list")[0]["status"] == "running"


def test_a_load_by_a_user_without_a_name_is_remembered(cli, monkeypatch):
    """In a container a user can be a number without a name."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nameless)
    load(cli)
    assert cli.json("imports", "list")[0]["loaded_by"].startswith("user ")
