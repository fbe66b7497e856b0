"""Reads any CSV file whose columns a mapping maps to native members."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import BinaryIO

from app.registers.bounded_cache import cached
from app.registers.formats import date_forms
from app.registers.formats.changes import RowDeletion
from app.registers.formats.columns import (
    DELETED,
    Column,
    KnownColumns,
    Layout,
    Parse,
    Presence,
)
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.date_forms import iso_day, timed_day
from app.registers.formats.dates import DateFault, day_before
from app.registers.formats.native import LAYOUTS, SHAPES, layout_with_deletions, with_zone
from app.registers.formats.report import Report
from app.registers.formats.values import cents
from app.storage.tables import COLUMNS, Kind, Row, Shape

DATES = frozenset(name for name, shape in SHAPES.items() if shape in (Shape.DAY, Shape.TIME))
AMOUNT = "amount"
LAST_DAYS = frozenset(
    each.name for members in COLUMNS.values() for each in members if each.is_expiry
)
"""The last days of something. They hold until the end of a month if the file has no day."""
CUT, END, _KEEP = "cut", "end", "keep"
TIMES = {
    CUT: "the time is left out",
    END: "what ends at 00:00 or 00:01 ends with the day before",
}
"""What a time of day can mean in a date."""


@dataclass(frozen=True, slots=True)
class FileMapping:
    """The checked content of a mapping file. The keys of its dictionaries are native members."""

    kind: Kind
    register: str | None
    delimiter: str | None
    encoding: str | None
    timezone: tzinfo | None
    columns: Mapping[str, str]
    """The column in the file for each member."""
    constants: Mapping[str, str]
    """The texts of members that are the same in every row."""
    words: Mapping[str, Mapping[str, str]]
    """Words in the file, in lower case, and the native texts that replace them."""
    date_format: str
    date_formats: Mapping[str, str]
    """The forms of dates that differ from `date_format`."""
    first_day_without: frozenset[str]
    """The members whose dates in the file are the first day without."""
    times: Mapping[str, str]
    """What a time of day means in the dates of a member, as `TIMES` has it."""
    decimal: str
    """The decimal separator of amounts: a point or a comma."""

    def column(self, native: Column) -> Column:
        """Return a native column with the name and the parser for the mapped file."""
        if native.label in self.constants:
            constant = self.constants[native.label]
            return Column(
                native.label, frozenset(), lambda _: native.parse(constant), is_constant=True
            )
        if native.label not in self.columns:
            return Column(native.label, frozenset(), native.parse)
        name, words = self.columns[native.label], self.words.get(native.label, {})
        empty = [word for word, text in words.items() if not text.strip()]
        names, parse = frozenset([folded_name(name)]), self._parser(native)
        is_key = native.presence == Presence.REQUIRED
        presence = Presence.REQUIRED if is_key else Presence.EXPECTED
        return Column(
            name,
            names,
            parse,
            presence,
            native.parse_many if parse is native.parse else None,
            blanks=native.blanks and native.blanks.union(empty),
            nothing=native.nothing.difference(words),
            member=native.label,
            date_form=self._form_of(native.label) if native.date_form else "",
            is_altered=native.is_altered,
            is_day_before=native.label in self.first_day_without,
        )

    def _parser(self, native: Column) -> Parse:
        """Return a parser that first replaces words and dates in the file by native ones."""
        parse = native.parse
        label, form = native.label, self._form_of(native.label)
        is_without, time = label in self.first_day_without, self.times.get(label, "")
        if SHAPES.get(label) == Shape.TIME:
            time = _KEEP if form != date_forms.ISO else ""
        if label in DATES and (form != date_forms.ISO or is_without or time):
            is_last = label in LAST_DAYS and not is_without
            parse = _with_dates(form, parse, time, is_last=is_last, is_without=is_without)
        if native.label == AMOUNT:
            parse = cents(AMOUNT, self.decimal)
        words = self.words.get(native.label)
        if words:
            parse = _with_words(words, native.parse, parse)
        return parse

    def _form_of(self, member: str) -> str:
        return self.date_formats.get(member, self.date_format)


def folded_name(name: str) -> str:
    """Return the form of a column's name that is used to compare names in mapping files."""
    return name.strip().casefold()


def _with_dates(form: str, parse: Parse, time: str, *, is_last: bool, is_without: bool) -> Parse:
    """Return a parser that turns dates of a form into native ones before it parses them.

    Args:
        time: what a time of day means; `keep` if it is one, empty if a date has none.
        is_last: whether a month without a day means its last day, not its first one.
        is_without: whether a date is the first day without.
    """

    def parse_date(text: str) -> object:
        trimmed = text.strip()
        timed = timed_day(trimmed) if time else None
        if timed is not None and time == _KEEP:
            return parse(f"{iso_day(timed.day, form) or timed.day}{timed.time}{timed.zone}")
        ends_before = is_without
        if timed is not None:
            ends_before = ends_before or (time == END and timed.is_end_of_day_before)
        # Of another time in a zone nobody knows which day it is here.
        day = timed.day if timed is not None and not timed.zone else trimmed
        native = iso_day(day, form, is_last=is_last) or iso_day(day, date_forms.ISO)
        try:
            parsed = parse(native or text)
        except DateFault as fault:
            raise DateFault(fault.label, trimmed, form) from None
        return day_before(parsed) if ends_before else parsed

    return cached(parse_date)


def _with_words(words: Mapping[str, str], parse_native: Parse, parse_other: Parse) -> Parse:
    """Return a parser that replaces known words, and parses other texts with `parse_other`."""

    def parse_word(text: str) -> object:
        native = words.get(text.strip().lower())
        return parse_other(text) if native is None else parse_native(native)

    return parse_word


class MappedCsv(CsvFormat):
    """CSV with a header, whose columns a mapping file names (`--map`)."""

    name = "mapped"
    looked_for = "a CSV header"
    is_partial = True

    def __init__(
        self, mapping: FileMapping, encoding: str | None = None, timezone: tzinfo | None = None
    ) -> None:
        """Read files by a mapping.

        Args:
            encoding, timezone: take precedence over those in the mapping.
        """
        self._mapping = mapping
        self.register = mapping.register or ""
        self.kinds = frozenset([mapping.kind])
        self.separator = mapping.delimiter
        self.encoding = encoding or mapping.encoding
        self._timezone = timezone or mapping.timezone

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind that the mapping file names, for any names."""
        return self._mapping.kind

    def layout(self, kind: Kind) -> Layout:
        native = with_zone(native_layout(kind, self._mapping.columns), self._timezone)
        columns = tuple(map(self._mapping.column, native.columns))
        return replace(native, columns=columns, fold=folded_name)

    def known_columns(self, kind: Kind) -> KnownColumns:
        return replace(super().known_columns(kind), is_mapped=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row | RowDeletion]:
        """Yield one row or deletion per valid record. Rejects contain no text of records."""
        return super().rows(stream, kind, _WithoutRecords(report))


def native_layout(kind: Kind, members: Container[str]) -> Layout:
    """Return the columns of a kind, with `DELETED` if a mapping has a column for it."""
    return layout_with_deletions(kind) if DELETED in members else LAYOUTS[kind]()


class _WithoutRecords:
    """A report that drops the text of rejected records, which can contain personal data (D25)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.skip = report.skip
        self.note = report.note
        self.columns = report.columns
        self.unreadable = report.unreadable

    def reject(self, line: int, reason: str, record: str) -> None:
        """Report the line and the reason, without the record."""
        self._report.reject(line, reason, "")
