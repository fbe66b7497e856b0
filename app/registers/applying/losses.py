"""Refuses a load that loses many values of a register, and notes suspicious changes (D67)."""

import json
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.tally import Tally
from app.registers.baseline import SHRINK_MAX_PERCENT, last_loads
from app.registers.history import REPLACE
from app.registers.models import RegisterLoad, json_list
from app.registers.request import LOSS, SHRINK, LoadRequest
from app.storage.engine import Engine
from app.storage.tables import Kind

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
    is_much = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if counts.kind != Kind.VEHICLES or request.allow_shrink or not is_much:
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
