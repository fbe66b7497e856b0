"""Looks vehicles up for every operation and every command."""

from collections.abc import Mapping, Sequence

import msgspec

from app import clock
from app.config import Config
from app.storage.engine import Engine
from app.storage.tables import RegisterRef
from app.vehicles.facts import EVERYTHING, EXPLAINED, Held, Record, Wanted
from app.vehicles.merging import records_of
from app.vehicles.records import Read, Records
from app.vehicles.registration import canonical_registration
from app.vehicles.rows import PlateRows, held_of
from app.vehicles.sandbox import SandboxRecords

BATCH_PLATES = 5_000
"""Plates that an operator looks up with one statement, from one state of the registers."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """What a look-up found for one plate.

    PERF: a bulk makes thousands; a NamedTuple takes four times as long, and wakes the collector.
    """

    asked: str
    """The plate as it was given."""
    registration: str | None
    """Its canonical form; None if it is no registration."""
    record: Record | None
    """None if no register mentions the plate."""


class VehicleReader:
    """Answers plates from the registers, or from the table of the sandbox."""

    def __init__(self, records: Records | SandboxRecords, config: Config) -> None:
        self._records = records
        self._timezone = config.timezone
        self.register_order = config.register_order
        """Names of registers in the order of precedence."""
        self._mot_first_years = config.mot_first_years

    def day(self, as_of: str | None) -> str:
        """Return the ISO date to judge by: the one asked for, or today."""
        return as_of or clock.today(self._timezone).isoformat()

    def look_up(
        self, registers: str, asked: Sequence[str], day: str, wanted: Wanted = EVERYTHING
    ) -> tuple[list[Found], Read]:
        """Look plates up with one statement; return one result for each, in their order.

        Also returns the registers that were read: none if no plate is a registration.
        Every operation and every command looks vehicles up here.

        Args:
            registers: state of the registers, as app.storage.registers reads it.
            asked: plates as they were given.
            day: ISO date that decides which policy is answered.
            wanted: which fields of the records are needed.
        """
        plates = [canonical_registration(text) for text in asked]
        known = [plate for plate in plates if plate is not None]
        records: dict[str, Record] = {}
        read: Read = {}
        if known:
            records, read = self._records.find_records(registers, known, day, wanted)
        return _found(asked, plates, records), read

    def look_up_held(
        self, engine: Engine, registers: Sequence[RegisterRef], asked: Sequence[str], day: str
    ) -> tuple[list[Found], Mapping[str, Held]]:
        """Look plates up with dates; return one result for each, in their order.

        Also returns by plate what each register holds about those that are known. The commands and
        the console look up here what they explain.

        Args:
            registers: in the order of precedence; they must be attached.
            asked: plates as they were given.
            day: ISO date that decides which policy is answered.
        """
        plates = [canonical_registration(text) for text in asked]
        known = sorted({plate for plate in plates if plate is not None})
        records: dict[str, Record] = {}
        held: dict[str, Held] = {}
        for rows in PlateRows(engine, registers, EXPLAINED).read(known, needed=lambda rows: rows):
            records |= records_of(rows, day, self._mot_first_years)
            held |= held_of(rows)
        return _found(asked, plates, records), held


def _found(
    asked: Sequence[str], plates: Sequence[str | None], records: Mapping[str, Record]
) -> list[Found]:
    # No record has the empty text as its registration.
    return [
        Found(text, plate, records.get(plate or ""))
        for text, plate in zip(asked, plates, strict=True)
    ]


def readers_of(engine: Engine, config: Config) -> tuple[VehicleReader, VehicleReader]:
    """Return the reader of the registers, and that of accounts whose plan is a sandbox."""
    records = Records(engine, config.register_order, config.mot_first_years)
    return VehicleReader(records, config), VehicleReader(SandboxRecords(config.timezone), config)
