"""Refuses a load that loses what a register knows, and notes suspicious changes (D67)."""

import json
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.tally import Tally
from app.registers.baseline import SHRINK_MAX_PERCENT, last_loads
from app.registers.history import REPLACE
from app.registers.models import json_list
from app.registers.request import LOSS, SHRINK, LoadRequest
from app.storage.engine import Engine
from app.storage.tables import Kind

SHARE_MIN_PERCENT = 5
"""A member that a smaller share of the rows knew may be lost."""
ROWS_MIN = 10
"""A member may be lost in fewer rows: they may have been corrected by hand."""
UNIFORM_ROWS_MIN = 100
"""The least number of rows worth a note if all have the same value, and had others before."""
UNIFORM_FIRST_ROWS_MIN = 1_000
"""The same for rows that nothing was held about before: a small fleet is often alike."""


class Share(NamedTuple):
    """How many of some rows know a member."""

    known: int
    rows: int

    @property
    def percent(self) -> float:
        """The share in percent; 0 if there are no rows."""
        return 100 * self.known / self.rows if self.rows else 0.0


_percent = attrgetter("percent")


def require_no_loss(engine: Engine, register: str, request: LoadRequest, counts: Counts) -> None:
    """Refuse a load after which far fewer rows know a member, unless the request allows it.

    After a replace, all rows are compared with those that the register held under the same keys;
    with all rows held, if less than half of them have such keys; and with the best of the last
    replaces. After a merge, the rows that were held are compared with what they are now. If a loss
    was accepted before, the best of the loads since then is enough.

    Raises OperatorError with all lost members, and the options that allow their loss.
    """
    if not counts.held_before:
        return
    loads = last_loads(engine, register, counts.kind)
    former = _of_replaces(loads) if request.mode == REPLACE else {}
    accepted = _since_accepted(loads)
    all_held = _held_shares(counts)
    lost = {}
    for name, before, after in _shares(*_compared(request, counts)):
        before = max([before, *all_held.get(name, [])], key=_percent)
        expected = min([before, *accepted.get(name, [])], key=_percent)
        best = max([expected, *former.get(name, [])], key=_percent)
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
            rows = f"all {after.known[at]:,} rows that know it"
            notes.append(f"{member.name} is {shown} in {rows}{since}")
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


def _held_shares(counts: Counts) -> dict[str, list[Share]]:
    """Return the share of each member in all rows held, if that was counted."""
    held = counts.known_held
    if held is None:
        return {}
    members = zip(held.members, held.known, strict=True)
    return {member.name: [Share(known, held.rows)] for member, known in members}


def _of_replaces(loads: Sequence[Any]) -> dict[str, list[Share]]:
    """Return the shares of each member in the replaces among these loads, the latest first.

    Replaces do not count if a later load was allowed to lose the member, or to lose rows.
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


def _since_accepted(loads: Sequence[Any]) -> dict[str, list[Share]]:
    """Return the best share of each member since its loss was last accepted, in a list of one.

    Loads of fewer than `ROWS_MIN` rows since then do not count.
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


def _losses_accepted(load: Any) -> set[str]:
    """Return the members that a load was allowed to lose."""
    accepted = json_list(load.accepted, str)
    return {each.removeprefix(LOSS) for each in accepted if each.startswith(LOSS)}


def _shares_of(load: Any) -> dict[str, Share]:
    """Return the share of each member as the history has it, empty if the load did not count."""
    known: dict[str, int] = json.loads(load.known or '{"rows": 0}')
    rows = known.pop("rows")
    return {name: Share(of_rows, rows) for name, of_rows in known.items()}
