"""Reads the files of a load into sorted runs, on as many cores as there are.

A file of lines can be cut between any two of them: each piece, behind the header, is a file of
its own. So pieces are read, sorted and written to disk by child processes, while this process
goes on to the next piece. Whatever a child cannot do, above all a quoted record that does not end
with its piece, this process does from there on by itself: what is loaded, and what is said of the
rest, is always what reading the file in one go would give.
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
from app.registers.reading.detection import Layout
from app.registers.reading.dumping import undump
from app.registers.reading.pieces import Cutter, Piece, Said
from app.registers.reading.rejects import RejectsFile
from app.registers.reading.sorted_runs import Runs
from app.registers.reading.sources import Member

RUN_ROWS = 100_000
"""Rows of a run that is read in one go; some 30 MB."""
_ROWS_BETWEEN_PROGRESS = 5_000
_UNCOUNTED_BYTES_MAX = 4 * 1024 * 1024
"""What a format holds of a stream, at most, before it gives out the rows of it."""


class Progress(NamedTuple):
    """How far a load is: bytes of a file that is being read, else rows that are being written."""

    file: str | None
    done: int
    total: int | None
    rows: int
    """Rows read so far, of all files, or written."""


Show = Callable[[Progress], None]


class Reader:
    """Reads members of one layout, one after the other, and counts.

    Args:
        rejects: takes what is no row, in the order of the file.
        columns: takes what the files have for columns.
        runs: takes the rows and changes.
        show: is told now and then how far it is.
        bytes_heard: returns how many bytes of all members were read, decompressed.
    """

    def __init__(
        self,
        layout: Layout,
        rejects: RejectsFile,
        columns: ColumnsSeen,
        runs: Runs,
        show: Show,
        bytes_heard: Callable[[], int],
    ) -> None:
        self._format, self._kind = layout
        self._rejects = rejects
        self._columns = columns
        self._runs = runs
        self._show = show
        self._bytes_heard = bytes_heard
        self._bytes_counted = 0
        self._bytes_uncounted: int | None = None
        self.loaded = 0
        """Rows and changes so far, those that come again included."""

    @property
    def bytes_counted(self) -> int:
        """How many bytes of all members, decompressed, all records were counted of, at least."""
        if self._bytes_uncounted is None:
            return self._bytes_counted
        return max(self._bytes_counted, self._bytes_heard() - self._bytes_uncounted)

    @property
    def rows_max(self) -> int:
        """How many rows were read from these bytes, at most."""
        return self.loaded + _ROWS_BETWEEN_PROGRESS

    def read(self, member: Member) -> None:
        """Read a member to its end; raises FileFault with its name, and OSError."""
        self._rejects.file_name = member.name
        # Formats that are no lines have no such attribute.
        header_lines: int | None = getattr(self._format, "header_lines", None)
        try:
            if header_lines is None or CORES < 2:
                self._read_in_one_go(member, member.stream, 0)
            else:
                self._read_pieces(member, Cutter(member.stream, header_lines))
        except FileFault as fault:
            raise FileFault(fault.reason, fault.name or member.name) from None
        self._columns.end_file()
        self._bytes_counted, self._bytes_uncounted = self._bytes_heard(), None
        self._tell(member)

    def _tell(self, member: Member) -> None:
        done = member.bytes_read()
        self._show(Progress(member.name, done, member.bytes_total, self.loaded))

    def _read_in_one_go(
        self, member: Member, stream: BinaryIO, lines_before: int, bytes_ahead: int = 0
    ) -> None:
        """Read a stream to its end.

        Args:
            lines_before: lines of the member that are not in the stream.
            bytes_ahead: how much of the stream was read from the member before.
        """
        self._bytes_uncounted = _UNCOUNTED_BYTES_MAX + bytes_ahead
        report = _Shifted(self._rejects, self._columns, lines_before)
        try:
            self._take_rows(member, self._format.rows(stream, self._kind, report), report)
        except FileFault as fault:
            raise fault.moved(lines_before) from None

    def _take_rows(self, member: Member, rows: Iterator[Change], report: "_Shifted") -> None:
        changes = iter(rows)
        run: list[Columns] = []
        while some := cast(list[Columns], list(islice(changes, _ROWS_BETWEEN_PROGRESS))):
            run += self._columns.narrowed(some, report.header)
            self.loaded += len(some)
            self._tell(member)
            if len(run) >= RUN_ROWS:
                self._runs.add(run)
                run = []
        self._runs.add(run)

    def _read_pieces(self, member: Member, cutter: "Cutter") -> None:
        """Have pieces read by child processes; what they say is taken in the file's order."""
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
                    lines += self._take(pieces[0], lines)
                    # Not before: what is refused is to be ended.
                    self._bytes_counted += len(pieces.popleft().lines)
                    self._tell(member)
        finally:
            for each in pieces:
                each.end()
        rest = cutter.rest([each.lines for each in pieces])
        if rest is not None:
            header = cutter.header if lines else b""
            stream = _chained(header, *rest)
            lines -= header.count(b"\n")
            self._read_in_one_go(member, stream, lines, bytes_ahead=len(header) + len(rest[0]))

    def _take(self, piece: "Piece", lines_before: int) -> int:
        """Take what a child made of a piece; return how many lines that was."""
        values, run_at = undump(piece.file)
        said = Said(*values)
        self._columns.add(said.columns)
        self.loaded += said.loaded
        for line, reason, record in said.rejects:
            self._rejects.reject(line + lines_before, reason, record)
        for line, reason in said.skips:
            self._rejects.skip(line + lines_before, reason)
        for text in said.notes:
            self._rejects.note(text)
        self._runs.add_file(piece.file, run_at)
        return said.lines


class _Shifted:
    """A report on a part of a file that knows how many lines came before the part."""

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


class _Chain(io.RawIOBase):
    """Bytes, and a stream behind them."""

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


def _chained(header: bytes, start: bytes, stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Chain(header + start, stream), HEAD_BYTES))
