"""Answers that tell what is not known, compared with an independent model (D198)."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from app import clock
from app.config import Config
from app.storage.registers import TELLS_UNKNOWN
from app.storage.tables import Kind
from app.vehicles.answers import (
    add_asked,
    compliance_answer,
    compliance_item,
    insurance_answer,
    insurance_item,
)
from app.vehicles.compliance import judge, judge_insurance
from app.vehicles.facts import DESCRIPTION, EVERYTHING, EXPLAINED, Record, WantedFields
from app.vehicles.merging import records_of
from app.vehicles.periods import Period, Question, judge_period
from app.vehicles.reader import FoundPlate
from app.vehicles.records import Records, basis_of
from app.vehicles.rows import Part, Rows, row_of
from tests.conftest import STORAGE
from tests.stores import Template
from tests.unit.periods_model import PeriodModel
from tests.unit.test_records import DAY, PLATE, Shelf, policy, vehicle
from tests.unit.unknown_model import FAILS, PASSES, UNKNOWN, Told, UnknownModel, World

PLATES = [f"AB{number}" for number in range(50)]
LETTERS = {"v": Kind.VEHICLES, "p": Kind.POLICIES, "f": Kind.FINES}
NOTHING_BUT_INSURANCE = WantedFields(vehicle=False, papers=False)
INSURANCE_DATES = WantedFields(vehicle=False, papers=False, dates=True)


def config_of(world: World) -> Config:
    """Return the settings of a world."""
    return Config(
        register_order=world.order,
        mot_first_years=world.first_years,
        timezone=world.zone,
        complete_registers=world.complete,
    )


def state_of(world: World) -> str:
    """Return the state of the registers under the rule that tells what is not known."""
    entries = (f"{name}/1/{kinds}" for name, kinds in sorted(world.kinds.items()))
    return ",".join(entries) + TELLS_UNKNOWN


def rows_of(world: World, model: PeriodModel) -> Rows:
    """Return all rows as the statement has them."""
    return [
        (Part(name, kind), [row_of(kind, row[0], row[1:]) for row in world.registers[name][letter]])
        for letter, kind in LETTERS.items()
        for name in model.order
    ]


def told_of(verdict: Any) -> Told:
    """Return what a verdict says, as the model does."""
    outcome = UNKNOWN if not verdict.is_known else PASSES if verdict.is_good else FAILS
    return Told(outcome, verdict.reason)


def compare_day(
    model: UnknownModel, old: PeriodModel, record: Record, plate: str, seen: Counter[str]
) -> None:
    """Compare the answers about a day by both rules, and count the outcomes."""
    day = model.day
    judgement = judge(record, day)
    checks = model.checks(plate)
    about = plate, day, model.today
    assert list(map(told_of, judgement)) == list(checks.values()), about
    is_good = [told.outcome == PASSES for told in checks.values()]
    is_good[-1] = checks["noOutstandingFines"].outcome != FAILS
    assert [verdict.is_good for verdict in judgement] == is_good, about
    compliant = model.compliant(plate)
    assert (judgement.is_good, judgement.fails, judgement.is_known) == (
        compliant == PASSES,
        compliant == FAILS,
        compliant != UNKNOWN,
    ), about
    compare_old_rule(old, record.without_basis(), plate, day)
    seen[compliant] += 1
    seen.update(f"{each.outcome} {each.reason}" for each in checks.values())


def compare_old_rule(old: PeriodModel, record: Record, plate: str, day: str) -> None:
    """Compare the answers about a day by the rule of 1.0.0, which knows everything."""
    judgement, expected = judge(record, day), old.on(day).says(plate)["compliance"]
    assert [each.reason for each in judgement] == list(expected["reasons"].values()), (plate, day)
    assert [each.is_good for each in judgement] == list(expected["checks"].values()), (plate, day)
    assert all(each.is_known for each in judgement)


def compare_item(model: UnknownModel, record: Record, plate: str) -> None:
    """Compare what the items of both bulks tell of a plate."""
    found, day = FoundPlate(plate, plate, record), model.day
    insurance = as_json(insurance_item(found, day))
    compliance = as_json(compliance_item(found, judge(record, day), explain=True))
    expected = model.insurance(plate, day), model.compliance(plate, day)
    for item, told in zip((insurance, compliance), expected, strict=True):
        for name in ("insured", "compliant", "checks", "reasons", "unknown"):
            assert item.get(name) == told.get(name), (plate, day)


def answers(record: Record, question: Question) -> tuple[Any, Any]:
    """Return the insurance and the compliance record."""
    day = question.named_day or ""
    insurance = insurance_answer(record, day)
    add_asked(insurance, record, day, question, {})
    compliance = compliance_answer(
        record.registration, judge(record, day), explain=True, checked_at=0
    )
    add_asked(compliance, record, day, question, {})
    # When registers were loaded is not of the model.
    insurance.loaded = compliance.loaded = msgspec.UNSET
    return as_json(insurance), as_json(compliance)


def as_json(answer: Any) -> Any:
    """Return an answer as a client reads it."""
    return msgspec.json.decode(msgspec.json.encode(answer))


def compare_period(model: UnknownModel, record: Record, plate: str, last: str) -> None:
    """Compare all members of both answers about a period that begins on the model's day."""
    question = Question(period=Period(model.day, last), details=True)
    insurance, compliance = answers(record, question)
    del compliance["lastChecked"]
    about = plate, model.day, last, model.today
    # The members have no order in a document, and the model knows none.
    assert insurance == model.insurance(plate, last), about
    assert compliance == model.compliance(plate, last), about


OUTCOMES = {
    *(f"passes {reason}" for reason in ("valid", "flag", "exempt", "not_due", "none")),
    *(f"fails {reason}" for reason in ("expired", "cancelled", "future", "none", "no_policy")),
    *(f"fails {reason}" for reason in ("sorn", "untaxed", "outstanding")),
    *(f"unknown {reason}" for reason in ("expired", "cancelled", "future")),
    *("unknown not_known_then", "unknown unknown"),
    *(PASSES, FAILS, UNKNOWN),
}
"""What the worlds must show so that the comparison means something."""


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0, 16),
        *(pytest.param(n, n + 100, marks=pytest.mark.system_long) for n in range(16, 416, 100)),
    ],
)
def test_rows_give_the_answers_of_the_model(first, last, monkeypatch):
    """Each day, and each period, has the answers of the model by both rules."""
    days, plates = (40, PLATES) if first else (10, PLATES[:20])
    seen: Counter[str] = Counter()
    for seed in range(first, last):
        chance = random.Random(seed)
        world = World(chance, plates)
        monkeypatch.setattr(clock, "now", lambda now=world.now: now)
        model, old = world.model(), world.old_model()
        rows = rows_of(world, model)
        basis = basis_of(state_of(world), config_of(world))
        for day in {world.today, *(world.day() for _ in range(days))}:
            wanted = chance.choice((EVERYTHING, EXPLAINED))
            records = records_of(rows, day, world.first_years, wanted, basis)
            then = model.on(day)
            assert records.keys() == {plate for plate in plates if model.knows(plate)}
            for plate, record in records.items():
                compare_day(then, old, record, plate, seen)
        for _ in range(4):
            first_day, last_day = world.period()
            records = records_of(rows, first_day, world.first_years, EXPLAINED, basis)
            for plate in chance.sample(sorted(records), min(8, len(records))):
                compare_period(model.on(first_day), records[plate], plate, last_day)
    assert seen.keys() >= OUTCOMES


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    """Registers that each test fills."""
    template: Template = request.getfixturevalue(f"{request.param}_template")
    store = template.store(tmp_path_factory.mktemp("unknown"))
    shelf = Shelf(store.url)
    yield shelf
    shelf.close()
    template.take_back(store)


class TestEngines:
    pytestmark = STORAGE

    @pytest.mark.parametrize(
        ("first", "last", "days"),
        [
            (0, 4, 2),
            *(
                pytest.param(n, n + 24, 20, marks=pytest.mark.system_long)
                for n in range(4, 100, 24)
            ),
        ],
    )
    def test_look_ups_give_the_answers_of_the_model(self, shelf, first, last, days, monkeypatch):
        """Single look-ups and bulks of all kinds have the answers of the model by both rules."""
        for seed in range(first, last):
            chance = random.Random(seed)
            world = World(chance, PLATES)
            if seed % 4 == 3:  # One statement reads 300 rows of a plate, and a page 1,000.
                world.crowd(PLATES[0], 1_100 if seed % 16 == 15 else 320)
            monkeypatch.setattr(clock, "now", lambda now=world.now: now)
            shelf.fill(world.registers)
            looks = Looks(shelf, world)
            for day in {world.today, *(world.day() for _ in range(days))}:
                looks.compare(day)
            for _ in range(4):
                looks.compare_periods(*world.period())

    def test_a_yes_or_no_counts_after_a_policy(self, shelf, monkeypatch):
        """It is read with periods, although a policy alone decides about their first day."""
        ended = policy(valid_to="2026-12-31")
        updated = {"insured": False, "updated": 1_790_000_000}
        shelf.fill({"native": {"p": [ended]}, "rdw": vehicle(**updated)})
        monkeypatch.setattr(clock, "now", lambda: 1_800_000_000)
        for plates in ([PLATE], [PLATE, "NONE1"]):
            found, _ = Records(shelf.engine, Config()).find_records(
                shelf.state + TELLS_UNKNOWN, plates, "2026-12-01", INSURANCE_DATES
            )
            period = Period("2026-12-01", "2027-01-01")
            told = judge_period(found[PLATE], period, judge_insurance)
            assert (told.failure and told.failure.day, told.is_known) == ("2027-01-01", True)

    def test_the_first_of_many_policies_counts(self, shelf, monkeypatch):
        """A complete register knows a plate since its first policy, of whatever number of them."""
        later = [
            policy(number=f"P{n}", valid_from="2025-07-02", valid_to="2025-08-01")
            for n in range(400)
        ]
        ended = policy(number="P", valid_from="2025-01-01", valid_to="2025-06-29")
        shelf.fill({"native": {"p": [*later, ended]}, "rdw": {"p": later}})
        monkeypatch.setattr(clock, "now", lambda: 1_800_000_000)
        for complete, is_known in ((("native",), True), (("rdw",), False), ((), False)):
            records = Records(shelf.engine, Config(complete_registers=complete))
            for wanted in (NOTHING_BUT_INSURANCE, EVERYTHING, EXPLAINED):
                found, _ = records.find_records(shelf.state + TELLS_UNKNOWN, [PLATE], DAY, wanted)
                assert judge_insurance(found[PLATE], DAY) == (False, "future", is_known)


class Looks:
    """Looks all plates of a world up, and compares the answers with those of its models."""

    def __init__(self, shelf: Shelf, world: World) -> None:
        self._records, self._old_records = (
            Records(shelf.engine, config_of(world)) for _ in range(2)
        )
        self._state = state_of(world)
        self._model, self._old = world.model(), world.old_model()

    def _found(self, plates: list[str], day: str, wanted: WantedFields) -> dict[str, Record]:
        found, _ = self._records.find_records(self._state, plates, day, wanted)
        assert found.keys() == {plate for plate in plates if self._model.knows(plate)}, day
        return found

    def compare(self, day: str) -> None:
        """Compare the answers about a day: of bulks, and of single look-ups of some plates."""
        model, seen = self._model.on(day), Counter[str]()
        old_state = self._state.removesuffix(TELLS_UNKNOWN)
        for plates in (PLATES, *([plate] for plate in PLATES[:5])):
            for wanted in (EVERYTHING, EXPLAINED):
                for plate, record in self._found(plates, day, wanted).items():
                    compare_day(model, self._old, record, plate, seen)
            for plate, record in self._found(plates, day, EVERYTHING).items():
                compare_item(model, record, plate)
            old_records, _ = self._old_records.find_records(old_state, plates, day)
            for plate, record in old_records.items():
                compare_old_rule(self._old, record, plate, day)
            for wanted in (NOTHING_BUT_INSURANCE, DESCRIPTION):
                for plate, record in self._found(plates, day, wanted).items():
                    told = told_of(judge_insurance(record, day))
                    assert told == model.insurance_check(plate), (plate, day)

    def compare_periods(self, first: str, last: str) -> None:
        """Compare the answers about a period, of bulks and of single look-ups."""
        model = self._model.on(first)
        for plates in (PLATES[:8], *([plate] for plate in PLATES[:3])):
            for plate, record in self._found(plates, first, EXPLAINED).items():
                compare_period(model, record, plate, last)
            for plate, record in self._found(plates, first, INSURANCE_DATES).items():
                answer = insurance_answer(record, first)
                add_asked(answer, record, first, Question(period=Period(first, last)), {})
                expected = model.insurance(plate, last)
                assert as_json(answer.period) == expected["period"], (plate, first, last)
