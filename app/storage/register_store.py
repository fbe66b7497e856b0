"""The generations of a register as an engine stores them, and the register's lock (D25, D28).

A generation is a copy of a register's tables; its number is that of the load that made it. The
register index says which one readers see, and which ones wait for a rollback or an undrop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, TypeVar

from app.storage.engine import Engine, close_quietly
from app.storage.tables import TABLES, Kind, column_names, qualified

E = TypeVar("E", bound=Engine)


class OpenRegister(NamedTuple):
    """A generation that is open, on a connection of its own."""

    engine: Engine
    schema: str | None
    """The schema of its tables; None if that is the connection's own."""

    def copy_from(self, schema: str, kinds: Iterable[Kind]) -> None:
        """Add all rows of some kinds that another schema of this connection holds."""
        for kind in kinds:
            name = TABLES[kind]._meta.table_name
            columns = ", ".join(f'"{column}"' for column in column_names(TABLES[kind]))
            self.engine.execute_sql(
                f"INSERT INTO {qualified(self.schema or 'main', name)} ({columns}) "  # noqa: S608 - our own names
                f"SELECT {columns} FROM {qualified(schema, name)}"
            )


class NextGeneration(ABC):
    """The generation that a replace writes, before anybody reads it (D28, D54)."""

    def __init__(self, opened: OpenRegister) -> None:
        self.opened = opened

    @abstractmethod
    def copy_current(self, generation: int, kinds: Iterable[Kind]) -> None:
        """Add all rows of some kinds from the generation that readers see."""

    @abstractmethod
    def opened_part(self) -> AbstractContextManager[OpenRegister]:
        """Open a part of this generation, for another process to write at the same time.

        When the context ends without an error, the part is there, all of it.
        """

    @abstractmethod
    def add_part(self, kind: Kind) -> None:
        """Add the rows of a part that is there."""

    @abstractmethod
    def remove_part(self) -> None:
        """Remove a part, whole or not."""


class RegisterStore(ABC):
    """Where one register is stored. What changes it needs the register's lock."""

    @abstractmethod
    def has_current(self, generation: int) -> bool:
        """Tell whether the generation that readers see is stored."""

    @abstractmethod
    def has_waiting(self, generation: int) -> bool:
        """Tell whether a generation that waits is stored: a restored database may lack it."""

    @abstractmethod
    def opened(
        self, generation: int, *, create: bool = True
    ) -> AbstractContextManager[OpenRegister]:
        """Open the generation that readers see, for writing, on a connection of its own.

        So a load never holds the lock that keys and domains are written under (D25).

        Args:
            create: make it, without tables, if it is missing.
        """

    @abstractmethod
    def opened_waiting(self, generation: int) -> AbstractContextManager[OpenRegister]:
        """Open a generation that waits, for writing."""

    @abstractmethod
    def opened_next(self, generation: int) -> AbstractContextManager[NextGeneration]:
        """Make a generation, with empty tables, and open it for its one writer.

        When the context ends without an error, it is stored for good. What is left of it after
        an error is the caller's to remove.
        """

    @abstractmethod
    def publish_next(self, generation: int) -> None:
        """Let readers have the generation that was made; in the commit that changes the index."""

    @abstractmethod
    def put_aside(self, generation: int | None) -> None:
        """Let the generation that readers see wait; in the commit that changes the index.

        Args:
            generation: None if the index has no entry, so that nobody reads what is stored.
        """

    @abstractmethod
    def bring_back(self, generation: int) -> None:
        """Let readers have a generation that waits; in the commit that changes the index."""

    @abstractmethod
    def remove_unused(self, used: set[int]) -> None:
        """Remove every generation but those of these numbers."""

    @abstractmethod
    def size_bytes(self, generation: int) -> int:
        """Return how many bytes the generation that readers see takes; 0 if it is not stored."""

    @abstractmethod
    def truncate_log(self, generation: int) -> None:
        """Free the disk space of the log of the generation that readers see, if it has a log."""

    @abstractmethod
    def tried_lock(self) -> AbstractContextManager[Callable[[], None] | None]:
        """Take the register's lock if it is free; it ends with the process at the latest.

        Gives what raises Hindered if the lock was lost meanwhile; None if another process has it.
        """

    @property
    @abstractmethod
    def lock_outlives_connection(self) -> bool:
        """Whether the lock is still held when the connection that took it is lost."""

    @abstractmethod
    def is_locked(self) -> bool:
        """Tell whether somebody holds the lock. A load that begins meanwhile is not hindered."""


@contextmanager
def closed_afterwards(register: E) -> Iterator[E]:
    """Close a connection of a register's own at the end."""
    try:
        yield register
    finally:
        close_quietly(register)
