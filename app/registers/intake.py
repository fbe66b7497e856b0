"""What is read from the files of a load, and what becomes of it."""

import hashlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from app import clock
from app.errors import OperatorError
from app.registers.comparison import Counts, Outcome, compare
from app.registers.formats import (
    FileFault,
    Format,
    Kind,
    advice,
    is_empty_array,
    recognise,
)
from app.registers.history import REPLACE
from app.registers.reading import Progress, Reader, Show
from app.registers.rejects import RejectsFile
from app.registers.request import LoadRequest, LoadResult
from app.registers.sorting import Columns, Runs
from app.registers.sources import Heard, Member, in_order_of_dates, members
from app.registers.space import Space
from app.registers.writer import Table, order_of

SHRINK_MAX_PERCENT = 10
_NO_SNAPSHOT = (
    "It tells what changed, not all there is: it can be merged, but cannot replace anything."
)


class Layout(NamedTuple):
    """What the files of a load are."""

    format: Format
    kind: Kind


class Intake:
    """What is read from the files of a load, sorted, and what became of the rest."""

    def __init__(
        self,
        opened: Iterator[Member],
        request: LoadRequest,
        runs_directory: Path,
        show: Show,
        checksum: Any,
    ) -> None:
        first = next(opened)
        self.layout = _layout_of(first, request)
        self.kind = self.layout.kind
        self.request = request
        self.rejects = RejectsFile(None, request.max_rejects)
        self.runs = Runs(order_of(self.kind), runs_directory)
        self._members = chain((first,), opened)
        self._reader = Reader(self.layout.format, self.kind, self.rejects, self.runs, self._tell)
        self._show = show
        self._space: Space | None = None
        self._checksum = checksum
        self._read_at = 0

    @property
    def loaded(self) -> int:
        """Rows and changes that were read."""
        return self._reader.loaded

    def read(self, space: Space) -> None:
        """Read all files; raises OperatorError, of too many rejects and too little disk space."""
        self._space = space
        for member in self._members:
            # Pages of an API's answer are asked for until one has nothing.
            if self.loaded and is_empty_array(member.head):
                continue
            if _layout_of(member, self.request) != self.layout:
                raise FileFault(
                    f"The file is not {self.layout.format.name} of {self.layout.kind} as the "
                    "first one is; one command loads one kind into one register.",
                    member.name,
                )
            if self.request.mode == REPLACE and not self.layout.format.is_snapshot(member.head):
                raise FileFault(_NO_SNAPSHOT, member.name)
            self._reader.read(member)
        self.request.require_whole()
        self.rejects.require_few(self.loaded)
        space.require(self.loaded, self.runs)
        self._read_at = clock.now()

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
            outcome = compare(batch, held, self.runs.order, self._read_at)
            counts.add(outcome)
            yield outcome
            if after is None:  # Else this is not the process that shows it.
                written += len(batch) * (1 if until is None else 2)
                done = min(written, self.loaded)
                self._show(Progress(None, done, self.loaded, done))

    def require_no_shrink(self, counts: Counts) -> None:
        """Raise OperatorError if a replace leaves far less than there was, unless that is right."""
        if self.request.allow_shrink:
            return
        if not counts.held_before and not counts.held:
            raise OperatorError(
                f"there are no {self.kind} in what was read; if that is right, "
                "repeat it with --allow-shrink"
            )
        least = counts.held_before * (100 - SHRINK_MAX_PERCENT) / 100
        if counts.held < least:
            raise OperatorError(
                f"the register would shrink from {counts.held_before:,} to {counts.held:,} "
                f"{self.kind}, by more than {SHRINK_MAX_PERCENT} %; if that is right, "
                "repeat it with --allow-shrink"
            )

    def _require_rows(self, changes: list[Columns]) -> None:
        """Raise FileFault if there are deletions or cancellations: what they are of is not told."""
        if set(map(len, changes)) != {self.runs.order.row_columns}:
            raise FileFault(_NO_SNAPSHOT)

    @property
    def read_so_far(self) -> dict[str, object]:
        """The counts of a load that failed: nothing of what was read is loaded."""
        rejected, skipped = self.rejects.rejected, self.rejects.skipped
        rows = self.loaded + rejected + skipped
        return {"rows": rows, "rejected": rejected, "skipped": skipped}

    def columns(self, counts: Counts) -> dict[str, Any]:
        """Return the counts of this load's line in the history, and the checksum."""
        loaded = self.loaded - counts.skipped
        skipped = self.rejects.skipped + counts.skipped
        return {
            "rows": loaded + self.rejects.rejected + skipped,
            "loaded": loaded,
            "changed": counts.changed,
            "rejected": self.rejects.rejected,
            "skipped": skipped,
            "checksum": self._checksum.hexdigest(),
        }

    def result(self, register: str, counts: Counts) -> LoadResult:
        """Return how the load ended."""
        return LoadResult(
            register=register,
            kind=self.kind.value,
            mode=self.request.mode,
            format=self.layout.format.name,
            dry_run=self.request.dry_run,
            held_before=counts.held_before,
            held=counts.held,
            rejects=str(self.rejects.path) if self.rejects.path and self.rejects.rejected else None,
            notes=self.rejects.notes,
            **self.columns(counts),
        )


@contextmanager
def opened_intake(request: LoadRequest, runs_directory: Path, show: Show) -> Iterator[Intake]:
    """Look at the first file of a load; raises OperatorError, and OSError.

    Args:
        runs_directory: where what was read waits to be sorted.
        show: is told now and then how far it is.
    """
    request.require_whole()
    checksum = hashlib.sha256()
    with closing(_opened(request.files, checksum.update)) as opened:
        intake = Intake(opened, request, runs_directory, show, checksum)
        with closing(intake.runs):
            yield intake


def _opened(files: Sequence[str], heard: Heard) -> Generator[Member]:
    for file in in_order_of_dates(files, str):
        yield from members(file, heard)


def _layout_of(member: Member, request: LoadRequest) -> Layout:
    """Return what a file is: as the operator says, else as it looks."""
    seen: Kind | None
    if request.format is None:
        try:
            format_, seen = recognise(member.head, request.formats)
        except FileFault as fault:
            raise FileFault(fault.reason, member.name) from None
    else:
        format_ = request.formats[request.format]
        seen = format_.recognise(member.head)
    kind = seen or request.kind
    if kind is None:
        looked_for = f"looked for {format_.looked_for}.{advice(member.head)}"
        raise FileFault(f"The file is no {format_.name}: {looked_for}", member.name)
    if request.kind is not None and kind != request.kind:
        # Read as another kind, its rows would blank what the register holds.
        raise FileFault(f"The file holds {kind}, not {request.kind}.", member.name)
    return Layout(format_, kind)
