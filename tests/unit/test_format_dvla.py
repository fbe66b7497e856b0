"""DVLA answers: members, tax words, error bodies."""

import json

import pytest

from app.registers.formats.changes import Change
from app.storage.tables import VehicleRow
from tests.rows import each_row
from tests.unit.register_files import outcome, read


def answer(**members: object) -> Change | str:
    """Read one answer; its plate is AB1 by default."""
    return outcome(json.dumps({"registrationNumber": "AB1", **members}), "dvla")


def test_answer() -> None:
    """Each stored member has its place; there is no model."""
    row = answer(
        registrationNumber="ab 1",
        make="FORD",
        model="FOCUS",
        colour="RED",
        yearOfManufacture=2019,
        taxStatus="Taxed",
        taxDueDate="2026-04-30",
        motStatus="Valid",
        motExpiryDate="2026-03-14",
        monthOfFirstRegistration="2019-03",
        markedForExport=False,
        dateOfLastV5CIssued="2019-05-20",
    )
    assert row == VehicleRow(
        "AB1",
        "FORD",
        None,
        2019,
        "RED",
        mot_expiry="2026-03-14",
        first_registered="2019-03-01",
        tax_status="taxed",
        tax_due="2026-04-30",
    )


@each_row(
    ("due", "last_day"),
    [
        ("2026-04-01", "2026-03-31"),
        ("2024-03-01", "2024-02-29"),
        ("2026-01-01", "2025-12-31"),
        ("2026-04-02", "2026-04-02"),
        ("2026-04-30", "2026-04-30"),
        ("0001-01-01", None),
    ],
)
def test_tax_due(due: str, last_day: str | None) -> None:
    """A first of a month is the day on which the tax falls due, so the day before is paid."""
    assert answer(taxDueDate=due) == VehicleRow("AB1", tax_due=last_day)


@each_row("month", ["2019-13", "2019", "03/2019", "2019-02-29", 201903, "<1 YEAR FROM NOW>", ""])
def test_invalid_months(month: object) -> None:
    """The month of first registration is YYYY-MM; anything else is unknown."""
    assert answer(monthOfFirstRegistration=month) == VehicleRow("AB1")


def test_a_whole_date_of_first_registration() -> None:
    """Clients that store answers as objects of Python write the month as a date."""
    row = answer(monthOfFirstRegistration="2019-03-14")
    assert row == VehicleRow("AB1", first_registered="2019-03-14")


def test_nothing_but_the_key_is_required() -> None:
    """All members but the key may be missing, and are then unknown."""
    assert answer() == VehicleRow("AB1")


@each_row(
    ("word", "status"),
    [
        ("Taxed", "taxed"),
        ("TAXED", "taxed"),
        ("Untaxed", "untaxed"),
        ("Not Taxed for on Road Use", "untaxed"),
        ("SORN", "sorn"),
        ("Exempt", None),
        ("", None),
        (None, None),
        (True, None),
    ],
)
def test_tax_status(word: object, status: str | None) -> None:
    """Four words are known; any other word is unknown."""
    assert answer(taxStatus=word) == VehicleRow("AB1", tax_status=status)


@each_row(
    "text", ["<1 YEAR FROM NOW>", "14-02-2026", "2026-02-30", "20260214", "2026-02", 20260214, None]
)
def test_invalid_dates(text: object) -> None:
    """Only YYYY-MM-DD is a date; a vehicle without a readable date is still taxed."""
    row = answer(taxStatus="Taxed", taxDueDate=text, motStatus="Valid", motExpiryDate=text)
    assert row == VehicleRow("AB1", tax_status="taxed")


@pytest.mark.parametrize("status", ["No details held by DVLA", "No results returned", "Not valid"])
def test_mot_status(status: str) -> None:
    """The MOT status has no date, so nothing of it is stored."""
    assert answer(motStatus=status) == VehicleRow("AB1")


@each_row("year", [0, 1884, "unknown", 2019.5, -1])
def test_years(year: object) -> None:
    """An impossible year is unknown."""
    assert answer(yearOfManufacture=year) == VehicleRow("AB1")


@pytest.mark.parametrize(
    "body",
    [
        '{"errors": [{"status": "404", "code": "404", "title": "Vehicle Not Found"}]}',
        '{"message": "Forbidden"}',
        '{"make": "FORD"}',
    ],
)
def test_error_bodies(body: str) -> None:
    """Error bodies between answers are rejected."""
    good = '{"registrationNumber": "AB1"}'
    for text in (f"{body}\n{good}\n", f"[{body},\n{good}]"):
        changes, heard = read(text, "dvla")
        assert (changes, heard.rejects) == ([VehicleRow("AB1")], [(1, "no registration")])


def test_registration_that_is_a_number() -> None:
    """A number is rejected, because it may have lost leading zeros."""
    assert answer(registrationNumber=12) == "registrationNumber: not a JSON string"


def test_stored_values() -> None:
    """A value that cannot be stored rejects the answer only in a stored member."""
    assert answer(make=["FORD"]) == "make: a JSON object or array"
    assert answer(colour="RED\0") == "colour: contains a control character"
    assert answer(fuelType=["x\0"], wheelplan="x" * 200) == VehicleRow("AB1")


def test_each_answer_a_file_of_its_own(world) -> None:
    """A file that is an error body is one reject among the answers, even if it is the first."""
    paths = [world.directory / f"{name}.json" for name in "abcd"]
    paths[0].write_text('{"errors": [{"status": "404", "title": "Vehicle Not Found"}]}')
    paths[1].write_text('{"registrationNumber": "AA1", "taxStatus": "SORN"}')
    paths[2].write_text('{"message": "Too Many Requests"}')
    paths[3].write_text('{"registrationNumber": "AA2", "taxStatus": "Taxed"}')
    result = world.load_files(*paths)
    assert (result.register, result.loaded, result.rejected) == ("dvla", 2, 2)
