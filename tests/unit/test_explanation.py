"""The explanation of an answer, compared with an independent model."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from app.config import Config
from app.storage.registers import Register
from app.vehicles.document import document_of
from app.vehicles.explanation import explain
from app.vehicles.reader import VehicleReader
from tests.conftest import STORAGE
from tests.stores import Template
from tests.unit.explained_model import Model, random_registers
from tests.unit.test_records import Shelf

pytestmark = STORAGE

PLATES = [f"AB{n:04}" for n in range(5_000)]
FEW = PLATES[:200]
ORDER = ("rdw", "native")
NAMES = ("native", "rdw", "zulu")
REGISTERS = random_registers(NAMES, FEW, seed=13)
FIRST_YEARS = {"native": 4, "rdw": 3}
DAYS = ("2025-06-30", "2025-07-01", "2025-07-03")
TAX_AND_MOT = (
    *("motExpiry", "motExempt", "firstRegistered", "taxStatus", "taxDue"),
    "finesOutstanding",
)
CHECKS = ("insured", "motValid", "roadTaxPaid", "noOutstandingFines")
RULES = {
    *("only", "in_force", "ends_last", "begins_last"),
    *("greatest_number", "first_insurer", "register_order"),
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    """Three registers without rows."""
    template: Template = request.getfixturevalue(f"{request.param}_template")
    store = template.store(tmp_path_factory.mktemp("explained"))
    shelf = Shelf(store.url)
    for name in REGISTERS:
        Register.insert(name=name, generation=1, kinds="fpv").execute(shelf.engine)
    yield shelf
    shelf.close()
    template.take_back(store)


@pytest.fixture
def few(shelf: Shelf) -> Shelf:
    """The registers with the rows of the first vehicles."""
    shelf.fill(REGISTERS)
    return shelf


def document(shelf: Shelf, day: str, plates: list[str]) -> Any:
    """Return what `verifyd lookup --json` prints."""
    config = Config(database_url="", register_order=ORDER, mot_first_years=FIRST_YEARS)
    reader = VehicleReader(shelf.records(ORDER, FIRST_YEARS), config)
    return document_of(explain(shelf.engine, reader, plates, day), day)


def in_form_of_the_model(plate: Any) -> Any:
    """Return a plate of the document in the form of the model, which knows no dates."""
    for name in ("lastChecked", "compliantUntil", *TAX_AND_MOT):
        plate["compliance"].pop(name, None)
    for answer in (plate["insurance"], plate["compliance"]):
        answer.pop("insuredUntil", None)
        answer.pop("loaded")
    plate["insurance"].pop("policies")
    (plate["insurance"]["policy"] or {}).pop("cancelledOn", None)
    chosen = plate["chosenPolicy"]
    members = ("register", "insurer", "number", "validFrom", "rule")
    contradicted = {each["column"]: each["contradictedBy"] for each in plate["decidedBy"]}
    return {
        "insurance": plate["insurance"],
        "compliance": plate["compliance"],
        "decidedBy": {each["column"]: each["registers"] for each in plate["decidedBy"]},
        "contradictedBy": [contradicted.pop(column) for column in CHECKS],
        "chosen": chosen and tuple(chosen[member] for member in members),
    }


@pytest.mark.parametrize("vehicles", [500, pytest.param(5_000, marks=pytest.mark.system_long)])
def test_it_agrees_with_an_independent_model(shelf, vehicles):
    """Answers, deciding registers and chosen policies of many vehicles equal the model's."""
    plates = PLATES[:vehicles]
    registers = random_registers(NAMES, plates, seed=13)
    shelf.fill(registers)
    rules: Counter[str] = Counter()
    for day in DAYS:
        model = Model(registers, ORDER, day, FIRST_YEARS)
        for plate in document(shelf, day, plates)["plates"]:
            if not model.knows(plate["registration"]):
                assert plate["code"] == "vehicle_not_found"
                continue
            expected = model.says(plate["registration"])
            rules[plate["chosenPolicy"] and plate["chosenPolicy"]["rule"]] += 1
            assert in_form_of_the_model(plate) == expected
    assert rules.keys() == RULES | {None}


def test_the_values_of_decisions_are_those_of_the_answers(few):
    """The value that explains a column is the value that the API answers."""
    for plate in document(few, DAYS[0], FEW)["plates"]:
        if "error" in plate:
            continue
        insurance, checks = plate["insurance"], plate["compliance"]["checks"]
        policy = insurance["policy"]
        assert {each["column"]: each["value"] for each in plate["decidedBy"]} == {
            "insured": insurance["insured"],
            "policy": policy and policy["number"],
            **insurance["vehicle"],
            "lastUpdated": insurance["lastUpdated"],
            **{name: holds for name, holds in checks.items() if name != "insuranceValid"},
        }


def test_each_register_is_quoted_as_it_is(few):
    """The document has every row of a plate, under the register that holds it."""
    for plate in document(few, DAYS[0], FEW)["plates"]:
        for holding in plate.get("registers", []):
            rows = REGISTERS[holding["register"]]
            vehicles, policies, fines = (
                [row for row in rows[kind] if row[0] == plate["asked"]] for kind in "vpf"
            )
            told = [holding["vehicle"]] if holding["vehicle"] else []
            assert [(v["make"], v["insured"], v["motExempt"]) for v in told] == [
                (v.make, v.insured, v.mot_exempt) for v in vehicles
            ]
            assert sorted((p["number"], p["validTo"]) for p in holding["policies"]) == sorted(
                (p.number, p.valid_to) for p in policies
            )
            assert [f["outstanding"] for f in holding["fines"]] == [not f.settled for f in fines]


def test_many_plates_cost_as_many_statements_as_one(few, statements):
    """The number of statements does not grow with the number of plates."""
    document(few, DAYS[0], FEW[:2])
    counts = []
    for plates in (FEW[:2], FEW):
        with statements() as seen:
            document(few, DAYS[0], plates)
        counts.append(len(seen))
    assert counts[0] == counts[1]
