"""RDW, Gekentekende voertuigen: the vehicles of the Netherlands as open data (formats 1)."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from app.registers.formats.bounded_cache import cached
from app.registers.formats.changes import VehicleRow
from app.registers.formats.columns import SOCRATA_COLUMNS, Column, Layout, Presence, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.dates import american_date, compact_date, day, iso_time_date, year_of
from app.registers.formats.json_format import JsonFormat
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
_PLACEHOLDERS = MISSING | {"niet geregistreerd", "n.v.t.", "geen verstrekking in open data"}
_IGNORED = OTHER_COLUMNS | SOCRATA_COLUMNS
_NO_DATES = _PLACEHOLDERS | {"0", "00000000"}
_TIME_OF_DAY = re.compile(r" [0-9]{2}:[0-9]{2}:[0-9]{2} [AP]M")


class RdwCsv(CsvFormat):
    """The CSV download with display names, and the SODA CSV with API names."""

    name = "rdw-csv"
    register = "rdw"
    looked_for = f"a CSV header with the column {_KEY}"
    kinds = frozenset([Kind.VEHICLES])
    ignored_columns = _IGNORED

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return vehicles if there is a column Kenteken."""
        return Kind.VEHICLES if normalised(_KEY) in names else None

    def layout(self, kind: Kind) -> Layout:
        """Return the columns of vehicles."""
        return vehicle_layout()


class RdwJson(JsonFormat):
    """The SODA JSON. Its members are named as the columns; those without a value are left out."""

    name = "rdw-json"
    register = "rdw"
    looked_for = f"JSON objects with the member {normalised(_KEY)}"
    kinds = frozenset([Kind.VEHICLES])
    ignored_members = _IGNORED

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return vehicles if there is a member kenteken."""
        return Kind.VEHICLES if normalised(_KEY) in names else None

    def layout(self, kind: Kind) -> Layout:
        """Return the members of vehicles."""
        return vehicle_layout()

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size of an object with nothing but the shortest registration."""
        return len('{"kenteken":"A"}')


def vehicle_layout() -> Layout:
    """Return the columns that are read; the last one is used where the expiry is missing."""
    expiry_by_time = day(f"{_EXPIRY} DT", _date, _NO_DATES)

    def build(values: Iterable[Any]) -> VehicleRow:
        plate, make, model, year, color, insured, expiry, time = values
        if expiry == "":
            expiry = expiry_by_time(time)
        return VehicleRow(plate, make, model, year, color, insured, expiry)

    def build_many(columns: list[list[Any]]) -> list[VehicleRow]:
        return list(map(build, zip(*columns, strict=True)))

    columns = (
        _column(_KEY, registration, Presence.REQUIRED, registrations),
        _column("Merk", text("Merk", _PLACEHOLDERS), Presence.EXPECTED),
        _column("Handelsbenaming", text("Handelsbenaming", _PLACEHOLDERS), Presence.SPARSE),
        _column("Datum eerste toelating", cached(_first_year), Presence.SPARSE),
        _column("Eerste kleur", text("Eerste kleur", _PLACEHOLDERS), Presence.SPARSE),
        _column(
            "WAM verzekerd",
            known_word("WAM verzekerd", {"ja": True, "nee": False}, _PLACEHOLDERS),
            Presence.EXPECTED,
        ),
        _column(_EXPIRY, cached(_expiry), Presence.SPARSE),
        _column(f"{_EXPIRY} DT", str),
    )
    return Layout(columns, build, build_many=build_many)


def _column(
    label: str,
    parse: Callable[[str], Any],
    presence: Presence = Presence.OPTIONAL,
    parse_many: Callable[[list[str]], list[Any]] | None = None,
) -> Column:
    return Column(label, frozenset([normalised(label)]), parse, presence, parse_many)


def _first_year(text: str) -> int | None:
    """Return the year of the first admission: its first four digits."""
    value = stored_text("Datum eerste toelating", text, _NO_DATES)
    return year_of(value[:4]) if value and len(value) >= len("YYYY") else None


def _expiry(text: str) -> str | None:
    """Return the date of expiry, the empty text if it is missing, None if it is not a date."""
    value = stored_text(_EXPIRY, text, _NO_DATES)
    return "" if value is None else _date(value)


def _date(text: str) -> str | None:
    date_characters = len("MM/DD/YYYY")
    if _TIME_OF_DAY.fullmatch(text[date_characters:]):
        return american_date(text[:date_characters])
    return compact_date(text) or iso_time_date(text)
