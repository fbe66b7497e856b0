"""RDW, Gekentekende voertuigen: the Netherlands' vehicles as open data (formats 1)."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from app.registers.formats import delimited
from app.registers.formats.columns import Column, Layout, normalised
from app.registers.formats.interface import FileFault, Kind, Report
from app.registers.formats.memo import remembering
from app.registers.formats.values import (
    MISSING,
    day,
    iso_date,
    known_word,
    registration,
    stored_text,
    text,
    year_of,
)
from app.registers.rows import Row, VehicleRow

_KEY = "Kenteken"
_EXPIRY = "Vervaldatum APK"
_PLACEHOLDERS = MISSING | {"niet geregistreerd", "n.v.t.", "geen verstrekking in open data"}
_NO_DATES = _PLACEHOLDERS | {"0", "00000000"}
_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_AMERICAN = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4}) [0-9]{2}:[0-9]{2}:[0-9]{2} [AP]M")
_ISO_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?")


class RdwCsv:
    """The CSV download with display names, and the SODA CSV with API names."""

    name = "rdw-csv"
    register = "rdw"
    snapshot = True
    looked_for = f"a CSV header with the column {_KEY}"

    def recognise(self, head: bytes) -> Kind | None:
        """Return vehicles if there is a column Kenteken."""
        return Kind.VEHICLES if normalised(_KEY) in delimited.header_names(head) else None

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read vehicles; nothing but the key is required (formats 1)."""
        if kind != Kind.VEHICLES:
            raise FileFault(f"{self.name} holds vehicles, no {kind}.")
        return delimited.rows(stream, vehicle_layout(), report)


def vehicle_layout() -> Layout:
    """Return the columns we use; the last one counts where the expiry is missing."""
    expiry_by_time = day(f"{_EXPIRY} DT", _date, _NO_DATES)

    def finish(values: Iterable[Any]) -> VehicleRow:
        plate, make, model, year, color, insured, expiry, time = values
        if expiry == "":
            expiry = expiry_by_time(time)
        return VehicleRow(plate, make, model, year, color, insured, expiry)

    columns = (
        _column(_KEY, registration, required=True),
        _column("Merk", text("Merk", _PLACEHOLDERS)),
        _column("Handelsbenaming", text("Handelsbenaming", _PLACEHOLDERS)),
        _column("Datum eerste toelating", remembering(_first_year)),
        _column("Eerste kleur", text("Eerste kleur", _PLACEHOLDERS)),
        _column(
            "WAM verzekerd",
            known_word("WAM verzekerd", {"ja": True, "nee": False}, _PLACEHOLDERS),
        ),
        _column(_EXPIRY, remembering(_expiry)),
        _column(f"{_EXPIRY} DT", str),
    )
    return Layout(columns, finish)


def _column(label: str, read: Callable[[str], Any], *, required: bool = False) -> Column:
    return Column(label, frozenset([normalised(label)]), read, required)


def _first_year(text: str) -> int | None:
    """Read the year of the first admission: its first four digits."""
    value = stored_text("Datum eerste toelating", text, _NO_DATES)
    return year_of(value[:4]) if value and len(value) >= len("YYYY") else None


def _expiry(text: str) -> str | None:
    """Read the expiry: the empty text if it is missing, None if it is no date."""
    value = stored_text(_EXPIRY, text, _NO_DATES)
    return "" if value is None else _date(value)


def _date(text: str) -> str | None:
    if match := _COMPACT.fullmatch(text):
        return iso_date("-".join(match.groups()))
    if match := _AMERICAN.fullmatch(text):
        month, of_month, year = match.groups()
        return iso_date(f"{year}-{month}-{of_month}")
    if match := _ISO_TIME.fullmatch(text):
        return iso_date(match[1])
    return None
