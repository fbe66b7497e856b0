"""What is known about a plate: the rows of one register, and the record merged from all.

`app.storage.tables` says which columns there are; the shapes here follow it. None is unknown, and
dates are ISO texts (YYYY-MM-DD).
"""

from typing import NamedTuple

import msgspec

from app.storage.tables import Kind, require_columns

POLICIES_MAX = 100
"""Policies of a plate that later days are judged by."""
FINES_MAX = 100
"""Fines of a plate that are counted."""


class VehicleFacts(NamedTuple):
    """A vehicle row of one register."""

    make: str | None
    model: str | None
    year: int | None
    color: str | None
    insured: bool | None
    mot_expiry: str | None
    mot_exempt: bool | None
    first_registered: str | None
    tax_status: str | None
    tax_due: str | None
    updated: int
    """Unix seconds."""


class PolicyFacts(NamedTuple):
    """A policy of one register; an unknown insurer is the empty text."""

    insurer: str
    number: str
    valid_from: str
    valid_to: str
    type: str | None
    cancelled_on: str | None
    updated: int

    def is_in_force(self, day: str) -> bool:
        """Tell whether the policy covers the day, both ends included."""
        in_dates = self.valid_from <= day <= self.valid_to
        return in_dates and (self.cancelled_on is None or day < self.cancelled_on)

    @property
    def end(self) -> str:
        """The day on which it ends: its last day, or that of an earlier cancellation (D20)."""
        cancelled_on = self.cancelled_on
        return self.valid_to if cancelled_on is None else min(self.valid_to, cancelled_on)

    @property
    def ending(self) -> tuple[str, bool]:
        """A key that is greatest for the policy that ends last: a cancelled day is not covered."""
        return self.end, self.end != self.cancelled_on

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes it the same policy in two registers (D173)."""
        return self.insurer, self.number, self.valid_from

    def rank(self, day: str) -> tuple[bool, str, bool, str, str]:
        """Return a key that is greatest for the policy to answer with on the day."""
        return self.is_in_force(day), *self.ending, self.valid_from, self.number


class FineFacts(NamedTuple):
    """A fine of one register; the amount owed is in hundredths of the currency."""

    reference: str
    issued_on: str | None
    amount_cents: int
    currency: str | None
    settled: bool
    updated: int


class Holding(NamedTuple):
    """What one register holds about one plate."""

    register: str
    vehicle: VehicleFacts | None
    policies: tuple[PolicyFacts, ...]
    fines: tuple[FineFacts, ...]


class Record(msgspec.Struct, frozen=True, gc=False):
    """What all registers together say about a known plate; flags are 1 and 0 on SQLite.

    What a look-up did not ask for has its default.

    PERF: as a NamedTuple it takes twice as long to make, and a bulk of 1,000 takes 3 % longer.
    """

    registration: str
    insured: bool | None
    """A register's plain yes or no; it counts only if no policy is known."""
    updated: int
    """Unix seconds: the newest change among the rows used (D21)."""
    policy: PolicyFacts | None
    """The policy to answer with on the day asked for; None if no register knows one."""
    make: str | None = None
    model: str | None = None
    year: int | None = None
    color: str | None = None
    mot_expiry: str | None = None
    mot_exempt: bool | None = None
    first_registered: str | None = None
    tax_status: str | None = None
    tax_due: str | None = None
    has_outstanding_fines: bool | None = None
    """None if the look-up did not ask for the papers."""
    mot_first_years: int = 0
    """Years after `first_registered` before an MOT is due; 0 for never (D154)."""
    policies: tuple[PolicyFacts, ...] = ()
    """Those that end (D20) on or after the day asked for, if there are several, and otherwise none:
    then only `policy` can count from that day on. They are at most `POLICIES_MAX`, and one more if
    there are more; in the order of D20 for equals, after those in force if that was asked for."""
    outstanding_fines: int | None = None
    """How many fines are owed, at most `FINES_MAX`; one that two registers know counts once."""


require_columns(VehicleFacts, Kind.VEHICLES)
require_columns(PolicyFacts, Kind.POLICIES)
require_columns(FineFacts, Kind.FINES)
