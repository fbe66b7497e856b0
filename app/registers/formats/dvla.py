"""DVLA: stored answers of the Vehicle Enquiry Service of Great Britain.

The DVLA offers no bulk file. We read its answer bodies as NDJSON or as a JSON array.
"""

from app.registers.formats import values
from app.registers.formats.columns import Column, Layout, Presence, Values, normalised
from app.registers.formats.date_forms import iso_day
from app.registers.formats.dates import day_before, iso_date, year_of
from app.registers.formats.json_format import JsonFormat
from app.storage.tables import Kind, VehicleRow

_KEY = "registrationNumber"
_FIRST_MONTH = "monthOfFirstRegistration"
_ERROR_BODY = frozenset({"errors", "message"})
_IGNORED = _ERROR_BODY | {
    normalised(name)
    for name in (
        "artEndDate co2Emissions dateOfLastV5CIssued engineCapacity euroStatus fuelType "
        "markedForExport monthOfFirstDvlaRegistration motStatus "
        "realDrivingEmissions revenueWeight typeApproval wheelplan automatedVehicle"
    ).split()
}
_TAX_STATUSES = {
    "taxed": "taxed",
    "untaxed": "untaxed",
    "not taxed for on road use": "untaxed",
    "sorn": "sorn",
}


class Dvla(JsonFormat):
    """Answer bodies. Each error body among them is rejected."""

    name = "dvla"
    register = "dvla"
    looked_for = f"JSON objects with the member {_KEY}"
    kinds = frozenset([Kind.VEHICLES])
    ignored_names = _IGNORED
    shortest_record = '{"registrationNumber":"A"}'

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return vehicles if registrationNumber is among the names, or if all are of errors.

        A file with errors only is recognised too: each answer can be a file of its own.
        """
        is_dvla = normalised(_KEY) in names or (names and names <= _ERROR_BODY)
        return Kind.VEHICLES if is_dvla else None

    def layout(self, kind: Kind) -> Layout:
        tax_status = values.known_word("taxStatus", _TAX_STATUSES)
        columns = (
            (_KEY, values.registration, Presence.REQUIRED),
            ("make", values.text("make"), Presence.SPARSE),
            ("yearOfManufacture", values.parser("yearOfManufacture", year_of), Presence.SPARSE),
            ("colour", values.text("colour"), Presence.SPARSE),
            ("motExpiryDate", values.parser("motExpiryDate", iso_date), Presence.SPARSE),
            ("taxStatus", tax_status, Presence.EXPECTED),
            ("taxDueDate", values.parser("taxDueDate", _last_taxed_day), Presence.SPARSE),
            (_FIRST_MONTH, values.parser(_FIRST_MONTH, _first_day), Presence.OPTIONAL),
        )
        return Layout(
            tuple(Column.named(*each, blanks=values.MISSING) for each in columns), _vehicle
        )


def _first_day(month: str) -> str | None:
    """Return the first day of a month such as 2012-12: it is in use from then on, at the latest.

    Stored answers that clients wrote as objects of Python have a whole date.
    """
    return iso_day(month, "YYYY-MM") or iso_date(month)


def _last_taxed_day(text: str) -> str | None:
    """Return the last day that is paid, of the day on which the next tax falls due.

    Licences run from the first of a month, so a first is the day on which the next one begins.
    Another day keeps its meaning: the mock answers of the agency have ends of months.
    """
    day = iso_date(text)
    return day_before(day) if day is not None and day.endswith("-01") else day


def _vehicle(read: Values) -> VehicleRow:
    plate, make, year, color, mot_expiry, tax_status, tax_due, first_registered = read
    return VehicleRow(
        plate,
        make,
        year=year,
        color=color,
        mot_expiry=mot_expiry,
        first_registered=first_registered,
        tax_status=tax_status,
        tax_due=tax_due,
    )
