"""Sample files in the RDW's layout, loaded by the command line and queried over HTTP."""

import json

import pytest

from tests.conftest import SAMPLES, expected_samples
from tests.system.processes import run_command

pytestmark = pytest.mark.skipif(
    not SAMPLES.exists(), reason="the sample register files are not beside this repository"
)
AS_OF = "2025-07-01"
# Plates that occur in no other sample file.
PLATES = ["QA08CE"]
# Plates with the same data in the RDW's JSON, which is loaded later.
PLATES += ["11ZKZ3", "0001TJ", "VXJ99N"]


@pytest.fixture(scope="module")
def expected():
    """The results that the samples' notes expect."""
    return expected_samples()


def csv_files(expected) -> list[dict]:
    """The RDW's CSV files in the order of loading."""
    return [each for each in expected["files"] if each["what"].startswith(("RDW CSV", "the same"))]


@pytest.fixture
def loaded(serve, world, expected):
    """A service whose registers are loaded while it runs."""
    service = serve()
    service.results = []
    for each in csv_files(expected):
        ended = run_command(
            *("import", SAMPLES.parents[1] / each["path"], "--max-rejects", "100%", "--json"),
            database_url=world.config.database_url,
        )
        assert ended.returncode == 0, ended.stderr
        service.results.append(json.loads(ended.stdout))
    return service


@pytest.mark.system_long
def test_the_samples_load_and_answer_as_expected(loaded, expected):
    """The counts of all three files and their plates are as expected."""
    told = csv_files(expected)
    assert len(told) == 3
    for result, each in zip(loaded.results, told, strict=True):
        assert {name: result[name] for name in ("rows", "loaded", "rejected", "skipped")} == {
            name: each[name] for name in ("rows", "loaded", "rejected", "skipped")
        }
    wanted = {each["registration"]: each for each in expected["plates"]}
    for plate in PLATES:
        require_as_wanted(loaded, plate, wanted[plate])


def require_as_wanted(service, plate: str, wanted: dict) -> None:
    """Fail unless both look-ups of a plate give the expected answers."""
    insurance = service.get(f"/v1/vehicle/{plate}/insurance?asOf={AS_OF}").json()
    assert insurance["insured"] is wanted["insured"], plate
    assert insurance["policy"] is None, plate
    assert folded(insurance["vehicle"]) == folded(wanted["vehicle"]), plate
    compliance = service.get(f"/v1/compliance/{plate}?asOf={AS_OF}&details=true").json()
    assert compliance["checks"] == wanted["checks"], plate
    assert compliance["compliant"] is wanted["compliant"], plate
    assert compliance["motExpiry"] == wanted["motExpiry"], plate


def folded(vehicle: dict) -> dict:
    """Return a vehicle's description in upper case."""
    return {k: v.upper() if isinstance(v, str) else v for k, v in vehicle.items()}
