"""What a load would make unknown, and what it would make all the same (D67)."""

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
"""A member that fewer of the rows knew is not watched."""
ROWS_MIN = 10
"""So many rows must lose a member: fewer may have been corrected by hand."""
UNIFORM_ROWS_MIN = 100
"""So many rows with the same value are worth a note."""


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

    All rows of a replace are compared with those held that come again, and with the best of the
    last replaces. Of a merge, rows that are held are compared with what they are after it.
    """
    if not counts.held_before:
        return
    is_replace = request.mode == REPLACE
    former = _of_replaces(engine, register, counts.kind) if is_replace else {}
    fallen = {}
    for name, before, after in _shares(*_compared(request, counts)):
        best = max([before, *former.get(name, [])], key=lambda share: share.percent)
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


def uniform_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence for each member that all rows have in common now, and had not before."""
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


def _of_replaces(engine: Engine, register: str, kind: Kind) -> dict[str, list[Share]]:
    """Return, by member, its shares in the last replaces.

    Those before a loss of the member, or of rows, was allowed do not count.
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
