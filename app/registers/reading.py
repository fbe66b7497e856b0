"""Reads the files of a load into sorted runs, on as many cores as there are.

A file of lines can be cut between any two of them: each piece, behind the header, is a file of
its own. So pieces are read, sorted and written to disk by child processes, while this process
goes on to the next piece. Whatever a child cannot do, above all a quoted record that does not end
with its piece, this process does from there on by itself: what is loaded, and what is said of the
rest, is always what reading the file in one go would give.
"""

import gc
import io
import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from app.registers.formats import HEAD_BYTES, FileFault, Format, Kind, Report
from app.registers.rejects import RECORD_CHARACTERS_MAX, RejectsFile
from app.registers.sorting import Columns, Runs, dump, undump, write_run
from app.registers.sources import Member

RUN_ROWS = 100_000
"""Rows of a run that is read in one go; some 30 MB."""
PIECE_BYTES = 8 * 1024 * 1024
PIECE_LINES_MAX = 150_000
"""A piece of a file; a child process needs some 40 MB for its rows."""
_ROWS_BETWEEN_PROGRESS = 5_000
_STOPS = (signal.SIGINT, signal.SIGTERM)
_CORES = len(os.sched_getaffinity(0))


class Progress(NamedTuple):
    """How far a load is: the member that is being read, and rows read so far, of all of them."""

    member: Member
    rows: int


Show = Callable[[Progress], None]


class Reader:
    """Reads members of one layout, one after the other, and counts.

    Args:
        rejects: takes what is no row, in the order of the file.
        runs: takes the rows and changes.
        show: is told now and then how far it is.
    """

    def __init__(
        self, format_: Format, kind: Kind, rejects: RejectsFile, runs: Runs, show: Show
    ) -> None:
        self._format = format_
        self._kind = kind
        self._rejects = rejects
        self._runs = runs
        self._show = show
        self.loaded = 0
        """Rows and changes so far, those that come again included."""

    def read(self, member: Member) -> None:
        """Read a member to its end; raises FileFault with its name, and OSError."""
        self._rejects.file_name = member.name
        # Formats that are no lines have no such attribute.
        header_lines: int | None = getattr(self._format, "header_lines", None)
        try:
            if header_lines is None or _CORES < 2:
                self._read_in_one_go(member, member.stream, 0)
            else:
                self._read_pieces(member, _Cutter(member.stream, header_lines))
        except FileFault as fault:
            raise FileFault(fault.reason, fault.name or member.name) from None
        self._show(Progress(member, self.loaded))

    def _read_in_one_go(self, member: Member, stream: BinaryIO, lines_before: int) -> None:
        report = _Shifted(self._rejects, lines_before)
        changes = iter(self._format.rows(stream, self._kind, report))
        run: list[Columns] = []
        while some := cast(list[Columns], list(islice(changes, _ROWS_BETWEEN_PROGRESS))):
            run += some
            self.loaded += len(some)
            self._show(Progress(member, self.loaded))
            if len(run) >= RUN_ROWS:
                self._runs.add(run)
                run = []
        self._runs.add(run)

    def _read_pieces(self, member: Member, cutter: "_Cutter") -> None:
        """Have pieces read by child processes; what they say is taken in the file's order."""
        children: deque[_Child] = deque()
        lines = 0
        try:
            while (piece := cutter.next_piece()) or children:
                if piece:
                    header = cutter.header if lines or children else b""
                    children.append(_Child(self._format, self._kind, header, piece, self._runs))
                if not piece or len(children) == _CORES:
                    said = children[0].wait()
                    if said is None:
                        break
                    self._take(said, lines)
                    self._runs.add_file(children.popleft().file)
                    lines += said.lines
                    self._show(Progress(member, self.loaded))
        finally:
            for child in children:
                child.end()
        rest = cutter.rest([child.piece for child in children])
        if rest is not None:
            header = cutter.header if lines else b""
            stream = _chained(header, *rest)
            self._read_in_one_go(member, stream, lines - header.count(b"\n"))

    def _take(self, said: "_Said", lines_before: int) -> None:
        self.loaded += said.loaded
        for line, reason, record in said.rejects:
            self._rejects.reject(line + lines_before, reason, record)
        for line, reason in said.skips:
            self._rejects.skip(line + lines_before, reason)
        for text in said.notes:
            self._rejects.note(text)


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


class _Child:
    """A process that reads one piece, sorts its rows and writes them to a file without a name."""

    def __init__(
        self, format_: Format, kind: Kind, header: bytes, piece: bytes, runs: Runs
    ) -> None:
        self.piece = piece
        self.file = runs.new_file()
        # What stops the load waits: it must not meet a child that still is as its parent.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            self._process_id = os.fork()
            if self._process_id == 0:
                self._work(format_, kind, header, runs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def wait(self) -> _Said | None:
        """Return what it says, None if it failed; then its file stands where the run begins."""
        _, status = os.waitpid(self._process_id, 0)
        self._process_id = 0
        if status:
            self.file.close()
            return None
        self.file.seek(0)
        return _Said(*undump(self.file))

    def end(self) -> None:
        """Make an end of it if it still runs."""
        if self._process_id:
            # Ctrl-C can come when it has been waited for, before that is noted.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process_id, signal.SIGKILL)
                os.waitpid(self._process_id, 0)
        self.file.close()

    def _work(self, format_: Format, kind: Kind, header: bytes, runs: Runs) -> NoReturn:
        status = 1
        try:
            for number in _STOPS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            # The register's lock must end with the parent, and is held through its descriptor.
            keep = self.file.fileno()
            os.closerange(3, keep)
            os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
            gc.disable()
            report = _Notes(header.count(b"\n"))
            stream = io.BytesIO(header + self.piece)
            changes = cast(list[Columns], list(format_.rows(stream, kind, report)))
            lines = _lines_in(self.piece)
            said = _Said(len(changes), lines, report.rejects, report.skips, report.notes)
            dump(tuple(said), self.file)
            write_run(runs.order.sort(changes), self.file)
            self.file.flush()
            status = 0
        finally:
            # NOTE: what went wrong is said by the parent, which reads the piece again.
            os._exit(status)


class _Notes:
    """A report that keeps what it is told, for the parent."""

    def __init__(self, header_lines: int) -> None:
        self._header_lines = header_lines
        self.rejects: list[tuple[int, str, str]] = []
        self.skips: list[tuple[int, str]] = []
        self.notes: list[str] = []

    def reject(self, line: int, reason: str, record: str) -> None:
        self.rejects.append((line - self._header_lines, reason, record[:RECORD_CHARACTERS_MAX]))

    def skip(self, line: int, reason: str) -> None:
        self.skips.append((line - self._header_lines, reason))

    def note(self, text: str) -> None:
        self.notes.append(text)


class _Shifted:
    """A report on a part of a file that knows how many lines came before the part."""

    def __init__(self, report: Report, lines_before: int) -> None:
        self._report = report
        self._lines_before = lines_before

    def reject(self, line: int, reason: str, record: str) -> None:
        self._report.reject(line + self._lines_before, reason, record)

    def skip(self, line: int, reason: str) -> None:
        self._report.skip(line + self._lines_before, reason)

    def note(self, text: str) -> None:
        self._report.note(text)


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
