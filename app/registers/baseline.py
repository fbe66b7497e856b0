"""What earlier loads of a register say about the next one.

Only loads that are done count. Those that were rolled back do not, nor those before a drop (D69).
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from app import clock
from app.registers.change import LoadChange, change_of
from app.registers.formats.values import shortened
from app.registers.history import (
    MERGE,
    REPLACE,
    REPLACES_COMPARED,
    History,
    RegisterLoad,
    json_list,
)
from app.registers.reading.sources import date_of, sorted_by_date
from app.registers.request import ACCEPTED, SHRINK
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.tables import Kind

_ADDED_UP_SECONDS = 30 * 86_400
_NAMED_MAX = 3


class Baseline(NamedTuple):
    """What the next load is compared with, besides the rows that the register holds."""

    is_terminated: bool = False
    """Whether the register's previous file of the same kind and format ended with a line end."""
    in_force: int = 0
    """The most rows in force that one of the last replaces left; 0 if there is none."""
    load_id: int = 0
    """The number of that replace; 0 if there is none."""
    former: tuple[tuple[list[str], LoadChange], ...] = ()
    """What the last loads of the same mode changed, and which rules were accepted for them, latest
    first: merges of the last 30 days since the last replace, or the last replaces. Losses of all of
    them add up. A load into an empty table breaks no rule, so it is not among them."""


def baseline_of(
    engine: Engine, entry: Entry | None, register: str, kind: Kind, format_name: str, mode: str
) -> Baseline:
    """Return what the next load of this register, kind, format and mode is compared with.

    Args:
        entry: the register's entry; None if it has none.
    """
    if entry is None:
        return Baseline()
    previous: Any = (
        _counted(engine, register, kind)
        .where((RegisterLoad.format == format_name) & RegisterLoad.is_terminated.is_null(False))
        .first(engine)
    )
    loads = last_loads(engine, register, kind)
    in_force, load_id = _largest(loads)
    is_terminated = previous is not None and bool(previous.is_terminated)
    since = clock.now() - _ADDED_UP_SECONDS
    alike = (
        takewhile(lambda each: each.mode == MERGE and each.started_at >= since, loads)
        if mode == MERGE
        else (each for each in loads if each.mode == REPLACE)
    )
    former = ((json_list(each.accepted, str), change_of(each)) for each in alike)
    counted = tuple(
        (accepted, change) for accepted, change in former if change is not None and change.held[0]
    )
    return Baseline(is_terminated, in_force, load_id, counted)


def last_loads(engine: Engine, register: str, kind: Kind) -> list[Any]:
    """Return the loads of a kind that count, latest first, back to the seventh-last replace."""
    loads = _counted(engine, register, kind).where(RegisterLoad.held.is_null(False))
    replaces = loads.where(RegisterLoad.mode == REPLACE)
    oldest = replaces.offset(REPLACES_COMPARED - 1).limit(1).first(engine)
    return list(loads.where(RegisterLoad.id >= (oldest.id if oldest else 0)).execute(engine))


def older_notes(engine: Engine, register: str, kind: Kind, files: Sequence[str]) -> list[str]:
    """Return a sentence if files of the DVSA of later dates were loaded before these.

    A record replaces what was said about its vehicle, so an older one must not come last.
    """
    oldest = min(filter(None, map(date_of, files)), default=None)
    if oldest is None:
        return []
    later = set[str]()
    for load in last_loads(engine, register, kind):
        later.update(name for name in load.files.split("\n") if (date_of(name) or oldest) > oldest)
        if load.mode == REPLACE:
            break
    if not later:
        return []
    names = shortened(sorted_by_date(sorted(later), str), _NAMED_MAX)
    return [
        f"files of later dates were loaded before: {names}; load them again in their order, or "
        "vehicles in them keep what the older file says"
    ]


def _counted(engine: Engine, register: str, kind: Kind) -> Any:
    """Return a query for the loads of a kind that count, latest first."""
    return History(engine, register).counted().where(RegisterLoad.kind == kind)


def _largest(loads: list[Any]) -> tuple[int, int]:
    """Return the most rows in force that a replace left, and the number of that load.

    A load that was allowed to lose rows counts as well, and loads before it do not.

    Args:
        loads: the loads to look at, latest first.
    """
    in_force, load_id = 0, 0
    for load in loads:
        may_shrink = {SHRINK, f"{ACCEPTED}rows"}.intersection(json_list(load.accepted, str))
        change = change_of(load)
        # Of a merge, and of a load of an earlier release, nobody knows how many are in force.
        left = change.in_force[1] if change and load.mode == REPLACE else 0
        if left > in_force:
            in_force, load_id = left, load.id
        if may_shrink:
            break
    return in_force, load_id
