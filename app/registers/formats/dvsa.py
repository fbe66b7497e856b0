"""DVSA: the MOT history of Great Britain and Northern Ireland, bulk and delta."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, TypeVar

import msgspec

from app.registers.bounded_cache import cached
from app.registers.formats import values
from app.registers.formats.changes import Change, VehicleDeletion
from app.registers.formats.columns import Column, KnownColumns, Presence, RowFault, normalised
from app.registers.formats.dates import iso_date, moment, year_of
from app.registers.formats.format import Format
from app.registers.formats.json_format import JsonObjects, text_of
from app.registers.formats.json_splitter import JsonNumber, is_array, member_names
from app.registers.formats.report import Report, Unreadable
from app.storage.tables import Kind, VehicleRow

_MODIFICATION = frozenset({"modification", "last_modification", "lastmodification"})


def _column(label: str, presence: Presence = Presence.OPTIONAL, *others: str) -> Column:
    """Return a column whose names count as they are spelled, because the decoder reads no others.

    Args:
        others: its other names.
    """
    return Column(label, frozenset([label, *others]), str, presence)


_COLUMNS = (
    _column("registration", Presence.REQUIRED),
    _column("make", Presence.SPARSE),
    _column("model", Presence.SPARSE),
    _column("primaryColour", Presence.SPARSE),
    _column("manufactureDate", Presence.SPARSE, "firstUsedDate", "registrationDate"),
    _column("motTests", Presence.SPARSE),
    _column("motTestDueDate"),
    _column("last_update_date", Presence.OPTIONAL, "lastUpdateDate", "lastUpdateTimestamp"),
)
_OWN_MEMBERS = _MODIFICATION.union(
    {"lastmottestdate", "secondarycolour"},
    *(map(normalised, column.names) for column in _COLUMNS[3:]),
)
"""The members that the native layout, which also has `registration`, does not have."""
_UNREAD_MEMBERS = frozenset(
    "modification last_modification lastModification secondaryColour lastMotTestDate fuelType "
    "engineSize dataSource hasOutstandingRecall vehicleId vin".split()
)
_PLACEHOLDERS = values.MISSING | {"not stated"}
_CHANGED = frozenset({"", "null", "created", "updated"})
_DAY_CHARACTERS = len("YYYY-MM-DD")
_VEHICLES_PER_SAMPLE = 100
"""PERF: reading the names of all members takes as long as reading the record."""
T = TypeVar("T")


class Test(msgspec.Struct, rename="camel"):
    """An MOT test."""

    test_result: Any = None
    expiry_date: Any = None

    @property
    def is_passed(self) -> bool:
        """Whether the result is PASSED, in upper or lower case."""
        result = self.test_result
        return result == "PASSED" or (
            isinstance(result, str) and result.strip().upper() == "PASSED"
        )


class Vehicle(msgspec.Struct, rename="camel"):
    """The members of a vehicle that are read, with all their spellings.

    PERF: the decoder skips all other members, which are most of a file.
    """

    registration: Any = None
    make: Any = None
    model: Any = None
    primary_colour: Any = None
    manufacture_date: Any = None
    first_used_date: Any = None
    registration_date: Any = None
    mot_tests: list[Test] | None = None
    mot_test_due_date: Any = None
    last_update_date: Any = msgspec.field(default=None, name="last_update_date")
    camel_case_update_date: Any = msgspec.field(default=None, name="lastUpdateDate")
    last_update_timestamp: Any = None
    modification: Any = None
    last_modification: Any = msgspec.field(default=None, name="last_modification")
    camel_case_modification: Any = msgspec.field(default=None, name="lastModification")

    @property
    def tests(self) -> Iterable[Test]:
        """The tests, in any order. Raises RowFault if they are not an array."""
        return self.mot_tests or ()


class OddVehicle(Vehicle):
    """A vehicle whose motTests is not an array of objects."""

    mot_tests: Any = None

    @property
    def tests(self) -> Iterable[Test]:
        """The items of the array that are objects. Raises RowFault if it is not an array."""
        if not isinstance(self.mot_tests, list):
            raise RowFault("motTests: not a JSON array")
        objects = (each for each in self.mot_tests if isinstance(each, dict))
        return [Test(each.get("testResult"), each.get("expiryDate")) for each in objects]


_decoder = msgspec.json.Decoder(Vehicle, float_hook=JsonNumber)
_odd_decoder = msgspec.json.Decoder(OddVehicle, float_hook=JsonNumber)


def decoded_vehicle(text: bytes | str) -> Vehicle:
    """Return the vehicle of a record.

    Raises ValueError or RecursionError if the record is not a JSON object.
    """
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:
        return _odd_decoder.decode(text)


class Dvsa(Format):
    """Vehicles with their tests, or changes to vehicles in a delta.

    A record has all tests of its vehicle, so a new record can have an earlier MOT expiry.
    """

    name = "dvsa"
    register = "dvsa"
    looked_for = "JSON objects with the member registration and motTests, or another of the DVSA's"
    kinds = frozenset([Kind.VEHICLES])
    shortest_record = '{"registration":"A"}'

    def recognise(self, head: bytes) -> Kind | None:
        """Return vehicles if a member has a name that only the DVSA uses, else None."""
        names = member_names(head)
        is_dvsa = "registration" in names and not names.isdisjoint(_OWN_MEMBERS)
        return Kind.VEHICLES if is_dvsa else None

    def is_snapshot(self, head: bytes) -> bool:
        """Return True for a bulk file, and False for a delta, whose records have a modification."""
        return member_names(head).isdisjoint(_MODIFICATION)

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the members of a vehicle. A deletion may have only a registration."""
        return KnownColumns(_COLUMNS, _UNREAD_MEMBERS, str)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        objects, names = JsonObjects(stream, report, decoded_vehicle), _MemberNames(report)
        unread: list[str] = []
        unreadable: Counter[str] = Counter()
        change_of = _vehicle_reader(unread)
        for vehicle in objects:
            unread.clear()
            try:
                change = change_of(vehicle)
            except RowFault as fault:
                objects.reject(str(fault))
            else:
                if unread:
                    unreadable.update(unread)
                if type(change) is VehicleRow:
                    names.sample(objects)
                yield change
        for label, count in unreadable.items():
            report.unreadable(label, Unreadable(count))

    def ends_with_line(self, head: bytes) -> bool:
        """Return False for an array, which marks its own end, and True for all other files."""
        return not is_array(head)


class _MemberNames:
    """Reports the names of the members of each vehicle until all expected ones have appeared.

    After that it reports the names of every 100th vehicle.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._missing = [each.names for each in _COLUMNS if each.presence != Presence.OPTIONAL]
        self._vehicles = 0

    def sample(self, objects: JsonObjects) -> None:
        """Report the names of the vehicle that was yielded last, if it belongs to the sample."""
        if self._missing or self._vehicles % _VEHICLES_PER_SAMPLE == 0:
            names = list(objects.names)
            self._report.columns(names)
            self._missing = [each for each in self._missing if each.isdisjoint(names)]
        self._vehicles += 1


def _vehicle_reader(unread: list[str]) -> Callable[[Vehicle], Change]:
    """Return a function that turns the records of one file into changes.

    Args:
        unread: gets the member of each value in a record that cannot be read.
    """
    make, model, colour = (
        values.text(label, _PLACEHOLDERS) for label in ("make", "model", "primaryColour")
    )
    year, day = values.parser("date", lambda date: year_of(date[:4])), cached(_day)
    midnight = moment("last_update_date")

    def updated(time: str) -> int | None:
        return midnight(time.strip()[:_DAY_CHARACTERS])

    def change_of(vehicle: Vehicle) -> Change:
        plate = vehicle.registration
        if plate is not None and type(plate) is not str:
            raise RowFault("registration: not a JSON string")
        plate = values.registration(plate or "")
        if _is_deleted(vehicle):
            return VehicleDeletion(plate)
        first_dates = vehicle.first_used_date, vehicle.registration_date
        times = (
            vehicle.last_update_date,
            vehicle.camel_case_update_date,
            vehicle.last_update_timestamp,
        )
        expiry = _latest_expiry(vehicle, day, unread)
        first_mot = None
        if expiry is None:
            first_mot = _first(day, [vehicle.mot_test_due_date], "motTestDueDate", unread)
        return VehicleRow(
            plate,
            make(_text("make", vehicle.make)),
            model(_text("model", vehicle.model)),
            _first(year, (vehicle.manufacture_date, *first_dates), "manufactureDate", unread),
            colour(_text("primaryColour", vehicle.primary_colour)),
            mot_expiry=expiry or first_mot,
            first_registered=_first(day, first_dates, "firstUsedDate", unread),
            updated=_first(updated, times, "lastUpdateDate", unread),
        )

    return change_of


def _text(label: str, value: object) -> str:
    return value if type(value) is str else text_of(label, value)


def _first(
    parse: Callable[[str], T | None], spellings: Iterable[object], label: str, unread: list[str]
) -> T | None:
    """Return the first value that can be parsed; None if none can.

    Note the label once if a value before it cannot be parsed.
    """
    is_unread, found = False, None
    for value in spellings:
        text = "" if value is None else _text("date", value)
        found = parse(text) if text else None
        if found is not None:
            break
        is_unread |= not _is_blank(text)
    if is_unread:
        unread.append(label)
    return found


def _is_blank(text: str) -> bool:
    return text.strip().lower() in values.MISSING


def _is_deleted(vehicle: Vehicle) -> bool:
    """Return True for DELETED, and False for CREATED, UPDATED and no word.

    Raises RowFault for any other word.
    """
    for value in (
        vehicle.modification,
        vehicle.last_modification,
        vehicle.camel_case_modification,
    ):
        word = "" if value is None else _text("modification", value).strip().lower()
        if word == "deleted":
            return True
        if word not in _CHANGED:
            raise RowFault(f"unknown modification: {values.quoted(word)}")
    return False


def _latest_expiry(
    vehicle: Vehicle, day: Callable[[str], str | None], unread: list[str]
) -> str | None:
    """Return the latest date of expiry of the passed tests, or None."""
    texts = [
        test.expiry_date
        for test in vehicle.tests
        if type(test.expiry_date) is str and test.is_passed
    ]
    expiries = list(map(day, texts))
    if None in expiries:
        pairs = zip(texts, expiries, strict=True)
        unread += ["expiryDate" for text, day in pairs if day is None and not _is_blank(text)]
    return max(filter(None, expiries), default=None)


def _day(text: str) -> str | None:
    """Return the day of a date or a time, or None. Every known form begins with the day."""
    return iso_date(text.strip()[:_DAY_CHARACTERS])
