"""Reads all files of a load into sorted runs, and checks what they hold."""

import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

from app import clock
from app.registers.applying.table import order_of
from app.registers.baseline import Baseline
from app.registers.formats import FileFault, Format
from app.registers.formats.changes import Columns
from app.registers.formats.json_head import is_empty_array
from app.registers.history import REPLACE
from app.registers.reading.columns_seen import ColumnsSeen
from app.registers.reading.detection import detect
from app.registers.reading.reader import Progress, Reader, Show
from app.registers.reading.rejects import RejectsFile
from app.registers.reading.remaining import Remaining
from app.registers.reading.sorted_runs import Runs
from app.registers.reading.sources import Member, open_files
from app.registers.request import LoadRequest
from app.registers.space import Space
from app.storage.tables import Kind

NO_SNAPSHOT = "It holds changes only, so it can be merged, but it cannot replace a register."
_UNTERMINATED = (
    "The last line has no line end, and that of the previous file had one: it may be cut off. "
    "If the file is whole, repeat the load with --allow-unterminated."
)
_NOTHING_READ = (
    "no row was read, so the register is as old as before; if this source may have nothing to "
    "report, load it with --empty-ok"
)


class Intake:
    """What is read from the files of a load: sorted runs of rows, and a report on the rest.

    Args:
        members: the files; the first one decides what all of them are.
        runs_directory: where sorted runs wait if they do not fit in memory.
        show: is called now and then with the progress.
        content: has received all that was read of the members.
    """

    def __init__(
        self,
        members: Iterator[Member],
        request: LoadRequest,
        runs_directory: Path,
        show: Show,
        content: "ContentDigest",
    ) -> None:
        first = next(members)
        self._detected = detect(first, request)
        self.request = request
        self.rejects = RejectsFile(None, request.max_rejects)
        self.runs = Runs(order_of(self.kind), runs_directory)
        self.show = show
        self.read_at = 0
        """When the last file was read, in Unix seconds."""
        self.baseline: Baseline | None = None
        """What the load is compared with, once it is read."""
        self._members = chain((first,), members)
        self._columns = ColumnsSeen(
            self.format.known_columns(self.kind),
            request.allow_missing,
            self.rejects,
            keeps_absent=request.mode != REPLACE and not request.blank_missing,
        )
        self._content = content
        self._reader = Reader(
            self._detected,
            self.rejects,
            self._columns,
            self.runs,
            self._show_and_check_space,
            lambda: content.bytes,
        )
        self._remaining = Remaining(request.files, are_trusted=request.are_trusted)
        self._are_terminated: list[bool] = []
        self._space: Space | None = None
        self.rejects.rows_max = self._rows_max

    @property
    def format(self) -> Format:
        """The format of all files."""
        return self._detected.format

    @property
    def kind(self) -> Kind:
        """What all files hold."""
        return self._detected.kind

    @property
    def loaded(self) -> int:
        """How many rows and changes were read."""
        return self._reader.loaded

    @property
    def is_fresh(self) -> bool:
        """Whether the register becomes as young as this load: any record is no reject."""
        return bool(self.loaded or self.rejects.skipped or self.request.empty_ok)

    @property
    def is_terminated(self) -> bool | None:
        """Whether the last lines of all files have ends; None if that says nothing."""
        return all(self._are_terminated) if self._are_terminated else None

    @property
    def checksum(self) -> str:
        """SHA-256 of all that was read, decompressed, in hexadecimal."""
        return self._content.sha256.hexdigest()

    def read(self, space: Space, baseline: Baseline) -> None:
        """Read all files.

        Raises OperatorError for a file that cannot be loaded, too many rejects, missing columns and
        too little disk space.
        """
        self._space, self.baseline = space, baseline
        for member in self._members:
            # Clients ask an API for pages until one is empty.
            if self.loaded and is_empty_array(member.head):
                continue
            self._require_same(member)
            self._remaining.begin(member, self.format, self._reader.bytes_counted)
            self._reader.read(member)
            self._check_end(member, baseline)
        self.request.require_whole()
        self._columns.require_expected(self.loaded)
        self.rejects.require_few(self.loaded)
        self.rejects.note_unwritten()
        if not self.is_fresh:
            self.rejects.notes.append(_NOTHING_READ)
        space.require(self.loaded, self.runs)
        self.read_at = clock.now()

    def narrowed(self, changes: list[Columns]) -> list[Columns]:
        """Return changes of the runs, narrow if no row of the load has all columns (D66)."""
        return self._columns.narrowed(changes)

    def _require_same(self, member: Member) -> None:
        """Raise FileFault if a file is not what the first one is, or must not replace anything."""
        if detect(member, self.request) != self._detected:
            raise FileFault(
                f"The file is not {self.format.name} of {self.kind} as the first one is; "
                "one command loads one kind into one register.",
                member.name,
            )
        if self.request.mode == REPLACE and not self.format.is_snapshot(member.head):
            raise FileFault(NO_SNAPSHOT, member.name)

    def _check_end(self, member: Member, baseline: Baseline) -> None:
        """Note a last line without an end; raise FileFault if it should have one (D68)."""
        if not self.format.ends_with_line(member.head):
            return
        is_terminated = member.is_terminated()
        self._are_terminated.append(is_terminated)
        if not is_terminated and baseline.is_terminated and not self.request.allow_unterminated:
            raise FileFault(_UNTERMINATED, member.name)
        if not is_terminated:
            self.rejects.note("the last line has no line end: it may be cut off")

    def _rows_max(self) -> int | None:
        """Return how many records all files can have, None if that is not known yet."""
        to_come = self._remaining.records_max(self._reader.bytes_counted)
        if to_come is None:
            return None
        rejects = self.rejects
        return self._reader.rows_max + rejects.rejected + rejects.skipped + to_come

    def _show_and_check_space(self, progress: Progress) -> None:
        if self._space is not None:
            self._space.require_for_rest(progress, self.runs)
        self.show(progress)


class ContentDigest:
    """The checksum and the size of all that is read of a load, decompressed."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.bytes = 0

    def add(self, data: bytes) -> None:
        """Add some bytes."""
        self.sha256.update(data)
        self.bytes += len(data)


@contextmanager
def opened_intake(request: LoadRequest, runs_directory: Path, show: Show) -> Iterator[Intake]:
    """Open the files of a load, and detect what they are. Raises OperatorError and OSError.

    The arguments are those of `Intake`.
    """
    request.require_whole()
    content = ContentDigest()
    files = open_files(request.files, content.add, are_trusted=request.are_trusted)
    with closing(files) as members:
        intake = Intake(members, request, runs_directory, show, content)
        with closing(intake.runs):
            yield intake
