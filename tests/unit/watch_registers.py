"""Three registers that are loaded for real, and kept in plain Python for the model."""

import random
from collections.abc import Sequence
from copy import deepcopy
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from app.registers.rules import RULES
from app.registers.undo import drop_register, roll_back, undrop_register
from app.storage.tables import FineRow, PolicyRow, VehicleRow
from tests.conftest import World
from tests.unit.explained_model import Rows
from tests.unit.periods_model import PeriodModel
from tests.unit.watches_model import Facts, facts_of

NAMES = ("alpha", "beta", "gamma")
ORDER = ("beta",)
FIRST_YEARS = {"alpha": 3, "gamma": 4}
MEMBERS = {
    "v": "registration make model year color insured motExpiry motExempt firstRegistered "
    "taxStatus taxDue",
    "p": "registration insurer number validFrom validTo type cancelledOn",
}
_KEY_COLUMNS = {"v": 1, "p": 4, "f": 2}
Content = dict[str, dict[tuple[str, ...], Any]]
"""The rows of a register: by the kinds that were ever loaded, and by key."""


def shifted(day: str, days: int) -> str:
    """Return a day that is some days later."""
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


class Registers:
    """The registers of an installation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.content: dict[str, Content] = {}
        self._kept: dict[str, Content] = {}
        self._dropped: dict[str, tuple[Content, Content | None]] = {}
        self._forget()

    def load(self, name: str, kind: str, rows: Sequence[Any], mode: str = "merge") -> None:
        """Load rows of one kind, which begin with their keys, as the command does."""
        path = self._world.directory / "rows.ndjson"
        documents = [self.document(kind, row) for row in rows]
        path.write_bytes(msgspec.json.Encoder().encode_lines(documents))
        self.load_file(path, name, kind, rows, mode)

    def load_file(
        self, path: Path, name: str, kind: str, rows: Sequence[Any], mode: str = "merge"
    ) -> None:
        """Load a file of one kind, in which there are these rows."""
        options = {"accept": tuple(RULES), "allow_shrink": True, "mode": mode}
        self._world.load_files(path, register=name, **options)
        self._dropped.pop(name, None)
        before = self.content.get(name, {})
        after = deepcopy(before)
        old = after.get(kind, {})
        by_key = {tuple(row[: _KEY_COLUMNS[kind]]): row for row in rows}
        new = {key: self.stored(kind, old.get(key), row) for key, row in by_key.items()}
        if mode == "replace":
            self._kept[name] = before
            after[kind] = new
        else:
            after[kind] = old | new
            if after != before:
                self._kept.pop(name, None)
        self.content[name] = after
        self._forget()

    def document(self, kind: str, row: Any) -> dict[str, Any]:
        """Return what a file has of a row."""
        if kind == "f":
            settled_on = "2020-01-01" if row.settled else None
            return {
                "registration": row.registration,
                "reference": row.reference,
                "amount": row.amount_cents / 100,
                "settledOn": settled_on,
            }
        return dict(zip(MEMBERS[kind].split(), row, strict=False))

    def stored(self, _kind: str, _old: Any, row: Any) -> Any:
        """Return a row of a file as the register holds it, in place of an old one or of none."""
        return row

    def can_roll_back(self, name: str) -> bool:
        """Tell whether the last change of a register was a replace of rows."""
        return any(self._kept.get(name, {}).values())

    def roll_back(self, name: str) -> None:
        """Undo the last replace."""
        roll_back(self._world.engine, name, None)
        self.content[name] = self._kept.pop(name)
        self._forget()

    def drop(self, name: str) -> None:
        """Drop a register."""
        drop_register(self._world.engine, name)
        self._dropped[name] = self.content.pop(name), self._kept.pop(name, None)
        self._forget()

    def undrop(self, name: str) -> None:
        """Bring a dropped register back."""
        undrop_register(self._world.engine, name)
        self.content[name], kept = self._dropped.pop(name)
        if kept is not None:
            self._kept[name] = kept
        self._forget()

    def rows(self) -> dict[str, Rows]:
        """Return the rows of all registers, by kind."""
        return {
            name: {kind: list(held.values()) for kind, held in content.items()}
            for name, content in self.content.items()
        }

    def _forget(self) -> None:
        model = PeriodModel(self.rows(), ORDER, "", FIRST_YEARS)
        self._judged = cache(lambda plate, day: facts_of(model, plate, day))

    def judge(self, plate: str, day: str) -> Facts:
        """Return what the registers say now about a plate on a day."""
        return self._judged(plate, day)


class Life:
    """What happens to vehicles: most of it is near the present day."""

    def __init__(self, chance: random.Random, plates: Sequence[str]) -> None:
        self._chance = chance
        self._plates = plates
        self._numbers = 0

    def vehicles(self, plates: Sequence[str], day: str) -> list[VehicleRow]:
        """Return a row for each plate."""
        return [self._vehicle(plate, day) for plate in plates]

    def policies(self, plates: Sequence[str], day: str) -> list[PolicyRow]:
        """Return policies for each plate that follow each other, mostly without a gap."""
        rows = []
        for plate in plates:
            first = shifted(day, self._chance.randint(-60, 0))
            for _ in range(self._chance.choice((1, 1, 2, 3))):
                last = shifted(first, self._chance.randint(8, 70))
                rows.append(self._policy(plate, first, last))
                first = shifted(last, self._chance.choice((1, 1, 1, 0, 3)))
        return rows

    def changes(self, content: Content, day: str) -> tuple[str, list[Any]]:
        """Return what one merge brings: the kind, and rows that are new or changed."""
        chance = self._chance
        kind = chance.choice("vppppf")
        plates = chance.sample(self._plates, chance.randint(1, 4))
        if kind == "v":
            return kind, self.vehicles(plates, day)
        if kind == "f":
            return kind, [
                FineRow(plate, chance.choice("FG"), None, 100, None, chance.random() < 0.6, 1)
                for plate in plates
            ]
        held = [row for row in content.get("p", {}).values() if row.registration in plates]
        rows = [self._changed(row, day) for row in held if row.valid_to >= shifted(day, -9)]
        return kind, rows or self.policies(plates, day)

    def _changed(self, row: PolicyRow, day: str) -> PolicyRow:
        chance = self._chance
        what = chance.choice(("follows", "follows", "cancelled", "corrected", "ends"))
        if what == "follows":
            first = shifted(row.valid_to, chance.choice((1, 1, 1, 2)))
            return self._policy(row.registration, first, shifted(first, chance.randint(5, 60)))
        if what == "cancelled":
            return row._replace(cancelled_on=shifted(day, chance.randint(-4, 6)))
        if what == "ends":
            return row._replace(valid_to=max(row.valid_from, shifted(day, chance.randint(-3, 20))))
        last = shifted(row.valid_to, chance.randint(-5, 40))
        return row._replace(valid_to=max(row.valid_from, last), cancelled_on=None)

    def _policy(self, plate: str, first: str, last: str) -> PolicyRow:
        self._numbers += 1
        insurer = self._chance.choice(("", "Acme"))
        return PolicyRow(plate, insurer, f"P{self._numbers}", first, last, None, None, 1)

    def _vehicle(self, plate: str, day: str) -> VehicleRow:
        chance = self._chance

        def maybe(value: Any, likely: float = 0.7) -> Any:
            return value if chance.random() < likely else None

        def soon() -> str:
            return shifted(day, chance.randint(-3, 75))

        years = chance.choice((3, 4))
        return VehicleRow(
            *(plate, "MAKE", None, None, "RED", maybe(chance.random() < 0.7)),
            mot_expiry=maybe(soon(), 0.8),
            mot_exempt=maybe(chance.random() < 0.1),
            first_registered=maybe(
                shifted(day, chance.randint(5, 60) - round(365.25 * years)), 0.3
            ),
            tax_status=maybe(chance.choice(("taxed", "taxed", "taxed", "exempt", "sorn"))),
            tax_due=maybe(soon(), 0.8),
            updated=1,
        )
