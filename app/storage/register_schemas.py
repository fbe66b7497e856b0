"""Stores a register on Postgres: one schema per generation.

Readers use `register_NAME`, and a load creates `next_register_NAME`. Every other generation waits
as `kept_register_NAME-GENERATION`. A schema is renamed in the commit that changes the register's
entry in the index. It is removed only later, when no reader uses its former name: a reader would
wait for the lock of the removal.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial

import peewee

from app import clock
from app.errors import Hindered
from app.storage.engine import Engine, closed_afterwards
from app.storage.postgres import PostgresEngine
from app.storage.register_store import NextGeneration, OpenRegister, RegisterStore
from app.storage.tables import TABLES, Kind, qualified, schema_of
from app.storage.versions import migrate_register

READ = "register_*"
"""The pattern, for pg_dump, of the schemas that readers use."""
UNREAD = ("next_register_*", "kept_register_*")
"""The patterns of the schemas that no reader uses."""
IDLE_SECONDS = 60
_HOLDERS = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    # The list has the number of a lock in two halves.
    "AND (classid::bigint << 32) | objid::bigint = hashtext(%s)"
)
_log = logging.getLogger("verifyd.storage")


class RegisterSchemas(RegisterStore):
    """The schemas of one register."""

    lock_outlives_connection = False

    def __init__(self, engine: PostgresEngine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._current = schema_of(name)
        self._next = f"next_register_{name}"

    def has_current(self, generation: int) -> bool:
        """Tell whether the schema that readers use exists."""
        return self._exists(self._current)

    def has_waiting(self, generation: int) -> bool:
        """Tell whether the schema of a waiting generation exists."""
        return self._exists(self._waiting(generation))

    @contextmanager
    def opened(self, generation: int, *, create: bool = True) -> Iterator[OpenRegister]:
        """Open the schema that readers use."""
        with closed_afterwards(PostgresEngine(self._engine.database)) as connected:
            if create:
                connected.execute_sql(f'CREATE SCHEMA IF NOT EXISTS "{self._current}"')
            yield OpenRegister(connected, self._current)

    @contextmanager
    def opened_waiting(self, generation: int) -> Iterator[OpenRegister]:
        """Open the schema of a waiting generation."""
        with closed_afterwards(PostgresEngine(self._engine.database)) as connected:
            yield OpenRegister(connected, self._waiting(generation))

    @contextmanager
    def opened_next(self, generation: int) -> Iterator[NextGeneration]:
        """Create the schema of the next generation."""
        schema = self._next
        with closed_afterwards(PostgresEngine(self._engine.database)) as connected:
            execute = connected.execute_sql
            execute(f'CREATE SCHEMA "{schema}"')
            migrate_register(connected, schema)
            for kind in TABLES:
                # PERF: building the index of the key at the end is faster than updating it.
                execute(f"ALTER TABLE {_table(schema, kind)} DROP CONSTRAINT {_key(kind)}")
            yield _NextSchema(OpenRegister(connected, schema), self._current)
            for kind, model in TABLES.items():
                names = ", ".join(f'"{key.column_name}"' for key in model._meta.get_primary_keys())
                add = f"ADD CONSTRAINT {_key(kind)} PRIMARY KEY ({names})"
                execute(f"ALTER TABLE {_table(schema, kind)} {add}")
                execute(f"ANALYZE {_table(schema, kind)}")

    def publish_next(self) -> None:
        """Rename the schema of the next generation to the name that readers use."""
        self._rename(self._next, self._current)

    def put_aside(self, generation: int | None) -> None:
        """Rename the schema that readers use to the name of a waiting generation."""
        # Wait for a dump in progress: pg_dump needs its tables to keep their names.
        with self.waiting_for_backup():
            self._engine.execute_sql('LOCK TABLE "register_kept" IN ROW EXCLUSIVE MODE')
        if generation is None:
            self._remove(self._current)
        elif self._exists(self._current):
            self._rename(self._current, self._waiting(generation))

    def waiting_for_backup(self) -> AbstractContextManager[object]:
        """Say that the caller waits, if a dump is in progress that prevents renames."""
        held = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND granted "
            "AND mode = 'ShareLock' AND relation = 'register_kept'::regclass "
            "AND pid <> pg_backend_pid()"
        )
        (dumps,) = self._engine.execute_sql(held).fetchone()
        return self._engine.waiting("a backup that includes registers") if dumps else nullcontext()

    def bring_back(self, generation: int) -> None:
        """Rename the schema of a waiting generation to the name that readers use."""
        self._rename(self._waiting(generation), self._current)

    def remove_unused(self, used: set[int]) -> None:
        """Remove the schemas that no reader uses, except those of these generations."""
        self._remove(self._next)
        self._remove(f"kept_register_{self._name}")  # Programs before schema 4 used this name.
        for generation in self._generations_waiting() - used:
            self._remove(self._waiting(generation))

    def size_bytes(self, generation: int) -> int:
        """Return the size of the tables that readers use, with their indexes."""
        tables = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN "
            "pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
        )
        (size_bytes,) = self._engine.execute_sql(tables, (self._current,)).fetchone()
        return int(size_bytes)

    def truncate_log(self, generation: int) -> None:
        """Do nothing: the server manages its log."""

    @contextmanager
    def tried_lock(self, *, shared: bool = False) -> Iterator[Callable[[Engine], None] | None]:
        """Try to take the advisory lock of the register, without waiting.

        The lock belongs to the connection. Within this context its engine may take it again.
        """
        engine, locks, mode = self._engine, self._engine.locks, "_shared" if shared else ""
        # NOTE: a pooler that does not keep sessions gives one backend to several clients. Its lock
        # is only ours if this engine took it there.
        query = (
            f"SELECT pg_backend_pid(), CASE WHEN pg_backend_pid() IN ({_HOLDERS}) "
            f"THEN NULL ELSE pg_try_advisory_lock{mode}(hashtext(%s)) END"
        )
        pid, is_taken = engine.execute_sql(query, (self._lock, self._lock)).fetchone()
        is_ours = locks.get(self._lock) == pid if is_taken is None else is_taken
        if not is_taken:
            yield partial(self._require_held, pid) if is_ours else None
            return
        locks[self._lock] = pid
        try:
            yield partial(self._require_held, pid)
        finally:
            locks.pop(self._lock, None)
            # A failure here does not change the result of the load.
            with suppress(peewee.PeeweeException):
                query = f"SELECT pg_advisory_unlock{mode}(hashtext(%s))"
                (is_released,) = engine.execute_sql(query, (self._lock,)).fetchone()
                if not is_released:
                    lost = "the lock of %s was lost: the session %d of the server has ended, or %s"
                    _log.warning(lost, self._name, pid, "a pooler does not keep sessions")

    def is_locked(self) -> bool:
        """Tell whether a process holds the lock, by the server's list of locks."""
        query = f"SELECT EXISTS ({_HOLDERS})"
        return bool(self._engine.execute_sql(query, (self._lock,)).fetchone()[0])

    def idle_holder(self) -> str | None:
        """Return a clause about a session that holds the lock and has done nothing for a minute."""
        query = (
            "SELECT pid, coalesce(host(client_addr), 'a Unix socket'), "  # noqa: S608 - ours
            "extract(epoch FROM state_change)::bigint FROM pg_stat_activity "
            f"WHERE state = 'idle' AND pid IN ({_HOLDERS}) "
            "AND state_change < clock_timestamp() - make_interval(secs => %s)"
        )
        row = self._engine.execute_sql(query, (self._lock, IDLE_SECONDS)).fetchone()
        if row is None:
            return None
        pid, address, since = row
        return (
            f"session {pid} of the server, from {address}, idle since {clock.iso_utc(since)}; "
            f"if nothing of verifyd runs there, end it: SELECT pg_terminate_backend({pid})"
        )

    def _require_held(self, pid: int, engine: Engine) -> None:
        query = f"SELECT %s IN ({_HOLDERS})"
        (is_held,) = engine.execute_sql(query, (pid, self._lock)).fetchone()
        if not is_held:
            raise Hindered("the connection to the database was lost; nothing was changed")

    @property
    def _lock(self) -> str:
        return f"verifyd register {self._name}"

    def _waiting(self, generation: int) -> str:
        # NOTE: names of registers have no hyphen, so two generations cannot have the same schema.
        return f"kept_register_{self._name}-{generation}"

    def _generations_waiting(self) -> set[int]:
        pattern = re.compile(re.escape(f"kept_register_{self._name}-") + "([0-9]+)")
        names = self._engine.execute_sql("SELECT nspname FROM pg_namespace").fetchall()
        found = (pattern.fullmatch(schema) for (schema,) in names)
        return {int(match[1]) for match in found if match}

    def _exists(self, schema: str) -> bool:
        query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
        return bool(self._engine.execute_sql(query, (schema,)).fetchone()[0])

    def _rename(self, schema: str, name: str) -> None:
        self._engine.execute_sql(f'ALTER SCHEMA "{schema}" RENAME TO "{name}"')

    def _remove(self, schema: str) -> None:
        self._engine.execute_sql(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


class _NextSchema(NextGeneration):
    def __init__(self, opened: OpenRegister, current: str) -> None:
        super().__init__(opened)
        self._current = current

    def copy_current(self, generation: int, kinds: Iterable[Kind]) -> None:
        """Add all rows of these kinds from the schema that readers use."""
        self.opened.copy_from(self._current, kinds)

    @contextmanager
    def opened_part(self) -> Iterator[OpenRegister]:
        """Begin another transaction in the same schema, on a connection of its own."""
        connected = PostgresEngine(self.opened.engine.database)
        with closed_afterwards(connected), connected.atomic():
            yield OpenRegister(connected, self.opened.schema)

    def add_part(self, kind: Kind) -> None:
        """Do nothing: the rows are already in the schema."""

    def remove_part(self) -> None:
        """Do nothing: rows that were not committed do not exist."""


def hold_off_renames(engine: Engine) -> None:
    """Prevent schemas from being renamed until the transaction ends.

    pg_dump needs its tables to keep their names.
    """
    engine.execute_sql('LOCK TABLE "register_kept" IN SHARE MODE')


def other_schemas(engine: Engine, registers: Iterable[str]) -> list[str]:
    """Return the schemas with names that readers use, except those of these registers."""
    query = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^register_'"
    there = [str(name) for (name,) in engine.execute_sql(query).fetchall()]
    wanted = {schema_of(name) for name in registers}
    return [name for name in there if name not in wanted]


def _table(schema: str, kind: Kind) -> str:
    return qualified(schema, kind.table)


def _key(kind: Kind) -> str:
    return f'"{kind.table}_pkey"'
