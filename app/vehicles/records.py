"""Looks plates up in all registers at once (D26)."""

from collections.abc import Iterable
from typing import NamedTuple

from app import clock
from app.config import Config
from app.storage.engine import Engine
from app.storage.registers import TELLS_UNKNOWN, in_precedence, repeat_if_removed
from app.storage.tables import Kind, RegisterRef
from app.vehicles.facts import EVERYTHING, Basis, Record, WantedFields
from app.vehicles.merging import insured_by_policy, needed, records_of
from app.vehicles.rows import PlateRows

Read = dict[str, int]
"""The registers that a look-up read, and which generation of each."""


_ALONE = WantedFields(vehicle=False, papers=False)
"""What is read of policies alone, if one covers the day."""


class _Compiled(NamedTuple):
    """What reads plates from one state of the registers."""

    state: str
    registers: tuple[RegisterRef, ...]
    generations: Read
    basis: Basis | None
    plates: PlateRows
    seconds: range
    """The Unix seconds of today, as `basis` has it."""


class Records:
    """Reads plates from the registers.

    Args:
        is_for_watches: answer what is not known as a failure, whatever the rule in force (D198).
    """

    def __init__(self, engine: Engine, config: Config, *, is_for_watches: bool = False) -> None:
        self._engine = engine
        self._config = config
        self._is_for_watches = is_for_watches
        self._compiled: dict[WantedFields, _Compiled] = {}
        """What reads the last state of the registers."""

    def find_records(
        self,
        registers: str,
        registrations: Iterable[str],
        day: str,
        wanted: WantedFields = EVERYTHING,
    ) -> tuple[dict[str, Record], Read]:
        """Return the known ones among plates by registration, and the registers that were read.

        An answer is of one statement. That runs again if a register was dropped, replaced or rolled
        back meanwhile (D72).

        Args:
            registers: state of the registers, read with the key.
            registrations: in their canonical form.
            day: ISO date that decides which policy is answered.
        """
        plates = sorted(set(registrations))

        def find(state: str) -> tuple[dict[str, Record], Read]:
            compiled = self._compiled_for(state, wanted)
            years, basis = self._config.mot_first_years, compiled.basis
            records: dict[str, Record] = {}
            for rows in compiled.plates.read(plates, day, needed):
                records |= records_of(rows, day, years, wanted, basis)
            return records, compiled.generations

        return repeat_if_removed(self._engine, registers, find)

    def _compiled_for(self, state: str, wanted: WantedFields) -> _Compiled:
        """Return what reads this set of registers today, and attach exactly these."""
        compiled = self._compiled.get(wanted)
        if compiled is None or compiled.state != state or clock.now() not in compiled.seconds:
            registers = in_precedence(state, self._config.register_order)
            generations = {each.name: each.generation for each in registers}
            # First: if midnight comes in between, the next look-up compiles again.
            zone = self._config.timezone
            seconds = clock.seconds_of(clock.today(zone), zone)
            basis = None if self._is_for_watches else basis_of(state, self._config)
            read = wanted
            if basis is not None and wanted.dates:
                # On other days the yes or no of a vehicle can matter beside a policy.
                read = wanted._replace(vehicle=True)
            settled = insured_by_policy if basis is not None and wanted == _ALONE else None
            plates = PlateRows(self._engine, registers, read, settled)
            compiled = _Compiled(state, registers, generations, basis, plates, seconds)
            self._compiled[wanted] = compiled
        self._engine.attach_registers(compiled.registers)
        return compiled


def basis_of(state: str, config: Config) -> Basis | None:
    """Return what the registers of a state can know today; None by the rule of 1.0.0 (D198)."""
    if not state.endswith(TELLS_UNKNOWN):
        return None
    registers = in_precedence(state, config.register_order)
    return Basis(
        today=clock.today(config.timezone).isoformat(),
        zone=config.timezone,
        complete=frozenset(
            each.name
            for each in registers
            if each.name in config.complete_registers and each.has_policies
        ),
        has_fines=any(each.holds(Kind.FINES) for each in registers),
    )
