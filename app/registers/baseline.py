"""Compares a load with earlier ones of its register (D67 to D69).

Only loads that are done count. Those that were rolled back do not, nor those before a drop.
"""

from typing import Any, NamedTuple

from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.history import REPLACE, REPLACES_COMPARED, History
from app.registers.models import RegisterLoad, json_list
from app.registers.request import SHRINK
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.tables import Kind

SHRINK_MAX_PERCENT = 10
_REMOVED_MIN = 10
"""A merge may always remove fewer rows than this: someone may have deleted them by hand."""


class Baseline(NamedTuple):
    """What the next load is compared with, besides the rows that the register holds."""

    is_terminated: bool
    """Whether the register's previous file of the same kind and format ended with a line end."""
    held: int
    """The most rows that one of the last replaces left; 0 if there is none."""
    load_id: int
    """The number of that replace; 0 if there is none."""


def baseline_of(
    engine: Engine, entry: Entry | None, register: str, kind: Kind, format_name: str
) -> Baseline:
    """Return what the next load of this register, kind and format is compared with.

    Args:
        entry: the register's entry; None if it has none.
    """
    if entry is None:
        return Baseline(is_terminated=False, held=0, load_id=0)
    previous: Any = (
        _counted(engine, register, kind)
        .where((RegisterLoad.format == format_name) & RegisterLoad.is_terminated.is_null(False))
        .first(engine)
    )
    held, load_id = _largest(last_loads(engine, register, kind))
    return Baseline(previous is not None and bool(previous.is_terminated), held, load_id)


def last_loads(engine: Engine, register: str, kind: Kind) -> list[Any]:
    """Return the loads of a kind that count, latest first, back to the seventh-last replace."""
    loads = _counted(engine, register, kind).where(RegisterLoad.held.is_null(False))
    replaces = loads.where(RegisterLoad.mode == REPLACE)
    oldest = replaces.offset(REPLACES_COMPARED - 1).limit(1).first(engine)
    return list(loads.where(RegisterLoad.id >= (oldest.id if oldest else 0)).execute(engine))


def _counted(engine: Engine, register: str, kind: Kind) -> Any:
    """Return a query for the loads of a kind that count, latest first."""
    return History(engine, register).counted().where(RegisterLoad.kind == kind)


def _largest(loads: list[Any]) -> tuple[int, int]:
    """Return the most rows that a replace left, and the number of that load.

    A load with `--allow-shrink` counts as well, and loads before it do not.

    Args:
        loads: the loads to look at, latest first.
    """
    held, load_id = 0, 0
    for load in loads:
        may_shrink = SHRINK in json_list(load.accepted, str)
        if load.held > held and (may_shrink or load.mode == REPLACE):
            held, load_id = load.held, load.id
        if may_shrink:
            break
    return held, load_id


def require_no_shrink(kind: Kind, counts: Counts, baseline: Baseline) -> None:
    """Raise OperatorError if a replace leaves no rows, or over 10 % fewer than before."""
    if not counts.held_before and not counts.held:
        raise OperatorError(
            f"the files hold no {kind}; if that is right, repeat the load with --allow-shrink"
        )
    most = max(counts.held_before, baseline.held)
    if counts.held < most * (100 - SHRINK_MAX_PERCENT) / 100:
        since = f" since load {baseline.load_id}" if most > counts.held_before else ""
        raise OperatorError(
            f"the register would shrink from {most:,} to {counts.held:,} {kind}{since}, by more "
            f"than {SHRINK_MAX_PERCENT} %; if that is right, repeat the load with --allow-shrink"
        )


def require_few_removed(kind: Kind, counts: Counts) -> None:
    """Raise OperatorError if a merge removes over 10 % of the rows held, and at least ten."""
    is_much = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if is_much and counts.removed >= _REMOVED_MIN:
        raise OperatorError(
            f"the load would remove {counts.removed:,} of the {counts.held_before:,} {kind} held, "
            f"more than {SHRINK_MAX_PERCENT} %; if that is right, repeat the load with "
            "--allow-shrink"
        )
