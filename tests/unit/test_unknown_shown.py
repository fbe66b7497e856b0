"""What commands show where no register knows the answer (D198)."""

import csv
import io
from datetime import UTC, date
from typing import Any

import pytest

from app import clock
from app.cli import lookup_csv
from app.clock import start_of
from app.storage.engine import closed_afterwards, open_engine
from app.storage.versions import main_scripts, set_tells_unknown
from app.vehicles.contradictions import look_up_contradicted
from tests.conftest import ON_SQLITE, STORAGE
from tests.unit.conftest import CommandLine

TODAY, BEFORE, AFTER, LONG_AGO = "2026-06-15", "2026-06-14", "2026-06-16", "2010-03-01"
KNOWN = "2026-01-10T12:00:00Z"
ROWS: list[dict[str, Any]] = [
    {"registration": "SILENT"},
    {"registration": "YES", "insured": True},
    {"registration": "NO", "insured": False},
    {"registration": "YESENDED", "insured": True},
    {"registration": "NOENDED", "insured": False},
    {"registration": "ENDED"},
    {"registration": "COVERED", "motExpiry": "2027-03-01", "taxStatus": "taxed"},
    {"registration": "EXEMPT", "motExempt": True, "taxStatus": "sorn"},
]
ENDED = {"number": "P1", "validFrom": "2026-01-01", "validTo": "2026-05-31"}
POLICIES = [
    *({"registration": plate} | ENDED for plate in ("YESENDED", "NOENDED", "ENDED")),
    {"registration": "COVERED"} | ENDED | {"validTo": "2026-12-31"},
]


@pytest.fixture
def cli(bare_cli, world, monkeypatch) -> CommandLine:
    """The command line on a world that tells what is not known."""
    noon = start_of(date.fromisoformat(TODAY), UTC) + 12 * 3600
    monkeypatch.setattr(clock, "now", lambda: noon)
    for name, value in {
        "VERIFYD_DATABASE_URL": world.store.url,
        "VERIFYD_STATE_DIR": str(world.config.state_dir),
        "VERIFYD_DATA_DIR": str(world.directory),
    }.items():
        monkeypatch.setenv(name, value)
    world.load([row | {"lastUpdated": KNOWN} for row in ROWS], register="native")
    world.load([row | {"lastUpdated": KNOWN} for row in POLICIES], register="mid")
    set_tells_unknown(world.engine, tells=True)
    return bare_cli


def decided(cli, plate, day, column):
    """Return the value of a decision, whether it is not known, its registers and its reason."""
    (its,) = cli.json("lookup", plate, "--as-of", day)["plates"]
    (each,) = [each for each in its["decidedBy"] if each["column"] == column]
    return each["value"], "unknown" in each, each["registers"], each["why"]


NO_COMPLETE = "no register is known to hold every policy"
SINCE = "since 2026-01-10, not known for"
POLICY = "policy P1 of mid ended on 2026-05-31"


@STORAGE
def test_the_reason_of_the_insurance_is_told(cli, monkeypatch):
    """What decides, and if nothing does, what is missing."""
    for plate, complete, day, is_unknown, registers, why in (
        (
            *("SILENT", "", TODAY, True, []),
            f"no register knows a policy or says whether it is insured; {NO_COMPLETE}",
        ),
        ("YES", "", TODAY, False, ["native"], "native says insured, and no policy is known"),
        ("NO", "", TODAY, False, ["native"], "native says not insured, and no policy is known"),
        ("YESENDED", "", TODAY, True, ["mid", "native"], f"{POLICY}; native says insured"),
        ("NOENDED", "", TODAY, False, ["mid", "native"], f"{POLICY}; native says not insured"),
        ("ENDED", "", TODAY, True, ["mid"], f"{POLICY}; {NO_COMPLETE}"),
        (
            *("YES", "", AFTER, True, []),
            f"no policy is known; native says insured {SINCE} {AFTER}; {NO_COMPLETE}",
        ),
        (
            *("SILENT", "mid", TODAY, False, ["mid"]),
            "no register knows a policy or says whether it is insured; mid holds every policy",
        ),
        ("ENDED", "mid", TODAY, False, ["mid"], f"{POLICY}; mid holds every policy"),
        (
            *("YES", "mid", AFTER, True, []),
            f"no policy is known; native says insured {SINCE} {AFTER}; that contradicts that mid "
            "holds every policy",
        ),
        (
            *("ENDED", "mid", BEFORE, False, ["mid"]),
            f"{POLICY}; mid holds every policy, of this vehicle since 2026-01-01",
        ),
        (
            *("ENDED", "mid", LONG_AGO, True, ["mid"]),
            "policy P1 of mid begins on 2026-01-01; "
            f"mid holds no policy that began by {LONG_AGO}, and may have removed earlier ones",
        ),
        # The policy in force decides alone.
        ("COVERED", "", TODAY, False, ["mid"], f"policy P1 of mid is in force on {TODAY}"),
    ):
        monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", complete)
        value, *found = decided(cli, plate, day, "insured")
        assert found == [is_unknown, registers, why], (plate, complete, day)
        assert value == (plate == "COVERED" or (plate, day) == ("YES", TODAY))


@STORAGE
def test_the_reasons_of_the_other_checks_are_told(cli):
    """Since when a value is known, and if it is not known for the day."""
    for plate, day, column, is_unknown, registers, why in (
        (
            *("COVERED", "2026-02-01", "motValid", False, ["native"]),
            "native says expiry 2027-03-01 since 2026-01-10",
        ),
        (
            *("COVERED", LONG_AGO, "motValid", True, []),
            f"native says expiry 2027-03-01 since 2026-01-10: not known for {LONG_AGO}",
        ),
        (
            *("COVERED", TODAY, "motValid", False, ["native"]),
            "expiry 2027-03-01, the latest that any register knows",
        ),
        (
            *("COVERED", "2027-03-02", "motValid", False, ["native"]),
            "expiry 2027-03-01, the latest that any register knows",
        ),
        ("EXEMPT", BEFORE, "motValid", False, ["native"], "any register can say exempt"),
        (
            *("EXEMPT", AFTER, "motValid", True, []),
            f"native says exempt since 2026-01-10: not known for {AFTER}",
        ),
        (
            *("EXEMPT", AFTER, "roadTaxPaid", True, ["native"]),
            f"sorn {SINCE} {AFTER}; only native knows it",
        ),
        ("EXEMPT", TODAY, "roadTaxPaid", False, ["native"], "sorn; only native knows it"),
        ("EXEMPT", TODAY, "noOutstandingFines", True, [], "no register has fines"),
        ("SILENT", TODAY, "motValid", True, [], "no register knows an expiry"),
        ("SILENT", TODAY, "roadTaxPaid", True, [], "no register knows a tax status"),
    ):
        _, *found = decided(cli, plate, day, column)
        assert found == [is_unknown, registers, why], (plate, day, column)


def summary(cli, *words):
    """Return the first lines that are shown, by their names."""
    shown = cli.run("lookup", *words).stdout.splitlines()
    lines = [line.split(maxsplit=1) for line in shown[: shown.index("Decided by")] if "  " in line]
    return [text for name, text in lines if name in ("insured", "compliant")]


@ON_SQLITE
def test_people_read_that_it_is_not_known(cli, monkeypatch):
    """It is never shown as no, for a day or for a period."""
    monkeypatch.setenv("COLUMNS", "200")
    assert summary(cli, "SILENT") == [
        "not known",
        "not known (insuranceValid: not known, motValid: not known, roadTaxPaid: not known, "
        "noOutstandingFines: not known)",
    ]
    assert "not insured" not in cli.run("lookup", "SILENT").stdout
    assert summary(cli, "YESENDED")[0] == "not known (expired)"
    assert summary(cli, "YES", "--as-of", AFTER)[0] == "not known (not_known_then)"
    assert summary(cli, "COVERED") == [
        "yes (valid), until 2026-12-31",
        "yes (noOutstandingFines: not known), until 2026-12-31",
    ]
    period = ("--from", TODAY, "--to", "2027-01-01")
    assert summary(cli, "COVERED", *period)[2:] == [
        "not known, first on 2027-01-01 (insuranceValid: not known)",
        f"not known, first on {AFTER} (roadTaxPaid: not known, noOutstandingFines: not known)",
    ]
    monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", "mid")
    assert summary(cli, "SILENT")[0] == "no (no_policy)"
    assert summary(cli, "COVERED", *period)[2] == "no, not on 2027-01-01 (insuranceValid: expired)"
    decided_by = cli.run("lookup", "SILENT").stdout.partition("Decided by")[2]
    assert [line.split()[1:3] for line in decided_by.splitlines() if " motValid " in line] == [
        ["not", "known"]
    ]


@ON_SQLITE
def test_first_policies_ask_whether_they_are_all(cli, world, monkeypatch):
    """In a note on the load, which the console shows, too; unless a register is complete."""
    line = "AB12CDE,P9,2026-01-01,2026-12-31"
    file = cli.file("policies.csv", "registration,number,validFrom,validTo", line)

    def asks(register):
        notes = cli.json("import", "--register", register, file)["notes"]
        return any(each.startswith(f"if {register} holds every policy") for each in notes)

    assert asks("first")
    (load,) = cli.json("imports", "list", "--register", "first")
    assert "VERIFYD_COMPLETE_REGISTERS" in cli.run("imports", "show", load["id"]).stdout
    assert not asks("first")  # They are there already.
    monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", "first")
    assert not asks("second")
    monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", "")
    set_tells_unknown(world.engine, tells=False)
    assert not asks("third")


def cells(cli, *words, plates=("SILENT", "COVERED", "ZZ9", "")):
    """Return the rows that `lookup --csv` writes."""
    file = cli.file("fleet.csv", "plate", *plates)
    text = cli.run("lookup", "--csv", file, *words).stdout
    return list(csv.DictReader(io.StringIO(text, newline="")))


@STORAGE
def test_a_file_has_the_names_of_columns_that_are_not_known(cli):
    """In its last column; a line without an answer has none."""
    nothing = "insured motValid roadTaxPaid noOutstandingFines compliant"
    rows = cells(cli)
    assert list(rows[0])[-1] == "verifyd_unknown"
    assert [row["verifyd_unknown"] for row in rows] == [nothing, "noOutstandingFines", "", ""]
    assert rows[0]["verifyd_insured"] == rows[0]["verifyd_compliant"] == "false"
    assert {f"verifyd_{name}" for name in nothing.split()} <= rows[0].keys()
    rows = cells(cli, "--from", TODAY, "--to", AFTER)
    assert list(rows[0])[-1] == "verifyd_unknown"
    assert [row["verifyd_unknown"] for row in rows] == [
        f"{nothing} insuredThroughout compliantThroughout",
        "noOutstandingFines compliantThroughout",
        *("", ""),
    ]


@ON_SQLITE
def test_a_file_has_the_column_also_if_nothing_is_found(cli, world):
    """Its columns depend on the rule alone."""
    assert list(cells(cli, plates=("ZZ9",))[0])[-1] == "verifyd_unknown"
    set_tells_unknown(world.engine, tells=False)
    assert list(cells(cli)[0])[-1] == "verifyd_contradictedBy"


@ON_SQLITE
@pytest.mark.parametrize("tells", [True, False])
def test_a_file_is_not_answered_by_two_rules(cli, world, monkeypatch, tells):
    """A false that is not known must not be where no column says so."""
    monkeypatch.setattr(lookup_csv, "BATCH_LINES", 1)
    set_tells_unknown(world.engine, tells)
    answered = cli.file("a.csv", "plate", "SILENT", "SILENT")

    def changed(*arguments):
        found = look_up_contradicted(*arguments)
        set_tells_unknown(world.engine, not tells)
        return found

    monkeypatch.setattr(lookup_csv, "look_up_contradicted", changed)
    refused = cli.run("lookup", "--csv", answered, "--output", cli.directory / "b.csv")
    assert refused.status == 1
    assert "changed meanwhile by" in refused.stderr
    assert not (cli.directory / "b.csv").exists()


@STORAGE
def test_the_rule_is_changed_once_and_recorded(cli, world):
    """A second run changes nothing; `--status` and each run say what is in force (D198)."""
    for rule in ("off", "off", "on", "on"):
        tells = rule == "on"
        assert cli.json("migrate", "--unknown", rule)["unknown"] is tells
        assert cli.json("migrate")["unknown"] is tells
        assert cli.json("migrate", "--status")["unknown"] is tells
        told = f"answers {'tell' if tells else 'do not tell'} what is not known\n"
        assert told in cli.run("migrate", "--status").stdout
        assert told in cli.run("migrate").stdout
    changed = [
        (each["subject_kind"], each["before"], each["after"])
        for each in cli.json("actions", "list")
        if each["action"] == "answers.unknown"
    ]
    on, off = {"unknown": "on"}, {"unknown": "off"}
    assert changed == [("database", off, on), ("database", on, off)]
    assert "not allowed with argument --status" in cli.misuse(
        "migrate", "--status", "--unknown", "on"
    )


@ON_SQLITE
def test_the_status_of_a_former_database_is_its_rule(cli, tmp_path, monkeypatch):
    """Its answers do not tell what is not known, and a migration keeps that (D198)."""
    former = tmp_path / "former.db"
    engine = open_engine(f"sqlite:///{former}", create=True)
    with closed_afterwards(engine), engine.migration():
        main_scripts(engine).up("0021_recorded_states")
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{former}")
    assert cli.json("migrate", "--status")["unknown"] is False
    assert cli.json("check")["unknown"] is None
    assert cli.json("migrate")["unknown"] is False
