"""Generates the rows of the demo register, and writes them to native files.

The same seed and day always give the same rows. The cars change only with the year, and their
papers only when they expire. So a plate that is known today is known tomorrow too.
"""

import csv
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from app.errors import OperatorError

# The sample cars: one memorable plate for each answer of the service.


class Car(NamedTuple):
    """The data of a vehicle that never change."""

    registration: str
    make: str
    model: str
    color: str
    first_registered: date


class Papers(NamedTuple):
    """The state of a car's insurance, MOT, tax and fines. By default everything is in order."""

    insurance: str = "in_force"
    mot: str = "valid"
    tax: str = "taxed"
    fines: str = "none"
    is_listed: bool = True
    """Whether the car has a vehicle row. If not, only its policy mentions its plate."""


_NEW_CAR_AGE = timedelta(days=400)

# Plate, make, model, colour, day of first registration (empty: `_NEW_CAR_AGE` ago) and papers.
_SAMPLE_CARS: dict[str, tuple[str, str, str, str, str, Papers]] = {
    "compliant": ("AB12CDE", "Ford", "Focus", "Blue", "2012-05-14", Papers()),
    "lapsed": ("LP63SED", "Vauxhall", "Corsa", "Red", "2013-11-04", Papers("lapsed")),
    "future": ("FU17URE", "Volkswagen", "Golf", "Grey", "2017-03-20", Papers("future")),
    "cancelled": ("CA16NCL", "Nissan", "Qashqai", "Black", "2016-06-30", Papers("cancelled")),
    "overlapping": ("OV66LAP", "Skoda", "Octavia", "Silver", "2016-10-12", Papers("overlapping")),
    "insured_flag": ("FL11AGG", "Toyota", "Yaris", "White", "2011-08-01", Papers("flag")),
    "uninsured": ("NO61POL", "Peugeot", "107", "Yellow", "2011-12-09", Papers("uninsured")),
    "insurance_unknown": ("WH14NOS", "Honda", "Jazz", "Silver", "2014-04-02", Papers("unknown")),
    "mot_expired": ("MO14TXP", "Renault", "Clio", "Orange", "2014-07-07", Papers(mot="expired")),
    "mot_exempt": ("MGB970H", "MG", "MGB", "Green", "1970-03-03", Papers(tax="exempt")),
    "mot_unknown": ("MO13WHO", "Fiat", "500", "White", "2013-03-28", Papers(mot="unknown")),
    "new_car": ("NEW1", "Tesla", "Model 3", "White", "", Papers()),
    "sorn": ("SO15RNN", "Mazda", "MX-5", "Red", "2015-05-22", Papers(tax="sorn")),
    "tax_expired": ("DU15TAX", "Kia", "Ceed", "Grey", "2015-08-17", Papers(tax="past_due")),
    "untaxed": ("NO65TAX", "Citroën", "C1", "Blue", "2015-09-08", Papers(tax="untaxed")),
    "tax_unknown": ("WH12TAX", "Hyundai", "i20", "Black", "2012-08-24", Papers(tax="unknown")),
    "fined": ("FN15EDD", "BMW", "3 Series", "Black", "2015-06-03", Papers(fines="owed")),
    "fine_settled": ("PA16DUP", "Audi", "A3", "Grey", "2016-05-11", Papers(fines="settled")),
    "policy_only": ("PO12LCY", "Volvo", "V40", "Blue", "2012-04-16", Papers(is_listed=False)),
}  # fmt: skip

SAMPLE_PLATES = {answer: car[0] for answer, car in _SAMPLE_CARS.items()} | {"unknown": "ZZ99ZZZ"}
"""The plate for each answer. `unknown` is in no register, as no British plate begins with Z."""


def sample_cars(today: date) -> list[tuple[Car, Papers]]:
    """Return the sample cars with their papers on a day."""
    new = (today - _NEW_CAR_AGE).isoformat()
    return [
        (Car(plate, make, model, color, date.fromisoformat(day or new)), papers)
        for plate, make, model, color, day, papers in _SAMPLE_CARS.values()
    ]


# The other cars of the demo register: real models with invented plates.

PLATES = 300
"""The number of plates in the whole register, sample cars included."""
_AGE_YEARS_MAX = 15
_MODELS = {
    ("Audi", "A3"): 1996, ("BMW", "1 Series"): 2004, ("BMW", "3 Series"): 1982,
    ("Citroën", "C3"): 2002, ("Dacia", "Duster"): 2012, ("Fiat", "500"): 2008,
    ("Ford", "Kuga"): 2008, ("Ford", "Puma"): 2019, ("Ford", "Transit Custom"): 2012,
    ("Honda", "Civic"): 1973, ("Hyundai", "Tucson"): 2004, ("Kia", "Sportage"): 1995,
    ("MG", "ZS"): 2017, ("MINI", "Hatch"): 2001, ("Mercedes-Benz", "A-Class"): 1998,
    ("Nissan", "Juke"): 2010, ("Nissan", "Leaf"): 2011, ("Peugeot", "208"): 2012,
    ("Renault", "Clio"): 1991, ("Skoda", "Fabia"): 2000, ("Tesla", "Model 3"): 2019,
    ("Toyota", "Corolla"): 1968, ("Vauxhall", "Astra"): 1980, ("Vauxhall", "Corsa"): 1993,
    ("Volkswagen", "Golf"): 1974, ("Volkswagen", "Polo"): 1975, ("Volvo", "XC60"): 2008,
}  # fmt: skip
"""The first year in which each make and model was sold."""
_COLORS = {"Grey": 26, "Black": 20, "White": 17, "Blue": 17, "Silver": 10, "Red": 10}
_AREAS = "ABCDEFGHKLMNOPRSVWY"
_LETTERS = "BCDFGHJKLMNPRSTVWXY"
"""Letters without vowels, so that three random letters never make a word."""

# The percentage of cars with each state.
_INSURANCE = {"in_force": 83, "lapsed": 5, "overlapping": 4, "cancelled": 3, "future": 2}
_INSURANCE |= {"flag": 1, "uninsured": 1, "unknown": 1}
_MOT = {"valid": 92, "expired": 7, "unknown": 1}
_TAX = {"taxed": 88, "sorn": 4, "past_due": 4, "untaxed": 3, "unknown": 1}
_FINES = {"none": 88, "settled": 7, "owed": 5}
_SHARES = (_INSURANCE, _MOT, _TAX, _FINES)


def filler_cars(today: date, rng: Random) -> Iterator[tuple[Car, Papers]]:
    """Yield random cars that were first registered before this year, with their papers."""
    taken = set(SAMPLE_PLATES.values())
    while len(taken) < PLATES + 1:  # The plate `unknown` is in no register.
        age = timedelta(days=rng.randint(1, _AGE_YEARS_MAX * 365))
        first_registered = date(today.year, 1, 1) - age
        sold = [name for name, since in _MODELS.items() if since <= first_registered.year]
        car = Car(
            _plate(rng, first_registered), *rng.choice(sold), _drawn(rng, _COLORS), first_registered
        )
        insurance, mot, tax, fines = (_drawn(rng, each) for each in _SHARES)
        if car.registration not in taken:
            taken.add(car.registration)
            yield car, Papers(insurance, mot, tax, fines)


def _drawn(rng: Random, shares: dict[str, int]) -> str:
    return rng.choices(list(shares), list(shares.values()))[0]


def _plate(rng: Random, first_registered: date) -> str:
    """Return a plate such as AB24CDE. It has 24 from March 2024, and 74 from September 2024."""
    year, month = first_registered.year % 100, first_registered.month
    age = year + 50 if month >= 9 else year if month >= 3 else year + 49
    return (
        f"{rng.choice(_AREAS)}{rng.choice(_LETTERS)}{age:02}{''.join(rng.choices(_LETTERS, k=3))}"
    )


NativeRow = dict[str, str | int | bool | None]

SEED = 2026
FIRST_DAY, LAST_DAY = date(2021, 1, 1), date(2050, 12, 31)
"""The range of days for which the sample cars and the plates are realistic."""
_MOT_FIRST_YEARS, _MOT_EXEMPT_YEARS = 3, 40
_DAY = timedelta(days=1)
# Invented insurers, and the beginning of their policy numbers.
_INSURERS = {"Brackenmoor Mutual": "BM-", "Larkmere General": "LG", "Ottersea Direct": "OTD"}


class DemoRegister(NamedTuple):
    """The rows of the three native files, with the members in the order of the files."""

    vehicles: list[NativeRow]
    policies: list[NativeRow]
    fines: list[NativeRow]


def write_files(directory: Path, today: date) -> list[Path]:
    """Write vehicles.csv, policies.csv and fines.csv in the native layout, and return their paths.

    Each file has all rows of its kind, so it can be loaded with `--mode replace`.
    """
    return [
        write_file(directory / f"{name}.csv", rows)
        for name, rows in demo_register(today)._asdict().items()
    ]


def write_file(path: Path, rows: Sequence[NativeRow]) -> Path:
    """Write rows of one kind, at least one, to a CSV in the native layout; return its path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def demo_register(today: date, seed: int = SEED) -> DemoRegister:
    """Return the register on a day, sample cars first.

    Raises OperatorError outside 2021 to 2050.
    """
    if not FIRST_DAY <= today <= LAST_DAY:
        raise OperatorError(
            f"the demo register covers {FIRST_DAY} to {LAST_DAY}, and today is {today}; "
            "set the clock"
        )
    register = DemoRegister([], [], [])
    # A demo has no secrets, so it needs no secure random numbers.
    for car, papers in [*sample_cars(today), *filler_cars(today, Random(seed))]:  # noqa: S311
        rows = _Rows(car, today, Random(f"{seed}/{car.registration}"))  # noqa: S311
        if papers.is_listed:
            register.vehicles.append(rows.vehicle(papers))
        register.policies.extend(rows.policies(papers.insurance))
        register.fines.extend(rows.fines(papers.fines))
    return register


def fleet_policies(today: date, seed: int, cars: int) -> list[NativeRow]:
    """Return the policies in force of some cars that are in no other register.

    Args:
        seed: other than `SEED`, so that the plates are others, too.
    """
    found: list[NativeRow] = []
    # A demo has no secrets, so it needs no secure random numbers.
    for car, _ in islice(filler_cars(today, Random(seed)), cars):  # noqa: S311
        found += _Rows(car, today, Random(f"{seed}/{car.registration}")).policies("in_force")  # noqa: S311
    return found


class _Rows:
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
            "taxDue": None if tax_due is None else _iso(_before_month(self._today, tax_due)),
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


def _before_month(day: date, months: int) -> date:
    """Return the day before a month begins: tax is paid for whole months."""
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(years, month + 1, 1) - _DAY
