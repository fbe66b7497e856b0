"""Periods, dates and all policies (D172), compared with an independent model."""

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from app.vehicles.answers import add_asked, compliance_answer, insurance_answer
from app.vehicles.compliance import judge
from app.vehicles.facts import Record, WantedFields
from app.vehicles.periods import Period, Question
from app.vehicles.records import Records
from tests.conftest import STORAGE
from tests.stores import Template
from tests.unit.explained_model import find_record
from tests.unit.periods_model import PeriodModel, random_vehicles
from tests.unit.test_records import Shelf

pytestmark = STORAGE

NAMES = ("native", "rdw", "zulu")
ORDER = ("rdw", "native")
FIRST_YEARS = {"native": 4, "rdw": 3}
DATED = WantedFields(vehicle=True, papers=True, dates=True)
BATCH = 5_000


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    """Registers that each test fills."""
    template: Template = request.getfixturevalue(f"{request.param}_template")
    store = template.store(tmp_path_factory.mktemp("periods"))
    shelf = Shelf(store.url)
    yield shelf
    shelf.close()
    template.take_back(store)


def filled(shelf: Shelf, vehicles: int) -> Iterator[tuple[Records, Any, dict[str, Any]]]:
    """Fill the registers with some random vehicles after the other, and yield their periods."""
    for seed, start in enumerate(range(0, vehicles, BATCH)):
        plates = [f"AB{n}" for n in range(start, min(start + BATCH, vehicles))]
        registers, periods = random_vehicles(NAMES, plates, seed)
        shelf.fill(registers, kinds="vpf")
        yield shelf.records(ORDER, FIRST_YEARS), registers, periods


def answers(record: Record, question: Question) -> tuple[Any, Any]:
    """Return the insurance and the compliance record."""
    day = question.named_day or ""
    insurance = insurance_answer(record, day)
    add_asked(insurance, record, day, question, {})
    judgement = judge(record, day)
    compliance = compliance_answer(record.registration, judgement, explain=True, checked_at=0)
    add_asked(compliance, record, day, question, {})
    # When registers were loaded is not of the model.
    insurance.loaded = compliance.loaded = UNSET
    return msgspec.to_builtins(insurance), msgspec.to_builtins(compliance)


@pytest.mark.parametrize("vehicles", [400, pytest.param(100_000, marks=pytest.mark.system_long)])
def test_they_agree_with_an_independent_model(shelf, vehicles):
    """All members of both single answers are those of the model, for each vehicle in its period."""
    failed: Counter[str] = Counter()
    for records, registers, periods in filled(shelf, vehicles):
        model = PeriodModel(registers, ORDER, "", FIRST_YEARS)
        asked: dict[str, dict[str, Record]] = {}
        for plate, period in periods.items():
            record, _ = find_record(records, shelf.state, plate, period[0], DATED)
            if record is None:
                assert not model.knows(plate)
                continue
            asked.setdefault(period[0], {})[plate] = record
            question = Question(period=Period(*period), details=True, policies=True)
            insurance, compliance = answers(record, question)
            on_first_day = model.on(period[0])
            del compliance["lastChecked"]
            assert insurance == on_first_day.insurance(plate, period[1])
            assert compliance == on_first_day.compliance(plate, period[1])
            failed.update(compliance["period"].get("reasons", {}).values())
        for day, expected in asked.items():
            found, _ = records.find_records(shelf.state, list(expected), day, DATED)
            assert {plate: found[plate] for plate in expected} == expected
    # Without them the test would show little.
    assert failed.keys() >= {"expired", "cancelled", "future", "sorn", "outstanding", "not_due"}


@pytest.mark.parametrize("vehicles", [40, pytest.param(2_000, marks=pytest.mark.system_long)])
def test_they_agree_with_asking_every_day(shelf, vehicles):
    """The first failing day is the first one on which a look-up of that day alone fails."""
    for records, _, periods in filled(shelf, vehicles):
        for plate, period in periods.items():
            record, _ = find_record(records, shelf.state, plate, period[0], DATED)
            if record is None:
                continue
            told = answers(record, Question(period=Period(*period)))
            expected: list[str | None] = [None, None]
            for day in days(*period):
                alone, _ = find_record(records, shelf.state, plate, day)
                assert alone is not None
                insured, *others = judge(alone, day)
                good = insured.is_good, all(each.is_good for each in (insured, *others))
                for n in (0, 1):
                    expected[n] = expected[n] or (None if good[n] else day)
                if None not in expected:
                    break
            assert [answer["period"].get("firstFailingDay") for answer in told] == expected


def days(first: str, last: str) -> Iterator[str]:
    count = date.fromisoformat(last) - date.fromisoformat(first)
    for number in range(count.days + 1):
        yield (date.fromisoformat(first) + timedelta(number)).isoformat()
