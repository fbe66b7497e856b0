"""The last loads of each register, and which of them failed since one succeeded (D76)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from peewee import Case, fn

from app import clock
from app.registers.dropped.kept import is_kept
from app.registers.history import MERGE, REPLACE, UNSEEN_FAILURE, interrupted_loads, moved_to
from app.registers.models import RegisterLoad
from app.storage.engine import Engine

UNRECOGNISED = "?"
"""The register of attempts whose register is not known."""
_UNRECOGNISED_SECONDS = 7 * 86_400
_REGISTERS_MAX = 50
"""More than the registers that can exist, because names whose first load failed count, too."""
_FAILED_SHOWN_MAX = 5


class LoadFacts(NamedTuple):
    """The last loads of one register."""

    register: str
    """Its name, or `UNRECOGNISED`."""
    last_loaded: RegisterLoad | None
    """The last merge or replace that succeeded, as a row of the history; None if there is none."""
    last_failed: RegisterLoad | None
    """The last load that failed; None if none has failed."""
    failed: Sequence[RegisterLoad]
    """The latest loads that failed since the last success, latest first."""
    failed_count: int
    """How many loads failed since the last success."""
    first_failed_at: int
    """When the first of these ended, in Unix seconds."""

    @property
    def last(self) -> RegisterLoad | None:
        """Return the last load, however it ended; None if there is none."""
        rows = [row for row in (self.last_loaded, self.last_failed) if row is not None]
        return max(rows, key=lambda row: int(row.id), default=None)


def load_facts(engine: Engine) -> list[LoadFacts]:
    """Return the last loads of each register, ordered by name.

    Loads that were killed count as failed. A mistyped file or mapping that somebody saw fail at a
    terminal does not count. Attempts without a register come last, as
    `UNRECOGNISED`. They count for a week, unless files of the same names were loaded since.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    load = RegisterLoad
    is_failed: Any = UNSEEN_FAILURE
    killed = interrupted_loads(engine)
    if killed:
        is_failed |= load.id.in_(killed)
    is_done: Any = load.status == "done"
    # A rollback or a drop also ends the condition of earlier failures.
    settled_id = fn.MAX(Case(None, [(is_done, load.id)]))
    loaded_id = fn.MAX(Case(None, [(is_done & load.mode.in_([MERGE, REPLACE]), load.id)]))
    failed_id = fn.MAX(Case(None, [(is_failed, load.id)]))
    groups: list[tuple[str, int | None, int | None, int | None]] = list(
        load.select(load.register, settled_id, loaded_id, failed_id)
        .where(load.register != "")
        .group_by(load.register)
        .order_by(fn.MAX(load.id).desc())
        .limit(_REGISTERS_MAX)
        .tuples()
        .execute(engine)
    )
    ids = [number for *_, loaded, failed in groups for number in (loaded, failed) if number]
    rows = {row.id: row for row in load.select().where(load.id.in_(ids)).execute(engine)}
    facts = []
    for register, settled, loaded, failed in sorted(groups):
        failures = _Failures([], 0, 0)
        if failed is not None and failed > (settled or 0):
            since = load.select().where((load.register == register) & is_failed)
            failures = _failures(engine, since.where(load.id > (settled or 0)))
        if loaded is not None or failed is not None:
            facts.append(LoadFacts(register, rows.get(loaded), rows.get(failed), *failures))
    return [*facts, *_unrecognised(engine)]


def _unrecognised(engine: Engine) -> Iterator[LoadFacts]:
    """Yield the attempts without a register whose files were not loaded since, if there are any."""
    load, later = RegisterLoad, RegisterLoad.alias()
    is_recent = load.started_at > clock.now() - _UNRECOGNISED_SECONDS
    recent = load.select().where((load.register == "") & UNSEEN_FAILURE & is_recent)
    is_same = (later.files == load.files) & (later.id > load.id) & (later.status == "done")
    left = recent.where(~fn.EXISTS(later.select(later.id).where(is_same)))
    rows = left.order_by(load.id.desc()).execute(engine)
    failed = [row for row in rows if not _is_put_away(row)]
    if failed:
        last = recent.order_by(load.id.desc()).first(engine)
        shown, first_at = failed[:_FAILED_SHOWN_MAX], ended_at(failed[-1])
        yield LoadFacts(UNRECOGNISED, None, last, shown, len(failed), first_at)


def _is_put_away(load: RegisterLoad) -> bool:
    """Tell whether somebody has removed the files of a load from `failed/`, or moved them back."""
    directory = moved_to(load)
    names = load.files.split("\n")
    return directory is not None and not any(is_kept(directory, name) for name in names)


class _Failures(NamedTuple):
    """The last three members of `LoadFacts`."""

    shown: list[RegisterLoad]
    failed_count: int
    first_at: int


def _failures(engine: Engine, query: Any) -> _Failures:
    """Return the loads of a query: the latest of them, how many there are, and the first's end."""
    load = RegisterLoad
    shown = list(query.order_by(load.id.desc()).limit(_FAILED_SHOWN_MAX).execute(engine))
    if len(shown) < _FAILED_SHOWN_MAX:
        return _Failures(shown, len(shown), ended_at(shown[-1]) if shown else 0)
    first = query.order_by(load.id).first(engine)
    return _Failures(shown, query.count(engine), ended_at(first))


def numbers_of_failed(engine: Engine) -> set[int]:
    """Return the numbers of the loads that are reported as failed."""
    return {row.id for each in load_facts(engine) for row in each.failed}


def ended_at(load: RegisterLoad) -> int:
    """Return when a load ended; when it began if it was killed, because its end is unknown."""
    return int(load.started_at if load.finished_at is None else load.finished_at)
