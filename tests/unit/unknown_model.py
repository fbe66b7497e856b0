"""An independent model of what no register knows, today and on other days (D198).

It asks each day on its own. What the rule left as it was comes from the models of the rule before:
which policy is chosen, and until when something passes.
"""

import calendar
import random
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from app.storage.tables import FineRow, PolicyRow, VehicleRow
from tests.unit.explained_model import Rows, first_due
from tests.unit.periods_model import PeriodModel

PASSES, FAILS, UNKNOWN = "passes", "fails", "unknown"
_POLICIES_MAX = 100
CHECKS = ("insuranceValid", "motValid", "roadTaxPaid", "noOutstandingFines")


_ZONES = (
    *("UTC", "Europe/London", "America/Los_Angeles", "Etc/GMT+12", "Pacific/Kiritimati"),
    *("Asia/Kolkata", "Africa/Cairo"),  # In Cairo the clock skips a midnight in April.
)
_TODAYS = (
    *("2026-06-15", "2026-04-24", "2024-02-29", "2025-03-01", "2025-12-31", "2026-01-01"),
    "2028-02-29",
)
_TAX_STATUSES = (*("taxed", "exempt") * 3, "sorn", "untaxed")
_SHIFTS = (-1461, -400, -366, -365, -60, -30, -3, -2, -1, 0, 0, 1, 2, 3, 30, 365, 400)


class Told(NamedTuple):
    """The answer about one check on one day."""

    outcome: str
    reason: str


class UnknownModel(PeriodModel):
    """The answers for one day under the rule that tells what is not known.

    Args:
        complete: the names in the setting, also those that no register has.
        kinds: the letters of the kinds that were loaded into each register.
    """

    def __init__(
        self,
        registers: dict[str, Rows],
        order: tuple[str, ...],
        day: str,
        first_years: dict[str, int],
        *,
        today: str,
        zone: tzinfo,
        complete: Collection[str],
        kinds: dict[str, str],
    ) -> None:
        super().__init__(registers, order, day, first_years)
        self.today, self.zone = today, zone
        self.complete = {name for name in complete if "p" in kinds.get(name, "")}
        self.has_fines = any("f" in letters for letters in kinds.values())

    def checks(self, plate: str) -> dict[str, Told]:
        """Return the answers about the four checks on the model's day."""
        vehicles = self._rows(plate, "v")
        if self._fines(plate):
            fines = Told(FAILS, "outstanding")
        else:
            fines = Told(PASSES, "none") if self.has_fines else Told(UNKNOWN, "unknown")
        told = self.insurance_check(plate), self.mot_check(vehicles), self.tax_check(vehicles)
        return dict(zip(CHECKS, (*told, fines), strict=True))

    def compliant(self, plate: str) -> str:
        """Return whether all checks pass; fines that nobody knows pass, too."""
        checks = self.checks(plate)
        outcomes = [told.outcome for told in checks.values()]
        if FAILS in outcomes:
            return FAILS
        del checks["noOutstandingFines"]
        unknown = any(told.outcome == UNKNOWN for told in checks.values())
        return UNKNOWN if unknown else PASSES

    def insurance_check(self, plate: str) -> Told:
        """Return the answer about the insurance."""
        policies = self._rows(plate, "p")
        if any(self._in_force(policy) for _, policy in policies):
            return Told(PASSES, "valid")
        flags = [row for _, row in self._rows(plate, "v") if row.insured is not None]
        known = flags[0].insured if flags and self._counts(flags[0]) else None
        if self.day >= self.today:
            is_absent = bool(self.complete)
        else:
            is_absent = any(
                name in self.complete and policy.valid_from <= self.day for name, policy in policies
            )
        if flags and flags[0].insured:
            is_absent = False  # A yes, of whatever day, contradicts it.
        if known is False or (known is None and is_absent):
            outcome = FAILS
        else:
            outcome = PASSES if known and not policies else UNKNOWN
        if policies:
            return Told(outcome, self._insurance(self._chosen(policies), [])[0])
        if known is not None:
            return Told(outcome, "flag" if known else "none")
        if is_absent:
            return Told(outcome, "no_policy")
        was_known_later = flags or (self.complete and self.day < self.today)
        return Told(outcome, "not_known_then" if was_known_later else "unknown")

    def mot_check(self, vehicles: list[Any]) -> Told:
        """Return the answer about the MOT."""
        exempt = [row for _, row in vehicles if row.mot_exempt]
        dated = [row for _, row in vehicles if row.mot_expiry]
        if any(self._counts(row) for row in exempt):
            return Told(PASSES, "exempt")
        if any(self._since(row) <= self.day <= row.mot_expiry for row in dated):
            return Told(PASSES, "valid")
        if dated and not exempt and all(row.mot_expiry < self.day for row in dated):
            return Told(FAILS, "expired")
        if not dated and self._is_too_new_for_mot(vehicles):
            return Told(PASSES, "not_due")
        return Told(UNKNOWN, "not_known_then" if exempt or dated else "unknown")

    def tax_check(self, vehicles: list[Any]) -> Told:
        """Return the answer about the tax."""
        decisive = [row for _, row in vehicles if row.tax_status]
        if not decisive:
            return Told(UNKNOWN, "unknown")
        row = decisive[0]
        if row.tax_status in ("sorn", "untaxed"):
            if self._counts(row):
                return Told(FAILS, row.tax_status)
            return Told(UNKNOWN, "not_known_then")
        if row.tax_due and row.tax_due < self.day:
            return Told(FAILS, "expired")
        if self._counts(row) or (row.tax_due and self._since(row) <= self.day):
            return Told(PASSES, "exempt" if row.tax_status == "exempt" else "valid")
        return Told(UNKNOWN, "not_known_then")

    def insurance(self, plate: str, last: str) -> dict[str, Any]:
        """Return the insurance record with details, in a period to `last`."""
        outcome = self.insurance_check(plate).outcome
        answer = super().insurance(plate, last)
        del answer["policies"]
        answer["insured"] = outcome == PASSES
        answer |= _unknown({"insured": outcome})
        if self.later_policies(plate) > _POLICIES_MAX:
            answer["lastUpdated"] = self.says(plate)["insurance"]["lastUpdated"]
        self._set_days(answer, plate, last, {"insuredUntil": outcome})
        return answer

    def compliance(self, plate: str, last: str) -> dict[str, Any]:
        """Return the compliance record with details and reasons, in a period to `last`."""
        checks, compliant = self.checks(plate), self.compliant(plate)
        outcomes = {name: told.outcome for name, told in checks.items()}
        answer = super().compliance(plate, last)
        answer["compliant"] = compliant == PASSES
        answer["checks"] = {name: outcome == PASSES for name, outcome in outcomes.items()}
        answer["checks"]["noOutstandingFines"] = outcomes["noOutstandingFines"] != FAILS
        answer["reasons"] = {name: told.reason for name, told in checks.items()}
        answer |= _unknown({**outcomes, "compliant": compliant})
        ends = {"insuredUntil": outcomes["insuranceValid"], "compliantUntil": compliant}
        self._set_days(answer, plate, last, ends)
        return answer

    def _set_days(
        self, answer: dict[str, Any], plate: str, last: str, ends: dict[str, str]
    ) -> None:
        """Set the period, and remove the ends of what does not pass.

        Of too many policies nothing is guessed, but an answer says that.
        """
        has_too_many = self.later_policies(plate) > _POLICIES_MAX
        for name, outcome in ends.items():
            if outcome != PASSES or has_too_many:
                answer.pop(name, None)
        if has_too_many:
            answer["tooManyPolicies"] = True
            answer["period"] = {"firstDay": self.day, "lastDay": last, "tooManyPolicies": True}
        else:
            answer["period"] = self._period_of(plate, last, is_about_insurance=len(ends) == 1)

    def _period_of(self, plate: str, last: str, *, is_about_insurance: bool) -> dict[str, Any]:
        """Return the period: its first certain failure, or the first day that is not known."""
        bad: dict[str, UnknownModel] = {}
        for day in _days(self.day, last):
            model = self.on(day)
            outcome = model.compliant(plate)
            if is_about_insurance:
                outcome = model.insurance_check(plate).outcome
            if outcome != PASSES:
                bad.setdefault(outcome, model)
            if outcome == FAILS:
                break
        period = {"firstDay": self.day, "lastDay": last, "validThroughout": not bad}
        if not bad:
            return period
        model = bad.get(FAILS) or bad[UNKNOWN]
        reasons = {name: told.reason for name, told in model.checks(plate).items()}
        if is_about_insurance:
            reasons = {"insuranceValid": reasons["insuranceValid"]}
        return {
            **period,
            "firstFailingDay": model.day,
            "reasons": reasons,
            **_unknown({"validThroughout": FAILS if FAILS in bad else UNKNOWN}),
        }

    def _is_too_new_for_mot(self, vehicles: list[Any]) -> bool:
        for name, row in vehicles:
            if row.first_registered:
                years = self.first_years.get(name, 0)
                due = first_due(row.first_registered, years)
                return years > 0 and (due is None or self.day < due)
        return False

    def _counts(self, row: Any) -> bool:
        """Tell whether an undated value of a row was known for the day."""
        return self._since(row) <= self.day <= self.today

    def _since(self, row: Any) -> str:
        """Return the first day for which the values of a row were known."""
        in_utc = datetime.fromtimestamp(row.updated, UTC)
        # A file that has days alone means days of its own country.
        is_day_alone = in_utc.timetz() == datetime.min.time().replace(tzinfo=UTC)
        day = in_utc.date() if is_day_alone else in_utc.astimezone(self.zone).date()
        return min(day.isoformat(), self.today)


class World:
    """Random registers, settings and a moment, in which every rule is needed."""

    def __init__(self, chance: random.Random, plates: Sequence[str]) -> None:
        self._chance = chance
        self.zone = ZoneInfo(chance.choice(_ZONES))
        self.today = chance.choice(_TODAYS)
        self._base = date.fromisoformat(self.today)
        begin = self._start_of(self.today)
        end = self._start_of((self._base + timedelta(1)).isoformat())
        self.now = chance.choice((begin, begin + 1, (begin + end) // 2, end - 1))
        names = chance.sample(("native", "rdw", "mid", "zulu"), chance.choice((1, 2, 3, 4)))
        self.order = tuple(chance.sample(("rdw", "native"), 2))
        self.first_years = {name: chance.choice((0, 3, 4)) for name in names}
        self.kinds = {name: chance.choice(("v", "p", "vp", "vp", "fvp", "fvp")) for name in names}
        # One name can be misspelt, or that of a register without policies.
        self.complete = tuple(chance.sample((*names, "misspelt"), chance.choice((0, 1, 1, 2))))
        self.registers: dict[str, Rows] = {name: {"v": [], "p": [], "f": []} for name in names}
        for plate in plates:
            for name, rows in self.registers.items():
                self._fill(plate, self.kinds[name], rows)

    def model(self) -> "UnknownModel":
        """Return the model of today."""
        return UnknownModel(
            self.registers,
            self.order,
            self.today,
            self.first_years,
            today=self.today,
            zone=self.zone,
            complete=self.complete,
            kinds=self.kinds,
        )

    def old_model(self) -> PeriodModel:
        """Return the model of today by the rule of 1.0.0."""
        return PeriodModel(self.registers, self.order, self.today, self.first_years)

    def pass_time(self) -> None:
        """Let some hours or days pass."""
        self.now += self._chance.choice((3_600, 20_000, 86_400, 250_000))
        self._base = datetime.fromtimestamp(self.now, self.zone).date()
        self.today = self._base.isoformat()

    def day(self) -> str:
        """Return a day on which something may change."""
        shift = self._chance.choice(_SHIFTS) + self._chance.choice((-1, 0, 0, 1))
        return self._shifted(shift)

    def period(self) -> tuple[str, str]:
        """Return the first and the last day of a period, which has up to 400 days.

        Many of them have today in them, when the rule turns.
        """
        chance = self._chance
        count = chance.choice((0, 1, 2, 3, 9, 30, 90)) if chance.random() < 0.95 else 399
        is_around_today = chance.random() < 0.6
        first = self._shifted(-chance.randint(0, count)) if is_around_today else self.day()
        return first, (date.fromisoformat(first) + timedelta(count)).isoformat()

    def _shifted(self, days: int) -> str:
        return (self._base + timedelta(days)).isoformat()

    def _start_of(self, day: str) -> int:
        return int(datetime.combine(date.fromisoformat(day), time.min, self.zone).timestamp())

    def _updated(self) -> int:
        """Return a time, often at a midnight here or in UTC, and sometimes in the future."""
        day = self._shifted(self._chance.choice(_SHIFTS))
        midnight = calendar.timegm(date.fromisoformat(day).timetuple())
        start = self._start_of(day)
        return self._chance.choice((midnight, midnight, start, start - 1, start + 1, start + 43200))

    def crowd(self, plate: str, count: int) -> None:
        """Give a plate many policies in each register that has policies."""
        for name, rows in self.registers.items():
            if "p" in self.kinds[name]:
                others = [policy for policy in rows["p"] if policy.registration != plate]
                rows["p"] = others + self.policies(plate, count)

    def policies(self, plate: str, count: int) -> list[PolicyRow]:
        """Return random policies, by key."""
        found = (self._policy(plate) for _ in range(count))
        return sorted({policy[1:4]: policy for policy in found}.values())

    def _fill(self, plate: str, kinds: str, rows: Rows) -> None:
        chance = self._chance
        if "v" in kinds and chance.random() < 0.7:
            rows["v"].append(self.vehicle(plate))
        if "p" in kinds:
            count = chance.choice((0, 0, 1, 1, 2, 3)) if chance.random() < 0.998 else 130
            rows["p"] += self.policies(plate, count)
        if "f" in kinds and chance.random() < 0.1:
            rows["f"].append(self.fine(plate))

    def fine(self, plate: str) -> FineRow:
        """Return a random fine."""
        settled = self._chance.random() < 0.5
        return FineRow(plate, "F1", None, 100, None, settled, self._updated())

    def vehicle(self, plate: str) -> VehicleRow:
        """Return a random row."""
        chance = self._chance

        def maybe(value: Any, likely: float = 0.6) -> Any:
            return value if chance.random() < likely else None

        def ends() -> str:
            return self._shifted(chance.choice((*_SHIFTS, 30, 300, 3000, 3000)))

        first = self._base - timedelta(chance.choice((1095, 1096, 1460, 1461, 4000)))
        first_registered = (first + timedelta(chance.choice(_SHIFTS))).isoformat()
        return VehicleRow(
            *(plate, maybe("MAKE"), None, None, None, maybe(chance.random() < 0.6)),
            mot_expiry=maybe(ends()),
            mot_exempt=maybe(chance.random() < 0.4, 0.4),
            first_registered=maybe(first_registered),
            tax_status=maybe(chance.choice(_TAX_STATUSES), 0.8),
            tax_due=maybe(ends()),
            updated=self._updated(),
        )

    def _policy(self, plate: str) -> PolicyRow:
        chance = self._chance
        first, last = sorted(self._shifted(chance.choice(_SHIFTS)) for _ in range(2))
        number = f"P{chance.randrange(9_000)}"
        return PolicyRow(
            *(plate, chance.choice(("", "Acme")), number, first, last),
            cancelled_on=self._shifted(chance.choice(_SHIFTS)) if chance.random() < 0.2 else None,
            updated=self._updated(),
        )


def _unknown(outcomes: dict[str, str]) -> dict[str, list[str]]:
    names = [name for name, outcome in outcomes.items() if outcome == UNKNOWN]
    return {"unknown": names} if names else {}


def _days(first: str, last: str) -> Iterator[str]:
    count = date.fromisoformat(last) - date.fromisoformat(first)
    for number in range(count.days + 1):
        yield (date.fromisoformat(first) + timedelta(number)).isoformat()
