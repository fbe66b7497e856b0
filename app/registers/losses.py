"""Compares a load with earlier ones of its register (D67 to D69).

Only loads that are done count. Those that were rolled back do not, nor those before a drop.
"""

import json
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from app.errors import OperatorError
from app.registers.applying.counts import Counts, Tally
from app.registers.formats.columns import Column, KnownColumns
from app.registers.formats.native import SHAPES, Shape
from app.registers.history import REPLACE, REPLACES_COMPARED, History, RegisterLoad, json_list
from app.registers.request import LOSS, SHRINK, LoadRequest
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
    exceeds_limit = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if exceeds_limit and counts.removed >= _REMOVED_MIN:
        raise OperatorError(
            f"the load would remove {counts.removed:,} of the {counts.held_before:,} {kind} held, "
            f"more than {SHRINK_MAX_PERCENT} %; if that is right, repeat the load with "
            "--allow-shrink"
        )


# Refuses a load that loses many values of a register, and notes suspicious changes (D67).

SHARE_MIN_PERCENT = 5
"""A member with a value in a smaller share of the rows may be lost."""
ROWS_MIN = 10
"""Fewer rows may lose a member, because somebody may have corrected them by hand."""
UNIFORM_ROWS_MIN = 100
"""A note needs at least this many rows that suddenly all have the same value."""
UNIFORM_FIRST_ROWS_MIN = 1_000
"""The same if there is nothing to compare with. The vehicles of a small fleet are often alike."""


class Share(NamedTuple):
    """How many rows have a value for a member."""

    known: int
    rows: int

    @property
    def percent(self) -> float:
        """The share in percent, or 0 if there are no rows."""
        return 100 * self.known / self.rows if self.rows else 0.0


_percent = attrgetter("percent")


def require_no_loss(engine: Engine, register: str, request: LoadRequest, counts: Counts) -> None:
    """Raise OperatorError if a load loses a member in many rows and the request does not allow it.

    A replace is compared with the old rows whose keys it has. It is compared with all old rows too,
    if less than half of them have such keys. And it is compared with the best of the last replaces.
    A merge compares the rows that it touches, before and after. If a loss was accepted earlier, it
    is enough to reach the best load since then.

    The message names all lost members and the options that allow their loss.
    """
    if not counts.held_before:
        return
    loads = last_loads(engine, register, counts.kind)
    former = _shares_in_replaces(loads) if request.mode == REPLACE else {}
    accepted = _best_since_accepted(loads)
    all_held = _held_shares(counts)
    lost = {}
    for name, before, after in _shares(*_tallies_to_compare(request, counts)):
        before = max([before, *all_held.get(name, [])], key=_percent)
        expected = min([before, *accepted.get(name, [])], key=_percent)
        best = max([expected, *former.get(name, [])], key=_percent)
        if name not in request.allow_loss and _is_lost(best, after, request.loss_max):
            lost[name] = (
                f"{name} has a value in {after.percent:.1f} % of the rows, "
                f"before in {best.percent:.1f} %"
            )
    if lost:
        options = " ".join(f"--allow-loss {name}" for name in lost)
        raise OperatorError(
            f"the load would remove values from the register {register}: "
            f"{'; '.join(lost.values())}; if that is right, repeat the load with {options}"
        )


def _is_lost(before: Share, after: Share, loss_max: float) -> bool:
    """Return whether a share falls by more than `loss_max` percentage points, in enough rows."""
    if before.percent < SHARE_MIN_PERCENT or not after.rows:
        return False
    # NOTE: without rounding, a fall by 10 could count as a fall by 10.000000000000004.
    fall = round(before.percent - after.percent, 6)
    rows = round(fall * after.rows / 100, 6)
    return fall > loss_max and rows >= ROWS_MIN


def uniform_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence for each member that has the same value in all rows and did not before."""
    notes = []
    before, after = _tallies_to_compare(request, counts)
    if not counts.held_before:
        after = counts.known
    rows_min = UNIFORM_ROWS_MIN if before.rows else UNIFORM_FIRST_ROWS_MIN
    since = ", and was not before" if before.rows else ""
    for at, member in enumerate(after.members):
        was_uniform = len(before.values[at]) == 1
        is_uniform = len(after.values[at]) == 1 and after.known[at] >= rows_min
        if is_uniform and not was_uniform:
            value = after.values[at][0]
            shown = "the same" if member.is_text else value
            shown = str(bool(value)).lower() if member.is_flag else shown
            rows = f"all {after.known[at]:,} rows with a value"
            notes.append(f"{member.name} is {shown} in {rows}{since}")
    return notes


def exchange_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence if a replace removes many vehicles, even if it adds as many others.

    This happens if a source suddenly writes its plates in another way. The register does not shrink
    then.
    """
    exceeds_limit = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if counts.kind != Kind.VEHICLES or request.allow_shrink or not exceeds_limit:
        return []
    if request.mode != REPLACE or counts.removed < UNIFORM_ROWS_MIN:
        return []
    return [f"{counts.removed:,} of the {counts.held_before:,} vehicles held before are removed"]


def _tallies_to_compare(request: LoadRequest, counts: Counts) -> tuple[Tally, Tally]:
    """Return the tallies of the rows that a load affects, before and after it."""
    after = counts.known if request.mode == REPLACE else counts.known_after
    return counts.known_before, after


def _shares(before: Tally, after: Tally) -> Iterator[tuple[str, Share, Share]]:
    """Yield each member with its share in the rows before, and in the rows after."""
    for at, member in enumerate(after.members):
        yield (
            member.name,
            Share(before.known[at], before.rows),
            Share(after.known[at], after.rows),
        )


def _held_shares(counts: Counts) -> dict[str, list[Share]]:
    """Return the share of each member in all rows before the load, if these were counted."""
    held = counts.known_held
    if held is None:
        return {}
    members = zip(held.members, held.known, strict=True)
    return {member.name: [Share(known, held.rows)] for member, known in members}


def _shares_in_replaces(loads: Sequence[RegisterLoad]) -> dict[str, list[Share]]:
    """Return the shares of each member in the replaces among these loads, the latest first.

    A replace does not count if a later load was allowed to lose the member or to lose rows.
    """
    shares: dict[str, list[Share]] = {}
    settled: set[str] = set()
    for load in loads:
        if load.mode == REPLACE:
            of_load = _shares_of(load)
            for name in of_load.keys() - settled:
                shares.setdefault(name, []).append(of_load[name])
        settled |= _losses_accepted(load)
        if SHRINK in json_list(load.accepted, str):
            break
    return shares


def _best_since_accepted(loads: Sequence[RegisterLoad]) -> dict[str, list[Share]]:
    """Return a list with the best share of each member since its loss was last accepted.

    Later loads of fewer than `ROWS_MIN` rows do not count.
    """
    best: dict[str, Share] = {}
    accepted: dict[str, list[Share]] = {}
    for load in loads:
        of_load = _shares_of(load)
        for name in _losses_accepted(load) - accepted.keys():
            shares = [of_load.get(name, Share(0, 0)), best.get(name, Share(0, 0))]
            accepted[name] = [max(shares, key=_percent)]
        for name, share in of_load.items():
            if share.rows >= ROWS_MIN:
                best[name] = max(share, best.get(name, share), key=_percent)
    return accepted


def _losses_accepted(load: RegisterLoad) -> set[str]:
    """Return the members that a load was allowed to lose."""
    accepted = json_list(load.accepted, str)
    return {each.removeprefix(LOSS) for each in accepted if each.startswith(LOSS)}


def _shares_of(load: RegisterLoad) -> dict[str, Share]:
    """Return the share of each member in the history of a load; empty if it was not counted."""
    known: dict[str, int] = json.loads(load.known or '{"rows": 0}')
    rows = known.pop("rows")
    return {name: Share(of_rows, rows) for name, of_rows in known.items()}


# Notes what suggests that a wrong column is read: repeated keys, two dates of one (D123).

REPEAT_ROWS_MIN = 10
"""A note asks about the column of the registration only if there are at least so many rows."""
_KEYS = {
    Kind.VEHICLES: "registration",
    Kind.POLICIES: "registration, insurer, number and first day",
    Kind.FINES: "registration and reference",
}


def repeat_notes(kind: Kind, known: KnownColumns, rows: int, keys: int, files: int) -> list[str]:
    """Return a sentence if rows of native or mapped files repeat keys.

    If most rows repeat a registration, the wrong column is probably read as registration. Files of
    one load are applied in their order, so each of them may have all keys once.

    Args:
        known: the columns of the format.
        rows: the number of rows read.
        keys: the number of different keys among them.
        files: the number of files.
    """
    if not known.is_partial:
        return []
    if kind == Kind.VEHICLES and rows >= REPEAT_ROWS_MIN and rows > 2 * keys * files:
        column, *_ = known.columns
        is_named = known.is_mapped and not column.is_constant
        question = f": is {column.label} the right column?" if is_named else ""
        have = "the same registration" if keys == 1 else f"only {keys:,} different registrations"
        return [f"{rows:,} rows have {have}{question}"]
    repeated = rows - keys
    if repeated < 1 or files > 1:
        return []
    is_one = repeated == 1
    return [
        f"{repeated:,} {'row has' if is_one else 'rows have'} the {_KEYS[kind]} of another row; "
        "the last of them counts"
    ]


def shared_date_notes(known: KnownColumns) -> list[str]:
    """Return a sentence for each column that a mapping reads as two dates.

    The time of the last change does not count: it can be a day that the file also has another use
    for.

    Args:
        known: the columns of the format.
    """
    notes = []
    first: dict[frozenset[str], Column] = {}
    for column in known.columns:
        if column.names and known.is_mapped and SHAPES.get(column.member) == Shape.DAY:
            other = first.setdefault(column.names, column)
            if other is not column:
                members = f"{other.member} and {column.member}"
                notes.append(f"{members} are both read from {column.label}: is that right?")
    return notes
