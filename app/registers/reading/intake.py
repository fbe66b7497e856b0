"""What is read from the files of a load, and what becomes of it."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from app import clock
from app.registers.applying.apply_changes import Outcome, apply_changes
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table, order_of
from app.registers.baseline import Baseline, require_few_removed, require_no_shrink
from app.registers.formats import FileFault, has_line_ends, is_empty_array
from app.registers.formats.changes import Columns, are_complete
from app.registers.history import REPLACE
from app.registers.models import text_of
from app.registers.reading.columns_seen import ColumnsSeen
from app.registers.reading.detection import layout_of, opened_files
from app.registers.reading.reader import Progress, Reader, Show
from app.registers.reading.rejects import RejectsFile
from app.registers.reading.remaining import Remaining
from app.registers.reading.sorted_runs import Runs
from app.registers.reading.sources import Member
from app.registers.request import LoadRequest, LoadResult
from app.registers.space import Space

_NO_SNAPSHOT = (
    "It tells what changed, not all there is: it can be merged, but cannot replace anything."
)
_UNTERMINATED = (
    "The last line has no line end, and that of the previous file had one: it may be cut off. "
    "If the file is whole, repeat the load with --allow-unterminated."
)
_NOTHING_READ = (
    "no row was read, so the register is as old as before; if this source may have nothing to "
    "tell, load it with --empty-ok"
)


class Intake:
    """What is read from the files of a load, sorted, and what became of the rest."""

    def __init__(
        self,
        opened: Iterator[Member],
        request: LoadRequest,
        runs_directory: Path,
        show: Show,
        heard: "Heard",
    ) -> None:
        first = next(opened)
        self.layout = layout_of(first, request)
        self.kind = self.layout.kind
        self.request = request
        self.rejects = RejectsFile(None, request.max_rejects)
        self.runs = Runs(order_of(self.kind), runs_directory)
        self._members = chain((first,), opened)
        self._columns = ColumnsSeen(
            self.layout.format.declared(self.kind),
            request.allow_missing,
            self.rejects,
            keeps_absent=request.mode != REPLACE and not request.blank_missing,
        )
        self._heard = heard
        self._reader = Reader(
            self.layout,
            self.rejects,
            self._columns,
            self.runs,
            self._tell,
            lambda: heard.bytes,
        )
        self._remaining = Remaining(request.files, are_trusted=request.are_trusted)
        self._are_terminated: list[bool] = []
        self._show = show
        self._space: Space | None = None
        self._baseline: Baseline | None = None
        self._read_at = 0
        self.rejects.rows_max = self._rows_max

    @property
    def loaded(self) -> int:
        """Rows and changes that were read."""
        return self._reader.loaded

    @property
    def is_fresh(self) -> bool:
        """Whether the register is as young as this load: a record was read that is no reject."""
        return bool(self.loaded or self.rejects.skipped or self.request.empty_ok)

    def read(self, space: Space, baseline: Baseline) -> None:
        """Read all files; raises OperatorError, of too many rejects and too little disk space."""
        self._space, self._baseline = space, baseline
        for member in self._members:
            # Pages of an API's answer are asked for until one has nothing.
            if self.loaded and is_empty_array(member.head):
                continue
            if layout_of(member, self.request) != self.layout:
                raise FileFault(
                    f"The file is not {self.layout.format.name} of {self.layout.kind} as the "
                    "first one is; one command loads one kind into one register.",
                    member.name,
                )
            if self.request.mode == REPLACE and not self.layout.format.is_snapshot(member.head):
                raise FileFault(_NO_SNAPSHOT, member.name)
            self._remaining.begin(member, self.layout.format, self._reader.bytes_counted)
            self._reader.read(member)
            self._look_at_end(member, baseline)
        self.request.require_whole()
        self._columns.require_expected(self.loaded)
        self.rejects.require_few(self.loaded)
        self.rejects.note_unwritten()
        if not self.is_fresh:
            self.rejects.notes.append(_NOTHING_READ)
        space.require(self.loaded, self.runs)
        self._read_at = clock.now()

    def _look_at_end(self, member: Member, baseline: Baseline) -> None:
        """Note a last line without an end; raise FileFault if there should be one (D68)."""
        if not has_line_ends(self.layout.format, member.head):
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

    def _tell(self, progress: Progress) -> None:
        if self._space is not None:
            self._space.require_for_rest(progress, self.runs)
        self._show(progress)

    def outcomes(
        self,
        table: Table | None,
        counts: Counts,
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[Outcome]:
        """Compare what was read with what is held, in the order of the keys; and count.

        Args:
            table: what is held, None if nothing.
            after: leave out the groups up to this one.
            until: the last group; called again, this goes on behind it.
        """
        is_replace = self.request.mode == REPLACE
        written = 0
        for batch in self.runs.batches(after, until):
            held: Iterable[Columns] = ()
            if is_replace:
                self._require_rows(batch)
            if table is not None and counts.held_before:
                find = table.find_between if is_replace else table.find_of
                held = find(batch)
            changes = self._columns.narrowed(batch)
            outcome = apply_changes(self.kind, changes, held, self._read_at)
            counts.add(outcome)
            yield outcome
            if after is None:  # Else this is not the process that shows it.
                written += len(batch) * (1 if until is None else 2)
                done = min(written, self.loaded)
                self._show(Progress(None, done, self.loaded, done))

    def require_no_shrink(self, counts: Counts) -> None:
        """Raise OperatorError if far fewer rows are left than there were, unless that is right."""
        if self._baseline is None or self.request.allow_shrink:
            return
        if self.request.mode == REPLACE:
            require_no_shrink(self.kind, counts, self._baseline)
        else:
            require_few_removed(self.kind, counts)

    def _require_rows(self, changes: list[Columns]) -> None:
        """Raise FileFault if there are deletions or cancellations: what they are of is not told."""
        if not are_complete(changes):
            raise FileFault(_NO_SNAPSHOT)

    def read_so_far(self) -> dict[str, object]:
        """Return what the history keeps of a load that failed: nothing of it is loaded."""
        rejected, skipped = self.rejects.rejected, self.rejects.skipped
        rows = self.loaded + rejected + skipped
        return {"rows": rows, "rejected": rejected, "skipped": skipped} | self._found()

    def columns(self, counts: Counts) -> dict[str, Any]:
        """Return what the history keeps of a load that is done."""
        return self._counts(counts) | self._found()

    def _found(self) -> dict[str, Any]:
        """Return what the history keeps of the files."""
        return {
            "is_terminated": all(self._are_terminated) if self._are_terminated else None,
            "reasons": text_of(self.rejects.reasons),
            "notes": text_of(self.rejects.notes),
        }

    def _counts(self, counts: Counts) -> dict[str, Any]:
        loaded = self.loaded - counts.skipped
        skipped = self.rejects.skipped + counts.skipped
        return {
            "rows": loaded + self.rejects.rejected + skipped,
            "loaded": loaded,
            "changed": counts.changed,
            "rejected": self.rejects.rejected,
            "skipped": skipped,
            "checksum": self._heard.sha256.hexdigest(),
        }

    def columns_of_done(self, counts: Counts) -> dict[str, Any]:
        """Return the columns of the history's line of a load that succeeds."""
        return self.columns(counts) | {"known": text_of(counts.known.document())}

    def result(self, load_id: int | None, register: str, counts: Counts) -> LoadResult:
        """Return how the load ended."""
        rejects = self.rejects
        return LoadResult(
            load=load_id,
            register=register,
            kind=self.kind.value,
            mode=self.request.mode,
            format=self.layout.format.name,
            dry_run=self.request.dry_run,
            held_before=counts.held_before,
            held=counts.held,
            rejects=str(rejects.path) if rejects.path and rejects.written else None,
            reasons=rejects.reasons,
            notes=rejects.notes,
            **self._counts(counts),
        )


class Heard:
    """Takes all that is read of a load, decompressed, in the order of the files."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.bytes = 0

    def hear(self, data: bytes) -> None:
        """Take some bytes."""
        self.sha256.update(data)
        self.bytes += len(data)


@contextmanager
def opened_intake(request: LoadRequest, runs_directory: Path, show: Show) -> Iterator[Intake]:
    """Look at the first file of a load; raises OperatorError, and OSError.

    Args:
        runs_directory: where what was read waits to be sorted.
        show: is told now and then how far it is.
    """
    request.require_whole()
    heard = Heard()
    with closing(opened_files(request, heard.hear)) as opened:
        intake = Intake(opened, request, runs_directory, show, heard)
        with closing(intake.runs):
            yield intake
