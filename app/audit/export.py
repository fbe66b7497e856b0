"""Writes the records of a trail as lines of JSON or as CSV."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from app.audit.record import Plate, Record, find_record
from app.audit.search import TimeSpan
from app.audit.view import View
from app.text import csv_line

_MEMBERS = tuple(
    name
    for name in Record.__struct_fields__[: Record.__struct_fields__.index("criteria")]
    if name != "rule"
)
_OF_PLATE = tuple(name for name in Plate.__struct_fields__ if name != "unknown")
# What 1.0.0 did not have comes last.
COLUMNS = (*_MEMBERS, *_OF_PLATE, "registers", "criteria", "upkeep", "rule", "unknown")
_WORDS = {True: "true", False: "false", None: ""}


class Exported(NamedTuple):
    """The result of an export."""

    records: int
    left_out: int
    """Lines that are no records, because somebody changed them."""


def records_in(view: View, period: TimeSpan) -> Iterator[tuple[bytes, Record | None]]:
    """Yield each line of a period with its record, in the order of the trail.

    A line that is no record, because somebody changed it, comes with None.

    Raises AuditError if a segment was removed meanwhile, and OSError.
    """
    for stretch in view.stretches:
        if period.overlaps(stretch.seal):
            for line in stretch.lines():
                record = find_record(line)
                if record is None or period.has(record.time):
                    yield line, record


def write_export(
    write: Callable[[bytes], object], views: Iterable[View], period: TimeSpan, form: str
) -> Exported:
    """Write the records of a period, and return how many there were.

    Args:
        write: takes some bytes of the export.
        form: `ndjson`, as recorded, or `csv` with a line for each plate.

    Raises AuditError if a segment was removed meanwhile, OSError, and what `write` raises.
    """
    written = left_out = 0
    if form == "csv":
        write(csv_of([COLUMNS]))
    for line, record in chain.from_iterable(records_in(each, period) for each in views):
        if form == "ndjson":
            write(line + b"\n")
        elif record is not None:
            write(csv_lines(record))
        left_out += record is None
        written += record is not None
    return Exported(written, left_out)


def csv_of(rows: Iterable[Iterable[str | None]]) -> bytes:
    """Return rows of texts as CSV that no spreadsheet runs as a formula."""
    # SEC: clients choose references and users.
    return "".join(map(csv_line, rows)).encode()


def csv_lines(record: Record) -> bytes:
    """Return a line for each plate of a record; one line if it has none."""
    plates: list[Plate | None] = [*record.plates]
    return csv_of(_row(record, plate) for plate in plates or [None])


def _row(record: Record, plate: Plate | None) -> list[str | None]:
    values = [_text(getattr(record, member)) for member in _MEMBERS]
    if plate is None:
        values += [""] * len(_OF_PLATE)
    else:
        values += [plate.plate, _WORDS[plate.found], _WORDS[plate.insured]]
        values += [_WORDS[plate.compliant], _text(plate.invalid), _text(plate.suggested)]
        checks = {name: _WORDS[value] for name, value in plate.checks.items()}
        values += [_pairs(checks), _text(plate.events)]
    asked, upkeep = (
        {} if each is None else msgspec.to_builtins(each)
        for each in (record.criteria, record.upkeep)
    )
    rule = "" if record.rule is None else str(record.rule)
    unknown = ";".join(plate.unknown) if plate else ""
    return [*values, _pairs(record.registers), _pairs(asked), _pairs(upkeep), rule, unknown]


def _text(value: str | bool | list[str] | None) -> str | None:
    """Return a member as a cell has it; one that is false is left out, as in a record."""
    if isinstance(value, list):
        return ";".join(value)
    return _WORDS[value or None] if isinstance(value, bool) else value


def _pairs(members: Mapping[str, object]) -> str:
    return ";".join(f"{name}={value}" for name, value in members.items())
