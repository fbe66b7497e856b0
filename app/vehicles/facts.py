"""What is known about a plate: the rows of one register, and the record merged from all.

`app.storage.tables` says which columns there are; the shapes here follow it. None is unknown, and
dates are ISO texts (YYYY-MM-DD).
"""

from collections.abc import Collection
from datetime import UTC, date, timedelta, tzinfo
from operator import attrgetter
from typing import NamedTuple

import msgspec

from app import clock
from app.storage.tables import Kind, require_columns

POLICIES_MAX = 100
"""Policies of a plate that later days are judged by: the cost must not grow with them.

Of more of them nothing is guessed.
"""
FINES_MAX = 100
"""Fines of a plate that are counted."""


Terms = tuple[str, str, str | None, str]
"""The first and the last day of a policy, the day of its cancellation, and its number."""


Rank = tuple[bool, str, bool, str, str]
"""It is greatest for the policy to answer with (D20). Its parts: whether the policy is in force on
the day; the day on which it ends, which a cancellation is; whether that day is covered, which the
day of a cancellation is not; its first day; its number."""


def covers(terms: Terms, day: str) -> bool:
    """Tell whether a policy is in force on a day (ISO date)."""
    valid_from, valid_to, cancelled_on, _ = terms
    return valid_from <= day <= valid_to and (cancelled_on is None or day < cancelled_on)


def rank(terms: Terms, day: str) -> Rank:
    valid_from, valid_to, cancelled_on, number = terms
    if cancelled_on is None or cancelled_on > valid_to:
        return covers(terms, day), valid_to, True, valid_from, number
    return covers(terms, day), cancelled_on, False, valid_from, number


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
        """Tell whether the policy covers the day."""
        return covers(terms_of(self), day)

    def rank(self, day: str) -> Rank:
        return rank(terms_of(self), day)

    @property
    def end(self) -> str:
        """The day on which it ends: its last day, or that of an earlier cancellation."""
        return self.rank("")[1]

    @property
    def ending(self) -> tuple[str, bool]:
        """The day on which it ends, and whether that is covered."""
        return self.rank("")[1:3]

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes it the same policy in two registers, which overlap."""
        return self.insurer, self.number, self.valid_from


terms_of = attrgetter("valid_from", "valid_to", "cancelled_on", "number")
"""Return the terms of a policy."""


class FineFacts(NamedTuple):
    """A fine of one register; the amount owed is in hundredths of the currency."""

    reference: str
    issued_on: str | None
    amount_cents: int
    currency: str | None
    settled: bool
    updated: int


class PlateFacts(NamedTuple):
    """The rows of a plate in all registers, each with the name of its register.

    They have the order of the registers' precedence, and within a register that of their keys.
    """

    vehicles: list[tuple[str, VehicleFacts]]
    policies: list[tuple[str, PolicyFacts]]
    fines: list[tuple[str, FineFacts]]

    def of(self, register: str) -> "PlateFacts":
        """Return the rows of one register."""
        return PlateFacts._make([each for each in rows if each[0] == register] for rows in self)


_DAY_SECONDS = 86_400
_FIRST_SECOND, _LAST_SECOND = (
    clock.start_of(day, UTC) for day in (date.min + timedelta(1), date.max)
)
"""Between them a time has a day in each zone. Programs write the first and the last second of the
calendar for a time that they do not know."""


class Basis(NamedTuple):
    """What the registers can know of the vehicles that are asked for (D198)."""

    today: str
    zone: tzinfo
    """Decides which day it is."""
    complete: Collection[str]
    """The registers with policies that hold every policy of these vehicles."""
    has_fines: bool
    """Whether a register has fines."""

    def first_day(self, updated: int) -> str:
        """Return the first day for which an undated value was known.

        Args:
            updated: the time of its row, in Unix seconds.
        """
        known_at = min(max(updated, _FIRST_SECOND), _LAST_SECOND)
        day = clock.day_of(known_at, self.zone)
        if known_at % _DAY_SECONDS == 0:
            # A file with a day alone, which no zone moves to the day before.
            day = max(day, clock.day_of(known_at, UTC))
        return min(day.isoformat(), self.today)

    def was_known(self, updated: int, day: str) -> bool:
        """Tell whether an undated value was known for a day (ISO date)."""
        return self.first_day(updated) <= day <= self.today


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
    there are more; those in force first, and else in the order of D20 for equals."""
    outstanding_fines: int | None = None
    """How many fines are owed, at most `FINES_MAX`; one that two registers know counts once."""
    basis: Basis | None = None
    """None if what is not known is answered as a failure, as 1.0.0 did."""
    held: PlateFacts | None = None
    """The rows that it is made of; None if only its own values are needed."""

    @property
    def rows(self) -> PlateFacts:
        """The rows that it is made of. Raises ValueError if the look-up did not ask for them."""
        if self.held is None:
            raise ValueError("the rows were not looked up")
        return self.held

    def without_basis(self) -> "Record":
        """Return the record whose undated values count for every day."""
        return self if self.basis is None else msgspec.structs.replace(self, basis=None)


class WantedFields(NamedTuple):
    """What a look-up needs besides the insurance."""

    vehicle: bool
    """Make, model, year and color."""
    papers: bool
    """What compliance is judged by: the MOT, the tax and the fines."""
    dates: bool = False
    """What later days are judged by (D172): the policies that end on or after the day; and with
    the papers, the number of fines."""

    @property
    def columns(self) -> frozenset[str]:
        """The names of the fields of Record that the look-up needs, without those for dates."""
        of_vehicle, of_papers = _VEHICLE * self.vehicle, _PAPERS * self.papers
        return frozenset(_INSURANCE + of_vehicle + of_papers)


_INSURANCE = Record.__struct_fields__[:4]
_VEHICLE = Record.__struct_fields__[4:8]
_PAPERS = Record.__struct_fields__[8:-4]
EVERYTHING = WantedFields(vehicle=True, papers=True)
DESCRIPTION = WantedFields(vehicle=True, papers=False)
EXPLAINED = WantedFields(vehicle=True, papers=True, dates=True)

require_columns(VehicleFacts, Kind.VEHICLES)
require_columns(PolicyFacts, Kind.POLICIES)
require_columns(FineFacts, Kind.FINES)
