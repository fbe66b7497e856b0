"""Loads work while all tables are published, as for change capture or an upgrade (D153)."""

from collections.abc import Iterator

import pytest

from app.registers.undo import roll_back
from tests.conftest import ON_POSTGRES
from tests.postgres import connect, require_superuser

pytestmark = ON_POSTGRES

CAR = {"registration": "AB12CDE", "make": "FORD"}
INSURANCE = "/v1/vehicle/AB12CDE/insurance"
WITHOUT_KEY = (
    "SELECT relnamespace::regnamespace::text || '.' || relname FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace::regnamespace::text ~ 'register_|^public$' "
    "AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)"
)


@pytest.fixture
def published(world) -> Iterator[None]:
    """Publish all tables of the database, those of later loads too."""
    with connect(world.store.url) as operator:
        require_superuser(operator)
        operator.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        yield
        operator.execute("DROP PUBLICATION everything")


def load(world, make: str, mode: str) -> None:
    """Load the car as another make."""
    path = world.directory / "cars.csv"
    path.write_text(f"registration,make\nAB12CDE,{make}\n")
    world.load_files(path, mode=mode)


def test_every_table_has_a_key_while_no_load_runs(world):
    """Without one, a published table takes no changes; a replace drops keys while it runs."""
    for mode in ("merge", "replace", "replace"):
        load(world, "FORD", mode)
    assert world.engine.execute_sql(WITHOUT_KEY).fetchall() == []


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_register_of_a_former_program_gets_its_key_before_a_load_writes(
    world, alice, published, mode
):
    """The first load after an upgrade adds the key, and so can write."""
    load(world, "FORD", "replace")
    load(world, "SEAT", "replace")
    with connect(world.store.url) as operator:
        query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%register_native%'"
        for (schema,) in operator.execute(query).fetchall():
            operator.execute(f'ALTER TABLE "{schema}".identity DROP CONSTRAINT identity_pkey')
            key = "WHERE name = '0003_identity_key'"
            operator.execute(f'DELETE FROM "{schema}".schema_migration {key}')
    roll_back(world.engine, "native", None)
    assert alice.get(INSURANCE).json["vehicle"]["make"] == "FORD"
    load(world, "OPEL", mode)
    assert alice.get(INSURANCE).json["vehicle"]["make"] == "OPEL"
    query = "SELECT 1 FROM pg_indexes WHERE schemaname = 'register_native' AND tablename = %s"
    assert world.engine.execute_sql(query, ("identity",)).fetchall() == [(1,)]


def test_a_first_load_of_a_register_can_be_merged(world, published):
    """A new register has all its keys."""
    load(world, "FORD", "merge")
    load(world, "SEAT", "merge")
    assert world.engine.execute_sql(WITHOUT_KEY).fetchall() == []
