"""The register index: which registers exist, and which generation of each is current.

The state of all registers is one short text such as `native/1/fpv,rdw/3/v`: name, generation and
the letters of the kinds that were ever loaded, `p0` if there are no policies any more; on Postgres
also the number of the data, as in `rdw/3/v/16412`. If answers tell what is not known (D198),
`;unknown` follows. It is read together with the key of a request, so a new register is used
from the next request on, without a second query. If it has changed, the worker attaches the
registers again.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import peewee
from peewee import fn

from app.errors import OperatorError
from app.storage.engine import Engine
from app.storage.errors import is_forbidden
from app.storage.identity import NotOwn
from app.storage.tables import NO_POLICIES, Kind, RegisterRef, schema_of
from app.storage.versions import Installation
from app.text import as_sentence

REGISTERS_MAX = 8
"""SQLite attaches at most ten files. Eight are enough for each agency, and for two more (D25)."""

REPEATS_MAX = 2
"""How often a look-up is repeated if one of its registers disappears (D72)."""

TELLS_UNKNOWN = ";unknown"
"""The end of a state if answers tell what is not known."""

T = TypeVar("T")


class Register(peewee.Model):
    """A register: its current generation and how many rows it holds."""

    name = peewee.CharField(30, primary_key=True)
    generation = peewee.IntegerField()
    kinds = peewee.CharField(3)
    """The letters of the kinds that were ever loaded. Look-ups skip the other tables."""
    vehicles = peewee.BigIntegerField(default=0)
    policies = peewee.BigIntegerField(default=0)
    fines = peewee.BigIntegerField(default=0)
    loaded_at = peewee.BigIntegerField(null=True)
    stamp = peewee.FixedCharField(16, null=True)
    last_load = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "register"


class KeptRegister(Register):
    """A register as it was before a load replaced it. A rollback goes back to it."""

    name = peewee.CharField(30)

    class Meta:
        table_name = "register_kept"
        primary_key = peewee.CompositeKey("name", "generation")


class DroppedRegister(Register):
    """A register as it was when it was dropped. `imports undrop` brings it back."""

    class Meta:
        table_name = "register_dropped"


class Entry(NamedTuple):
    """The entry of one generation of a register in the index."""

    name: str
    generation: int
    kinds: str
    """The letters of the kinds that were ever loaded."""
    vehicles: int = 0
    policies: int = 0
    fines: int = 0
    loaded_at: int | None = None
    """Unix seconds; None if nothing was loaded yet."""
    stamp: str | None = None
    """The stamp in the identity of its data; None if a former program wrote the entry."""
    last_load: int | None = None
    """The last load that its data must contain; None if that is not known."""

    def rows(self, kind: Kind) -> int:
        """Return how many rows of a kind the generation holds."""
        rows: int = getattr(self, kind.value)
        return rows

    def holds(self, kind: Kind) -> bool:
        """Tell whether rows of a kind were ever loaded."""
        return kind.letter in self.kinds

    def with_kind(self, kind: Kind) -> "Entry":
        """Return the same entry with a kind added to its kinds, which are in alphabetical order."""
        return self._replace(kinds="".join(sorted({*self.kinds, kind.letter})))

    def with_rows(self, kind: Kind, held: int) -> "Entry":
        """Return the same entry with another number of rows of a kind."""
        values: dict[str, Any] = {kind.value: held}
        return self.with_kind(kind)._replace(**values)

    def described(self) -> str:
        """Return the number of rows of each kind as text for a person."""
        return ", ".join(f"{self.rows(kind):,} {kind}" for kind in Kind)


def list_entries(
    engine: Engine, model: type[Register] = Register, name: str | None = None
) -> list[Entry]:
    """Return the entries in a table of the index, ordered by name, the latest of a name first.

    Args:
        model: the table; by default that of the current entries.
        name: return only entries of this register; all if None.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    columns = [getattr(model, each) for each in Entry._fields]
    query = model.select(*columns).order_by(model.name, model.generation.desc())
    if name is not None:
        query = query.where(model.name == name)
    return [Entry(*row) for row in query.tuples().execute(engine)]


def state_expression(engine: Engine) -> "peewee.ModelSelect[Register]":
    """Return a scalar subquery for the state of all registers."""
    one = Register.name.concat("/").concat(Register.generation.cast("text"))
    letter = Kind.POLICIES.letter
    without = fn.REPLACE(Register.kinds, letter, letter + NO_POLICIES)
    one = one.concat("/").concat(peewee.Case(Register.policies, [(0, without)], Register.kinds))
    number = engine.data_number(peewee.Value(schema_of("")).concat(Register.name))
    if number is not None:
        one = one.concat("/").concat(number)
    rule = Installation.select(peewee.Case(None, [(Installation.tells_unknown, TELLS_UNKNOWN)], ""))
    listed = fn.COALESCE(fn.string_agg(one, ",").order_by(Register.name), "")
    return Register.select(listed.concat(rule))


def read_state(engine: Engine) -> str:
    """Return the state of all registers.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    return str(state_expression(engine).scalar(engine))


def repeat_if_removed(engine: Engine, state: str, ask: Callable[[str], T]) -> T:
    """Run a look-up. If a register disappears meanwhile, read the state and run it again.

    A register can be dropped, replaced or rolled back after its state was read. Then its schema or
    file is gone, and the new state says which one to read instead.

    Args:
        state: the state of the registers, as it was read with the key.
        ask: looks up in the registers of a state.

    Raises what `ask` raises if no register was removed, or if REPEATS_MAX repeats fail too. Nothing
    is repeated within a transaction, because it would see the same state again.
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


def with_current_registers(engine: Engine, read: Callable[[str], T]) -> T:
    """Call `read` with the state of the registers, and return its result.

    If a register was replaced, rolled back or dropped meanwhile, call it again: all rows that it
    combines must be from one state, and a command has no client that would repeat its request.
    Raises what `read` raises, as `repeat_if_removed` does.
    """
    while True:
        state = read_state(engine)
        result = repeat_if_removed(engine, state, read)
        if read_state(engine) == state:
            return result


@lru_cache(maxsize=8)
def in_precedence(state: str, order: tuple[str, ...]) -> tuple[RegisterRef, ...]:
    """Return the registers of a state: first those of `order`, then the others by name.

    A register that nothing was loaded into yet is left out. Its first load is still running or was
    killed, and its file may not exist.
    """
    rank = {name: position for position, name in enumerate(order)}
    refs = []
    listed = state.removesuffix(TELLS_UNKNOWN)
    for entry in listed.split(",") if listed else ():
        name, generation, kinds, *data = entry.split("/")
        if kinds:
            refs.append(RegisterRef(name, int(generation), kinds, *data))
    return tuple(sorted(refs, key=lambda ref: (rank.get(ref.name, len(rank)), ref.name)))


_FORBIDDEN = "the role of Postgres may not read it"


class Unreadable(NamedTuple):
    """A register that look-ups cannot read."""

    name: str
    fault: str
    """A clause that says whose data is in its place, or that the role of Postgres lacks a right;
    empty if data is missing or damaged."""

    def __str__(self) -> str:
        fault = f"{self.fault}; " if self.fault else ""
        remedy = "restore it, or drop it and load it again"
        if self.fault == _FORBIDDEN:  # What is there need not be restored.
            remedy = 'run "verifyd check", which names what to grant'
        return f"the register {self.name} cannot be read: {fault}{remedy}"

    @property
    def sentence(self) -> str:
        """The same as a sentence, for a page, an answer or an alert."""
        return as_sentence(str(self))


def find_unreadable(engine: Engine) -> Unreadable | None:
    """Return the first register that look-ups cannot read; None if they can read all.

    Raises peewee.PeeweeException if the database itself cannot be read.
    """
    return next(iter(list_unreadable(engine)), None)


def list_unreadable(engine: Engine) -> list[Unreadable]:
    """Return the registers that look-ups cannot read, ordered by name.

    The identity of each register is compared again (D153).

    Raises peewee.PeeweeException if the database itself cannot be read.
    """
    missing: list[Unreadable] = []
    # The register may have been dropped or replaced after the state was read.
    for _ in range(1 + REPEATS_MAX):
        registers = in_precedence(read_state(engine), ())
        if read_fault(engine, registers) is None:
            return []
        each = ((ref.name, read_fault(engine, (ref,))) for ref in registers)
        missing = [Unreadable(name, fault) for name, fault in each if fault is not None]
    return missing


def require_readable(engine: Engine) -> None:
    """Raise OperatorError if look-ups cannot read a register, or as `find_unreadable` does."""
    missing = find_unreadable(engine)
    if missing is not None:
        raise OperatorError(str(missing))


def read_fault(engine: Engine, registers: tuple[RegisterRef, ...]) -> str | None:
    """Attach registers and read a row of each; return the fault if that fails, else None."""
    # This connection may have attached a file that was removed, which no other one can attach.
    if not engine.can_attach(registers):
        return ""
    try:
        engine.attach_registers(registers, is_thorough=True)
        for ref in registers:
            engine.rows(f'SELECT 1 FROM "{ref.schema}".vehicle LIMIT 1', ())  # noqa: S608
    except NotOwn as error:
        engine.recover(error)
        return error.fault
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        engine.recover(error)
        return _FORBIDDEN if is_forbidden(error) else ""
    return None
