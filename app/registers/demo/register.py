"""Generates the rows of the demo register, and writes them to native files.

The same seed and day always give the same rows. The cars change only with the year, and their
papers only when they expire. So a plate that is known today is known tomorrow too.
"""

import csv
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

from app.registers.demo.cast import Car, Papers, cast_members
from app.registers.demo.crowd import crowd

NativeRow = dict[str, str | int | bool | None]

SEED = 2026
FIRST_DAY, LAST_DAY = date(2021, 1, 1), date(2050, 12, 31)
"""The range of days for which the cast and the plates are realistic."""
_MOT_FIRST_YEARS, _MOT_EXEMPT_YEARS = 3, 40
_DAY = timedelta(days=1)
# Invented insurers, and the beginning of their policy numbers.
_INSURERS = {"Brackenmoor Mutual": "BM-", "Larkmere General": "LG", "Ottersea Direct": "OTD"}


class DemoRegister(NamedTuple):
    """The rows of the three native files, with the members in the order of the files."""

    vehicles: list[NativeRow]
    policies: list[NativeRow]
    fines: list[NativeRow]


def write_files(directory: Path, today: date, seed: int = SEED) -> list[Path]:
    """Write vehicles.csv, policies.csv and fines.csv in the native layout, and return their paths.

    Each file has all rows of its kind, so it can be loaded with `--mode replace` (D28).
    """
    paths = []
    for name, rows in demo_register(today, seed)._asdict().items():
        paths.append(directory / f"{name}.csv")
        with paths[-1].open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return paths


def demo_register(today: date, seed: int = SEED) -> DemoRegister:
    """Return the register on a day, with the cast first. Raises ValueError outside 2021 to 2050."""
    if not FIRST_DAY <= today <= LAST_DAY:
        raise ValueError(f"the demo register covers {FIRST_DAY} to {LAST_DAY}, not {today}")
    register = DemoRegister([], [], [])
    # A demo has no secrets, so it needs no secure random numbers.
    for car, papers in [*cast_members(today), *crowd(today, Random(seed))]:  # noqa: S311
        rows = _Rows(car, today, Random(f"{seed}/{car.registration}"))  # noqa: S311
        if papers.is_listed:
            register.vehicles.append(rows.vehicle(papers))
        register.policies.extend(rows.policies(papers.insurance))
        register.fines.extend(rows.fines(papers.fines))
    return register


class _Rows:
    """The rows of one car."""

    def __init__(self, car: Car, today: date, rng: Random) -> None:
        self._car, self._today, self._rng = car, today, rng
        first = car.first_registered
        is_before_birthday = (today.month, today.day) < (first.month, first.day)
        self._age_years = today.year - first.year - is_before_birthday

    def vehicle(self, papers: Papers) -> NativeRow:
        """Return the row of vehicles.csv."""
        car, mot_expiry = self._car, self._mot_expiry(papers.mot)
        tested_on = _years_after(mot_expiry, -1) if mot_expiry else car.first_registered
        months = self._rng.randint(1, 11)
        tax_due = {"taxed": months, "past_due": -months}.get(papers.tax)
        return {
            "registration": car.registration,
            "make": car.make,
            "model": car.model,
            "year": car.first_registered.year,
            "color": car.color,
            "insured": {"flag": True, "uninsured": False}.get(papers.insurance),
            "motExpiry": _iso(mot_expiry),
            "motExempt": self._age_years >= _MOT_EXEMPT_YEARS,
            "firstRegistered": _iso(car.first_registered),
            "taxStatus": {"past_due": "taxed", "unknown": None}.get(papers.tax, papers.tax),
            "taxDue": None if tax_due is None else _iso(_first_of_month(self._today, tax_due)),
            "lastUpdated": self._time(tested_on),
        }

    def policies(self, insurance: str) -> Iterator[NativeRow]:
        """Yield the rows of policies.csv. Each policy is valid for a year."""
        start = max(self._last_anniversary(), self._car.first_registered)
        later = start + (self._today - start) // 2
        soon = self._today + self._rng.randint(1, 20) * _DAY
        (insurer, other), number = self._rng.sample(list(_INSURERS), 2), self._number()
        last_year = _years_after(start, -1)
        terms = {
            "in_force": [(insurer, last_year), (insurer, start)],
            "lapsed": [(insurer, last_year)],
            "overlapping": [(insurer, start), (other, later)],
            "cancelled": [(insurer, start)],
            "future": [(insurer, soon)],
        }
        cancelled_on = later if insurance == "cancelled" else None
        for name, first_day in terms.get(insurance, []):
            if first_day >= self._car.first_registered:
                yield self._policy(name, number, first_day, cancelled_on)

    def fines(self, fines: str) -> Iterator[NativeRow]:
        """Yield the rows of fines.csv. A fine is never older than the car's first registration."""
        issued_on = self._today - self._rng.randint(40, 360) * _DAY
        if fines == "none" or issued_on < self._car.first_registered:
            return
        yield {
            "reference": f"LN{self._number()}",
            "registration": self._car.registration,
            "issuedOn": _iso(issued_on),
            "amount": self._rng.choice(("35.00", "50.00", "70.00", "130.00")),
            "currency": "GBP",
            "settledOn": _iso(issued_on + 14 * _DAY) if fines == "settled" else None,
        }

    def _policy(
        self, insurer: str, number: str, start: date, cancelled_on: date | None
    ) -> NativeRow:
        return {
            "registration": self._car.registration,
            "number": f"{_INSURERS[insurer]}{number}",
            "insurer": insurer,
            "validFrom": _iso(start),
            "validTo": _iso(_years_after(start, 1) - _DAY),
            "type": "comprehensive",
            "cancelledOn": _iso(cancelled_on),
            "lastUpdated": self._time(cancelled_on or start - 7 * _DAY),
        }

    def _mot_expiry(self, mot: str) -> date | None:
        """Return the MOT expiry, or None if it is unknown or the car's age needs no MOT."""
        last = self._last_anniversary()
        if mot == "unknown" or not _MOT_FIRST_YEARS <= self._age_years < _MOT_EXEMPT_YEARS:
            return None
        return last - _DAY if mot == "expired" else _years_after(last, 1)

    def _last_anniversary(self) -> date:
        """Return the latest date, up to today, of a random day of the year."""
        day = date(self._today.year, 1, 1) + self._rng.randrange(365) * _DAY
        return day if day <= self._today else _years_after(day, -1)

    def _time(self, day: date) -> str:
        """Return 9:00 UTC on a day, but never later than yesterday."""
        return f"{min(day, self._today - _DAY)}T09:00:00Z"

    def _number(self) -> str:
        return f"{self._rng.randrange(10**8):08}"


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _years_after(day: date, years: int) -> date:
    """Return the same day in another year. 29 February becomes 1 March."""
    try:
        return day.replace(year=day.year + years)
    except ValueError:
        return date(day.year + years, 3, 1)


def _first_of_month(day: date, months: int) -> date:
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(years, month + 1, 1)
