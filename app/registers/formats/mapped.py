"""Reads any CSV file by means of a mapping file."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from app.registers.formats import dates
from app.registers.formats.changes import Row
from app.registers.formats.columns import Column, KnownColumns, Layout, Presence
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.dates import DateFault, iso_day
from app.registers.formats.native import LAYOUTS, SHAPES, Shape
from app.registers.formats.report import Report
from app.registers.formats.values import cached, cents
from app.storage.tables import Kind

# Parsers for dates and words that a mapping file translates into native ones.


def with_dates(
    form: str, parse: Callable[[str], Any], *, is_last: bool = False
) -> Callable[[str], Any]:
    """Return a parser that turns dates of a form into native ones before it parses them.

    Args:
        is_last: whether a month without a day means its last day, not its first one.
    """

    def parse_date(text: str) -> Any:
        trimmed = text.strip()
        native = iso_day(trimmed, form, is_last=is_last)
        try:
            return parse(native or text)
        except DateFault as fault:
            raise DateFault(fault.label, trimmed, form) from None

    return cached(parse_date)


def with_words(
    words: Mapping[str, str], parse_native: Callable[[str], Any], parse_other: Callable[[str], Any]
) -> Callable[[str], Any]:
    """Return a parser that replaces known words, and parses other texts with `parse_other`."""

    def parse_word(text: str) -> Any:
        native = words.get(text.strip().lower())
        return parse_other(text) if native is None else parse_native(native)

    return parse_word


# How the columns of a CSV file map to native members.

DATES = frozenset(name for name, shape in SHAPES.items() if shape in (Shape.DAY, Shape.TIME))
AMOUNT = "amount"
_LAST_DAYS = frozenset({"motExpiry", "taxDue", "validTo"})
"""The dates that hold until the end of a month if the file has no day."""


@dataclass(frozen=True, slots=True)
class FileMapping:
    """The checked content of a mapping file. The keys of its dictionaries are native members."""

    kind: Kind
    register: str | None
    delimiter: str | None
    encoding: str | None
    columns: Mapping[str, str]
    """The column in the file for each member."""
    constants: Mapping[str, str]
    """The texts of members that are the same in every row."""
    words: Mapping[str, Mapping[str, str]]
    """Words in the file, in lower case, and the native texts that replace them."""
    date_format: str
    date_formats: Mapping[str, str]
    """The forms of dates that differ from `date_format`."""
    decimal: str
    """What separates the hundredths of an amount: a point or a comma."""

    def layout_columns(self) -> tuple[Column, ...]:
        """Return the native columns of the kind, with the names and parsers for the mapped file.

        Each file needs new columns, because their parsers cache values.
        """
        return tuple(map(self._column, LAYOUTS[self.kind]().columns))

    def _column(self, native: Column) -> Column:
        if native.label in self.constants:
            constant = self.constants[native.label]
            return Column(
                native.label, frozenset(), lambda _: native.parse(constant), is_constant=True
            )
        if native.label not in self.columns:
            return Column(native.label, frozenset(), native.parse)
        name = self.columns[native.label]
        names, parse = frozenset([folded_name(name)]), self._parser(native)
        is_key = native.presence == Presence.REQUIRED
        presence = Presence.REQUIRED if is_key else Presence.EXPECTED
        return Column(
            name,
            names,
            parse,
            presence,
            blanks=self._blanks_of(native),
            member=native.label,
            date_form=self._form_of(native.label) if native.date_form else "",
        )

    def _parser(self, native: Column) -> Callable[[str], Any]:
        """Return a parser that first replaces words and dates in the file by native ones."""
        parse = native.parse
        form = self._form_of(native.label)
        if native.label in DATES and form != dates.ISO:
            parse = with_dates(form, parse, is_last=native.label in _LAST_DAYS)
        if native.label == AMOUNT:
            parse = cents(AMOUNT, self.decimal)
        words = self.words.get(native.label)
        if words:
            parse = with_words(words, native.parse, parse)
        return parse

    def _blanks_of(self, native: Column) -> frozenset[str]:
        """Return the texts that mean no value, also those that the mapping says mean none."""
        words = self.words.get(native.label, {}).items()
        empty = (word for word, text in words if not text.strip())
        return native.blanks.union(empty) if native.blanks else native.blanks

    def _form_of(self, member: str) -> str:
        return self.date_formats.get(member, self.date_format)


def folded_name(name: str) -> str:
    """Return the form of a column's name that is used to compare names in mapping files."""
    return name.strip().casefold()


class MappedCsv(CsvFormat):
    """CSV with a header, whose columns a mapping file names (`--map`)."""

    name = "mapped"
    looked_for = "a CSV header"
    is_partial = True

    def __init__(self, mapping: FileMapping, encoding: str | None = None) -> None:
        """Read files by a mapping.

        Args:
            encoding: goes before that of the mapping.
        """
        self._mapping = mapping
        self.register = mapping.register or ""
        self.kinds = frozenset([mapping.kind])
        self.separator = mapping.delimiter
        self.encoding = encoding or mapping.encoding

    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind that the mapping file names, for any file."""
        return self._mapping.kind

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind that the mapping file names, for any names."""
        return self._mapping.kind

    def layout(self, kind: Kind) -> Layout:
        """Return the columns that the mapping file names."""
        native = LAYOUTS[kind]()
        columns = self._mapping.layout_columns()
        return Layout(columns, native.build, folded_name, native.build_many)

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns that the mapping file names."""
        return replace(super().known_columns(kind), is_mapped=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Yield one row per valid record. Rejects contain no text of their records."""
        return super().rows(stream, kind, _WithoutRecords(report))


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
