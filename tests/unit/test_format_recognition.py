"""Which format a file has, judged by its head."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.registers.formats import FORMATS, HEAD_BYTES, FileFault, Kind, recognise


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"Kenteken,Merk\n", "rdw-csv"),
        (b'\xef\xbb\xbf"kenteken";"merk"\r\n', "rdw-csv"),
        (b"KENTEKEN\tregistration\r", "rdw-csv"),
        (b"make,registration\n", "native-csv"),
        (b"registration", "native-csv"),
        (b'{"registration": "AB1", "x": {}}\n', "native-ndjson"),
        (b'{"x":1,"registration":"","y":2}\n', "native-ndjson"),
    ],
)
def test_formats(head: bytes, name: str) -> None:
    """A format is found by its key column, whatever the name of the file."""
    assert recognise(head)[0].name == name


def test_header_as_long_as_the_head() -> None:
    """A header that is cut off by the end of the head is still a header."""
    head = b"registration," + b"x,y\xc3\xa9z" * HEAD_BYTES
    assert recognise(head[:HEAD_BYTES])[1] is Kind.VEHICLES


@pytest.mark.parametrize(
    "head",
    [b"plate,make\n", b"[1, 2]", b'{"plate": "AB1"}', b" \n", b"<html>", b'"registration', b"\0"],
)
def test_no_format(head: bytes) -> None:
    """A file that fits none is refused, and every format and its key are named."""
    with pytest.raises(FileFault) as caught:
        recognise(head)
    for format_ in FORMATS.values():
        assert format_.name in str(caught.value)
        assert format_.looked_for in str(caught.value)
    assert "Kenteken" in str(caught.value)


def test_utf_16() -> None:
    """A file that begins like UTF-16 is refused with a word of advice."""
    with pytest.raises(FileFault, match="UTF-16"):
        recognise("registration,make\n".encode("utf-16"))


def test_table_of_formats() -> None:
    """The table's names are the formats' own; all three hold snapshots of their register."""
    assert {name: each.name for name, each in FORMATS.items()} == {name: name for name in FORMATS}
    registers = {name: each.register for name, each in FORMATS.items() if each.snapshot}
    assert registers.items() >= {
        ("native-csv", "native"),
        ("native-ndjson", "native"),
        ("rdw-csv", "rdw"),
    }


@settings(max_examples=300, deadline=None)
@example(b'{"registration"')
@example(b'"')
@given(st.binary(max_size=200))
def test_any_bytes(head: bytes) -> None:
    """No bytes at all raise anything but FileFault."""
    with contextlib.suppress(FileFault):
        recognise(head)
    with contextlib.suppress(FileFault):
        recognise(b"registration," + head)
