"""Every look-up of vehicles, over HTTP or by a command: which day it is, and what is known."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import peewee

from app import clock
from app.config import Config
from app.storage.engine import Engine
from app.storage.registers import REPEATS_MAX, read_state
from app.vehicles.insurance import Members
from app.vehicles.records import Record, Records
from app.vehicles.registration import canonical_registration

NOT_FOUND = "Vehicle not found"
INVALID = "Invalid registration number"

_T = TypeVar("_T")


class Found(NamedTuple):
    """What a look-up found for one plate."""

    asked: str
    """The plate as it was given."""
    registration: str | None
    """Its canonical form; None if it is no registration (D19)."""
    record: Record | None
    """None if no register mentions the plate (D24)."""


class VehicleReader:
    """Answers plates from the registers."""

    def __init__(self, records: Records, config: Config) -> None:
        self.mot_first_years = config.mot_first_years
        self._records = records
        self._timezone = config.timezone

    def day(self, as_of: str | None) -> str:
        """Return the ISO date to judge by: the one asked for, or today (D20)."""
        return as_of or clock.today(self._timezone).isoformat()

    def look_up(self, registers: str, asked: Sequence[str], day: str) -> list[Found]:
        """Look plates up, with one statement for all; return one result for each, in their order.

        Nothing else looks vehicles up: every operation and every command comes here.

        Args:
            registers: state of the registers, as app.storage.registers reads it.
            asked: plates as they were given.
            day: ISO date that decides which policy is answered.
        """
        plates = [canonical_registration(text) for text in asked]
        known = [plate for plate in plates if plate is not None]
        records: dict[str, Record] = {}
        if len(known) == 1:
            # PERF: the statement for a single plate is the faster one.
            record = self._records.find_record(registers, known[0], day)
            records = {known[0]: record} if record else {}
        elif known:
            records = self._records.find_records(registers, known, day)
        return [
            Found(text, plate, records.get(plate) if plate else None)
            for text, plate in zip(asked, plates, strict=True)
        ]


def failure_members(found: Found) -> Members:
    """Return `error` and `code` of a plate that has no answer (spec 2)."""
    if found.registration is None:
        return {"error": INVALID, "code": "invalid_registration"}
    return {"error": NOT_FOUND, "code": "vehicle_not_found"}


def with_current_registers(engine: Engine, read: Callable[[str], _T]) -> _T:
    """Return what `read` makes of the registers; it is given their state (D26).

    It is called again if a register was replaced, rolled back or dropped meanwhile: commands
    have no client who would ask again. Raises what `read` raises repeatedly while no register
    changes.
    """
    failures = 0
    while True:
        state = read_state(engine)
        try:
            result = read(state)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            engine.recover(error)
            if read_state(engine) == state:
                # It is the same, too, if a register was dropped and is back already.
                failures += 1
                if failures > REPEATS_MAX or not engine.may_be_gone(error):
                    raise
        else:
            if read_state(engine) == state:
                return result
