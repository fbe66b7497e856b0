"""The sample files of the RDW, loaded and asked for as their notes say (formats 1)."""

import json

import pytest

from tests.conftest import SAMPLES

pytestmark = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="the folder shared, with the sample files, is not beside this one"
)
FILES = (
    "rdw/Open_Data_RDW__Gekentekende_voertuigen_2023.csv",
    "rdw/Open_Data_RDW__Gekentekende_voertuigen_2025_bom_crlf.csv",
    "rdw/Open_Data_RDW__Gekentekende_voertuigen_part.csv.gz",
)
PLATES = ("11ZKZ3", "0001TJ", "VXJ99N", "QA08CE")
"""Those of the named plates that stand in these files; no other file says more of them."""


@pytest.fixture(scope="module")
def expected():
    """What the samples should come to: by file, and by plate."""
    document = json.loads((SAMPLES / "expected.json").read_bytes())
    files = {entry["path"].removeprefix("shared/samples/"): entry for entry in document["files"]}
    plates = {entry["registration"]: entry for entry in document["plates"]}
    return {"day": document["as_of"], "files": files, "plates": plates}


@pytest.fixture
def loaded(world):
    """All three files, in their order."""
    return [world.load_files(SAMPLES / file) for file in FILES]


def test_counts_are_those_of_the_notes(loaded, expected):
    """Rows, loaded, rejected and skipped of each file."""
    for file, result in zip(FILES, loaded, strict=True):
        counts = ("rows", "loaded", "rejected", "skipped")
        assert {count: getattr(result, count) for count in counts} == {
            count: expected["files"][file][count] for count in counts
        }
        assert (result.register, result.kind, result.format) == ("rdw", "vehicles", "rdw-csv")


@pytest.mark.parametrize("file", FILES)
def test_registrations_are_those_of_the_notes(world, expected, file):
    """A plate that comes twice in a file is one vehicle."""
    world.load_files(SAMPLES / file)
    query = world.engine.execute_sql("SELECT vehicles FROM register WHERE name = 'rdw'")
    assert query.fetchone() == (expected["files"][file]["registrations"],)


@pytest.mark.parametrize("file", FILES)
def test_the_same_file_again_changes_nothing(world, file):
    """Every row is confirmed, none is changed, a plate that is in it twice included (D28)."""
    first, again = (world.load_files(SAMPLES / file) for _ in range(2))
    assert (again.loaded, again.changed) == (first.loaded, 0)


@pytest.mark.parametrize("plate", PLATES)
def test_insurance_is_that_of_the_notes(alice, loaded, expected, plate):
    """Description, flag and policy of a named plate on the day of the notes."""
    wanted = expected["plates"][plate]
    answer = alice.get(f"/v1/vehicle/{plate}/insurance?asOf={expected['day']}").json
    assert answer["vehicle"] == wanted["vehicle"]
    assert (answer["insured"], answer["policy"]) == (wanted["insured"], wanted["policy"])


@pytest.mark.parametrize("plate", PLATES)
def test_compliance_is_that_of_the_notes(alice, loaded, expected, plate):
    """The four checks of a named plate on the day of the notes."""
    wanted = expected["plates"][plate]
    answer = alice.get(f"/v1/compliance/{plate}?asOf={expected['day']}").json
    assert (answer["compliant"], answer["checks"]) == (wanted["compliant"], wanted["checks"])


@pytest.mark.parametrize("plate", ["QQ22DEL", "QQ13OLD", "SE34BUW"])
def test_plates_that_are_nobodys_are_not_found(alice, loaded, expected, plate):
    """The notes name plates that no file makes known."""
    assert expected["plates"][plate]["found"] is False
    assert alice.get(f"/v1/vehicle/{plate}/insurance").status_int == 404
