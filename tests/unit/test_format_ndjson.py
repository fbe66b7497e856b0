"""NDJSON: lines, numbers, values that are no texts, limits."""

import contextlib
import io
import json
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault
from app.registers.formats.changes import Change
from app.storage.tables import FineRow, Kind, VehicleRow
from tests.rows import each_row

MIB = 1024 * 1024


Outcomes = tuple[list[Change], list[tuple[int, str, str]]]
"""Rows, and line, reason and record of rejects."""


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


def read(data: bytes, kind: Kind = Kind.VEHICLES) -> Outcomes:
    heard = Heard()
    rows = list(FORMATS["native-ndjson"].rows(io.BytesIO(data), kind, heard))
    return rows, heard.rejects


def outcome(data: bytes, kind: Kind = Kind.VEHICLES) -> Change | str:
    """Return the row of one line, or why there is none."""
    rows, rejects = read(data, kind)
    assert len(rows) + len(rejects) == 1
    return rows[0] if rows else rejects[0][1]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines(end: bytes) -> None:
    """Each line is one object; blank lines are ignored, broken ones are one reject each."""
    good = b'{"registration": "AB1"}'
    lines = [b"\xef\xbb\xbf" + good, b"", b"  ", b'{"registration": "A', good, b"[1]", b"1", b"{}"]
    rows, rejects = read(end.join(lines))
    assert rows == [VehicleRow("AB1")] * 2
    assert [(line, reason) for line, reason, _ in rejects] == [
        (4, "not a JSON object"),
        (6, "not a JSON object"),
        (7, "not a JSON object"),
        (8, "no registration"),
    ]
    assert rejects[0][2] == '{"registration": "A'


def test_values_of_other_types() -> None:
    """JSON's numbers, booleans and null are read like the same texts."""
    line = b'{"registration":"AB1","year":2012,"insured":true,"motExempt":0,"make":3,"model":null}'
    assert outcome(line) == VehicleRow("AB1", "3", None, 2012, None, True, None, False)
    assert outcome(b'{"registration":"AB1","year":2012.0}') == VehicleRow("AB1", year=2012)
    assert outcome(b'{"registration":"AB1","year":2012.5}') == VehicleRow("AB1")
    assert outcome(b'{"registration":"AB1","year":true}') == VehicleRow("AB1")


@each_row("value", ["123", "1.5", "1e5", "true", "[]", "{}"])
def test_registration_of_another_type(value: str) -> None:
    """A registration must be a JSON string: a number may have lost leading zeros."""
    assert outcome(b'{"registration": %s}' % value.encode()) == "registration: not a JSON string"


def test_registration_that_is_null() -> None:
    """A null registration is missing."""
    assert outcome(b'{"registration": null}') == "no registration"


@each_row("value", ["[]", "{}", '["x"]', '{"a": 1}'])
def test_objects_and_arrays(value: str) -> None:
    """An object or array rejects the row in a stored member, and does no harm elsewhere."""
    line = '{"registration": "AB1", "%s": %s}'
    assert outcome((line % ("make", value)).encode()) == "make: a JSON object or array"
    assert outcome((line % ("motExpiry", value)).encode()) == "motExpiry: a JSON object or array"
    assert outcome((line % ("note", value)).encode()) == VehicleRow("AB1")


@each_row(
    ("number", "cents"),
    [
        ("50", 5000),
        ("12.5", 1250),
        ("0.29", 29),
        ("1.15", 115),
        ("1e2", 10000),
        ("125E-2", 125),
        ("-3", -300),
        ("92233720368547758.07", 2**63 - 1),
    ],
)
def test_amounts_that_are_numbers(number: str, cents: int) -> None:
    """A JSON number is an exact decimal, never a float."""
    line = b'{"reference": 7, "registration": "AB1", "amount": %s}' % number.encode()
    assert outcome(line, Kind.FINES) == FineRow("AB1", "7", None, cents, None, cents <= 0)


@each_row("number", ["1.234", "1e-3", "1e400", "1e99999999999999999999", "9" * 50])
def test_numbers_that_are_no_amounts(number: str) -> None:
    """A number with more than two places, or out of range, is one reject."""
    line = b'{"reference": "R", "registration": "AB1", "amount": %s}' % number.encode()
    reason = outcome(line, Kind.FINES)
    assert isinstance(reason, str)
    assert reason.startswith("amount: ")


def test_member_there_twice() -> None:
    """Two spellings of one member reject the row, because the meaning is unclear."""
    line = b'{"registration": "AB1", "motExpiry": "2026-01-01", "mot_expiry": "2025-01-01"}'
    assert outcome(line) == "motExpiry: given twice"


@each_row(
    "line",
    [
        pytest.param(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep nesting"),
        pytest.param(b'{"x":' * 100_000, id="deep objects"),
        pytest.param(b'{"registration":"\\ud800"}', id="lone surrogate"),
        pytest.param(b'{"x":' + b"9" * 10_000 + b"}", id="number too long"),
        pytest.param(b'{"registration":"AB1"} {}', id="two objects"),
        pytest.param(b'{"registration":NaN}', id="not a number"),
        pytest.param(b'{"registration":"A\x01"}', id="raw control character"),
        pytest.param(b"\x00\x01", id="no text"),
    ],
)
def test_hostile_lines(line: bytes) -> None:
    """A hostile line is one reject, and the next line is read."""
    rows, rejects = read(line + b'\n{"registration":"AB2"}\n')
    assert rows == [VehicleRow("AB2")]
    assert [number for number, _, _ in rejects] == [1]


def test_escaped_nul() -> None:
    r"""A \u0000 rejects the row only in a stored member."""
    line = b'{"registration": "AB1", "%s": "a\\u0000"}'
    assert outcome(line % b"make") == "make: contains a control character"
    assert outcome(line % b"note") == VehicleRow("AB1")


def test_windows_1252() -> None:
    """A line that is not UTF-8 is read as Windows-1252 as a whole, unused members too."""
    rows, rejects = read(
        '{"registration": "AB1", "make": "CITROËN"}\n'.encode()
        + '{"registration": "AB2", "make": "CITROËN€"}\n'.encode("cp1252")
        + b'{"registration": "AB3", "note": "\xff", "make": "\xc3\x8b"}\n'
        + b'{"registration": "AB4", "\xe9": {"deep": "\x81"}}\n'
        + b'{"registration": "AB5", "make": "a\x81"}\n'
    )
    assert rows == [
        VehicleRow("AB1", "CITROËN"),
        VehicleRow("AB2", "CITROËN€"),
        VehicleRow("AB3", "Ã\u2039"),
        VehicleRow("AB4"),
    ]
    assert [(line, reason) for line, reason, _ in rejects] == [
        (5, "make: contains a control character")
    ]


def test_line_over_the_limit() -> None:
    """A line over 1 MiB is one reject; one of exactly 1 MiB loads."""
    start = b'{"registration": "AB1", "note": "'
    fits = start + b"x" * (MIB - len(start) - 2) + b'"}'
    rows, rejects = read(b"\n".join([fits, fits + b" ", start + b'"' * 3 * MIB, b"{", fits]))
    assert rows == [VehicleRow("AB1")] * 2
    assert [(line, reason) for line, reason, _ in rejects] == [
        (2, "longer than 1,048,576 bytes"),
        (3, "longer than 1,048,576 bytes"),
        (4, "not a JSON object"),
    ]


@example(b'{"registration": "\xff\\ud83d"}')
@given(
    st.binary(max_size=200)
    | st.text(alphabet='{}[]",:\\ud8e09.-+ntrf \r\n\x00', max_size=80).map(str.encode)
)
def test_any_bytes(data: bytes) -> None:
    """Any bytes are read, or raise FileFault."""
    for kind in Kind:
        with contextlib.suppress(FileFault):
            read(b'{"registration": "AB1", "x": "' + data, kind)
            read(data, kind)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(
    st.sampled_from(Kind),
    st.dictionaries(
        st.sampled_from("registration number reference make year insured amount".split())
        | st.sampled_from("validFrom validTo lastUpdated settledOn currency".split()),
        json_values,
    ),
)
def test_any_values(kind: Kind, record: dict[str, object]) -> None:
    """A record of any values is one row or one reject."""
    outcome(json.dumps(record).encode(), kind)
