"""The interface of a register file format."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from app.registers.formats.changes import Change
from app.registers.formats.columns import KnownColumns
from app.registers.formats.faults import FileFault
from app.storage.tables import Kind

if TYPE_CHECKING:
    from app.registers.formats.unreadable import Unreadable

HEAD_BYTES = 64 * 1024
"""The number of decompressed bytes by which the format of a file is recognised."""
RECORD_BYTES_MIN = 2
"""The size of the shortest record in any format: one character and a line end."""


class Report(Protocol):
    """Receives everything that a format finds in a file except its rows."""

    def reject(self, line: int, reason: str, record: str) -> None:
        """Report a record that cannot be loaded.

        Args:
            line: the line on which the record begins, counted from 1.
            reason: the reason for the rejects file.
            record: the text of the record, or the part that may be written to the rejects file.
        """

    def skip(self) -> None:
        """Report a valid record that is not loaded."""

    def note(self, text: str) -> None:
        """Report a fact about the file that the operator should know."""

    def unreadable(self, column: str, found: "Unreadable") -> None:
        """Report how many values of a column cannot be read and count as missing (D100).

        Args:
            column: its key.
        """

    def columns(self, names: Iterable[str]) -> None:
        """Report the names of columns or JSON members, as the file spells them.

        A format with a header reports its names before the first row. Other formats report a name
        when they first find it.
        """


class Format(ABC):
    """A format of register files. It recognises a file and reads its records as rows.

    To add a format whose columns have names, subclass `CsvFormat` or `JsonFormat`. For any other
    format, subclass `Format`. Then add an instance to `formats_of`. One instance reads many files,
    so it must not keep data of a file.
    """

    name: str
    """The value of `--format`, such as `native-csv`."""
    register: str
    """The register that is loaded if the operator does not name one (D25)."""
    looked_for: str
    """How a file is recognised. It completes the sentence "Looked for ..."."""
    kinds: frozenset[Kind]
    """The kinds of rows that a file can have. One file has rows of one kind."""
    header_lines: int | None = None
    """How many lines at the beginning of a file (0 or 1) are repeated before each piece of it.

    Set this if each record is a line. Large files are then cut into pieces and read in parallel.
    None: a file is read as a whole, by one process.
    """

    @abstractmethod
    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind of a file if it has this format, else None.

        Args:
            head: its first `HEAD_BYTES`, decompressed, or the whole file if it is shorter.
        """

    @abstractmethod
    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns that files of a kind can have (D65)."""

    @abstractmethod
    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Yield the rows and changes of a file, in the order of the file.

        Memory must not grow with the file.

        Args:
            stream: the decompressed file, from its first byte.
            kind: one of `kinds`.
            report: receives every record that is rejected or skipped.

        Raises FileFault if the rest of the file cannot be read, after yielding the rows before it.
        """

    def is_snapshot(self, head: bytes) -> bool:
        """Return whether a file has all rows of its source, as a replace needs (D28).

        Override this for formats whose files can contain changes only.
        """
        return True

    def ends_with_line(self, head: bytes) -> bool:
        """Return whether a complete file ends with a line end (D68).

        If so, a missing line end can mean that the file is cut off. Override this for formats that
        mark their end in another way.
        """
        return True

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size in bytes of the shortest record that is not rejected, with its line end.

        A load with too many rejects ends earlier if this is larger (D70). It must never be larger
        than the true size.
        """
        return RECORD_BYTES_MIN

    def require_kind(self, kind: Kind) -> None:
        """Raise FileFault if files of this format cannot have rows of a kind."""
        if kind not in self.kinds:
            kinds = " or ".join(sorted(self.kinds))
            raise FileFault(f"{self.name} files contain {kinds}, not {kind}.")


class IgnoringReport:
    """A report that ignores everything, for looking at a file without loading it."""

    def reject(self, line: int, reason: str, record: str) -> None:
        """Ignore a record that is wrong."""

    def skip(self) -> None:
        """Ignore a record that is not for us."""

    def note(self, text: str) -> None:
        """Ignore a note."""

    def unreadable(self, column: str, found: "Unreadable") -> None:
        """Ignore values that cannot be read."""

    def columns(self, names: Iterable[str]) -> None:
        """Ignore the names of columns."""
