"""`import --suggest-map` writes a first mapping for a CSV file (D99)."""

import csv
import gzip
import io
import itertools
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FileFault
from app.registers.formats.mapped import MappedCsv, MappingFault, read_mapping
from app.registers.formats.suggesting.suggestion import SAMPLE_BYTES, read_sample, suggest
from app.registers.formats.suggesting.toml_text import MappingText, mapping_text
from app.storage.tables import Kind, PolicyRow, VehicleRow
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.system.processes import ROOT, environment
from tests.unit.register_files import read

POLICIES = {
    "en": ("Reg No,Policy Number,Start Date,End Date,Insurer", "DD/MM/YYYY"),
    "de": ("Kennzeichen;Vertragsnummer;Gültig ab;Gültig bis;Versicherer", "DD.MM.YYYY"),
    "nl": ("Kenteken;Polisnummer;Ingangsdatum;Einddatum;Verzekeraar", "DD-MM-YYYY"),
    "fr": ("Immatriculation;N° contrat;Date d'effet;Échéance;Assureur", "DD/MM/YYYY"),
    "es": ("Matrícula;Nº póliza;Fecha inicio;Vencimiento;Aseguradora", "DD/MM/YYYY"),
}
VEHICLES = {
    "en": "Registration Number,Make,Model,Colour,Year of manufacture,MOT due,Insured",
    "de": "Amtl. Kennzeichen;Hersteller;Modell;Farbe;Baujahr;HU fällig;Versichert",
    "nl": "Kenteken;Merk;Handelsbenaming;Kleur;Bouwjaar;Vervaldatum APK;WAM verzekerd",
    "fr": "Plaque;Marque;Modèle;Couleur;Année;Contrôle technique;Assuré",
    "es": "Matrícula;Marca;Modelo;Color;Año;Caducidad ITV;Asegurado",
}
FINES = {
    "en": "PCN;Plate;Issue date;Amount due;Currency",
    "de": "Aktenzeichen;Kennzeichen;Tatdatum;Betrag;Währung",
    "nl": "Kenmerk;Kenteken;Datum overtreding;Bedrag;Valuta",
    "fr": "N° avis;Immatriculation;Date infraction;Montant;Devise",
    "es": "Expediente;Matrícula;Fecha infracción;Importe;Moneda",
}


def day(form: str, year: int, month: int, number: int) -> str:
    """Return a date in a form such as DD.MM.YYYY."""
    parts = {"YYYY": f"{year:04}", "MM": f"{month:02}", "DD": f"{number:02}"}
    for part, digits in parts.items():
        form = form.replace(part, digits)
    return form


def suggested(text: str | bytes, kind: Kind | None = None) -> MappingText:
    """Return the mapping of a file."""
    data = text.encode() if isinstance(text, str) else text
    return mapping_text(suggest(read_sample(data), kind), "file.csv", "own", "verifyd import")


def document(text: str | bytes, kind: Kind | None = None) -> dict[str, Any]:
    """Return the mapping of a file, as TOML is read."""
    return tomllib.loads(suggested(text, kind).text)


def loaded(text: str | bytes, tmp_path: Path) -> Any:
    """Return what the suggested mapping reads from the file; it must be complete."""
    made = suggested(text)
    assert made.lines_to_complete == {}, made.text
    path = tmp_path / "map.toml"
    path.write_text(made.text, encoding="utf-8")
    return read(text, MappedCsv(read_mapping(path)))


class TestNames:
    @pytest.mark.parametrize("language", POLICIES)
    def test_policies(self, language, tmp_path):
        """The columns of policies are found in five languages, and their dates are read."""
        header, form = POLICIES[language]
        separator = "," if "," in header else ";"
        rows = [("AB12CDE", "P-1", day(form, 2026, 3, 1), day(form, 2027, 2, 28), "Acme")]
        text = "\n".join([header, *map(separator.join, rows), ""])
        (row,) = loaded(text, tmp_path).changes
        assert tuple(row)[:5] == ("AB12CDE", "Acme", "P-1", "2026-03-01", "2027-02-28")

    @pytest.mark.parametrize("language", VEHICLES)
    def test_vehicles(self, language, tmp_path):
        """The columns of vehicles are found in five languages, and yes and no are translated."""
        separator = "," if language == "en" else ";"
        yes = {"en": "Y", "de": "Ja", "nl": "J", "fr": "oui", "es": "Sí"}[language]
        row = ("AB12CDE", "FORD", "FOCUS", "BLUE", "2012", "2027-05-13", yes)
        text = f"{VEHICLES[language]}\n{separator.join(row)}\n"
        (vehicle,) = loaded(text, tmp_path).changes
        assert tuple(vehicle)[:7] == (
            *("AB12CDE", "FORD", "FOCUS", 2012, "BLUE", True),
            "2027-05-13",
        )

    @pytest.mark.parametrize("language", FINES)
    def test_fines(self, language, tmp_path):
        """The columns of fines are found in five languages."""
        text = f"{FINES[language]}\nR-1;AB12CDE;2026-05-13;35.00;EUR\n"
        (fine,) = loaded(text, tmp_path).changes
        assert (fine.reference, fine.registration, fine.amount_cents) == ("R-1", "AB12CDE", 3500)

    def test_types_of_policies_and_inspections(self):
        """Less common names are found, too."""
        text = "Plate;Contrat;Début;Fin;{}\nA1;P1;2026-01-01;2026-12-31;{}\n"
        assert document(text.format("Tarif", "Vollkasko"))["columns"]["type"] == "Tarif"
        vehicle = document("Plaque;Échéance CT\nA1;2026-01-01\n")
        assert (vehicle["kind"], vehicle["columns"]["motExpiry"]) == ("vehicles", "Échéance CT")

    def test_windows_1252(self, tmp_path):
        """Names that are not UTF-8 are read as Windows-1252, by the load as well."""
        text = "Kennzeichen;Gültig ab;Gültig bis;Vertrag\nA1;2026-01-01;2026-12-31;P-1\n"
        (row,) = loaded(text.encode("cp1252"), tmp_path).changes
        assert (row.valid_from, row.valid_to) == ("2026-01-01", "2026-12-31")


ENDS = {
    "en": ("Maker", "Insurance expiry"),
    "de": ("Fahrzeughersteller", "Versichert bis"),
    "nl": ("Automerk", "Verzekerd tot"),
    "fr": ("Marque du véhicule", "Échéance assurance"),
    "es": ("Marca del vehículo", "Vencimiento seguro"),
}


@each_row("language", ENDS)
def test_makers_and_ends_of_insurance(language):
    """Both are found by their names; a mapping of the other kind points them out."""
    make, end = ENDS[language]
    text = f"VRM;{make};{end};n1;n2\nAB12CDE;FORD;2027-02-28;2026-03-01;P-1\n"
    vehicles, policies = suggested(text, Kind.VEHICLES), suggested(text, Kind.POLICIES)
    assert tomllib.loads(vehicles.text)["columns"] == {"registration": "VRM", "make": make}
    assert tomllib.loads(policies.text)["columns"]["validTo"] == end
    assert (
        f'#   "{end}": could be validTo in a mapping of its own, with --kind policies'
        in vehicles.text.splitlines()
    )


def test_dates_are_no_names():
    """A column of dates is no insurer, whatever its name contains."""
    made = suggested("plate;policy;insurance checked\nA1;P;2026-01-13\n", Kind.POLICIES)
    assert "insurer" not in tomllib.loads(made.text)["columns"]


class TestValues:
    def test_columns_without_known_names_are_found_by_their_values(self, tmp_path):
        """Plates, the two dates of a period, and the form of the dates are seen in the values."""
        text = (
            "k1;k2;policy no;k3\nAB12CDE;28.02.2027;P-1;01.03.2026\nB-XY 12;31.12.2027;P-2;"
            "01.01.2027\n"
        )
        made = suggested(text)
        for line in ("registration", "validFrom", "validTo"):
            assert "# guessed from its values" in next(
                each for each in made.text.splitlines() if each.startswith(f"{line} = ")
            )
        assert [row[3] for row in loaded(text, tmp_path).changes] == [
            "2026-03-01",
            "2027-01-01",
        ]

    def test_a_name_with_other_values_is_not_trusted(self):
        """A column is not used if its values cannot be those of the member."""
        made = suggested("Plate;Make;Year\nAB12CDE;FORD;none\nCD34EFG;OPEL;old\n")
        assert "year" not in tomllib.loads(made.text)["columns"]
        assert '#   "Year": named like year, but most of its values are no years' in made.text

    def test_a_form_that_is_not_sure_is_marked(self):
        """Days up to 12 do not show which number is the month."""
        made = suggested("plate;policy;start;end\nA1;P;01/02/2026;01/03/2026\n")
        assert 'date_format = "DD/MM/YYYY"   # not sure: could be MM/DD/YYYY' in made.text
        sure = suggested("plate;policy;start;end\nA1;P;01/02/2026;01/31/2027\n")
        assert 'date_format = "MM/DD/YYYY"\n' in sure.text

    def test_an_agencys_first_day_without_is_marked(self):
        """A mapping reads last days with, so a column that an agency wrote is a day late (D100)."""
        dates = "2027-03-01;2027-04-01\n"
        made = suggested(f"plate;Vervaldatum APK;taxDueDate\nA1;{dates}")
        mark = "# read as the last day with; the {} writes the day after\n"
        assert f'motExpiry = "Vervaldatum APK" {mark.format("RDW")}' in made.text
        assert f'taxDue = "taxDueDate"        {mark.format("DVLA")}' in made.text
        assert "last day" not in suggested(f"plate;APK tot;tax until\nA1;{dates}").text

    def test_what_spreadsheets_add_is_seen_through(self):
        """Years and flags with decimals, and days with midnight, are what they look like."""
        made = suggested(
            "Kennzeichen;Baujahr;Versichert;HU;EZ\n"
            "A1;2012.0;1.0;31.05.2027 00:00:00;20120301.0\n"
            "A2;2015.0;0.0;30.06.2027 00:00:00;20150301.0\n"
        )
        wanted = {
            "registration": "Kennzeichen",
            "year": "Baujahr",
            "insured": "Versichert",
            "motExpiry": "HU",
            "firstRegistered": "EZ",
        }
        assert tomllib.loads(made.text) == {
            "kind": "vehicles",
            "register": "own",
            "delimiter": ";",
            "date_format": "DD.MM.YYYY",
            "columns": wanted,
            "date_formats": {"firstRegistered": "YYYYMMDD"},
        }

    def test_dates_that_no_mapping_can_read_are_marked(self):
        """A mapping knows no years of two digits."""
        made = suggested("plate;policy;start;end\nA1;P;1.2.26;3.4.27\n")
        assert made.text.count("# no mapping can read its dates, such as D.M.YY") == 2

    def test_days_and_months_of_one_digit_are_read(self, tmp_path):
        """Spreadsheets write the first of March as 1.3.2026."""
        made = loaded("plate;policy;start;end\nA1;P;1.3.2026;28.2.2027\n", tmp_path)
        assert PolicyRow._make(made.changes[0]).valid_to == "2027-02-28"

    def test_a_second_form_of_dates_gets_a_line_of_its_own(self, tmp_path):
        """Members with another form of dates are in `date_formats`."""
        text = (
            "plate;policy;start;end;cancelled\n"
            "A1;P;2026-01-13;2026-12-31;13.01.2026\nA2;Q;2026-01-14;2026-12-31;14.01.2026\n"
        )
        assert document(text)["date_formats"] == {"cancelledOn": "DD.MM.YYYY"}
        assert PolicyRow._make(loaded(text, tmp_path).changes[1]).cancelled_on == "2026-01-14"

    def test_months_without_days(self, tmp_path):
        """The German inspection is due in a month; other dates of the file keep their form."""
        text = "Kennzeichen;EZ;HU\nB-A 1;13.05.2015;05/2027\nB-A 2;01.06.2016;02/2028\n"
        told = document(text)
        assert (told["date_format"], told["date_formats"]) == (
            "DD.MM.YYYY",
            {"motExpiry": "MM/YYYY"},
        )
        first, second = map(VehicleRow._make, loaded(text, tmp_path).changes)
        assert (first.mot_expiry, first.first_registered) == ("2027-05-31", "2015-05-13")
        assert second.mot_expiry == "2028-02-29"

    def test_a_few_bad_dates_do_not_hide_the_form(self):
        """Impossible days have the form, too; beside most dates, other texts do not count."""
        text = "Kennzeichen;Marke;HU\nA1;VW;31.02.2027\nA2;VW;unbekannt\nA3;VW;01.06.2028\n"
        assert document(text)["date_format"] == "DD.MM.YYYY"
        assert "date_format" not in document(text.replace("31.02.2027", "offen"))

    def test_amounts_with_a_comma(self, tmp_path):
        """A decimal comma gets a line, and thousands with points are amounts, too."""
        text = "Aktenzeichen;Kennzeichen;Betrag\nR-1;A1;35,50\nR-2;A2;1.200,00\nR-3;A3;20\n"
        assert 'decimal = ","\n' in suggested(text).text
        found = loaded(text, tmp_path).changes
        assert [fine.amount_cents for fine in found] == [3_550, 120_000, 2_000]

    @pytest.mark.parametrize(
        ("amount", "line"),
        [("35.50", ""), ("35", ""), ("1.200", 'decimal = "," # not sure: no amount has a comma')],
    )
    def test_amounts_without_a_comma(self, amount, line):
        """Points are the default; a point before three digits separates thousands, probably."""
        lines = suggested(f"Aktenzeichen;Kennzeichen;Betrag\nR-1;A1;{amount}\n").text.splitlines()
        found = [" ".join(each.split()) for each in lines if each.startswith("decimal")]
        assert found == [line] * bool(line)

    def test_unknown_words_are_counted_and_not_shown(self):
        """Only known words are shown: nobody knows what else is in the column."""
        made = suggested(
            "plate;make;insured\n" + "".join(f"A{n};X;ja\n" for n in range(9)) + "A9;X;Schmidt\n"
        )
        assert (
            "[words.insured]              # 1 other word in 1 row: add lines here, "
            '"WORD" = true or false\n"ja" = true\n'
        ) in made.text
        assert "Schmidt" not in made.text
        words = ["versteuert", *["Schmidt"] * 8, "Meier"]
        rows = "".join(f"A{n};{word}\n" for n, word in enumerate(words))
        assert (
            '[words.taxStatus]            # 2 other words in 9 rows: add lines here, "WORD" = '
            '"taxed", "exempt", "sorn" or "untaxed"\n"versteuert" = "taxed"\n'
        ) in suggested(f"plate;Steuerstatus\n{rows}").text

    @pytest.mark.parametrize("time", ["2026-11-0{} 08:15:00", "0{}.11.2026 08:15"])
    def test_local_times_are_not_the_last_change(self, time):
        """A time without a zone cannot be read, so a comment says why it is not mapped."""
        rows = "".join(f"A{n};{time.format(n)}\n" for n in range(1, 10))
        text = suggested(f"Kennzeichen;Letzte Änderung\n{rows}").text
        assert "lastUpdated =" not in text
        assert (
            '#   "Letzte Änderung": named like lastUpdated, but most of its values are no times '
            "with a time zone\n"
        ) in text

    @pytest.mark.parametrize("time", ["2026-11-01T08:15:00Z", "2026-11-01", "01.11.2026"])
    def test_the_last_change_is_read_with_its_form(self, time, tmp_path):
        """Times with a zone and days of any form are read as the last change."""
        (vehicle,) = loaded(f"Kennzeichen;Stand\nA1;{time}\n", tmp_path).changes
        assert VehicleRow(*vehicle).updated == 1_793_491_200 + (29_700 if "T" in time else 0)

    def test_no_registration_is_shown(self):
        """A mapping holds names of columns and known words only."""
        rows = "".join(f"XY{n:02}ZZZ;FORD;ja;2026-01-{n + 1:02}\n" for n in range(28))
        assert "ZZZ" not in suggested(f"Kennzeichen;Marke;Versichert;HU\n{rows}").text


class TestKind:
    def test_the_kind_is_the_one_with_most_columns(self):
        """Names decide which kind the rows are; `--kind` overrides them."""
        text = "Plate,Make,Model,Policy number\nA1,X,Y,P-1\n"
        assert document(text)["kind"] == "vehicles"
        assert document(text, Kind.POLICIES)["columns"]["number"] == "Policy number"

    def test_a_kind_that_is_not_sure_is_marked(self):
        """Without a name that only one kind has, the line is marked."""
        assert 'kind = "vehicles"            # not sure' in suggested("plate,x\nA1,2\n").text


class TestIncomplete:
    def test_the_line_to_complete_is_named(self, tmp_path):
        """A key without a column has an empty line; the load says the same until it is filled."""
        made = suggested("Kennzeichen;Vertrag;Beginn\nA1;P;2026-01-01\n")
        (line,) = made.lines_to_complete.values()
        assert made.text.splitlines()[line - 1].startswith('validTo = ""  ')
        path = tmp_path / "map.toml"
        path.write_text(made.text)
        with pytest.raises(MappingFault, match="validTo: must be the name of a column"):
            read_mapping(path)
        path.write_text(made.text.replace('validTo = ""', 'validTo = "Beginn"'))
        assert read_mapping(path).columns["validTo"] == "Beginn"

    def test_a_fine_needs_an_amount_or_a_day(self):
        """Either is enough."""
        both = "PCN;Plate;{}\nR1;A1;2026-01-01\n"
        assert list(suggested(both.format("Issue date")).lines_to_complete) == ["amount"]
        assert suggested(both.format("Paid on")).lines_to_complete == {}


class TestHostile:
    @each_row(
        ("data", "told"),
        [
            (b"", "The file is empty."),
            (b" \n\n", "The file is empty."),
            (b"\xef\xbb\xbf", "The file is empty."),
            (b"\xff\xfeK\0;\0", "UTF-16; save it as UTF-8"),
            ("Kennzeichen;Marke\n".encode("utf-16-be"), "UTF-16; save it as UTF-8"),
            (b"\x7fELF\0\0", "no text: it has zero bytes"),
            (b'{"plate": "A1"}\n', "mapping files are for CSV only"),
            (b'[{"plate": "A1"}]', "mapping files are for CSV only"),
            (b"<html>", "mapping files are for CSV only"),
            (b'"plate\n', "The header is malformed CSV|never closed"),
        ],
    )
    def test_what_is_no_csv_is_refused(self, data, told):
        """The refusal says what the file is."""
        with pytest.raises(FileFault, match=told):
            suggested(data)

    @pytest.mark.parametrize("first", ["Fleet report;;", ";;Fleet"])
    def test_a_line_before_the_header_is_no_header(self, first):
        """A title names no columns."""
        assert not read_sample(f"{first}\nPlate;Make;Model\nA1;X;Y\n".encode()).has_header
        assert read_sample(b"Plate;Make;;\nA1;X;;\n").has_header

    def test_a_header_alone(self):
        """The mapping says that there are no rows."""
        assert "from its header: it has no rows. Check each" in suggested("Plate;Make\n").text

    def test_a_repeated_name_is_not_used(self):
        """A load refuses a column that is there twice; so it is not suggested."""
        made = suggested("Plate;Make;plate \nA1;X;A1\n")
        assert list(made.lines_to_complete) == ["registration"]
        assert '#   "Plate": its name is in the header more than once' in made.text

    @pytest.mark.system_long
    def test_five_thousand_columns(self, tmp_path):
        """A wide file is read; the list of other columns is cut."""
        header = ",".join(["Plate", "Make", *(f"column {n}" for n in range(5_000))])
        text = f"{header}\n" + ("A1,X" + ",1" * 5_000 + "\n") * 30
        assert len(loaded(text, tmp_path).changes) == 30
        assert "#   and 4,800 more" in suggested(text).text

    @pytest.mark.system_long
    def test_many_columns_of_dates(self):
        """The search for a period does not compare thousands of columns with each other."""
        names = ",".join(map("".join, itertools.islice(itertools.product("qxyz", repeat=6), 3_000)))
        header = f"Versicherer,Vertragsnummer,Kennzeichen,{names}\n"
        text = header + ("X,1,AB12CDE" + ",2027-01-01" * 3_000 + "\n") * 2
        begun = time.process_time()
        assert document(text)["kind"] == "policies"
        assert time.process_time() - begun < 5

    def test_a_name_that_reads_like_the_mark(self):
        """A name of a column does not mark a line as one to complete."""
        mark = "complete this line: every row needs it"
        assert suggested(f'Kennzeichen,Marke,"{mark}"\nAB12CDE,X,1\n').lines_to_complete == {}

    def test_quotes_separators_and_line_breaks_in_names(self, tmp_path):
        """Names are those of the header, whatever is in them."""
        text = '"Plate ""no"", new";"Make\nor brand";"\x1b[31m"\nA1;X;1\n'
        (row,) = loaded(text, tmp_path).changes
        assert row[:2] == ("A1", "X")
        assert suggested(text).text.isascii()
        assert "\x1b" not in suggested(text).text

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    def test_separators(self, separator, tmp_path):
        """The separator is found, also one that loads do not detect."""
        text = f"Plate{separator}Make\nA1{separator}X\n"
        assert loaded(text, tmp_path).changes[0][1] == "X"

    def test_a_sample_that_ends_within_a_record(self):
        """Only whole records of the first megabyte are looked at."""
        data = b"Plate;Make;Note\n" + b'A1;X;"a\nb"\n' * 100_000
        sample = read_sample(data[:SAMPLE_BYTES])
        assert len(sample.records) == 1_000

    @given(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=6),
        st.lists(st.lists(st.text(max_size=6), max_size=6), max_size=4),
    )
    def test_every_mapping_is_accepted_or_says_what_is_missing(self, header, rows):
        """Whatever the file, the text is TOML, and `--map` refuses only lines to complete."""
        stream = io.StringIO()
        csv.writer(stream).writerows([["plate", *header], *rows])
        try:
            made = suggested(stream.getvalue().encode(errors="replace"))
        except FileFault:
            return
        tomllib.loads(made.text)
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_text(made.text, encoding="utf-8")
            with pytest.raises(MappingFault) if made.lines_to_complete else nullcontext():
                read_mapping(Path(file.name))


@ON_SQLITE
class TestCommand:
    def test_the_mapping_loads_the_file(self, cli):
        """What is printed is a mapping file as it stands."""
        file = cli.file("Leases 2026-11.csv", "Kennzeichen;Marke", "A1;FORD", "A2;OPEL")
        made = cli.run("import", "--suggest-map", file)
        assert (made.status, made.stderr) == (0, "")
        mapping = cli.file("leases.toml", *made.stdout.splitlines())
        told = cli.json("import", file, "--map", mapping)
        assert (told["loaded"], told["register"], told["format"]) == (2, "leases", "mapped")

    def test_an_incomplete_mapping_is_a_failure(self, cli):
        """It is printed, and the reason names the line; the status is 1."""
        made = cli.run("import", "--suggest-map", cli.file("x.csv", "a;b", "1;2"))
        assert made.status == 1
        assert made.stdout.splitlines()[10].startswith('registration = ""')
        assert made.stderr == (
            "complete line 11 (registration) of the mapping: no column was found by its name or "
            "its values\n"
        )

    def test_the_line_that_tries_the_mapping_is_the_users(self, cli):
        """It names program, database, file and mapping, and changes nothing."""
        file = cli.file("my fleet.csv", "Kennzeichen;Marke", "A1;FORD")
        made = cli.run("import", "--suggest-map", file, "--register", "cars")
        mapping = cli.file("cars.toml", *made.stdout.splitlines())
        tried, loads = (line[4:] for line in made.stdout.splitlines() if line.startswith("#   "))
        assert tried == f"{loads} --dry-run"
        variable, program, *words = shlex.split(loads)
        assert variable == f"VERIFYD_DATABASE_URL=sqlite:///{cli.database}"
        assert Path(program).is_absolute()
        assert words == ["import", str(file), "--map", "cars.toml"]
        told = cli.json(*words[:-1], mapping, "--dry-run")
        assert (told["register"], told["loaded"], told["dry_run"]) == ("cars", 1, True)
        assert cli.json("imports", "list") == []

    def test_a_hostile_name_adds_no_line(self, cli):
        """A line break in the name of the file stays within its line."""
        file = cli.directory / "a\nregister = 1\n.csv"
        file.write_text("Plate;Make\nA1;X\n")
        made = cli.run("import", "--suggest-map", file).stdout
        assert "register = 1" not in made.replace("\\u000aregister = 1", "")
        assert "import FILE --map" in made

    def test_json(self, cli):
        """`--json` prints the mapping and the columns."""
        made = cli.json("import", "--suggest-map", cli.file("x.csv", "Plate;Make;z", "A1;X;1"))
        assert made["columns"] == {"registration": "Plate", "make": "Make"}
        assert (made["kind"], made["unused"], made["incomplete"]) == ("vehicles", ["z"], [])
        assert tomllib.loads(made["mapping"])["register"] == "x"

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("--map", "m.toml"), "argument --suggest-map: not allowed with map"),
            (("--mode", "replace"), "argument --suggest-map: not allowed with mode"),
            (("other.csv",), "argument --suggest-map: only allowed with one FILE"),
        ],
    )
    def test_options_of_loads_are_refused(self, cli, words, told):
        """Nothing is loaded, so they have no meaning."""
        assert told in cli.misuse("import", "--suggest-map", "x.csv", *words)

    def test_a_file_without_header_is_refused(self, cli):
        """Without names no mapping can be written, and no value is shown."""
        file = cli.file("x.csv", "AB12CDE;FORD;2012", "CD34EFG;OPEL;2013")
        told = cli.refusal("import", "--suggest-map", file)
        assert "does not look like names of columns" in told
        assert "AB12CDE" not in told

    @pytest.mark.parametrize(("name", "register"), [("rdw.csv", "own"), ("12.csv", "own")])
    def test_the_register_has_a_name_of_its_own(self, cli, name, register):
        """The registers of the formats are not suggested."""
        made = cli.json("import", "--suggest-map", cli.file(name, "Plate;Make", "A1;X"))
        assert tomllib.loads(made["mapping"])["register"] == register


def test_compressed_files_and_no_database(bare_cli):
    """Files are opened like those of loads; a database is not needed."""
    path = bare_cli.directory / "x.csv.gz"
    path.write_bytes(gzip.compress(b"Plate;Make\nA1;X\n"))
    assert 'registration = "Plate"' in bare_cli.run("import", "--suggest-map", path).stdout


def test_the_file_that_the_mapping_is_written_to_is_named(tmp_path):
    """With stdout redirected, stderr says where the mapping is and how to try it."""
    (tmp_path / "a b.csv").write_text("Plate;Make\nA1;X\n")
    url = f"sqlite:///{tmp_path}/x.db"
    with (tmp_path / "a b.toml").open("wb") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "app", "import", "--suggest-map", "a b.csv"],
            env=environment(database_url=url),
            cwd=tmp_path,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    told, tried = ended.stderr.splitlines()
    assert told == "mapping written to a b.toml; check its lines, then try it with:"
    assert tried.startswith(f"VERIFYD_DATABASE_URL={url} ")
    assert tried.endswith(" -m app import 'a b.csv' --map 'a b.toml' --dry-run")
    assert f"#   {tried}\n" in (tmp_path / "a b.toml").read_text()


@pytest.mark.system_long
def test_memory_does_not_depend_on_the_file(tmp_path):
    """Only the first megabyte is read of a file of 10 GB."""
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.write(b"Plate;Make\n" + b"A1;X\n" * 400_000)
        file.truncate(10 * 1024**3)
    limit = 400 * 1024**2
    ended = subprocess.run(
        [sys.executable, "-m", "app", "import", "--suggest-map", str(path)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert 'registration = "Plate"' in ended.stdout
