"""The tables of a register, which are the same in every register.

SEC: no column ever holds personal data of holders, keepers or drivers.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

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


def schema_of(register: str) -> str:
    """Return the schema that readers of a register use: `register_NAME`."""
    return f"register_{register}"


class RegisterRef(NamedTuple):
    """The name, the generation and the kinds of a register, for readers."""

    name: str
    generation: int
    kinds: str
    """The letters of the kinds that were ever loaded."""
    data: str = ""
    """`Engine.data_number`, which differs if other data took its place; empty on SQLite."""

    @property
    def schema(self) -> str:
        """The schema of its tables for readers."""
        return schema_of(self.name)

    def holds(self, kind: Kind) -> bool:
        """Tell whether rows of this kind were ever loaded."""
        return kind.letter in self.kinds


class Vehicle(peewee.Model):
    """The data of one vehicle in a register. Null means unknown, never false."""

    registration = peewee.CharField(12, primary_key=True)
    make = peewee.CharField(TEXT_CHARACTERS_MAX, null=True)
    model = peewee.CharField(TEXT_CHARACTERS_MAX, null=True)
    year = peewee.SmallIntegerField(null=True)
    color = peewee.CharField(TEXT_CHARACTERS_MAX, null=True)
    insured = peewee.BooleanField(null=True)
    mot_expiry = peewee.DateField(null=True)
    mot_exempt = peewee.BooleanField(null=True)
    first_registered = peewee.DateField(null=True)
    tax_status = peewee.CharField(10, null=True)
    tax_due = peewee.DateField(null=True)
    updated = peewee.BigIntegerField()
    """Unix seconds: the time in the source, else that of the load that changed the row."""

    class Meta:
        table_name = "vehicle"


class Policy(peewee.Model):
    """An insurance policy for one vehicle. It is in force on both of its dates."""

    registration = peewee.CharField(12)
    insurer = peewee.CharField(TEXT_CHARACTERS_MAX)
    number = peewee.CharField(TEXT_CHARACTERS_MAX)
    valid_from = peewee.DateField()
    valid_to = peewee.DateField()
    type = peewee.CharField(TEXT_CHARACTERS_MAX, null=True)
    cancelled_on = peewee.DateField(null=True)
    updated = peewee.BigIntegerField()

    class Meta:
        table_name = "policy"
        primary_key = peewee.CompositeKey("registration", "insurer", "number", "valid_from")


class Fine(peewee.Model):
    """A fine on one vehicle. `amount_cents` is in hundredths of the currency (D34)."""

    registration = peewee.CharField(12)
    reference = peewee.CharField(TEXT_CHARACTERS_MAX)
    issued_on = peewee.DateField(null=True)
    amount_cents = peewee.BigIntegerField()
    currency = peewee.CharField(3, null=True)
    settled = peewee.BooleanField()
    updated = peewee.BigIntegerField()

    class Meta:
        table_name = "fine"
        primary_key = peewee.CompositeKey("registration", "reference")


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


TABLES: Mapping[Kind, type[peewee.Model]] = {
    Kind.VEHICLES: Vehicle,
    Kind.POLICIES: Policy,
    Kind.FINES: Fine,
}
"""The model of the table of each kind."""


@lru_cache(maxsize=64)
def in_schema(model: type[M], schema: str) -> type[M]:
    """Return a copy of a model whose table is in this schema, such as `register_rdw`."""
    meta = type("Meta", (), {"schema": schema, "table_name": model._meta.table_name})
    return type(model.__name__, (model,), {"Meta": meta, "__doc__": model.__doc__})


def qualified(schema: str | None, name: str) -> str:
    """Return the quoted name of a table for SQL. Both parts must be names of our own."""
    return f'"{schema}"."{name}"' if schema else f'"{name}"'


TIME_COLUMN = "updated"
"""The last column of every table."""


def column_names(model: type[peewee.Model]) -> tuple[str, ...]:
    """Return the names of a table's columns in order: the key first, the time last."""
    return tuple(field.column_name for field in model._meta.sorted_fields)


def fields_of(shape: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a NamedTuple or Struct."""
    fields: tuple[str, ...] = getattr(shape, "_fields", None) or shape.__struct_fields__
    return fields


def require_columns(
    shape: type[Any],
    model: type[peewee.Model],
    *,
    without: Collection[str] = (),
    then: Collection[str] = (),
) -> None:
    """Check that a NamedTuple or Struct has the columns of a table as fields, in the same order.

    Call it below the definition of the class. If a column is missing, every command and test
    that imports the module fails.

    Args:
        shape: the class.
        without: columns that are not fields.
        then: fields that follow the columns.

    Raises TypeError that names the expected fields.
    """
    expected = (*(name for name in column_names(model) if name not in without), *then)
    if fields_of(shape) != expected:
        raise TypeError(f"{shape.__name__} must have the fields {', '.join(expected)}")
