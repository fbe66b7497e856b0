"""Writes the records of a trail as lines of JSON or as CSV (D118)."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
    "unverified",
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
        values += [_WORDS[plate.compliant], _cell(plate.invalid)]
    criteria = {} if record.criteria is None else msgspec.to_builtins(record.criteria)
    return [*values, _pairs(record.registers), _pairs(criteria)]


def _pairs(members: Mapping[str, object]) -> str:
    return ";".join(f"{name}={value}" for name, value in members.items())


def _cell(text: str | bool | None) -> str:
    if not isinstance(text, str):
        return _WORDS[text or None]
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
