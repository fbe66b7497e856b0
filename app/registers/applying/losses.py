"""What a load would make unknown, and what it would make all the same (D67)."""

import json
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from app.errors import OperatorError
from app.registers.applying.comparison import Counts
from app.registers.applying.knowledge import Tally
from app.registers.baseline import SHRINK_MAX_PERCENT, last_loads
from app.registers.history import REPLACE
from app.registers.models import list_of
from app.registers.request import LOSS, SHRINK, LoadRequest
from app.storage.engine import Engine
from app.storage.tables import Kind

SHARE_MIN_PERCENT = 5
"""A member that fewer of the rows knew is not watched."""
ROWS_MIN = 10
"""So many rows must lose a member: fewer may have been corrected by hand."""
UNIFORM_ROWS_MIN = 100
"""So many rows with the same value are worth a note, where other values were held before."""
UNIFORM_FIRST_ROWS_MIN = 1_000
"""So many, where no rows were held to compare them with: a small fleet is often alike."""


class Share(NamedTuple):
    """How many of some rows know a member."""

    known: int
    rows: int

    @property
    def percent(self) -> float:
        """The share in percent; 0 of no rows."""
        return 100 * self.known / self.rows if self.rows else 0.0


def require_no_loss(engine: Engine, register: str, request: LoadRequest, counts: Counts) -> None:
    """Raise OperatorError if far fewer rows know a member than did, unless that is right.

    All rows of a replace are compared with those held that come again (with all rows held, too, if
    less than half of them do), and with the best of the last replaces. Of a merge, rows that are
    held are compared with what they are after it. Where a loss was accepted before, no more is
    expected than the best of the loads since then knew.
    """
    if not counts.held_before:
        return
    loads = last_loads(engine, register, counts.kind)
    former = _of_replaces(loads) if request.mode == REPLACE else {}
    accepted = _since_accepted(loads)
    all_held = _held_shares(counts)
    fallen = {}
    for name, before, after in _shares(*_compared(request, counts)):
        before = max([before, *all_held.get(name, [])], key=_percent)
        expected = min([before, *accepted.get(name, [])], key=_percent)
        best = max([expected, *former.get(name, [])], key=_percent)
        is_watched = best.percent >= SHARE_MIN_PERCENT and name not in request.allow_loss
        # NOTE: rounded, for a fall by 10 must not be one by 10.000000000000004.
        fall = round(best.percent - after.percent, 6) if after.rows else 0
        is_many = round(fall * after.rows / 100, 6) >= ROWS_MIN
        if is_watched and is_many and fall > request.loss_max:
            fallen[name] = (
                f"{name} by {best.percent:.1f} % of the rows, now by {after.percent:.1f} %"
            )
    if fallen:
        options = " ".join(f"--allow-loss {name}" for name in fallen)
        raise OperatorError(
            f"the register {register} would lose what it knows: {'; '.join(fallen.values())}; "
            f"if that is right, repeat it with {options}"
        )


_percent = attrgetter("percent")


def uniform_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence for each member that all rows have in common now, and had not before."""
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
    """Return a sentence if a replace takes many vehicles away, and brings as many others.

    The register does not shrink by that; but plates that are written otherwise look like it.
    """
    is_much = counts.removed > counts.held_before * SHRINK_MAX_PERCENT / 100
    if counts.kind != Kind.VEHICLES or request.allow_shrink or not is_much:
        return []
    if request.mode != REPLACE or counts.removed < UNIFORM_ROWS_MIN:
        return []
    return [f"{counts.removed:,} of the {counts.held_before:,} vehicles held before are removed"]


def _compared(request: LoadRequest, counts: Counts) -> tuple[Tally, Tally]:
    """Return what was known of the rows that a load meets, and what is known afterwards."""
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
    """Return, by member, its share in all rows held, if that was counted."""
    held = counts.known_held
    if held is None:
        return {}
    members = zip(held.members, held.known, strict=True)
    return {member.name: [Share(known, held.rows)] for member, known in members}


def _of_replaces(loads: Sequence[Any]) -> dict[str, list[Share]]:
    """Return, by member, its shares in the replaces among some loads, the latest first.

    Those before a load that was allowed to lose the member, or rows, do not count.
    """
    shares: dict[str, list[Share]] = {}
    settled: set[str] = set()
    for load in loads:
        if load.mode == REPLACE:
            of_load = _shares_of(load)
            for name in of_load.keys() - settled:
                shares.setdefault(name, []).append(of_load[name])
        settled |= _losses_accepted(load)
        if SHRINK in list_of(load.accepted, str):
            break
    return shares


def _since_accepted(loads: Sequence[Any]) -> dict[str, list[Share]]:
    """Return, by member, its best share since a loss of it was accepted last, in a list of one.

    Loads of a few rows since then say nothing.
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
    accepted = list_of(load.accepted, str)
    return {each.removeprefix(LOSS) for each in accepted if each.startswith(LOSS)}


def _shares_of(load: Any) -> dict[str, Share]:
    """Return, by member, what the history keeps of a load; nothing if it does not tell."""
    known: dict[str, int] = json.loads(load.known or '{"rows": 0}')
    rows = known.pop("rows")
    return {name: Share(of_rows, rows) for name, of_rows in known.items()}
