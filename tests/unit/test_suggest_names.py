"""`--suggest-map` knows the names of columns that sources really use (D99)."""

import csv
import tomllib
from pathlib import Path
from typing import Any

from app.registers.formats.native import LAYOUTS
from app.registers.formats.suggesting import names
from app.registers.formats.suggesting.names import CERTAIN, LIKELY, PART, meanings, plate_columns
from app.registers.formats.suggesting.sample import Sample
from app.registers.formats.suggesting.suggestion import Suggestion, suggest
from app.registers.formats.suggesting.toml_text import mapping_text
from app.storage.tables import Kind
from tests.rows import each_row

VALUES = {
    "registration": "AB12CDE",
    "make": "Škoda",
    "model": "Fabia",
    "year": "2012",
    "color": "blue",
    "insured": "1",
    "motExempt": "0",
    "taxStatus": "taxed",
    "number": "P-1",
    "insurer": "Acme",
    "type": "OC",
    "reference": "R-1",
    "amount": "35.00",
    "currency": "EUR",
}
DAYS = {"validTo": "2027-02-28"}
OTHER_DAY = "2026-03-01"

# Each line is an export: its kind, then the names of its columns with our members.
EXPORTS = {
    "de insurer": "policies: VU=insurer | Vers.-Schein-Nr=- | VSNR=number | Amtl. Kennzeichen="
    "registration | Versicherungsbeginn=validFrom | Ablauf=validTo | Tarifart=type | "
    "Storno am=- | Kündigungsdatum=cancelledOn | VN Name=- | Stand=lastUpdated",
    "de fleet": "vehicles: KFZ-Kennzeichen=registration | Hersteller=make | Herstellerschlüssel=- |"
    " Fahrzeugart=- | Typ=- | Modell=model | Farbe=color | Baujahr=year | Erstzulassung="
    "firstRegistered | Letzte HU=- | Nächste HU=motExpiry | Kilometerstand=- | "
    "Letzte Änderung=lastUpdated | Fahrgestellnummer=- | Kostenstelle=-",
    "de broker": "policies: Police-Nr.=number | Kfz-Kennz.=registration | Versicherer-Nr.=- | "
    "Beginn=validFrom | Ende=validTo",
    "de towing": "fines: AZ=reference | Kennz.=registration | Datum=issuedOn | Betrag in EUR="
    "amount | Bezahlt=settledOn",
    "de list": "vehicles: Kennzeichen=registration | Marke/Modell=model | TÜV=motExpiry",
    "de garage": "vehicles: kennz=registration | EZ=firstRegistered | HU=motExpiry | Bj=year | "
    "MARKE=make",
    "de debts": "fines: Aktenzeichen=reference | Kennzeichen=registration | Tattag=issuedOn | "
    "Bußgeld=- | Gesamtbetrag=- | offen=amount | bezahlt am=settledOn",
    "fr debts": "fines: N° avis=reference | Immatriculation=registration | Date infraction="
    "issuedOn | Montant=- | Solde=amount",
    "pl debts": "fines: Nr mandatu=reference | Nr rej.=registration | Kwota mandatu=- | "
    "Do zapłaty=amount",
    "it debts": "fines: N° verbale=reference | Targa=registration | Importo=- | "
    "Totale da pagare=amount",
    "fr rental": "vehicles: Immatriculation=registration | Marque=make | Marque pneus=- | "
    "Couleur intérieure=- | Date début location=- | Date fin location=-",
    "nl rental": "vehicles: Kenteken=registration | Merk=make | Model=model | Bouwjaar=year | "
    "Contractnummer=- | Startdatum lease=- | Einddatum lease=-",
    "de tyres": "vehicles: Kennzeichen=registration | Reifenmarke=- | Innenfarbe=- | "
    "Altes Kennzeichen=-",
    "de earlier insurer": "policies: Kennzeichen=registration | Vorversicherer=- | "
    "Versicherungsschein=number | Beginn=validFrom | Ablauf=validTo",
    "de authority": "fines: Kassenzeichen=reference | Kennzeichen=registration | Tattag=issuedOn | "
    "Offener Betrag=amount | Währung=currency | Beglichen am=settledOn | Zahlungsfrist=-",
    "fr insurer": "policies: N° de police=number | Immatriculation=registration | Compagnie="
    "insurer | Date d'effet=validFrom | Échéance=validTo | Formule=type | Résilié le=cancelledOn | "
    "Souscripteur=- | Type de véhicule=-",
    "fr fleet": "vehicles: Plaque_d_immatriculation=registration | Marque=make | Modèle=model | "
    "Couleur=color | Année=year | Date de 1ère mise en circulation=firstRegistered | "
    "Dernier contrôle technique=- | Échéance CT=motExpiry | Remarques=- | Mise à jour=lastUpdated",
    "fr authority": "fines: N° d'avis=reference | Plaque=registration | Date de l'infraction="
    "issuedOn | Montant dû=amount | Devise=currency | Payée le=settledOn",
    "nl insurer": "policies: Polisnr.=number | Kenteken=registration | Maatschappij=insurer | "
    "Ingangsdatum=validFrom | Afloopdatum=validTo | Soort dekking=type | Opgezegd per=- | "
    "Opzegdatum=cancelledOn | Kenmerk=-",
    "nl fleet": "vehicles: Kenteken=registration | Merk=make | Handelsbenaming=model | "
    "Kleur=color | Tweede kleur=- | Brandstof=- | Bouwjaar=year | Eerste toelating=firstRegistered "
    "| APK tot=motExpiry | Belastingstatus=taxStatus | Laatst gewijzigd=lastUpdated | Soort=-",
    "nl authority": "fines: CJIB-nummer=reference | Kenteken=registration | "
    "Pleegdatum=issuedOn | Te betalen=amount | Betaald op=settledOn | Opmerkingen=-",
    "pl insurer": "policies: Ubezpieczyciel=insurer | Nr polisy=number | Nr rejestracyjny="
    "registration | Rodzaj=type | Data od=validFrom | Data do=validTo | Data wypowiedzenia="
    "cancelledOn | Rodzaj pojazdu=- | Właściciel=- | Składka=-",
    "pl fleet": "vehicles: Numer rejestracyjny=registration | Marka=make | Typ=- | Model=model | "
    "Kolor=color | Rok produkcji=year | Data pierwszej rejestracji=firstRegistered | "
    "Ostatni przegląd=- | Ważność badania technicznego=motExpiry | Rodzaj=- | "
    "Ostatnia aktualizacja=lastUpdated",
    "pl authority": "fines: Numer mandatu=reference | NR_REJ=registration | Data wystawienia="
    "issuedOn | Kwota do zapłaty=amount | Waluta=currency | Data zapłaty=settledOn",
    "es insurer": "policies: Nº de póliza=number | Matrícula=registration | Aseguradora=insurer | "
    "Fecha de efecto=validFrom | Fecha de vencimiento=validTo | Tipo=type | Baja=cancelledOn | "
    "Fecha de matriculación=- | Tipo de vehículo=- | Tomador=-",
    "es fleet": "vehicles: Núm. matrícula=registration | Marca=make | Modelo=model | Color=color | "
    "Año=year | Fecha de matriculación=firstRegistered | Última ITV=- | Próxima ITV=motExpiry | "
    "Bastidor=- | Última actualización=lastUpdated",
    "es authority": "fines: Número de expediente=reference | Matrícula=registration | "
    "Fecha de la infracción=issuedOn | Importe pendiente=amount | Fecha de pago=settledOn",
    "it insurer": "policies: Compagnia=insurer | Numero di polizza=number | Targa=registration | "
    "Decorrenza=validFrom | Scadenza=validTo | Garanzia=type | Data disdetta=cancelledOn | "
    "Contraente=- | Tipo veicolo=-",
    "it fleet": "vehicles: targa_veicolo=registration | MARCA=make | Modello=model | "
    "Colore=color | Anno=year | Data di immatricolazione=firstRegistered | Ultima revisione=- | "
    "Scadenza revisione=motExpiry | Scadenza bollo=taxDue | Marca da bollo=- | Telaio=-",
    "it authority": "fines: N. verbale=reference | Targa=registration | "
    "Data del verbale=issuedOn | Importo dovuto=amount | Valuta=currency | Pagato il=settledOn",
}


COLUMN_WORDS = Path(__file__).with_name("column_words.txt").read_text("utf-8").splitlines()
"""Words for the columns of a list of vehicles and of policies, by language."""


def parsed(export: str) -> tuple[Kind, list[tuple[str, str]]]:
    """Return the kind of an export, and its columns with their members; - for none."""
    kind, columns = EXPORTS[export].split(":", 1)
    pairs = [each.strip().rpartition("=") for each in columns.split("|")]
    return Kind(kind), [(name, member) for name, _, member in pairs]


def suggestion(header: list[str], *rows: list[str], kind: Kind | None = None) -> Suggestion:
    """Return the suggestion for a CSV with these columns."""
    text = "\n".join(map(";".join, [header, *rows]))
    return suggest(Sample(f"{text}\n".encode()), kind)


def settled(found: Suggestion) -> dict[str, str]:
    """Return the names of the columns by member."""
    return {member: column.name for member, column in found.settled.items()}


def asked(found: Suggestion) -> dict[str, list[str]]:
    """Return the names of the candidates by member."""
    return {member: [each.name for each in found.questions[member]] for member in found.questions}


def value(member: str) -> str:
    """Return a value for a member; for none a text that is neither a plate nor a year."""
    day = DAYS.get(member, OTHER_DAY)
    return VALUES.get(member, day) if member != "-" else "x. y"


@each_row("export", EXPORTS)
@each_row("rows", [1, 0])
@each_row("is_changed", [False, True])
def test_the_columns_of_real_exports(export, rows, is_changed):
    """Each column is settled or the first candidate, with values and without, in any spelling."""
    kind, pairs = parsed(export)
    umlauts = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
    if is_changed:
        pairs = [(name.translate(umlauts).upper().replace(" ", "_"), each) for name, each in pairs]
    header = [name for name, _ in pairs]
    found = suggestion(header, *[[value(member) for _, member in pairs]] * rows, kind=kind)
    wanted = {member: name for name, member in pairs if member != "-"}
    first = {member: candidates[:1] for member, candidates in asked(found).items()}
    assert settled(found).items() <= wanted.items()
    for member, name in wanted.items() - settled(found).items():
        assert (member, first.get(member)) == (member, [name])


@each_row("export", EXPORTS)
def test_the_kind_of_real_exports(export):
    """The kind is found, or asked for if no name is certain for it."""
    kind, pairs = parsed(export)
    found = suggestion([name for name, _ in pairs], [value(member) for _, member in pairs])
    assert found.kind == kind
    assert found.is_kind_sure == any(
        meanings(name).get(member) == CERTAIN
        for name, member in pairs
        if member not in ("registration", "lastUpdated")
    )


@each_row(
    ("kind", "name"),
    [
        *((Kind.VEHICLES, each) for each in ("Remarques", "Brandstof", "Kilometerstand", "Rodzaj")),
        *((Kind.VEHICLES, each) for each in ("Last MOT", "Letzte Hauptuntersuchung", "Dernier CT")),
        *((Kind.POLICIES, each) for each in ("Vertragspartner", "Phone number", "Kontonummer")),
        *((Kind.VEHICLES, each) for each in ("Reifenmarke", "Plate type", "Renavam", "VIN")),
        *((Kind.FINES, each) for each in ("Kundenreferenz", "Amount paid", "Zahlungsfrist")),
    ],
)
def test_names_that_only_seem_to_be_known(kind, name):
    """Such a column is not asked for by its name: a question costs the operator time."""
    members = {each.label for each in LAYOUTS[kind]().columns}
    assert members.isdisjoint(meanings(name))


def test_days_are_no_registrations():
    """2026-03-01 could be a plate: in French the date of registration is named after it."""
    found = suggestion(["Immatriculation", "Plate"], ["2026-03-01", "AB12CDE"])
    assert asked(found)["registration"] == ["Plate", "Immatriculation"]


def test_a_name_that_is_certain_for_two_members_is_asked_for():
    """A word with two certain meanings settles none of them."""
    assert meanings("Velja do") == {"motExpiry": LIKELY, "validTo": LIKELY}
    found = suggestion(["Make", "VEHICLE MAKE"], ["FORD", "FORD"], kind=Kind.VEHICLES)
    assert asked(found)["make"] == ["Make", "VEHICLE MAKE"]


def test_a_name_for_the_first_day_without_is_asked_for():
    """A mapping reads last days with; what an agency or a renewal means is a day later (D100)."""
    found = suggestion(["Kenteken", "Vervaldatum APK"], ["AB123C", "20270513"])
    assert asked(found) == {"motExpiry": ["Vervaldatum APK"]}
    text = mapping_text(found, "f.csv", "own", "command")
    remark = 'if it is the first day without, add first_day_without = ["motExpiry"] above [columns]'
    assert f'#   "Vervaldatum APK" (YYYYMMDD; 1 of 1 differ): {remark}\n' in text


@each_row(
    "name",
    "Policy Renewal Date|Next renewal|Expiration Date|Versicherungsablauf|Date d'échéance|"
    "Vervaldatum verzekering|Hovedforfald|Huvudförfallodag".split("|"),
)
def test_a_name_of_an_insurer_can_mean_the_first_day_without(name):
    """The word counts in longer names, too: US policies end early on their expiration date."""
    found = suggestion(["VRN", name], ["AB12CDE", "2027-03-01"], kind=Kind.POLICIES)
    assert name in asked(found)["validTo"]
    text = mapping_text(found, "f.csv", "own", "command")
    assert 'first_day_without = ["validTo"]' in text


def test_every_column_that_is_not_read_has_a_reason():
    """The mapping says of each column why it is not read."""
    header = ["Kenteken", "Make", "", "Note", "note", "Insurer", "Driver", "deleted"]
    row = ["AB12CDE", "FORD", "a", "b", "c", "Acme", "d", "0"]
    found = suggestion(header, row, kind=Kind.VEHICLES)
    text = mapping_text(found, "f.csv", "own", "command")
    doubled = "it has no name, or one that is there more than once"
    assert text.partition("# Columns that are not read")[2].splitlines()[1:] == [
        f'#   "": {doubled}',
        f'#   "Note": {doubled}',
        f'#   "note": {doubled}',
        '#   "Insurer": could be insurer',
        '#   "Driver"',
        '#   "deleted": could be deleted',
    ]
    assert tomllib.loads(text)["columns"] == {"registration": "Kenteken", "make": "Make"}


def test_a_column_without_values_stays():
    """Of fines that are all unpaid, the day of payment is empty."""
    found = suggestion(["Reference", "Kenteken", "settledOn"], ["R-1", "A1", ""], kind=Kind.FINES)
    text = mapping_text(found, "f.csv", "own", "command")
    assert 'settledOn = "settledOn"      # no values among these rows' in text


class TestVocabulary:
    """The words in `vocabulary.csv`."""

    def test_each_certain_word_has_a_source(self):
        """A word is certain only with a published source beside it, and for one member only."""
        rows = read_vocabulary()
        certain = [(word, row) for row in rows if row["how"] == "certain" for word in row["names"]]
        assert len(certain) > 100
        assert [word for word, row in certain if not row["source"]] == []
        members = {
            word: {row["member"] for row in rows if word in row["names"]} - {"first"}
            for word, _ in certain
        }
        assert {word: found for word, found in members.items() if len(found) > 1} == {}

    def test_words_are_written_as_names_are_compared(self):
        """A word with a capital, an accent or a sign would never be found."""
        assert [
            (row["member"], word)
            for row in read_vocabulary()
            for word in row["names"]
            if names._compact(word) != word
        ] == []

    def test_members_and_ways_are_known(self):
        """A misspelt member would be ignored."""
        rows = read_vocabulary()
        known = {each.label for kind in Kind for each in LAYOUTS[kind]().columns}
        assert {row["member"] for row in rows} == known | {"deleted", "other", "without", "first"}
        assert {row["how"] for row in rows} == {"certain", "likely", "vague"}

    @each_row(
        "name",
        "Rego|Reg Mark|Index Mark|Nummerplade|Registreringsnummer|Kontrollschild|EČV|RZ|Rendszám|"
        "Rekisterinumero|Kjennemerke|Targa|Plaka|מספר רכב|Номерний знак|Αριθμός κυκλοφορίας|"
        "Регистрационен номер|Număr de înmatriculare|Registarska oznaka|Matrícula".split("|"),
    )
    def test_words_for_plates(self, name):
        """The words for plate that registers and fleets use are known, in any official language."""
        assert plate_columns(["Make", name]) == [1]

    @each_row("line", COLUMN_WORDS)
    def test_words_of_each_language(self, line):
        """Each official language has a whole word for what a file needs first."""
        members = (
            "registration make model firstRegistered motExpiry insurer number validFrom validTo"
        )
        words = line.partition(": ")[2].split(" | ")
        for member, word in zip(members.split(), words, strict=True):
            assert meanings(word).get(member, 0) > PART, word

    def test_the_first_words_win(self):
        """A file that `lookup --csv` of 1.0.0 answered does not become ambiguous by a new word."""
        assert plate_columns(["Rego", "Reg No", "Nummernschild"]) == [1]
        assert plate_columns(["Rego", "Nummernschild"]) == [0, 1]
        assert plate_columns(["Номер", "Make"]) == []


def read_vocabulary() -> list[dict[str, Any]]:
    """Return the rows of the vocabulary, with their words as lists."""
    with Path(names.__file__).with_name("vocabulary.csv").open(encoding="utf-8") as file:
        return [{**row, "names": row["names"].split()} for row in csv.DictReader(file)]
