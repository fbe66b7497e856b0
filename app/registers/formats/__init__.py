"""The formats of register files. Each turns the bytes of a file into rows and rejects."""

import re
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import NamedTuple

from app.registers.formats.columns import FileFault, Presence, normalised
from app.registers.formats.csv_format import SEPARATORS, CsvFormat
from app.registers.formats.dvla import Dvla
from app.registers.formats.dvsa import Dvsa
from app.registers.formats.format import Format
from app.registers.formats.json_splitter import is_empty_array
from app.registers.formats.mid import Mid
from app.registers.formats.native import Native, NativeCsv, NativeJson, NativeNdjson
from app.registers.formats.nyc import DEFAULT_STATE, NycCsv, NycJson
from app.registers.formats.rdw import RdwCsv, RdwJson
from app.registers.formats.suggesting.sample import Sample
from app.registers.formats.suggesting.suggestion import missing_members, suggest
from app.registers.formats.values import quoted, shortened
from app.storage.tables import Kind

__all__ = [
    "DEFAULT_STATE",
    "FORMATS",
    "OF_STATES",
    "FileFault",
    "Format",
    "advice",
    "formats_of",
    "recognise",
]

_NAMED_MAX = 10
_NEEDED = (Presence.REQUIRED, Presence.EXPECTED)
_PLAIN_NAME = re.compile(r"[^\W\d][^\W\d_]*(?:[ _-][^\W\d_]+){0,3}")
OF_STATES = (NycCsv.name, NycJson.name)
"""The formats whose files have plates of several states, of which one is read."""


def formats_of(
    state: str = DEFAULT_STATE,
    encoding: str | None = None,
    deleted: str | None = None,
    timezone: tzinfo | None = None,
) -> dict[str, Format]:
    """Return all formats by name.

    Args:
        state: the state whose plates are read from the fines of New York City.
        encoding: the encoding of CSV files. None: UTF-8, or Windows-1252 for each record that is
            not UTF-8.
        deleted: the column of native files that marks the rows to remove.
        timezone: the zone of times in native files that name none. None: they cannot be read.
    """
    # The first format that recognises a file is used. The native formats come last, because other
    # sources have columns of the same names.
    formats: tuple[Format, ...] = (
        RdwCsv(),
        RdwJson(),
        Dvsa(),
        Dvla(),
        Mid(),
        NycCsv(state),
        NycJson(state),
        NativeNdjson(),
        NativeJson(),
        NativeCsv(),
    )
    for each in formats:
        if isinstance(each, CsvFormat):
            each.encoding = encoding
        if isinstance(each, Native):
            each.deleted = deleted
            each.timezone = timezone
    return {each.name: each for each in formats}


FORMATS = formats_of()


def recognise(head: bytes, formats: Mapping[str, Format] = FORMATS) -> tuple[Format, Kind]:
    """Return the format and the kind of a file.

    Args:
        head: its first `format.HEAD_BYTES`, decompressed.

    Raises FileFault if none recognises the file: for CSV with its columns and the closest format,
    otherwise with a list of all formats.
    """
    for each in formats.values():
        kind = each.recognise(head)
        if kind is not None:
            return each, kind
    fault = _csv_fault(head, formats)
    if fault:
        raise FileFault(f"The file fits no format. {fault}")
    looked_for = "; ".join(f"{each.name}, {each.looked_for}" for each in formats.values())
    raise FileFault(f"The file fits no format. Looked for: {looked_for}.{advice(head)}")


def advice(head: bytes) -> str:
    """Return advice for a file that fits no format, or an empty text."""
    return " It is an empty array; name its --format and --kind." if is_empty_array(head) else ""


class _Close(NamedTuple):
    matched: int
    format: str
    kind: Kind
    missing: list[str]


def _csv_fault(head: bytes, formats: Mapping[str, Format]) -> str | None:
    """Return the columns that a CSV file lacks for a format, in sentences; None if it is no CSV.

    Args:
        head: the first bytes of the file.
    """
    try:
        sample = Sample(head)
    except FileFault:
        return None
    header = [each.name for each in sample.columns]
    if len(header) == 1 and not (_PLAIN_NAME.fullmatch(header[0]) or sample.header_line):
        return None  # SEC: any other text has lines, too, and its first one can be a record.
    if sample.header_fault:
        return sample.header_fault
    if sample.separator not in SEPARATORS:
        return (
            f"Its columns are separated by {quoted(sample.separator)}, which only a mapping file "
            f'reads: write delimiter = "{sample.separator}" into it. "verifyd import --suggest-map '
            'FILE" writes a first one.'
        )
    close = _closest(sample, formats)
    columns = list(map(quoted, header))
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
    names = frozenset(normalised(each.name) for each in sample.columns)
    # The first of equals: the native format, which has the most common names.
    candidates = list(_candidates(names, formats))
    best = max(candidates, key=lambda each: each.matched)
    guessed = suggest(sample)
    likely = len(guessed.settled) + sum(map(bool, guessed.questions.values()))
    if best.matched and best.matched >= likely:
        return best
    # Most of the names mean something in another language.
    return next(each for each in candidates if each.kind == guessed.kind)


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
                needed = [c.label for c in columns if c.presence in _NEEDED]
                missing = [label for label in needed if label not in present]
            yield _Close(len(present), each.name, kind, missing)
