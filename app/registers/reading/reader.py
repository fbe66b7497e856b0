"""Reads the files of a load into sorted runs, on all cores.

A file whose records are lines is cut into pieces of whole lines. Each piece, with the header before
it, can be read like a file. Worker processes read and sort the pieces while this process cuts the
next ones. If a worker cannot read its piece, this process reads the rest of the file by itself. The
usual cause is a quoted field that continues in the next piece. Rows and reports are the same as if
one process reads the whole file.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple, cast

from app.processes import CORES
from app.registers.formats import FileFault, Format
from app.registers.formats.changes import Change, Columns
from app.registers.formats.streams import joined_stream
from app.registers.reading.missing_columns import ColumnsSeen
from app.registers.reading.pieces import PartReport, Piece, PieceCutter
from app.registers.reading.rejects import RejectsFile, Remaining
from app.registers.reading.sorted_runs import Runs
from app.registers.reading.sources import InputFile
from app.storage.tables import Kind

RUN_ROWS = 100_000
"""The number of rows in a run that this process reads. They take about 30 MB."""
_ROWS_BETWEEN_PROGRESS = 5_000
_UNCOUNTED_BYTES_MAX = 4 * 1024 * 1024
"""The maximum number of bytes that a format reads before it yields their rows."""


class Progress(NamedTuple):
    """The progress of a load: first the bytes that it reads, then the rows that it writes."""

    file: str | None
    """The name of the file; None while rows are written."""
    done: int
    total: int | None
    rows: int
    """The rows of all files that have been read so far, or the rows that have been written."""


Show = Callable[[Progress], None]


class Reader:
    """Reads the files of a load, one after the other, and counts their rows.

    Args:
        detected: the format and the kind of all files.
        rejects: receives all records that are not rows, in the order of the file.
        columns: receives the names of columns.
        runs: receives the rows and changes.
        show: is called regularly with the progress.
        remaining: receives the sizes of the files and of what is read of them.
    """

    def __init__(
        self,
        detected: tuple[Format, Kind],
        rejects: RejectsFile,
        columns: ColumnsSeen,
        runs: Runs,
        show: Show,
        remaining: Remaining,
    ) -> None:
        self._detected = self._format, self._kind = detected
        self._rejects = rejects
        self._columns = columns
        self._runs = runs
        self._show = show
        self._remaining = remaining
        rejects.records_max = self.records_max
        self.loaded = 0
        """The number of rows and changes so far. Those with the same key are all counted."""

    def records_max(self) -> int | None:
        """Return the maximum number of records in all files, or None if it is not known yet."""
        remaining = self._remaining.records_max()
        if remaining is None:
            return None
        counted = self.loaded + _ROWS_BETWEEN_PROGRESS
        return counted + self._rejects.rejected + self._rejects.skipped + remaining

    def read(self, file: InputFile) -> None:
        """Read a file to its end. Raises FileFault with its name, and OSError."""
        self._rejects.file_name = file.name
        self._remaining.begin_file(file, self._format)
        header_lines = self._format.header_lines
        try:
            if header_lines is None or CORES < 2:
                self._read_whole(file, file.stream, 0)
            else:
                self._read_pieces(file, PieceCutter(file.stream, header_lines))
        except FileFault as fault:
            raise FileFault(fault.reason, fault.name or file.name) from None
        self._columns.end_file()
        self._remaining.end_file()
        self._show_progress(file)

    def _show_progress(self, file: InputFile) -> None:
        self._show(Progress(file.name, file.bytes_read(), file.bytes_total, self.loaded))

    def _read_whole(
        self, file: InputFile, stream: BinaryIO, lines_before: int, bytes_ahead: int = 0
    ) -> None:
        """Read a stream to its end in this process.

        Args:
            lines_before: how many lines of the file come before the stream.
            bytes_ahead: how many bytes of the stream have already been read from the file.
        """
        self._remaining.uncounted_bytes_max = _UNCOUNTED_BYTES_MAX + bytes_ahead
        report = PartReport(self._rejects, self._columns, lines_before)
        try:
            self._take_rows(file, self._format.rows(stream, self._kind, report), report)
        except FileFault as fault:
            raise fault.moved(lines_before) from None

    def _take_rows(self, file: InputFile, rows: Iterator[Change], report: PartReport) -> None:
        """Add rows to the runs, and show the progress."""
        run: list[Columns] = []
        while batch := cast(list[Columns], list(islice(rows, _ROWS_BETWEEN_PROGRESS))):
            run += self._columns.narrowed(batch, report.header)
            self.loaded += len(batch)
            self._show_progress(file)
            if len(run) >= RUN_ROWS:
                self._runs.add(run)
                run = []
        self._runs.add(run)

    def _read_pieces(self, file: InputFile, cutter: PieceCutter) -> None:
        """Let workers read pieces, and take their results in the order of the file."""
        pieces: deque[Piece] = deque()
        lines = 0
        try:
            while (piece := cutter.next_piece()) or pieces:
                if piece:
                    header = cutter.header if lines or pieces else b""
                    pieces.append(Piece(self._detected, self._columns, header, piece, self._runs))
                if not piece or len(pieces) == CORES:
                    if not pieces[0].wait():
                        break
                    lines += self._take_piece(pieces[0], lines)
                    # The piece stays in the queue until here, so that it is ended below if taking
                    # its results fails.
                    self._remaining.count(len(pieces.popleft().lines))
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
        part = PartReport(self._rejects, self._columns, lines_before - piece.header_lines)
        part.columns(report.names)
        self.loaded += report.loaded
        report.repeat_to(part)
        self._runs.add_file(piece.file, run_at)
        return report.lines
