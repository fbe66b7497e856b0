"""What a format hands to the load: rows of a register's tables, and changes of them (D25).

`app.storage.tables` says which columns there are. A row has the same ones in the same order.
Formats may give plain tuples for complete rows; every other change keeps its type until it is
applied, also on disk.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from app.storage.tables import (
    TIME_COLUMN,
    Fine,
    Policy,
    Vehicle,
    column_names,
    require_columns,
)

Columns = tuple[Any, ...]
"""The values of a row, in the order of its table's columns; or any other change."""


class VehicleRow(NamedTuple):
    """One vehicle; None is *unknown*, never false. Dates are ISO texts (YYYY-MM-DD)."""

    registration: str
    make: str | None = None
    model: str | None = None
    year: int | None = None
    color: str | None = None
    insured: bool | None = None
    mot_expiry: str | None = None
    mot_exempt: bool | None = None
    first_registered: str | None = None
    tax_status: str | None = None
    tax_due: str | None = None
    updated: int | None = None
    """Unix seconds of the source's own time stamp; None: the time of the load counts (D21)."""


class PolicyRow(NamedTuple):
    """One policy; both dates are included (D20). An unknown insurer is the empty text."""

    registration: str
    insurer: str
    number: str
    valid_from: str
    valid_to: str
    type: str | None = None
    cancelled_on: str | None = None
    updated: int | None = None


class FineRow(NamedTuple):
    """One fine; the amount owed is in hundredths of the currency, never a float."""

    registration: str
    reference: str
    issued_on: str | None = None
    amount_cents: int = 0
    currency: str | None = None
    settled: bool = False
    updated: int | None = None


Row = VehicleRow | PolicyRow | FineRow

require_columns(VehicleRow, Vehicle)
require_columns(PolicyRow, Policy)
require_columns(FineRow, Fine)


class NarrowRow(Columns):
    """A row of a file that lacks columns: the values, then `absent` (D66).

    A merge keeps the values that the register holds in the absent places.
    """

    __slots__ = ()

    @property
    def absent(self) -> tuple[int, ...]:
        """The places of the columns that the file does not have."""
        places: tuple[int, ...] = self[-1]
        return places


class VehicleDeletion(NamedTuple):
    """The source takes back everything it said about a vehicle (formats 2)."""

    registration: str


class PolicyDeletion(NamedTuple):
    """The insurer takes back a policy of a vehicle, in all its periods (formats 4)."""

    registration: str
    insurer: str
    number: str


class PolicyCancellation(NamedTuple):
    """The insurer ends a policy of a vehicle, in all its periods, on a day (formats 4)."""

    registration: str
    insurer: str
    number: str
    cancelled_on: str


Change = Row | VehicleDeletion | PolicyDeletion | PolicyCancellation
"""What a format reads: a row to hold from now on, or a change of rows that are held."""

INCOMPLETE: frozenset[type[Columns]] = frozenset(
    {NarrowRow, VehicleDeletion, PolicyDeletion, PolicyCancellation}
)
"""The types of all changes that are not complete rows."""


def are_complete(changes: Iterable[Columns]) -> bool:
    """Tell whether all changes are complete rows, which only need to be written."""
    # PERF: 20 ns a row, of 9 us that a load takes.
    return INCOMPLETE.isdisjoint(map(type, changes))


_TIME = column_names(Vehicle).index(TIME_COLUMN) - len(column_names(Vehicle))
"""The place of the time in a row of any table: the last one."""

time_of = itemgetter(_TIME)
"""Returns the time of a row, in Unix seconds."""


def without_time(row: Columns) -> Columns:
    """Return all values of a row but its time."""
    return row[:_TIME]


def with_time(row: Sequence[Any], time: int | None) -> Columns:
    """Return a row with another time."""
    return (*row[:_TIME], time)
