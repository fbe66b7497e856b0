"""How the columns of a CSV file map to native members."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.registers.formats import date_forms
from app.registers.formats.columns import Column, Presence
from app.registers.formats.mapped_texts import with_dates, with_words
from app.registers.formats.native import LAYOUTS
from app.registers.formats.values import cents
from app.storage.tables import Kind

DATES = frozenset(
    "motExpiry firstRegistered taxDue validFrom validTo cancelledOn issuedOn settledOn "
    "lastUpdated".split()
)
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
        if native.label in DATES and form != date_forms.ISO:
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
