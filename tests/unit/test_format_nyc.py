"""NYC fines, CSV and JSON: state, keys, amounts, dates."""

import json

import pytest

from app.registers.formats import FileFault
from app.registers.formats.changes import Change
from app.registers.formats.nyc import NycCsv, NycJson
from app.storage.tables import FineRow
from tests.rows import each_row
from tests.unit.register_files import SKIPPED, outcome, read

COLUMNS = (
    "Plate,State,License Type,Summons Number,Issue Date,Violation,Fine Amount,Penalty Amount,"
    "Interest Amount,Reduction Amount,Payment Amount,Amount Due,Violation Status"
).split(",")
GOOD = {
    "Plate": "QQ1",
    "State": "NY",
    "Summons Number": "1400000001",
    "Issue Date": "01/19/2017",
    "Amount Due": "130.97",
}
FINE = FineRow("QQ1", "1400000001", "2017-01-19", 13_097, "USD", settled=False)


def fine(state: str = "NY", **fields: str) -> Change | str:
    """Read one fine from CSV and JSON alike, by its columns with `_` for blanks."""
    record = GOOD | {name.replace("_", " "): value for name, value in fields.items()}
    values = [f'"{record.get(name, "")}"' for name in COLUMNS]
    from_csv = outcome(f"{','.join(COLUMNS)}\n{','.join(values)}\n", NycCsv(state))
    names = {name: name.lower().replace(" ", "_") for name in record}
    members = {names[name]: value for name, value in record.items() if value}
    members |= {"summons_image": {"url": "x"}}  # type: ignore[dict-item]
    # A member without a value is left out; another fine has all members.
    whole = {"plate": "X", "state": "none", "summons_number": "1"}
    changes, heard = read(json.dumps([whole, members]), NycJson(state))
    told = [reason for _, reason in heard.rejects] + [SKIPPED] * (heard.skipped - 1)
    from_json = changes[0] if changes else told[0]
    assert from_json == from_csv
    return from_csv


def test_fine() -> None:
    """A fine has plate, summons, day and the amount owed, in US dollars."""
    assert fine() == FINE
    assert fine(License_Type="PAS", Violation="A, B", Violation_Status="HEARING PENDING") == FINE


@each_row("state", ["NJ", "99", "88", "", "N", "NYC"])
def test_other_states(state: str) -> None:
    """A plate is unique only within its state, so rows of other states are skipped."""
    assert fine(State=state) == SKIPPED
    assert fine(State=state, Plate="A/B", Amount_Due="x") == SKIPPED


def test_chosen_state() -> None:
    """Only the chosen state is loaded; case and blanks of its name do not count."""
    assert fine("NJ", State="NJ") == FINE
    assert fine("NJ", State="NY") == SKIPPED
    assert fine(State=" ny ") == FINE


@each_row(
    ("amount", "cents"),
    [
        ("130.97", 13_097),
        ("50", 5_000),
        ("0.5", 50),
        ("$2,115.50", 211_550),
        ("2,115.50", 211_550),
        ("$65", 6_500),
        ("1,234,567.00", 123_456_700),
        ("0", 0),
        ("0.00", 0),
        ("-10.00", -1_000),
        ("-$10.00", -1_000),
    ],
)
def test_amounts(amount: str, cents: int) -> None:
    """An amount is a decimal with at most two places; 0 or less is settled."""
    assert fine(Amount_Due=amount) == FINE._replace(amount_cents=cents, settled=cents <= 0)


@each_row("amount", ["65,00", "2,11.50", "N/A", "6.555", "1e2", "EUR 5", "5 5", "$"])
def test_invalid_amounts(amount: str) -> None:
    """A decimal comma or a text is rejected."""
    reason = fine(Amount_Due=amount)
    assert isinstance(reason, str)
    assert reason.startswith("Amount Due: not a decimal")


def test_json_numbers() -> None:
    """Amounts and summons can be JSON numbers, a plate cannot."""
    record = '[{"plate": %s, "state": "NY", "summons_number": 7, "amount_due": 75.5}]'
    assert outcome(record % '"1"') == FineRow("1", "7", None, 7_550, "USD", settled=False)
    assert outcome(record % "1") == "Plate: not a JSON string"


@pytest.mark.parametrize("number", ["1.4E+09", "1400000000.0"])
def test_json_numbers_that_may_have_lost_digits(number: str) -> None:
    """Scientific notation is rejected as a JSON number, too."""
    record = '[{"plate": "1", "state": "NY", "summons_number": %s, "amount_due": 1e1}]'
    assert outcome(record % number) == f"Summons Number: not digits only: '{number}'"


def test_written_off() -> None:
    """A fine with all six amounts blank is written off; a blank due amount alone is not enough."""
    assert fine(Amount_Due="") == FINE._replace(amount_cents=0, settled=True)
    assert fine(Amount_Due="null") == FINE._replace(amount_cents=0, settled=True)
    for name in ("Fine", "Penalty", "Interest", "Reduction", "Payment"):
        assert fine(Amount_Due="", **{f"{name}_Amount": "0"}) == "no Amount Due"


@each_row(
    ("date", "day"),
    [
        ("02/29/2020", "2020-02-29"),
        ("02/29/2019", None),
        ("03/15/2067", "2067-03-15"),
        ("2017-01-19", "2017-01-19"),
        ("2017-01-19T00:00:00.000", "2017-01-19"),
        ("19/01/2017", None),
        ("1/9/2017", None),
        ("", None),
    ],
)
def test_issue_date(date: str, day: str | None) -> None:
    """MM/DD/YYYY or ISO dates are read; an impossible date is unknown, a future one is kept."""
    assert fine(Issue_Date=date) == FINE._replace(issued_on=day)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("", "no Summons Number"),
        ("1.4E+09", "Summons Number: not digits only: '1.4E+09'"),
        ("14-1", "Summons Number: not digits only: '14-1'"),
    ],
)
def test_summons_numbers(number: str, reason: str) -> None:
    """The key is digits only, because scientific notation has lost some."""
    if number:
        assert fine(Summons_Number=number) == reason
    row = f"Plate,State,Summons Number,Amount Due\nQQ1,NY,{number},5\n"
    assert outcome(row, "nyc-csv") == reason


@each_row("plate", ["NULL", "0012345", "12E345", "FALSE"])
def test_plates_that_look_like_something_else(plate: str) -> None:
    """Registrations stay texts."""
    assert fine(Plate=plate) == FINE._replace(registration=plate)


@pytest.mark.parametrize("plate", ["BLANKPLATE", "blankplate", "BLANK PLATE"])
def test_cars_without_plates(plate: str) -> None:
    """BLANKPLATE stands for a car without plates."""
    assert fine(Plate=plate) == "a car without plates"


def test_no_plate() -> None:
    """A row without a plate is rejected."""
    assert fine(Plate="") == "no registration"


@each_row("missing", ["Amount Due", "State", "Plate", "Summons Number"])
def test_columns_that_must_be_there(missing: str) -> None:
    """Without one of these columns, all rows would be written off or have no state."""
    header = ",".join(name for name in COLUMNS if name != missing)
    if missing == "Amount Due":
        with pytest.raises(FileFault, match="no column Amount Due"):
            read(header + "\n", "nyc-csv")
    else:
        with pytest.raises(FileFault, match="fits no format"):
            read(header + "\n")
