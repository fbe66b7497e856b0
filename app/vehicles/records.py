"""Looks plates up in all registers at once (D26).

The statements are built and compiled once per set of registers. They reach the tables of each
register by key, so their cost does not depend on how many rows a register has.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import peewee

from app.storage.engine import Engine, Prepared, Row
from app.storage.registers import in_precedence, repeat_if_removed
from app.storage.tables import RegisterRef
from app.vehicles.facts import Record
from app.vehicles.look_up_query import listed, look_up_query, many_plates, one_plate, record_of

Read = dict[str, int]
"""The registers that a look-up read, and which generation of each."""


class Records:
    """Reads plates from the registers.

    Args:
        order: names of registers in the order of precedence (D26).
    """

    def __init__(self, engine: Engine, order: tuple[str, ...]) -> None:
        self._engine = engine
        self._order = order
        self._compiled: dict[bool, _Compiled] = {}
        """The statements with and without fines."""

    def find_record(
        self, registers: str, registration: str, day: str, *, with_fines: bool = True
    ) -> tuple[Record | None, Read]:
        """Return what is known about one plate, None if no register mentions it.

        Also returns the registers that were read.

        This takes one statement. It runs again if a register was dropped, replaced or rolled back
        meanwhile (D72).

        Args:
            registers: state of the registers, read with the key (D26).
            registration: in its canonical form.
            day: ISO date that decides which policy is answered.
            with_fines: ask whether fines are outstanding.
        """

        def find(state: str) -> tuple[Row | None, Read]:
            if not state:
                return None, {}
            compiled = self._compiled_for(state, with_fines)
            return compiled.one.row(registration=registration, day=day), compiled.generations

        row, read = repeat_if_removed(self._engine, registers, find)
        return record_of(row, day) if row else None, read

    def find_records(
        self, registers: str, registrations: Sequence[str], day: str, *, with_fines: bool = True
    ) -> tuple[dict[str, Record], Read]:
        """Return the known ones among many plates, by registration; with one statement.

        Also returns the registers that were read.
        """
        plates = listed(self._engine, registrations)

        def find(state: str) -> tuple[list[Row], Read]:
            if not state:
                return [], {}
            compiled = self._compiled_for(state, with_fines)
            return compiled.many.rows(plates=plates, day=day), compiled.generations

        rows, read = repeat_if_removed(self._engine, registers, find)
        found = (record_of(row, day) for row in rows)
        return {record.registration: record for record in found if record}, read

    def _compiled_for(self, state: str, with_fines: bool) -> "_Compiled":
        """Return the statements for this set of registers, and attach exactly these."""
        compiled = self._compiled.get(with_fines)
        if compiled is None or compiled.state != state:
            compiled = self._compiled[with_fines] = self._compile(state, with_fines)
        self._engine.attach_registers(compiled.registers)
        return compiled

    def _compile(self, state: str, with_fines: bool) -> "_Compiled":
        engine, registers = self._engine, in_precedence(state, self._order)

        def prepared(plates: Callable[[], peewee.Select]) -> Prepared:
            return Prepared(
                engine, lambda: look_up_query(engine, registers, plates(), with_fines=with_fines)
            )

        return _Compiled(
            state,
            registers,
            {each.name: each.generation for each in registers},
            prepared(one_plate),
            prepared(lambda: many_plates(engine)),
        )


class _Compiled(NamedTuple):
    """The statements that look plates up in one set of registers."""

    state: str
    registers: tuple[RegisterRef, ...]
    generations: Read
    one: Prepared
    many: Prepared
