"""What is said about a CSV file that fits no format: its columns, and the closest format."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.registers.formats.columns import Column, FileFault, Presence, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import Format
from app.registers.formats.native import NativeCsv
from app.registers.formats.suggesting.suggestion import (
    Sample,
    missing_members,
    read_sample,
    suggest,
)
from app.registers.formats.values import quoted, shortened
from app.storage.tables import Kind

_NAMED_MAX = 10
_PLAIN_NAME = re.compile(r"[^\W\d][^\W\d_]*(?:[ _-][^\W\d_]+){0,3}")


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
    if len(sample.header) == 1 and not _PLAIN_NAME.fullmatch(sample.header[0]):
        return None  # SEC: any other text has lines, too, and its first one can be a record.
    if not sample.has_header:
        return (
            "Its first line does not look like names of columns. Make the names of the columns its "
            "first line, then write a mapping file for it."
        )
    close = _closest(sample, formats)
    columns = list(map(quoted, sample.header))
    lacking = (
        f"lacks {shortened(close.missing, _NAMED_MAX)}"
        if close.missing
        else "has the same names of columns"
    )
    return (
        f"Its columns are {shortened(columns, _NAMED_MAX)}. The closest format is "
        f"{close.format} with {close.kind}; the file {lacking}. If its columns have other names, "
        'describe them in a mapping file for --map: "verifyd import --suggest-map FILE" writes a '
        "first one."
    )


def _closest(sample: Sample, formats: Mapping[str, Format]) -> _Close:
    names = frozenset(map(normalised, sample.header))
    # The first of equals: the native format, which has the most common names.
    best = max(_candidates(names, formats), key=lambda each: each.matched)
    guessed = suggest(sample)
    if best.matched and best.matched >= len(guessed.guesses):
        return best
    # Most of the names mean something in another language.
    native = NativeCsv().known_columns(guessed.kind).columns
    present = [each.label for each in native if not each.names.isdisjoint(names)]
    return _Close(
        len(present), NativeCsv.name, guessed.kind, missing_members(guessed.kind, present)
    )


def _candidates(names: frozenset[str], formats: Mapping[str, Format]) -> Iterator[_Close]:
    """Yield how well each format and kind fits, the native format first."""
    csv_formats = [NativeCsv(), *formats.values()]
    for each in csv_formats:
        for kind in sorted(each.kinds) if isinstance(each, CsvFormat) else ():
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
