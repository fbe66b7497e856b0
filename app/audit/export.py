"""Writes the records of a trail as lines of JSON or as CSV (D118)."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.audit.chain import pruned_of, read_chain, seals_of
from app.audit.lines import line_groups
from app.audit.period import Period
from app.audit.record import AuditError, Plate, Record, decode_record
from app.audit.segments import list_segments

COLUMNS = (
    "time",
    "request_id",
    "account",
    "key",
    "operation",
    "as_of",
    "reason",
    "reference",
    "user",
    "login",
    "sudo_user",
    "plate",
    "found",
    "insured",
    "compliant",
    "invalid",
    "registers",
    "criteria",
)
_WORDS = {True: "true", False: "false", None: ""}
# SEC: a spreadsheet would run it. Clients choose references and users.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


class Exported(NamedTuple):
    """The result of an export."""

    records: int
    left_out: int
    """Lines that are no records, because somebody changed them."""


def records_in(directory: Path, period: Period) -> Iterator[tuple[bytes, Record | None]]:
    """Yield the lines of a period in the order of the trail, and what they say.

    A line that is no record, because somebody changed it, comes with None.

    Raises AuditError if a segment was removed meanwhile, and OSError.
    """
    lines = [each.line for each in read_chain(directory) if each.line is not None]
    seals, pruned = seals_of(lines), pruned_of(lines)
    for segment in list_segments(directory):
        seal = seals.get(segment.name)
        if segment.name in pruned or (seal is not None and not period.overlaps(seal)):
            continue
        path = directory / segment.file_name
        try:
            for _, group in line_groups(path):
                for line in group:
                    record = _decoded(line)
                    if record is None or period.has(record.time):
                        yield line, record
        except FileNotFoundError as error:
            raise AuditError(f"{path} was removed meanwhile; export again") from error


def write_export(
    write: Callable[[bytes], object], directories: Sequence[Path], period: Period, form: str
) -> Exported:
    """Write the records of a period, and return how many there were.

    Args:
        write: takes some bytes of the export.
        form: `ndjson`, as recorded, or `csv` with a line for each plate.

    Raises AuditError if a segment was removed meanwhile, OSError, and what `write` raises.
    """
    written = left_out = 0
    if form == "csv":
        write(csv_heading())
    for line, record in chain.from_iterable(records_in(each, period) for each in directories):
        if form == "ndjson":
            write(line + b"\n")
        elif record is not None:
            write(csv_lines(record))
        left_out += record is None
        written += record is not None
    return Exported(written, left_out)


def csv_of(rows: Iterable[Sequence[str]]) -> bytes:
    """Return rows of texts as CSV that no spreadsheet runs as a formula."""
    return _csv([[_cell(text) for text in row] for row in rows])


def csv_heading() -> bytes:
    """Return the first line of a CSV export."""
    return _csv([COLUMNS])


def csv_lines(record: Record) -> bytes:
    """Return a line for each plate of a record; one line if it has none."""
    plates: list[Plate | None] = [*record.plates]
    return _csv([_row(record, plate) for plate in plates or [None]])


def _row(record: Record, plate: Plate | None) -> list[str]:
    values = [_cell(getattr(record, column)) for column in COLUMNS[: COLUMNS.index("plate")]]
    if plate is None:
        values += [""] * 5
    else:
        values += [_cell(plate.plate), _WORDS[plate.found], _WORDS[plate.insured]]
        values += [_WORDS[plate.compliant], "true" if plate.invalid else ""]
    criteria = {} if record.criteria is None else msgspec.to_builtins(record.criteria)
    return [*values, _pairs(record.registers), _pairs(criteria)]


def _pairs(members: Mapping[str, object]) -> str:
    return ";".join(f"{name}={value}" for name, value in members.items())


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    return f"'{text}" if _FORMULA.match(text) else text


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerows(rows)
    return written.getvalue().encode()


def _decoded(line: bytes) -> Record | None:
    try:
        return decode_record(line)
    except msgspec.DecodeError:
        return None
