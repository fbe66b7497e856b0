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
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, cast

from app.registers.children import CORES, Child
from app.registers.columns_seen import ColumnsSeen
from app.registers.dumping import dump, undump
from app.registers.formats import HEAD_BYTES, FileFault, Format, Kind
from app.registers.layout import Layout
from app.registers.rejects import RECORD_CHARACTERS_MAX, RejectsFile
from app.registers.rows import Change
from app.registers.sorting import Columns, Order, Runs, write_run
from app.registers.sources import Member

RUN_ROWS = 100_000
"""Rows of a run that is read in one go; some 30 MB."""
PIECE_BYTES = 8 * 1024 * 1024
PIECE_LINES_MAX = 150_000
"""A piece of a file; a child process needs some 40 MB for its rows."""
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
                self._read_pieces(member, _Cutter(member.stream, header_lines))
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

    def _read_pieces(self, member: Member, cutter: "_Cutter") -> None:
        """Have pieces read by child processes; what they say is taken in the file's order."""
        pieces: deque[_Piece] = deque()
        lines = 0
        try:
            while (piece := cutter.next_piece()) or pieces:
                if piece:
                    header = cutter.header if lines or pieces else b""
                    pieces.append(
                        _Piece(self._format, self._kind, self._columns, header, piece, self._runs)
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

    def _take(self, piece: "_Piece", lines_before: int) -> int:
        """Take what a child made of a piece; return how many lines that was."""
        values, run_at = undump(piece.file)
        said = _Said(*values)
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


class _Cutter:
    """Cuts a stream between lines.

    Args:
        header_lines: how many lines at the beginning belong to all pieces, 0 or 1.
    """

    def __init__(self, stream: BinaryIO, header_lines: int) -> None:
        self._stream = stream
        self._header_lines = header_lines
        self._left: bytes | None = None
        self.header = b""

    def next_piece(self) -> bytes | None:
        """Return some lines, None if there is no more or it cannot, or need not, be cut."""
        is_first = self._left is None
        data = self._left or b""
        if len(data) < PIECE_BYTES:
            data += self._stream.read(PIECE_BYTES - len(data))
        self._left = data
        if is_first:
            if len(data) < PIECE_BYTES:
                return None
            if self._header_lines:
                self.header = data[: data.find(b"\n") + 1]
                # A header over several lines, or below blank ones, is not looked for.
                if not self.header.strip() or self.header.count(b'"') % 2:
                    return None
        end = data.rfind(b"\n") + 1
        while data.count(b"\n", 0, end) > PIECE_LINES_MAX:
            end = data.rfind(b"\n", 0, end // 2) + 1
        self._left = data[end:]
        return data[:end] or None

    def rest(self, pieces: list[bytes]) -> tuple[bytes, BinaryIO] | None:
        """Return what is left, with pieces that were cut off in vain; None if nothing is."""
        left = b"".join([*pieces, self._left or b""])
        if not left:
            left = self._stream.read(1)
        return (left, self._stream) if left else None


class _Said(NamedTuple):
    """What a child says of its piece; lines count from 1 in the piece."""

    loaded: int
    lines: int
    rejects: list[tuple[int, str, str]]
    skips: list[tuple[int, str]]
    notes: list[str]
    columns: list[str]


class _Piece:
    """A piece that a child process reads, sorts and writes to a file without a name."""

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
        self._child = Child(read, [self.file])

    def wait(self) -> bool:
        """Wait until it has been read; return whether it could be."""
        return self._child.wait()

    def end(self) -> None:
        """Give it up."""
        self._child.end()
        self.file.close()

    def _read(
        self, format_: Format, kind: Kind, columns: ColumnsSeen, header: bytes, order: Order
    ) -> None:
        report = _Notes(header.count(b"\n"))
        stream = io.BytesIO(header + self.lines)
        changes = cast(list[Columns], list(format_.rows(stream, kind, report)))
        said = _Said(
            len(changes),
            _lines_in(self.lines),
            report.rejects,
            report.skips,
            report.notes,
            list(report.names),
        )
        changes = columns.narrowed(changes, report.names)
        dump(tuple(said), self.file)
        write_run(order.sort(changes), order, self.file)
        self.file.flush()


class _Notes:
    """A report that keeps what it is told, for the parent."""

    def __init__(self, header_lines: int) -> None:
        self._header_lines = header_lines
        self.rejects: list[tuple[int, str, str]] = []
        self.skips: list[tuple[int, str]] = []
        self.notes: list[str] = []
        self.names: dict[str, None] = {}

    def reject(self, line: int, reason: str, record: str) -> None:
        self.rejects.append((line - self._header_lines, reason, record[:RECORD_CHARACTERS_MAX]))

    def skip(self, line: int, reason: str) -> None:
        self.skips.append((line - self._header_lines, reason))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def columns(self, names: Iterable[str]) -> None:
        self.names.update(dict.fromkeys(names))


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


def _lines_in(piece: bytes) -> int:
    """Return how many lines a piece has, each with its end."""
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return piece.count(b"\n")
