"""The last loads of each register, and which of them failed since one succeeded (D76)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from peewee import Case, fn

from app import clock
from app.operations.conditions.condition import Condition
from app.operations.freshness import Freshness
from app.registers.history import MERGE, REPLACE, find_interrupted
from app.registers.models import RegisterLoad
from app.storage.engine import Engine

UNRECOGNISED = "?"
"""The register of attempts whose register is not known."""
_UNRECOGNISED_SECONDS = 7 * 86_400
_REGISTERS_MAX = 50
"""More than the registers that can exist, because names whose first load failed count, too."""
_FAILED_SHOWN_MAX = 5
_FILES_SHOWN_MAX = 5
_NAME_CHARACTERS_MAX = 100


class LoadFacts(NamedTuple):
    """The last loads of one register."""

    register: str
    """Its name, or `UNRECOGNISED`."""
    last_loaded: Any
    """The last merge or replace that succeeded, as a row of the history; None if there is none."""
    last_failed: Any
    """The last load that failed; None if none has failed."""
    failed: Sequence[Any]
    """The loads that failed since the last success, latest first."""

    @property
    def last(self) -> Any:
        """Return the last load, however it ended; None if there is none."""
        rows = [row for row in (self.last_loaded, self.last_failed) if row is not None]
        return max(rows, key=lambda row: int(row.id), default=None)


def load_facts(engine: Engine) -> list[LoadFacts]:
    """Return the last loads of each register, ordered by name.

    Loads that were killed count as failed. Attempts without a register come last, as
    `UNRECOGNISED`. They count for a week, unless files of the same names were loaded since.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    load = RegisterLoad
    is_failed: Any = load.status == "failed"
    killed = find_interrupted(engine)
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
        failures: list[Any] = []
        if failed is not None and failed > (settled or 0):
            since = load.select().where((load.register == register) & is_failed)
            since = since.where(load.id > (settled or 0)).order_by(load.id.desc())
            failures = list(since.limit(_FAILED_SHOWN_MAX).execute(engine))
        if loaded is not None or failed is not None:
            facts.append(LoadFacts(register, rows.get(loaded), rows.get(failed), failures))
    return [*facts, *_unrecognised(engine)]


def _unrecognised(engine: Engine) -> Iterator[LoadFacts]:
    """Yield the attempts without a register whose files were not loaded since, if there are any."""
    load, later = RegisterLoad, RegisterLoad.alias()
    is_recent = load.started_at > clock.now() - _UNRECOGNISED_SECONDS
    recent = load.select().where((load.register == "") & (load.status == "failed") & is_recent)
    recent = recent.order_by(load.id.desc())
    is_same = (later.files == load.files) & (later.id > load.id) & (later.status == "done")
    left = recent.where(~fn.EXISTS(later.select(later.id).where(is_same)))
    failed = list(left.limit(_FAILED_SHOWN_MAX).execute(engine))
    if failed:
        yield LoadFacts(UNRECOGNISED, None, recent.first(engine), failed)


def load_conditions(facts: Iterable[LoadFacts], ages: Iterable[Freshness]) -> Iterator[Condition]:
    """Yield a condition for each register whose last load failed."""
    loaded_at = {each.register.name: each.loaded_at for each in ages}
    for each in facts:
        if not each.failed:
            continue
        register, last = each.register, each.failed[0]
        at = clock.iso_utc(ended_at(last))
        title = f"a load of the register {register} failed"
        warning = f"The last load of the register {register} failed, at {at} (load {last.id})."
        remedy = f"sudo verifyd imports show {last.id}"
        note = "The register is still empty."
        if register in loaded_at:
            note = (
                f"The register still holds what was loaded at {clock.iso_utc(loaded_at[register])}."
            )
        elif register == UNRECOGNISED:
            title = "a load of an unknown register failed"
            warning = f"A load of an unknown register failed, at {at} (load {last.id})."
            note = "This ends when files of the same names are loaded, or after 7 days."
        elif each.last_loaded is None:
            purge = f"sudo verifyd imports drop {register} --purge"
            remedy += f"; if the name is mistyped, end this warning with: {purge}"
        yield Condition(
            key=f"load:{register}",
            title=title,
            warning=warning,
            since=ended_at(each.failed[-1]),
            remedy=remedy,
            # Not from `failed`: a later success must not make an older failure a new event.
            occurrence=str(each.last_failed.id),
            details=(*map(_line, each.failed), note),
        )


def stale_conditions(ages: Iterable[Freshness]) -> Iterator[Condition]:
    """Yield a condition for each register that is stale (D51)."""
    for each in ages:
        name = each.register.name
        if each.is_stale:
            yield Condition(
                key=f"stale:{name}",
                title=f"the register {name} is stale",
                warning=each.warning(),
                since=each.loaded_at + (each.limit_seconds or 0),
                remedy=f"sudo verifyd imports list --register {name}",
                occurrence=str(each.loaded_at),
            )


def numbers_of_failed(engine: Engine) -> set[int]:
    """Return the numbers of the loads that `load_conditions` reports."""
    return {row.id for each in load_facts(engine) for row in each.failed}


def ended_at(load: Any) -> int:
    """Return when a load ended; when it began if it was killed, because its end is unknown."""
    return int(load.started_at if load.finished_at is None else load.finished_at)


def _line(load: Any) -> str:
    """Describe a failed load in one line. SEC: without its reason, which can quote a record."""
    # A mistake in the options can hide mode and kind.
    what = " of ".join(filter(None, (load.mode, load.kind)))
    counts = f"{load.rows:,} rows read, {load.rejected:,} rejected" if load.rows else "no rows read"
    files = shown_files(load.files.split("\n"))
    return f"Load {load.id}{f' ({what})' if what else ''}: {files}; {counts}"


def shown_files(names: Sequence[str]) -> str:
    """Return a few names of files for a message, shortened, on one line."""
    shown = [repr(name)[1:-1][:_NAME_CHARACTERS_MAX] for name in names[:_FILES_SHOWN_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
