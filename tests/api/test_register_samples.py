"""Sample register files in all layouts give the answers in their notes (formats)."""

import pytest

from app.registers.formats import FileFault
from tests.conftest import SAMPLES, SHARED, expected_samples

pytestmark = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="the folder shared, with the sample files, is not beside this one"
)
MARKER = b"ZZPRIVATE"
SNAPSHOTS = (
    "rdw/Open_Data_RDW__Gekentekende_voertuigen_2023.csv",
    "rdw/Open_Data_RDW__Gekentekende_voertuigen_2025_bom_crlf.csv",
    "rdw/Open_Data_RDW__Gekentekende_voertuigen_part.csv.gz",
    "rdw/m9d7-ebf2.json",
    "dvsa/bulk-light-vehicle_29-06-2025.zip",
    "dvla/ves_responses.ndjson",
    "native/vehicles_ny.csv",
)
REFUSED = {
    "mid/MID2_F_000124.txt": "fleet file",
    "mid/MID_P_000125_no_trailer.txt": "no trailer",
}
ONLY_IN_FLEETS = ("QQ71FLA", "QQ71FLB")
"""Plates whose policies, and models, are told by fleet files alone."""
FORMATS = {
    "RDW CSV": "rdw-csv",
    "the same layout": "rdw-csv",
    "RDW SODA": "rdw-json",
    "DVSA": "dvsa",
    "DVLA": "dvla",
    "MID private": "mid",
    "native": "native-csv",
    "NYC CSV": "nyc-csv",
    "NYC SODA": "nyc-json",
}


@pytest.fixture(scope="module")
def expected():
    """The expected results of the samples: by file in the order of loading, and by plate."""
    document = expected_samples()
    files = {entry["path"].removeprefix("shared/samples/"): entry for entry in document["files"]}
    plates = {entry["registration"]: entry for entry in document["plates"]}
    return {"day": document["as_of"], "files": files, "plates": plates}


def load_all(world, expected):
    """Load every valid file in the order of the notes; return the results by file."""
    return {
        file: world.load_files(SAMPLES / file) for file in expected["files"] if file not in REFUSED
    }


@pytest.fixture(scope="module")
def loaded_once(shared_world, expected):
    """What the tests marked `shared_world` find loaded."""
    return load_all(shared_world, expected)


@pytest.fixture
def loaded(request, world, expected):
    """The results of all loads, by file; the module's own if the test is marked `shared_world`."""
    if request.node.get_closest_marker("shared_world"):
        return request.getfixturevalue("loaded_once")
    return load_all(world, expected)


@SHARED
def test_real_columns_are_known(loaded):
    """Published columns are not noted; only invented ones are."""
    notes = {file: [n for n in each.notes if "unknown" in n] for file, each in loaded.items()}
    (note,) = notes.pop("rdw/m9d7-ebf2.json")
    assert note.endswith("1 unknown column is not read: 'een_nieuwe_kolom'")
    assert set(map(tuple, notes.values())) == {()}


@SHARED
def test_counts_are_those_of_the_notes(loaded, expected):
    """Each file is recognised; rows, loaded, rejected and skipped are as in the notes."""
    for file, result in loaded.items():
        told = expected["files"][file]
        (format_,) = (name for what, name in FORMATS.items() if told["what"].startswith(what))
        counts = ("rows", "loaded", "rejected", "skipped")
        found = {count: getattr(result, count) for count in counts}
        assert (file, result.format, found) == (
            file,
            format_,
            {name: told[name] for name in counts},
        )


@pytest.mark.parametrize("file", SNAPSHOTS)
def test_registrations_are_those_of_the_notes(world, expected, file):
    """A plate that occurs twice in a file is one vehicle."""
    register = world.load_files(SAMPLES / file).register
    query = world.engine.execute_sql(f"SELECT vehicles FROM register WHERE name = '{register}'")
    assert query.fetchone() == (expected["files"][file]["registrations"],)


@pytest.mark.parametrize("file", [*SNAPSHOTS, "nyc/nc67-uf89.json"])
def test_the_same_file_again_changes_nothing(world, file):
    """All rows are confirmed and none is changed, even for a repeated plate (D28)."""
    first, again = (world.load_files(SAMPLES / file) for _ in range(2))
    assert (again.loaded, again.changed) == (first.loaded, 0)


@SHARED
def test_answers_are_those_of_the_notes(alice, loaded, expected):
    """Insurance, compliance and last days equal the notes on their day; case does not count."""
    wanted = {plate: _wanted(told) for plate, told in expected["plates"].items()}
    assert {plate: _answered(alice, plate, expected["day"]) for plate in wanted} == wanted


def _wanted(told):
    if not told["found"]:
        return 404
    if told["registration"] in ONLY_IN_FLEETS:
        checks = told["checks"] | {"insuranceValid": False}
        told = told | {"insured": False, "policy": None, "compliant": False, "checks": checks}
        told["vehicle"] = told["vehicle"] | {"model": None}
    vehicle = _folded(told["vehicle"])
    checked = told["compliant"], told["checks"], told["motExpiry"], told["taxDue"]
    return vehicle, told["insured"], told["policy"], *checked


def _answered(client, plate, day):
    insurance = client.get(f"/v1/vehicle/{plate}/insurance?asOf={day}")
    compliance = client.get(f"/v1/compliance/{plate}?asOf={day}&details=true")
    if insurance.status_int != 200:
        assert insurance.status_int == compliance.status_int
        return insurance.status_int
    one, other = insurance.json, compliance.json
    vehicle = _folded(one["vehicle"])
    checked = (other[name] for name in ("compliant", "checks", "motExpiry", "taxDue"))
    return vehicle, one["insured"], one["policy"], *checked


def _folded(vehicle):
    return {name: v.upper() if isinstance(v, str) else v for name, v in vehicle.items()}


@SHARED
def test_a_cancelled_policy_was_in_force_before(alice, loaded):
    """The day before the cancellation the answer is the former one."""
    for day, insured in (("2025-03-14", True), ("2025-03-15", False)):
        answer = alice.get(f"/v1/vehicle/QQ70CNC/insurance?asOf={day}").json
        assert (day, answer["insured"]) == (day, insured)


@pytest.mark.parametrize("file", REFUSED)
def test_files_that_must_fail(world, alice, file):
    """A truncated or unknown file is refused with a reason, and nothing of it is loaded."""
    with pytest.raises(FileFault, match=REFUSED[file]):
        world.load_files(SAMPLES / file)
    assert alice.get("/v1/vehicle/QQ08AAN/insurance").status_int == 404
    assert alice.get("/v1/vehicle/QQ71FLA/insurance").status_int == 404


def test_deltas_are_applied_by_their_dates(world, alice, expected):
    """The three DVSA files in one load, in any order, give the same answers."""
    world.load_files(*sorted((SAMPLES / "dvsa").iterdir()))
    for plate, color in (("QQ25NEW", "Black"), ("QQ23NEW", "Grey")):
        answer = alice.get(f"/v1/vehicle/{plate}/insurance").json
        assert (plate, answer["vehicle"]["color"]) == (plate, color)
    for plate in ("QQ22DEL", "QQ13OLD"):
        assert alice.get(f"/v1/vehicle/{plate}/insurance").status_int == 404


def test_personal_data_is_kept_nowhere(world, loaded, caplog):
    """The marker of personal fields is in no database, rejects file or log."""
    with pytest.raises(FileFault):
        world.load_files(SAMPLES / "mid/MID_P_000125_no_trailer.txt")
    assert loaded["mid/MID_P_000123.txt"].rejected
    files = [path for path in world.directory.rglob("*") if path.is_file()]
    assert [path.suffix for path in files].count(".csv") >= 4, "there are rejects to look at"
    assert [path.name for path in files if MARKER in path.read_bytes()] == []
    assert MARKER.decode() not in caplog.text
    assert MARKER.decode() not in "".join(map(str, loaded.values()))
    assert MARKER.decode() not in "".join(_texts_of_tables(world))


def _texts_of_tables(world):
    """Return all texts in a server's tables; on SQLite the files were searched."""
    if "sqlite" in world.config.database_url:
        return
    tables = world.engine.execute_sql(
        "SELECT table_schema, table_name FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
    ).fetchall()
    assert ("register_mid", "policy") in {(schema[:12], table) for schema, table in tables}
    for schema, table in tables:
        rows = world.engine.execute_sql(f'SELECT t::text FROM "{schema}"."{table}" t').fetchall()
        yield from (row[0] for row in rows)
