"""Values that cannot be read count as missing, and the notes of the load say how many (D100)."""

import json

import pytest

from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.registers.reading import reader
from tests.conftest import ON_SQLITE
from tests.rows import each_row
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
        assert read(text, MappedCsv(read_mapping(path))).heard.unread == {
            "motExpiry": 2,
            "taxStatus": 1,
        }


class TestNotes:
    @pytest.mark.parametrize("dry_run", [False, True])
    def test_the_notes_say_it(self, world, dry_run, monkeypatch):
        """A load and a dry run note the counts of all files and pieces together."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 16 * 1024)
        lines = [
            f"AB{n:05},{'13.05.2027' if n % 2 else f'2027-05-{n % 28 + 1:02}'}\n"
            for n in range(4_000)
        ]
        text = "registration,motExpiry\n" + "".join(lines)
        one = "registration,year\nAB12CDE,12\n"
        result = world.load_files(*files(world, a=text, b=text, c=one), dry_run=dry_run)
        assert result.loaded == 8_001
        first, last = (next(world.directory.glob(f"{each}.*")) for each in "ac")
        assert result.notes == [
            "motExpiry: 4,000 of 8,000 values could not be read and count as missing (the first in "
            f"{first}, line 3; the form is DD.MM.YYYY, expected YYYY-MM-DD: a mapping needs "
            'date_format = "DD.MM.YYYY", or motExpiry = "DD.MM.YYYY" in [date_formats])',
            f"year: 1 value could not be read and counts as missing ({last}, line 2)",
        ]


GERMAN = "Plate,HU,Steuer,Stand\n"
MAPPING = (
    'kind = "vehicles"\nregister = "own"\n[columns]\nregistration = "Plate"\nmotExpiry = "HU"\n'
    'taxStatus = "Steuer"\nlastUpdated = "Stand"\n'
)


@ON_SQLITE
class TestMost:
    """A load is refused if it cannot read most dates or tax statuses of a column (D101)."""

    def refused(self, cli, text, *words, mapping=MAPPING):
        """Return the reason why a mapped file is refused, with the short names of files."""
        toml, path = cli.file("own.toml", mapping), cli.file("own.csv", *text.splitlines())
        return cli.refusal("import", path, "--map", toml, *words).replace(f"{path.parent}/", "")

    @pytest.mark.parametrize("words", [(), ("--dry-run",), ("--mode", "replace")])
    def test_a_wrong_date_format_is_named_with_the_right_one(self, cli, words):
        """The refusal names column, line and form, the form that would fit, and no value."""
        text = GERMAN + "A1,,,\nA2,13.05.2027,,\nA3,14.05.2027,,\nA4,2027-05-13,,\n"
        assert self.refused(cli, text, *words) == (
            "most values of HU cannot be read; nothing was loaded\n"
            "own.csv, line 3: HU: 2 of 3 values cannot be read; the form is DD.MM.YYYY, expected "
            'YYYY-MM-DD: a mapping needs date_format = "DD.MM.YYYY", or motExpiry = "DD.MM.YYYY" '
            "in [date_formats]\n"
            "To load the rows without these values, repeat the load with --allow-loss motExpiry.\n"
        )
        assert "A1" not in cli.run("lookup", "A1").stdout.replace("A1: Vehicle not found", "")

    def test_day_and_month_that_are_swapped(self, cli):
        """Days over 12 show that the months come first."""
        mapping = f'date_format = "DD/MM/YYYY"\n{MAPPING}'
        lines = "".join(f"A{day},05/{day:02}/2027,,\n" for day in range(1, 32))
        told = self.refused(cli, GERMAN + lines, mapping=mapping)
        assert "own.csv, line 14: HU: 19 of 31 values" in told
        assert "the form is MM/DD/YYYY, expected DD/MM/YYYY" in told

    def test_the_form_is_shown_if_no_mapping_can_read_it(self, cli):
        """A form without a name is shown with 9 for digits and a for letters."""
        told = self.refused(cli, GERMAN + "A1,13 Mai 27,,\nA2,14 Mai 27,,\n")
        legend = "(9 stands for a digit, a for a letter)"
        such = f"HU: 2 values cannot be read; such as 99 aaa 99 {legend}, expected YYYY-MM-DD\n"
        assert such in told
        assert "Mai" not in told

    def test_what_a_form_means_is_said_once(self, cli):
        """If the forms of several columns are shown, only the first explains its 9 and a."""
        mapping = MAPPING + 'taxDue = "Fällig"\n'
        text = "Plate,HU,Fällig,Steuer,Stand\nA1,13 Mai 27,1 Mai,,\nA2,14 Mai 27,2 Mai,,\n"
        told = self.refused(cli, text, mapping=mapping)
        assert "such as 9 aaa, expected YYYY-MM-DD\n" in told
        assert told.count("9 stands for a digit") == 1

    @pytest.mark.parametrize("days", [("31.02.2027", "30.02.2027"), ("13.13.2027", "45.05.2027")])
    def test_a_day_that_does_not_exist_is_called_so(self, cli, days):
        """A value in the right form is not told to have the right form."""
        text = GERMAN + "".join(f"A{n},{day},,\n" for n, day in enumerate(days))
        told = self.refused(cli, text, mapping=f'date_format = "DD.MM.YYYY"\n{MAPPING}')
        assert "cannot be read; has the form DD.MM.YYYY, but is no day that exists\n" in told

    def test_words(self, cli):
        """Tax statuses are like dates; a word that everybody knows is shown, and no other one."""
        told = self.refused(cli, GERMAN + "A1,,Schmidt,\nA2,,bezahlt,\n")
        assert (
            'own.csv, line 2: Steuer: 2 values cannot be read; "bezahlt" is an example; '
            "[words.taxStatus] of a mapping can translate words\n"
        ) in told
        assert "Schmidt" not in told

    def test_words_that_mean_no_value(self, cli):
        """A word that the mapping translates into an empty text is a missing value, not a fault."""
        words = '[words.taxStatus]\nOpen = ""\n[words.motExpiry]\n"-" = ""\n'
        toml = cli.file("own.toml", MAPPING + words)
        lines = ("A1,-,open,", "A2,-, OPEN,", "A3,-,taxed,")
        path = cli.file("own.csv", GERMAN.strip(), *lines)
        result = cli.json("import", path, "--map", toml)
        assert (result["loaded"], result["notes"]) == (3, [])

    def test_one_column_of_two_members(self, cli):
        """Each member is judged by its own values, also if both are read from one column."""
        lines = ("A1,13.05.2027,,", "A2,13.05.2027,,", *(f"A{n},2027-05-13,," for n in range(3, 6)))
        toml = cli.file("own.toml", MAPPING + 'taxDue = "HU"\n')
        path = cli.file("own.csv", GERMAN.strip(), *lines)
        notes = cli.json("import", path, "--map", toml)["notes"]
        *lost, _ = [note.partition(" could")[0] for note in notes]
        assert lost == ["HU: 2 of 5 values"] * 2

    def test_one_impossible_day_does_not_hide_the_form(self, cli):
        """The form is that of most values, also if the first one is an impossible day."""
        told = self.refused(cli, GERMAN + "A1,2026-02-30,,\nA2,13.05.2027,,\nA3,14.05.2027,,\n")
        assert "the form is DD.MM.YYYY" in told

    def test_it_can_be_allowed(self, cli):
        """`--allow-loss` loads the rows without the values; the notes say so."""
        toml = cli.file("own.toml", MAPPING)
        path = cli.file("own.csv", GERMAN.strip(), "A1,1.1.27,x,", "A2,2.1.27,y,")
        words = ("import", path, "--map", toml, "--allow-loss", "motExpiry")
        assert "most values of Steuer cannot be read" in cli.refusal(*words)
        told = cli.json(*words, "--allow-loss", "taxStatus")
        assert (told["loaded"], len(told["notes"])) == (2, 2)
        ended = cli.run(*words, "--allow-loss", "taxStatus")
        assert ended.stdout.endswith(
            "\n\n2 vehicles loaded into register own, 0 rejected, 3 notes to read\n"
        )

    @pytest.mark.parametrize(
        "lines",
        [
            ["A1,soon,,"],
            ["A1,soon,,", "A2,never,,", "A3,2027-05-13,,", "A4,2027-05-14,,"],
            ["A1,,,2026-11-01 06:00:00", "A2,,,2026-11-01 06:00:00"],
        ],
    )
    def test_what_is_noted_only(self, cli, lines):
        """One odd value, half of the values, and times do not refuse a load (D100)."""
        toml, path = cli.file("own.toml", MAPPING), cli.file("own.csv", GERMAN.strip(), *lines)
        told = cli.json("import", path, "--map", toml)
        assert (told["loaded"], len(told["notes"])) == (len(lines), 1)

    def test_native_files_and_json(self, cli):
        """Native files are checked as well; the line of a JSON object is named."""
        rows = [{"registration": f"A{n}", "motExpiry": "13.05.2027"} for n in range(3)]
        path = cli.file("a.ndjson", *map(json.dumps, rows))
        assert f"{path}, line 1: motExpiry: 3 values cannot be read; the form is DD.MM.YYYY" in (
            cli.refusal("import", path)
        )

    def test_other_sources_are_noted_only(self, cli):
        """The formats of agencies are known; losses are compared with what is held (D157)."""
        lines = [f"AB{n}CD,X,Y,0,ROOD,Ja,13.05.2027,\n" for n in range(3)]
        told = cli.json("import", cli.file("rdw.csv", RDW + "".join(lines)))
        assert (told["loaded"], len(told["notes"])) == (3, 1)

    @each_row("make", ["FORD", '"FORD"'], ids=["a block", "one by one"])
    def test_what_is_missing_is_not_readable(self, cli, make):
        """Only values count, however the records are read: neither empty cells nor placeholders."""
        days = ("13.05.2027", "20270513", "20270514", "", "00000000", "Niet geregistreerd")
        lines = [f"AB{n}CD,{make},Y,0,ROOD,Ja,{day},\n" for n, day in enumerate(days)]
        path = cli.file("rdw.csv", RDW + "".join(lines))
        (note,) = cli.json("import", path, "--dry-run")["notes"]
        assert note.startswith("Vervaldatum APK: 1 of 3 values could not be read")

    def test_the_history_says_why(self, cli):
        """The reason in the history has the column and the form on one line."""
        self.refused(cli, GERMAN + "A1,13.05.2027,,\nA2,14.05.2027,,\n")
        (line,) = cli.json("imports", "list")
        assert line["status"] == "failed"
        assert "; " in line["reason"]
        assert "the form is DD.MM.YYYY" in line["reason"]
        assert "\n" not in line["reason"]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["A1,", "A2,2027-05-13", "A3,soon", "A4,soon"], 4),
        (["A1,", "", '"A2",2027-05-13', '"A3",soon'], 5),
        (['"A\n1",', "A2,", "A3,soon"], 5),
    ],
)
def test_the_line_is_that_of_the_file(lines, line):
    """Blank lines, quotes and line breaks within quotes count as lines."""
    heard = read("registration,motExpiry\n" + "\n".join(lines) + "\n").heard
    assert heard.unreadable_line == {"motExpiry": line}
