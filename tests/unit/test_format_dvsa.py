"""DVSA bulk and delta: members, the best expiry, modifications."""

import contextlib
import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault
from app.registers.formats.changes import Change, VehicleDeletion
from app.registers.reading.sources import open_members
from app.storage.tables import Kind, VehicleRow
from tests.rows import each_row
from tests.unit.register_files import Heard, outcome, read

PASSED = {"testResult": "PASSED", "expiryDate": "2026-05-19"}


def change(**record: object) -> Change | str:
    """Read one record; its plate is AB1 by default."""
    return outcome(json.dumps({"registration": "AB1", "motTests": [], **record}), "dvsa")


def expiry(*tests: object) -> str | None:
    row = change(motTests=tests)
    assert isinstance(row, VehicleRow)
    return row.mot_expiry


def test_record() -> None:
    """Each stored member has its place; tax, insurance and exemption stay empty."""
    row = change(
        registration="ab 12 cde",
        make="FORD",
        model="FOCUS",
        primaryColour="Blue",
        secondaryColour="Red",
        manufactureDate="2021-03-18",
        motTests=[PASSED],
        lastMotTestDate="2031-01-01",
        last_update_date="2023-12-04",
    )
    assert row == VehicleRow(
        "AB12CDE", "FORD", "FOCUS", 2021, "Blue", mot_expiry="2026-05-19", updated=1_701_648_000
    )


@each_row("missing", ["Not Stated", "NOT STATED", "", " ", None, "null"])
def test_placeholders(missing: str | None) -> None:
    """Not Stated, in any case, counts as missing."""
    assert change(make=missing, model=missing, primaryColour=missing) == VehicleRow("AB1")


@each_row(
    ("dates", "year"),
    [
        (("2003-03-27", "2004-03-27", "1973-09-21"), 2003),
        ((None, "2004-03-27", "1973-09-21"), 2004),
        (("", None, "1973-09-21"), 1973),
        (("1884-01-01", "0000-00-00", "1973-09-21"), 1973),
        (("unknown", "2004-03-27T00:00:00Z", None), 2004),
        ((None, None, None), None),
    ],
)
def test_year(dates: tuple[str | None, ...], year: int | None) -> None:
    """The year is that of manufacture, else of first use, else of registration."""
    names = ("manufactureDate", "firstUsedDate", "registrationDate")
    row = change(**dict(zip(names, dates, strict=True)))
    assert isinstance(row, VehicleRow)
    assert row.year == year


@each_row(
    ("first_used", "registered", "day"),
    [
        ("2004-03-27", "1973-09-21", "2004-03-27"),
        ("2004-03-27T00:00:00Z", None, "2004-03-27"),
        (None, "1973-09-21", "1973-09-21"),
        ("2004", "1973-09-21", "1973-09-21"),
        ("2004-02-30", "2004", None),
        (None, None, None),
    ],
)
def test_first_registration(first_used: str | None, registered: str | None, day: str) -> None:
    """It is the day of first use, else that of registration, and never that of manufacture."""
    dates = {"firstUsedDate": first_used, "registrationDate": registered}
    row = change(manufactureDate="2001-01-01", **dates)
    assert row == VehicleRow("AB1", year=2001, first_registered=day)


def test_a_date_that_cannot_be_read_is_noted_although_the_next_one_can() -> None:
    """Otherwise nobody learns why an MOT is due from the day of registration on."""
    dates = {"firstUsedDate": "2025-13-02", "registrationDate": "2025-03-18"}
    record = json.dumps({"registration": "AB1", "motTests": [], **dates})
    (row,), heard = read(record, "dvsa")
    assert row == VehicleRow("AB1", year=2025, first_registered="2025-03-18")
    assert heard.unread == {"firstUsedDate": 1}


@each_row(
    ("due", "tests", "expiry"),
    [
        ("2028-03-17", [], "2028-03-17"),
        ("2028-03-17", [{"testResult": "FAILED"}], "2028-03-17"),
        ("2028-03-17T00:00:00Z", None, "2028-03-17"),
        ("2028-03-17", [PASSED], "2026-05-19"),
        ("17/03/2028", [], None),
        (None, [], None),
    ],
)
def test_due_date(due: str | None, tests: object, expiry: str | None) -> None:
    """Before the first pass, the agency's own due date is the last day that needs none (D154)."""
    row = change(motTestDueDate=due, motTests=tests, firstUsedDate="2025-03-18")
    expected = VehicleRow("AB1", year=2025, mot_expiry=expiry, first_registered="2025-03-18")
    assert row == expected


@each_row(
    ("tests", "day"),
    [
        ([PASSED], "2026-05-19"),
        ([{**PASSED, "expiryDate": "2027-01-01"}, PASSED], "2027-01-01"),
        ([PASSED, {"testResult": "FAILED", "expiryDate": "2030-01-01"}], "2026-05-19"),
        ([{"testResult": "FAILED", "completedDate": "2026-01-01"}], None),
        ([{**PASSED, "testResult": "passed"}], "2026-05-19"),
        ([{**PASSED, "testResult": "ABANDONED"}, {**PASSED, "testResult": 1}], None),
        ([{"testResult": "PASSED"}, PASSED], "2026-05-19"),
        ([{**PASSED, "expiryDate": None}, PASSED, {**PASSED, "expiryDate": ""}], "2026-05-19"),
        ([{**PASSED, "expiryDate": "2026-02-30"}, {**PASSED, "expiryDate": "19/05/2026"}], None),
        ([{**PASSED, "expiryDate": "2026-05-19 12:21:09"}], "2026-05-19"),
        ([{**PASSED, "expiryDate": "2026-05-19T12:21:09.000Z"}], "2026-05-19"),
        ([{**PASSED, "expiryDate": 20260519}, {**PASSED, "expiryDate": ["2026-05-19"]}], None),
        ([{**PASSED, "regMarkTimeOfTest": "ZZ9", "registration": "ZZ9"}], "2026-05-19"),
        ([{**PASSED, "odometerUnit": 5, "motTestNumber": "7", "defects": [[{}]]}], "2026-05-19"),
        ([None, 5, [PASSED], PASSED], "2026-05-19"),
        ([], None),
    ],
)
def test_expiry(tests: list[object], day: str | None) -> None:
    """The latest expiry among the passed tests counts, in any order."""
    assert expiry(*tests) == day


def test_invalid_tests() -> None:
    """The MOT is unknown if tests are null or absent; any other form is ignored."""
    assert change(motTests=None) == VehicleRow("AB1")
    assert outcome('{"registration": "AB1", "modification": null}') == VehicleRow("AB1")
    for odd in ({}, "none", 0, PASSED):
        assert change(motTests=odd) == "motTests: not a JSON array"


@each_row("member", ["last_update_date", "lastUpdateDate", "lastUpdateTimestamp"])
@each_row("time", ["2023-12-04", "2023-12-04 10:00:00", "2023-12-04T10:00:00.1Z"])
def test_last_update(member: str, time: str) -> None:
    """The spelling varies, and times have no zone: only the day counts."""
    assert change(**{member: time}) == VehicleRow("AB1", updated=1_701_648_000)


@pytest.mark.parametrize("member", ["modification", "last_modification", "lastModification"])
def test_modification(member: str) -> None:
    """CREATED and UPDATED are upserts, DELETED removes, in any case; the default is UPDATED."""
    for word in ("CREATED", "UPDATED", "updated", " Created ", "", None):
        assert change(**{member: word}) == VehicleRow("AB1")
    for word in ("DELETED", "deleted"):
        assert change(**{member: word}) == VehicleDeletion("AB1")
        assert change(**{member: word}, make="FORD") == VehicleDeletion("AB1")
    assert change(**{member: "AMENDED"}) == "unknown modification: 'amended'"
    assert change(**{member: 5}) == "unknown modification: '5'"


def test_deletion_of_no_plate() -> None:
    """A deletion needs its plate like any other record."""
    assert change(registration=None, modification="DELETED") == "no registration"


@each_row(
    ("record", "reason"),
    [
        ({"registration": " "}, "no registration"),
        ({"registration": 1234}, "registration: not a JSON string"),
        ({"registration": 1.5}, "registration: not a JSON string"),
        ({"registration": "A/B"}, "not a registration number: 'A/B'"),
        ({"make": {}}, "make: a JSON object or array"),
        ({"model": "x" * 101}, "model: longer than 100 characters"),
        ({"primaryColour": "a\0"}, "primaryColour: contains a control character"),
        ({"firstUsedDate": []}, "date: a JSON object or array"),
    ],
)
def test_rejects(record: dict[str, object], reason: str) -> None:
    """A value that cannot be stored rejects the record."""
    assert change(**record) == reason


def test_unused_members_can_hold_anything() -> None:
    """Unused members can hold anything."""
    odd = {"fuelType": {"a": [1]}, "engineSize": "x" * 999, "secondaryColour": "\0", "new": 1e300}
    assert change(**odd, model=208) == VehicleRow("AB1", model="208")


def test_order_is_kept() -> None:
    """Changes keep the order of the file: created, deleted, created again."""
    words = ("CREATED", "DELETED", "UPDATED")
    lines = [f'{{"registration": "AB1", "modification": "{word}"}}' for word in words]
    assert read("\n".join(lines), "dvsa").changes == [
        VehicleRow("AB1"),
        VehicleDeletion("AB1"),
        VehicleRow("AB1"),
    ]


@pytest.mark.parametrize("kind", [Kind.POLICIES, Kind.FINES])
def test_other_kinds(kind: Kind) -> None:
    """The format holds no policies and no fines."""
    with pytest.raises(FileFault, match="files contain vehicles"):
        FORMATS["dvsa"].require_kind(kind)


RECORD = {"make": "FORD", "motTests": [PASSED, {"testResult": "FAILED"}]}


def bulk(tmp_path: Path, *names: str) -> Path:
    """A zip of gz members, each with two gzip streams and its own plate, among other files."""
    path = tmp_path / "bulk-light-vehicle_29-06-2025.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/._x.json.gz", b"\0")
        archive.writestr("folder/", b"")
        archive.writestr("folder/README.txt", b"no data")
        for number, name in enumerate(names):
            lines = [json.dumps({"registration": f"AB{number}{i}", **RECORD}) for i in "12"]
            text = b"".join(gzip.compress(line.encode() + b"\n") for line in lines)
            archive.writestr(name, text)
    return path


def test_zip(tmp_path: Path) -> None:
    """Members are chosen by the end of their names, and read whole in the order of their dates."""
    path = bulk(
        tmp_path,
        "delta-light-vehicle_01-07-2025_0.json.gz",
        "in/a/folder/bulk-light-vehicle_30-06-2025_0.json.gz",
        "../bulk-light-vehicle_30-06-2025_1.json.gz",
        "delta-light-vehicle_30-06-2025_0.JSON.GZ",
    )
    plates = []
    for member in open_members(str(path)):
        dvsa = FORMATS["dvsa"]
        assert dvsa.recognise(member.head) is Kind.VEHICLES
        rows = dvsa.rows(member.stream, Kind.VEHICLES, Heard())
        plates += [row[0] for row in rows]
    assert plates == ["AB11", "AB12", "AB21", "AB22", "AB31", "AB32", "AB01", "AB02"]


record_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.sampled_from("registration make primaryColour manufactureDate motTests".split())
        | st.sampled_from("modification last_update_date".split()),
        record_values,
    )
)
def test_any_values(record: dict[str, object]) -> None:
    """A record of any values is one change or one reject."""
    heard = Heard()
    with contextlib.suppress(FileFault):
        data = io.BytesIO(json.dumps(record).encode())
        changes = list(FORMATS["dvsa"].rows(data, Kind.VEHICLES, heard))
        assert len(changes) + len(heard.rejects) == 1
