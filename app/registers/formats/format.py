"""The interface of a register file format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import call
from typing import Any, BinaryIO, Protocol

from app.registers.formats.changes import Change, RowDeletion
from app.registers.formats.columns import (
    FileFault,
    KnownColumns,
    Layout,
    RowFault,
    RowSkip,
)
from app.registers.formats.report import Report, UnreadableValues, ValuesNotUtf8
from app.storage.tables import Kind, Row

HEAD_BYTES = 64 * 1024
"""The number of decompressed bytes by which the format of a file is recognised."""
RECORD_BYTES_MIN = 2
"""The size of the shortest record in any format: one character and a line end."""


class Format(ABC):
    """A format of register files. It recognises a file and reads its records as rows.

    To add a format whose columns have names, subclass `CsvFormat` or `JsonFormat`. For any other
    format, subclass `Format`. Then add an instance to `formats_of`. One instance reads many files,
    so it must not keep data of a file.
    """

    name: str
    """The value of `--format`, such as `native-csv`."""
    register: str
    """The register that is loaded if the operator does not name one."""
    looked_for: str
    """How a file is recognised. It completes the sentence "Looked for ..."."""
    kinds: frozenset[Kind]
    """The kinds of rows that a file can have. One file has rows of one kind."""
    header_lines: int | None = None
    """How many lines at the beginning of a file name its columns: 1 for CSV with a header, else 0.

    Set this if each record is a line. Large files are then cut into pieces, each with these lines
    before it, and read in parallel. None: a file is read as a whole, by one process.
    """
    page_rows: frozenset[int] = frozenset()
    """How many rows a page of the source's API has: a file with as many may be one page only."""
    shortest_record = "A\n"
    """The shortest record that is not rejected, with its line end if it needs one."""

    @abstractmethod
    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind of a file if it has this format, else None.

        Args:
            head: its first `HEAD_BYTES`, decompressed, or the whole file if it is shorter.
        """

    @abstractmethod
    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns that files of a kind can have."""

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
        """Return whether a file has all rows of its source, as a replace needs.

        Override this for formats whose files can contain changes only.
        """
        return True

    def ends_with_line(self, head: bytes) -> bool:
        """Return whether a complete file ends with a line end.

        If so, a missing line end can mean that the file is cut off: nothing else shows a cut within
        the last field. Override this for formats that mark their end in another way.
        """
        return True

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size in bytes of the shortest record of a file that is not rejected.

        A load with too many rejects ends earlier if this is larger (D70). It must never be larger
        than the true size.
        """
        return len(self.shortest_record)

    def require_kind(self, kind: Kind) -> None:
        """Raise FileFault if files of this format cannot have rows of a kind."""
        if kind not in self.kinds:
            kinds = " or ".join(sorted(self.kinds))
            raise FileFault(f"{self.name} files contain {kinds}, not {kind}.")


class NamedFormat(Format):
    """A format whose columns or JSON members have names.

    `CsvFormat` and `JsonFormat` read the records; their subclasses declare what the names mean.
    """

    ignored_names: frozenset[str] | None = None
    """Normalised names that the source has but that are not read. None: ignore all other names."""
    is_partial = False
    """Whether a merge keeps the values of columns that a file lacks."""

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
        return self.kind_of(self.names_in(head))

    def known_columns(self, kind: Kind) -> KnownColumns:
        layout = self.layout(kind)
        return KnownColumns(
            layout.columns,
            self.ignored_names,
            layout.fold,
            has_header=bool(self.header_lines),
            is_partial=self.is_partial,
        )


class Records(Protocol):
    """The records of a file; iterating over them yields each as `texts_of` takes it."""

    @property
    def is_record_utf8(self) -> bool:
        """Whether the record that was yielded last is UTF-8."""

    def __iter__(self) -> Iterator[Any]:
        """Yield each record, or a tuple of rows for a block of records that was read at once."""

    def line(self) -> int:
        """Return the line of the record that was yielded last."""

    def reject(self, reason: str) -> None:
        """Reject the record that was yielded last."""


def rows_of(
    records: Records,
    texts_of: Callable[[Any], Sequence[str]],
    layout: Layout,
    report: Report,
    unreadable: UnreadableValues,
) -> Iterator[Row | RowDeletion]:
    """Yield one row or deletion per valid record; report the others, and values not readable.

    Args:
        texts_of: returns the texts of the columns of a record. Raises RowFault.
        unreadable: counts the values of the file.
    """
    parsers = [column.parse for column in layout.columns]
    build, not_utf8 = layout.build, ValuesNotUtf8(layout.columns)
    key_columns = layout.key_columns
    is_deleted = parsers.pop() if key_columns else bool
    try:
        for record in records:
            if type(record) is tuple:
                yield from record
                continue
            try:
                texts = texts_of(record)
                if key_columns and is_deleted(texts[-1]):
                    # Only the key is read: the other values of a row to remove can be anything.
                    key = map(call, parsers[:key_columns], texts)
                    yield RowDeletion((*(value or "" for value in key), ()))
                    continue
                row = build(map(call, parsers, texts))
            except RowFault as fault:
                records.reject(str(fault))
            except RowSkip:
                report.skip()
            else:
                unreadable.add_record(texts, records.line)
                if not records.is_record_utf8:
                    not_utf8.add_record(texts, records.line)
                yield row
    finally:
        # They may explain why there are too many rejects.
        unreadable.report_to(report)
        not_utf8.report_to(report)
