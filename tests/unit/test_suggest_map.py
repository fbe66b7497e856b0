"""`import --suggest-map` writes a first mapping for a CSV file (D99)."""

import csv
import gzip
import io
import json
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import nullcontext
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FileFault, recognise
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import MappingFault, questions_of, read_mapping
from app.registers.formats.suggesting.sample import SAMPLE_BYTES, Sample
from app.registers.formats.suggesting.suggestion import suggest
from app.registers.formats.suggesting.toml_text import mapping_text
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


def suggested(text: str | bytes, kind: Kind | None = None) -> str:
    """Return the mapping of a file."""
    data = text.encode() if isinstance(text, str) else text
    return mapping_text(suggest(Sample(data), kind), "file.csv", "own", "verifyd import")


def questions(made: str) -> list[str]:
    """Return what a mapping asks."""
    return questions_of(tomllib.loads(made))


def document(text: str | bytes, kind: Kind | None = None) -> dict[str, Any]:
    """Return the mapping of a file, as TOML is read."""
    return tomllib.loads(suggested(text, kind))


def answered(text: str | bytes, kind: Kind | None = None) -> str:
    """Return the mapping of a file after an operator took the first answer to each question."""
    data = text.encode() if isinstance(text, str) else text
    found = suggest(Sample(data), kind)
    made = mapping_text(found, "file.csv", "own", "verifyd import")
    lines = made.splitlines()
    for at, line in enumerate(lines):
        key, is_question, told = line.partition(' = "?"')
        if not is_question or line.startswith("#"):
            continue
        candidates, told = found.questions.get(key), told.partition("# ")[2]
        first = candidates[0].name if candidates and not told else told.split(" or ")[0]
        answer = {"kind": found.kind, "timezone": "Europe/Rome"}.get(key, first)
        lines[at] = f"{key} = {json.dumps(answer)}" if answer else ""
    return "\n".join(lines) + "\n"


def loaded(text: str | bytes, tmp_path: Path, kind: Kind | None = None) -> Any:
    """Return what the suggested mapping reads from the file, once its questions are answered."""
    path = tmp_path / "map.toml"
    path.write_text(answered(text, kind), encoding="utf-8")
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
        policy = tomllib.loads(answered(text.format("Tarif", "Vollkasko"), Kind.POLICIES))
        assert policy["columns"]["type"] == "Tarif"
        vehicle = tomllib.loads(answered("Plaque;Échéance CT\nA1;2026-01-01\n"))
        assert (vehicle["kind"], vehicle["columns"]["motExpiry"]) == ("vehicles", "Échéance CT")

    def test_windows_1252(self, tmp_path):
        """Names that are not UTF-8 are read as Windows-1252, by the load as well."""
        text = "Kennzeichen;Gültig ab;Gültig bis;Vertrag\nA1;2026-01-01;2026-12-31;P-1\n"
        (row,) = loaded(text.encode("cp1252"), tmp_path).changes
        assert (row.valid_from, row.valid_to) == ("2026-01-01", "2026-12-31")


class TestValues:
    def test_values_make_candidates_of_keys_and_settle_none(self):
        """Plates and days in columns without known names are candidates; a person tells which."""
        text = (
            "k1;k2;Policy number;k3\nAB12CDE;28.02.2027;P-1;01.03.2026\n"
            "B-XY 12;31.12.2027;P-2;01.01.2027\n"
        )
        found = suggest(Sample(text.encode()))
        settled = {member: column.name for member, column in found.settled.items()}
        asked = {each: [one.name for one in found.questions[each]] for each in found.questions}
        assert settled == {"number": "Policy number"}
        assert asked == {"registration": ["k1"], "validFrom": ["k2", "k3"], "validTo": ["k2", "k3"]}
        assert (
            "# validFrom? Every row needs it. It could be:\n"
            '#   "k2" (DD.MM.YYYY; 2 of 2 differ)\n'
            '#   "k3" (DD.MM.YYYY; 2 of 2 differ)\n'
            'validFrom = "?"\n'
        ) in suggested(text)

    def test_names_of_other_members_are_candidates_last(self):
        """Of dates with other names, the begin is the least likely end."""
        header = "VRM;Start date;Something;Renewal;Policy number\n"
        found = suggest(Sample(f"{header}A1;2026-01-01;2026-12-31;2027-01-01;P\n".encode()))
        asked = [column.name for column in found.questions["validTo"]]
        assert asked == ["Renewal", "Something", "Start date"]

    def test_an_empty_column_is_no_candidate_by_its_values(self):
        """Without a name or a value, nothing makes a column a candidate."""
        made = suggested("VRM;a;b\nA1;;\n", Kind.POLICIES)
        assert "# validFrom? Every row needs it. No column looks like it." in made
        assert "no values" not in made

    def test_most_registrations_differ(self):
        """A certain name asks if most of its values repeat, or if none is there."""
        rows = "".join(f"AB12CDE;N{number}\n" for number in range(60))
        asks = {"registration": "?"}
        same = "AB12CDE;a\nCD34EFG;b\n" + "NA;c\n" * 9
        assert document(f"Kenteken;Note\n{same}", Kind.VEHICLES)["columns"] == asks
        assert document(f"Kenteken;Note\n{rows}", Kind.VEHICLES)["columns"] == asks
        assert document("Kenteken;Note\n;a\n;b\n", Kind.VEHICLES)["columns"] == asks

    def test_a_second_column_of_plates_asks(self):
        """A council's own plates, with a name for registrations, make a certain name doubtful."""
        text = "Plate Number,Registration\n{},AB12CDE\n{},CD34EFG\n"
        asked = suggest(Sample(text.format("H101", "H102").encode())).questions
        assert [each.name for each in asked["registration"]] == ["Registration", "Plate Number"]
        told = document(text.format("x", "x"), Kind.VEHICLES)
        assert told["columns"] == {"registration": "Registration"}

    def test_the_form_of_a_value_is_shown(self):
        """A form has the kinds of characters of the most frequent values, and no more (D99)."""
        made = suggested("Fleet No;Reg Mark\n10;AB12CDE\n11;CD34EFG\n12;ef 5\n")
        assert '#   "Reg Mark" (AA99AAA; 3 of 3 differ)\n' in made
        assert "AB12CDE" not in made

    def test_a_certain_name_with_other_values_asks(self):
        """The column is not left out: its question says what is wrong with its values."""
        made = suggested("Kenteken;Make;Year\nAB12CDE;FORD;old\nCD34EFG;OPEL;new\n")
        assert (
            '#   "Year" (aaa; 2 of 2 differ): most of its values are no year\nyear = "?"\n'
        ) in made

    @each_row("member", ["cancelledOn", "cancelled_on"])
    def test_words_for_nothing_do_not_hide_a_column(self, member):
        """A day of cancellation that is mostly nothing stays, and the load reads it as missing."""
        nothing = ["NA", r"\N", "None", "-", "NaT", "<nil>", "(null)", "--"]
        header = f"VRM;Policy Number;validFrom;validTo;{member}\n"
        rows = "".join(
            f"AB{number}CDE;P-{number};2026-03-01;2027-02-28;{word}\n"
            for number, word in enumerate([*nothing, "2026-05-13"])
        )
        made = suggested(header + rows)
        assert questions(made) == []
        assert "words" not in tomllib.loads(made)
        with tempfile.TemporaryDirectory() as directory:
            changes = loaded(header + rows, Path(directory)).changes
        days = [PolicyRow._make(each).cancelled_on for each in changes]
        assert days == [None] * len(nothing) + ["2026-05-13"]

    def test_words_for_nothing_in_flags_are_left_to_the_operator(self):
        """`-` can be no, and `N/A` exempt; what databases write for NULL cannot."""
        made = suggested("VRM;insured\n" + "A1;yes\n" * 9 + "A2;-\nA3;\\N\n", Kind.VEHICLES)
        assert '[words.insured]\n# Add lines "WORD" = VALUE for 1 other word in 1 row.' in made
        assert tomllib.loads(made)["words"]["insured"] == {}

    def test_words_for_nothing_in_amounts_are_left_to_the_operator(self):
        """`-` can be zero, so the load refuses it until a line says what it means."""
        made = suggested("PCN;VRM;amount\n" + "R-1;A1;1.00\n" * 9 + "R-2;A2;-\nR-3;A3;\\N\n")
        assert '[words.amount]\n# Add lines "WORD" = VALUE for 1 other word in 1 row.' in made

    @each_row("end", ["", "null", "Infinity", "NaT"])
    def test_open_ends_are_offered(self, end):
        """A line that only needs its `#` removed says that such policies have no end."""
        text = f"VRM;Policy Number;validFrom;validTo\nA1;P-1;2026-03-01;{end}\n"
        made = answered(text + "A2;P-2;2026-03-01;2027-02-28\n")
        assert "[words.validTo]\n# If these policies have no end, remove the #:\n# " in made
        line = f'"{end.lower()}" = "9999-12-31"\n'
        with tempfile.TemporaryDirectory() as directory:
            mapping = Path(directory) / "map.toml"
            mapping.write_text(made.replace(f"# {line}", line))
            changes = read(text, MappedCsv(read_mapping(mapping))).changes
        assert [PolicyRow._make(each).valid_to for each in changes] == ["9999-12-31"]

    def test_the_first_day_without_is_offered(self, tmp_path):
        """Where a name says so, a remark names the line that makes it the day before."""
        text = "VRM;Policy Number;validFrom;Renewal Date\nA1;P-1;2026-03-02;2027-03-01\n"
        made = answered(text)
        line = 'first_day_without = ["validTo"]'
        assert f"if it is the first day without, add {line} above [columns]" in made
        mapping = tmp_path / "map.toml"
        mapping.write_text(f"{line}\n{made}")
        (row,) = read(text, MappedCsv(read_mapping(mapping))).changes
        assert PolicyRow._make(row).valid_to == "2027-02-28"
        assert "first_day_without" not in answered(text.replace("Renewal", "Expiry"))

    @each_row(
        ("begins", "ends", "is_asked"),
        [
            ("15.03.2026|28.02.2026", "15.03.2027|28.02.2027", True),
            ("15.03.2026", "15.09.2026 00:01", True),
            ("15.03.2026|01.04.2026", "14.03.2027|31.03.2027", False),
            ("15.03.2026", "15.03.2026", False),
            ("15.03.2026|16.03.2026", "15.03.2027|15.03.2027", False),
            ("15.03.2026", "offen", False),
        ],
    )
    def test_ends_on_the_day_of_the_month_of_beginnings(self, begins, ends, is_asked):
        """Most policies end a day before it, so even a certain name is asked for."""
        dates = zip(begins.split("|"), ends.split("|"), strict=True)
        rows = "".join(f"A{at};P-{at};{';'.join(each)}\n" for at, each in enumerate(dates))
        made = suggested(f"VRM;Policy Number;validFrom;validTo\n{rows}")
        assert ('first_day_without = ["validTo"]' in made) == is_asked
        assert ("columns.validTo" in questions(made)) == (is_asked or ends == "offen")

    def test_times_of_day_in_days_are_asked_for(self, tmp_path):
        """What a time means at the end is a question; at a beginning it can only be left out."""
        header = "VRM;Policy Number;validFrom;validTo\n"
        text = f"{header}A1;P-1;13/03/2026 09:00;28/02/2027 23:59\n"
        made = suggested(text)
        assert 'validFrom = "cut"\nvalidTo = "?"                # cut or end?\n' in made
        assert questions(made) == ["times.validTo"]
        (row,) = loaded(text, tmp_path).changes
        assert PolicyRow._make(row)[3:5] == ("2026-03-13", "2027-02-28")
        assert "times" not in document(text.replace("09:00", "00:00").replace("23:59", "00:00"))
        other = "VRM;Policy Number;From;To;updated\nA1;P;2026-03-13;2027-02-28;2026-11-01 06:00\n"
        assert "times" not in document(other, Kind.POLICIES)
        mapping = tmp_path / "times.toml"
        mapping.write_text(
            'kind = "policies"\n[columns]\nregistration = "a"\nnumber = "b"\nvalidFrom = "c"\n'
            'validTo = "d"\n[times]\nvalidTo = "?"\n'
        )
        with pytest.raises(MappingFault, match=re.escape('times.validTo: answer the "?"')):
            read_mapping(mapping)

    def test_a_form_of_dates_that_is_not_sure_is_asked_for(self):
        """Days up to 12 do not show which number is the month."""
        header = "VRM;policy number;validFrom;validTo;cancelledOn\n"
        made = suggested(f"{header}A1;P;01/02/2026;12/03/2026;\n")
        assert 'date_format = "?"            # DD/MM/YYYY or MM/DD/YYYY?\n' in made
        assert questions(made) == ["date_format"]
        told = document(f"{header}A1;P;01/02/2026;01/31/2027;\n")
        assert told["date_format"] == "MM/DD/YYYY"
        told = document(f"{header}A1;P;2026-02-01;2027-01-31;01/02/2026\n")
        assert told["date_formats"] == {"cancelledOn": "?"}

    @pytest.mark.parametrize("amount", ["1.200", "1200"])
    def test_a_decimal_separator_that_is_not_sure_is_asked_for(self, amount):
        """A point before three digits separates thousands, or was meant as a decimal point."""
        made = suggested(f"PCN;VRM;amount due\nR-1;A1;{amount}\n", Kind.FINES)
        assert ('decimal = "?"                # , or .?\n' in made) == ("." in amount)
        assert ("decimal" in questions(made)) == ("." in amount)

    def test_what_spreadsheets_add_is_seen_through(self):
        """Years and flags with decimals, and days with midnight, are what they look like."""
        told = tomllib.loads(
            answered(
                "Kennzeichen;Baujahr;Versichert;HU;EZ\n"
                "A1;2012.0;1.0;31.05.2027 00:00:00;20120301.0\n"
                "A2;2015.0;0.0;30.06.2027 00:00:00;20150301.0\n"
            )
        )
        assert (told["date_format"], told["columns"]) == (
            "DD.MM.YYYY",
            {
                "registration": "Kennzeichen",
                "year": "Baujahr",
                "insured": "Versichert",
                "motExpiry": "HU",
                "firstRegistered": "EZ",
            },
        )

    def test_dates_that_no_mapping_can_read_are_marked(self):
        """A mapping knows no years of two digits."""
        made = suggested("plate;policy;validFrom;end\nA1;P;1.2.26;3.4.27\n", Kind.POLICIES)
        told = ": most of its values are no validFrom\n"
        assert f'#   "validFrom" (9.9.99; 1 of 1 differ){told}' in made

    def test_days_and_months_of_one_digit_are_read(self, tmp_path):
        """Spreadsheets write the first of March as 1.3.2026."""
        text = "VRM;Policy Number;validFrom;validTo\nA1;P;1.3.2026;28.2.2027\n"
        made = loaded(text, tmp_path)
        assert PolicyRow._make(made.changes[0]).valid_to == "2027-02-28"

    @each_row(
        ("text", "form"),
        [
            ("28. 2. 2027", "D. M. YYYY"),
            ("28. 02. 2027", "DD. MM. YYYY"),
            ("28.02.2027.", "DD.MM.YYYY."),
            ("28.2.2027.", "D.M.YYYY."),
            ("28. 2. 2027.", "D. M. YYYY."),
            ("2027.02.28.", "YYYY.MM.DD."),
            ("2027. 02. 28.", "YYYY. MM. DD."),
            ("2027. 2. 28.", "YYYY. M. D."),
            ("2027/2/28", "YYYY/M/D"),
            ("28.2.2027 \u0433.", "D.M.YYYY \u0433."),
            ("28.02.2027 \u0433.", "DD.MM.YYYY \u0433."),
        ],
    )
    def test_days_of_central_europe_and_east_asia(self, text, form, tmp_path):
        """Points after each number, with blanks, are a form of dates; so is one with times."""
        file = f"VRM;Policy Number;validFrom;validTo\nA1;P;2026-03-01;{text}\n"
        assert PolicyRow._make(loaded(file, tmp_path).changes[0]).valid_to == "2027-02-28"
        assert document(file.replace("2026-03-01", text))["date_format"] == form
        if "\u0433" not in form:
            timed = document(file.replace(text, f"{text} 23:59"))
            assert timed["times"] == {"validTo": "?"}

    def test_a_second_form_of_dates_gets_a_line_of_its_own(self, tmp_path):
        """Members with another form of dates are in `date_formats`."""
        text = (
            "VRM;Policy Number;validFrom;validTo;cancelledOn\n"
            "A1;P;2026-01-13;2026-12-31;13.01.2026\nA2;Q;2026-01-14;2026-12-31;14.01.2026\n"
        )
        assert document(text)["date_formats"] == {"cancelledOn": "DD.MM.YYYY"}
        asked = "VRM;Policy number;validFrom;Renewal\nA1;P;2026-01-13;13.01.2027\n"
        assert document(asked)["date_formats"] == {"validTo": "DD.MM.YYYY"}
        assert PolicyRow._make(loaded(text, tmp_path).changes[1]).cancelled_on == "2026-01-14"

    def test_months_without_days(self, tmp_path):
        """The German inspection is due in a month; other dates of the file keep their form."""
        text = "Kennzeichen;Erstzulassung;motExpiry\nB-A 1;13.05.2015;05/2027\n"
        text += "B-A 2;01.06.2016;02/2028\n"
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
        assert 'decimal = ","\n' in suggested(text, Kind.FINES)
        found = loaded(text, tmp_path, Kind.FINES).changes
        assert [fine.amount_cents for fine in found] == [3_550, 120_000, 2_000]

    def test_unknown_words_are_counted_and_not_shown(self):
        """Only known words are shown: nobody knows what else is in the column."""
        made = suggested(
            "VRM;make;insured\n" + "".join(f"A{n};X;ja\n" for n in range(9)) + "A9;X;Schmidt\n"
        )
        told = (
            '[words.insured]\n"ja" = true\n# Add lines "WORD" = VALUE for 1 other word in 1 row.\n'
        )
        assert told in made
        assert "Schmidt" not in made
        words = ["versteuert", *["Schmidt"] * 8, "Meier"]
        rows = "".join(f"A{n};{word}\n" for n, word in enumerate(words))
        assert (
            '[words.taxStatus]\n"versteuert" = "taxed"\n'
            '# Add lines "WORD" = VALUE for 2 other words in 9 rows.\n'
        ) in suggested(f"VRM;taxStatus\n{rows}")

    @pytest.mark.parametrize("time", ["2026-11-0{} 08:15:00", "0{}.11.2026 08:15"])
    def test_the_zone_of_local_times_is_asked_for(self, time, tmp_path):
        """A time without a zone cannot be read, so the mapping asks for its zone."""
        rows = "".join(f"A{n};{time.format(n)}\n" for n in range(1, 10)) + "A0;13.11.2026 08:15\n"
        text = f"Kennzeichen;lastUpdated\n{rows}"
        made = suggested(text, Kind.VEHICLES)
        told = 'timezone = "?"               # zone of lastUpdated, such as'
        assert told in made
        assert questions(made) == ["timezone"]
        vehicle = VehicleRow._make(loaded(text, tmp_path, Kind.VEHICLES).changes[0])
        assert vehicle.updated == 1_793_491_200 + 26_100
        (tmp_path / "map.toml").write_text(made)
        with pytest.raises(MappingFault, match=re.escape('timezone: answer the "?"')):
            read_mapping(tmp_path / "map.toml")

    @pytest.mark.parametrize("time", ["2026-11-01T08:15:00Z", "2026-11-01", "01.11.2026"])
    def test_the_last_change_is_read_with_its_form(self, time, tmp_path):
        """Times with a zone and days of any form are read as the last change."""
        text = f"Kennzeichen;Marke;lastUpdated\nA1;VW;{time}\n"
        (vehicle,) = loaded(text, tmp_path).changes
        assert VehicleRow(*vehicle).updated == 1_793_491_200 + (29_700 if "T" in time else 0)

    def test_no_registration_is_shown(self):
        """A mapping holds names of columns and known words only."""
        rows = "".join(f"XY{n:02}ZZZ;FORD;ja;2026-01-{n + 1:02}\n" for n in range(28))
        assert "ZZZ" not in suggested(f"Kennzeichen;Marke;Versichert;HU\n{rows}")


class TestKind:
    def test_the_kind_is_the_one_with_most_names(self):
        """Names decide which kind the rows are; `--kind` overrides them."""
        text = "Plate,Make,Model,Colour,Policy number\nA1,X,Y,Z,P-1\n"
        assert document(text)["kind"] == "vehicles"
        assert document(text, Kind.POLICIES)["columns"]["number"] == "Policy number"

    @each_row("header", ["VRM,x", "VRM,Make,Insurer", "Plate,Ticket number,Color"])
    def test_a_kind_that_is_not_sure_is_asked_for(self, header):
        """Without a certain name that only the best kind has, a person tells what the rows are."""
        made = suggested(f"{header}\n{'1,' * header.count(',')}1\n")
        assert 'kind = "?"                   # ' in made
        assert "make the mapping again with --kind\n" in made
        assert "kind" in questions(made)


class TestQuestions:
    def test_a_mapping_with_questions_is_refused(self, tmp_path):
        """The load names each member that is asked for, until it is answered."""
        made = suggested("Kennzeichen;Vertrag;Beginn\nA1;P;01/02/2026\n", Kind.POLICIES)
        path = tmp_path / "map.toml"
        path.write_text(made)
        told = (
            'date_format, columns.number, columns.validFrom, columns.validTo: answer the "?", or '
            "remove a line that the file has nothing for."
        )
        with pytest.raises(MappingFault, match=re.escape(told)):
            read_mapping(path)

    @each_row(
        ("line", "told"),
        [
            ('kind = "?"', "kind: answer"),
            ('decimal = "?"', "decimal: answer"),
            ('[columns]\nmake = "?"\nmodel = "?"', "columns.make, columns.model: answer"),
            ('[date_formats]\nmotExpiry = "?"', "date_formats.motExpiry: answer"),
            ('[constants]\nmake = "?"', "constants.make: answer"),
            ('[columns]\nmake = ""', "columns.make: must be the name of a column"),
            ('delimiter = "?"', "columns.registration: missing; every row needs it"),
        ],
    )
    def test_questions_in_any_place_are_refused(self, line, told):
        """No question is taken for a name; an empty name and another `?` mean what they did."""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("" if line.startswith("kind") else 'kind = "vehicles"\n')
            file.write(line)
            file.flush()
            with pytest.raises(MappingFault, match=re.escape(told)):
                read_mapping(Path(file.name))

    def test_a_fine_needs_an_amount_or_a_day(self):
        """Either is enough."""
        both = "Reference;VRM;{}\nR1;A1;2026-01-01\n"
        assert 'amount = "?"' in suggested(both.format("issuedOn"), Kind.FINES)
        assert 'amount = "?"' not in suggested(both.format("settledOn"), Kind.FINES)


class TestHostile:
    @each_row(
        ("data", "told"),
        [
            (b"", "The file has no header."),
            (b" \n\n", "The file has no header."),
            (b"\xef\xbb\xbf", "The file has no header."),
            (b"\xff\xfeK\0;\0", "UTF-16; save it as UTF-8"),
            ("Kennzeichen;Marke\n".encode("utf-16-be"), "UTF-16; save it as UTF-8"),
            (b"\x7fELF\0\0", "The file is binary"),
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
        assert Sample(f"{first}\nPlate;Make;Model\nA1;X;Y\n".encode()).header_fault
        assert not Sample(b"Plate;Make;;\nA1;X;;\n").header_fault

    @each_row(
        ("text", "line"),
        [
            ("Fleet report 2026\n\nPlate;Make;Model\nA1;X;Y\n", 3),
            ("Fleet;of;Acme\nPlate;Make;Model\nA1;X;Y\n", 2),
            ("Vehicle,,Policy,\nPlate,Make,Number,Start\nA1,X,P-1,2026-01-01\n", 2),
        ],
    )
    def test_the_line_of_the_header_below_a_title_is_named(self, text, line):
        """The refusals of suggestions and of loads say which lines to remove."""
        told = f"Line {line} does: remove the lines above it."
        assert told in Sample(text.encode()).header_fault
        with pytest.raises(FileFault, match=re.escape(told)):
            recognise(text.encode())

    @each_row(
        "text",
        [
            "xx;yy\nA1;Make\nA2;Model\n",
            "Plate;zz\nMake;Model\n",
            "plate\n" * 3,
        ],
    )
    def test_a_record_with_words_is_no_header_below_a_title(self, text):
        """Below one of our words, or with one word, a line is a record."""
        assert not Sample(text.encode()).header_line

    @each_row(
        "text",
        [
            "Vehicle,,Policy,\nPlate,Make,Number,Start\nA1,X,P-1,2026-01-01\n",
            "a,b\nABCD123456,ABCD123457\nABCD123458,ABCD123459\n",
            "Kenteken,Kenteken\nAB12CDE,CD34EFG\n",
            "Kenteken,Merk\n,\n,\n",
        ],
    )
    def test_what_a_person_must_see_is_asked_for(self, text):
        """A header in two lines, values like plates, a name twice, empty columns settle no key."""
        for kind in (None, *Kind):
            assert 'registration = "?"' in suggested(text, kind)

    def test_a_header_alone(self):
        """The mapping says so, and asks which column has the registrations."""
        made = suggested("Kenteken;Make\n")
        assert "from its header and 0 rows. Check each" in made
        assert '#   "Kenteken" (no values)\nregistration = "?"\n' in made

    def test_a_repeated_name_is_not_used(self):
        """A load refuses a column that is there twice; so it is not suggested."""
        made = suggested("VRM;Make;vrm \nA1;X;A1\n")
        assert questions(made) == ["columns.registration"]
        assert '#   "VRM": it has no name, or one that is there more than once' in made

    @pytest.mark.system_long
    def test_five_thousand_columns(self, tmp_path):
        """A wide file is read; the list of other columns is cut."""
        header = ",".join(["VRM", "Make", *(f"column {n}" for n in range(5_000))])
        text = f"{header}\n" + "".join(f"A{n},X{',1' * 5_000}\n" for n in range(30))
        assert len(loaded(text, tmp_path).changes) == 30
        assert "#   and 4,800 more" in suggested(text)

    @pytest.mark.system_long
    def test_many_columns_of_dates(self):
        """The search for a period does not compare thousands of columns with each other."""

        def seconds(columns: int) -> float:
            names = ",".join(map("".join, islice(product("qxyz", repeat=6), columns)))
            header = f"Versicherer,Policy number,Kennzeichen,{names}\n"
            text = header + ("X,1,AB12CDE" + ",2027-01-01" * columns + "\n") * 2
            begun = time.process_time()
            assert document(text)["kind"] == "policies"
            return time.process_time() - begun

        assert seconds(3_000) < 100 * min(seconds(150) for _ in range(3))

    def test_a_name_that_reads_like_a_question(self):
        """The name of a column does not make its line a question."""
        header = 'VRM,make,"a = ""?""","# b"'
        assert questions(suggested(f"{header}\nAB12CDE,X,1,2\n")) == []

    def test_a_time_with_control_characters(self):
        """A value that no load stores is no time."""
        made = suggested("VRM;lastUpdated\nA1;\x01\n", Kind.VEHICLES)
        assert questions(made) == ["columns.lastUpdated"]

    @each_row("name", ["Kenteken" * 1_250, "x" * 10_000, "מספר רכב", "\u202eKenteken", "Ⅷ", "ß"])
    def test_odd_names(self, name):
        """Long and right-to-left names are read; what would not show is escaped."""
        made = suggested(f"VRM,Make,{name}\nAB12CDE,X,1\n")
        assert len(tomllib.loads(made)["columns"]) >= 1
        assert "\u202e" not in made

    def test_four_hundred_columns(self):
        """Of many candidates the best are shown."""
        header = ",".join(f"k{number}" for number in range(400))
        rows = "".join(",".join(f"AB{row}C{at}" for at in range(400)) + "\n" for row in range(9))
        made = suggested(f"make,{header}\n" + "".join(f"X,{row}\n" for row in rows.split()))
        assert made.count("(AA9A9; 9 of 9 differ)") == 8
        assert "#   and 392 more\n" in made

    def test_quotes_separators_and_line_breaks_in_names(self, tmp_path):
        """Names are those of the header, whatever is in them."""
        text = '"Plate ""no"", new";"Make\nor brand";"\x1b[31m"\nA1;X;1\n'
        (row,) = loaded(text, tmp_path, Kind.VEHICLES).changes
        assert row[:2] == ("A1", "X")
        assert suggested(text).isascii()
        assert "\x1b" not in suggested(text)

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    def test_separators(self, separator, tmp_path):
        """The separator is found, also one that loads do not detect."""
        text = f"VRM{separator}Make\nA1{separator}X\n"
        assert loaded(text, tmp_path).changes[0][1] == "X"

    def test_a_sample_that_ends_within_a_record(self):
        """Only whole records of the first megabyte are looked at."""
        data = b"Plate;Make;Note\n" + b'A1;X;"a\nb"\n' * 100_000
        sample = Sample(data[:SAMPLE_BYTES])
        assert sample.rows == 1_000

    def test_a_sample_that_ends_within_a_letter(self):
        """The half of a letter is no sign of another encoding."""
        row = "A1;X;" + "é" * 2_000 + "\n"
        for header in ("Plate;Make;Note\n", "Plate;Make;Notes\n"):
            data = (header + row * 300).encode()[:SAMPLE_BYTES]
            assert Sample(data).is_utf8

    @given(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=6),
        st.lists(st.lists(st.text(max_size=6), max_size=6), max_size=4),
    )
    def test_every_mapping_is_accepted_or_asks(self, header, rows):
        """Whatever the file, the text is TOML, and `--map` refuses questions only."""
        stream = io.StringIO()
        csv.writer(stream).writerows([["plate", *header], *rows])
        try:
            made = suggested(stream.getvalue().encode(errors="replace"))
        except FileFault:
            return
        tomllib.loads(made)
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_text(made, encoding="utf-8")
            with pytest.raises(MappingFault) if questions(made) else nullcontext():
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
        assert (told["loaded"], told["register"], told["format"]) == (2, "leases_2026_11", "mapped")

    def test_a_mapping_with_questions_is_a_failure(self, cli):
        """It is printed, and the reason names them; the status is 1. The load refuses it."""
        file = cli.file("x.csv", "a;b", "1;2")
        made = cli.run("import", "--suggest-map", file)
        assert made.status == 1
        lines = made.stdout.splitlines()
        assert (lines[6][:10], lines[12]) == ('kind = "?"', 'registration = "?"')
        assert made.stderr == 'answer each "?" of the mapping: kind, columns.registration\n'
        told = cli.refusal("import", file, "--map", cli.file("x.toml", *lines))
        assert "kind, columns.registration: answer" in told

    @pytest.mark.parametrize(
        ("started", "program"),
        [
            ("/opt/tools/verifyd", ["/opt/tools/verifyd"]),
            ("/opt/source/app/__main__.py", [sys.executable, "-m", "app"]),
        ],
    )
    def test_the_line_that_tries_the_mapping_is_the_users(self, cli, monkeypatch, started, program):
        """It names program, database, file and mapping, and changes nothing."""
        monkeypatch.setattr(sys, "argv", [started])
        file = cli.file("my fleet.csv", "Kennzeichen;Marke", "A1;FORD")
        made = cli.run("import", "--suggest-map", file, "--register", "cars")
        mapping = cli.file("cars.toml", *made.stdout.splitlines())
        tried, loads = (line[4:] for line in made.stdout.splitlines() if line.startswith("#   "))
        assert tried == f"{loads} --dry-run"
        variable, *words = shlex.split(loads)
        assert variable == f"VERIFYD_DATABASE_URL=sqlite:///{cli.database}"
        assert words == [*program, "import", str(file), "--map", "cars.toml"]
        told = cli.json("import", file, "--map", mapping, "--dry-run")
        assert (told["register"], told["loaded"], told["dry_run"]) == ("cars", 1, True)
        assert cli.json("imports", "list") == []

    def test_a_hostile_name_adds_no_line(self, cli):
        """A line break in the name of the file stays within its line."""
        file = cli.directory / "a\nregister = 1\n.csv"
        file.write_text("Plate;Make\nA1;X\n")
        made = cli.run("import", "--suggest-map", file).stdout
        assert "register = 1" not in made.replace("\\nregister = 1", "")
        assert "import FILE --map" in made

    def test_json(self, cli):
        """`--json` prints the mapping and the columns."""
        file = cli.file("x.csv", "VRM;Make;z;Typ", "A1;X;1;Y")
        ended = cli.run("import", "--suggest-map", file, "--json")
        made = json.loads(ended.stdout)
        assert ended.status == 1
        assert made["columns"] == {"registration": "VRM", "make": "Make"}
        assert made["questions"] == {"model": ["Typ"]}
        assert (made["kind"], made["unused"], made["incomplete"]) == ("vehicles", ["z"], ["model"])
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

    @pytest.mark.parametrize(
        ("name", "register"),
        [("rdw.csv", "own"), ("12.csv", "own"), ("p1.csv", "p1"), ("2026 Fleet-5.csv", "fleet_5")],
    )
    def test_the_register_has_a_name_of_its_own(self, cli, name, register):
        """The registers of the formats are not suggested; `p1.csv` and `p5.csv` are two."""
        made = cli.json("import", "--suggest-map", cli.file(name, "VRM;Make", "A1;X"))
        assert tomllib.loads(made["mapping"])["register"] == register


def test_compressed_files_and_no_database(bare_cli):
    """Files are opened like those of loads; a database is not needed."""
    path = bare_cli.directory / "x.csv.gz"
    path.write_bytes(gzip.compress(b"VRM;Make\nA1;X\n"))
    assert 'registration = "VRM"' in bare_cli.run("import", "--suggest-map", path).stdout


def test_the_file_that_the_mapping_is_written_to_is_named(tmp_path):
    """With stdout redirected, stderr says where the mapping is and how to try it."""
    (tmp_path / "a b.csv").write_text("VRM;Make\nA1;X\n")
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
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert 'make = "Make"' in ended.stdout
    assert ended.stderr.startswith('answer each "?" of the mapping: ')
