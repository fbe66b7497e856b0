"""What a format hands to the load: rows in the column order of a register's tables (D25).

On its way through the load a row or a change is any tuple of these columns; the shapes of one
kind are told apart by their length. A row of a file that lacks columns is narrow: it has one more
column, a tuple of the places of those that it says nothing of (D66).
"""

from typing import NamedTuple


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
    """One fine; what is owed counts in hundredths of the currency, never as a float."""

    registration: str
    reference: str
    issued_on: str | None = None
    amount_cents: int = 0
    currency: str | None = None
    settled: bool = False
    updated: int | None = None


Row = VehicleRow | PolicyRow | FineRow


class VehicleDeletion(NamedTuple):
    """The source takes back all that it said of a vehicle (formats 2)."""

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
