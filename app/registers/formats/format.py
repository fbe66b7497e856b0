"""The interface of a register file format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from app.registers.formats.changes import Change
from app.registers.formats.columns import Column, FileFault, KnownColumns, Layout
from app.storage.tables import Kind

if TYPE_CHECKING:
    pass  # REMOVED

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


# Counts values that cannot be read and so count as missing (D100).
#
# A date, year, time or word of a vehicle or fine that cannot be read does not reject the row.
# Without a count, nobody would notice that a whole column is lost.

TEXTS_MAX = 100


class Unreadable(NamedTuple):
    """What is known of the values of one column in a file, or in a part of it."""

    values: int
    """How many values cannot be read."""
    readable: int = 0
    """How many values can be read; not counted by formats without named columns."""
    line: int = 0
    """The line of the first value that cannot be read; 0 if it is not known."""
    texts: tuple[str, ...] = ()
    """The first of these values, trimmed. SEC: only their form may be shown (D70)."""

    def plus(self, later: "Unreadable") -> "Unreadable":
        """Return what is known of this part and a later one."""
        return Unreadable(
            self.values + later.values,
            self.readable + later.readable,
            self.line if self.values else later.line,
            (*self.texts, *later.texts)[:TEXTS_MAX],
        )

    def moved(self, lines: int) -> "Unreadable":
        """Return the same with its line counted from so many lines earlier."""
        return self._replace(line=self.line + lines) if self.line else self


class UnreadableValues:
    """Counts the unreadable values of one file, by column.

    Args:
        columns: the columns of a layout.
        lacking: the positions of the columns that the file lacks.
    """

    def __init__(self, columns: Sequence[Column], lacking: Collection[int] = ()) -> None:
        self._columns = [
            (position, column, column.blanks)
            for position, column in enumerate(columns)
            if column.blanks and position not in lacking and not column.is_constant
        ]
        self._readable = [0] * len(columns)
        self._found: dict[str, Unreadable] = {}

    def add_record(self, texts: Sequence[str], line_of: Callable[[], int]) -> None:
        """Count the values of a record that has become a row.

        Args:
            line_of: returns the line of the record.
        """
        for position, column, blanks in self._columns:
            text = texts[position]
            # PERF: the parsers cache what they return, so this takes 0.1 us per column.
            if not text:
                continue
            if column.parse(text) is not None:
                self._readable[position] += 1
            elif text.strip().lower() not in blanks:
                self._add(column, 1, line_of(), (text,))

    def add_block(self, texts: Sequence[list[str]], values: Sequence[list[Any]], line: int) -> None:
        """Count the values of many records, one per line, that have become rows.

        Args:
            texts, values: the texts and their values, column by column.
            line: the line of the first record.
        """
        for position, column, blanks in self._columns:
            missing = values[position].count(None)
            self._readable[position] += len(values[position]) - missing
            if not missing:
                continue
            pairs = zip(texts[position], values[position], strict=True)
            lost = [text for text, value in pairs if value is None and text]
            unreadable = [text for text in lost if text.strip().lower() not in blanks]
            if unreadable:
                first = line + texts[position].index(unreadable[0])
                self._add(column, len(unreadable), first, tuple(unreadable[:TEXTS_MAX]))

    def report_to(self, report: Report) -> None:
        """Report all columns that have values."""
        for position, column, _ in self._columns:
            found = self._found.get(column.key, Unreadable(0))
            found = found._replace(readable=self._readable[position])
            if found.values or found.readable:
                report.unreadable(column.key, found)

    def _add(self, column: Column, values: int, line: int, texts: tuple[str, ...]) -> None:
        # SEC: a short value can stand between many spaces.
        texts = tuple(text.strip() for text in texts)
        former = self._found.get(column.key)
        if former is not None and len(former.texts) >= TEXTS_MAX:
            self._found[column.key] = former._replace(values=former.values + values)
            return
        found = Unreadable(values, line=line, texts=texts)
        self._found[column.key] = former.plus(found) if former else found


# What CSV and JSON formats share: they find values by the names of columns or JSON members.


class NamedFormat(Format):
    """A format whose columns or JSON members have names.

    `CsvFormat` and `JsonFormat` read the records; their subclasses declare what the names mean.
    """

    has_header: bool
    """Whether a header names all columns, as in CSV."""
    ignored_names: frozenset[str] | None = None
    """Normalised names that the source has but that are not read. None: ignore all other names."""
    is_partial = False
    """Whether a merge keeps the values of columns that a file lacks (D66)."""

    @abstractmethod
    def names_in(self, head: bytes) -> frozenset[str]:
        """Return the normalised names in the head of a file; none if it has another syntax."""

    @abstractmethod
    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind of a file with these names, or None if it has another format.

        Args:
            names: the normalised names of all columns in the header, or of all members of the
                objects in the head.
        """

    @abstractmethod
    def layout(self, kind: Kind) -> Layout:
        """Return how the records of one file become rows. Each file needs a new layout."""

    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind of a file by the names in its head, or None."""
        return self.kind_of(self.names_in(head))

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns of the layout and the ignored names."""
        layout = self.layout(kind)
        return KnownColumns(
            layout.columns,
            self.ignored_names,
            layout.fold,
            has_header=self.has_header,
            is_partial=self.is_partial,
        )
