"""MID private policies: positions, changes, the transaction, personal data."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault
from app.registers.formats.changes import Change, PolicyCancellation, PolicyDeletion
from app.storage.tables import Kind, PolicyRow
from tests.rows import each_row
from tests.unit.register_files import Heard, Read, read

HEADER = "H0001I123001L000123202506300615#"
MARKER = "ZZPRIVATE"
# The first position of a field, from 1, and its length.
FIELDS = {
    "update": (2, 1),
    "insurer": (3, 3),
    "quoteback": (16, 35),
    "number": (74, 20),
    "foreign": (98, 1),
    "plate": (99, 12),
    "make": (131, 50),
    "cover": (189, 2),
    "start": (196, 8),
    "expiry": (208, 8),
    "ended": (220, 1),
    "holder": (222, 71),
}
POLICY = PolicyRow("QQ21AAA", "123", "POL-1", "2025-01-01", "2025-12-31", "01")


def record(**fields: str) -> str:
    """Return a private policy of 1,196 characters: POLICY with these fields changed."""
    values = {
        "update": "N",
        "insurer": "123",
        "number": "POL-1",
        "foreign": "U",
        "plate": "QQ21AAA",
        "make": "FORDFOCUS",
        "cover": "01",
        "start": "20250101",
        "expiry": "20251231",
        "holder": MARKER,
    } | fields
    characters = list("P".ljust(1195) + "#")
    for name, value in values.items():
        place, width = FIELDS[name]
        characters[place - 1 : place - 1 + width] = value.ljust(width)
    text = "".join(characters)
    assert len(text) == 1196
    return text


def file(*records: str, count: int | None = None, end: str = "\r\n") -> str:
    """Return a file of header, these records, and trailer."""
    trailer = f"T000123{len(records) + 2 if count is None else count:09}#"
    return end.join([HEADER, *records, trailer])


def read_file(*records: str) -> Read:
    found = read(file(*records), "mid")
    told = [*found.heard.records, *found.heard.notes, *(r for _, r in found.heard.rejects)]
    assert not any(MARKER in text for text in told)
    return found


def change(**fields: str) -> Change | str:
    """Read one policy: return its change, or why there is none."""
    changes, heard = read_file(record(**fields))
    return changes[0] if changes else heard.rejects[0][1]


def test_policy() -> None:
    """Insurer, number, plate, dates and cover type have fixed positions; texts are trimmed."""
    assert change() == POLICY
    assert change(plate=" b-xy 12 ", foreign="F") == POLICY._replace(registration="BXY12")
    assert change(number="2025/POLICY/00000008") == POLICY._replace(number="2025/POLICY/00000008")
    assert change(expiry="99991231") == POLICY._replace(valid_to="9999-12-31")
    assert change(cover="", insurer="") == POLICY._replace(insurer="", type=None)


def test_updates() -> None:
    """N and A are upserts; D deletes the whole policy, whatever its dates."""
    assert change(update="A") == POLICY
    for dates in ({}, {"start": "", "expiry": ""}, {"start": "20250230", "ended": "X"}):
        assert change(update="D", **dates) == PolicyDeletion("QQ21AAA", "123", "POL-1")


def test_cancellation() -> None:
    """Both dates are the day of cancelling, so the policy is matched without dates."""
    cancelled = PolicyCancellation("QQ21AAA", "123", "POL-1", "2025-03-15")
    day = {"start": "20250315", "expiry": "20250315", "ended": "C"}
    assert change(update="A", **day) == cancelled
    assert change(update="N", **day) == cancelled
    assert change(update="A", ended="C") == "a cancellation with two different dates"


def test_lapse() -> None:
    """A lapse has the policy's own start, and cancels it on the expiry date."""
    assert change(update="A", ended="L") == POLICY._replace(cancelled_on="2025-12-31")


@each_row(
    ("fields", "reason"),
    [
        ({"update": "X"}, "unknown update type"),
        ({"update": " "}, "unknown update type"),
        ({"ended": "R"}, "unknown cancellation flag"),
        ({"plate": ""}, "no registration"),
        ({"plate": "A/B"}, "not a registration number"),
        ({"number": ""}, "no policy number"),
        ({"number": "A\0"}, "policy number: contains a control character"),
        ({"start": ""}, "start: not a date"),
        ({"start": "20250229"}, "start: not a date"),
        ({"start": "01012025"}, "start: not a date"),
        ({"expiry": ""}, "expiry: not a date"),
        ({"expiry": "00000000"}, "expiry: not a date"),
        ({"start": "20260101"}, "expiry is before start"),
    ],
)
def test_rejects(fields: dict[str, str], reason: str) -> None:
    """A policy without readable dates, or a record that is not understood, is rejected."""
    assert change(**fields) == reason


def test_malformed_records() -> None:
    """Short records, records without a final #, and other types are one reject each."""
    good = record()
    broken = [good[:-1], good[:218] + "#", "V" + good[1:], "X#", "PN#", good[:100], "#"]
    changes, heard = read_file(good, *broken, good)
    assert changes == [POLICY, POLICY]
    assert heard.rejects == [
        (3, "the record does not end with #"),
        (4, "shorter than 220 characters"),
        (5, "unknown record type"),
        (6, "unknown record type"),
        (7, "shorter than 220 characters"),
        (8, "the record does not end with #"),
        (9, "unknown record type"),
    ]


def test_short_records_that_load() -> None:
    """A record of at least 220 characters has all fields that are read."""
    assert read_file(record()[:220] + "#").changes == [POLICY]


def test_rejects_hold_no_personal_data() -> None:
    """A reject has policy number and plate of a whole record, nothing of a shifted one (0.13)."""
    assert read_file(record(update="X")).heard.records == [
        "policy number POL-1, registration QQ21AAA"
    ]
    good = record(quoteback=MARKER)
    for shifted in (good[:60] + good[180:], good[:1150], good[:50] + good[130:220], MARKER):
        found = read_file(shifted)
        assert (found.changes, found.heard.records) == ([], [""])


def test_longer_than_any_record() -> None:
    """A missing line end does not fill the memory."""
    changes, heard = read_file(record(), MARKER * 200_000, record())
    assert changes == [POLICY, POLICY]
    assert heard.rejects == [(3, "longer than 1,048,576 bytes")]


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_line_ends(end: str) -> None:
    """Blank lines are ignored."""
    text = file(record(), count=3, end=end).replace(end, end * 2)
    changes, heard = read(f"{end} {end}{text}", "mid")
    assert (changes, heard.rejects) == ([POLICY], [])


def test_windows_1252() -> None:
    """Positions count characters, of UTF-8 or of Windows-1252."""
    text = file(record(make="CITROËN", holder="ÄÖÜ €"), record(number="Ë-1"))
    wanted = [POLICY, POLICY._replace(number="Ë-1")]
    for encoding in ("utf-8", "utf-8-sig", "cp1252"):
        assert read(text.encode(encoding), "mid").changes == wanted


def test_windows_1252_that_looks_like_utf_8() -> None:
    """The length decides which of two encodings a record has."""
    changes, _ = read(file(record(number="Ã©")).encode("cp1252"), "mid")
    assert changes == [POLICY._replace(number="Ã©")]


@each_row(
    ("text", "fault"),
    [
        (file(record()).rpartition("\r\n")[0], "no trailer"),
        (HEADER, "no trailer"),
        (file(record(), count=2), "The trailer counts 2 records, but the file has 3"),
        (file(record(), count=4), "The trailer counts 4 records, but the file has 3"),
        (file(record())[:-1], "The trailer in line 3 is malformed"),
        (file(record()) + "\r\n" + record(), "a record after the trailer, in line 4"),
        (file(record()) + "\r\n" + file(record()), "a record after the trailer, in line 4"),
        (record() + "\r\n" + file(), "no header"),
        (file(record()).replace("H0001", "H0002"), "no header of version 0001"),
        (file(record()).replace("H", "B", 1), "MID2 fleet file"),
    ],
)
def test_file_faults(text: str, fault: str) -> None:
    """A file is a transaction: it fails whole without header or trailer, or with a wrong count."""
    with pytest.raises(FileFault, match=fault):
        read(text, "mid")


def test_notes() -> None:
    """The load notes that the format is experimental, and the supplier's file number."""
    (note,) = read_file(record()).heard.notes
    assert note.startswith("mid is experimental")
    assert note.endswith("Supplier I123, sequence 000123, date 20250630")
    _, heard = read(file().replace("T000123", "T000124"), "mid")
    assert heard.notes[1:] == ["header and trailer have different sequence numbers"]


@pytest.mark.parametrize("kind", [Kind.VEHICLES, Kind.FINES])
def test_other_kinds(kind: Kind) -> None:
    """The format holds policies only, although makes and models are in the records."""
    with pytest.raises(FileFault, match="files contain policies"):
        FORMATS["mid"].require_kind(kind)


@given(st.binary(max_size=300), st.binary(max_size=1300))
def test_any_bytes(start: bytes, rest: bytes) -> None:
    """Any bytes are read, or raise FileFault, and rejects quote none of them."""
    for data in (start + rest, f"{HEADER}\n".encode() + start + b"\nPN123" + rest + b"#\nT"):
        heard = Heard()
        with pytest.raises(FileFault):
            list(FORMATS["mid"].rows(io.BytesIO(data), Kind.POLICIES, heard))
        assert all(text == "" or text.startswith("policy number") for text in heard.records)
