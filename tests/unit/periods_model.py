"""An independent model of periods and dates, which computes with intervals (D172).

The program walks from day to day on which something can change. Here, cover is merged from the
intervals of all policies, and each paper has a last good day.
"""

import random
from copy import copy
from datetime import date, timedelta
from math import inf
from typing import Any, Self

from app.storage.tables import FineRow, PolicyRow, VehicleRow
from tests.unit.explained_model import Model, Rows, detailed_policy, first_due, iso_utc, last_day

_BASES = (date(2025, 7, 1), date(2025, 7, 1), date(2024, 2, 25), date(1, 1, 9), date(9999, 12, 20))
_LAST = date.max.toordinal()


def random_vehicles(
    names: tuple[str, ...], plates: list[str], seed: int
) -> tuple[dict[str, Rows], dict[str, tuple[str, str]]]:
    """Return registers in which policies follow each other, and a period of each plate.

    Most checks pass on most days, so that each of them is the first to fail somewhere.
    """
    chance = random.Random(seed)
    registers: dict[str, Rows] = {name: {"v": [], "p": [], "f": []} for name in names}
    periods = {}
    for plate in plates:
        base = chance.choice(_BASES)
        for rows in registers.values():
            if chance.random() < 0.6:
                rows["v"].append(_vehicle(chance, plate, base))
            rows["p"] += _policies(chance, plate, base)
            if chance.random() < 0.05:
                fines = [("F1", chance.random() < 0.5), (chance.choice("GH"), False)]
                rows["f"] += [
                    FineRow(plate, r, None, 1, None, s, chance.randrange(9)) for r, s in fines
                ]
        first = _shifted(base, chance.randint(-8, 8))
        periods[plate] = first, _shifted(date.fromisoformat(first), chance.choice((0, 3, 30, 399)))
    return registers, periods


def _shifted(day: date, days: int) -> str:
    return date.fromordinal(min(max(day.toordinal() + days, 1), _LAST)).isoformat()


def _vehicle(chance: random.Random, plate: str, base: date) -> VehicleRow:
    def maybe(value: Any, likely: float = 0.7) -> Any:
        return value if chance.random() < likely else None

    def soon() -> str:
        return _shifted(base, chance.choice((-9, -1, 5, 20, 60, 300, 5000)))

    years = chance.choice((3, 4))
    new = _shifted(base, chance.choice((-9, 4, 12, 40)) - round(365.25 * years))
    return VehicleRow(
        *(plate, maybe("MAKE"), None, None, maybe("RED"), maybe(chance.random() < 0.8)),
        mot_expiry=maybe(soon()),
        mot_exempt=maybe(chance.random() < 0.1),
        first_registered=maybe(chance.choice((new, new, "2024-02-29", "2021-02-28"))),
        tax_status=maybe(chance.choice(("taxed", "taxed", "exempt", "exempt", "sorn"))),
        tax_due=maybe(soon(), 0.5),
        updated=chance.randrange(9),
    )


def _policies(chance: random.Random, plate: str, base: date) -> list[PolicyRow]:
    """Return policies that mostly follow each other: with gaps, overlapping, or the next day."""
    found: dict[Any, PolicyRow] = {}
    day = base + timedelta(chance.choice((-9, -3, 0))) if base.year > 1 else base
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 5))):
        first = _shifted(day, chance.choice((-2, 0, 0, 0, 1)))
        last = _shifted(date.fromisoformat(first), chance.choice((0, 2, 9, 9, 30, 400)))
        cancelled = _shifted(date.fromisoformat(first), chance.randint(-3, 12))
        policy = PolicyRow(
            *(plate, chance.choice(("", "Acme")), chance.choice(("P9", "P10")), first, last),
            type=chance.choice((None, "full")),
            cancelled_on=cancelled if chance.random() < 0.15 else None,
            updated=chance.randrange(20),
        )
        found[policy[1:4]] = policy
        day = date.fromisoformat(_shifted(date.fromisoformat(last), 1))
    return list(found.values())


class PeriodModel(Model):
    """Answers about the days from the model's day on."""

    def on(self, day: str) -> Self:
        """Return the model of the same registers on another day."""
        other = copy(self)
        other.day = day
        return other

    def insurance(self, plate: str, last: str) -> dict[str, Any]:
        """Return the insurance record with details and all policies, in a period to `last`."""
        until = self._insured_until(plate)
        chosen = self._chosen(self._rows(plate, "p"))
        return {
            **self.says(plate)["insurance"],
            "policy": chosen and detailed_policy(chosen[1]),
            "lastUpdated": self._last_updated(plate),
            "policies": self._policies_in_force(plate),
            "period": self._period(plate, until, last, is_about_insurance=True),
            **_member("insuredUntil", until),
        }

    def compliance(self, plate: str, last: str) -> dict[str, Any]:
        """Return the compliance record with details and reasons, in a period to `last`."""
        vehicles = self._rows(plate, "v")
        insured_until, *others = self.ends(plate)
        ends = [insured_until, *others, None if self._fines(plate) else inf]
        until = None if None in ends else min(ends)  # type: ignore[type-var]
        taxed = next((row for _, row in vehicles if row.tax_status is not None), None)
        exempt = {row.mot_exempt for _, row in vehicles}
        return {
            **self.says(plate)["compliance"],
            "period": self._period(plate, until, last, is_about_insurance=False),
            **_member("insuredUntil", insured_until),
            **_member("compliantUntil", until),
            "motExpiry": max((r.mot_expiry for _, r in vehicles if r.mot_expiry), default=None),
            "motExempt": True if True in exempt else False if False in exempt else None,
            "firstRegistered": next(
                (row.first_registered for _, row in vehicles if row.first_registered), None
            ),
            "taxStatus": taxed and taxed.tax_status,
            "taxDue": taxed and taxed.tax_due,
            "finesOutstanding": len(self._fines(plate)),
        }

    def ends(self, plate: str) -> tuple[float | None, float | None, float | None]:
        """Return the ordinal of the last day of cover, MOT and tax; None for what fails now."""
        vehicles = self._rows(plate, "v")
        return self._insured_until(plate), self._mot_until(vehicles), self._tax_until(vehicles)

    def later_policies(self, plate: str) -> int:
        """Return how many policies end on or after the model's day."""
        return sum(last_day(policy)[0] >= self.day for _, policy in self._rows(plate, "p"))

    def _fines(self, plate: str) -> set[str]:
        return {fine.reference for _, fine in self._rows(plate, "f") if not fine.settled}

    def _insured_until(self, plate: str) -> float | None:
        """Return the ordinal of the last day of cover; None if there is none on the day."""
        policies = self._rows(plate, "p")
        if not policies:
            flags = [row.insured for _, row in self._rows(plate, "v") if row.insured is not None]
            return inf if flags and flags[0] else None
        covers = []
        for _, policy in policies:
            last = _number(policy.valid_to)
            if policy.cancelled_on:
                last = min(last, _number(policy.cancelled_on) - 1)
            covers.append((_number(policy.valid_from), last))
        before = end = _number(self.day) - 1
        for first, last in sorted(covers):
            if first <= end + 1 and last >= first:
                end = max(end, last)
        return _passing(before + 1, end)

    def _mot_until(self, vehicles: list[Any]) -> float | None:
        if any(row.mot_exempt for _, row in vehicles):
            return inf
        ends: list[float] = [_number(row.mot_expiry) for _, row in vehicles if row.mot_expiry]
        known = [(name, row.first_registered) for name, row in vehicles if row.first_registered]
        years = self.first_years.get(known[0][0], 0) if known else 0
        if years and not ends:
            due = first_due(known[0][1], years)
            ends.append(_number(due) - 1 if due else inf)
        return _passing(_number(self.day), max(ends, default=0))

    def _tax_until(self, vehicles: list[Any]) -> float | None:
        for _, row in vehicles:
            if row.tax_status is not None:
                if row.tax_status not in ("taxed", "exempt"):
                    return None
                end = _number(row.tax_due) if row.tax_due else inf
                return _passing(_number(self.day), end)
        return None

    def _period(
        self, plate: str, until: float | None, last: str, *, is_about_insurance: bool
    ) -> dict[str, Any]:
        failing = _number(self.day) if until is None else until + 1
        period = {"firstDay": self.day, "lastDay": last, "validThroughout": True}
        if failing > _number(last):
            return period
        day = date.fromordinal(int(failing)).isoformat()
        reasons = self.on(day).says(plate)["compliance"]["reasons"]
        if is_about_insurance:
            reasons = {"insuranceValid": reasons["insuranceValid"]}
        return period | {"validThroughout": False, "firstFailingDay": day, "reasons": reasons}

    def _last_updated(self, plate: str) -> str:
        single = self.says(plate)["insurance"]["lastUpdated"]
        later = [p.updated for _, p in self._rows(plate, "p") if last_day(p)[0] >= self.day]
        return max([single, *map(iso_utc, later)])

    def _policies_in_force(self, plate: str) -> list[dict[str, Any]]:
        policies = self._rows(plate, "p")
        in_force = [each for each in policies if self._in_force(each[1])]
        if not in_force:
            return []
        register, best, _ = self._chosen(policies)
        different = {_identity(best): (register, best)}
        for name, policy in in_force:
            different.setdefault(_identity(policy), (name, policy))
        answered, *others = different.values()
        # The sorts are stable: by rank, and among equals by register and insurer.
        others.sort(key=lambda each: (self.order.index(each[0]), each[1].insurer))
        others.sort(
            key=lambda each: (last_day(each[1]), each[1].valid_from, each[1].number), reverse=True
        )
        return [detailed_policy(policy) for _, policy in (answered, *others)]


def _identity(policy: PolicyRow) -> tuple[str, str, str]:
    return policy.insurer, policy.number, policy.valid_from


def _number(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _passing(day: int, end: float) -> float | None:
    """Return until when something passes; None if not on the day, no end if it is beyond time."""
    return None if end < day else inf if end >= _LAST else end


def _member(name: str, until: float | None) -> dict[str, Any]:
    """Return the member of an answer: absent if it fails, null if no end is known."""
    if until is None:
        return {}
    return {name: None if until == inf else date.fromordinal(int(until)).isoformat()}
