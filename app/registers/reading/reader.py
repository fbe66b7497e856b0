"""Reads the files of a load into sorted runs, on all cores.

A file whose records are lines is cut into pieces of whole lines. Each piece, with the header before
it, can be read like a file. Worker processes read and sort the pieces while this process cuts the
next ones. If a worker cannot read its piece, this process reads the rest of the file by itself. The
usual cause is a quoted field that continues in the next piece. Rows and reports are the same as if
one process reads the whole file.
"""

import gc
import io
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, NamedTuple, cast

from app.processes import CORES, ForkedWorker
from app.registers.formats import FileFault, Format
from app.registers.formats.changes import Change, Columns
from app.registers.formats.csv_format import header_of
from app.registers.formats.lines import joined_stream
from app.registers.formats.report import Unreadable
from app.registers.reading.missing_columns import ColumnsSeen
from app.registers.reading.rejects import RECORD_CHARACTERS_MAX, RejectsFile, Remaining
from app.registers.reading.sorted_runs import Runs, read_value, write_run, write_value
from app.registers.reading.sources import InputFile
from app.storage.tables import Kind

RUN_ROWS = 100_000
"""The number of rows in a run that this process reads. They take about 30 MB."""
_ROWS_BETWEEN_PROGRESS = 5_000
_UNCOUNTED_BYTES_MAX = 4 * 1024 * 1024
"""The maximum number of bytes that a format reads before it yields their rows."""
PIECE_BYTES = 8 * 1024 * 1024
PIECE_LINES_MAX = 150_000
"""The limits of a piece. A worker process needs about 40 MB for its rows."""


class Progress(NamedTuple):
    """The progress of a load: first the bytes that it reads, then the rows that it writes."""

    file: str | None
    """The name of the file; None while rows are written."""
    done: int
    total: int | None
    rows: int
    """The rows of all files that have been read so far, or the rows that have been written."""


Show = Callable[[Progress], None]


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
                # Nor if a CR alone ends the header: rows would follow it up to the first LF.
                is_mixed = len(self.header.splitlines()) > self.header.count(b"\n")
                if not self.header or is_mixed or self.header.count(b'"') % 2:
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
        self._rejects.reject(line + self._lines_before, reason, record)

    def unreadable(self, column: str, found: Unreadable) -> None:
        """Count values of a column that cannot be read."""
        self._rejects.unreadable(column, found.moved(self._lines_before))

    def columns(self, names: Iterable[str]) -> None:
        """Add the names of columns. Raises FileFault if the header lacks some."""
        self.header = list(names)
        self._columns.add(self.header)


@dataclass
class PieceReport:
    """The findings of a worker in its piece. Lines are counted from the start of its input."""

    loaded: int = 0
    lines: int = 0
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    found: list[tuple[str, Columns]] = field(default_factory=list)
    """The columns, and the members of `Unreadable`."""
    names: dict[str, None] = field(default_factory=dict)
    """The names of columns, in the order of the piece."""

    def reject(self, line: int, reason: str, record: str) -> None:
        self.rejects.append((line, reason, record[:RECORD_CHARACTERS_MAX]))

    def skip(self, records: int = 1) -> None:
        self.skipped += records

    def note(self, text: str) -> None:
        self.notes.append(text)

    def unreadable(self, column: str, found: Unreadable) -> None:
        self.found.append((column, tuple(found)))

    def columns(self, names: Iterable[str]) -> None:
        """Keep names; a name that is reported twice is kept once."""
        self.names.update(dict.fromkeys(names))

    def repeat_to(self, report: PartReport) -> None:
        """Pass on all findings but the names of columns."""
        for reject in self.rejects:
            report.reject(*reject)
        report.skip(self.skipped)
        for text in self.notes:
            report.note(text)
        for column, found in self.found:
            report.unreadable(column, Unreadable(*found))


@dataclass
class Piece:
    """A piece of a file that a worker process reads.

    The worker writes its report and a sorted run to a temporary file.
    """

    format: Format
    kind: Kind
    columns: ColumnsSeen
    header: bytes
    """The lines that the worker reads before those of the piece."""
    lines: bytes
    runs: Runs

    def __post_init__(self) -> None:
        """Start the worker."""
        self.file = self.runs.new_file()
        self._child = ForkedWorker(self._read, [self.file])

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
        stream = io.BytesIO(self.header + self.lines)
        changes = cast(list[Columns], list(self.format.rows(stream, self.kind, report)))
        report.loaded = len(changes)
        changes = self.columns.narrowed(changes, report.names)
        write_value(vars(report), self.file)
        write_run(self.runs.order.sort(changes), self.runs.order, self.file)
        self.file.flush()


def _count_lines(piece: bytes) -> int:
    """Return the number of lines in a piece. Each of them has a line end."""
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return piece.count(b"\n")


@dataclass
class Reader:
    """Reads the files of a load, one after the other, and counts their rows."""

    format: Format
    kind: Kind
    rejects: RejectsFile
    """Receives all records that are not rows, in the order of the file."""
    columns: ColumnsSeen
    """Receives the names of columns."""
    runs: Runs
    """Receives the rows and changes."""
    show: Show
    """Is called regularly with the progress."""
    remaining: Remaining
    """Receives the sizes of the files, and how many bytes are read."""
    loaded: int = 0
    """The number of rows and changes so far. Rows with the same key are all counted."""

    def __post_init__(self) -> None:
        """Let the rejects know how many records there can be."""
        self.rejects.records_max = self.records_max

    def records_max(self) -> int | None:
        """Return the maximum number of records in all files, or None if it is not known yet."""
        remaining = self.remaining.records_max()
        if remaining is None:
            return None
        counted = self.loaded + _ROWS_BETWEEN_PROGRESS
        return counted + self.rejects.rejected + self.rejects.skipped + remaining

    def read(self, file: InputFile) -> None:
        """Read a file to its end. Raises FileFault with its name, and OSError."""
        self.rejects.file_name = file.name
        self.remaining.begin_file(file, self.format)
        header_lines = self.format.header_lines
        try:
            if header_lines is None or CORES < 2:
                self._read_whole(file, file.stream, 0)
            else:
                self._read_pieces(file, PieceCutter(file.stream, header_lines))
        except FileFault as fault:
            raise FileFault(fault.reason, fault.name or file.name) from None
        self.columns.end_file()
        self.remaining.end_file()
        self._show_progress(file)

    def _show_progress(self, file: InputFile) -> None:
        self.show(Progress(file.name, file.bytes_read(), file.bytes_total, self.loaded))

    def _read_whole(
        self, file: InputFile, stream: BinaryIO, lines_before: int, bytes_ahead: int = 0
    ) -> None:
        """Read a stream to its end in this process.

        Args:
            lines_before: how many lines of the file come before the stream.
            bytes_ahead: how many bytes of the stream have already been read from the file.
        """
        self.remaining.uncounted_bytes_max = _UNCOUNTED_BYTES_MAX + bytes_ahead
        report = PartReport(self.rejects, self.columns, lines_before)
        try:
            self._take_rows(file, self.format.rows(stream, self.kind, report), report)
        except FileFault as fault:
            raise fault.moved(lines_before) from None

    def _take_rows(self, file: InputFile, rows: Iterator[Change], report: PartReport) -> None:
        """Add rows to the runs, and show the progress."""
        run: list[Columns] = []
        while batch := cast(list[Columns], list(islice(rows, _ROWS_BETWEEN_PROGRESS))):
            run += self.columns.narrowed(batch, report.header)
            self.loaded += len(batch)
            self._show_progress(file)
            if len(run) >= RUN_ROWS:
                self.runs.add(run)
                run = []
        self.runs.add(run)

    def _read_pieces(self, file: InputFile, cutter: PieceCutter) -> None:
        """Let workers read pieces, and take their results in the order of the file."""
        pieces: deque[Piece] = deque()
        lines = 0
        try:
            while (piece := cutter.next_piece()) or pieces:
                if piece:
                    header = cutter.header if lines or pieces else b""
                    pieces.append(
                        Piece(self.format, self.kind, self.columns, header, piece, self.runs)
                    )
                if not piece or len(pieces) == CORES:
                    if not pieces[0].wait():
                        break
                    lines += self._take_piece(pieces[0], lines)
                    # The piece stays in the queue until here, so that it is ended below if taking
                    # its results fails.
                    self.remaining.count(len(pieces.popleft().lines))
                    self._show_progress(file)
        finally:
            for each in pieces:
                each.end()
        unread = cutter.rest([each.lines for each in pieces])
        if unread:
            header = cutter.header if lines else b""
            stream = joined_stream(header + unread, cutter.stream)
            lines -= header.count(b"\n")
            self._read_whole(file, stream, lines, bytes_ahead=len(header) + len(unread))

    def _take_piece(self, piece: Piece, lines_before: int) -> int:
        """Take the report and the run of a worker, and return the number of lines in its piece."""
        report, run_at = piece.report()
        part = PartReport(self.rejects, self.columns, lines_before - piece.header.count(b"\n"))
        part.columns(report.names)
        self.loaded += report.loaded
        report.repeat_to(part)
        self.runs.add_file(piece.file, run_at)
        return report.lines
