"""RDW CSV and JSON: names, placeholders, dates and the samples."""

import contextlib
import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault, recognise
from app.registers.formats.changes import Change
from app.registers.reading.sources import open_members
from app.storage.tables import Kind, VehicleRow
from tests.rows import each_row
from tests.unit.register_files import read as read_file

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
COLUMNS = (
    "Kenteken,Merk,Handelsbenaming,Datum eerste toelating,Eerste kleur,WAM verzekerd,"
    "Vervaldatum APK,Vervaldatum APK DT"
)
RDW = FORMATS["rdw-csv"]


class Heard:
    """A report that keeps everything it receives."""

    def __init__(self) -> None:
        self.rejects: list[tuple[int, str]] = []

    def reject(self, line: int, reason: str, record: str) -> None:
        assert record
        self.rejects.append((line, reason))

    def skip(self) -> None:
        raise AssertionError("skipped")

    def note(self, text: str) -> None:
        raise AssertionError(text)

    def unreadable(self, column: str, found: object) -> None:
        """Unreadable values are counted by the load."""

    def columns(self, names: Iterable[str]) -> None:
        """The load judges column names, not the format."""


def outcome(*fields: str, header: str = COLUMNS) -> VehicleRow | str:
    """Read one record; return its row, or why there is none."""
    heard = Heard()
    record = ",".join([*fields, *([""] * (header.count(",") + 1 - len(fields)))])
    rows = list(RDW.rows(io.BytesIO(f"{header}\n{record}\n".encode()), Kind.VEHICLES, heard))
    assert len(rows) + len(heard.rejects) == 1
    if not rows:
        return heard.rejects[0][1]
    assert isinstance(rows[0], VehicleRow)
    return rows[0]


def expiry(main: str, by_time: str = "") -> str | None:
    row = outcome("AB1", "", "", "", "", "", main, by_time)
    assert isinstance(row, VehicleRow)
    return row.mot_expiry


def test_record() -> None:
    """Each stored column has its place; the first admission gives the year and the day."""
    row = outcome("12-abc-3", "SEAT", "IBIZA", "20160115", "ROOD", "Ja", "20260115")
    assert row == VehicleRow(
        *("12ABC3", "SEAT", "IBIZA", 2016, "ROOD", True, "2026-01-14"),
        first_registered="2016-01-15",
    )


def test_api_names() -> None:
    """The API's names match like the display names, in any order and among other columns."""
    header = "x,vervaldatum_apk_dt,wam_verzekerd,kenteken,datum_eerste_toelating,handelsbenaming"
    row = outcome("y", "2026-03-06T00:00:00.000", "Nee", "AB1", "20140306", "NOTE", header=header)
    assert row == VehicleRow(
        *("AB1", None, "NOTE", 2014, None, False, "2026-03-05"), first_registered="2014-03-06"
    )


def test_nothing_but_the_key_is_required() -> None:
    """Only Kenteken is required: other columns can be renamed overnight."""
    assert outcome("AB1", header="Kenteken,x") == VehicleRow("AB1")
    with pytest.raises(FileFault, match="no column Kenteken"):
        outcome("FORD", header="Merk,x")


@each_row(
    "missing",
    ["", " ", "Niet geregistreerd", "N.v.t.", "n.V.T.", "GEEN VERSTREKKING IN OPEN DATA", "null"],
)
def test_placeholders(missing: str) -> None:
    """A placeholder in any case, in any column, counts as missing and is unknown."""
    assert outcome("AB1", *[missing] * 7) == VehicleRow("AB1")
    assert expiry(missing, "07/02/2023 12:00:00 AM") == "2023-07-01"


@each_row(
    ("word", "insured"), [("Ja", True), ("JA", True), ("nee", False), ("yes", None), ("J", None)]
)
def test_insured(word: str, insured: bool | None) -> None:
    """Ja and Nee are read, anything else is unknown."""
    assert outcome("AB1", "", "", "", "", word) == VehicleRow("AB1", insured=insured)


@each_row(
    ("admitted", "year", "day"),
    [
        ("20140305", 2014, "2014-03-05"),
        ("20140305.0", 2014, "2014-03-05"),
        ("20141399", 2014, None),
        ("2014", 2014, None),
        ("2014-03-05T00:00:00.000", 2014, "2014-03-05"),
        ("00000000", None, None),
        ("0", None, None),
        ("18840101", None, None),
        ("03/05/2014", None, None),
        ("201", None, None),
    ],
)
def test_first_admission(admitted: str, year: int | None, day: str | None) -> None:
    """The year is the first four digits, if it is possible, even of a day that is not."""
    row = VehicleRow("AB1", year=year, first_registered=day)
    assert outcome("AB1", "", "", admitted) == row


@each_row(
    ("main", "by_time", "day"),
    [
        ("20260306", "", "2026-03-05"),
        ("20260306", "07/02/2023 12:00:00 AM", "2026-03-05"),
        ("", "07/02/2023 12:00:00 AM", "2023-07-01"),
        ("", "2026-03-06T00:00:00.000", "2026-03-05"),
        ("", "2026-03-06T00:00:00", "2026-03-05"),
        ("20260306.0", "", "2026-03-05"),
        ("20240301", "", "2024-02-29"),
        ("00010101", "", None),
        ("20260306.5", "", None),
        ("00000000", "", None),
        ("0", "", None),
        ("20251301", "07/02/2023 12:00:00 AM", None),
        ("20250229", "", None),
        ("2025-03-01", "", None),
        ("", "31/12/2023 12:00:00 AM", None),
        ("", "7/2/2023 12:00:00 AM", None),
        ("", "Geen verstrekking in Open Data", None),
    ],
)
def test_expiry(main: str, by_time: str, day: str | None) -> None:
    """It is the first day without. The DT column counts only if the other is missing."""
    assert expiry(main, by_time) == day


def test_rejects() -> None:
    """A value that cannot be stored rejects the row, but only in a stored column."""
    assert outcome("", "FORD") == "no registration"
    assert outcome("A/B") == "not a registration number: 'A/B'"
    assert outcome("AB1", "F\0") == "Merk: contains a control character"
    assert outcome("AB1", "", "x" * 101) == "Handelsbenaming: longer than 100 characters"
    assert outcome("AB1", "F\0" * 100, header="Kenteken,Inrichting") == VehicleRow("AB1")


@pytest.mark.parametrize("kind", [Kind.POLICIES, Kind.FINES])
def test_other_kinds(kind: Kind) -> None:
    """The format holds no policies and no fines."""
    with pytest.raises(FileFault, match="files contain vehicles"):
        RDW.require_kind(kind)


@pytest.mark.parametrize(
    ("name", "rejects"),
    [
        ("Open_Data_RDW__Gekentekende_voertuigen_2023.csv", [(19, "no registration")]),
        ("Open_Data_RDW__Gekentekende_voertuigen_2025_bom_crlf.csv", []),
        ("Open_Data_RDW__Gekentekende_voertuigen_part.csv.gz", []),
    ],
)
def test_samples(name: str, rejects: list[tuple[int, str]]) -> None:
    """The samples give the expected number of rows, rejects and plates."""
    if not SAMPLES.is_dir():
        pytest.skip("the sample files are not beside this repository")
    expected = json.loads((SAMPLES / "expected.json").read_text())
    (wanted,) = (each for each in expected["files"] if each["path"].endswith(f"rdw/{name}"))
    heard = Heard()
    rows: list[Change] = []
    for member in open_members(str(SAMPLES / "rdw" / name)):
        format_, kind = recognise(member.head)
        assert format_ is RDW
        rows += format_.rows(member.stream, kind, heard)
    assert len(rows) + len(heard.rejects) == wanted["rows"]
    assert len(rows) == wanted["loaded"]
    assert heard.rejects == rejects
    assert len({row[0] for row in rows}) == wanted["registrations"]
    assert wanted["skipped"] == 0


@given(st.binary(max_size=200), st.lists(st.text(max_size=30), max_size=8))
def test_any_bytes(data: bytes, texts: list[str]) -> None:
    """Any bytes are read, or raise FileFault."""
    record = ",".join(texts).encode(errors="replace")
    with contextlib.suppress(FileFault):
        stream = io.BytesIO(f"{COLUMNS}\n".encode() + record + b"\n" + data)
        for _ in RDW.rows(stream, Kind.VEHICLES, Heard()):
            pass


def from_json(**members: object) -> Change | str:
    """Read one object of the API's JSON, among others in an array."""
    record = json.dumps({"kenteken": "12ABC3", **members})
    changes, heard = read_file(f'[{{"voertuigsoort": "x"}},\n{record}]', "rdw-json")
    assert heard.rejects[0] == (1, "no registration")
    return changes[0] if changes else heard.rejects[1][1]


def test_json() -> None:
    """The API's JSON has the columns as text members; members without a value are left out."""
    row = from_json(
        merk="SEAT",
        handelsbenaming="IBIZA",
        datum_eerste_toelating="20160115",
        eerste_kleur="N.v.t.",
        wam_verzekerd="Ja",
        vervaldatum_apk="20260115",
        vervaldatum_apk_dt="2026-01-16T00:00:00.000",
        nieuw={"a": ["\0"]},
    )
    assert row == VehicleRow(
        *("12ABC3", "SEAT", "IBIZA", 2016, None, True, "2026-01-14"),
        first_registered="2016-01-15",
    )
    assert from_json() == VehicleRow("12ABC3")
    assert from_json(vervaldatum_apk_dt="2026-01-16T00:00:00.000") == VehicleRow(
        "12ABC3", mot_expiry="2026-01-15"
    )


def test_json_names_and_numbers() -> None:
    """Display names and numbers are accepted, too; a plate must be a text."""
    row = from_json(**{"Datum eerste toelating": 20160115, "Vervaldatum APK": 20260115, "merk": 3})
    assert row == VehicleRow(
        "12ABC3", "3", None, 2016, mot_expiry="2026-01-14", first_registered="2016-01-15"
    )
    assert from_json(kenteken=123456) == "Kenteken: not a JSON string"
    assert from_json(merk={}) == "Merk: a JSON object or array"
    assert from_json(kenteken="0001TJ") == VehicleRow("0001TJ")


def test_json_elements_that_are_no_objects() -> None:
    """Each element that is no object is one reject, on the line where it begins."""
    changes, heard = read_file(
        '[{"kenteken": "A1"},\nnull,\n"x", [{"kenteken": "A2"}]]', "rdw-json"
    )
    assert changes == [VehicleRow("A1")]
    assert heard.rejects == [(line, "not a JSON object") for line in (2, 3, 3)]


def test_json_cut_off() -> None:
    """A truncated array fails the load."""
    with pytest.raises(FileFault, match="cut off"):
        read_file('[{"kenteken": "A1"},\n{"kenteken": "A2"}', "rdw-json")
