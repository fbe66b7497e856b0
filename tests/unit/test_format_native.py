"""The native register files: the meaning of each column, in CSV and NDJSON."""

import contextlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault, recognise
from app.registers.formats.changes import Change
from app.registers.formats.values import without_value
from app.registers.reading.sources import open_members
from app.storage.tables import FineRow, Kind, PolicyRow, VehicleRow
from tests.rows import each_row

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
POLICY = {"registration": "AB1", "number": "N1", "validFrom": "2025-01-01", "validTo": "2025-12-31"}
FINE = {"reference": "R1", "registration": "AB1", "amount": "12.50", "currency": "EUR"}


class Heard:
    """A report that keeps everything it receives."""

    def __init__(self) -> None:
        self.rejects: list[tuple[int, str, str]] = []

    def reject(self, line: int, reason: str, record: str) -> None:
        self.rejects.append((line, reason, record))

    def skip(self) -> None:
        raise AssertionError("skipped")

    def note(self, text: str) -> None:
        raise AssertionError(text)

    def unreadable(self, column: str, found: object) -> None:
        """Unreadable values are counted by the load."""

    def columns(self, names: Iterable[str]) -> None:
        """The load judges column names, not the format."""


def read(name: str, kind: Kind, data: bytes) -> tuple[list[Change], list[tuple[int, str, str]]]:
    heard = Heard()
    return list(FORMATS[name].rows(io.BytesIO(data), kind, heard)), heard.rejects


def as_csv(record: dict[str, Any]) -> bytes:
    quoted = ('"' + str(value).replace('"', '""') + '"' for value in record.values())
    return f"{','.join(record)}\n{','.join(quoted)}\n".encode()


def read_both(kind: Kind, record: dict[str, Any]) -> Change | str:
    """Read a record of texts in both formats, which must agree; return a row or the reason."""
    as_json = json.dumps(record).encode()
    outcomes = []
    for name, data in (("native-csv", as_csv(record)), ("native-ndjson", as_json)):
        rows, rejects = read(name, kind, data)
        assert len(rows) + len(rejects) == 1
        outcomes.append(rows[0] if rows else rejects[0][1])
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


def vehicle(**columns: Any) -> Any:
    return read_both(Kind.VEHICLES, {"registration": "AB1"} | columns)


def policy(**columns: Any) -> Any:
    return read_both(Kind.POLICIES, POLICY | columns)


def fine(**columns: Any) -> Any:
    return read_both(Kind.FINES, FINE | columns)


def test_vehicle() -> None:
    """Every column of a vehicle has its place in the row."""
    row = vehicle(
        make=" FORD ",
        model="KA",
        year="2012",
        color="RED",
        insured="true",
        motExpiry="2026-03-31",
        motExempt="false",
        firstRegistered="2012-05-01",
        taxStatus="Taxed",
        taxDue="2026-04-30",
        lastUpdated="2025-06-30T00:00:00Z",
    )
    assert row == VehicleRow(
        "AB1", "FORD", "KA", 2012, "RED", True, "2026-03-31", False, "2012-05-01", "taxed",
        "2026-04-30", 1_751_241_600,
    )  # fmt: skip


def test_only_the_key_is_needed() -> None:
    """A vehicle needs only its registration."""
    assert vehicle() == VehicleRow("AB1")
    assert vehicle(make="", year=" ", insured="", motExpiry="", lastUpdated="") == VehicleRow("AB1")


@each_row(
    ("written", "plate"),
    [
        ("ab-12 cd", "AB12CD"),
        ("0042", "0042"),
        ("12E345", "12E345"),
        ("FALSE", "FALSE"),
        ("NULL", "NULL"),
        ("null", "NULL"),
        ("mü ab 123", "MÜAB123"),
        ("\tAB1\n", "AB1"),
    ],
)
def test_registrations_are_texts(written: str, plate: str) -> None:
    """Every registration is a text, even NULL."""
    assert vehicle(registration=written) == VehicleRow(plate)


@each_row(
    ("written", "reason"),
    [
        ("", "no registration"),
        ("   ", "no registration"),
        ("AB/1", "not a registration number: 'AB/1'"),
        ("A\0B", "not a registration number: 'A\\x00B'"),
        ("A" * 13, f"not a registration number: '{'A' * 13}'"),
        ("A" * 500, f"not a registration number: '{'A' * 40}...'"),
    ],
)
def test_no_registrations(written: str, reason: str) -> None:
    """A missing and a malformed registration have different reasons, and are quoted safely."""
    assert vehicle(registration=written, make="FORD") == reason


@each_row("missing", ["", "  ", "null", "NULL", "Null"])
def test_missing(missing: str) -> None:
    """Empty and null, in any case, are unknown in every column except the registration."""
    columns = ("make", "year", "insured", "motExpiry", "motExempt", "taxStatus", "lastUpdated")
    assert vehicle(**dict.fromkeys(columns, missing)) == VehicleRow("AB1")
    assert policy(number=missing) == "no number"


@each_row(
    ("year", "known"),
    [
        ("1885", 1885),
        (" 2024 ", 2024),
        ("1884", None),
        ("0", None),
        ("-2020", None),
        ("2020.0", 2020),
        ("2020.00", 2020),
        ("2020,0", 2020),
        ("2020.5", None),
        ("2.020", None),
        ("2020.", None),
        ("20twenty", None),
        ("\u0662\u0660\u0662\u0660", None),
        ("99999999999999999999999", None),
    ],
)
def test_years(year: str, known: int | None) -> None:
    """Years are whole numbers from 1885, also if a spreadsheet added zeros; others are unknown."""
    assert vehicle(year=year) == VehicleRow("AB1", year=known)


@each_row(
    ("word", "value"),
    [
        *(("TRUE", True), ("yes", True), ("1", True), ("1.0", True)),
        *(("False", False), ("No", False), ("0", False), ("0.0", False)),
    ],
)
def test_booleans(word: str, value: bool) -> None:
    """true, yes, 1, false, no and 0 are read in any case, also as a number with decimals."""
    assert vehicle(insured=word, motExempt=word) == VehicleRow(
        "AB1", insured=value, mot_exempt=value
    )


@each_row("word", ["2", "2.0", "0.5", "maybe"])
def test_no_booleans(word: str) -> None:
    """Any other word rejects the row; the reason names the column and how to translate the word."""
    for column in ("insured", "motExempt"):
        assert vehicle(**{column: word}) == (
            f"{column}: neither true nor false; [words.{column}] of a mapping can translate it: "
            f"'{word}'"
        )


@each_row("word", ["Ja", "N", "oui", "Sí"])
def test_a_known_word_of_another_language_is_shown(word: str) -> None:
    """The reason quotes yes and no in other languages, without the quotes of values (D70)."""
    told = vehicle(insured=word)
    assert told == (
        f'insured: the word "{word}" is neither true nor false; [words.insured] of a mapping can '
        "translate it"
    )
    assert without_value(str(told)) == told


OTHER_FORM = "not YYYY-MM-DD, but {}; a mapping can say so with date_format"
NO_SUCH_DAY = "has the form YYYY-MM-DD, but is no day that exists"
NO_DAYS = {
    **dict.fromkeys(["2025-W01-1", "2025-1-1", "soon"], "not a date"),
    **dict.fromkeys(
        ["2025-02-29", "2025-13-01"], "has the form YYYY-MM-DD, but is no day that exists"
    ),
    "20250101": OTHER_FORM.format("YYYYMMDD"),
    "01/02/2025": OTHER_FORM.format("DD/MM/YYYY or MM/DD/YYYY"),
    "13.02.2025": OTHER_FORM.format("DD.MM.YYYY"),
    "2025-02": OTHER_FORM.format("YYYY-MM"),
}


@each_row("date", NO_DAYS)
def test_unreadable_dates(date: str) -> None:
    """An unreadable date is unknown in a vehicle or fine, and rejects a policy."""
    assert vehicle(motExpiry=date, taxDue=date, firstRegistered=date) == VehicleRow("AB1")
    assert fine(issuedOn=date).issued_on is None
    for column in ("validFrom", "validTo", "cancelledOn"):
        assert policy(**{column: date}) == f"{column}: {NO_DAYS[date]}: '{date}'"


@each_row("date", ["2024-02-29", "0001-01-01", "9999-12-31", " 2025-01-02 "])
def test_dates(date: str) -> None:
    """Any date of the calendar is kept, however far away."""
    assert vehicle(motExpiry=date) == VehicleRow("AB1", mot_expiry=date.strip())


@each_row(
    "midnight",
    [" 00:00:00", "T00:00:00", " 00:00", " 0:00", " 00:00:00.000", " 12:00:00 AM", " 12:00 am"],
)
def test_midnight_behind_a_date(midnight: str) -> None:
    """Spreadsheets and databases write it behind days; any other time is none of a day."""
    date = f"2025-06-30{midnight}"
    assert vehicle(motExpiry=date, firstRegistered=date) == VehicleRow(
        "AB1", mot_expiry="2025-06-30", first_registered="2025-06-30"
    )
    assert fine(issuedOn=date).issued_on == "2025-06-30"
    assert policy(validTo=date).valid_to == "2025-06-30"


@each_row(
    "time", [" 00:00:01", " 23:59:59", "T00:00:01Z", " 01:00:00+01:00", " 12:00:00", " 00", ".0"]
)
def test_other_times_behind_a_date(time: str) -> None:
    """The day of a time depends on its time zone, so it is not guessed."""
    date = f"2025-06-30{time}"
    assert vehicle(motExpiry=date) == VehicleRow("AB1")
    assert str(policy(validTo=date)).startswith("validTo: ")


@each_row(
    ("written", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2025-06-30", 1_751_241_600),
        ("2025-06-30T00:00:00Z", 1_751_241_600),
        ("2025-06-30Z", 1_751_241_600),
        ("2025-06-30+02:00", 1_751_234_400),
        ("2025-06-30+0200", None),
        ("2025-06-30T02:00:00+02:00", 1_751_241_600),
        ("2025-06-29T19:00:00.999-05:00", 1_751_241_600),
        ("2025-06-30 00:00:00z", 1_751_241_600),
        (" 2025-06-30T00:00:00Z ", 1_751_241_600),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
        ("9999-12-31T23:59:59.9999999Z", 253_402_300_799),  # the greatest time of .NET
        ("2026-12-31T23:59:59.9999999Z", 1_798_761_599),  # msgspec would round it into 2027
        ("1969-12-31T23:59:59.5Z", -1),
        ("2025-06-30 00:00:00", 1_751_241_600),
        # In UTC these are out of the calendar.
        ("9999-12-31T23:59:59-05:00", None),
        ("0001-01-01T00:00:00+05:00", None),
        ("2025-06-30T00:00:01", None),
        ("2025-06-30T24:00:01Z", None),
        ("2025-02-30T00:00:00Z", None),
        ("20250630T000000Z", None),
        ("2025-06-30x", None),
        ("yesterday", None),
    ],
)
def test_times(written: str, seconds: int | None) -> None:
    """A time has a zone or is a date; a future time is kept, an unreadable one is unknown."""
    assert vehicle(lastUpdated=written) == VehicleRow("AB1", updated=seconds)
    assert policy(lastUpdated=written).updated == seconds


@each_row(
    ("word", "status"),
    [
        ("TAXED", "taxed"),
        ("Exempt", "exempt"),
        ("sorn", "sorn"),
        ("Untaxed", "untaxed"),
        ("Not Taxed for on Road Use", None),
        ("-", None),
    ],
)
def test_tax_status(word: str, status: str | None) -> None:
    """Four words are known in any case; others are unknown."""
    assert vehicle(taxStatus=word) == VehicleRow("AB1", tax_status=status)


@each_row(
    "column",
    [
        "make",
        "model",
        "color",
        "year",
        "insured",
        "motExpiry",
        "taxStatus",
        "taxDue",
        "lastUpdated",
    ],
)
def test_unstorable_values(column: str) -> None:
    """A control character, or more than 100 characters, in a stored column rejects the row."""
    for character in "\0", "\x1b", "\x85", "\x9d":
        assert vehicle(**{column: f"a{character}b"}) == f"{column}: contains a control character"
    assert vehicle(**{column: "x" * 101}) == f"{column}: longer than 100 characters"
    assert vehicle(note="\0" + "x" * 500) == VehicleRow("AB1")


def test_texts_of_100_characters() -> None:
    """A text is measured after trimming, and can hold any script."""
    text = "é\u00a0" * 49 + "\u200bx"
    assert vehicle(make=" " * 50 + text + " " * 50) == VehicleRow("AB1", text)


@each_row("name", ["motExpiry", "mot_expiry", "MOT Expiry", "motexpiry", " Mot-Expiry "])
def test_names_of_columns(name: str) -> None:
    """Names match in camelCase and snake_case, whatever their case and punctuation."""
    assert vehicle(**{name: "2026-01-01"}) == VehicleRow("AB1", mot_expiry="2026-01-01")


def test_policy() -> None:
    """Every column of a policy has its place in the row; an unknown insurer is empty."""
    assert policy() == PolicyRow("AB1", "", "N1", "2025-01-01", "2025-12-31")
    row = policy(insurer="Acme", type="full", cancelledOn="2025-03-01", lastUpdated="2025-06-30")
    assert row == PolicyRow(
        "AB1", "Acme", "N1", "2025-01-01", "2025-12-31", "full", "2025-03-01", 1_751_241_600
    )


def test_policy_of_a_day() -> None:
    """A policy can begin and end on the same day, but not end before it begins."""
    assert policy(validTo="2025-01-01").valid_to == "2025-01-01"
    assert policy(validTo="2024-12-31") == "validTo is before validFrom"


@each_row("column", ["registration", "number", "validFrom", "validTo"])
def test_policy_without(column: str) -> None:
    """A policy needs a registration, a number and dates."""
    assert str(policy(**{column: ""})).partition(";")[0] == f"no {column}"
    without = {name: value for name, value in POLICY.items() if name != column}
    with pytest.raises(FileFault, match=f"no column {column}"):
        read("native-csv", Kind.POLICIES, as_csv(without))


def test_fine() -> None:
    """Every column of a fine has its place in the row."""
    row = fine(issuedOn="2025-01-02", currency="eur")
    assert row == FineRow("AB1", "R1", "2025-01-02", 1250, "EUR", False)
    assert fine(currency="euro").currency is None
    assert fine(currency="E1R").currency is None
    assert fine(reference="") == "no reference"
    assert fine(registration="") == "no registration"


@each_row(
    ("written", "cents"),
    [
        ("50", 5000),
        ("50.5", 5050),
        ("0.01", 1),
        ("007.10", 710),
        ("92233720368547758.07", 2**63 - 1),
        ("0", 0),
        ("-0.00", 0),
        ("-12.34", -1234),
    ],
)
def test_amounts(written: str, cents: int) -> None:
    """Amounts are exact; an amount of zero or less is settled."""
    row = fine(amount=written)
    assert (row.amount_cents, row.settled) == (cents, cents <= 0)


@each_row(
    "written",
    [
        *"1.234 1,50 1,234.50 1e2 $5 5. .5 - . --5 +5 N/A \u0665 92233720368547758.08".split(),
        "5 5",
        "9" * 99,
    ],
)
def test_no_amounts(written: str) -> None:
    """An amount with more than two places, or beyond 64 bits, rejects the row."""
    assert fine(amount=written).startswith("amount: ")


def test_settled() -> None:
    """A readable date of settling settles a fine; an unreadable one does not."""
    assert fine(settledOn="2025-02-01").settled
    assert fine(settledOn="2025-02-01").amount_cents == 1250
    assert not fine(settledOn="2025-02-30").settled
    assert fine(amount="", settledOn="2025-02-01") == FineRow("AB1", "R1", None, 0, "EUR", True)
    assert fine(amount="") == "no amount"
    assert fine(amount="", settledOn="2025-02-30") == "no amount"


@pytest.mark.system_long
@pytest.mark.parametrize("name", ["native-csv", "native-ndjson"])
def test_memory_of_readers_is_bounded(name: str) -> None:
    """Texts beyond the cache's size are read like the first ones."""
    count = 70_000
    header = b"registration,make\n" if name == "native-csv" else b""
    form = b"AB1,M%d\n" if header else b'{"registration": "AB1", "make": "M%d"}\n'
    rows, _ = read(name, Kind.VEHICLES, header + b"".join(form % n for n in range(count)))
    assert rows == [VehicleRow("AB1", f"M{n}") for n in range(count)]


@each_row(
    ("header", "kind"),
    [
        ("registration", Kind.VEHICLES),
        ("number,registration", Kind.VEHICLES),
        ("registration,number,validFrom", Kind.POLICIES),
        ("Registration;NUMBER;valid_from", Kind.POLICIES),
        ("amount\tregistration\treference", Kind.FINES),
    ],
)
def test_kind_of_csv(header: str, kind: Kind) -> None:
    """The header of a CSV file decides its kind."""
    format_, found = recognise(header.encode() + b"\n")
    assert (format_.name, found) == ("native-csv", kind)


@each_row(
    ("lines", "kind"),
    [
        ('{"make": "FORD", "registration": ""}', Kind.VEHICLES),
        ('{"registration": "A", "number": 1, "validFrom": 1}', Kind.POLICIES),
        ('{"registration": "A", "number": 1}\n{"valid_from": null}', Kind.POLICIES),
        ('\n{broken\n[1]\n{"registration": "A", "reference": 1}\n{"cut', Kind.FINES),
        ('\ufeff{"registration": "A"}', Kind.VEHICLES),
    ],
)
def test_kind_of_ndjson(lines: str, kind: Kind) -> None:
    """The members of an NDJSON file's first records decide its kind."""
    format_, found = recognise(lines.encode())
    assert (format_.name, found) == ("native-ndjson", kind)


def test_sample() -> None:
    """The sample of New York's vehicles loads completely."""
    if not SAMPLES.is_dir():
        pytest.skip("the sample files are not beside this repository")
    expected = json.loads((SAMPLES / "expected.json").read_text())
    path = "native/vehicles_ny.csv"
    (wanted,) = (each for each in expected["files"] if each["path"].endswith(path))
    heard = Heard()
    rows: list[Change] = []
    for member in open_members(str(SAMPLES / path)):
        format_, kind = recognise(member.head)
        rows += format_.rows(member.stream, kind, heard)
    assert (len(rows), len(heard.rejects)) == (wanted["loaded"], wanted["rejected"])
    plates = {row[0] for row in rows}
    assert len(plates) == wanted["registrations"]
    assert "NULL" in plates


@example("native-csv", Kind.FINES, {"amount": "\ud800"})
@given(
    st.sampled_from(["native-csv", "native-ndjson"]),
    st.sampled_from(Kind),
    st.dictionaries(
        st.sampled_from("registration make year insured motExpiry lastUpdated".split())
        | st.sampled_from("number validFrom validTo reference amount settledOn".split()),
        st.text(max_size=30)
        | st.dates().map(str)
        | st.datetimes().map(str)
        | st.decimals().map(str),
    ),
)
def test_any_texts(name: str, kind: Kind, record: dict[str, str]) -> None:
    """Any texts give a row that can be stored, or raise FileFault."""
    if name == "native-csv":
        data = as_csv({k: v.encode(errors="replace").decode() for k, v in record.items()})
    else:
        data = json.dumps(record).encode()
    with contextlib.suppress(FileFault):
        for row in read(name, kind, data)[0]:
            "".join(value for value in row if isinstance(value, str)).encode()
            assert all(-(2**63) <= value < 2**63 for value in row if isinstance(value, int))


@each_row(
    ("members", "kind"),
    [
        ({"make": "FORD"}, Kind.VEHICLES),
        ({"number": "P", "validFrom": "2026-01-01", "validTo": "2026-12-31"}, Kind.POLICIES),
        ({"reference": "F", "amount": 5}, Kind.FINES),
    ],
)
@each_row("indent", [None, 2])
@each_row("shape", ["array", "lines of an array", "one after the other"])
def test_other_shapes_of_json(members: dict[str, Any], kind: Kind, indent: int, shape: str) -> None:
    """An array, or indented objects in sequence, give the same rows as lines."""
    records = [{"registration": plate, **members} for plate in ("AB1", "AB2", "AB3")]
    texts = [json.dumps(record, indent=indent) for record in records]
    data = {
        "array": json.dumps(records, indent=indent),
        "lines of an array": "[\n" + ",\n".join(texts) + "\n]\n",
        "one after the other": "\n".join(texts),
    }[shape].encode()
    lines = "\n".join(map(json.dumps, records)).encode()
    format_, found = recognise(data)
    heard = Heard()
    assert found is kind
    rows = list(format_.rows(io.BytesIO(data), kind, heard))
    assert rows == list(FORMATS["native-ndjson"].rows(io.BytesIO(lines), kind, heard))
    assert (len(rows), heard.rejects) == (3, [])


def test_an_array_that_is_cut_off_fails() -> None:
    """A truncated array fails, and nothing of it is loaded."""
    data = b'[{"registration": "AB1"}, {"registration": "AB2"}'
    format_, kind = recognise(data)
    with pytest.raises(FileFault, match="cut off"):
        list(format_.rows(io.BytesIO(data), kind, Heard()))
