"""Walks of loads under the rule that tells what is not known (D198).

The model remembers since when the values of a vehicle are known: from the time of its row, unless
a load brings other values without a newer time. Then they are known from that load on.
"""

import csv
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from app import clock
from app.config import Config
from app.storage.registers import read_state
from app.storage.tables import VehicleRow
from app.storage.versions import set_tells_unknown
from app.vehicles.compliance import Verdict, judge_insurance
from app.vehicles.facts import EXPLAINED
from app.vehicles.records import Records
from tests.conftest import STORAGE, World
from tests.unit import unknown_model
from tests.unit.periods_model import PeriodModel
from tests.unit.test_unknown_model import compare_day, compare_period
from tests.unit.unknown_model import FAILS, PASSES, UNKNOWN, UnknownModel
from tests.unit.watch_registers import FIRST_YEARS, MEMBERS, NAMES, ORDER, Registers

pytestmark = STORAGE

PLATES = [f"AB{number:02}CDE" for number in range(12)]
COLUMNS = dict(zip(VehicleRow._fields, MEMBERS["v"].split(), strict=False))
"""The names of a vehicle's columns in files."""
PARTS = (["insured"], ["mot_exempt"], ["mot_expiry"], ["tax_status", "tax_due"])
"""What files with few columns have besides the registration."""
JUDGED = slice(VehicleRow._fields.index("insured"), VehicleRow._fields.index("updated"))
DAY = "2999-12-31"
WORDS = {None: "", True: "true", False: "false"}


class DatedRegisters(Registers):
    """Registers that remember since when the values of a vehicle are known."""

    def document(self, kind: str, row: Any) -> dict[str, Any]:
        """Return what a file has of a row, with its time."""
        return super().document(kind, row) | {"lastUpdated": time_text(row.updated) or None}

    def stored(self, kind: str, old: Any, row: Any) -> Any:
        """Return a row of a file with the time since which its values are known."""
        if row.updated is None or kind == "f":  # Fines have the time of their load.
            if old is not None and row[:-1] == old[:-1]:
                return old
            row = row._replace(updated=clock.now())
        if kind != "v" or old is None or row.updated > old.updated:
            return row
        if row[JUDGED] != old[JUDGED]:
            return row._replace(updated=clock.now())
        is_corrected = old.updated > clock.now()
        return row if is_corrected else row._replace(updated=old.updated)


class Walk:
    """An installation that lives beside its model, and sources that change from load to load."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self._engine, self._path = world.engine, world.directory / "columns.csv"
        self._chance = chance = random.Random(seed)
        self._random = unknown_model.World(chance, ())
        self._config = Config(
            register_order=ORDER,
            mot_first_years=FIRST_YEARS,
            timezone=self._random.zone,
            complete_registers=tuple(chance.sample((*NAMES, "misspelt"), chance.choice((0, 1, 2)))),
        )
        self._sources: dict[tuple[str, str], list[Any]] = {}
        self._registers = DatedRegisters(world)
        self._records = Records(self._engine, self._config)
        self._dropped: set[str] = set()
        self.seen: Counter[str] = Counter()
        set_tells_unknown(self._engine, True)
        monkeypatch.setattr(clock, "now", lambda: self._random.now)

    def step(self) -> None:
        """Let something happen to one register, and compare the answers."""
        self._random.pass_time()
        name = self._chance.choice(NAMES)
        steps = [self._merge, self._merge, self._merge, self._replace, self._merge_columns]
        if self._registers.can_roll_back(name):
            steps.append(self._roll_back)
        if name in self._registers.content:
            steps.append(self._drop)
        if name in self._dropped:
            steps += [self._undrop] * 2
        step = self._chance.choice(steps)
        step(name)
        self.seen[step.__name__] += 1
        self._compare()

    def _merge(self, name: str) -> None:
        """Merge some rows of a source."""
        kind = self._chance.choice("vvvvppf")
        rows = self._changed(name, kind)
        self._dropped.discard(name)
        self._registers.load(name, kind, self._chance.sample(rows, len(rows) * 2 // 3))

    def _replace(self, name: str) -> None:
        """Replace a register's rows by those of its source."""
        kind = self._chance.choice("vvp")
        self._dropped.discard(name)
        self._registers.load(name, kind, self._changed(name, kind), "replace")

    def _merge_columns(self, name: str) -> None:
        """Merge a file that has only some columns, and mostly not the time."""
        columns, has_time = self._chance.choice(PARTS), self._chance.random() < 0.3
        rows = self._chance.sample(self._changed(name, "v"), 4)
        header = ["registration", *map(COLUMNS.get, columns), *["lastUpdated"] * has_time]
        held = self._registers.content.get(name, {}).get("v", {})
        complete = []
        with self._path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row in rows:
                values = {column: getattr(row, column) for column in columns}
                texts = [WORDS.get(value, value) for value in values.values()]
                writer.writerow([row[0], *texts, *[time_text(row.updated)] * has_time])
                old = held.get(row[:1], VehicleRow(row[0]))
                complete.append(old._replace(**values, updated=row.updated if has_time else None))
        self._dropped.discard(name)
        self._registers.load_file(self._path, name, "v", complete)

    def _roll_back(self, name: str) -> None:
        self._registers.roll_back(name)

    def _drop(self, name: str) -> None:
        self._registers.drop(name)
        self._dropped.add(name)

    def _undrop(self, name: str) -> None:
        self._registers.undrop(name)
        self._dropped.remove(name)

    def _changed(self, name: str, kind: str) -> list[Any]:
        """Change some rows of a register's source, and return all of one kind."""
        chance = self._chance
        rows = self._sources.get((name, kind), [])
        if kind == "v":
            by_plate = {row.registration: row for row in rows}
            for plate in chance.sample(PLATES, 6):
                by_plate[plate] = self._other_vehicle(plate, by_plate.get(plate))
            rows = list(by_plate.values())
        elif kind == "p":
            new = [row for plate in PLATES for row in self._random.policies(plate, 1)]
            rows = list(
                {row[:4]: row for row in (*chance.sample(rows, len(rows) // 2), *new)}.values()
            )
        else:
            rows = [self._random.fine(plate) for plate in chance.sample(PLATES, 3)]
        self._sources[name, kind] = rows
        return rows

    def _other_vehicle(self, plate: str, old: VehicleRow | None) -> VehicleRow:
        """Return a vehicle's row with another value; most sources keep its time."""
        new = self._random.vehicle(plate)
        if old is None:
            return new
        column = self._chance.choice(VehicleRow._fields[1:-1])
        times = (*[old.updated] * 3, new.updated, None)
        values = {column: getattr(new, column), "updated": self._chance.choice(times)}
        return old._replace(**values)

    def _compare(self) -> None:
        """Compare the answers about some days and a period with the model's."""
        state, today = read_state(self._engine), self._random.today
        registers = self._registers.rows()
        model = UnknownModel(
            registers,
            ORDER,
            today,
            FIRST_YEARS,
            today=today,
            zone=self._random.zone,
            complete=self._config.complete_registers,
            kinds={name: "".join(rows) for name, rows in registers.items()},
        )
        old = PeriodModel(registers, ORDER, "", FIRST_YEARS)
        for day in {today, *(self._random.day() for _ in range(6))}:
            found, _ = self._records.find_records(state, PLATES, day, EXPLAINED)
            assert found.keys() == {plate for plate in PLATES if model.knows(plate)}
            for plate, record in found.items():
                compare_day(model.on(day), old, record, plate, self.seen)
        first, last = self._random.period()
        found, _ = self._records.find_records(state, PLATES[:2], first, EXPLAINED)
        for plate, record in found.items():
            compare_period(model.on(first), record, plate, last)


def time_text(updated: int | None) -> str:
    """Return a time as a file has it: a day alone if it is midnight in UTC."""
    if updated is None:
        return ""
    text = datetime.fromtimestamp(updated, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return text.removesuffix("T00:00:00Z")


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(0, 15), *(pytest.param(seed, 60, marks=pytest.mark.system_long) for seed in range(1, 9))],
)
def test_values_are_known_since_the_load_that_brought_them(world, seed, steps, monkeypatch):
    """After each load, rollback, drop and undrop the answers about all days are the model's."""
    walk = Walk(world, monkeypatch, seed)
    for _ in range(steps):
        walk.step()
    # Without them the test would show little.
    assert min(walk.seen[outcome] for outcome in (PASSES, FAILS, UNKNOWN)) > 0


def test_an_emptied_register_is_not_complete(world):
    """It says of no vehicle that it has no policy, until it holds policies again."""
    set_tells_unknown(world.engine, True)
    records = Records(world.engine, Config(complete_registers=("mid",)))

    def told() -> Verdict:
        state = read_state(world.engine)
        found, _ = records.find_records(state, ["NK01AAA"], DAY, EXPLAINED)
        return judge_insurance(found["NK01AAA"], DAY)

    policy = {"registration": "NK02AAA", "number": "P-1", "validFrom": DAY, "validTo": DAY}
    empty = world.directory / "empty.csv"
    empty.write_text("registration,number,validFrom,validTo\n")
    world.load([{"registration": "NK01AAA", "make": "Ford"}], register="rdw")
    for _ in range(2):
        world.load([policy], register="mid")
        assert told() == (False, "no_policy", True)
        world.load_files(empty, register="mid", mode="replace", empty_ok=True, allow_shrink=True)
        assert told() == (False, "unknown", False)
