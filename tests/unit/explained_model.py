"""An independent model of look-ups, written from the decisions (D20 to D22, D26).

Plain Python over the rows of all registers: slow, and easy to check.
"""

import random
from datetime import UTC, date, datetime
from typing import Any

from app.storage.tables import FineRow, PolicyRow, VehicleRow
from app.vehicles.facts import EVERYTHING, Record, WantedFields
from app.vehicles.records import Read, Records

Rows = dict[str, list[Any]]
DATES = ("2025-06-29", "2025-06-30", "2025-07-01", "2025-07-02", "2025-07-03")


def find_record(
    records: Records, state: str, plate: str, day: str, wanted: WantedFields = EVERYTHING
) -> tuple[Record | None, Read]:
    """Return what is known about one plate, and the registers that were read."""
    found, read = records.find_records(state, [plate], day, wanted)
    return found.get(plate), read


def random_registers(names: tuple[str, ...], plates: list[str], seed: int) -> dict[str, Rows]:
    """Return registers with many unknown and many equal values, so that every rule is needed."""
    chance = random.Random(seed)
    registers: dict[str, Rows] = {name: {"v": [], "p": [], "f": []} for name in names}
    for rows in registers.values():
        for plate in plates:
            if chance.random() < 0.7:
                rows["v"].append(_vehicle(chance, plate))
            keys = set()
            for _ in range(chance.choice((0, 0, 1, 2, 3))):
                policy = _policy(chance, plate)
                if policy[1:4] not in keys:
                    keys.add(policy[1:4])
                    rows["p"].append(policy)
            for number in range(chance.choice((0, 0, 0, 1, 2))):
                settled = chance.random() < 0.6
                fine = FineRow(plate, f"F{number}", None, 100, None, settled, chance.randrange(9))
                rows["f"].append(fine)
    return registers


def _vehicle(chance: random.Random, plate: str) -> VehicleRow:
    def maybe(*values: Any) -> Any:
        return chance.choice((None, *values))

    return VehicleRow(
        plate,
        maybe("MAKE1", "MAKE2"),
        maybe("MODEL1", "MODEL2"),
        maybe(2001, 2002),
        maybe("RED", "BLUE"),
        maybe(True, False),
        maybe(*DATES),
        maybe(True, False, False, False),
        maybe("2022-07-01", "2022-06-30", "2025-07-02", "2010-01-01"),
        maybe("taxed", "exempt", "sorn", "untaxed"),
        maybe(*DATES),
        chance.randrange(9),
    )


def _policy(chance: random.Random, plate: str) -> PolicyRow:
    first, last = sorted((chance.choice(DATES), chance.choice(DATES)))
    insurer, number = chance.choice(("", "Acme")), chance.choice(("P9", "P10"))
    cancelled_on = chance.choice((None, None, None, *DATES))
    kind = chance.choice((None, "full"))
    return PolicyRow(plate, insurer, number, first, last, kind, cancelled_on, chance.randrange(9))


class Model:
    """Everything that is known of one plate, and the answers for one day."""

    def __init__(
        self,
        registers: dict[str, Rows],
        order: tuple[str, ...],
        day: str,
        first_years: dict[str, int],
    ) -> None:
        named = [name for name in order if name in registers]
        self.order = named + sorted(name for name in registers if name not in named)
        self.day, self.first_years = day, first_years
        self._held: dict[str, dict[str, dict[str, list[Any]]]] = {}
        for name, rows in registers.items():
            for kind, some in rows.items():
                for row in some:
                    self._held.setdefault(row[0], {}).setdefault(kind, {}).setdefault(
                        name, []
                    ).append(row)

    def _rows(self, plate: str, kind: str) -> list[tuple[str, Any]]:
        held = self._held[plate].get(kind, {})
        return [(name, row) for name in self.order for row in held.get(name, [])]

    def knows(self, plate: str) -> bool:
        """Tell whether any row mentions the plate."""
        return plate in self._held

    def says(self, plate: str) -> dict[str, Any]:
        """Return the answers, the registers that each column comes from, and the chosen policy."""
        vehicles, fines = self._rows(plate, "v"), self._rows(plate, "f")
        chosen = self._chosen(self._rows(plate, "p"))
        by: dict[str, Any] = {}
        vehicle = {}
        for column in ("make", "model", "year", "color"):
            vehicle[column], by[column] = _first(vehicles, column)
        reason, by["insured"] = self._insurance(chosen, vehicles)
        by["policy"] = [chosen[0]] if chosen else []
        mot, by["motValid"] = self._mot(vehicles)
        tax, by["roadTaxPaid"] = self._tax(vehicles)
        owed = [name for name, fine in fines if not fine.settled]
        by["noOutstandingFines"] = [name for name in self.order if name in owed]
        used = vehicles + ([chosen[:2]] if chosen else [])
        newest = max(row.updated for _, row in used or fines)
        with_newest = {name for name, row in used or fines if row.updated == newest}
        by["lastUpdated"] = [name for name in self.order if name in with_newest]
        insured = reason in ("valid", "flag")
        checks = {
            "insuranceValid": insured,
            "motValid": mot in ("valid", "exempt", "not_due"),
            "roadTaxPaid": tax in ("valid", "exempt"),
            "noOutstandingFines": not owed,
        }
        return {
            "insurance": {
                "registration": plate,
                "insured": insured,
                "policy": policy_answer(chosen[1]) if chosen else None,
                "vehicle": vehicle,
                "lastUpdated": iso_utc(newest),
            },
            "compliance": {
                "registration": plate,
                "compliant": all(checks.values()),
                "checks": checks,
                "reasons": dict(
                    zip(checks, (reason, mot, tax, "outstanding" if owed else "none"), strict=True)
                ),
            },
            "decidedBy": by,
            "contradictedBy": self._contradicted(plate, chosen, list(checks.values())),
            "chosen": (chosen[0], chosen[1].insurer or None, *_key(chosen[1]), chosen[2])
            if chosen
            else None,
        }

    def _contradicted(self, plate: str, chosen: Any, verdicts: list[bool]) -> list[list[str]]:
        """Return for each check the registers that say the opposite of its verdict (D26)."""
        owed = {fine.reference for _, fine in self._rows(plate, "f") if not fine.settled}
        said: list[set[tuple[str, bool]]] = [set(), set(), set(), set()]
        for name, row in self._rows(plate, "v"):
            if row.insured is not None:
                said[0].add((name, row.insured))
            if row.mot_exempt or row.mot_expiry:
                said[1].add((name, bool(row.mot_exempt) or row.mot_expiry >= self.day))
            if row.tax_status:
                is_paid = row.tax_due is None or row.tax_due >= self.day
                said[2].add((name, row.tax_status in ("taxed", "exempt") and is_paid))
        policies = list(self._rows(plate, "p"))
        covered = {name for name, policy in policies if self._in_force(policy)}
        for name, policy in policies:
            if policy[1:4] == chosen[1][1:4]:
                said[0].add((name, name in covered))
        debited = {name for name, fine in self._rows(plate, "f") if not fine.settled}
        for name, fine in self._rows(plate, "f"):
            if fine.reference in owed:
                said[3].add((name, name not in debited))
        return [
            [name for name in self.order if (name, not verdict) in each]
            for each, verdict in zip(said, verdicts, strict=True)
        ]

    def _in_force(self, policy: PolicyRow) -> bool:
        if not policy.valid_from <= self.day <= policy.valid_to:
            return False
        return policy.cancelled_on is None or self.day < policy.cancelled_on

    def _chosen(self, policies: list[tuple[str, PolicyRow]]) -> Any:
        """Return register, policy and the rule that chose it over the next best (D20)."""
        if not policies:
            return None
        best = policies[0]
        for other in policies[1:]:
            if self._beats(other, best):
                best = other
        rest = [each for each in policies if each is not best]
        if not rest:
            return (*best, "only")
        second = rest[0]
        for other in rest[1:]:
            if self._beats(other, second):
                second = other
        return (*best, self._beats(best, second))

    def _beats(self, one: tuple[str, PolicyRow], other: tuple[str, PolicyRow]) -> str | None:
        """Return the rule by which one policy precedes another; None if it does not."""
        (here, a), (there, b) = one, other
        ranks: list[tuple[str, Any, Any]] = [
            ("in_force", self._in_force(a), self._in_force(b)),
            ("ends_last", last_day(a), last_day(b)),
            ("begins_last", a.valid_from, b.valid_from),
            ("greatest_number", a.number, b.number),
        ]
        for rule, left, right in ranks:
            if left != right:
                return rule if left > right else None
        if here != there:
            return "register_order" if self.order.index(here) < self.order.index(there) else None
        return "first_insurer" if a.insurer < b.insurer else None

    def _insurance(self, chosen: Any, vehicles: list[Any]) -> tuple[str, list[str]]:
        if chosen is None:
            flag, by = _first(vehicles, "insured")
            return {None: "unknown", True: "flag", False: "none"}[flag], by
        register, policy, _ = chosen
        if self._in_force(policy):
            return "valid", [register]
        if policy.valid_to < self.day:
            return "expired", [register]
        # Cancelled by the day asked about, or so early that it is never in force.
        cancelled = policy.cancelled_on
        if cancelled and (cancelled <= self.day or cancelled <= policy.valid_from):
            return "cancelled", [register]
        return "future", [register]

    def _mot(self, vehicles: list[Any]) -> tuple[str, list[str]]:
        exempt = [name for name, row in vehicles if row.mot_exempt is True]
        if exempt:
            return "exempt", exempt
        latest = max((row.mot_expiry for _, row in vehicles if row.mot_expiry), default=None)
        with_latest = [name for name, row in vehicles if row.mot_expiry == latest]
        if latest:
            return ("valid" if latest >= self.day else "expired"), with_latest
        first, by = _first(vehicles, "first_registered")
        years = self.first_years.get(by[0], 0) if first else 0
        if years:
            due = first_due(first, years)
            if due is None or self.day < due:
                return "not_due", by
        return "unknown", []

    def _tax(self, vehicles: list[Any]) -> tuple[str, list[str]]:
        for name, row in vehicles:
            if row.tax_status is not None:
                if row.tax_status in ("sorn", "untaxed"):
                    return row.tax_status, [name]
                if row.tax_due and row.tax_due < self.day:
                    return "expired", [name]
                return ("exempt" if row.tax_status == "exempt" else "valid"), [name]
        return "unknown", []


def iso_utc(epoch_seconds: int) -> str:
    """Return a time as answers have it."""
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_due(first_registered: str, years: int) -> str | None:
    """Return the first day on which an MOT is due, None after year 9999 (D154)."""
    began = date.fromisoformat(first_registered)
    if began.year + years > date.max.year:
        return None
    try:
        return began.replace(year=began.year + years).isoformat()
    except ValueError:  # 29 February
        return date(began.year + years, 3, 1).isoformat()


def _first(vehicles: list[Any], column: str) -> tuple[Any, list[str]]:
    """Return the first known value, and its register (D26)."""
    for name, row in vehicles:
        if getattr(row, column) is not None:
            return getattr(row, column), [name]
    return None, []


def _key(policy: PolicyRow) -> tuple[str, str]:
    return policy.number, policy.valid_from


def last_day(policy: PolicyRow) -> tuple[str, bool]:
    """Return what decides which policy ends last: the day, and if it is covered (D20)."""
    day = min(filter(None, (policy.valid_to, policy.cancelled_on)))
    return day, policy.cancelled_on is None or policy.cancelled_on > policy.valid_to


def policy_answer(policy: PolicyRow) -> dict[str, Any]:
    return {
        "number": policy.number,
        "insurer": policy.insurer or None,
        "validFrom": policy.valid_from,
        "validTo": policy.valid_to,
        "type": policy.type,
    }


def detailed_policy(policy: PolicyRow) -> dict[str, Any]:
    """Return the policy as answers with details have it (D92)."""
    return policy_answer(policy) | {"cancelledOn": policy.cancelled_on}
