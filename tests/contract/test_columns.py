"""Vehicles, policies and fines have the same columns everywhere; the models define them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import peewee
import pytest

from app.registers.applying.counts import MEMBERS
from app.registers.formats.changes import FineRow, PolicyRow, VehicleRow, order_of
from app.registers.formats.native import LAYOUTS
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.stores import migrate, store_of
from app.storage.tables import TABLES, TIME_COLUMN, Fine, Kind, column_names, fields_of
from app.storage.versions import migrate_register
from app.vehicles import explanation
from app.vehicles.facts import FineFacts, PolicyFacts, Record, VehicleFacts

ROWS: dict[Kind, Any] = {
    Kind.VEHICLES: VehicleRow,
    Kind.POLICIES: PolicyRow,
    Kind.FINES: FineRow,
}
FACTS: dict[Kind, Any] = {
    Kind.VEHICLES: VehicleFacts,
    Kind.POLICIES: PolicyFacts,
    Kind.FINES: FineFacts,
}
COLUMNS_OF_MEMBERS = {"amount": "amount_cents", "settledOn": "settled", "lastUpdated": "updated"}
"""Those members of native files whose names differ from their columns' by more than spelling."""
ROOT = Path(__file__).parents[2]
ALL_KINDS = pytest.mark.parametrize("kind", Kind)


def column_of(member: str) -> str:
    """Return the column that stores a member of a native file."""
    snake_case = re.sub("(?=[A-Z])", "_", member).lower()
    return COLUMNS_OF_MEMBERS.get(member, snake_case)


def nullable(kind: Kind) -> set[str]:
    """Return the columns that may be null."""
    return {field.name for field in TABLES[kind]._meta.sorted_fields if field.null}


@pytest.fixture
def register(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> Iterator[Any]:
    """A migrated register: its engine, and the schema of its tables."""
    if database_kind == "sqlite":
        engine: Engine = open_engine(f"sqlite:///{tmp_path / 'verifyd.db'}", create=True)
    else:
        engine = open_engine(request.getfixturevalue("empty_postgres"))
    migrate(engine)
    with store_of(engine, "native").opened(1) as (opened, schema):
        migrate_register(opened, schema)
        yield opened, schema
    close_quietly(engine)


@ALL_KINDS
def test_the_migrations_make_the_columns_of_the_models(register, kind):
    """The columns have the models' order, key and nullability."""
    engine, schema = register
    meta = TABLES[kind]._meta
    stored = engine.get_columns(meta.table_name, schema)
    assert tuple(column.name for column in stored) == column_names(TABLES[kind])
    assert {column.name for column in stored if column.null} == nullable(kind)
    key = [field.name for field in meta.get_primary_keys()]
    assert engine.get_primary_keys(meta.table_name, schema) == key


@ALL_KINDS
def test_the_key_comes_first_and_the_time_last(kind):
    """Rows are sorted by their first columns, and their time is the last one."""
    meta = TABLES[kind]._meta
    names = column_names(TABLES[kind])
    assert [field.name for field in meta.get_primary_keys()] == list(
        names[: order_of(kind).key_columns]
    )
    assert names[0] == "registration"
    assert names[-1] == TIME_COLUMN


@ALL_KINDS
def test_the_columns_of_a_key_are_texts(kind):
    """The columns of a key are joined into one text for sorting."""
    for field in TABLES[kind]._meta.get_primary_keys():
        assert isinstance(field, peewee.CharField | peewee.DateField)


@ALL_KINDS
def test_rows_and_facts_may_be_unknown_where_the_table_has_null(kind):
    """A field may be None if its column may be null; a load fills in only the time."""
    assert optional(ROWS[kind]) == nullable(kind) | {TIME_COLUMN}
    assert optional(FACTS[kind]) == nullable(kind)


def test_a_record_may_be_unknown_where_a_vehicle_may():
    """Policy and fines of a record may be None, and so may each column that may be null."""
    others = {"policy", "has_outstanding_fines", "outstanding_fines"}
    assert optional(Record) == nullable(Kind.VEHICLES) | others


def optional(shape: Any) -> set[str]:
    """The fields of a NamedTuple or Struct that may be None."""
    hints = get_type_hints(shape)
    return {name for name in fields_of(shape) if type(None) in get_args(hints[name])}


@ALL_KINDS
def test_native_files_have_a_member_for_each_column_in_its_place(kind):
    """A narrow row names missing columns by their positions (D66)."""
    columns = [column_of(column.label) for column in LAYOUTS[kind]().columns]
    if kind == Kind.FINES:
        # The day of settlement stands for `settled`, and a fine has no time of its own.
        expected = ["registration", "reference", "issued_on", "amount_cents", "currency"]
        assert columns == [*expected, "settled"]
        assert column_names(Fine) == (*columns, TIME_COLUMN)
    else:
        assert tuple(columns) == column_names(TABLES[kind])


@ALL_KINDS
def test_every_column_that_may_be_unknown_is_counted(kind):
    """A load must not lose a column unnoticed; dates of a policy are checked, too."""
    counted = {column_of(member.name) for member in MEMBERS[kind]}
    assert counted >= nullable(kind)
    for member in MEMBERS[kind]:
        assert column_of(member.name) == column_names(TABLES[kind])[member.position]


@ALL_KINDS
def test_lookup_prints_every_column(kind):
    """`verifyd lookup` prints every column that a register holds."""
    facts = FACTS[kind](*range(len(FACTS[kind]._fields)))
    show: Any = {
        Kind.VEHICLES: lambda: explanation._vehicle(facts),
        Kind.POLICIES: lambda: explanation._policy_document(
            PolicyFacts("A", "P-1", "2026-01-01", "2026-12-31", None, None, 0), "2026-06-01"
        ),
        Kind.FINES: lambda: explanation._fine(facts),
    }[kind]
    columns = {column_of(member) for member in show()}
    # A policy also has its state, and a fine says `outstanding` for not settled.
    columns = {"settled" if name == "outstanding" else name for name in columns} - {"state"}
    assert columns == set(FACTS[kind]._fields)


@pytest.mark.parametrize("module", ["app.registers.formats.changes", "app.vehicles.facts"])
@ALL_KINDS
def test_a_column_that_only_the_model_has_stops_the_import(module, kind):
    """The error names the NamedTuple that lacks the column, and the expected fields."""
    program = f"""
import peewee
from app.storage import tables
tables.{TABLES[kind].__name__}._meta.add_field("wheels", peewee.IntegerField(null=True))
import {module}
"""
    error = error_of(program)
    shape = (ROWS if module.endswith("changes") else FACTS)[kind].__name__
    assert error.startswith(f"TypeError: {shape} must have the fields")
    assert "wheels" in error


def test_a_vehicle_column_that_nobody_merges_stops_the_import():
    """A column that is not merged would be unknown in every answer (D26)."""
    program = """
from app.vehicles import facts
facts.VehicleFacts._fields += ("wheels",)
import app.vehicles.records
"""
    error = error_of(program)
    assert error.startswith("TypeError: _MERGED must have the keys")
    assert "wheels" in error


def error_of(program: str) -> str:
    """Return the last line that a Python program prints to stderr."""
    command = (sys.executable, "-c", program)
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    return ended.stderr.strip().rpartition("\n")[2]
