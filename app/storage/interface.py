"""The interface that every engine implements, in addition to Peewee's methods (D86)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal

import peewee

from app.storage.errors import driver_errors_translated
from app.storage.tables import RegisterRef

Row = tuple[Any, ...]
Waiting = Callable[[str], AbstractContextManager[object]]
"""Returns a context that shows the user what a command waits for."""


class InUse(Exception):
    """Somebody else uses the database; the text is a clause about who."""


class Engine(peewee.Database, ABC):
    """A database, with one connection per thread.

    Each engine inherits from this class, and from Peewee's class for the same database.
    """

    dialect: ClassVar[Literal["sqlite", "postgres"]]
    """The name of the engine in the manifest of a backup."""
    keeps_order: ClassVar[bool]
    """Whether rows that are found by an index come in its order, although no statement asks."""
    file: Path | None = None
    """The file of the database; None if the database is on a server."""
    waiting: Waiting = nullcontext
    """Shows the user of a command that the engine waits for something that can take minutes."""

    @property
    @abstractmethod
    def scratch_directory(self) -> Path:
        """The directory for temporary files of a load: beside the data, if that is on this host."""

    @abstractmethod
    def rows(self, sql: str, params: Sequence[object]) -> list[Row]:
        """Run a query of the hot path and return all its rows.

        Raises peewee.PeeweeException if the database cannot answer.
        """

    @abstractmethod
    def version(self) -> object | None:
        """Return a value that differs after each commit to the main database, by anyone.

        None if that is not known without asking for the data itself. Raises
        peewee.PeeweeException if the database cannot answer.
        """

    def hold(self) -> None:
        """Look at the files of the database only once from now on, in this thread, until `release`.

        Versions and registers are then those of the first look. PERF: a look-up takes 10 % less.
        """

    def release(self) -> None:
        """Look at the files each time again."""

    def close_for_fork(self) -> None:
        """Let a forked process open the files of the database; the next query opens them here."""

    @abstractmethod
    def recover(self, error: Exception) -> None:
        """Make this thread's connection usable for the next query after an error."""

    @abstractmethod
    def may_be_gone(self, error: Exception) -> bool:
        """Tell whether a statement may have failed because a register was just removed."""

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Let writes fail at once where one writer locks the whole database, as on SQLite."""
        yield

    @abstractmethod
    def write_refusal(self) -> str | None:
        """Return why the database accepts no writes; None if it accepts them.

        Raises peewee.PeeweeException if the database cannot be read.
        """

    @abstractmethod
    def missing_rights(self) -> list[str]:
        """Return the permissions that this user lacks, one sentence for the operator each.

        Raises peewee.PeeweeException if the database cannot be read.
        """

    def lost_settings(self) -> list[str]:
        """Return a sentence for each setting of this thread's session that no longer holds.

        Raises peewee.PeeweeException if the database cannot be read.
        """
        return []

    @abstractmethod
    def attach_registers(
        self, registers: tuple[RegisterRef, ...], *, is_thorough: bool = False
    ) -> None:
        """Attach exactly these registers to this thread's connection, under their schema names.

        The identity of each one is compared when the connection first uses it, and when other data
        took its place (D153).

        Args:
            is_thorough: compare all identities again now.

        Raises peewee.OperationalError if one of them cannot be read; NotOwn if its data is that of
        another register, load or installation.
        """

    @abstractmethod
    def data_number(self, schema: peewee.ColumnBase) -> peewee.Node | None:
        """Return an expression for a number that differs if other data took a schema's place.

        Its text is empty if the schema does not exist. None if no statement can tell.
        """

    def is_standby(self) -> peewee.Node | None:
        """Return an expression that is true on a standby; None if there is no such server."""
        return None

    @abstractmethod
    def can_attach(self, registers: tuple[RegisterRef, ...]) -> bool:
        """Tell whether a new connection could attach all of these registers."""

    @abstractmethod
    def integrity_fault(self) -> str | None:
        """Read the whole database file, and return a clause about its first damage; None if sound.

        Always None on Postgres, whose server has tools of its own. Raises peewee.PeeweeException
        if the database cannot be read.
        """

    def begin_log(self) -> None:
        """Let the log of a file say which state of the file it continues, before a merge (D153)."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[Callable[[], None]]:
        """Return a context of a command that must be the only user of the database.

        On SQLite nobody else can use it meanwhile. On Postgres the sessions of verifyd are looked
        for, from any host; the context yields a function that looks for them again.

        Raises InUse, as that function does; peewee.PeeweeException if the database cannot be used.
        """

    @abstractmethod
    def consistent_read(self) -> AbstractContextManager[object]:
        """Return a read-only transaction that sees the data of one moment."""

    @abstractmethod
    def migration(self) -> AbstractContextManager[object]:
        """Return a transaction during which no other process, on any host, can migrate."""

    @abstractmethod
    def take_advisory_lock(self, *numbers: int) -> None:
        """Wait for the lock of these one or two numbers; hold it until the transaction ends."""

    @abstractmethod
    def lock_rows(self, query: "peewee.ModelSelect[Any]") -> None:
        """Prevent others from changing the selected rows, or adding references to them.

        This lasts until the transaction ends.
        """

    def null(self, field: type[peewee.Field]) -> str:
        """Return a null that can stand for a column of this type in a compound query."""
        return "NULL"

    @abstractmethod
    def each_of(self, texts: peewee.Value, column: str) -> peewee.Select:
        """Return a query with one row for each text of a list.

        Args:
            texts: the parameter for the list. `listed` returns its value.
            column: the name of the query's only column.
        """

    @abstractmethod
    def with_each(self, columns: peewee.Node, table: Any, listed: peewee.CTE) -> Any:
        """Return a query for the rows of plates in a table of a register.

        It finds them by the key, however many there are.

        Args:
            listed: has the plates in its column `text`.
        """

    @abstractmethod
    def listed(self, texts: Sequence[str]) -> object:
        """Return a list of texts as the value of the parameter `texts`."""

    @abstractmethod
    def select_by_key(
        self, select: str, columns: Sequence[str], keys: Iterable[Row]
    ) -> Iterator[Row]:
        """Yield the rows that have one of these keys, in any order. Needs a transaction.

        Args:
            select: the query without its condition. It selects the columns of the key first.
            columns: the quoted names of the columns of the key.
            keys: a tuple of values each, in the order of `columns`, without duplicates.
        """

    @abstractmethod
    def fill(self, table: str, columns: Sequence[str], batches: Iterable[Sequence[Row]]) -> None:
        """Write rows into an empty table.

        Args:
            table: its name, qualified and quoted.
            columns: the quoted names of the columns, in the order of a row's values.
            batches: rows in the order of their keys, without duplicate keys.
        """

    @abstractmethod
    def batches(self, sql: str, rows_max: int) -> Iterator[list[Row]]:
        """Yield all rows of a query, in lists of at most this many. Needs a transaction."""

    @abstractmethod
    def lock_tables(self, names: Iterable[str]) -> None:
        """Wait for the writers of these tables, and keep others out until the transaction ends."""

    @abstractmethod
    def last_number(self, table: str) -> int:
        """Return the highest number that a numbered table gave a row; 0 if it gave none."""

    @abstractmethod
    def continue_after(self, table: str, number: int) -> None:
        """Let a numbered table give only higher numbers than this one to new rows."""

    def run_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row. Needs a transaction."""
        with driver_errors_translated():
            self.cursor().executemany(sql, rows)

    @abstractmethod
    def analyse(self, table: str) -> None:
        """Update the statistics of a table, if the query planner depends on them.

        Args:
            table: its name, qualified and quoted.
        """
