"""Difficult register files, and the answers they lead to, end to end (formats)."""

import gzip
import io
import json
import zipfile

import pytest

from tests.unit.test_format_mid import file as mid_file
from tests.unit.test_format_mid import record as mid_record

DAY = "2025-07-01"


@pytest.fixture
def brought(world):
    """Load files in one go; return rows, loaded, rejected and skipped."""

    def bring(**contents):
        paths = []
        for name, content in contents.items():
            path = world.directory / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths.append(path)
        result = world.load_files(*paths)
        return result.rows, result.loaded, result.rejected, result.skipped

    return bring


def zipped(**members):
    """Return a zip of gzip members of NDJSON."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, records in members.items():
            lines = "\n".join(map(json.dumps, records))
            archive.writestr(f"folder/{name}.json.gz", gzip.compress(lines.encode()))
    return packed.getvalue()


def dvsa(plate, *expiries, **members):
    tests = [{"testResult": "PASSED", "expiryDate": day} for day in expiries]
    return {"registration": plate, "motTests": tests, **members}


def checks(client, plate, day=DAY):
    return client.get(f"/v1/compliance/{plate}?asOf={day}&explain=true").json["reasons"]


def insurance(client, plate, day=DAY):
    return client.get(f"/v1/vehicle/{plate}/insurance?asOf={day}").json


def test_deltas_over_the_turn_of_the_year(alice, brought):
    """31-12-2024 is applied before 01-01-2025, in any order; an expiry can move back."""
    old, new = "delta-light-vehicle_31-12-2024", "delta-light-vehicle_01-01-2025"
    counts = brought(
        **{
            f"{new}.zip": zipped(
                **{
                    new: [
                        dvsa("QQ1", "2025-03-01", modification="UPDATED"),
                        {"registration": "QQ2", "modification": "DELETED"},
                    ]
                }
            ),
            f"{old}.zip": zipped(
                **{old: [dvsa("QQ1", "2026-03-01", "2025-03-01"), dvsa("QQ2", "2026-01-01")]}
            ),
        }
    )
    assert counts == (4, 4, 0, 0)
    assert checks(alice, "QQ1")["motValid"] == "expired"
    assert alice.get("/v1/vehicle/QQ2/insurance").status_int == 404


def test_dvla_stays_when_the_dvsa_deletes(alice, brought):
    """DELETED removes only what the DVSA wrote."""
    answer = {
        "registrationNumber": "QQ1",
        "make": "FORD",
        "colour": "RED",
        "taxStatus": "Taxed",
        "taxDueDate": "2025-12-01",
        "motExpiryDate": "2025-08-01",
    }
    brought(**{"v.json": json.dumps([answer])})
    brought(**{"d.json": json.dumps(dvsa("QQ1", "2026-01-01", make="SEAT", model="IBIZA"))})
    assert insurance(alice, "QQ1")["vehicle"] == {
        "make": "SEAT",
        "model": "IBIZA",
        "year": None,
        "color": "RED",
    }
    assert checks(alice, "QQ1", "2026-01-01")["motValid"] == "valid"
    gone = {"registration": "QQ1", "modification": "DELETED"}
    assert brought(**{"e.json": json.dumps(gone)}) == (1, 1, 0, 0)
    assert brought(**{"e.json": json.dumps(gone)}) == (1, 0, 0, 1)
    assert insurance(alice, "QQ1")["vehicle"]["make"] == "FORD"
    assert checks(alice, "QQ1")["motValid"] == "valid"
    assert checks(alice, "QQ1", "2025-08-02")["motValid"] == "expired"
    assert checks(alice, "QQ1")["roadTaxPaid"] == "valid"


def test_cancellation_lapse_and_reinstatement(alice, brought):
    """A cancelled policy was in force the day before; an amendment reinstates it."""
    end = {"update": "A", "ended": "C", "start": "20250301", "expiry": "20250301"}
    assert brought(**{"a.txt": mid_file(mid_record(**end), mid_record())}) == (2, 1, 0, 1)
    assert insurance(alice, "QQ21AAA", "2025-12-31")["insured"]
    brought(**{"b.txt": mid_file(mid_record(**end))})
    told = [insurance(alice, "QQ21AAA", day)["insured"] for day in ("2025-02-28", "2025-03-01")]
    assert told == [True, False]
    assert checks(alice, "QQ21AAA")["insuranceValid"] == "cancelled"
    brought(**{"c.txt": mid_file(mid_record(update="A", expiry="99991231"))})
    answer = insurance(alice, "QQ21AAA", "2090-01-01")
    assert answer["policy"] == {
        "number": "POL-1",
        "insurer": "123",
        "validFrom": "2025-01-01",
        "validTo": "9999-12-31",
        "type": "01",
    }
    assert answer["vehicle"] == {"make": None, "model": None, "year": None, "color": None}


def test_changes_of_unknown_rows(brought):
    """Deletions and cancellations in an empty register are skipped."""
    end = {"update": "A", "ended": "C", "start": "20250301", "expiry": "20250301"}
    policies = mid_file(mid_record(**end), mid_record(update="D"))
    assert brought(**{"a.txt": policies}) == (2, 0, 0, 2)
    gone = {"registration": "QQ1", "modification": "DELETED"}
    assert brought(**{"d.json": json.dumps(gone)}) == (1, 0, 0, 1)


def test_fines_make_a_plate_known(alice, brought):
    """Written off, overpaid and other states' fines are not owed; a fine makes a plate known."""
    header = "Plate,State,Summons Number,Issue Date,Fine Amount,Amount Due\n"
    rows = "NULL,NY,1,02/30/2025,5,-1.00\n0042,NY,2,01/01/2067,65,$65\nQQ1,99,3,,5,5\nQQ3,NY,4,,,\n"
    assert brought(**{"n.csv": header + rows}) == (4, 3, 0, 1)
    told = {plate: checks(alice, plate)["noOutstandingFines"] for plate in ("NULL", "0042", "QQ3")}
    assert told == {"NULL": "none", "0042": "outstanding", "QQ3": "none"}
    assert alice.get("/v1/compliance/QQ1").status_int == 404


def test_a_newer_snapshot_makes_unknown(alice, brought):
    """A newer RDW row without an expiry or a flag makes them unknown."""
    header = "Kenteken,Merk,Handelsbenaming,Datum eerste toelating,Eerste kleur,"
    flagged = f"{header}WAM verzekerd,Vervaldatum APK\nQQ-1,,,,,Ja,20260101\n"
    brought(**{"a.csv": flagged})
    assert (checks(alice, "QQ1")["insuranceValid"], checks(alice, "QQ1")["motValid"]) == (
        "flag",
        "valid",
    )
    newer = f"{header}WAM verzekerd,Vervaldatum APK\r\nqq1,,,,,,N.V.T.\r\n"
    brought(**{"b.csv": newer.replace(",", "\t")})
    assert (checks(alice, "QQ1")["insuranceValid"], checks(alice, "QQ1")["motValid"]) == (
        "unknown",
        "unknown",
    )
