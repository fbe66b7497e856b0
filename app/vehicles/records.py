"""Looks plates up in all registers at once (D26).

The statements are built and compiled once per set of registers. They reach the tables of each
register by key, so their cost does not depend on how many rows a register has.
"""

from collections.abc import Sequence

from app.storage.engine import Engine, Prepared, Row
from app.storage.registers import in_precedence, repeat_if_removed
from app.vehicles.facts import Record
from app.vehicles.look_up_query import listed, look_up_query, many_plates, one_plate, record_of


class Records:
    """Reads plates from the registers.

    Args:
        order: names of registers in the order of precedence (D26).
    """

    def __init__(self, engine: Engine, order: tuple[str, ...]) -> None:
        self._engine = engine
        self._order = order
        self._compiled: tuple[str, Prepared, Prepared] | None = None

    def find_record(self, registers: str, registration: str, day: str) -> Record | None:
        """Return what is known about one plate, None if no register mentions it.

        This takes one statement. It runs again if a register was dropped, replaced or rolled back
        meanwhile (D72).

        Args:
            registers: state of the registers, read with the key (D26).
            registration: in its canonical form.
            day: ISO date that decides which policy is answered.
        """

        def find(state: str) -> Row | None:
            if not state:
                return None
            one, _ = self._prepared(state)
            return one.row(registration=registration, day=day)

        row = repeat_if_removed(self._engine, registers, find)
        return record_of(row, day) if row else None

    def find_records(
        self, registers: str, registrations: Sequence[str], day: str
    ) -> dict[str, Record]:
        """Return the known ones among many plates, by registration; with one statement."""
        plates = listed(self._engine, registrations)

        def find(state: str) -> list[Row]:
            if not state:
                return []
            _, many = self._prepared(state)
            return many.rows(plates=plates, day=day)

        found = (record_of(row, day) for row in repeat_if_removed(self._engine, registers, find))
        return {record.registration: record for record in found if record}

    def _prepared(self, state: str) -> tuple[Prepared, Prepared]:
        """Return the statements for this set of registers, and attach exactly these."""
        registers = in_precedence(state, self._order)
        self._engine.attach_registers(registers)
        compiled = self._compiled
        if compiled is None or compiled[0] != state:
            engine = self._engine
            one = Prepared(engine, lambda: look_up_query(engine, registers, one_plate()))
            many = Prepared(engine, lambda: look_up_query(engine, registers, many_plates(engine)))
            self._compiled = compiled = (state, one, many)
        return compiled[1], compiled[2]
