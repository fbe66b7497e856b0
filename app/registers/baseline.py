"""What earlier loads of a register say of the next one, and how long they are kept (D68, D69)."""

from typing import Any, NamedTuple

from peewee import fn

from app import clock
from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.history import DROP, PURGE, REPLACE
from app.registers.models import RegisterLoad, list_of
from app.registers.request import SHRINK
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.tables import Kind

SHRINK_MAX_PERCENT = 10
_REMOVED_MIN = 10
"""So many rows must be removed by a merge: fewer may have been deleted by hand."""
_REPLACES_COMPARED = 7
_KEPT_SECONDS = 400 * 86_400
# What was rolled back, or dropped and brought back, is done and has a reason.
_COUNTS: Any = (RegisterLoad.status == "done") & RegisterLoad.reason.is_null()


class Baseline(NamedTuple):
    """What a load is held against, beside the rows that the register holds."""

    is_terminated: bool
    """Whether the register's previous file of the same kind and format ended with a line end."""
    held: int
    """The most rows that one of the last replaces left."""
    load_id: int
    """Which one; 0 if there is none."""


def find_baseline(
    engine: Engine, entry: Entry | None, register: str, kind: Kind, format_name: str
) -> Baseline:
    """Return what the loads that count say of the next one of this register, kind and format.

    Args:
        entry: the register as it is; None if there is none.
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
    """Return the loads of a kind that count, back to the seventh last replace; the latest first."""
    loads = _counted(engine, register, kind).where(RegisterLoad.held.is_null(False))
    is_replace = RegisterLoad.mode == REPLACE
    replaces = loads.where(is_replace).offset(_REPLACES_COMPARED - 1).limit(1).first(engine)
    return list(loads.where(RegisterLoad.id >= (replaces.id if replaces else 0)).execute(engine))


def _counted(engine: Engine, register: str, kind: Kind) -> Any:
    """Return a query of the loads of a kind that count, the latest first."""
    is_it = (RegisterLoad.register == register) & _COUNTS
    dropped_at = RegisterLoad.select(fn.MAX(RegisterLoad.id)).where(
        is_it & RegisterLoad.mode.in_([DROP, PURGE])
    )
    is_since = RegisterLoad.id > (dropped_at.scalar(engine) or 0)
    loads = RegisterLoad.select().where(is_it & is_since & (RegisterLoad.kind == kind))
    return loads.order_by(RegisterLoad.id.desc())


def _largest(loads: list[Any]) -> tuple[int, int]:
    """Return what the largest replace of these loads left, and its number; the last comes first."""
    held, load_id = 0, 0
    for each in loads:
        is_accepted = SHRINK in list_of(each.accepted, str)
        if each.held > held and (is_accepted or each.mode == REPLACE):
            held, load_id = each.held, each.id
        # Older ones do not matter since the operator said so.
        if is_accepted:
            break
    return held, load_id


def require_no_shrink(kind: Kind, counts: Counts, baseline: Baseline) -> None:
    """Raise OperatorError if a replace leaves far less than there was."""
    if not counts.held_before and not counts.held:
        raise OperatorError(
            f"there are no {kind} in what was read; if that is right, repeat it with --allow-shrink"
        )
    most = max(counts.held_before, baseline.held)
    if counts.held < most * (100 - SHRINK_MAX_PERCENT) / 100:
        since = f" since load {baseline.load_id}" if most > counts.held_before else ""
        raise OperatorError(
            f"the register would shrink from {most:,} to {counts.held:,} {kind}{since}, by more "
            f"than {SHRINK_MAX_PERCENT} %; if that is right, repeat it with --allow-shrink"
        )


def require_few_removed(kind: Kind, counts: Counts) -> None:
    """Raise OperatorError if a merge removes many of the rows that were held."""
    is_much = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if is_much and counts.removed >= _REMOVED_MIN:
        raise OperatorError(
            f"the load would remove {counts.removed:,} of the {counts.held_before:,} {kind} held, "
            f"more than {SHRINK_MAX_PERCENT} %; if that is right, repeat it with --allow-shrink"
        )


def prune(engine: Engine) -> None:
    """Remove old lines of the history, but what runs and what the next loads are held against."""
    place = fn.ROW_NUMBER().over(
        partition_by=[
            RegisterLoad.register,
            RegisterLoad.kind,
            RegisterLoad.mode,
            RegisterLoad.format,
        ],
        order_by=[RegisterLoad.id.desc()],
    )
    numbered = RegisterLoad.select(RegisterLoad.id, place.alias("place")).where(_COUNTS)
    needed = numbered.select_from(numbered.c.id).where(numbered.c.place <= _REPLACES_COMPARED)
    is_old = RegisterLoad.started_at < clock.now() - _KEPT_SECONDS
    is_over = RegisterLoad.status != "running"
    RegisterLoad.delete().where(is_old & is_over & RegisterLoad.id.not_in(needed)).execute(engine)
