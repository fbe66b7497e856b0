"""DVLA, Vehicle Enquiry Service of Great Britain: stored answers (formats 3).

There is no bulk file: the container, NDJSON or an array of answer bodies, is ours.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from app.registers.formats import json_rows
from app.registers.formats.changes import Row, VehicleRow
from app.registers.formats.columns import Column, Declared, Layout, Presence, normalised
from app.registers.formats.format import Report, require_kind
from app.registers.formats.json_stream import member_names
from app.registers.formats.values import day, known_word, registration, text, year
from app.storage.tables import Kind

_KEY = "registrationNumber"
_ERROR_BODY = frozenset({"errors", "message"})
_IGNORED = _ERROR_BODY | {
    normalised(name)
    for name in (
        "artEndDate co2Emissions dateOfLastV5CIssued engineCapacity euroStatus fuelType "
        "markedForExport monthOfFirstDvlaRegistration monthOfFirstRegistration motStatus "
        "realDrivingEmissions revenueWeight typeApproval wheelplan automatedVehicle"
    ).split()
}
_TAX_STATUSES = {
    "taxed": "taxed",
    "untaxed": "untaxed",
    "not taxed for on road use": "untaxed",
    "sorn": "sorn",
}


class Dvla:
    """Answers; an error body among them is one reject."""

    name = "dvla"
    register = "dvla"
    record_bytes_min = len('{"registrationNumber":"A"}')
    looked_for = f"JSON objects with the member {_KEY}"

    def recognise(self, head: bytes) -> Kind | None:
        """Return vehicles if there is a member registrationNumber, or nothing but error bodies.

        Where each answer is a file of its own, some of the files are errors.
        """
        names = member_names(head)
        is_ours = normalised(_KEY) in names or (names and names <= _ERROR_BODY)
        return Kind.VEHICLES if is_ours else None

    def is_snapshot(self, head: bytes) -> bool:
        """A collection may be all that the operator has asked for."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return the members that nearly all answers have, and the rest of the interface's."""
        return Declared(vehicle_layout().columns, _IGNORED)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read vehicles; nothing but the key is required."""
        require_kind(self.name, kind, Kind.VEHICLES)
        return json_rows.rows(stream, vehicle_layout(), report)


def vehicle_layout() -> Layout:
    """Return the members we use; status and due date of the tax are always written together."""
    columns = (
        _column(_KEY, lambda _: registration, Presence.REQUIRED),
        _column("make", text, Presence.SPARSE),
        _column("yearOfManufacture", year, Presence.SPARSE),
        _column("colour", text, Presence.SPARSE),
        _column("motExpiryDate", day, Presence.SPARSE),
        _column("taxStatus", lambda label: known_word(label, _TAX_STATUSES), Presence.EXPECTED),
        _column("taxDueDate", day, Presence.SPARSE),
    )
    return Layout(columns, _vehicle)


def _column(
    label: str, reader_for: Callable[[str], Callable[[str], Any]], presence: Presence
) -> Column:
    return Column(label, frozenset([normalised(label)]), reader_for(label), presence)


def _vehicle(values: Iterable[Any]) -> VehicleRow:
    plate, make, year, color, mot_expiry, tax_status, tax_due = values
    return VehicleRow(
        plate,
        make,
        year=year,
        color=color,
        mot_expiry=mot_expiry,
        tax_status=tax_status,
        tax_due=tax_due,
    )
