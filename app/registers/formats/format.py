"""The interface of a register file format: what a load asks of each one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol

from app.registers.formats.changes import Change
from app.registers.formats.columns import KnownColumns
from app.registers.formats.faults import FileFault
from app.storage.tables import Kind

HEAD_BYTES = 64 * 1024
"""How many bytes of a file, decompressed, a format is recognised by."""
RECORD_BYTES_MIN = 2
"""The shortest record that any format can have: one character and a line end."""


class Report(Protocol):
    """Receives everything about a file that is not a row."""

    def reject(self, line: int, reason: str, record: str) -> None:
        """Report a record that cannot be loaded.

        Args:
            line: the physical line on which the record begins, counted from 1.
            reason: why, for the rejects file.
            record: its text, or the part of it that may be shown.
        """

    def skip(self, line: int, reason: str) -> None:
        """Report a valid record that is not loaded."""

    def note(self, text: str) -> None:
        """Report something about the file that the operator should know."""

    def columns(self, names: Iterable[str]) -> None:
        """Report names of columns, or of JSON members, as the file spells them.

        A format with a header reports it before its first row; the others report names as they
        meet them.
        """


class Format(ABC):
    """One layout of register files: recognises a file, and reads its records as rows.

    To add a format whose columns have names, subclass `CsvFormat` or `JsonFormat`, which do most of
    this; otherwise subclass `Format`. Then add an instance to `formats_of`. An instance keeps
    nothing of a file, so it can read many.
    """

    name: str
    """The value of `--format`, such as `native-csv`."""
    register: str
    """The register that is loaded if the operator does not name one (D25)."""
    looked_for: str
    """What a file is recognised by; completes the sentence "Looked for ..."."""
    kinds: frozenset[Kind]
    """What a file can hold; one file holds one of them."""
    header_lines: int | None = None
    """Set this if each record is a line, so that large files are read in pieces, in parallel.

    It says how many lines at the beginning of the file (0 or 1) are repeated before each piece.
    None: files are read in one go.
    """

    @abstractmethod
    def recognise(self, head: bytes) -> Kind | None:
        """Return what a file holds if it has this format, else None.

        Args:
            head: its first `HEAD_BYTES`, decompressed; all of a shorter file.
        """

    @abstractmethod
    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns that a file of this kind must, should and may have (D65)."""

    @abstractmethod
    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Yield what the records of a file say, in the order of the file.

        A record that is no row goes to `report`. Memory must not grow with the file.

        Args:
            stream: the file, decompressed, from its first byte.
            kind: one of `kinds`.

        Raises FileFault where the file cannot be read on, after the rows before that place.
        """

    def is_snapshot(self, head: bytes) -> bool:
        """Tell whether a file is complete, so that `--mode replace` may load it (D28).

        By default it is; override this for formats that report changes only.
        """
        return True

    def ends_with_line(self, head: bytes) -> bool:
        """Tell whether a missing line end at the end of a file may mean that it is cut off (D68).

        By default it does; override this for formats that mark their own end.
        """
        return True

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size in bytes, with the line end, of the shortest record that is no reject.

        A hopeless load is given up the earlier the larger this is (D70); it must not be too large.
        """
        return RECORD_BYTES_MIN

    def require_kind(self, kind: Kind) -> None:
        """Raise FileFault if files of this format cannot hold a kind."""
        if kind not in self.kinds:
            raise FileFault(f"{self.name} holds {' or '.join(sorted(self.kinds))}, not {kind}.")
