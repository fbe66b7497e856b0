"""What is said about a CSV file that fits no format: its columns, and the closest format."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from app.registers.formats.columns import Column, Presence, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.faults import FileFault
from app.registers.formats.format import Format
from app.registers.formats.native import NativeCsv
from app.registers.formats.suggesting.sample import Sample, read_sample
from app.registers.formats.suggesting.suggestion import missing_members, suggest
from app.registers.formats.values import quoted
from app.storage.tables import Kind

_NAMED_MAX = 10


class _Close(NamedTuple):
    matched: int
    format: str
    kind: Kind
    missing: list[str]


def csv_fault(head: bytes, formats: Mapping[str, Format]) -> str | None:
    """Return what a CSV file lacks to fit a format, in sentences; None if it is no CSV.

    Args:
        head: the first bytes of the file.
    """
    try:
        sample = read_sample(head)
    except FileFault:
        return None
    if len(sample.header) == 1 and not sample.records:
        return None
    if not sample.has_header:
        return (
            "Its first line does not look like names of columns; add a line that names them, "
            "then write a mapping file for it."
        )
    close = _closest(sample, formats)
    lacking = (
        f"lacks {_listed(close.missing)}" if close.missing else "has the same names of columns"
    )
    return (
        f"Its columns are {_listed(map(quoted, sample.header))}. The closest format is "
        f"{close.format} with {close.kind}; the file {lacking}. If its columns have other names, "
        'describe them in a mapping file for --map: "verifyd import --suggest-map FILE" writes a '
        "first one."
    )


def _closest(sample: Sample, formats: Mapping[str, Format]) -> _Close:
    names = frozenset(map(normalised, sample.header))
    found = [each for each in _candidates(names, formats) if each.matched]
    if found:
        return max(found, key=lambda each: each.matched)
    # No name is known: other languages have other names.
    kind = suggest(sample).kind
    return _Close(0, NativeCsv.name, kind, missing_members(kind, ()))


def _candidates(names: frozenset[str], formats: Mapping[str, Format]) -> Iterator[_Close]:
    """Yield the formats, the native one first: it has the most common names."""
    csv_formats = [each for each in formats.values() if isinstance(each, CsvFormat)]
    for each in sorted(csv_formats, key=lambda each: not isinstance(each, NativeCsv)):
        for kind in Kind:
            if kind not in each.kinds:
                continue
            columns = each.known_columns(kind).columns
            present = [each.label for each in columns if not each.names.isdisjoint(names)]
            if isinstance(each, NativeCsv):
                missing = missing_members(kind, present)
            else:
                missing = [column.label for column in columns if _is_lacking(column, present)]
            yield _Close(len(present), each.name, kind, missing)


def _is_lacking(column: Column, present: list[str]) -> bool:
    is_needed = column.presence in (Presence.REQUIRED, Presence.EXPECTED)
    return is_needed and column.label not in present


def _listed(names: Iterable[str]) -> str:
    """Return names with commas; if they are many, the first of them."""
    every = list(names)
    more = len(every) - _NAMED_MAX
    return ", ".join(every[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
