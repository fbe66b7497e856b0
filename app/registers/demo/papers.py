"""What the papers of one demo vehicle say: its rows in the three native files."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random

from app.registers.demo.cast import Car, Situation
from app.registers.demo.data import (
    FINE_AMOUNTS,
    FINE_ISSUERS,
    INSURERS,
    POLICY_TYPES,
    Insurer,
)

NativeRow = dict[str, str | int | bool | None]

MOT_FIRST_YEARS = 3
MOT_EXEMPT_YEARS = 40
_DAY = timedelta(days=1)
_LAPSE_AGE_YEARS_MIN = 2
_EXPIRY_AGE_YEARS_MIN = 5
_FINE_AGE_YEARS_MIN = 1
_FINE_DAYS = (40, 700)
_PAYMENT_DAYS_MAX = 28
_NOTICE_DAYS_MAX = 20
_TERMS_MAX = 3
_SWITCH_SHARE = 0.3
_SECOND_FINE_SHARE = 0.3


def plausible(today: date, car: Car, dealt: Situation) -> Situation:
    """Return the situation without what cannot be at the vehicle's age."""
    age_years = _full_years(car.first_registered, today)
    insurance, mot, tax, fines, _ = dealt
    if age_years < _LAPSE_AGE_YEARS_MIN and insurance == "lapsed":
        insurance = "in_force"
    if age_years < _EXPIRY_AGE_YEARS_MIN:
        mot = "valid"
    if age_years >= MOT_EXEMPT_YEARS and tax != "sorn":
        tax = "exempt"
    if age_years < _FINE_AGE_YEARS_MIN:
        fines = "none"
    return Situation(insurance, mot, tax, fines)


class Papers:
    """Draws the papers of one vehicle as they stand on a day."""

    def __init__(self, rng: Random, today: date, car: Car) -> None:
        self._rng = rng
        self._today = today
        self._car = car
        self._age_years = _full_years(car.first_registered, today)

    def vehicle_row(self, situation: Situation) -> NativeRow:
        """Return the row of vehicles.csv."""
        car = self._car
        mot_expiry = self._mot_expiry(situation.mot)
        tax_status, tax_due = self._tax(situation.tax)
        tested_on = _same_day(mot_expiry, -1) if mot_expiry else car.first_registered
        return {
            "registration": car.registration,
            "make": car.make,
            "model": car.model,
            "year": car.first_registered.year,
            "color": car.color,
            "insured": {"insured_flag": True, "uninsured": False}.get(situation.insurance),
            "motExpiry": _iso(mot_expiry),
            "motExempt": self._age_years >= MOT_EXEMPT_YEARS,
            "firstRegistered": _iso(car.first_registered),
            "taxStatus": tax_status,
            "taxDue": _iso(tax_due),
            "lastUpdated": self._stamp(tested_on),
        }

    def policy_rows(self, insurance: str) -> Iterator[NativeRow]:
        """Yield the rows of policies.csv, the oldest first; each term is one year long."""
        start = max(self._last_anniversary(), self._car.first_registered)
        later = start + self._days(0, (self._today - start).days)
        insurer, other_insurer = self._rng.sample(INSURERS, 2)
        match insurance:
            case "in_force":
                yield from self._renewals(insurer, start)
            case "lapsed":
                yield from self._renewals(insurer, _same_day(start, -1))
            case "future":
                soon = self._today + self._rng.randint(1, _NOTICE_DAYS_MAX) * _DAY
                yield self._policy(insurer, self._digits(), soon)
            case "cancelled":
                yield self._policy(insurer, self._digits(), start, cancelled_on=later)
            case "overlapping":
                yield self._policy(insurer, self._digits(), start)
                yield self._policy(other_insurer, self._digits(), later)

    def fine_rows(self, fines: str) -> Iterator[NativeRow]:
        """Yield the rows of fines.csv; a vehicle with one still owed may have paid another."""
        match fines:
            case "outstanding":
                yield self._fine(is_settled=False)
                if self._rng.random() < _SECOND_FINE_SHARE:
                    yield self._fine(is_settled=True)
            case "settled":
                yield self._fine(is_settled=True)
                if self._rng.random() < _SECOND_FINE_SHARE:
                    yield self._fine(is_settled=True)

    def _fine(self, *, is_settled: bool) -> NativeRow:
        rng = self._rng
        earliest, latest = _FINE_DAYS
        latest = min(latest, (self._today - self._car.first_registered).days)
        issued_on = self._today - self._days(earliest, latest)
        settled_on = issued_on + rng.randint(1, _PAYMENT_DAYS_MAX) * _DAY
        return {
            "reference": f"{rng.choice(FINE_ISSUERS)}{rng.randrange(10**8):08}",
            "registration": self._car.registration,
            "issuedOn": _iso(issued_on),
            "amount": rng.choice(FINE_AMOUNTS),
            "currency": "GBP",
            "settledOn": _iso(settled_on) if is_settled else None,
        }

    def _renewals(self, insurer: Insurer, last_start: date) -> Iterator[NativeRow]:
        """Yield up to three terms without a gap; at a renewal the insurer may change."""
        digits = self._digits()
        for years_ago in reversed(range(self._rng.randint(1, _TERMS_MAX))):
            start = _same_day(last_start, -years_ago)
            if start < self._car.first_registered:
                continue
            yield self._policy(insurer, digits, start)
            if self._rng.random() < _SWITCH_SHARE:
                insurer, digits = self._rng.choice(INSURERS), self._digits()

    def _policy(
        self, insurer: Insurer, digits: str, start: date, *, cancelled_on: date | None = None
    ) -> NativeRow:
        sold_on = start - self._rng.randint(1, _NOTICE_DAYS_MAX) * _DAY
        kinds, shares = list(POLICY_TYPES), list(POLICY_TYPES.values())
        return {
            "registration": self._car.registration,
            "number": _number(insurer, digits, start),
            "insurer": insurer.name,
            "validFrom": _iso(start),
            "validTo": _iso(_same_day(start, 1) - _DAY),
            "type": self._rng.choices(kinds, shares)[0],
            "cancelledOn": _iso(cancelled_on),
            "lastUpdated": self._stamp(cancelled_on or sold_on),
        }

    def _mot_expiry(self, mot: str) -> date | None:
        """Return None for the young and the exempt, too: they have no certificate."""
        last = self._last_anniversary()
        if mot == "unknown" or not MOT_FIRST_YEARS <= self._age_years < MOT_EXEMPT_YEARS:
            return None
        return last - _DAY if mot == "expired" else _same_day(last, 1)

    def _tax(self, tax: str) -> tuple[str | None, date | None]:
        """Return status and due date; tax runs in whole months, due on the first."""
        months = self._rng.randint(1, 11)
        match tax:
            case "taxed":
                return "taxed", _first_of_month(self._today, months)
            case "past_due":
                return "taxed", _first_of_month(self._today, -months)
            case "untaxed":
                return "untaxed", _first_of_month(self._today, -months)
            case "unknown":
                return None, None
            case _:
                return tax, None

    def _stamp(self, day: date) -> str:
        """Return office hours of `day` in UTC, or of yesterday: no change is of the future."""
        day = min(day, self._today - _DAY)
        hour, minute, second = (self._rng.randint(*span) for span in ((8, 17), (0, 59), (0, 59)))
        return f"{day}T{hour:02}:{minute:02}:{second:02}Z"

    def _digits(self) -> str:
        return f"{self._rng.randrange(10**10):010}"

    def _days(self, least: int, most: int) -> timedelta:
        # Unlike randint, one draw whatever the span: what is drawn next stays as it was yesterday.
        return (least + int(self._rng.random() * (most - least + 1))) * _DAY

    def _last_anniversary(self) -> date:
        """Return the last time, today at the latest, that a random day of the year came."""
        day = date(self._today.year, 1, 1) + self._rng.randrange(365) * _DAY
        return day if day <= self._today else _same_day(day, -1)


def _number(insurer: Insurer, digits: str, start: date) -> str:
    """Return a policy number in the insurer's own style."""
    number = insurer.number.replace("YY", f"{start.year % 100:02}")
    for digit in digits:
        number = number.replace("#", digit, 1)
    return number


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _same_day(day: date, years: int) -> date:
    """Return the day of the same name in another year; 29 February becomes 1 March."""
    try:
        return day.replace(year=day.year + years)
    except ValueError:
        return date(day.year + years, 3, 1)


def _first_of_month(day: date, months: int) -> date:
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(years, month + 1, 1)


def _full_years(since: date, day: date) -> int:
    return day.year - since.year - ((day.month, day.day) < (since.month, since.day))
