"""The last loads of each register, and which of them failed since one succeeded (D76)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from peewee import Case, fn

from app import clock
from app.operations.conditions.condition import Condition
from app.operations.freshness import Freshness
from app.registers.history import MERGE, REPLACE
from app.registers.models import RegisterLoad
from app.storage.engine import Engine

_REGISTERS_MAX = 50
"""More names than there can be registers: those whose first load failed are among them."""
_FAILED_SHOWN_MAX = 5
_FILES_SHOWN_MAX = 5
_NAME_CHARACTERS_MAX = 100


class LoadFacts(NamedTuple):
    """The last loads of one register."""

    register: str
    last_done: Any
    """The row of the history; None if no load has succeeded yet."""
    last_failed: Any
    """None if no load has failed."""
    failed: Sequence[Any]
    """The loads that failed since the last one that succeeded, the latest first."""

    @property
    def last(self) -> Any:
        """Return the last load, however it ended."""
        rows = [row for row in (self.last_done, self.last_failed) if row is not None]
        return max(rows, key=lambda row: int(row.id))


def load_facts(engine: Engine, killed: Iterable[int] = ()) -> list[LoadFacts]:
    """Return the last loads of each register, by its name.

    Args:
        killed: numbers of loads that were killed, and not settled yet.

    Attempts whose files were not recognised have no register, and are not among them.
    Raises peewee.PeeweeException if the database cannot be read.
    """
    load = RegisterLoad
    is_failed = (load.status == "failed") & load.mode.in_([MERGE, REPLACE])
    is_failed |= load.id.in_(list(killed))
    # What took a load back, or the register away, also settles what failed before.
    done_id = fn.MAX(Case(None, [(load.status == "done", load.id)]))
    failed_id = fn.MAX(Case(None, [(is_failed, load.id)]))
    groups: list[tuple[str, int | None, int | None]] = list(
        load.select(load.register, done_id, failed_id)
        .where(load.register != "")
        .group_by(load.register)
        .order_by(fn.MAX(load.id).desc())
        .limit(_REGISTERS_MAX)
        .tuples()
        .execute(engine)
    )
    ids = [number for _, *numbers in groups for number in numbers if number is not None]
    rows = {row.id: row for row in load.select().where(load.id.in_(ids)).execute(engine)}
    facts = []
    for register, done, failed in sorted(groups):
        if done is None and failed is None:
            continue
        failures: list[Any] = []
        if failed is not None and failed > (done or 0):
            since = load.select().where((load.register == register) & is_failed)
            since = since.where(load.id > (done or 0)).order_by(load.id.desc())
            failures = list(since.limit(_FAILED_SHOWN_MAX).execute(engine))
        facts.append(LoadFacts(register, rows.get(done), rows.get(failed), failures))
    return facts


def load_conditions(facts: Iterable[LoadFacts], ages: Iterable[Freshness]) -> Iterator[Condition]:
    """Yield a condition for each register whose last load failed."""
    loaded_at = {each.register.name: each.loaded_at for each in ages}
    for each in facts:
        if not each.failed:
            continue
        register, last = each.register, each.failed[0]
        kept = "There is nothing in it yet."
        if register in loaded_at:
            kept = f"It keeps what it held, loaded at {clock.iso_utc(loaded_at[register])}."
        yield Condition(
            key=f"load:{register}",
            title=f"a load of the register {register} failed",
            warning=(
                f"The last load of the register {register} failed, "
                f"at {clock.iso_utc(ended_at(last))} (load {last.id})."
            ),
            since=ended_at(each.failed[-1]),
            remedy=f"sudo verifyd imports show {last.id}",
            occurrence=str(last.id),
            details=(*map(_line, each.failed), kept),
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


def find_last_id(engine: Engine) -> int:
    """Return the number of the last load in the history, 0 if there is none."""
    return RegisterLoad.select(fn.MAX(RegisterLoad.id)).scalar(engine) or 0


def files_of_failed(engine: Engine, after_id: int) -> list[list[str]]:
    """Return the sorted names of the files of later loads that `load_conditions` tells of."""
    failed = [row for each in load_facts(engine) for row in each.failed]
    return [sorted(row.files.split("\n")) for row in failed if row.id > after_id]


def ended_at(load: Any) -> int:
    """Return when a load ended; when it began, if that is unknown because it was killed."""
    return int(load.started_at if load.finished_at is None else load.finished_at)


def _line(load: Any) -> str:
    """Return a failed load in a line. SEC: without its reason, which can quote a record."""
    kind = f" of {load.kind}" if load.kind else ""
    counts = f"{load.rows:,} rows read, {load.rejected:,} rejected" if load.rows else "no rows read"
    return f"Load {load.id} ({load.mode}{kind}): {shown_files(load.files.split(chr(10)))}; {counts}"


def shown_files(names: Sequence[str]) -> str:
    """Return names of files for a message: a few of them, shortened, on one line."""
    shown = [repr(name)[1:-1][:_NAME_CHARACTERS_MAX] for name in names[:_FILES_SHOWN_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
