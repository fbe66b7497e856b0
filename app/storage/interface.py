"""What every engine offers beside Peewee's own methods, so that nobody asks which one it is."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal

import peewee

from app.storage.errors import driver_errors_translated
from app.storage.tables import RegisterRef

Row = tuple[Any, ...]


class Engine(peewee.Database, ABC):
    """A database, with a connection for each thread.

    Each engine inherits this class and Peewee's class of the same engine.
    """

    dialect: ClassVar[Literal["sqlite", "postgres"]]
    """As a backup's manifest names the engine."""
    file: Path | None = None
    """The file that holds the database; None if a server does."""

    @property
    @abstractmethod
    def scratch_directory(self) -> Path:
        """The directory where a load keeps rows that wait: beside the data if that is here."""

    @abstractmethod
    def rows(self, sql: str, params: Sequence[object]) -> list[Row]:
        """Run a hot query and return all its rows.

        Raises peewee.PeeweeException if the database cannot answer.
        """

    @abstractmethod
    def recover(self, error: Exception) -> None:
        """Make this thread's connection fit for the next query, after an error."""

    @abstractmethod
    def may_be_gone(self, error: Exception) -> bool:
        """Tell whether a statement may have failed because a register was removed meanwhile."""

    @abstractmethod
    def write_refusal(self) -> str | None:
        """Return why the database takes no writes, None if it takes them.

        Raises peewee.PeeweeException if the database cannot be read.
        """

    @abstractmethod
    def missing_rights(self) -> list[str]:
        """Return what this user of the database may not do, a sentence for the operator each.

        Raises peewee.PeeweeException if the database cannot be read.
        """

    @abstractmethod
    def attach_registers(self, registers: tuple[RegisterRef, ...]) -> None:
        """Let this thread's connection read exactly these registers, under their schema names.

        Raises peewee.OperationalError if one cannot be read.
        """

    @abstractmethod
    def can_attach(self, registers: tuple[RegisterRef, ...]) -> bool:
        """Tell whether a connection without these registers could attach all of them."""

    @abstractmethod
    def consistent_read(self) -> AbstractContextManager[object]:
        """Return a transaction that only reads, and sees the data of one moment."""

    @abstractmethod
    def migration(self) -> AbstractContextManager[object]:
        """Return a transaction in which nobody else migrates, whatever host it is on (D29)."""

    @abstractmethod
    def take_turn(self, *numbers: int) -> None:
        """Let transactions that give the same one or two numbers run one by one from here on."""

    @abstractmethod
    def lock_rows(self, query: Any) -> None:
        """Let nobody change or refer to the selected rows until the transaction ends."""

    def greatest(self, columns: Sequence[peewee.Node], null: str) -> Any:
        """Return an expression for the greatest of `columns`, or null if all of them are.

        Args:
            null: an SQL literal of the columns' type, below every real value, to stand for null.
        """
        if len(columns) < 2:  # SQLite's MAX of one argument is the aggregate.
            return columns[0] if columns else peewee.SQL("NULL")
        return self._greatest(columns, null)

    @abstractmethod
    def _greatest(self, columns: Sequence[peewee.Node], null: str) -> Any:
        """Do the same for two or more columns."""

    @abstractmethod
    def each_of(self, texts: peewee.Value, column: str) -> peewee.Select:
        """Return a query with one row for each text of a list.

        Args:
            texts: the place of a parameter whose values `listed` returns.
            column: the name of the query's only column.
        """

    @abstractmethod
    def listed(self, texts: Sequence[str]) -> object:
        """Return a list of texts as the one parameter that `each_of` takes."""

    @property
    @abstractmethod
    def has_lateral(self) -> bool:
        """Whether a joined subquery can refer to the tables before it."""

    @abstractmethod
    def select_by_key(
        self, select: str, columns: Sequence[str], keys: Iterable[Row]
    ) -> Iterator[Row]:
        """Yield the rows whose first columns are one of these keys, in any order; in a transaction.

        Args:
            select: the query up to its condition.
            columns: the names of the key's columns, quoted.
            keys: as many values each as there are `columns`; no key twice.
        """

    @abstractmethod
    def fill(self, table: str, columns: Sequence[str], batches: Iterable[Sequence[Row]]) -> None:
        """Write rows into an empty table, in the order of their keys, each key once.

        Args:
            table: its name as it stands in SQL.
            columns: the columns that the rows have, in their order, quoted.
        """

    def run_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row; within a transaction."""
        with driver_errors_translated():
            self.cursor().executemany(sql, rows)

    @abstractmethod
    def analyse(self, table: str) -> None:
        """Tell the planner what a table holds now, if the planner's choice depends on it.

        Args:
            table: its name as it stands in SQL.
        """
