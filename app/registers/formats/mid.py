"""MID: private policies of the Motor Insurance Database of the UK, in fixed width.

EXPERIMENTAL: no current specification is public. The positions come from one exporter.
"""

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from app.registers.bounded_cache import cached
from app.registers.formats.changes import Change, PolicyCancellation, PolicyDeletion
from app.registers.formats.columns import FileFault, KnownColumns, RowFault
from app.registers.formats.dates import compact_date
from app.registers.formats.format import Format
from app.registers.formats.lines import (
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    OverlongLine,
    decoded_text,
    line_blocks,
    windows_1252,
)
from app.registers.formats.report import Report
from app.registers.formats.values import stored_text
from app.storage.tables import Kind, PolicyRow
from app.vehicles.registration import canonical_registration

_POLICY_CHARACTERS = 1_196
_POLICY_CHARACTERS_MIN = 220
# The record has personal data from position 221 on, which is never read.
_INSURER = slice(2, 5)
_NUMBER = slice(73, 93)
_REGISTRATION = slice(98, 110)
_COVER = slice(188, 190)
_START = slice(195, 203)
_EXPIRY = slice(207, 215)
_ENDED = 219

_HEADER = re.compile(
    r"(?P<type>[HB])0001(?P<supplier>.{4}).{3}.(?P<sequence>.{6})(?P<date>.{8}).{4}#"
)
_TRAILER = re.compile(r"T(?P<sequence>.{6})(?P<count>[0-9]{9})#")
_FIRST_RECORD = re.compile(rb"\s*(?:[HB][0-9]{4}[^\r\n]{26}#|[PFV][A-Z][^\r\n]{285,}#)(?:\s|\Z)")

Records = Iterator[tuple[int, str | OverlongLine]]
"""Records, each with its line number."""


class Mid(Format):
    """Policies, cancellations and deletions of private vehicles.

    SEC: reasons and rejects never quote a record, because a value in the wrong place can be
    personal data.
    """

    name = "mid"
    register = "mid"
    looked_for = "a header of 32 characters, H0001 to # (experimental)"
    kinds = frozenset([Kind.POLICIES])

    def recognise(self, head: bytes) -> Kind | None:
        """Return policies if the file begins with a header or a policy, else None."""
        return Kind.POLICIES if _FIRST_RECORD.match(head.removeprefix(BYTE_ORDER_MARK)) else None

    def is_snapshot(self, head: bytes) -> bool:
        """Return False, because a file has the changes of one day."""
        return False

    def ends_with_line(self, head: bytes) -> bool:
        """Return False, because a trailer marks the end."""
        return False

    def record_bytes_min(self, head: bytes) -> int:
        return _POLICY_CHARACTERS_MIN

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return no columns, because columns are positions without names."""
        return KnownColumns()

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Yield policies and changes. Raises FileFault if the trailer is missing or wrong."""
        change_of = _policy_reader()
        for line, record in _between_header_and_trailer(_records(stream), report):
            if isinstance(record, OverlongLine):
                report.reject(line, f"longer than {LINE_BYTES_MAX:,} bytes", "")
                continue
            try:
                change = change_of(record)
            except RowFault as fault:
                report.reject(line, str(fault), _shown(record))
            else:
                yield change


def _between_header_and_trailer(records: Records, report: Report) -> Records:
    """Yield the policies. Raises FileFault unless both header and trailer are right."""
    header, trailer = _header(records, report), None
    count = 1
    for line, record in records:
        count += 1
        if trailer is not None:
            raise FileFault(f"There is a record after the trailer, in line {line}.")
        if isinstance(record, str) and record.startswith("T"):
            trailer = _TRAILER.fullmatch(record)
            if trailer is None:
                raise FileFault(f"The trailer in line {line} is malformed.")
        else:
            yield line, record
    if trailer is None:
        raise FileFault("The file has no trailer, so it is cut off; get the complete file.")
    if int(trailer["count"]) != count:
        counted = int(trailer["count"])
        raise FileFault(f"The trailer counts {counted} records, but the file has {count}.")
    if trailer["sequence"] != header["sequence"]:
        report.note("header and trailer have different sequence numbers")


def _header(records: Records, report: Report) -> re.Match[str]:
    """Return the header, which is the first record, and note its content."""
    _, record = next(records, (0, ""))
    header = None if isinstance(record, OverlongLine) else _HEADER.fullmatch(record)
    if header is None:
        raise FileFault("The file has no header of version 0001.")
    if header["type"] == "B":
        raise FileFault(
            "The file is a MID2 fleet file, and only private policies of the MID can be loaded. "
            "Load fleets as native CSV or with --map."
        )
    report.note(
        "mid is experimental: its layout is not confirmed, so check what was loaded. "
        f"Supplier {header['supplier']}, sequence {header['sequence']}, date {header['date']}"
    )
    return header


def _records(stream: BinaryIO) -> Records:
    """Yield each record with its line number. Ignore blank lines."""
    line = 0
    for block in line_blocks(stream):
        for record in [block] if isinstance(block, OverlongLine) else block.splitlines():
            line += 1
            if isinstance(record, OverlongLine):
                yield line, record
            elif record and not record.isspace():
                yield line, _decoded(record)


def _decoded(record: bytes) -> str:
    """Decode a record on its own, because positions count characters.

    A record that has the right length in Windows-1252 is Windows-1252.
    """
    if not record.isascii() and len(record) == _POLICY_CHARACTERS:
        return windows_1252(record)
    return decoded_text(record)


def _policy_reader() -> Callable[[str], Change]:
    """Return a function that turns the records of one file into changes."""
    day = cached(compact_date)

    def change_of(record: str) -> Change:
        if not record.endswith("#"):
            raise RowFault("the record does not end with #")
        if not record.startswith("P"):
            raise RowFault("unknown record type")
        if len(record) < _POLICY_CHARACTERS_MIN:
            raise RowFault(f"shorter than {_POLICY_CHARACTERS_MIN} characters")
        update, ended = record[1], record[_ENDED]
        if update not in "NAD":
            raise RowFault("unknown update type")
        plate, number = _plate(record), _number(record)
        insurer = _stored("insurer", record[_INSURER]) or ""
        if update == "D":
            return PolicyDeletion(plate, insurer, number)
        start, expiry = day(record[_START]), day(record[_EXPIRY])
        if start is None or expiry is None:
            raise RowFault(f"{'start' if start is None else 'expiry'}: not a date")
        if expiry < start:
            raise RowFault("expiry is before start")
        if ended == "C":
            if expiry != start:
                raise RowFault("a cancellation with two different dates")
            return PolicyCancellation(plate, insurer, number, start)
        if ended not in " L":
            raise RowFault("unknown cancellation flag")
        cover = _stored("cover type", record[_COVER])
        lapsed_on = expiry if ended == "L" else None
        return PolicyRow(plate, insurer, number, start, expiry, cover, lapsed_on)

    return change_of


def _plate(record: str) -> str:
    text = record[_REGISTRATION].strip()
    plate = canonical_registration(text)
    if plate is None:
        raise RowFault("not a registration number" if text else "no registration")
    return plate


def _number(record: str) -> str:
    number = _stored("policy number", record[_NUMBER])
    if number is None:
        raise RowFault("no policy number")
    return number


def _stored(label: str, text: str) -> str | None:
    return stored_text(label, text, frozenset([""]))


def _shown(record: str) -> str:
    """Return the text for the rejects file: number and plate, if the record has full length."""
    if not (record.startswith("P") and len(record) == _POLICY_CHARACTERS):
        return ""
    number, plate = record[_NUMBER].strip(), record[_REGISTRATION].strip()
    return f"policy number {number}, registration {plate}"
