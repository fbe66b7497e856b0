"""Decodes the records in files of the DVSA (formats 2)."""

from collections.abc import Iterable
from typing import Any

import msgspec

from app.registers.formats.faults import RowFault
from app.registers.formats.json_values import JsonNumber


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


class Vehicle(
    msgspec.Struct,
    rename={
        "colour": "primaryColour",
        "manufactured": "manufactureDate",
        "first_used": "firstUsedDate",
        "registered": "registrationDate",
        "mot_tests": "motTests",
        "updated": "last_update_date",
        "updated_in_camel_case": "lastUpdateDate",
        "updated_at": "lastUpdateTimestamp",
        "modification_in_camel_case": "lastModification",
    },
):
    """The members of a vehicle that are read.

    PERF: the decoder skips all other members, which are most of a file.
    """

    registration: Any = None
    make: Any = None
    model: Any = None
    colour: Any = None
    manufactured: Any = None
    first_used: Any = None
    registered: Any = None
    mot_tests: list[Test] | None = None
    updated: Any = None
    updated_in_camel_case: Any = None
    updated_at: Any = None
    modification: Any = None
    last_modification: Any = None
    modification_in_camel_case: Any = None

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
