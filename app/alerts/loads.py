"""The conditions of loads: one failed or is held, or a register is stale (D158)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from peewee import Case, fn

from app import clock
from app.alerts.message import Condition
from app.config import Config
from app.registers.change import change_of
from app.registers.change_words import brief
from app.registers.dropped.kept import is_kept
from app.registers.history import (
    MERGE,
    REPLACE,
    UNSEEN_FAILURE,
    RegisterLoad,
    changed_at_by_register,
    interrupted_loads,
    moved_to,
    refused_by,
    repeated_note,
    unopened_reason,
)
from app.registers.holds import HeldLoad, decided_first, explained, open_holds
from app.settings.values import EVERY_REGISTER
from app.storage.engine import Engine
from app.storage.registers import Entry, list_entries
from app.text import counted

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
    held: Sequence[HeldLoad] = ()
    """The loads that wait for a decision, the first one first; they are not among the failed."""

    @property
    def last(self) -> RegisterLoad | None:
        """Return the last load, however it ended; None if there is none."""
        rows = [row for row in (self.last_loaded, self.last_failed) if row is not None]
        return max(rows, key=lambda row: int(row.id), default=None)


def load_facts(engine: Engine) -> list[LoadFacts]:
    """Return the last loads of each register, ordered by name.

    Loads that were killed count as failed; loads that were held do not. A mistyped file or mapping
    that somebody saw fail at a terminal does not count. Attempts without a register come last, as
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
    holds = open_holds(engine)
    facts = []
    for register, settled, loaded, failed in sorted(groups):
        failures: _Failures = ([], 0, 0)
        if failed is not None and failed > (settled or 0):
            is_plain = (load.register == register) & load.hold.is_null()
            since = load.select().where(is_plain & is_failed)
            failures = _failures(engine, since.where(load.id > (settled or 0)))
        if loaded is not None or failed is not None:
            held = [each for each in holds if each.register == register]
            facts.append(LoadFacts(register, rows.get(loaded), rows.get(failed), *failures, held))
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


_Failures = tuple[Sequence[RegisterLoad], int, int]
"""The last three members of `LoadFacts`."""


def _failures(engine: Engine, query: Any) -> _Failures:
    """Return the loads of a query: the latest of them, how many there are, and the first's end."""
    load = RegisterLoad
    shown = list(query.order_by(load.id.desc()).limit(_FAILED_SHOWN_MAX).execute(engine))
    if len(shown) < _FAILED_SHOWN_MAX:
        return shown, len(shown), ended_at(shown[-1]) if shown else 0
    first = query.order_by(load.id).first(engine)
    return shown, query.count(engine), ended_at(first)


def numbers_of_failed(engine: Engine) -> set[int]:
    """Return the numbers of the loads that are reported as failed or held."""
    facts = load_facts(engine)
    failed = {row.id for each in facts for row in each.failed}
    return failed | {held.id for each in facts for held in each.held}


def ended_at(load: RegisterLoad) -> int:
    """Return when a load ended; when it began if it was killed, because its end is unknown."""
    return int(load.started_at if load.finished_at is None else load.finished_at)


class Freshness(NamedTuple):
    """A loaded register and its age."""

    register: Entry
    loaded_at: int
    age_seconds: int
    """Since the end of the last load that read a row, even if that load changed nothing."""
    limit_seconds: int | None
    """The age that `VERIFYD_STALE_AFTER` allows; None if it does not name this register."""
    changed_at: int
    """When a load or a rollback last changed a row.

    That a source answers, and that it has something new, are two facts: a dead one may deliver the
    same file every night.
    """
    unchanged_seconds: int
    unchanged_limit_seconds: int
    """What `VERIFYD_UNCHANGED_AFTER` allows; 0 if that is never reported."""

    @property
    def is_stale(self) -> bool:
        """Whether the register is older than the setting allows."""
        return self.limit_seconds is not None and self.age_seconds > self.limit_seconds

    @property
    def is_unchanged(self) -> bool:
        """Whether its content has not changed for longer than the setting allows."""
        return 0 < self.unchanged_limit_seconds < self.unchanged_seconds


def freshness(engine: Engine, config: Config) -> list[Freshness]:
    """Return the loaded registers, ordered by name.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    now, stale, unchanged = clock.now(), config.stale_after, config.unchanged_after
    changes = changed_at_by_register(engine)
    ages = []
    for each in list_entries(engine):
        if each.loaded_at is None:
            continue
        changed_at = changes.get(each.name, each.loaded_at)
        age = Freshness(
            register=each,
            loaded_at=each.loaded_at,
            age_seconds=max(0, now - each.loaded_at),
            limit_seconds=stale.get(each.name, stale.get(EVERY_REGISTER)),
            changed_at=changed_at,
            unchanged_seconds=max(0, now - changed_at),
            unchanged_limit_seconds=unchanged.get(each.name, unchanged.get(EVERY_REGISTER, 0)),
        )
        ages.append(age)
    return ages


_FILES_SHOWN_MAX = 5
_NAME_CHARACTERS_MAX = 100


def load_conditions(facts: Iterable[LoadFacts], ages: Iterable[Freshness]) -> Iterator[Condition]:
    """Yield a condition for each register whose last load failed, and one for loads held."""
    loaded_at = {each.register.name: each.loaded_at for each in ages}
    for each in facts:
        yield from _held_conditions(each.held)
        if each.failed and each.last_failed is not None:
            yield _load_condition(each, each.last_failed, loaded_at.get(each.register))


def _held_conditions(holds: Sequence[HeldLoad]) -> Iterator[Condition]:
    """Yield a condition for each kind of which loads are held.

    SEC: rules and their explanations quote no values.
    """
    for kind in sorted({each.kind for each in holds}):
        held = [each for each in holds if each.kind == kind]
        shown = decided_first(held)
        waits = " Later files of them wait until then." if shown.mode == MERGE else ""
        yield Condition(
            key=held_key(shown),
            title=f"a load of the register {shown.register} is held",
            warning=(
                f"Load {shown.id}, a {shown.mode} of {kind} of the register {shown.register}, "
                f"breaks rules ({', '.join(shown.broken)}) and waits for a decision.{waits}"
            ),
            since=held[0].since,
            remedy=f"sudo verifyd imports show {shown.id}",
            occurrence=str(held[-1].id),
            load=shown.id,
            details=(
                *(
                    f"Load {each.id}: {explained(each.broken)}"
                    for each in held[-_FAILED_SHOWN_MAX:]
                ),
                f'Accept it with "sudo verifyd imports accept {shown.id}", or reject it with "sudo '
                f'verifyd imports reject {shown.id}". Its files are in {shown.directory}.',
            ),
        )


def held_key(held: HeldLoad) -> str:
    """Return the key of the condition that a load is held."""
    return f"held:{held.register}:{held.kind}"


def _load_condition(
    facts: LoadFacts, last_failed: RegisterLoad, loaded_at: int | None
) -> Condition:
    """Return the condition of a register whose last load failed.

    Args:
        loaded_at: when its rows were loaded, in Unix seconds; None if it holds none.
    """
    name, latest = facts.register, facts.failed[0]
    more = facts.failed_count - len(facts.failed)
    when, many = f"at {clock.iso_utc(ended_at(latest))} (load {latest.id})", ""
    if facts.failed_count > 1:
        numbers = ", ".join(str(load.id) for load in facts.failed)
        numbers += f" and {more:,} more" if more else ""
        when = f"the latest at {clock.iso_utc(ended_at(latest))} (loads {numbers})"
        many = f"{facts.failed_count:,} loads"
    remedy = f"sudo verifyd imports show {latest.id}"
    if name == UNRECOGNISED:
        register, failed = "an unknown register", many or "A load"
        note = "It ends when files of the same names are loaded or leave failed/, or after 7 days."
    else:
        register, failed = f"the register {name}", f"The last {many or 'load'}"
        note = "The register is still empty."
        if loaded_at is not None:
            note = f"The register still holds what was loaded at {clock.iso_utc(loaded_at)}."
        elif facts.last_loaded is None:
            purge = f"sudo verifyd imports drop {name} --purge"
            remedy += f"; if the name is mistyped, end this warning with: {purge}"
    why, reason = f'"verifyd imports show {latest.id}" shows why.', unopened_reason(latest)
    if reason is not None:
        end = "" if reason.endswith(("?", "...")) else "."
        why = f"Load {latest.id} ended before a file was opened: {reason}{end}"
    details = list(map(_line, facts.failed))
    if more:
        first_at = clock.iso_utc(facts.first_failed_at)
        details.append(f"and {more:,} more, the first of them at {first_at}")
    return Condition(
        key=f"load:{name}",
        title=f"a load of {register} failed",
        warning=f"{failed} of {register} failed, {when}. {why}",
        since=facts.first_failed_at,
        remedy=remedy,
        # Not from `failed`: a later success must not make an older failure a new event.
        occurrence=str(last_failed.id),
        load=latest.id,
        details=(*details, note),
    )


def age_conditions(ages: Iterable[Freshness], facts: Iterable[LoadFacts]) -> Iterator[Condition]:
    """Yield a condition for each register that is stale (D51), or unchanged for too long."""
    last = {each.register: each.last_loaded for each in facts}
    for each in ages:
        name, text = each.register.name, clock.duration_text
        remedy = f"sudo verifyd imports list --register {name}"
        if each.is_stale:
            limit = each.limit_seconds or 0
            yield Condition(
                key=f"stale:{name}",
                title=f"the register {name} is stale",
                warning=f"The register {name} was last loaded {text(each.age_seconds)} ago; "
                f"VERIFYD_STALE_AFTER allows {text(limit)}.",
                since=each.loaded_at + limit,
                remedy=remedy,
                occurrence=str(each.loaded_at),
            )
        if each.is_unchanged:
            limit, load = each.unchanged_limit_seconds, last.get(name)
            note = repeated_note(load)
            yield Condition(
                key=f"unchanged:{name}",
                title=f"the content of the register {name} does not change",
                warning=f"The content of the register {name} has not changed for "
                f"{text(each.unchanged_seconds)}; VERIFYD_UNCHANGED_AFTER allows {text(limit)}.",
                since=each.changed_at + limit,
                remedy=remedy,
                occurrence=str(each.changed_at),
                details=(f"Load {load.id}: {note}",) if load and note else (),
            )


def _line(load: RegisterLoad) -> str:
    """Describe a failed load in one line. SEC: without a reason that can quote a record."""
    # A mistake in the options can hide mode and kind.
    what = " of ".join(filter(None, (load.mode, load.kind)))
    files, counts = shown_files(load.files.split("\n")), rows_read(load)
    rules = f"; breaks {explained(refused_by(load))}" if load.broken else ""
    change = change_of(load)
    counts += f"; it would have changed: {brief(change)}" if change else ""
    return f"Load {load.id}{f' ({what})' if what else ''}: {files}; {counts}{rules}"


def rows_read(load: RegisterLoad) -> str:
    """Return how many rows a failed load has read, and how many of them it rejected."""
    if not load.rows:
        return "no rows read"
    return f"{counted(load.rows, 'row')} read, {load.rejected:,} rejected"


def shown_files(names: Sequence[str]) -> str:
    """Return a few names of files for a message, shortened, on one line."""
    shown = [repr(name)[1:-1][:_NAME_CHARACTERS_MAX] for name in names[:_FILES_SHOWN_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
