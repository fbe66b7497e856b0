"""`verifyd imports diff`: its forms, and the audit trail."""

import csv
import io
import os

import pytest

from app.audit.trail import Trail
from app.registers.diff import CSV_HEADING
from tests.conftest import ON_SQLITE
from tests.unit.audit_trails import lines

HEADER = "registration,number,insurer,validFrom,validTo"
NOBODY = dict.fromkeys(("known", "insured", "mot", "tax", "fines", "compliant"), False)
COVERED = NOBODY | {"known": True, "insured": True, "fines": True}

pytestmark = ON_SQLITE


@pytest.fixture
def cli(cli, monkeypatch):
    """The command line where load 2 has changed two plates, and the trail is on."""
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr(os, "getlogin", lambda: "root")
    for numbers in ((1, 2), (2, 3)):
        rows = (f"AB{n}CDE,P{n},CANARY,2020-01-01,2999-01-01" for n in numbers)
        file = cli.file("a.csv", HEADER, *rows)
        cli.json("import", file, "--mode", "replace")
    return cli


def test_a_person_sees_both_answers(cli):
    """What did not change is said once; the sentence says what was compared."""
    heading, first, second, _, sentence = cli.run("imports", "diff", "2").stdout.splitlines()
    assert heading.split() == ["registration", *NOBODY]
    gone = "AB1CDE yes -> no yes -> no no no yes -> no no"
    assert " ".join(first.split()) == gone
    assert " ".join(second.split()) == "AB3CDE no -> yes no -> yes no no no -> yes no"
    assert sentence.startswith("2 plates with other answers; both sides are judged on ")
    assert heading.index("insured") == first.index("yes -> no", len("registration  yes"))


def test_a_program_gets_one_document(cli):
    """It has the plates with both answers, and what limits them."""
    found = cli.json("imports", "diff", "2")
    assert found["plates"] == [
        {"registration": "AB1CDE", "before": COVERED, "after": NOBODY},
        {"registration": "AB3CDE", "before": NOBODY, "after": COVERED},
    ]
    assert (found["load"], found["count"]) == (2, 2)
    file = cli.directory / "a.csv"
    assert cli.json("import", file, "--mode", "replace")["change"]["held"] == [2, 2]
    assert cli.json("imports", "diff", "3")["plates"] == []


def test_a_spreadsheet_gets_columns(cli):
    """The sentence is not in the file."""
    done = cli.run("imports", "diff", "2", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert done.stdout.startswith(CSV_HEADING.rstrip())
    assert [row["registration"] for row in rows] == ["AB1CDE", "AB3CDE"]
    assert (rows[0]["insuredBefore"], rows[0]["insuredAfter"]) == ("true", "false")
    assert "2 plates" in done.stderr
    assert "--json: not allowed" in cli.misuse("imports", "diff", "2", "--csv", "--json")


def test_both_answers_are_recorded(cli):
    """With the generation that each is from, the day, the reason and who asked."""
    cli.json("imports", "diff", "2", "--reason", "REVIEW", "--reference", "C-1")
    before, after = lines(cli.directory / "audit")
    unknown, covered = {"found": False}, {"found": True, "insured": True, "compliant": False}
    assert before["plates"] == [{"plate": "AB1CDE"} | covered, {"plate": "AB3CDE"} | unknown]
    assert after["plates"] == [{"plate": "AB1CDE"} | unknown, {"plate": "AB3CDE"} | covered]
    assert (before["registers"], after["registers"]) == ({"native": 1}, {"native": 2})
    assert {each: after[each] for each in ("operation", "reason", "reference", "sudo_user")} == {
        "operation": "diff",
        "reason": "REVIEW",
        "reference": "C-1",
        "sudo_user": "ann",
    }
    assert "CANARY" not in str((before, after))


@pytest.mark.parametrize("words", [(), ("--csv",), ("--json",)])
def test_what_cannot_be_recorded_is_not_shown(cli, monkeypatch, words):
    """The command ends with 1, and prints no plate."""

    def full(trail, line):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Trail, "_append", full)
    done = cli.run("imports", "diff", "2", *words)
    assert done.status == 1
    assert "AB1CDE" not in done.stdout
    assert "cannot be written to" in done.stderr


@pytest.mark.parametrize("words", [(), ("--csv",), ("--json",)])
def test_a_reason_that_is_needed_is_asked_for(cli, monkeypatch, words):
    """As with `lookup`: without it nothing is printed or recorded (D165)."""
    monkeypatch.setenv("VERIFYD_LOOKUP_REASONS", "FRAUD,THEFT")
    refused = cli.run("imports", "diff", "2", *words, "--reason", "CURIOUS")
    assert refused.status == 1
    assert "one of the reasons FRAUD, THEFT" in refused.stderr
    assert "AB1CDE" not in refused.stdout
    assert not (cli.directory / "audit").exists()
    assert cli.run("imports", "diff", "2", *words, "--reason", "FRAUD").status == 0


def test_a_load_without_a_list_is_refused(cli):
    """With the reason, and nothing on stdout."""
    assert cli.refusal("imports", "diff", "1").startswith("the register native held nothing")
    assert "must be the number of a load" in cli.misuse("imports", "diff", "x")
