"""Looks plates up in all registers at once (D26)."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from app.storage.engine import Engine
from app.storage.registers import in_precedence, repeat_if_removed
from app.storage.tables import RegisterRef
from app.vehicles.facts import EVERYTHING, Record, Wanted
from app.vehicles.merging import needed, records_of
from app.vehicles.rows import PlateRows

Read = dict[str, int]
"""The registers that a look-up read, and which generation of each."""


class _Compiled(NamedTuple):
    """What reads plates from one state of the registers."""

    state: str
    registers: tuple[RegisterRef, ...]
    generations: Read
    plates: PlateRows


class Records:
    """Reads plates from the registers.

    Args:
        order: names of registers in the order of precedence.
        mot_first_years: years after first registration before an MOT is due, by register.
    """

    def __init__(
        self, engine: Engine, order: tuple[str, ...], mot_first_years: Mapping[str, int]
    ) -> None:
        self._engine = engine
        self._order = order
        self._mot_first_years = mot_first_years
        self._compiled: dict[Wanted, _Compiled] = {}
        """What reads the last state of the registers."""

    def find_records(
        self, registers: str, registrations: Iterable[str], day: str, wanted: Wanted = EVERYTHING
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
            if not state:
                return {}, {}
            compiled = self._compiled_for(state, wanted)
            records: dict[str, Record] = {}
            for rows in compiled.plates.read(plates, partial(needed, day=day)):
                records |= records_of(rows, day, self._mot_first_years, wanted)
            return records, compiled.generations

        return repeat_if_removed(self._engine, registers, find)

    def _compiled_for(self, state: str, wanted: Wanted) -> _Compiled:
        """Return what reads this set of registers, and attach exactly these."""
        compiled = self._compiled.get(wanted)
        if compiled is None or compiled.state != state:
            registers = in_precedence(state, self._order)
            generations = {each.name: each.generation for each in registers}
            plates = PlateRows(self._engine, registers, wanted)
            compiled = _Compiled(state, registers, generations, plates)
            self._compiled[wanted] = compiled
        self._engine.attach_registers(compiled.registers)
        return compiled
