"""Values that cannot be read count as missing, and the notes of the load say how many (D100)."""

import json

import pytest

from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping import read_mapping
from app.registers.reading import pieces
from tests.unit.register_files import read
from tests.unit.test_load import files

VEHICLES = "registration,make,year,motExpiry,firstRegistered,taxStatus,taxDue,lastUpdated\n"
SPOILT = "AB12CDE,FORD,12,13.05.2027,1.2.2012,paid,soon,yesterday\n"
GOOD = "AB13CDE,FORD,2012,2027-05-13,2012-02-01,taxed,2027-05-01,2026-11-01T06:00:00Z\n"
BLANK = "AB14CDE,FORD,,null, ,NULL,,\n"
ALL_SPOILT = dict.fromkeys(
    ["year", "motExpiry", "firstRegistered", "taxStatus", "taxDue", "lastUpdated"], 1
)
RDW = (
    "Kenteken,Merk,Handelsbenaming,Datum eerste toelating,Eerste kleur,WAM verzekerd,"
    "Vervaldatum APK,Vervaldatum APK DT\n"
)
NYC = "Plate,State,Summons Number,Issue Date,Amount Due\n"


def ndjson(text: str) -> str:
    """Return a CSV as JSON objects, one per line."""
    header, *lines = text.splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    return "".join(json.dumps(row) + "\n" for row in rows)


class TestNative:
    @pytest.mark.parametrize("form", [str, ndjson], ids=["csv", "ndjson"])
    def test_each_lost_value_is_counted(self, form):
        """Each column is counted by itself; empty cells, spaces and null are no values."""
        heard = read(form(VEHICLES + SPOILT + GOOD + BLANK)).heard
        assert heard.unread == ALL_SPOILT
        assert not heard.rejects

    def test_readable_values_are_not_counted(self):
        """A file without such values reports nothing."""
        assert read(VEHICLES + GOOD + BLANK).heard.unread == {}

    def test_lines_with_quotes_are_counted(self):
        """Records that are read one by one count like those of a block."""
        heard = read(VEHICLES + SPOILT.replace("FORD", '"FORD"') + GOOD).heard
        assert heard.unread == ALL_SPOILT

    def test_rejected_rows_are_not_counted(self):
        """The values of a rejected row are not loaded anyway, also beside good rows."""
        rejected = SPOILT.replace("AB12CDE", "?")
        heard = read(VEHICLES + rejected + SPOILT + GOOD).heard
        assert (len(heard.rejects), heard.unread) == (1, ALL_SPOILT)

    def test_fines(self):
        """A fine whose settlement cannot be read stays owed, so it must be counted."""
        text = (
            "reference,registration,issuedOn,amount,currency,settledOn\nF1,AB12CDE,x,5,pounds,y\n"
        )
        assert read(text).heard.unread == {"issuedOn": 1, "currency": 1, "settledOn": 1}

    def test_policies(self):
        """Dates of policies reject the row; the time of the last change does not."""
        text = "registration,number,insurer,validFrom,validTo,lastUpdated\n"
        heard = read(f"{text}AB12CDE,P-1,X,2026-01-01,2026-12-31,x\n").heard
        assert heard.unread == {"lastUpdated": 1}


def test_other_formats():
    """Each format counts the values of its own columns, and no placeholder of its source."""
    rdw = f"{RDW}AB12CD,X,Y,abcd,ROOD,soms,13.05.2027,\nAB13CD,X,Y,0,N.v.t.,N.v.t.,,x\n"
    assert read(rdw).heard.unread == {
        "Datum eerste toelating": 1,
        "WAM verzekerd": 1,
        "Vervaldatum APK": 1,
        "Vervaldatum APK DT": 1,
    }
    assert read(f"{NYC}ABC1234,NY,1,13.05.2026,5\nABC1234,NJ,2,x,5\n").heard.unread == {
        "Issue Date": 1
    }
    dvla = {"registrationNumber": "AB12CDE", "taxStatus": "Paid", "motExpiryDate": "x"}
    assert read(json.dumps(dvla) + "\n").heard.unread == {"taxStatus": 1, "motExpiryDate": 1}
    tests = [{"testResult": "PASSED", "expiryDate": "x"}, {"testResult": "PASSED"}]
    dvsa = {"registration": "AB12CDE", "manufactureDate": "old", "motTests": tests}
    assert read(json.dumps(dvsa) + "\n").heard.unread == {"manufactureDate": 1, "expiryDate": 1}


class TestMapped:
    def test_a_forgotten_date_format_is_counted(self, tmp_path):
        """Without `date_format`, the dates of a German file are not read: the count says so."""
        path = tmp_path / "mapping.toml"
        path.write_text(
            'kind = "vehicles"\n[columns]\nregistration = "Plate"\nmotExpiry = "HU"\n'
            'taxStatus = "Steuer"\n[words.taxStatus]\nja = "taxed"\n'
        )
        text = "Plate,HU,Steuer\nAB12CDE,13.05.2027,ja\nAB13CDE,14.05.2027,nein\nAB14CDE,,\n"
        assert read(text, MappedCsv(read_mapping(path))).heard.unread == {"HU": 2, "Steuer": 1}


class TestNotes:
    @pytest.mark.parametrize("dry_run", [False, True])
    def test_the_notes_say_it(self, world, dry_run, monkeypatch):
        """A load and a dry run note the counts of all files and pieces together."""
        monkeypatch.setattr(pieces, "PIECE_BYTES", 16 * 1024)
        lines = [
            f"AB{n:05},{'13.05.2027' if n % 2 else f'2027-05-{n % 28 + 1:02}'}\n"
            for n in range(4_000)
        ]
        text = "registration,motExpiry\n" + "".join(lines)
        one = "registration,year\nAB12CDE,12\n"
        result = world.load_files(*files(world, a=text, b=text, c=one), dry_run=dry_run)
        assert result.loaded == 8_001
        assert result.notes == [
            "motExpiry: 4,000 values could not be read and count as missing",
            "year: 1 value could not be read and counts as missing",
        ]
