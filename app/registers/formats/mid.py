"""MID, motor insurance of the United Kingdom: private policies in fixed width (formats 4).

EXPERIMENTAL: there is no public specification of today; the positions are those of an exporter.
"""

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from app.registers.formats.bounded_cache import remembering
from app.registers.formats.changes import Change, PolicyCancellation, PolicyDeletion, PolicyRow
from app.registers.formats.columns import Declared
from app.registers.formats.dates import compact_date
from app.registers.formats.format import FileFault, Report, RowFault, require_kind
from app.registers.formats.line_blocks import LINE_BYTES_MAX, Overlong, blocks, windows_1252
from app.registers.formats.values import stored_text
from app.storage.tables import Kind
from app.vehicles.registration import canonical_registration

_POLICY_CHARACTERS = 1_196
_POLICY_CHARACTERS_MIN = 220
# Nothing from position 221 on is read: it is personal.
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
_END_OF_FILE = b"\x1a"

Records = Iterator[tuple[int, str | Overlong]]
"""Records, each with the line on which it stands."""


class Mid:
    """Policies, cancellations and deletions, in the order of the file.

    SEC: reasons and rejects never quote a record: what stands where it should not may be personal.
    """

    name = "mid"
    register = "mid"
    has_trailer = True
    record_bytes_min = _POLICY_CHARACTERS_MIN
    looked_for = "a header of 32 characters, H0001 to # (experimental)"

    def recognise(self, head: bytes) -> Kind | None:
        """Return policies if there is a header, or a record where it should be."""
        return Kind.POLICIES if _FIRST_RECORD.match(head.removeprefix(b"\xef\xbb\xbf")) else None

    def is_snapshot(self, head: bytes) -> bool:
        """A file is what an insurer has to say of a day."""
        return False

    def declared(self, kind: Kind) -> Declared:
        """Return nothing: columns are positions."""
        return Declared()

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Read changes; a file without trailer, or with another count, raises FileFault."""
        require_kind(self.name, kind, Kind.POLICIES)
        return _changes(stream, report)


def _changes(stream: BinaryIO, report: Report) -> Iterator[Change]:
    read = _reader()
    for line, record in _between_header_and_trailer(_records(stream), report):
        if isinstance(record, Overlong):
            report.reject(line, f"longer than {LINE_BYTES_MAX} bytes", "")
            continue
        try:
            change = read(record)
        except RowFault as fault:
            report.reject(line, str(fault), _shown(record))
        else:
            yield change


def _between_header_and_trailer(records: Records, report: Report) -> Records:
    """Yield the records that are policies; the file is a transaction, so both must be right."""
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
        raise FileFault("The file has no trailer: it is cut off.")
    if int(trailer["count"]) != count:
        raise FileFault(f"The trailer counts {int(trailer['count'])} records, there are {count}.")
    if trailer["sequence"] != header["sequence"]:
        report.note("header and trailer have different sequence numbers")


def _header(records: Records, report: Report) -> re.Match[str]:
    """Take the header off the records, and tell of it."""
    _, record = next(records, (0, ""))
    header = None if isinstance(record, Overlong) else _HEADER.fullmatch(record)
    if header is None:
        raise FileFault("The file has no header of version 0001.")
    if header["type"] == "B":
        raise FileFault(
            "It is a MID2 fleet file; of the MID only private policies are loaded. "
            "Bring fleets as native CSV, or with --map."
        )
    report.note(
        "mid is experimental, its layout was never confirmed: check what was loaded. "
        f"Supplier {header['supplier']}, sequence {header['sequence']}, date {header['date']}"
    )
    return header


def _records(stream: BinaryIO) -> Records:
    """Yield each record with its line; blank lines and a final 1A are none."""
    line = 0
    for block in blocks(stream):
        for record in [block] if isinstance(block, Overlong) else block.splitlines():
            line += 1
            if isinstance(record, Overlong):
                yield line, record
            elif (text := record.removesuffix(_END_OF_FILE)) and not text.isspace():
                yield line, _decoded(text)


def _decoded(record: bytes) -> str:
    """Decode a record as UTF-8, or else Windows-1252: positions count characters.

    The file is read once, so each record is judged by itself: by its length, where both would do.
    """
    if not record.isascii() and len(record) == _POLICY_CHARACTERS:
        return windows_1252(record)
    try:
        return record.decode()
    except UnicodeDecodeError:
        return windows_1252(record)


def _reader() -> Callable[[str], Change]:
    """Return what reads the records of one file, and remembers what it has read."""
    day = remembering(compact_date)

    def read(record: str) -> Change:
        if not record.endswith("#"):
            raise RowFault("the record does not end with #")
        if not record.startswith("P"):
            raise RowFault("unknown type of record")
        if len(record) < _POLICY_CHARACTERS_MIN:
            raise RowFault(f"shorter than {_POLICY_CHARACTERS_MIN} characters")
        update, ended = record[1], record[_ENDED]
        if update not in "NAD":
            raise RowFault("unknown type of update")
        plate, number = _plate(record), _number(record)
        insurer = _stored("insurer", record[_INSURER]) or ""
        if update == "D":
            return PolicyDeletion(plate, insurer, number)
        start, expiry = day(record[_START]), day(record[_EXPIRY])
        if start is None or expiry is None:
            raise RowFault("no date of start" if start is None else "no date of expiry")
        if expiry < start:
            raise RowFault("expiry is before start")
        if ended == "C":
            return _cancellation(PolicyCancellation(plate, insurer, number, start), expiry)
        if ended not in " L":
            raise RowFault("unknown sign of cancellation")
        cover = _stored("cover type", record[_COVER])
        lapsed_on = expiry if ended == "L" else None
        return PolicyRow(plate, insurer, number, start, expiry, cover, lapsed_on)

    return read


def _cancellation(change: PolicyCancellation, expiry: str) -> PolicyCancellation:
    """Both dates are the day of cancelling; else nothing says which one is."""
    if expiry != change.cancelled_on:
        raise RowFault("a cancellation with two dates")
    return change


def _plate(record: str) -> str:
    text = record[_REGISTRATION].strip()
    plate = canonical_registration(text)
    if plate is None:
        raise RowFault("no registration number" if text else "no registration")
    return plate


def _number(record: str) -> str:
    number = _stored("policy number", record[_NUMBER])
    if number is None:
        raise RowFault("no policy number")
    return number


def _stored(label: str, text: str) -> str | None:
    return stored_text(label, text, frozenset([""]))


def _shown(record: str) -> str:
    """Return what the rejects file may hold: number and plate, of a record of full length only."""
    if not (record.startswith("P") and len(record) == _POLICY_CHARACTERS):
        return ""
    number, plate = record[_NUMBER].strip(), record[_REGISTRATION].strip()
    return f"policy number {number}, registration {plate}"
