"""Cuts files into pieces of whole lines, which worker processes read and sort in parallel."""

import gc
import io
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from app.processes import ForkedWorker
from app.registers.formats import Format
from app.registers.formats.changes import Columns
from app.registers.formats.delimited import header_of
from app.registers.formats.report import Unreadable
from app.registers.reading.missing_columns import ColumnsSeen
from app.registers.reading.rejects import RECORD_CHARACTERS_MAX, RejectsFile
from app.registers.reading.sorted_runs import Runs, read_value, write_run, write_value
from app.storage.tables import Kind

PIECE_BYTES = 8 * 1024 * 1024
PIECE_LINES_MAX = 150_000
"""The limits of a piece. A worker process needs about 40 MB for its rows."""


class PieceCutter:
    """Cuts a stream into pieces of whole lines.

    Args:
        header_lines: how many lines at the beginning (0 or 1) are repeated before each piece.
    """

    def __init__(self, stream: BinaryIO, header_lines: int) -> None:
        self.stream = stream
        self._header_lines = header_lines
        self._uncut: bytes | None = None
        self.header = b""
        """The header that comes before each piece except the first, which begins with it."""

    def next_piece(self) -> bytes | None:
        """Return the next piece, or None at the end and if the file is not to be cut."""
        is_first = self._uncut is None
        data = self._uncut or b""
        if len(data) < PIECE_BYTES:
            data += self.stream.read(PIECE_BYTES - len(data))
        self._uncut = data
        if is_first:
            if len(data) < PIECE_BYTES:
                return None
            if self._header_lines:
                self.header = header_of(data)
                # A file is not cut if its header has several lines or comes after blank lines.
                if not self.header or self.header.count(b'"') % 2:
                    return None
        end = data.rfind(b"\n") + 1
        while data.count(b"\n", 0, end) > PIECE_LINES_MAX:
            end = data.rfind(b"\n", 0, end // 2) + 1
        self._uncut = data[end:]
        return data[:end] or None

    def rest(self, pieces: list[bytes]) -> bytes:
        """Return the bytes to read before the rest of `stream`, or none at the end of the file.

        Args:
            pieces: the pieces that were cut but could not be read.
        """
        return b"".join([*pieces, self._uncut or b""]) or self.stream.read(1)


@dataclass
class PieceReport:
    """What a worker finds in its piece. Lines are counted from the start of what it read."""

    loaded: int = 0
    lines: int = 0
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    found: list[tuple[str, Columns]] = field(default_factory=list)
    """The columns, and the members of `Unreadable`."""
    names: list[str] = field(default_factory=list)

    def reject(self, line: int, reason: str, record: str) -> None:
        """Keep a rejected record."""
        self.rejects.append((line, reason, record[:RECORD_CHARACTERS_MAX]))

    def skip(self, records: int = 1) -> None:
        """Count records."""
        self.skipped += records

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)

    def unreadable(self, column: str, found: Unreadable) -> None:
        """Keep what is known of a column."""
        self.found.append((column, tuple(found)))

    def columns(self, names: Iterable[str]) -> None:
        """Keep names; a name that is reported twice is kept once."""
        self.names = list(dict.fromkeys([*self.names, *names]))

    def repeat_to(self, report: "PartReport") -> None:
        """Report everything but the names again."""
        for reject in self.rejects:
            report.reject(*reject)
        report.skip(self.skipped)
        for text in self.notes:
            report.note(text)
        for column, found in self.found:
            report.unreadable(column, Unreadable(*found))


class PartReport:
    """A report on a part of a file, which counts lines from the start of the file.

    Args:
        lines_before: how many lines of the file come before the part.
    """

    def __init__(self, rejects: RejectsFile, columns: ColumnsSeen, lines_before: int) -> None:
        self._rejects = rejects
        self._columns = columns
        self._lines_before = lines_before
        self.note = rejects.note
        self.skip = rejects.skip
        self.header: Collection[str] = ()

    def reject(self, line: int, reason: str, record: str) -> None:
        """Reject a record."""
        self._rejects.reject(line + self._lines_before, reason, record)

    def unreadable(self, column: str, found: Unreadable) -> None:
        """Count values of a column that cannot be read."""
        self._rejects.unreadable(column, found.moved(self._lines_before))

    def columns(self, names: Iterable[str]) -> None:
        """Add the names of columns. Raises FileFault if the header lacks some."""
        self.header = list(names)
        self._columns.add(self.header)


class Piece:
    """A piece of a file that a worker process reads.

    The worker writes its report and a sorted run to a temporary file.

    Args:
        detected: the format and the kind of the file.
        header: the lines that the worker reads before those of the piece.
    """

    def __init__(
        self,
        detected: tuple[Format, Kind],
        columns: ColumnsSeen,
        header: bytes,
        lines: bytes,
        runs: Runs,
    ) -> None:
        self._detected = detected
        self._columns = columns
        self._header = header
        self.lines = lines
        self.file = runs.new_file()
        self._order = runs.order
        self._child = ForkedWorker(self._read, [self.file])

    @property
    def header_lines(self) -> int:
        """How many lines the worker reads before those of the piece."""
        return self._header.count(b"\n")

    def wait(self) -> bool:
        """Wait for the worker, and return whether it could read the piece."""
        return self._child.wait()

    def report(self) -> tuple[PieceReport, int]:
        """Return the worker's report, and the position of the sorted run in the file."""
        values, run_at = read_value(self.file)
        return PieceReport(**values), run_at

    def end(self) -> None:
        """End the worker and discard its result."""
        self._child.end()
        self.file.close()

    def _read(self) -> None:
        """Read the piece in the worker process."""
        # PERF: this process ends after the piece and needs all its rows until then. Collecting
        # garbage would take 0.4 us per row, and 1.3 us per row that is a named tuple.
        gc.disable()
        report = PieceReport(lines=_count_lines(self.lines))
        format_, kind = self._detected
        stream = io.BytesIO(self._header + self.lines)
        changes = cast(list[Columns], list(format_.rows(stream, kind, report)))
        report.loaded = len(changes)
        changes = self._columns.narrowed(changes, report.names)
        write_value(vars(report), self.file)
        write_run(self._order.sort(changes), self._order, self.file)
        self.file.flush()


def _count_lines(piece: bytes) -> int:
    """Return the number of lines in a piece. Each of them has a line end."""
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return piece.count(b"\n")
