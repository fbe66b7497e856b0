"""Cuts files into pieces of whole lines, which worker processes read and sort in parallel."""

import gc
import io
from collections.abc import Iterable
from functools import partial
from typing import Any, BinaryIO, NamedTuple, cast

from app.processes import ForkedWorker
from app.registers.formats import Format
from app.registers.formats.changes import Columns, Order
from app.registers.formats.delimited import header_of
from app.registers.formats.report import Unreadable
from app.registers.reading.missing_columns import ColumnsSeen
from app.registers.reading.rejects import RECORD_CHARACTERS_MAX
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
        self._left: bytes | None = None
        self.header = b""
        """The header that comes before each piece except the first, which begins with it."""

    def next_piece(self) -> bytes | None:
        """Return the next piece, or None at the end and if the file is not to be cut."""
        is_first = self._left is None
        data = self._left or b""
        if len(data) < PIECE_BYTES:
            data += self.stream.read(PIECE_BYTES - len(data))
        self._left = data
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
        self._left = data[end:]
        return data[:end] or None

    def rest(self, pieces: list[bytes]) -> bytes:
        """Return the bytes to read before the rest of `stream`, or none at the end of the file.

        Args:
            pieces: the pieces that were cut but could not be read.
        """
        return b"".join([*pieces, self._left or b""]) or self.stream.read(1)


class PieceReport(NamedTuple):
    """The report of a worker on its piece. Line numbers count from the start of the piece."""

    loaded: int
    lines: int
    rejects: list[tuple[int, str, str]]
    skipped: int
    notes: list[str]
    unreadable: list[tuple[str, Any]]
    """The columns, and the members of `Unreadable`."""
    columns: list[str]


class Piece:
    """A piece of a file that a worker process reads.

    The worker writes its report and a sorted run to a temporary file.
    """

    def __init__(
        self,
        format_: Format,
        kind: Kind,
        columns: ColumnsSeen,
        header: bytes,
        lines: bytes,
        runs: Runs,
    ) -> None:
        self.lines = lines
        self.file = runs.new_file()
        read = partial(self._read, format_, kind, columns, header, runs.order)
        self._child = ForkedWorker(read, [self.file])

    def wait(self) -> bool:
        """Wait for the worker, and return whether it could read the piece."""
        return self._child.wait()

    def report(self) -> tuple[PieceReport, int]:
        """Return the worker's report, and the position of the sorted run in the file."""
        values, run_at = read_value(self.file)
        return PieceReport(*values), run_at

    def end(self) -> None:
        """End the worker and discard its result."""
        self._child.end()
        self.file.close()

    def _read(
        self, format_: Format, kind: Kind, columns: ColumnsSeen, header: bytes, order: Order
    ) -> None:
        """Read the piece in the worker process."""
        # PERF: this process ends after the piece and needs all its rows until then. Collecting
        # garbage would take 0.4 us per row, and 1.3 us per row that is a named tuple.
        gc.disable()
        report = _Recorder(header.count(b"\n"))
        stream = io.BytesIO(header + self.lines)
        changes = cast(list[Columns], list(format_.rows(stream, kind, report)))
        reported = PieceReport(
            len(changes),
            _count_lines(self.lines),
            report.rejects,
            report.skipped,
            report.notes,
            report.unreadables,
            list(report.names),
        )
        changes = columns.narrowed(changes, report.names)
        write_value(tuple(reported), self.file)
        write_run(order.sort(changes), order, self.file)
        self.file.flush()


class _Recorder:
    """A report that a worker records for its parent process."""

    def __init__(self, header_lines: int) -> None:
        self._header_lines = header_lines
        self.rejects: list[tuple[int, str, str]] = []
        self.skipped = 0
        self.notes: list[str] = []
        self.unreadables: list[tuple[str, Any]] = []
        self.names: dict[str, None] = {}

    def reject(self, line: int, reason: str, record: str) -> None:
        self.rejects.append((line - self._header_lines, reason, record[:RECORD_CHARACTERS_MAX]))

    def skip(self) -> None:
        self.skipped += 1

    def note(self, text: str) -> None:
        self.notes.append(text)

    def unreadable(self, column: str, found: Unreadable) -> None:
        self.unreadables.append((column, tuple(found.moved(-self._header_lines))))

    def columns(self, names: Iterable[str]) -> None:
        self.names.update(dict.fromkeys(names))


def _count_lines(piece: bytes) -> int:
    """Return the number of lines in a piece. Each of them has a line end."""
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return piece.count(b"\n")
