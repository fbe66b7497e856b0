"""Reads the files of a load into sorted runs, on all cores.

A file whose records are lines can be cut between any two of them: each piece, with the header
before it, is a file of its own. So worker processes read and sort the pieces, while this process
cuts off the next ones. If a worker cannot read its piece, above all because a quoted record does
not end with it, this process reads the rest of the file by itself. The rows and the reports are
always those of reading the file in one go.
"""

import io
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, cast

from app.registers.forked_worker import CORES
from app.registers.formats import HEAD_BYTES, FileFault
from app.registers.formats.changes import Change, Columns
from app.registers.reading.columns_seen import ColumnsSeen
from app.registers.reading.detection import Detected
from app.registers.reading.pieces import Piece, PieceCutter
from app.registers.reading.rejects import RejectsFile
from app.registers.reading.sorted_runs import Runs
from app.registers.reading.sources import Member

RUN_ROWS = 100_000
"""The rows of a run that this process reads; some 30 MB."""
_ROWS_BETWEEN_PROGRESS = 5_000
_UNCOUNTED_BYTES_MAX = 4 * 1024 * 1024
"""The most that a format reads of a stream before it yields the rows."""


class Progress(NamedTuple):
    """How far a load is: bytes of the file that is being read, then rows that are written."""

    file: str | None
    """The file; None while rows are written."""
    done: int
    total: int | None
    rows: int
    """Rows of all files read so far, or rows written."""


Show = Callable[[Progress], None]


class Reader:
    """Reads the members of a load, one after the other, and counts.

    Args:
        rejects: receives what is no row, in the order of the file.
        columns: receives the names of columns.
        runs: receives the rows and changes.
        show: is called now and then with the progress.
        bytes_read: returns how many bytes of all members have been read, decompressed.
    """

    def __init__(
        self,
        detected: Detected,
        rejects: RejectsFile,
        columns: ColumnsSeen,
        runs: Runs,
        show: Show,
        bytes_read: Callable[[], int],
    ) -> None:
        self._format, self._kind = detected
        self._rejects = rejects
        self._columns = columns
        self._runs = runs
        self._show = show
        self._bytes_read = bytes_read
        self._bytes_counted = 0
        self._bytes_uncounted_max: int | None = None
        self.loaded = 0
        """Rows and changes so far; those with the same key are counted each time."""

    @property
    def bytes_counted(self) -> int:
        """How many bytes of all members, decompressed, the counted records take at least."""
        if self._bytes_uncounted_max is None:
            return self._bytes_counted
        return max(self._bytes_counted, self._bytes_read() - self._bytes_uncounted_max)

    @property
    def rows_max(self) -> int:
        """How many rows these bytes have at most."""
        return self.loaded + _ROWS_BETWEEN_PROGRESS

    def read(self, member: Member) -> None:
        """Read a member to its end; raises FileFault with its name, and OSError."""
        self._rejects.file_name = member.name
        header_lines = self._format.header_lines
        try:
            if header_lines is None or CORES < 2:
                self._read_in_one_go(member, member.stream, 0)
            else:
                self._read_pieces(member, PieceCutter(member.stream, header_lines))
        except FileFault as fault:
            raise FileFault(fault.reason, fault.name or member.name) from None
        self._columns.end_file()
        self._bytes_counted, self._bytes_uncounted_max = self._bytes_read(), None
        self._show_progress(member)

    def _show_progress(self, member: Member) -> None:
        done = member.bytes_read()
        self._show(Progress(member.name, done, member.bytes_total, self.loaded))

    def _read_in_one_go(
        self, member: Member, stream: BinaryIO, lines_before: int, bytes_ahead: int = 0
    ) -> None:
        """Read a stream to its end.

        Args:
            lines_before: how many lines of the member come before the stream.
            bytes_ahead: how many bytes of the stream have been read from the member already.
        """
        self._bytes_uncounted_max = _UNCOUNTED_BYTES_MAX + bytes_ahead
        report = _ReportOfPart(self._rejects, self._columns, lines_before)
        try:
            self._take_rows(member, self._format.rows(stream, self._kind, report), report)
        except FileFault as fault:
            raise fault.moved(lines_before) from None

    def _take_rows(self, member: Member, rows: Iterator[Change], report: "_ReportOfPart") -> None:
        changes = iter(rows)
        run: list[Columns] = []
        while some := cast(list[Columns], list(islice(changes, _ROWS_BETWEEN_PROGRESS))):
            run += self._columns.narrowed(some, report.header)
            self.loaded += len(some)
            self._show_progress(member)
            if len(run) >= RUN_ROWS:
                self._runs.add(run)
                run = []
        self._runs.add(run)

    def _read_pieces(self, member: Member, cutter: PieceCutter) -> None:
        """Let workers read pieces, and take their reports in the order of the file."""
        pieces: deque[Piece] = deque()
        lines = 0
        try:
            while (piece := cutter.next_piece()) or pieces:
                if piece:
                    header = cutter.header if lines or pieces else b""
                    pieces.append(
                        Piece(self._format, self._kind, self._columns, header, piece, self._runs)
                    )
                if not piece or len(pieces) == CORES:
                    if not pieces[0].wait():
                        break
                    lines += self._take_piece(pieces[0], lines)
                    # Only now: if taking it fails, the piece must be ended below.
                    self._bytes_counted += len(pieces.popleft().lines)
                    self._show_progress(member)
        finally:
            for each in pieces:
                each.end()
        rest = cutter.rest([each.lines for each in pieces])
        if rest is not None:
            header = cutter.header if lines else b""
            stream = _joined(header, *rest)
            lines -= header.count(b"\n")
            self._read_in_one_go(member, stream, lines, bytes_ahead=len(header) + len(rest[0]))

    def _take_piece(self, piece: Piece, lines_before: int) -> int:
        """Take what a worker made of a piece; return how many lines it has."""
        report, run_at = piece.report()
        self._columns.add(report.columns)
        self.loaded += report.loaded
        for line, reason, record in report.rejects:
            self._rejects.reject(line + lines_before, reason, record)
        for line, reason in report.skips:
            self._rejects.skip(line + lines_before, reason)
        for text in report.notes:
            self._rejects.note(text)
        self._runs.add_file(piece.file, run_at)
        return report.lines


class _ReportOfPart:
    """A report on a part of a file, which counts the lines before the part as well."""

    def __init__(self, report: RejectsFile, columns: ColumnsSeen, lines_before: int) -> None:
        self._report = report
        self._columns = columns
        self._lines_before = lines_before
        self.header: Collection[str] = ()

    def reject(self, line: int, reason: str, record: str) -> None:
        self._report.reject(line + self._lines_before, reason, record)

    def skip(self, line: int, reason: str) -> None:
        self._report.skip(line + self._lines_before, reason)

    def note(self, text: str) -> None:
        self._report.note(text)

    def columns(self, names: Iterable[str]) -> None:
        self.header = list(names)
        self._columns.add(self.header)


class _JoinedStream(io.RawIOBase):
    """Some bytes, then a stream."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        super().__init__()
        self._start = io.BytesIO(start)
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start.read(len(buffer)) or self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _joined(header: bytes, start: bytes, stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_JoinedStream(header + start, stream), HEAD_BYTES))
