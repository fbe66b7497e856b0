"""The register index: which registers there are, and how a reader reaches them (D25, D26).

The state of all registers is one short text, read together with the key of a request:
`native/1/vpf,rdw/3/v` is name, generation and the tables that hold rows. A worker whose
attached registers come from another text attaches them again.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import peewee
from peewee import fn

from app.storage.engine import Engine
from app.storage.tables import Kind, RegisterRef, with_kind

REGISTERS_MAX = 8
"""SQLite attaches ten files at most; a register of each agency and two to spare (D25)."""

REPEATS_MAX = 2
"""How often a look-up is repeated whose register was taken away under it."""

T = TypeVar("T")


class Register(peewee.Model):
    """A register: its current generation and what it holds."""

    name = peewee.CharField(30, primary_key=True)
    generation = peewee.IntegerField()
    kinds = peewee.CharField(3)
    """First letters of the kinds that were ever loaded; look-ups skip the other tables."""
    vehicles = peewee.BigIntegerField(default=0)
    policies = peewee.BigIntegerField(default=0)
    fines = peewee.BigIntegerField(default=0)
    loaded_at = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "register"


class KeptRegister(Register):
    """A register as it was before a load replaced it; what a rollback goes back to (D28, D71)."""

    name = peewee.CharField(30)

    class Meta:
        table_name = "register_kept"
        primary_key = peewee.CompositeKey("name", "generation")


class DroppedRegister(Register):
    """A register that was dropped, as it was; what `imports undrop` brings back (D72)."""

    class Meta:
        table_name = "register_dropped"


class Entry(NamedTuple):
    """What the index says of one generation of a register."""

    name: str
    generation: int
    kinds: str
    """The letters of the kinds that were ever loaded."""
    vehicles: int = 0
    policies: int = 0
    fines: int = 0
    loaded_at: int | None = None
    """Unix seconds; None if nothing was loaded yet."""

    def rows(self, kind: Kind) -> int:
        """Return how many rows of a kind it holds."""
        rows: int = getattr(self, kind.value)
        return rows

    def holds(self, kind: Kind) -> bool:
        """Tell whether rows of a kind were ever loaded."""
        return kind.letter in self.kinds

    def with_kind(self, kind: Kind) -> "Entry":
        """Return the same with one more kind, if that is new."""
        return self._replace(kinds=with_kind(self.kinds, kind))

    def with_rows(self, kind: Kind, held: int) -> "Entry":
        """Return the same, but holding so many rows of a kind."""
        values: dict[str, Any] = {kind.value: held}
        return self.with_kind(kind)._replace(**values)

    def described(self) -> str:
        """Return how many rows of each kind it holds, for a person to read."""
        return ", ".join(f"{self.rows(kind):,} {kind}" for kind in Kind)


def state_expression() -> "peewee.ModelSelect[Register]":
    """Return a scalar subquery for the state of all registers; null if there are none."""
    one = Register.name.concat("/").concat(Register.generation.cast("text"))
    one = one.concat("/").concat(Register.kinds)
    return Register.select(fn.string_agg(one, ",").order_by(Register.name))


def read_state(engine: Engine) -> str:
    """Return the state of all registers; empty if there are none.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    return state_expression().scalar(engine) or ""


def followed(engine: Engine, state: str, ask: Callable[[str], T]) -> T:
    """Return what a look-up finds in the registers; ask again if one was taken away under it.

    Between reading the state and the look-up a register can be dropped, replaced or rolled back:
    then its schema or file is gone, and the state read now says what is there instead (D72).

    Args:
        state: of the registers, as it was read with the key.
        ask: looks up in the registers of a state.

    Raises what `ask` raises, if that is not because a register is gone, or happens repeatedly;
    also within a transaction, which sees nothing new: only whoever began it can ask again.
    """
    for _ in range(REPEATS_MAX):
        try:
            return ask(state)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            if engine.in_transaction() or not engine.may_be_gone(error):
                raise
            engine.recover(error)
        state = read_state(engine)
    return ask(state)


@lru_cache(maxsize=8)
def in_precedence(state: str, order: tuple[str, ...]) -> tuple[RegisterRef, ...]:
    """Return the registers of a state, those of `order` first, the others by name (D26).

    A register that nothing was loaded into yet is left out: its first load may still be
    reading, or was killed, and its file need not be there.
    """
    rank = {name: position for position, name in enumerate(order)}
    refs = []
    for entry in state.split(",") if state else ():
        name, generation, kinds = entry.split("/")
        if kinds:
            refs.append(RegisterRef(name, int(generation), kinds))
    return tuple(sorted(refs, key=lambda ref: (rank.get(ref.name, len(rank)), ref.name)))


def find_unreadable(engine: Engine) -> RegisterRef | None:
    """Return the first register that look-ups cannot read, None if they can read all of them.

    Raises peewee.PeeweeException if the database itself cannot be read.
    """
    missing = None
    # One that cannot be read may have been dropped or replaced since the state was read.
    for _ in range(1 + REPEATS_MAX):
        registers = in_precedence(read_state(engine), ())
        if _can_read(engine, registers):
            return None
        missing = next((ref for ref in registers if not _can_read(engine, (ref,))), None)
    return missing


def _can_read(engine: Engine, registers: tuple[RegisterRef, ...]) -> bool:
    # A worker goes on reading a register that was removed, but no other one can attach it.
    if not engine.can_attach(registers):
        return False
    try:
        engine.attach_registers(registers)
        for ref in registers:
            engine.rows(f'SELECT 1 FROM "{ref.schema}".vehicle LIMIT 1', ())  # noqa: S608
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        engine.recover(error)
        return False
    return True
