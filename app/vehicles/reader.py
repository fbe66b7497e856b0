"""Looks vehicles up for every operation and every command."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from app import clock
from app.config import Config
from app.storage.engine import Engine
from app.storage.registers import in_precedence
from app.vehicles.deciding import LoadTimes
from app.vehicles.facts import EVERYTHING, EXPLAINED, Record, WantedFields
from app.vehicles.merging import records_of
from app.vehicles.records import Read, Records, basis_of
from app.vehicles.registration import canonical_registration
from app.vehicles.rows import PlateRows
from app.vehicles.sandbox import SandboxRecords

BATCH_PLATES = 5_000
"""Plates that an operator looks up with one statement, from one state of the registers."""


class FoundPlate(msgspec.Struct, frozen=True, gc=False):
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
    """Answers plates from the registers, or from the table of the sandbox.

    Args:
        load_times: returns when the registers of a state were loaded, if answers tell that.
    """

    def __init__(
        self,
        records: Records | SandboxRecords,
        config: Config,
        load_times: Callable[[str], LoadTimes] = lambda _: {},
    ) -> None:
        self._records = records
        self.load_times = load_times
        self._config = config

    def day(self, as_of: str | None) -> str:
        """Return the ISO date to judge by: the one asked for, or today."""
        return as_of or clock.today(self._config.timezone).isoformat()

    def look_up(
        self, registers: str, asked: Sequence[str], day: str, wanted: WantedFields = EVERYTHING
    ) -> tuple[list[FoundPlate], Read]:
        """Look plates up with one statement; return one result for each, in their order.

        Also returns the registers that were read: none if no plate is a registration.
        Every operation and every sweep of watches looks vehicles up here.

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

    def attach(self, engine: Engine, state: str) -> Read:
        """Attach the registers of a state; return them, in the order of precedence."""
        registers = in_precedence(state, self._config.register_order)
        engine.attach_registers(registers)
        return {each.name: each.generation for each in registers}

    def look_up_held(
        self, engine: Engine, state: str, asked: Sequence[str], day: str
    ) -> list[FoundPlate]:
        """Look plates up with dates and all their rows; return one result for each, in their order.

        The commands and the console look up here what they explain.

        Args:
            state: of the registers, which `attach` has attached.
            asked: plates as they were given.
            day: ISO date that decides which policy is answered.
        """
        plates = [canonical_registration(text) for text in asked]
        known = sorted({plate for plate in plates if plate is not None})
        registers = in_precedence(state, self._config.register_order)
        basis, years = basis_of(state, self._config), self._config.mot_first_years
        records: dict[str, Record] = {}
        for rows in PlateRows(engine, registers, EXPLAINED).read(known, day, lambda rows, _: rows):
            records |= records_of(rows, day, years, basis=basis)
        return _found(asked, plates, records)


def _found(
    asked: Sequence[str], plates: Sequence[str | None], records: Mapping[str, Record]
) -> list[FoundPlate]:
    # No record has the empty text as its registration.
    return [
        FoundPlate(text, plate, records.get(plate or ""))
        for text, plate in zip(asked, plates, strict=True)
    ]


def readers_for_watches(engine: Engine, config: Config) -> tuple[VehicleReader, VehicleReader]:
    """Return the reader of the registers, and that of accounts whose plan is a sandbox.

    To them what is not known is a failure, whatever the rule in force (D198).
    """
    records = Records(engine, config, is_for_watches=True)
    sandbox = SandboxRecords(config.timezone, is_for_watches=True)
    return VehicleReader(records, config), VehicleReader(sandbox, config)
