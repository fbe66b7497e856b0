"""The identity of a register's data, which tells it from all other data (D153).

The data is a file on SQLite and a schema on Postgres. It names its installation, its register and
its generation, and has a random stamp, because a number of a generation can be given again after a
restore. The register index has the stamp, too, and the last load that the data must contain.
"""

import secrets
from typing import NamedTuple

import peewee

from app.storage.tables import RegisterRef, qualified


class Identity(NamedTuple):
    """Whose data it is."""

    installation: str
    """The identifier of the main database."""
    register: str
    generation: int
    stamp: str
    """16 hexadecimal digits, the same in the register index."""


_COLUMNS = ", ".join(Identity._fields)


class Expected(NamedTuple):
    """What the register index says about the data of one generation."""

    installation: str
    register: str
    generation: int
    stamp: str | None
    """None if a former program wrote the entry: then the data may have no identity."""
    last_load: int | None
    """The last load that the data must contain; None if that is not known."""


class StoredIdentity(NamedTuple):
    """What the data says about itself."""

    identity: Identity | None
    last_load: int
    """The last load whose rows it contains."""


class NotOwn(peewee.OperationalError):
    """The data in the place of a register is not that of the register.

    Args:
        fault: a clause that says whose it is.
    """

    def __init__(self, register: str, fault: str) -> None:
        super().__init__(f"the register {register} cannot be read: {fault}")
        self.fault = fault


def new_stamp() -> str:
    """Return a stamp that no other data has."""
    return secrets.token_hex(8)


def read_identity(database: peewee.Database, schema: str | None) -> StoredIdentity:
    """Return what data says about itself.

    Args:
        schema: the schema of its tables; None for the default schema of the connection.

    Raises peewee.PeeweeException if the data cannot be read.
    """
    identity = None
    if database.table_exists("identity", schema=schema):
        row = database.execute_sql(f"SELECT {_COLUMNS} FROM {_table(schema)}").fetchone()  # noqa: S608 - ours
        identity = Identity(*row) if row else None
    applied = qualified(schema, "applied_load")
    (merged,) = database.execute_sql(f"SELECT max(load_id) FROM {applied}").fetchone()  # noqa: S608 - ours
    return StoredIdentity(identity, max(merged or 0, identity.generation if identity else 0))


def write_identity(database: peewee.Database, schema: str | None, identity: Identity) -> None:
    """Write the identity of data that the caller creates, or knows to be the right one."""
    table, place = _table(schema), database.param
    with database.atomic():
        database.execute_sql(f"DELETE FROM {table}")  # noqa: S608 - ours
        places = ", ".join([place] * len(identity))
        insert = f"INSERT INTO {table} ({_COLUMNS}) VALUES ({places})"  # noqa: S608 - ours
        database.execute_sql(insert, identity)


def fault_of(expected: Expected, held: StoredIdentity) -> str | None:
    """Return a clause that says why data is not the expected one; None if it is.

    Data that contains a later load is right: a merge commits its rows first (D28).
    """
    found = held.identity
    if found is None:
        return "its data has no identity, so it is an old copy" if expected.stamp else None
    number = found.generation
    clauses = (
        (found.installation != expected.installation, "that of another installation"),
        (found.register != expected.register, f"that of the register {found.register}"),
        (number != expected.generation, f"that of load {number}, not load {expected.generation}"),
        (expected.stamp not in (None, found.stamp), f"that of another load with number {number}"),
        (
            held.last_load < (expected.last_load or 0),
            f"an old copy, without load {expected.last_load}",
        ),
    )
    return next((f"its data is {clause}" for is_so, clause in clauses if is_so), None)


def require_own(database: peewee.Database, ref: RegisterRef) -> None:
    """Check the data that look-ups read for a register.

    PERF: this takes three statements, so workers check each connection once (D153).

    Raises NotOwn if it is not that of the register, or if the register was just replaced;
    peewee.PeeweeException if it cannot be read.
    """
    place = database.param
    # NOTE: the index is read first. A merge that commits in between makes the data newer.
    row = database.execute_sql(
        "SELECT i.database_id, r.name, r.generation, r.stamp, r.last_load "  # noqa: S608 - our own names
        "FROM register r CROSS JOIN installation i "
        f"WHERE r.name = {place} AND r.generation = {place}",
        (ref.name, ref.generation),
    ).fetchone()
    if row is None:
        raise NotOwn(ref.name, "it was replaced meanwhile")
    fault = fault_of(Expected(*row), read_identity(database, ref.schema))
    if fault:
        raise NotOwn(ref.name, fault)


def _table(schema: str | None) -> str:
    return qualified(schema, "identity")
