"""Reads all files of a load into sorted runs, and checks their content."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

from app import clock
from app.registers.baseline import Baseline
from app.registers.formats import OF_STATES, FileFault, Format, advice, recognise
from app.registers.formats.changes import Columns, order_of
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.encodings import is_utf_16, require_encoding
from app.registers.formats.json_splitter import is_empty_array
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.native import Native
from app.registers.history import REPLACE
from app.registers.reading.missing_columns import ColumnsSeen
from app.registers.reading.reader import Progress, Reader, Show
from app.registers.reading.rejects import RejectsFile, Remaining
from app.registers.reading.sorted_runs import Runs
from app.registers.reading.sources import InputFile, open_files
from app.registers.request import LoadRequest, counts_as_loaded
from app.registers.space import Space
from app.storage.tables import Kind

NO_SNAPSHOT = (
    "The file contains changes, so it cannot replace a register; load it with --mode merge."
)
_UNTERMINATED = (
    "The last record looks complete, but has no line end, and the previous file ended with one: it "
    "may be cut off within its last value. If not, repeat the load with --allow-unterminated."
)
_MARKUP = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+<(\?xml|workbook|!doctype|html|head|body|table|meta)\b", re.IGNORECASE
)
_NO_LINE_END = "the last record looks complete, but has no line end; some programs leave it out"
_NOTHING_READ = (
    "no row was read, so the register does not count as updated; if the source can have no rows, "
    "repeat the load with --empty-ok"
)


class ContentDigest:
    """The checksum and the size of all bytes of a load, decompressed."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.bytes = 0

    def add(self, data: bytes) -> None:
        self.sha256.update(data)
        self.bytes += len(data)


class Intake:
    """The content of the files of a load: sorted runs of rows, and a report on all other records.

    Args:
        files: the files. The first one decides the format and the kind of all.
        runs_directory: the directory for sorted runs that do not fit in memory.
        show: is called regularly with the progress.
        content: receives all bytes of the files, decompressed.
    """

    def __init__(
        self,
        files: Iterator[InputFile],
        request: LoadRequest,
        runs_directory: Path,
        show: Show,
        content: ContentDigest,
    ) -> None:
        first = next(files)
        self.format, self.kind = detect(first, request)
        self.known = self.format.known_columns(self.kind)
        """The columns that the format knows."""
        self.request = request
        self.rejects = RejectsFile(request.max_rejects, request.rejects)
        self.runs = Runs(order_of(self.kind), runs_directory)
        self.show = show
        self.read_at = 0
        """The time when the last file was read, in Unix seconds."""
        self.baseline: Baseline | None = None
        """The earlier loads that this load is compared with. `read` sets it."""
        self._files = chain((first,), files)
        self._columns = ColumnsSeen(
            self.known,
            request.allow_missing,
            self.rejects,
            keeps_absent=request.mode != REPLACE and not request.blank_missing,
        )
        self._content = content
        self._reader = Reader(
            self.format,
            self.kind,
            self.rejects,
            self._columns,
            self.runs,
            self._show_and_check_space,
            Remaining(request.files, lambda: content.bytes, are_trusted=request.are_trusted),
        )
        self._are_terminated: list[bool] = []
        self._space: Space | None = None

    @property
    def loaded(self) -> int:
        """How many rows and changes were read."""
        return self._reader.loaded

    @property
    def records(self) -> int:
        """How many records were read: those loaded, and those rejected and skipped."""
        return self.loaded + self.rejects.rejected + self.rejects.skipped

    @property
    def is_fresh(self) -> bool:
        """Whether the register counts as updated: a record was valid, or it may be empty."""
        return counts_as_loaded(self.loaded + self.rejects.skipped, self.request.accepted)

    @property
    def is_terminated(self) -> bool | None:
        """Whether the last lines of all files have line ends. None if no file needs one."""
        return all(self._are_terminated) if self._are_terminated else None

    @property
    def checksum(self) -> str:
        """SHA-256 of all decompressed bytes of the files, in hexadecimal."""
        return self._content.sha256.hexdigest()

    def read(self, space: Space, baseline: Baseline) -> None:
        """Read all files.

        Raises OperatorError if a file cannot be loaded, too many records are rejected, columns are
        missing, or the disk has too little space.
        """
        self._space, self.baseline = space, baseline
        columns = self.known.columns
        try:
            for file in self._files:
                # The last page of an API is an empty array, which has no kind.
                if self.records and is_empty_array(file.head):
                    continue
                self._require_same(file)
                self._reader.read(file)
                self._check_end(file, baseline)
        finally:
            # They may explain why the load is refused.
            self.rejects.notes += self.rejects.lost.notes(columns)
        self.request.require_whole()
        self._columns.require_expected(self.loaded)
        self.rejects.require_few(self.loaded)
        self.rejects.lost.require_readable(columns, self.request.allow_loss)
        self.rejects.note_unwritten()
        if not self.is_fresh:
            self.rejects.notes.append(_NOTHING_READ)
        space.require(self.loaded)
        self.read_at = clock.now()

    def narrowed(self, changes: list[Columns]) -> list[Columns]:
        """Return changes from the runs, as narrow rows if the load lacks members."""
        return self._columns.narrowed(changes)

    def _require_same(self, file: InputFile) -> None:
        """Raise FileFault if a file differs from the first in format or kind, or cannot replace."""
        if detect(file, self.request) != (self.format, self.kind):
            raise FileFault(
                f"The first file is {self.format.name} with {self.kind}, but this one is not; "
                "load it with a command of its own.",
                file.name,
            )
        if self.request.mode == REPLACE and not self.format.is_snapshot(file.head):
            raise FileFault(NO_SNAPSHOT, file.name)

    def _check_end(self, file: InputFile, baseline: Baseline) -> None:
        """Note a last line without a line end. Raise FileFault if it should have one."""
        if not file.head or not self.format.ends_with_line(file.head):
            return
        is_terminated = file.is_terminated()
        self._are_terminated.append(is_terminated)
        # Some sources never end their last line.
        if not is_terminated and baseline.is_terminated and not self.request.allow_unterminated:
            raise FileFault(_UNTERMINATED, file.name)
        if not is_terminated:
            self.rejects.note(_NO_LINE_END)

    def _show_and_check_space(self, progress: Progress) -> None:
        if self._space is not None:
            self._space.require_for_rest(progress)
        self.show(progress)


@contextmanager
def opened_intake(request: LoadRequest, runs_directory: Path, show: Show) -> Iterator[Intake]:
    """Open the files of a load and detect their format and kind.

    Args:
        request: the files, and the format and kind if the operator names them.
        runs_directory: the directory for sorted runs that do not fit in memory.
        show: is called regularly with the progress.

    Raises OperatorError and OSError.
    """
    request.require_whole()
    content = ContentDigest()
    files = open_files(request.files, content.add, are_trusted=request.are_trusted)
    with closing(files):
        intake = Intake(files, request, runs_directory, show, content)
        with closing(intake.runs):
            yield intake


def detect(file: InputFile, request: LoadRequest) -> tuple[Format, Kind]:
    """Return the format and the kind of a file.

    The head of the file decides, unless the operator names them. Raises FileFault if the head fits
    no format, or not what the operator names. An empty file is refused too, unless the operator
    allows it with `--empty-ok` and names both.
    """
    if not file.head and not (request.empty_ok and request.format and request.kind):
        hint = "; to load it with --empty-ok, add --format and --kind" if request.empty_ok else ""
        raise FileFault(f"The file is empty{hint}.", file.name)
    if is_utf_16(file.head):
        # Read as a single-byte encoding, its columns would only seem to be missing.
        raise FileFault("The file is UTF-16; save it as UTF-8.", file.name)
    if markup := _MARKUP.match(file.head):
        what = "XML" if markup[1].lower() in (b"?xml", b"workbook") else "HTML"
        hint = ", also if its name ends in .xls" if what == "HTML" else ""
        raise FileFault(f"The file is {what}{hint}; save it as CSV.", file.name)
    try:
        detected: Kind | None
        if request.format is None:
            format_, detected = recognise(file.head, request.formats)
        else:
            format_ = request.formats[request.format]
            detected = format_.recognise(file.head)
        kind = _kind_of(file.head, request, format_, detected)
        _require_options(format_, request)
        if isinstance(format_, CsvFormat):
            require_encoding(file.head, format_.encoding)
    except FileFault as fault:
        raise FileFault(fault.reason, file.name) from None
    return format_, kind


def _require_options(format_: Format, request: LoadRequest) -> None:
    """Raise FileFault if an option is named that does not apply to the format."""
    refused = None
    if request.state is not None and format_.name not in OF_STATES:
        refused = f"--state is only for {' and '.join(OF_STATES)}"
    elif request.encoding is not None and not isinstance(format_, CsvFormat):
        refused = "--encoding is only for CSV"
    elif request.deleted is not None and not isinstance(format_, Native):
        refused = "--deleted is only for native files; a mapping names the column in [columns]"
    elif request.timezone is not None and not isinstance(format_, (MappedCsv, Native)):
        refused = "--timezone is only for native and mapped files"
    if refused:
        raise FileFault(f"The file is read as {format_.name}; {refused}.")


def _kind_of(head: bytes, request: LoadRequest, format_: Format, detected: Kind | None) -> Kind:
    kind = detected or request.kind
    if kind is None:
        looked_for = f"looked for {format_.looked_for}.{advice(head)}"
        raise FileFault(f"The file is not {format_.name}: {looked_for}")
    if request.kind is not None and kind != request.kind:
        # Rows that are read as another kind would erase stored values.
        raise FileFault(f"The file contains {kind}, not {request.kind}.")
    format_.require_kind(kind)
    return kind
