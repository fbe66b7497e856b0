"""One load: files read, rows written, all or nothing, whatever happens in between (D28).

The rows are committed in the register; only then the main database is told. A load killed
between the two is settled by the next one, from what the register itself knows.
"""

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import peewee

from app import clock
from app.database import Engine, SqliteEngine
from app.registers.formats import FORMATS, FileFault, Format, Kind, recognise
from app.registers.history import History
from app.registers.lock import alone
from app.registers.rejects import RejectLimit, RejectsFile
from app.registers.rows import Change
from app.registers.sorting import sorted_unique
from app.registers.sources import Member, in_order_of_dates, members
from app.registers.writer import Applied, RegisterWriter, find_applied
from app.schema import migrate_register, opened_register

DEFAULT_MAX_REJECTS = "1%"
_ROWS_BETWEEN_PROGRESS = 4_096

Progress = Callable[[Member], None]
"""Called now and then with the member that is being read."""


class LoadRequest(NamedTuple):
    """What the operator asked for; what is None is found by looking at the files."""

    files: Sequence[str]
    formats: Mapping[str, Format] = FORMATS
    format: str | None = None
    kind: Kind | None = None
    register: str | None = None
    mode: str = "merge"
    max_rejects: RejectLimit = RejectLimit.parse(DEFAULT_MAX_REJECTS)
    rejects: Path | None = None


class LoadResult(NamedTuple):
    """How a load ended; `rows` are data records, `changed` those that made a difference."""

    register: str
    kind: str
    mode: str
    format: str
    rows: int
    loaded: int
    changed: int
    rejected: int
    skipped: int
    rejects: str | None
    """Where the rejected records are; None if there are none."""
    notes: Sequence[str]
    """What the operator should know of the files."""


class _Layout(NamedTuple):
    format: Format
    kind: Kind


def load(engine: Engine, state_dir: Path, request: LoadRequest, progress: Progress) -> LoadResult:
    """Load all files of a request into one register, as one transaction.

    Raises OperatorError or peewee.PeeweeException if anything stands in the way; then the
    register holds what it held before.
    """
    with closing(_opened(request.files)) as opened:
        return _load(engine, state_dir, request, progress, opened)


def _opened(files: Sequence[str]) -> Generator[Member]:
    for file in in_order_of_dates(files, str):
        yield from members(file)


def _load(
    engine: Engine,
    state_dir: Path,
    request: LoadRequest,
    progress: Progress,
    opened: Iterator[Member],
) -> LoadResult:
    first = next(opened)
    layout = _layout_of(first, request)
    register = request.register or layout.format.register
    history = History(engine, register)
    with alone(engine, register):
        load_id = history.begin(
            kind=layout.kind,
            mode=request.mode,
            format_name=layout.format.name,
            files=[Path(file).name for file in request.files],
        )
        rejects_path = request.rejects or state_dir / "rejects" / f"{register}-{load_id}.csv"
        rejects = RejectsFile(rejects_path, request.max_rejects)
        reader = _Reader(chain((first,), opened), layout, request, rejects, progress)
        try:
            applied = _fill(engine, history, load_id, reader)
        except BaseException as error:
            with suppress(peewee.PeeweeException):
                history.fail(load_id, str(error) or type(error).__name__)
            raise
        counts = {
            "rows": applied.loaded + rejects.rejected + rejects.skipped,
            "loaded": applied.loaded,
            "changed": applied.changed,
            "rejected": rejects.rejected,
            "skipped": rejects.skipped,
        }
        history.finish(load_id, layout.kind, applied.held, counts)
    return LoadResult(
        register=register,
        kind=layout.kind.value,
        mode=request.mode,
        format=layout.format.name,
        rejects=str(rejects_path) if rejects.rejected else None,
        notes=rejects.notes,
        **counts,
    )


def _fill(engine: Engine, history: History, load_id: int, reader: "_Reader") -> Applied:
    """Read everything, then write it in one transaction of the register."""
    generation = history.ensure_register(load_id)
    with opened_register(engine, history.register, generation) as (register_engine, schema):
        migrate_register(register_engine, schema)
        history.settle_interrupted(load_id, partial(find_applied, register_engine, schema))
        writer = RegisterWriter(register_engine, schema, clock.now(), reader.layout.kind)
        with reader.rejects:
            rows = sorted_unique(reader, writer.key_columns, _scratch_directory(engine))
            reader.rejects.require_few(reader.loaded)
        history.announce(reader.layout.kind)
        with register_engine.atomic():
            changed = writer.merge(rows)
            applied = Applied(reader.loaded, changed, writer.count_rows())
            writer.note_applied(load_id, applied)
    return applied


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
        looked_for = format_.looked_for
        raise FileFault(f"The file is no {format_.name}: looked for {looked_for}.", member.name)
    if request.kind is not None and kind != request.kind:
        # Read as another kind, its rows would blank what the register holds.
        raise FileFault(f"The file holds {kind}, not {request.kind}.", member.name)
    return _Layout(format_, kind)


class _Reader:
    """Reads the rows of all files of a load, and counts them."""

    def __init__(
        self,
        opened: Iterable[Member],
        layout: _Layout,
        request: LoadRequest,
        rejects: RejectsFile,
        progress: Progress,
    ) -> None:
        self._opened = opened
        self.layout = layout
        self._request = request
        self.rejects = rejects
        self._progress = progress
        self.loaded = 0

    def __iter__(self) -> Iterator[Change]:
        for member in self._opened:
            if _layout_of(member, self._request) != self.layout:
                raise FileFault(
                    f"The file is not {self.layout.format.name} of {self.layout.kind} as the "
                    "first one is; one command loads one kind into one register.",
                    member.name,
                )
            self.rejects.file_name = member.name
            try:
                yield from self._rows_of(member)
            except FileFault as fault:
                raise FileFault(fault.reason, fault.name or member.name) from None
            self._progress(member)

    def _rows_of(self, member: Member) -> Iterator[Change]:
        for row in self.layout.format.rows(member.stream, self.layout.kind, self.rejects):
            if self.loaded % _ROWS_BETWEEN_PROGRESS == 0:
                self._progress(member)
            self.loaded += 1
            yield row


def _scratch_directory(engine: Engine) -> Path:
    """Return where runs may wait: beside the data, since the state may be kept in memory."""
    return engine.path.parent if isinstance(engine, SqliteEngine) else Path(tempfile.gettempdir())
