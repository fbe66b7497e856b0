"""The record that Python merges is the one that the statement of a look-up returns."""

from collections.abc import Iterator

import msgspec
import pytest

from app.config import Config
from app.storage.registers import in_precedence
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Wanted
from tests.conftest import STORAGE
from tests.stores import Template
from tests.unit.explained_model import DATES, random_registers
from tests.unit.test_records import Shelf

pytestmark = STORAGE

NAMES = ("native", "rdw", "zulu")
ORDER = ("rdw", "native")
YEARS = {"native": 4, "rdw": 3, "*": 2}
PLATES = [f"AB{n:03}" for n in range(300)]
WANTED = Wanted(vehicle=True, papers=True, dates=True, in_force_first=True)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    """Registers that each test empties and fills."""
    template: Template = request.getfixturevalue(f"{request.param}_template")
    store = template.store(tmp_path_factory.mktemp("merged"))
    shelf = Shelf(store.url)
    yield shelf
    shelf.close()
    template.take_back(store)


@pytest.mark.parametrize("names", [NAMES, NAMES[:1]])
def test_records_are_those_of_the_statement(shelf, names):
    """Random registers, alone and together, on each day on which something changes."""
    shelf.fill(random_registers(names, PLATES, seed=len(names)))
    records = shelf.records(ORDER, YEARS)
    config = Config(database_url="", register_order=ORDER, mot_first_years=YEARS)
    reader, registers = VehicleReader(records, config), in_precedence(shelf.state, ORDER)
    for day in DATES:
        expected, _ = records.find_records(shelf.state, PLATES, day, WANTED)
        found, held = reader.look_up_held(shelf.engine, registers, [*PLATES, "NONE1", "?"], day)
        assert held.keys() == expected.keys()
        for each in found:
            record = expected.get(each.registration or "")
            if record and record.first_registered is None:
                # The years count only from a first registration.
                record = msgspec.structs.replace(record, mot_first_years=0)
            assert each.record == record
