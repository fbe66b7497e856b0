"""Vehicles, policies and fines have the same columns everywhere; their rows define them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from app.registers.formats.changes import order_of
from app.registers.formats.native import LAYOUTS
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.stores import migrate, store_of
from app.storage.tables import COLUMNS, ROWS, Kind, column_names
from app.storage.versions import migrate_register
from app.vehicles import document
from app.vehicles.facts import FineFacts, PolicyFacts, Record, VehicleFacts

FACTS: dict[Kind, Any] = {
    Kind.VEHICLES: VehicleFacts,
    Kind.POLICIES: PolicyFacts,
    Kind.FINES: FineFacts,
}
ROOT = Path(__file__).parents[2]
ALL_KINDS = pytest.mark.parametrize("kind", Kind)
TIME_COLUMN = "updated"


def column_of(member: str) -> str:
    """Return the column that stores a member of a native file."""
    return next(m.column for kind in Kind for m in COLUMNS[kind] if m.name == member)


def optional(shape: Any) -> set[str]:
    """The fields of a NamedTuple or Struct that may be None."""
    return {name for name, hint in get_type_hints(shape).items() if type(None) in get_args(hint)}


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
def test_the_migrations_make_the_columns_of_the_rows(register, kind):
    """The columns have the rows' order and key, and may be null; a load fills in only the time."""
    engine, schema = register
    stored = engine.get_columns(kind.table, schema)
    assert tuple(column.name for column in stored) == column_names(kind)
    null = {column.name for column in stored if column.null}
    assert optional(ROWS[kind]) == null | {TIME_COLUMN}
    assert optional(FACTS[kind]) == null
    key = [member.column for member in COLUMNS[kind] if member.is_key]
    assert engine.get_primary_keys(kind.table, schema) == key


@ALL_KINDS
def test_the_key_comes_first_and_the_time_last(kind):
    """Rows are sorted by their first columns, which are texts; their time is the last one."""
    keys, columns = order_of(kind).key_columns, column_names(kind)
    assert [member.is_key for member in COLUMNS[kind]] == [at < keys for at in range(len(columns))]
    assert columns[0] == "registration"
    assert columns[-1] == TIME_COLUMN
    types = get_type_hints(ROWS[kind])
    assert {types[name] for name in columns[:keys]} == {str}


def test_a_record_may_be_unknown_where_a_vehicle_may():
    """So may its policy and fines, and what it is judged by beside the columns (D198)."""
    others = {"policy", "has_outstanding_fines", "outstanding_fines", "basis", "held"}
    assert optional(Record) == optional(FACTS[Kind.VEHICLES]) | others


@ALL_KINDS
def test_native_files_have_a_member_for_each_column_in_its_place(kind):
    """A narrow row names missing columns by their positions."""
    columns = [column_of(column.label) for column in LAYOUTS[kind]().columns]
    if kind == Kind.FINES:
        # The day of settlement stands for `settled`, and a fine has no time of its own.
        assert column_names(kind) == (*columns, TIME_COLUMN)
    else:
        assert tuple(columns) == column_names(kind)


@ALL_KINDS
def test_every_column_that_may_be_unknown_is_counted(kind):
    """A load must not lose a column unnoticed; dates of a policy are checked, too."""
    counted = {member.column for member in COLUMNS[kind] if member.is_counted}
    assert counted >= optional(FACTS[kind])


@ALL_KINDS
def test_lookup_prints_every_column(kind):
    """`verifyd lookup` prints every column that a register holds."""
    facts = FACTS[kind](*range(len(FACTS[kind]._fields)))
    show: Any = {
        Kind.VEHICLES: lambda: document._vehicle(facts),
        Kind.POLICIES: lambda: document._policy_document(
            PolicyFacts("A", "P-1", "2026-01-01", "2026-12-31", None, None, 0), "2026-06-01"
        ),
        Kind.FINES: lambda: document._fine(facts),
    }[kind]
    # A policy also has its state, and a fine says `outstanding` for not settled.
    shown = {"settledOn" if name == "outstanding" else name for name in show()} - {"state"}
    columns = set(map(column_of, shown))
    assert columns == set(FACTS[kind]._fields)
