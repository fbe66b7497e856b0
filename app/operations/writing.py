"""Whether the database can be written to: look-ups do without, so nobody else notices (D58)."""

import os

import peewee

from app.registers.space import free_bytes_of, size_text
from app.storage.engine import Engine, message_of, recover
from app.storage.schema import Installation
from app.storage.sqlite import SqliteEngine, is_busy

_LITTLE_BYTES = 1024 * 1024
"""What the log of the database may need before long."""


def write_fault(engine: Engine) -> str | None:
    """Return a sentence for the operator if domains cannot be created, or soon cannot; else None.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    refusal = _refusal(engine)
    if refusal is not None:
        return f"The database cannot be written to: {refusal}."
    if isinstance(engine, SqliteEngine):
        directory = engine.path.absolute().parent
        free_bytes = free_bytes_of(os.statvfs(directory))
        if free_bytes < _LITTLE_BYTES:
            return f"The disk of {directory} is full: {size_text(free_bytes)} are free."
    return None


def _refusal(engine: Engine) -> str | None:
    if not isinstance(engine, SqliteEngine):
        query = "SELECT current_setting('transaction_read_only') = 'on'"
        (is_read_only,) = engine.execute_sql(query).fetchone()
        return "the server may only be read" if is_read_only else None
    try:
        # A load balancer must not wait for somebody else's write.
        with engine.without_waiting(), engine.atomic() as transaction:
            # NOTE: the lock of a writer is given for a file that may only be read, too.
            Installation.update(schema_version=Installation.schema_version).execute(engine)
            transaction.rollback()
    except peewee.OperationalError as error:
        recover(engine, error)
        return None if is_busy(error) else message_of(error)
    return None
