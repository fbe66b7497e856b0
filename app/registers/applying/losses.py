"""Refuses a load that loses what a register knows, and notes suspicious changes (D67)."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.tally import Tally
from app.registers.baseline import SHRINK_MAX_PERCENT, last_replaces
from app.registers.formats import Kind
from app.registers.history import REPLACE
from app.registers.models import list_of
from app.registers.request import SHRINK, LoadRequest
from app.storage.engine import Engine

SHARE_MIN_PERCENT = 5
"""A member that a smaller share of the rows knew may be lost."""
ROWS_MIN = 10
"""A member may be lost in fewer rows: they may have been corrected by hand."""
UNIFORM_ROWS_MIN = 100
"""The least number of rows with the same value that is worth a note."""


class Share(NamedTuple):
    """How many of some rows know a member."""

    known: int
    rows: int

    @property
    def percent(self) -> float:
        """The share in percent; 0 if there are no rows."""
        return 100 * self.known / self.rows if self.rows else 0.0


def require_no_loss(engine: Engine, register: str, request: LoadRequest, counts: Counts) -> None:
    """Refuse a load after which far fewer rows know a member, unless the request allows it.

    After a replace, all rows are compared with those that the register held under the same keys,
    and with the best of the last replaces. After a merge, the rows that were held are compared
    with what they are now.

    Raises OperatorError with all these members, and the options that allow their loss.
    """
    if not counts.held_before:
        return
    is_replace = request.mode == REPLACE
    former = _shares_of_replaces(engine, register, counts.kind) if is_replace else {}
    lost = {}
    for name, before, after in _shares(*_compared(request, counts)):
        best = max([before, *former.get(name, [])], key=lambda share: share.percent)
        if name not in request.allow_loss and _is_lost(best, after, request.loss_max):
            lost[name] = f"{name} by {best.percent:.1f} % of the rows, now by {after.percent:.1f} %"
    if lost:
        options = " ".join(f"--allow-loss {name}" for name in lost)
        raise OperatorError(
            f"the register {register} would lose what it knows: {'; '.join(lost.values())}; "
            f"if that is right, repeat it with {options}"
        )


def _is_lost(before: Share, after: Share, loss_max: float) -> bool:
    """Tell whether a share fell by more than `loss_max` percentage points, in enough rows."""
    if before.percent < SHARE_MIN_PERCENT or not after.rows:
        return False
    # NOTE: rounded, because a fall by 10 must not count as one by 10.000000000000004.
    fall = round(before.percent - after.percent, 6)
    rows = round(fall * after.rows / 100, 6)
    return fall > loss_max and rows >= ROWS_MIN


def uniform_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence for each member that now has the same value in all rows, and had not."""
    notes = []
    before, after = _compared(request, counts)
    for at, member in enumerate(after.members):
        was_uniform = len(before.values[at]) < 2
        is_uniform = len(after.values[at]) == 1 and after.known[at] >= UNIFORM_ROWS_MIN
        if is_uniform and not was_uniform:
            value = after.values[at][0]
            shown = "the same" if member.is_text else value
            shown = str(bool(value)).lower() if member.is_flag else shown
            rows = f"all {after.known[at]:,} rows that know it"
            notes.append(f"{member.name} is {shown} in {rows}, and was not before")
    return notes


def exchange_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence if a replace removes many vehicles and adds about as many others.

    The register does not shrink by that. Plates that the source suddenly writes otherwise look
    the same.
    """
    is_much = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if counts.kind != Kind.VEHICLES or request.allow_shrink or not is_much:
        return []
    if request.mode != REPLACE or counts.removed < UNIFORM_ROWS_MIN:
        return []
    return [f"{counts.removed:,} of the {counts.held_before:,} vehicles held before are removed"]


def _compared(request: LoadRequest, counts: Counts) -> tuple[Tally, Tally]:
    """Return the tallies of the rows that a load affects: before it and after it."""
    after = counts.known if request.mode == REPLACE else counts.known_after
    return counts.known_before, after


def _shares(before: Tally, after: Tally) -> Iterator[tuple[str, Share, Share]]:
    """Yield each member with its share of the rows before, and of the rows after."""
    for at, member in enumerate(after.members):
        yield (
            member.name,
            Share(before.known[at], before.rows),
            Share(after.known[at], after.rows),
        )


def _shares_of_replaces(engine: Engine, register: str, kind: Kind) -> dict[str, list[Share]]:
    """Return the shares of each member in the last replaces.

    Replaces do not count if a later one was allowed to lose the member, or to lose rows.
    """
    shares: dict[str, list[Share]] = {}
    settled: set[str] = set()
    for load in last_replaces(engine, register, kind):
        known: dict[str, int] = json.loads(load.known or '{"rows": 0}')
        rows = known.pop("rows")
        for name in known.keys() - settled:
            shares.setdefault(name, []).append(Share(known[name], rows))
        accepted = list_of(load.accepted, str)
        settled |= {each.removeprefix("loss:") for each in accepted}
        if SHRINK in accepted:
            break
    return shares
