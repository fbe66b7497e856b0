"""RDW, Gekentekende voertuigen: the Netherlands' vehicles as open data (formats 1)."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from app.registers.formats import delimited, json_rows
from app.registers.formats.bounded_cache import remembering
from app.registers.formats.changes import Row, VehicleRow
from app.registers.formats.columns import (
    SOCRATA_COLUMNS,
    Column,
    Declared,
    Layout,
    Presence,
    normalised,
)
from app.registers.formats.dates import american_date, compact_date, iso_time_date
from app.registers.formats.format import Report, require_kind
from app.registers.formats.json_stream import member_names
from app.registers.formats.rdw_columns import OTHER_COLUMNS
from app.registers.formats.values import (
    MISSING,
    day,
    known_word,
    registration,
    registrations,
    stored_text,
    text,
    year_of,
)
from app.storage.tables import Kind

_KEY = "Kenteken"
_EXPIRY = "Vervaldatum APK"
_PLACEHOLDERS = MISSING | {"niet geregistreerd", "n.v.t.", "geen verstrekking in open data"}
_IGNORED = OTHER_COLUMNS | SOCRATA_COLUMNS
_NO_DATES = _PLACEHOLDERS | {"0", "00000000"}
_TIME_OF_DAY = re.compile(r" [0-9]{2}:[0-9]{2}:[0-9]{2} [AP]M")


class RdwCsv:
    """The CSV download with display names, and the SODA CSV with API names."""

    name = "rdw-csv"
    register = "rdw"
    header_lines = 1
    looked_for = f"a CSV header with the column {_KEY}"

    def recognise(self, head: bytes) -> Kind | None:
        """Return vehicles if there is a column Kenteken."""
        return Kind.VEHICLES if normalised(_KEY) in delimited.header_names(head) else None

    def is_snapshot(self, head: bytes) -> bool:
        """A file is the whole register."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return what a header names: nothing but the key is required, all we read is expected."""
        return Declared(vehicle_layout().columns, _IGNORED, has_header=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read vehicles; nothing but the key is required (formats 1)."""
        require_kind(self.name, kind, Kind.VEHICLES)
        return delimited.rows(stream, vehicle_layout(), report)


class RdwJson:
    """The SODA JSON; its members are named as the columns, those without a value left out."""

    name = "rdw-json"
    register = "rdw"
    record_bytes_min = len('{"kenteken":"A"}')
    looked_for = f"JSON objects with the member {normalised(_KEY)}"

    def recognise(self, head: bytes) -> Kind | None:
        """Return vehicles if there is a member kenteken."""
        return Kind.VEHICLES if normalised(_KEY) in member_names(head) else None

    def is_snapshot(self, head: bytes) -> bool:
        """The files of a load, which may be pages, are the whole register."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return the members as the CSV's columns."""
        return Declared(vehicle_layout().columns, _IGNORED)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read vehicles as from the CSV."""
        require_kind(self.name, kind, Kind.VEHICLES)
        return json_rows.rows(stream, vehicle_layout(), report)


def vehicle_layout() -> Layout:
    """Return the columns we use; the last one counts where the expiry is missing."""
    expiry_by_time = day(f"{_EXPIRY} DT", _date, _NO_DATES)

    def finish(values: Iterable[Any]) -> VehicleRow:
        plate, make, model, year, color, insured, expiry, time = values
        if expiry == "":
            expiry = expiry_by_time(time)
        return VehicleRow(plate, make, model, year, color, insured, expiry)

    def finish_all(columns: list[list[Any]]) -> list[VehicleRow]:
        return list(map(finish, zip(*columns, strict=True)))

    columns = (
        _column(_KEY, registration, Presence.REQUIRED, registrations),
        _column("Merk", text("Merk", _PLACEHOLDERS), Presence.EXPECTED),
        _column("Handelsbenaming", text("Handelsbenaming", _PLACEHOLDERS), Presence.SPARSE),
        _column("Datum eerste toelating", remembering(_first_year), Presence.SPARSE),
        _column("Eerste kleur", text("Eerste kleur", _PLACEHOLDERS), Presence.SPARSE),
        _column(
            "WAM verzekerd",
            known_word("WAM verzekerd", {"ja": True, "nee": False}, _PLACEHOLDERS),
            Presence.EXPECTED,
        ),
        _column(_EXPIRY, remembering(_expiry), Presence.SPARSE),
        _column(f"{_EXPIRY} DT", str),
    )
    return Layout(columns, finish, finish_all=finish_all)


def _column(
    label: str,
    read: Callable[[str], Any],
    presence: Presence = Presence.OPTIONAL,
    read_all: Callable[[list[str]], list[Any]] | None = None,
) -> Column:
    return Column(label, frozenset([normalised(label)]), read, presence, read_all)


def _first_year(text: str) -> int | None:
    """Read the year of the first admission: its first four digits."""
    value = stored_text("Datum eerste toelating", text, _NO_DATES)
    return year_of(value[:4]) if value and len(value) >= len("YYYY") else None


def _expiry(text: str) -> str | None:
    """Read the expiry: the empty text if it is missing, None if it is no date."""
    value = stored_text(_EXPIRY, text, _NO_DATES)
    return "" if value is None else _date(value)


def _date(text: str) -> str | None:
    day_of_time = len("MM/DD/YYYY")
    if _TIME_OF_DAY.fullmatch(text[day_of_time:]):
        return american_date(text[:day_of_time])
    return compact_date(text) or iso_time_date(text)
