"""The tables of a register, which are the same in every register.

SEC: no column ever holds personal data of holders, keepers or drivers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

import peewee

TEXT_CHARACTERS_MAX = 100
M = TypeVar("M", bound=peewee.Model)


class Kind(StrEnum):
    """The kind of the rows in a table or in a file."""

    VEHICLES = "vehicles"
    POLICIES = "policies"
    FINES = "fines"

    @property
    def letter(self) -> str:
        """The letter of the kind in the register index."""
        return self.value[0]

    @property
    def table(self) -> str:
        """The name of its table."""
        return {"vehicles": "vehicle", "policies": "policy", "fines": "fine"}[self]


NO_POLICIES = "0"
"""What the state of the registers has with the letter of policies if there are none any more."""


def schema_of(register: str) -> str:
    """Return the schema that readers of a register use: `register_NAME`."""
    return f"register_{register}"


class RegisterRef(NamedTuple):
    """The name, the generation and the kinds of a register, for readers."""

    name: str
    generation: int
    kinds: str
    """The letters of the kinds that were ever loaded, and `NO_POLICIES` if that is so now."""
    data: str = ""
    """`Engine.data_number`, which differs if other data took its place; empty on SQLite."""

    @property
    def schema(self) -> str:
        """The schema of its tables for readers."""
        return schema_of(self.name)

    def holds(self, kind: Kind) -> bool:
        """Tell whether rows of this kind were ever loaded."""
        return kind.letter in self.kinds

    @property
    def has_policies(self) -> bool:
        """Whether it holds policies now, by the counts of its last load."""
        return self.holds(Kind.POLICIES) and NO_POLICIES not in self.kinds


class Shape(Enum):
    """What the values of a member look like."""

    PLATE = auto()
    DAY = auto()
    TIME = auto()
    YEAR = auto()
    FLAG = auto()
    MONEY = auto()
    WORD = auto()
    """One of the words of the native format, such as `sorn`."""
    TEXT = auto()


class Merge(Enum):
    """How the values of several registers, in the order of precedence, become one (D26)."""

    FIRST = auto()
    """The first known one."""
    GREATEST = auto()
    """The greatest known one."""
    WITH_STATUS = auto()
    """That of the register whose tax status is answered."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """What a column of a table is, everywhere: in files, in the tables, in merges and in loads.

    The field that has it as its annotation gives its name and its type.
    """

    name: str = ""
    """Its name in native files; by default that of the column, as `motExpiry` of `mot_expiry`."""
    shape: Shape = Shape.TEXT
    is_key: bool = False
    merge: Merge = Merge.FIRST
    check: str = ""
    """The check of a vehicle that depends on it."""
    is_counted: bool = True
    """Whether loads count the rows that know it."""
    is_noted: bool = False
    """Whether a load notes that all rows have the same value."""
    is_expiry: bool = False
    """Whether it is the last day of something, which seldom moves back."""
    is_of_agencies: bool = False
    """Whether agencies write the first day without, which 1.0.0 stored, or a mapping can say so. A
    rollback brings it back, so such a day may move back by one day (D157)."""
    explained_by: str = ""
    """The column that explains the loss of this one if it changes as well."""
    column: str = ""
    position: int = 0
    """Its name and its position in the table."""
    types: tuple[type, ...] = ()
    """The types of its values."""

    @property
    def is_flag(self) -> bool:
        """Whether false, or 0, is a known value."""
        return self.shape in (Shape.FLAG, Shape.MONEY)

    @property
    def is_text(self) -> bool:
        """Whether a note must not quote its value, because a wrong column can contain anything."""
        return self.shape == Shape.TEXT

    def is_known(self, value: object) -> bool:
        """Tell whether a row with this value knows the member."""
        return value is not None and (self.is_flag or bool(value))


_PLATE = Member(shape=Shape.PLATE, is_key=True, is_counted=False)
_TIME = Member(name="lastUpdated", shape=Shape.TIME, merge=Merge.GREATEST, is_counted=False)


class VehicleRow(NamedTuple):
    """The data of one vehicle in a register. None means unknown, never false.

    Dates are texts of the form YYYY-MM-DD, here and in the other rows.
    """

    registration: Annotated[str, _PLATE]
    make: Annotated[str | None, Member(is_noted=True)] = None
    model: Annotated[str | None, Member()] = None
    year: Annotated[int | None, Member(shape=Shape.YEAR)] = None
    color: Annotated[str | None, Member(is_noted=True)] = None
    insured: Annotated[bool | None, Member(shape=Shape.FLAG, check="insurance", is_noted=True)] = (
        None
    )
    mot_expiry: Annotated[
        str | None,
        Member(
            shape=Shape.DAY,
            merge=Merge.GREATEST,
            check="mot",
            is_noted=True,
            is_expiry=True,
            is_of_agencies=True,
        ),
    ] = None
    mot_exempt: Annotated[
        bool | None,
        Member(shape=Shape.FLAG, merge=Merge.GREATEST, check="mot", is_noted=True),
    ] = None
    first_registered: Annotated[str | None, Member(shape=Shape.DAY, check="mot", is_noted=True)] = (
        None
    )
    tax_status: Annotated[str | None, Member(shape=Shape.WORD, check="tax", is_noted=True)] = None
    tax_due: Annotated[
        str | None,
        Member(
            shape=Shape.DAY,
            merge=Merge.WITH_STATUS,
            check="tax",
            is_noted=True,
            is_expiry=True,
            is_of_agencies=True,
            explained_by="tax_status",
        ),
    ] = None
    updated: Annotated[int | None, _TIME] = None
    """The source's time of the change, in Unix seconds; else that of the load that changed the row.
    None only while a file is read."""


class PolicyRow(NamedTuple):
    """An insurance policy for one vehicle, in force on both of its days (D20).

    An unknown insurer is an empty text.
    """

    registration: Annotated[str, _PLATE]
    insurer: Annotated[str, Member(is_key=True)]
    number: Annotated[str, Member(is_key=True)]
    valid_from: Annotated[str, Member(shape=Shape.DAY, is_key=True, is_noted=True)]
    valid_to: Annotated[
        str, Member(shape=Shape.DAY, is_noted=True, is_expiry=True, is_of_agencies=True)
    ]
    type: Annotated[str | None, Member()] = None
    cancelled_on: Annotated[str | None, Member(shape=Shape.DAY, is_noted=True)] = None
    updated: Annotated[int | None, _TIME] = None


class FineRow(NamedTuple):
    """A fine on one vehicle. The amount owed is in hundredths of the currency."""

    registration: Annotated[str, _PLATE]
    reference: Annotated[str, Member(is_key=True, is_counted=False)]
    issued_on: Annotated[str | None, Member(shape=Shape.DAY, is_noted=True)] = None
    amount_cents: Annotated[int, Member(name="amount", shape=Shape.MONEY)] = 0
    currency: Annotated[str | None, Member()] = None
    settled: Annotated[bool, Member(name="settledOn", shape=Shape.DAY)] = False
    """Whether there is a day of settlement; the day itself is not stored."""
    updated: Annotated[int | None, _TIME] = None


Row = VehicleRow | PolicyRow | FineRow
ROWS: Mapping[Kind, type[Row]] = {
    Kind.VEHICLES: VehicleRow,
    Kind.POLICIES: PolicyRow,
    Kind.FINES: FineRow,
}
"""The shape of the rows of each kind. The tables follow it: the key first, the time last."""


def _members_of(row: type[Row]) -> tuple[Member, ...]:
    hints = get_type_hints(row, include_extras=True)
    return tuple(
        replace(
            member,
            name=member.name or re.sub("_(.)", lambda found: found[1].upper(), column),
            column=column,
            position=position,
            types=get_args(hint.__origin__) or (hint.__origin__,),
        )
        for position, (column, hint) in enumerate(hints.items())
        for member in hint.__metadata__
    )


COLUMNS: Mapping[Kind, tuple[Member, ...]] = {kind: _members_of(row) for kind, row in ROWS.items()}
"""The columns of the table of each kind."""


def _model(kind: Kind) -> Any:
    keys = [each.column for each in COLUMNS[kind] if each.is_key]
    meta = type("Meta", (), {"table_name": kind.table, "primary_key": peewee.CompositeKey(*keys)})
    fields = {each.column: _field(each) for each in COLUMNS[kind]}
    return type(kind.table.title(), (peewee.Model,), {**fields, "Meta": meta})


def _field(member: Member) -> Any:
    if bool in member.types:
        return peewee.BooleanField()
    if int in member.types:
        return peewee.BigIntegerField()
    return peewee.DateField() if member.shape == Shape.DAY else peewee.TextField()


TABLES: Mapping[Kind, Any] = {kind: _model(kind) for kind in Kind}
"""The model of the table of each kind."""
Vehicle, Policy, Fine = TABLES.values()


class AppliedLoad(peewee.Model):
    """A load whose rows are in this register. It is committed together with them.

    If a load is killed between its two commits, the next load finds here what it did (D28). The
    last load also tells an older copy of the data from the current one (D153).
    """

    load_id = peewee.BigIntegerField(primary_key=True)
    loaded = peewee.BigIntegerField()
    changed = peewee.BigIntegerField()
    held = peewee.BigIntegerField()

    class Meta:
        table_name = "applied_load"


@lru_cache(maxsize=64)
def in_schema(model: type[M], schema: str) -> type[M]:
    """Return a copy of a model whose table is in this schema, such as `register_rdw`."""
    meta = type("Meta", (), {"schema": schema, "table_name": model._meta.table_name})
    return type(model.__name__, (model,), {"Meta": meta, "__doc__": model.__doc__})


def qualified(schema: str | None, name: str) -> str:
    """Return the quoted name of a table for SQL. Both parts must be names of our own."""
    return f'"{schema}"."{name}"' if schema else f'"{name}"'


def column_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of a table's columns in order: the key first, the time last."""
    return ROWS[kind]._fields


def require_columns(shape: type[Any], kind: Kind) -> None:
    """Check that the facts of a kind have its columns without the registration, in the same order.

    Raises TypeError that names the expected fields.
    """
    expected = column_names(kind)[1:]
    if shape._fields != expected:
        raise TypeError(f"{shape.__name__} must have the fields {', '.join(expected)}")
