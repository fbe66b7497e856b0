"""The interface for storing a register: its generations and its lock (D25, D28).

A generation is one version of all tables of a register. Its number is that of the load that
created it. The register index says which generation is current, so that readers use it, and which
ones wait for a rollback or an undrop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, NamedTuple

from app.storage.engine import Engine
from app.storage.tables import TABLES, Kind, column_names, qualified
from app.storage.versions import migrate_register, pending, register_scripts


class OpenRegister(NamedTuple):
    """An open generation, with a connection of its own."""

    engine: Engine
    schema: str | None
    """The schema of its tables; None for the default schema of the connection."""

    def migrate(self) -> list[str]:
        """Create or migrate its tables, and return the names of the scripts that ran."""
        return migrate_register(self.engine, self.schema)

    def pending_migrations(self) -> list[str]:
        """Return the names of the scripts that `migrate` would run."""
        return pending(register_scripts(self.engine, self.schema))

    def copy_from(self, schema: str, kinds: Iterable[Kind]) -> None:
        """Add all rows of these kinds from another schema of the same connection."""
        for kind in kinds:
            name = TABLES[kind]._meta.table_name
            columns = ", ".join(f'"{column}"' for column in column_names(kind))
            self.engine.execute_sql(
                f"INSERT INTO {qualified(self.schema or 'main', name)} ({columns}) "  # noqa: S608 - names from our own models
                f"SELECT {columns} FROM {qualified(schema, name)}"
            )


class NextGeneration(ABC):
    """The generation that a replace writes, before readers use it."""

    def __init__(self, opened: OpenRegister) -> None:
        self.opened = opened

    @abstractmethod
    def copy_current(self, generation: int, kinds: Iterable[Kind]) -> None:
        """Add all rows of these kinds from the current generation."""

    @abstractmethod
    def opened_part(self) -> AbstractContextManager[OpenRegister]:
        """Open a part of this generation, which a second process writes at the same time.

        When the context ends without an error, the part is complete and stored.
        """

    @abstractmethod
    def add_part(self, kind: Kind) -> None:
        """Add the rows of a part that is complete."""

    @abstractmethod
    def remove_part(self) -> None:
        """Remove a part, complete or not."""


class RegisterStore(ABC):
    """Stores one register. Methods that change it need the register's lock."""

    lock_outlives_connection: ClassVar[bool]
    """Whether the lock is still held after the connection that took it is lost."""

    @abstractmethod
    def has_current(self, generation: int) -> bool:
        """Tell whether the current generation is stored."""

    @abstractmethod
    def has_waiting(self, generation: int) -> bool:
        """Tell whether a waiting generation is stored. A restored database may lack it."""

    @abstractmethod
    def opened(
        self, generation: int, *, create: bool = True
    ) -> AbstractContextManager[OpenRegister]:
        """Open the current generation for writing, on a connection of its own.

        So a load does not hold the lock that is needed to write keys and domains.

        Args:
            create: create it without tables if it is missing.
        """

    @abstractmethod
    def opened_waiting(self, generation: int) -> AbstractContextManager[OpenRegister]:
        """Open a waiting generation for writing."""

    @abstractmethod
    def opened_next(self, generation: int) -> AbstractContextManager[NextGeneration]:
        """Create a generation with empty tables, and open it for its only writer.

        When the context ends without an error, the generation is safely on disk. After an error
        the caller must call `remove_unused`.
        """

    @abstractmethod
    def publish_next(self) -> None:
        """Make the new generation current, in the transaction that changes the index."""

    @abstractmethod
    def put_aside(self, generation: int | None) -> None:
        """Make the current generation a waiting one, in the transaction that changes the index.

        Args:
            generation: None if the index has no entry: then nothing needs to wait.
        """

    def waiting_for_backup(self) -> AbstractContextManager[object]:
        """Return a context for a statement on snapshots, which shows that it waits for a backup.

        Only on Postgres does such a statement wait.
        """
        return nullcontext()

    @abstractmethod
    def bring_back(self, generation: int) -> None:
        """Make a waiting generation current, in the transaction that changes the index."""

    @abstractmethod
    def remove_unused(self, used: set[int]) -> None:
        """Remove every generation except those with these numbers."""

    @abstractmethod
    def size_bytes(self, generation: int) -> int:
        """Return the size of the current generation; 0 if it is not stored."""

    @abstractmethod
    def truncate_log(self, generation: int) -> None:
        """Free the disk space of the current generation's write-ahead log, if it has one."""

    @abstractmethod
    def tried_lock(
        self, *, shared: bool = False
    ) -> AbstractContextManager[Callable[[Engine], None] | None]:
        """Try to take the register's lock without waiting. It ends with the process at the latest.

        Args:
            shared: let processes of other hosts, which Postgres can have, hold it at the same time.

        Yields None if another process holds the lock. Otherwise yields a function that raises
        Hindered if the lock has been lost since. Call it with the engine of the transaction that
        changes the register, last.
        """

    @abstractmethod
    def is_locked(self) -> bool:
        """Tell whether a process holds the lock, without keeping a load from taking it."""

    def idle_holder(self) -> str | None:
        """Return a clause about who holds the lock and does nothing; None if nobody does.

        Only on Postgres can a lock outlast the load that took it.
        """
        return None
