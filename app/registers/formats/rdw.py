"""RDW, Gekentekende voertuigen: the open data of the Dutch vehicle authority (formats 1)."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from app.registers.formats.bounded_cache import cached
from app.registers.formats.changes import VehicleRow
from app.registers.formats.columns import SOCRATA_COLUMNS, Column, Layout, Presence, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.dates import american_date, compact_date, day, iso_time_date, year_of
from app.registers.formats.json_format import JsonFormat
from app.registers.formats.named_format import NamedFormat
from app.registers.formats.rdw_columns import OTHER_COLUMNS
from app.registers.formats.values import (
    MISSING,
    known_word,
    registration,
    registrations,
    stored_text,
    text,
)
from app.storage.tables import Kind

_KEY = "Kenteken"
_EXPIRY = "Vervaldatum APK"
_EXPIRY_TIME = f"{_EXPIRY} DT"
_PLACEHOLDERS = MISSING | {"niet geregistreerd", "n.v.t.", "geen verstrekking in open data"}
_NO_DATES = _PLACEHOLDERS | {"0", "00000000"}
_TIME_OF_DAY = re.compile(r" [0-9]{2}:[0-9]{2}:[0-9]{2} [AP]M")


class _Rdw(NamedFormat):
    """What the CSV and the JSON of the RDW share."""

    register = "rdw"
    kinds = frozenset([Kind.VEHICLES])
    ignored_names = OTHER_COLUMNS | SOCRATA_COLUMNS

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return vehicles if Kenteken is among the names, else None."""
        return Kind.VEHICLES if normalised(_KEY) in names else None

    def layout(self, kind: Kind) -> Layout:
        """Return the columns of vehicles."""
        return vehicle_layout()


class RdwCsv(_Rdw, CsvFormat):
    """The CSV download with display names, and the SODA CSV with API names."""

    name = "rdw-csv"
    looked_for = f"a CSV header with the column {_KEY}"


class RdwJson(_Rdw, JsonFormat):
    """The SODA JSON. Its members have the API names; members without a value are left out."""

    name = "rdw-json"
    looked_for = f"JSON objects with the member {normalised(_KEY)}"

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size of an object that has only a registration of one character."""
        return len('{"kenteken":"A"}')


def vehicle_layout() -> Layout:
    """Return the columns that are read. The last column replaces a missing date of expiry."""

    def build(values: Iterable[Any]) -> VehicleRow:
        plate, make, model, year, color, insured, expiry, expiry_by_time = values
        if expiry == "":
            expiry = expiry_by_time
        return VehicleRow(plate, make, model, year, color, insured, expiry)

    def build_many(columns: list[list[Any]]) -> list[VehicleRow]:
        return list(map(build, zip(*columns, strict=True)))

    columns = (
        _column(_KEY, registration, Presence.REQUIRED, registrations),
        _column("Merk", text("Merk", _PLACEHOLDERS), Presence.EXPECTED),
        _column("Handelsbenaming", text("Handelsbenaming", _PLACEHOLDERS), Presence.SPARSE),
        _column("Datum eerste toelating", cached(_first_year), Presence.SPARSE, blanks=_NO_DATES),
        _column("Eerste kleur", text("Eerste kleur", _PLACEHOLDERS), Presence.SPARSE),
        _column(
            "WAM verzekerd",
            known_word("WAM verzekerd", {"ja": True, "nee": False}, _PLACEHOLDERS),
            Presence.EXPECTED,
            blanks=_PLACEHOLDERS,
        ),
        _column(_EXPIRY, cached(_expiry), Presence.SPARSE, blanks=_NO_DATES),
        _column(_EXPIRY_TIME, day(_EXPIRY_TIME, _date, _NO_DATES), blanks=_NO_DATES),
    )
    return Layout(columns, build, build_many=build_many)


def _column(
    label: str,
    parse: Callable[[str], Any],
    presence: Presence = Presence.OPTIONAL,
    parse_many: Callable[[list[str]], list[Any]] | None = None,
    *,
    blanks: frozenset[str] = frozenset(),
) -> Column:
    return Column(label, frozenset([normalised(label)]), parse, presence, parse_many, blanks=blanks)


def _first_year(text: str) -> int | None:
    """Return the year of the first admission, which is the first four digits of its date."""
    value = stored_text("Datum eerste toelating", text, _NO_DATES)
    return year_of(value[:4]) if value and len(value) >= len("YYYY") else None


def _expiry(text: str) -> str | None:
    """Return the date of expiry, an empty text if it is missing, or None if it is not a date."""
    value = stored_text(_EXPIRY, text, _NO_DATES)
    return "" if value is None else _date(value)


def _date(text: str) -> str | None:
    date_characters = len("MM/DD/YYYY")
    if _TIME_OF_DAY.fullmatch(text[date_characters:]):
        return american_date(text[:date_characters])
    return compact_date(text) or iso_time_date(text)
