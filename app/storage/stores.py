"""Chooses the store of a register: files on SQLite, schemas on Postgres."""

from app.storage.engine import Engine
from app.storage.postgres import PostgresEngine
from app.storage.register_files import RegisterFiles
from app.storage.register_schemas import RegisterSchemas
from app.storage.register_store import RegisterStore
from app.storage.sqlite import SqliteEngine


def store_of(engine: Engine, name: str) -> RegisterStore:
    """Return the store of the register of this name, which need not exist."""
    if isinstance(engine, SqliteEngine):
        return RegisterFiles(engine, name)
    if isinstance(engine, PostgresEngine):
        return RegisterSchemas(engine, name)
    raise TypeError(type(engine).__name__)
