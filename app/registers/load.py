"""One load: files read, rows written, all or nothing, whatever happens in between (D28).

All files are read and sorted first. A merge then changes the register in one transaction of its
own; only afterwards the main database is told, and a load killed between the two is settled by
the next one, from what the register itself knows. A replace writes the register's next
generation, which nobody reads until one commit in the main database points to it.
"""

import hashlib
import logging
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import peewee

from app import clock
from app.catalogue import KeptRegister
from app.database import Engine, SqliteEngine
from app.errors import OperatorError
from app.registers.comparison import Outcome, compare
from app.registers.formats import (
    FORMATS,
    FileFault,
    Format,
    Kind,
    advice,
    is_empty_array,
    recognise,
)
from app.registers.generations import Generations
from app.registers.history import INTERRUPTED, MERGE, REPLACE, ROLLBACK, History
from app.registers.lock import alone
from app.registers.reading import Reader, Show
from app.registers.rejects import RejectLimit, RejectsFile
from app.registers.sorting import Columns, Runs
from app.registers.sources import Heard, Member, in_order_of_dates, members
from app.registers.writer import Applied, Table, find_applied, note_applied, order_of
from app.schema import migrate_register, opened_register

DEFAULT_MAX_REJECTS = "1%"
SHRINK_MAX_PERCENT = 10
_NO_SNAPSHOT = (
    "It tells what changed, not all there is: it can be merged, but cannot replace anything."
)
_log = logging.getLogger(__name__)


class LoadRequest(NamedTuple):
    """What the operator asked for; what is None is found by looking at the files."""

    files: Sequence[str]
    formats: Mapping[str, Format] = FORMATS
    format: str | None = None
    kind: Kind | None = None
    register: str | None = None
    mode: str = MERGE
    max_rejects: RejectLimit = RejectLimit.parse(DEFAULT_MAX_REJECTS)
    rejects: Path | None = None
    allow_shrink: bool = False
    dry_run: bool = False


class LoadResult(NamedTuple):
    """How a load ended; `rows` are data records, `changed` those that made a difference.

    Of a dry run: how it would have ended.
    """

    register: str
    kind: str
    mode: str
    format: str
    dry_run: bool
    rows: int
    loaded: int
    changed: int
    """Rows of the register that were added, changed or removed."""
    rejected: int
    skipped: int
    held_before: int
    """Rows of this kind that the register held before, and holds now."""
    held: int
    checksum: str
    """SHA-256 of all that was read, decompressed, in the order of the files."""
    rejects: str | None
    """Where the rejected records are; None if there are none, or nobody wrote them."""
    notes: Sequence[str]
    """What the operator should know of the files."""


def load(engine: Engine, state_dir: Path, request: LoadRequest, show: Show) -> LoadResult:
    """Load all files of a request into one register, as one transaction.

    Raises OperatorError, peewee.PeeweeException or OSError if anything stands in the way; then
    the register holds what it held before.
    """
    checksum = hashlib.sha256()
    with closing(_opened(request.files, checksum.update)) as opened:
        first = next(opened)
        layout = _layout_of(first, request)
        history = History(engine, request.register or layout.format.register)
        with closing(Runs(order_of(layout.kind), _scratch_directory(engine))) as runs:
            intake = _Intake(chain((first,), opened), layout, request, runs, show, checksum)
            if request.dry_run:
                return _tried(engine, history, intake)
            return _loaded(engine, history, intake, state_dir)


def _tried(engine: Engine, history: History, intake: "_Intake") -> LoadResult:
    """Find out how a load would end; nothing is written but the rejects, if told where to."""
    counts = _Counts()
    history.generations.require_room()
    intake.rejects.path = intake.request.rejects
    with intake.rejects:
        intake.read()
    with _opened_current(engine, history, intake.kind, counts) as current:
        for _ in _outcomes(intake, current, counts):
            pass
    if intake.request.mode == REPLACE:
        _require_no_shrink(intake, counts)
    return intake.result(history.register, counts)


def _loaded(engine: Engine, history: History, intake: "_Intake", state_dir: Path) -> LoadResult:
    """Do a load, and keep the history of it."""
    with alone(engine, history.register) as require_alone:
        started_ns = clock.monotonic_ns()
        load_id = history.begin(
            kind=intake.kind,
            mode=intake.request.mode,
            format_name=intake.layout.format.name,
            files=[Path(file).name for file in intake.request.files],
        )
        what = f"load {load_id}, {intake.request.mode} of {history.register} {intake.kind}"
        rejects_name = f"{history.register}-{load_id}.csv"
        intake.rejects.path = intake.request.rejects or state_dir / "rejects" / rejects_name
        try:
            history.generations.require_room()
            _settle(engine, history, load_id)
            with intake.rejects:
                intake.read()
            do = _replace if intake.request.mode == REPLACE else _merge
            counts = do(engine, history, load_id, intake, require_alone)
        except BaseException as error:
            with suppress(OSError, peewee.PeeweeException):
                # NOTE: Ctrl-C can come just behind the commit; then the next load settles it.
                if not _is_applied(engine, history, load_id):
                    history.fail(load_id, _reason(error), intake.read_so_far)
                history.generations.remove_unused()
            # SEC: the reason, which can quote a record, is for the operator only.
            _log.warning("%s: failed, %s", what, type(error).__name__)
            raise
        if intake.request.mode == MERGE:
            # NOTE: not above: the rows are in, whatever hinders this; the next load settles it.
            history.finish(load_id, intake.kind, counts.held, intake.columns(counts))
        with suppress(OSError, peewee.PeeweeException):  # The next load removes it as well.
            history.generations.remove_unused()
    result = intake.result(history.register, counts)
    _log.info(
        "%s: done in %.1f s, rows %d, loaded %d, changed %d, rejected %d, skipped %d, held %d",
        what,
        (clock.monotonic_ns() - started_ns) / 1e9,
        *(result.rows, result.loaded, result.changed, result.rejected, result.skipped),
        result.held,
    )
    return result


def _merge(
    engine: Engine,
    history: History,
    load_id: int,
    intake: "_Intake",
    require_alone: Callable[[], None],
) -> "_Counts":
    """Change the rows of the register in its own transaction; the main database is told later."""
    counts = _Counts()
    if intake.loaded:
        history.ensure_register(load_id)
    entry = history.generations.find_current()
    if entry is None:
        return counts
    with _opened_table(engine, entry, intake.kind, counts) as table:
        history.announce(intake.kind)
        with table.register.atomic():
            outcomes = _outcomes(intake, table, counts)
            if counts.held_before:
                for outcome in outcomes:
                    table.put(outcome.changed)
                    table.remove(outcome.removed)
            else:
                table.fill(outcome.rows for outcome in outcomes)
            table.analyse()
            applied = Applied(intake.loaded - counts.skipped, counts.changed, counts.held)
            note_applied(table.register, table.schema, load_id, applied)
            require_alone()
    return counts


def _replace(
    engine: Engine,
    history: History,
    load_id: int,
    intake: "_Intake",
    require_alone: Callable[[], None],
) -> "_Counts":
    """Write the next generation, then let readers have it."""
    counts = _Counts()
    with (
        _opened_current(engine, history, intake.kind, counts) as current,
        history.generations.opened_next(load_id) as made,
    ):
        history.generations.carry_over(made, intake.kind)
        with made.engine.atomic():
            outcomes = _outcomes(intake, current, counts)
            Table(made.engine, made.schema, intake.kind).fill(each.rows for each in outcomes)
        _require_no_shrink(intake, counts)
    require_alone()
    history.switch(load_id, intake.kind, counts.held, intake.columns(counts))
    return counts


def _settle(engine: Engine, history: History, load_id: int) -> None:
    """Find out what became of killed loads before this one, and clean up behind them."""
    with _opened_current(engine, history, Kind.VEHICLES, _Counts()) as current:
        history.settle_interrupted(load_id, lambda number: _find_applied(current, number))
    history.generations.remove_unused()


def roll_back(engine: Engine, register: str | None, kind: Kind | None) -> dict[str, object]:
    """Let readers have what a register held before its last load, if that was a replace (D28).

    Args:
        register: None if only one can be rolled back.

    Returns the register, its kind that changes and the rows of it. Raises OperatorError.
    """
    history = History(engine, register or _only_kept(engine))
    with alone(engine, history.register):
        _settle(engine, history, 0)
        replaced = history.require_kept(kind)
        load_id = history.begin(kind=replaced, mode=ROLLBACK, format_name="", files=[])
        history.roll_back(load_id)
    held = getattr(history.generations.find_current(), replaced.value)
    _log.info("load %d, rollback of %s %s: done", load_id, history.register, replaced)
    return {"register": history.register, "kind": replaced.value, "held": held}


def drop_register(engine: Engine, name: str) -> None:
    """Remove a register; answers are without it from the next request.

    Raises OperatorError if there is none of that name, or a load of it is running.
    """
    generations = Generations(engine, name)
    if generations.find_current() is None:
        raise OperatorError(f"there is no register {name}")
    with alone(engine, name):
        generations.remove_all()


class _Layout(NamedTuple):
    format: Format
    kind: Kind


class _Intake:
    """What is read from the files of a load, sorted, and what became of the rest."""

    def __init__(
        self,
        opened: Iterable[Member],
        layout: _Layout,
        request: LoadRequest,
        runs: Runs,
        show: Show,
        checksum: Any,
    ) -> None:
        self.layout = layout
        self.kind = layout.kind
        self.request = request
        self.rejects = RejectsFile(None, request.max_rejects)
        self.runs = runs
        self._opened = opened
        self._reader = Reader(layout.format, layout.kind, self.rejects, runs, show)
        self._checksum = checksum

    @property
    def loaded(self) -> int:
        """Rows and changes that were read."""
        return self._reader.loaded

    def read(self) -> None:
        """Read all files; raises OperatorError, too many rejects among others."""
        for member in self._opened:
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
        self.rejects.require_few(self.loaded)

    def require_rows(self, changes: list[Columns]) -> None:
        """Raise FileFault if there are deletions or cancellations: what they are of is not told."""
        if set(map(len, changes)) != {self.runs.order.row_columns}:
            raise FileFault(_NO_SNAPSHOT)

    @property
    def read_so_far(self) -> dict[str, object]:
        """The counts of a load that failed: nothing of what was read is loaded."""
        rejected, skipped = self.rejects.rejected, self.rejects.skipped
        rows = self.loaded + rejected + skipped
        return {"rows": rows, "rejected": rejected, "skipped": skipped}

    def columns(self, counts: "_Counts") -> dict[str, Any]:
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

    def result(self, register: str, counts: "_Counts") -> LoadResult:
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


@dataclass(slots=True)
class _Counts:
    """What a load does to the rows of one kind."""

    held_before: int = 0
    held: int = 0
    changed: int = 0
    skipped: int = 0


def _outcomes(intake: _Intake, table: Table | None, counts: _Counts) -> Iterator[Outcome]:
    """Compare all that was read with what is held, in the order of the keys; and count.

    Args:
        table: what is held, None if nothing.
    """
    loaded_at = clock.now()
    is_replace = intake.request.mode == REPLACE
    written = added = 0
    for batch in intake.runs.batches():
        held: Iterable[Columns] = ()
        if is_replace:
            intake.require_rows(batch)
        if table is not None and counts.held_before:
            held = table.find_between(batch[0], batch[-1]) if is_replace else table.find_of(batch)
        outcome = compare(batch, held, intake.runs.order, loaded_at)
        written += len(outcome.rows)
        added += outcome.added
        counts.held += outcome.added - len(outcome.removed)
        counts.changed += len(outcome.changed) + len(outcome.removed)
        counts.skipped += outcome.skipped
        yield outcome
    if is_replace:
        counts.held = written
        counts.changed += counts.held_before - (written - added)


def _require_no_shrink(intake: _Intake, counts: _Counts) -> None:
    if intake.request.allow_shrink:
        return
    if not counts.held_before and not counts.held:
        raise OperatorError(
            f"there are no {intake.kind} in what was read; if that is right, "
            "repeat it with --allow-shrink"
        )
    least = counts.held_before * (100 - SHRINK_MAX_PERCENT) / 100
    if counts.held < least:
        raise OperatorError(
            f"the register would shrink from {counts.held_before:,} to {counts.held:,} "
            f"{intake.kind}, by more than {SHRINK_MAX_PERCENT} %; if that is right, "
            "repeat it with --allow-shrink"
        )


@contextmanager
def _opened_table(engine: Engine, entry: Any, kind: Kind, counts: _Counts) -> Iterator[Table]:
    """Open what readers see of a register, by its entry; and count it."""
    with opened_register(engine, entry.name, entry.generation) as (register, schema):
        migrate_register(register, schema)
        table = Table(register, schema, kind)
        counts.held_before = counts.held = getattr(entry, kind.value) or table.count()
        yield table


def _opened_current(
    engine: Engine, history: History, kind: Kind, counts: _Counts
) -> AbstractContextManager[Table | None]:
    history.generations.require_there()
    entry = history.generations.find_current()
    return _opened_table(engine, entry, kind, counts) if entry else nullcontext()


def _find_applied(table: Table | None, load_id: int) -> Applied | None:
    return find_applied(table.register, table.schema, load_id) if table else None


def _is_applied(engine: Engine, history: History, load_id: int) -> bool:
    """Tell whether a merge that was cut short is in the register all the same."""
    with (
        suppress(OSError, peewee.PeeweeException, OperatorError),
        _opened_current(engine, history, Kind.VEHICLES, _Counts()) as current,
    ):
        return _find_applied(current, load_id) is not None
    return False


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return str(error) or type(error).__name__


def _only_kept(engine: Engine) -> str:
    names = [
        kept.name for kept in KeptRegister.select().order_by(KeptRegister.name).execute(engine)
    ]
    if not names:
        raise OperatorError("no register can be rolled back: none was replaced last")
    if len(names) > 1:
        raise OperatorError(f"which register? --register is one of {', '.join(names)}")
    return str(names[0])


def _opened(files: Sequence[str], heard: Heard) -> Generator[Member]:
    for file in in_order_of_dates(files, str):
        yield from members(file, heard)


def _layout_of(member: Member, request: LoadRequest) -> _Layout:
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
    return _Layout(format_, kind)


def _scratch_directory(engine: Engine) -> Path:
    """Return where runs may wait: beside the data, since the state may be kept in memory."""
    return engine.path.parent if isinstance(engine, SqliteEngine) else Path(tempfile.gettempdir())
