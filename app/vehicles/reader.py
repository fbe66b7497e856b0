"""Looks vehicles up for every operation and every command: the day, and what is known."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import peewee

from app import clock
from app.config import Config
from app.storage.engine import Engine
from app.storage.registers import REPEATS_MAX, read_state
from app.vehicles.facts import Record
from app.vehicles.records import Records
from app.vehicles.registration import canonical_registration

_T = TypeVar("_T")


class Found(msgspec.Struct, frozen=True, gc=False):
    """What a look-up found for one plate.

    PERF: a bulk makes thousands; a NamedTuple takes four times as long, and wakes the collector.
    """

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
        """Look plates up with one statement; return one result for each, in their order.

        Every operation and every command looks vehicles up here.

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
        # No record has the empty text as its registration.
        return [
            Found(text, plate, records.get(plate or ""))
            for text, plate in zip(asked, plates, strict=True)
        ]


def with_current_registers(engine: Engine, read: Callable[[str], _T]) -> _T:
    """Call `read` with the state of the registers, and return its result (D26).

    If a register was replaced, rolled back or dropped meanwhile, call it again: a command has no
    client that would repeat its request. Raises an error of `read` if it comes again although no
    register changed.
    """
    failures = 0
    while True:
        state = read_state(engine)
        try:
            result = read(state)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            engine.recover(error)
            if read_state(engine) == state:
                # The state is also the same if a register was dropped and is back already.
                failures += 1
                if failures > REPEATS_MAX or not engine.may_be_gone(error):
                    raise
        else:
            if read_state(engine) == state:
                return result
