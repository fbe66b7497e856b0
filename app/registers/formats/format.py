"""What every register file format offers to the import."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from app.errors import OperatorError
from app.registers.formats.changes import Change
from app.storage.tables import Kind

if TYPE_CHECKING:
    from app.registers.formats.columns import Declared

HEAD_BYTES = 64 * 1024
"""How much of a file, decompressed, a format is recognised by."""


class FileFault(OperatorError):
    """A fault of a whole file: the load fails and changes nothing (formats 0.1, D28).

    `reason` is a sentence for the operator; `name` is the file, empty where only the
    caller knows it.

    Args:
        line: the line that the reason names as `{line}`, if it does.
    """

    def __init__(self, reason: str, name: str = "", line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason if line is None else reason.format(line=line)
        self.name = name
        self._template = reason
        self._line = line

    def moved(self, lines: int) -> "FileFault":
        """Return the fault of a part of a file as that of the file, which has lines before it."""
        line = None if self._line is None else self._line + lines
        return FileFault(self._template, self.name, line)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.name else self.reason


class RowFault(Exception):
    """A fault of one record; the message is the reason that the rejects file gives."""


class RowSkip(Exception):
    """A valid record that has nothing to do here; the message is the reason."""


def require_kind(format_name: str, kind: Kind, held: Kind) -> None:
    """Raise FileFault if a format is asked for another kind than it holds."""
    if kind != held:
        raise FileFault(f"{format_name} holds {held}, no {kind}.")


class Report(Protocol):
    """Takes the records that do not become rows."""

    def reject(self, line: int, reason: str, record: str) -> None:
        """Note a record that cannot be loaded.

        `line` is the physical line, from 1, on which the record begins; `record` is its text,
        or what of it may be shown.
        """

    def skip(self, line: int, reason: str) -> None:
        """Note a valid record that has nothing to do here."""

    def note(self, text: str) -> None:
        """Note something about the file that the operator should know."""

    def columns(self, names: Iterable[str]) -> None:
        """Note names of columns, or of JSON members, that the file has, as they stand there.

        A header comes before the first row is given out.
        """


class Format(Protocol):
    """One layout of register files; instances hold no state and serve many files.

    A format whose records are lines, so that a file may be cut between any two of them, also has
    `header_lines`: how many lines at its beginning, 0 or 1, belong to each piece.

    Optional, too, are `record_bytes_min`, the size of the shortest record that is not rejected, for
    formats without a header line; and `has_trailer`, true if a file says itself where it ends.
    """

    @property
    def name(self) -> str:
        """What `--format` calls it, for example `native-csv`."""

    @property
    def register(self) -> str:
        """The register its rows belong to unless the operator names another (D25)."""

    @property
    def looked_for(self) -> str:
        """What a file is recognised by, in words that complete "looked for ..."."""

    def recognise(self, head: bytes) -> Kind | None:
        """Return what the file holds, judged by its first `HEAD_BYTES`, or None if not ours."""

    def is_snapshot(self, head: bytes) -> bool:
        """Tell whether a file that begins so is the whole truth: `replace` may load it (D28)."""

    def declared(self, kind: Kind) -> "Declared":
        """Return which columns a file of this kind has, may have, and has for others (D65)."""

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Read a file from its first byte; memory stays flat whatever its size.

        Raises FileFault at the fault, rows before it having been given out already.
        """
