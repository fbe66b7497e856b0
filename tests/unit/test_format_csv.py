"""Delimited text with any columns: records, line ends, quotes, encodings, limits."""

import contextlib
import csv
import io
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.registers.formats import FORMATS, FileFault
from app.registers.formats.changes import Change
from app.registers.formats.columns import Layout
from app.registers.formats.native import NativeCsv, vehicle_layout
from app.storage.tables import Kind, VehicleRow
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
    rows = list(FORMATS["native-csv"].rows(io.BytesIO(data), kind, heard))
    return rows, heard.rejects


def plates(data: bytes) -> list[str]:
    rows, rejects = read(data)
    assert not rejects
    return [row[0] for row in rows]


def fault(data: bytes) -> str:
    with pytest.raises(FileFault) as caught:
        read(data)
    return str(caught.value)


class Endless(io.BytesIO):
    """A stream whose bytes are generated as they are read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    def read(self, _size: int | None = -1, /) -> bytes:
        return next(self._pieces, b"")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    """LF, CRLF and a lone CR end a record; the last record needs no line end."""
    data = end.join([b"registration,make", b"AB1,FORD", b"AB2,OPEL"])
    assert plates(data) == ["AB1", "AB2"]
    assert plates(data + end) == ["AB1", "AB2"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_across_blocks(end: bytes) -> None:
    """Block boundaries never lose, double or misnumber a record."""
    count = 60_000
    lines = [b"registration,make", *(b"P%06d,FORD" % n for n in range(count)), b"??,x"]
    rows, rejects = read(end.join(lines))
    assert [row[0] for row in rows] == [f"P{n:06d}" for n in range(count)]
    assert [line for line, _, _ in rejects] == [count + 2]


@pytest.mark.parametrize("separator", [b",", b";", b"\t"])
def test_separators(separator: bytes) -> None:
    """The header decides whether comma, semicolon or tab separates the fields."""
    data = separator.join([b"registration", b'"ma,ke;x;y"', b"color"]) + b"\n"
    data += separator.join([b"AB1", b'"a,b;c"', b"RED"]) + b"\n"
    rows, rejects = read(data)
    assert not rejects
    assert rows == [VehicleRow("AB1", color="RED")]


@each_row(
    ("line", "separator"),
    [
        *((b"sep=" + each, each) for each in (b",", b";", b"\t", b"|", b"^")),
        *((b'"sep=;"', b";"), (b"SEP=;", b";"), (b"sep=\\t", b"\t"), (b' "Sep=|"|| ', b"|")),
    ],
)
@each_row("end", [b"\n", b"\r\n", b"\r"])
@each_row("start", [b"", b"\xef\xbb\xbf", b"\n"])
def test_the_line_that_declares_the_separator(
    line: bytes, separator: bytes, end: bytes, start: bytes
) -> None:
    """Excel's first line counts, whatever the header has most of, and lines are counted on."""
    lines = [line, separator.join([b"registration", b"a,b;c\td|e^".replace(separator, b"")])]
    lines += [separator.join([b"AB1", b"x"]), b"AB2"]
    rows, rejects = read(start + end.join([*lines, b""]))
    assert rows == [VehicleRow("AB1")]
    at = 4 + (start == b"\n")
    assert rejects == [(at, "1 field where the header has 2", "AB2")]


@each_row("line", [b"sep=", b"sep=;,", b"sep=x", b'sep="', b"sep=;x", b"xsep=;"])
def test_other_lines_declare_nothing(line: bytes) -> None:
    """Any other first line is the header."""
    assert "The header has no column registration" in fault(line + b"\nregistration\nAB1\n")


def test_a_declared_separator_without_a_header() -> None:
    """The line is no header by itself."""
    assert fault(b"sep=;\n\n") == "The file has no header."


def test_order_and_unknown_columns() -> None:
    """Columns can have any order, and unknown ones are ignored."""
    rows, _ = read(b"x,Color,REGISTRATION,y\n1,RED,AB1,2\n")
    assert rows == [VehicleRow("AB1", color="RED")]


def test_blank_lines() -> None:
    """Blank lines, also before the header, are no records but count as lines."""
    rows, rejects = read(b"\n  \nregistration,make\n\nAB1,FORD\n   \n?,FORD\n\n")
    assert rows == [VehicleRow("AB1", "FORD")]
    assert [line for line, _, _ in rejects] == [7]


def test_blank_lines_in_one_column() -> None:
    """A blank line is no record, even in a file with one column."""
    assert plates(b"registration\nAB1\n\n  \nAB2\n") == ["AB1", "AB2"]


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_header_that_comes_again(quote: bytes) -> None:
    """A repeated header, as in joined files, is rejected, although its names could be values."""
    header = quote + b"registration" + quote + b",make\n"
    rows, rejects = read(header + b"AB1,FORD\n" + header + b"AB2,FORD\n")
    assert [row[0] for row in rows] == ["AB1", "AB2"]
    assert rejects == [(3, "a repetition of the header", header.decode().strip())]


def test_ragged_rows() -> None:
    """A row with fewer or more fields than the header is rejected."""
    rows, rejects = read(b'registration,make\nAB1\nAB2,F,G\n"AB3"\n"AB4",F,G\nAB5,OPEL\n')
    assert [row[0] for row in rows] == ["AB5"]
    assert [(line, reason) for line, reason, _ in rejects] == [
        (2, "1 field where the header has 2"),
        (3, "3 fields where the header has 2"),
        (4, "1 field where the header has 2"),
        (5, "3 fields where the header has 2"),
    ]


def test_quotes() -> None:
    """Quoted fields can hold separators and doubled quotes; a quote inside a field is literal."""
    rows, _ = read(b'registration,make,model\nAB1,"a, b","""E"""\nAB2,5",x\n')
    assert rows == [VehicleRow("AB1", "a, b", '"E"'), VehicleRow("AB2", '5"', "x")]


def test_quoted_line_breaks() -> None:
    """A record over several lines is reported by its first line, with its whole text."""
    data = b'registration,note,make\nAB1,"a\r\n\r\nb",FORD\n??,"c\nd",FORD\nAB2,,"x\ny"\n'
    rows, rejects = read(data)
    assert rows == [VehicleRow("AB1", "FORD")]
    assert rejects == [
        (5, "not a registration number: '??'", '??,"c\nd",FORD'),
        (7, "make: contains a control character", 'AB2,,"x\ny"'),
    ]


def test_malformed_quotes() -> None:
    """Text after a closing quote is one reject; reading continues with the next line."""
    rows, rejects = read(b'registration,make\nAB1,"F"ORD\nAB2,OPEL\n')
    assert rows == [VehicleRow("AB2", "OPEL")]
    assert [(line, record) for line, _, record in rejects] == [(2, 'AB1,"F"ORD')]


def test_lines_that_are_records_are_not_read_as_one() -> None:
    """Two stray quotes would give a vehicle the values of another; each line is a reject."""
    header = b"registration,note,make,model,color,motExpiry\n"
    first, last = 'AB1,"x,FORD,,BLUE,2026-01-31', b"AB3,,BMW,,,\n"
    for second in ('AB2,5",OPEL,,RED,2027-01-31', 'AB2,5" x,OPEL,,RED,2027-01-31'):
        rows, rejects = read(header + f"{first}\n{second}\n".encode() + last)
        assert rows == [VehicleRow("AB3", "BMW")]
        assert [(line, record) for line, _, record in rejects] == [(2, first), (3, second)]
    text = b'AB1,"x, y\nz",FORD,,BLUE,\n'
    assert read(header + text + last) == (
        [VehicleRow("AB1", "FORD", None, None, "BLUE"), *rows],
        [],
    )


def test_quote_never_closed() -> None:
    """A quote that is open at the end of the file fails the load; the error has its line."""
    assert "line 3" in fault(b'registration,make\nAB1,FORD\nAB2,"OPEL\nAB3,BMW\n')
    assert "line 1" in fault(b'registration,"make\nAB1,FORD\n')


def test_quote_open_over_the_limit() -> None:
    """A quote open for more than 1 MiB fails the load before memory fills up."""
    long_line = b'registration,make\nAB1,"' + b"x" * (2 * MIB)
    assert "line 2" in fault(long_line)
    assert "line 2" in fault(long_line + b"\nAB2,OPEL\n")
    assert "line 2" in fault(b'registration,make\nAB1,"' + b"x\n" * MIB + b'"\n')
    assert "line 2" in fault(b'registration,make\nAB1,"x\n' + b"x" * (2 * MIB) + b'"\n')


def test_quoted_line_over_the_limit() -> None:
    """A line over 1 MiB with closed quotes is one reject."""
    rows, rejects = read(b'registration,x\nAB1,"' + b"x" * (2 * MIB) + b'"\nAB2,"x"\n')
    assert rows == [VehicleRow("AB2")]
    assert [line for line, _, _ in rejects] == [2]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_over_the_limit(end: bytes) -> None:
    """A line over 1 MiB is one reject; a line of exactly 1 MiB loads."""
    fits = b"AB1," + b"x" * (MIB - 4)
    lines = [b"registration,x", fits, fits + b"x", b"AB3,x", b"AB4," + b"y" * 5 * MIB, b"?,x"]
    rows, rejects = read(end.join(lines))
    assert [row[0] for row in rows] == ["AB1", "AB3"]
    assert [(line, reason) for line, reason, _ in rejects] == [
        (3, "longer than 1,048,576 bytes"),
        (5, "longer than 1,048,576 bytes"),
        (6, "not a registration number: '?'"),
    ]
    assert all(len(record) <= 1000 for _, _, record in rejects)


def test_header_over_the_limit() -> None:
    """A header over the limit fails the load; the next line is not used as the header."""
    assert "header" in fault(b"x" * (2 * MIB) + b"\nregistration,make\nAB1,FORD\n")


@pytest.mark.sample
@pytest.mark.system_long
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(b"", b"AB1," + b"x" * 1000 + b"\n", id="rows"),
        pytest.param(b"", b"x" * 1000, id="one line"),
        pytest.param(b"", b'AB1,"' + b"x" * 500 + b"\n" + b"x" * 500 + b'"\n', id="quoted rows"),
        pytest.param(b'AB1,"', b"x\n" * 500, id="open quote"),
    ],
)
def test_memory_stays_flat(start: bytes, piece: bytes) -> None:
    """Many rows, or an endless line or quote, use constant memory."""
    stream = Endless(iter([b"registration,x\n" + start, *([piece * 64] * 500)]))
    tracemalloc.start()
    try:
        rows = FORMATS["native-csv"].rows(stream, Kind.VEHICLES, Heard())
        with contextlib.suppress(FileFault):
            for _ in rows:
                pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * MIB


def test_many_lines_in_one_quote_are_not_read_over_and_over() -> None:
    """A million short lines inside one quote fail as fast as one long line."""
    with pytest.raises(FileFault):
        read(b'registration,make\nAB1,"' + b"\n" * (3 * MIB))


def test_byte_order_mark() -> None:
    """A byte order mark is not part of the header, also before a quoted name."""
    assert plates(b"\xef\xbb\xbfregistration,make\nAB1,F\n") == ["AB1"]
    assert plates(b'\xef\xbb\xbf"registration","make"\nAB1,F\n') == ["AB1"]


def test_windows_1252() -> None:
    """A record that is not UTF-8 is read as Windows-1252 as a whole; others stay UTF-8."""
    data = "registration,make,model\nAB1,CITROËN,x\n".encode()
    data += "AB2,CITROËN,€\n".encode("cp1252")
    data += "AB3,CITROËN,y\n".encode()
    data += 'AB4,"é","é\n'.encode() + 'Ö"\n'.encode("cp1252")
    data += 'AB5,"Ë","ü"\n'.encode("cp1252")
    rows, rejects = read(data)
    assert rows == [
        VehicleRow("AB1", "CITROËN", "x"),
        VehicleRow("AB2", "CITROËN", "€"),
        VehicleRow("AB3", "CITROËN", "y"),
        VehicleRow("AB5", "Ë", "ü"),
    ]
    assert rejects == [(5, "model: contains a control character", 'AB4,"Ã©","Ã©\nÖ"')]


def test_undefined_windows_1252() -> None:
    """A byte undefined in Windows-1252 rejects the row only in a stored column."""
    rows, rejects = read(b"registration,make,x\nAB1,F\x81,\nAB2,F,\x81\n")
    assert rows == [VehicleRow("AB2", "F")]
    assert [(line, reason) for line, reason, _ in rejects] == [
        (2, "make: contains a control character")
    ]


def test_header_that_is_not_utf_8() -> None:
    """Names of unused columns can have any encoding."""
    assert plates(b"registration,caf\xe9\nAB1,\xe9\n") == ["AB1"]


def test_control_characters() -> None:
    """NUL rejects a row in a stored column, and does no harm elsewhere."""
    rows, rejects = read(b"registration,make,x\nAB1,F\0,\nAB2,F,\0\nA\0B,F,\n")
    assert rows == [VehicleRow("AB2", "F")]
    assert [line for line, _, _ in rejects] == [2, 4]


@each_row("data", [b" ", b"\n\n  \n", b"\xef\xbb\xbf\n", b" , , \nAB1,x,y\n"])
def test_no_header(data: bytes) -> None:
    """A header of white space fails the load."""
    assert "header" in fault(data)


def test_no_key_column() -> None:
    """A file without its key column fails the load; the error names the column."""
    assert fault(b"make,model\nFORD,KA\n") == "The header has no column registration."


@pytest.mark.parametrize("names", [b"make,Make", b"mot_expiry,motExpiry", b"Mot Expiry,mot-expiry"])
def test_column_named_twice(names: bytes) -> None:
    """A stored column that is named twice fails the load."""
    assert "more than once" in fault(b"registration," + names + b"\nAB1,x,y\n")


def test_unused_column_named_twice() -> None:
    """An unused column can be named twice."""
    assert plates(b"registration,x,x\nAB1,y,y\n") == ["AB1"]


@example(b'registration,make\n"a\n')
@example(b"\xff\xfer\0e\0g\0")
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are read, or raise FileFault."""
    for start in (b"", b"registration,make,x\n", b"registration;make\r"):
        with contextlib.suppress(FileFault):
            read(start + data)


@given(st.text(alphabet='ab",;\t\r\n\x00 é', max_size=80))
def test_any_delimited_text(text: str) -> None:
    """Any mixture of quotes, separators and line ends is read, or raises FileFault."""
    for encoding in ("utf-8", "cp1252"):
        with contextlib.suppress(FileFault):
            read(b"registration,make\n" + text.encode(encoding))


@given(
    st.lists(
        st.tuples(st.from_regex(r"[A-Z0-9]{1,12}", fullmatch=True), st.text(max_size=20)),
        min_size=1,
    )
)
def test_every_record_has_one_outcome(records: list[tuple[str, str]]) -> None:
    """A file from a CSV writer gives as many rows and rejects as it has records."""
    written = io.StringIO(newline="")
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    writer.writerow(["registration", "make"])
    safe = [(p, m.encode(errors="replace").decode()) for p, m in records]
    writer.writerows(safe)
    rows, rejects = read(written.getvalue().encode())
    assert len(rows) + len(rejects) == len(records)
    if not rejects:
        assert [row[0] for row in rows] == [plate for plate, _ in records]


CELLS = st.sampled_from(["", "FORD", " x ", "NULL", "2012", "true", "2026-01-31", "2026-02-30"])
PLATES = st.sampled_from(["AB12CDE", "ab12 cde", "", "?", "MÜ AB 1", "NULL", "0042"])
RECORDS = st.lists(
    st.one_of(
        st.tuples(PLATES, CELLS, CELLS, CELLS, CELLS).map(",".join),
        st.sampled_from(["", "AB1,FORD", "AB1,,,,,", 'AB1,"FORD",,,', '"AB1\n",,,,', "  "]),
    ),
    max_size=8,
)
CLEAN = st.lists(st.sampled_from(["AB1,FORD,2012,,", "AB2,,,,2026-01-31"]), max_size=8)


class Trickle(io.BytesIO):
    """A stream that returns few bytes at a time, so that blocks are small."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 48))


@given(clean=CLEAN, records=RECORDS, end=st.sampled_from(["\n", "\r\n"]))
def test_blocks_read_at_once_are_what_their_lines_are(
    clean: list[str], records: list[str], end: str
) -> None:
    """Rows and rejects are the same for any content and any block boundaries."""
    header = "registration,make,year,insured,motExpiry"
    data = end.join([header, *clean, *records, *clean, ""]).encode()
    layout = vehicle_layout()
    line_by_line = outcome(io.BytesIO(data), replace(layout, build_many=None))
    assert outcome(io.BytesIO(data), layout) == line_by_line
    assert outcome(Trickle(data), layout) == line_by_line


class WithLayout(NativeCsv):
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def layout(self, _kind: Kind) -> Layout:
        return self._layout


def outcome(stream: io.BytesIO, layout: Layout) -> tuple[Any, list[Any]]:
    """Return everything that is read from a file."""
    heard = Heard()
    try:
        found = WithLayout(layout).rows(stream, Kind.VEHICLES, heard)
        rows = [tuple(row) for row in found]
    except FileFault as error:
        return str(error), heard.rejects
    return rows, heard.rejects


def test_clean_blocks_are_read_at_once() -> None:
    """Lines without quotes or faults are read in blocks, not one by one."""

    def unwanted(_: object) -> NoReturn:
        raise AssertionError("a line was read by itself")

    data = b"registration,make\n" + b"AB1,FORD\n" * 100
    rows, rejects = outcome(io.BytesIO(data), replace(vehicle_layout(), build=unwanted))
    assert (len(rows), rejects) == (100, [])
