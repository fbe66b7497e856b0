"""DVSA, MOT history of Great Britain and Northern Ireland: bulk and delta files (formats 2)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from app.registers.formats.bounded_cache import remembering
from app.registers.formats.changes import Change, VehicleDeletion, VehicleRow
from app.registers.formats.columns import Declared, Presence, normalised
from app.registers.formats.dvsa_columns import COLUMNS, MODIFICATION, OTHER_COLUMNS
from app.registers.formats.format import Report, RowFault, require_kind
from app.registers.formats.json_rows import text_of
from app.registers.formats.json_stream import Number, Objects, member_names
from app.registers.formats.values import (
    MISSING,
    iso_date,
    moment,
    registration,
    shown,
    stored_text,
    text,
    year_of,
)
from app.storage.tables import Kind

_PLACEHOLDERS = MISSING | {"not stated"}
_CHANGED = frozenset({"", "null", "created", "updated"})
_DAY_CHARACTERS = len("YYYY-MM-DD")
_LOOKED_AT_EVERY = 100
"""PERF: to know all names of a record is to decode it whole, in twice the time."""
# No member of our own layout, whose registrations a record of a new vehicle would pass for.
_OWN_MEMBERS = MODIFICATION | {
    "mottests",
    "lastmottestdate",
    "manufacturedate",
    "firstuseddate",
    "registrationdate",
    "primarycolour",
    "secondarycolour",
    "last_update_date",
    "lastupdatedate",
    "lastupdatetimestamp",
}


class Dvsa:
    """Vehicles with their tests, one a line or one after the other; of a delta, changes of them.

    A record is the whole truth of its vehicle, tests included, so an expiry can go back.
    """

    name = "dvsa"
    register = "dvsa"
    record_bytes_min = len('{"registration":"A"}')
    looked_for = "JSON objects with the member registration and motTests, or another of the DVSA's"

    def recognise(self, head: bytes) -> Kind | None:
        """Return vehicles if members are named as the DVSA names them."""
        names = member_names(head)
        is_ours = "registration" in names and not names.isdisjoint(_OWN_MEMBERS)
        return Kind.VEHICLES if is_ours else None

    def is_snapshot(self, head: bytes) -> bool:
        """A bulk file is one; a delta, whose records tell their modification, is none."""
        return member_names(head).isdisjoint(MODIFICATION)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Read vehicles and deletions, in the order of the file."""
        require_kind(self.name, kind, Kind.VEHICLES)
        return _changes(Objects(stream, report, _decoded), _Names(report))

    def declared(self, kind: Kind) -> Declared:
        """Return the members of a vehicle; a deletion may be no more than a registration."""
        return Declared(COLUMNS, OTHER_COLUMNS)


class _Test(msgspec.Struct, rename="camel"):
    test_result: Any = None
    expiry_date: Any = None


class _Vehicle(
    msgspec.Struct,
    rename={
        "colour": "primaryColour",
        "manufactured": "manufactureDate",
        "first_used": "firstUsedDate",
        "registered": "registrationDate",
        "tests": "motTests",
        "updated": "last_update_date",
        "updated_in_camel_case": "lastUpdateDate",
        "updated_at": "lastUpdateTimestamp",
        "modification_in_camel_case": "lastModification",
    },
):
    """The members that are used: of the others, most of a file, no objects are made."""

    registration: Any = None
    make: Any = None
    model: Any = None
    colour: Any = None
    manufactured: Any = None
    first_used: Any = None
    registered: Any = None
    tests: list[_Test] | None = None
    updated: Any = None
    updated_in_camel_case: Any = None
    updated_at: Any = None
    modification: Any = None
    last_modification: Any = None
    modification_in_camel_case: Any = None


class _OddVehicle(_Vehicle):
    """One whose motTests are no array of objects."""

    tests: Any = None


_decoder = msgspec.json.Decoder(_Vehicle, float_hook=Number)
_odd_decoder = msgspec.json.Decoder(_OddVehicle, float_hook=Number)


def _decoded(text: bytes | str) -> _Vehicle:
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:
        return _odd_decoder.decode(text)


def _changes(objects: Objects, names: "_Names") -> Iterator[Change]:
    read = _reader()
    for vehicle in objects:
        try:
            change = read(vehicle)
        except RowFault as fault:
            objects.reject(str(fault))
        else:
            if type(change) is VehicleRow:
                names.look(objects)
            yield change


class _Names:
    """Reports the members of vehicles: of each until all that are expected were seen."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lacking = [each.names for each in COLUMNS if each.presence != Presence.OPTIONAL]
        self._vehicles = 0

    def look(self, objects: Objects) -> None:
        """Look at the vehicle that was given out last."""
        if self._lacking or self._vehicles % _LOOKED_AT_EVERY == 0:
            names = list(objects.names)
            self._report.columns(names)
            folded = set(map(normalised, names))
            self._lacking = [each for each in self._lacking if each.isdisjoint(folded)]
        self._vehicles += 1


def _reader() -> Callable[[_Vehicle], Change]:
    """Return what reads the records of one file, and remembers what it has read."""
    make, model = text("make", _PLACEHOLDERS), text("model", _PLACEHOLDERS)
    colour = text("primaryColour", _PLACEHOLDERS)
    year, day = remembering(_year), remembering(_day)
    midnight = moment("last_update_date")

    def updated(time: str) -> int | None:
        return midnight(time.strip()[:_DAY_CHARACTERS])

    def read(vehicle: _Vehicle) -> Change:
        plate = vehicle.registration
        if plate is not None and type(plate) is not str:
            raise RowFault("registration: not a JSON string")
        plate = registration(plate or "")
        if _is_deleted(vehicle):
            return VehicleDeletion(plate)
        return VehicleRow(
            plate,
            make(_text("make", vehicle.make)),
            model(_text("model", vehicle.model)),
            _first(year, (vehicle.manufactured, vehicle.first_used, vehicle.registered)),
            colour(_text("primaryColour", vehicle.colour)),
            mot_expiry=_latest_pass(vehicle, day),
            updated=_first(
                updated, (vehicle.updated, vehicle.updated_in_camel_case, vehicle.updated_at)
            ),
        )

    return read


def _text(label: str, value: Any) -> str:
    return value if type(value) is str else text_of(label, value)


def _first(read: Callable[[str], int | None], values: Iterable[Any]) -> int | None:
    """Return what is read from the first of some dates that gives something."""
    for value in values:
        found = None if value is None else read(_text("date", value))
        if found is not None:
            return found
    return None


def _is_deleted(vehicle: _Vehicle) -> bool:
    """Tell DELETED from CREATED and UPDATED; another word rejects the record."""
    for value in (
        vehicle.modification,
        vehicle.last_modification,
        vehicle.modification_in_camel_case,
    ):
        word = "" if value is None else _text("modification", value).strip().lower()
        if word == "deleted":
            return True
        if word not in _CHANGED:
            raise RowFault(f"unknown modification: {shown(word)}")
    return False


def _latest_pass(vehicle: _Vehicle, day: Callable[[str], str | None]) -> str | None:
    """Return the latest expiry among the passed tests; no order of theirs is promised."""
    tests: Iterable[_Test] = vehicle.tests or ()
    if isinstance(vehicle, _OddVehicle):
        tests = _tests_of(vehicle.tests)
    expiries = [
        day(test.expiry_date)
        for test in tests
        if type(test.expiry_date) is str and _is_passed(test.test_result)
    ]
    return max(filter(None, expiries), default=None)


def _tests_of(value: Any) -> list[_Test]:
    if not isinstance(value, list):
        raise RowFault("motTests: not a JSON array")
    return [
        _Test(test.get("testResult"), test.get("expiryDate"))
        for test in value
        if isinstance(test, dict)
    ]


def _is_passed(result: Any) -> bool:
    return result == "PASSED" or (isinstance(result, str) and result.strip().upper() == "PASSED")


def _day(text: str) -> str | None:
    """Read the day of a date, or of a time in any of the forms that were seen."""
    return iso_date(text.strip()[:_DAY_CHARACTERS])


def _year(text: str) -> int | None:
    value = stored_text("date", text)
    return year_of(value[:4]) if value and len(value) >= len("YYYY") else None
