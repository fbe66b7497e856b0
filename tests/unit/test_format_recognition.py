"""How the head of a file decides its format."""

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault, recognise
from app.registers.formats.format import HEAD_BYTES
from app.storage.tables import Kind
from tests.rows import each_row


@each_row(
    ("head", "name"),
    [
        (b"Kenteken,Merk\n", "rdw-csv"),
        (b'\xef\xbb\xbf"kenteken";"merk"\r\n', "rdw-csv"),
        (b"KENTEKEN\tregistration\r", "rdw-csv"),
        (b"make,registration\n", "native-csv"),
        (b"registration", "native-csv"),
        (b'{"registration": "AB1", "x": {}}\n', "native-ndjson"),
        (b'[{"kenteken": "AB1", "x": {}}]', "rdw-json"),
        (b'[\n {\n  "voertuigsoort": "x"\n },\n {\n  "kenteken": "AB1",\n', "rdw-json"),
        (b'{"kenteken": "AB1", "x": {}}\n', "rdw-json"),
        (b'{"registration": "AB1", "make": "X", "firstUsedDate": null}\n', "dvsa"),
        (b'{"registration": "AB1", "modification": "DELETED"}\n', "dvsa"),
        (b'{\n  "registration": "AB1",\n  "primaryColour": "Blue"\n}\n{\n', "dvsa"),
        (b'{"registration": "AB1", "make": "X", "registrationDate": "2025-01-01"}\n', "dvsa"),
        (b'{"registration": "AB1", "make": "X", "last_update_date": "2025-01-01"}\n', "dvsa"),
        (b'{"errors": []}\n{"registrationNumber": "AB1"}\n', "dvla"),
        (b'[{"registrationNumber": "AB1"}]', "dvla"),
        (b'{"errors": [{"status": "404", "title": "Vehicle Not Found"}]}', "dvla"),
        (b"H0001I123001L000123202506300615#\r\n", "mid"),
        (b"\r\nB0001I123001L000124202506300000#\r\n", "mid"),
        (b"PN123" + b" " * 1190 + b"#\r\n", "mid"),
        (b"State,Plate,Summons Number\n", "nyc-csv"),
        (b'"Summons Number"\t"PLATE"\t"state"\r', "nyc-csv"),
        (b'[{"plate": "AB1"}, {"state": "NY", "summons_number": "1"}]', "nyc-json"),
        (b'{"x":1,"registration":"","y":2}\n', "native-ndjson"),
        (b'{broken\n{"registration": "AB1"}\n', "native-ndjson"),
        (b'[{"registration": "AB1"}]', "native-json"),
        (b'\xef\xbb\xbf[\n{"registration": "AB1"},\n{"registration": "AB2"}\n]\n', "native-json"),
        (b'{\n  "registration": "AB1"\n}\n{\n  "registration": "AB2"\n}\n', "native-json"),
    ],
)
def test_formats(head: bytes, name: str) -> None:
    """The key column decides the format, whatever the file's name."""
    assert recognise(head)[0].name == name


def test_header_as_long_as_the_head() -> None:
    """A header that is cut off at the end of the head is still a header."""
    head = b"registration," + b"x,y\xc3\xa9z" * HEAD_BYTES
    assert recognise(head[:HEAD_BYTES])[1] is Kind.VEHICLES


@each_row(
    "head",
    [
        b"H0001\n",
        b"[]",
        b"[1, 2]",
        b"{}",
        b'{"message": "x", "error": true}',
        b'{"plate": "AB1"}',
        b" \n",
        b"<html>",
        b'"registration',
        b"\0",
    ],
)
def test_no_format(head: bytes) -> None:
    """A file that is no CSV is refused, and the message names every format and its key."""
    with pytest.raises(FileFault) as caught:
        recognise(head)
    for format_ in FORMATS.values():
        assert format_.name in str(caught.value)
        assert format_.looked_for in str(caught.value)
    assert "Kenteken" in str(caught.value)


@each_row(
    ("header", "kind"),
    [
        ("registration,policy_number,validFrom,validTo", Kind.POLICIES),
        ("registration,number,start,validTo,cancelledOn", Kind.POLICIES),
        ("registration,ticket,amount", Kind.FINES),
        ("registration,ticket,settled_on", Kind.FINES),
        ("registration,number,make", Kind.VEHICLES),
        ("registration,insurer,validTo,insured", Kind.VEHICLES),
        ("registration,insurer", Kind.VEHICLES),
        ("registration,amount,color", Kind.VEHICLES),
    ],
)
def test_native_files_without_a_key(header: str, kind: Kind) -> None:
    """Policies whose key has another name are refused as policies, and not read as vehicles."""
    assert recognise(f"{header}\n".encode())[1] == kind
    lines = "{" + ",".join(f'"{name}":"x"' for name in header.split(",")) + "}\n"
    assert recognise(lines.encode())[1] == kind


def test_table_of_formats() -> None:
    """The table has the formats' own names, and each has the register of its agency (D25)."""
    assert {name: each.name for name, each in FORMATS.items()} == {name: name for name in FORMATS}
    assert {name: each.register for name, each in FORMATS.items()} == {
        "native-csv": "native",
        "native-ndjson": "native",
        "native-json": "native",
        "rdw-csv": "rdw",
        "rdw-json": "rdw",
        "dvsa": "dvsa",
        "dvla": "dvla",
        "mid": "mid",
        "nyc-csv": "nyc",
        "nyc-json": "nyc",
    }


def test_snapshots() -> None:
    """All files are complete except those of the MID and a DVSA delta (D28)."""
    bulk = b'{"registration": "AB1", "motTests": []}'
    delta = b'{"registration": "AB1", "%s": "UPDATED", "motTests": []}'
    assert {name for name, each in FORMATS.items() if not each.is_snapshot(bulk)} == {"mid"}
    for member in (b"modification", b"last_modification", b"lastModification"):
        for head in (delta % member, b"[" + delta % member, (delta % member)[:-2]):
            assert recognise(head)[0].name == "dvsa"
            assert not FORMATS["dvsa"].is_snapshot(head)


def test_a_first_record_longer_than_the_head() -> None:
    """One record can have hundreds of kilobytes: its first members decide."""
    head = b'{"registration": "AB1", "motTests": [{"defects": [' + b'{"text": "x"}, ' * HEAD_BYTES
    assert recognise(head[:HEAD_BYTES])[0].name == "dvsa"


@example(b'{"registration"')
@example(b'"')
@given(st.binary(max_size=200))
def test_any_bytes(head: bytes) -> None:
    """Any bytes are recognised or refused with FileFault."""
    with contextlib.suppress(FileFault):
        recognise(head)
    with contextlib.suppress(FileFault):
        recognise(b"registration," + head)
