"""`--suggest-map` knows the names of columns that sources of seven languages really use (D99)."""

import tomllib

from app.registers.formats.suggesting.suggestion import Suggestion, read_sample, suggest
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


def parsed(export: str) -> tuple[Kind, list[tuple[str, str]]]:
    """Return the kind of an export, and its columns with their members; - for none."""
    kind, columns = EXPORTS[export].split(":", 1)
    pairs = [each.strip().rpartition("=") for each in columns.split("|")]
    return Kind(kind), [(name, member) for name, _, member in pairs]


def suggestion(names: list[str], *rows: list[str], kind: Kind | None = None) -> Suggestion:
    """Return the suggestion for a CSV with these columns."""
    text = "\n".join(map(";".join, [names, *rows]))
    return suggest(read_sample(f"{text}\n".encode()), kind)


def columns_of(found: Suggestion) -> dict[str, str]:
    """Return the names of the columns by member."""
    return {member: found.sample.header[guess.column] for member, guess in found.guesses.items()}


def value(member: str) -> str:
    """Return a value for a member; for none a text that is neither a plate nor a year."""
    day = DAYS.get(member, OTHER_DAY)
    return VALUES.get(member, day) if member != "-" else "x. y"


@each_row("export", EXPORTS)
@each_row("rows", [1, 0])
def test_the_columns_of_real_exports(export, rows):
    """Kind and columns are found by their names, with values and without; no other is used."""
    kind, pairs = parsed(export)
    names = [name for name, _ in pairs]
    found = suggestion(names, *[[value(member) for _, member in pairs]] * rows)
    wanted = {member: name for name, member in pairs if member != "-"}
    assert (found.kind, columns_of(found)) == (kind, wanted)


@each_row("export", EXPORTS)
def test_case_accents_and_separators_make_no_difference(export):
    """Names are found in capitals, with underscores, and with umlauts written as two letters."""
    kind, pairs = parsed(export)
    umlauts = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
    names = [name.translate(umlauts).upper().replace(" ", "_") for name, _ in pairs]
    found = suggestion(names, [value(member) for _, member in pairs])
    wanted = [member for _, member in pairs if member != "-"]
    assert (found.kind, sorted(found.guesses)) == (kind, sorted(wanted))


@each_row(
    ("kind", "name"),
    [
        *((Kind.VEHICLES, each) for each in ("Remarques", "Brandstof", "Kilometerstand", "Rodzaj")),
        *((Kind.VEHICLES, each) for each in ("Last MOT", "letzter TÜV", "Dernier CT", "Tipo")),
        *((Kind.POLICIES, each) for each in ("Rodzaj pojazdu", "Vertragspartner", "Typ pojazdu")),
        *((Kind.POLICIES, each) for each in ("Phone number", "Kontonummer", "Fahrzeugart")),
        *((Kind.FINES, each) for each in ("Kundenreferenz", "Amount paid", "Zahlungsfrist")),
    ],
)
def test_names_that_only_seem_to_be_known(kind, name):
    """A wrong suggestion is worse than none."""
    found = suggestion(["Plate", name], ["AB12CDE", "x. y"], kind=kind)
    assert name not in columns_of(found).values()
    assert found.reasons == {1: "no known name"}


def test_days_are_no_registrations():
    """2026-03-01 could be a plate: in French the date of registration is named after it."""
    found = suggestion(["Immatriculation du véhicule", "Plate"], ["2026-03-01", "AB12CDE"])
    assert columns_of(found)["registration"] == "Plate"


def test_names_with_other_meanings_are_remarked_on():
    """Nothing else confirms a text; days are confirmed by being days."""
    found = suggestion(["Nr polisy", "Rodzaj", "Od", "Do"], ["P-1", "OC", OTHER_DAY, "2027-02-28"])
    assert {member: guess.remark for member, guess in found.guesses.items()} == {
        "number": "",
        "type": "guessed from its name",
        "validFrom": "",
        "validTo": "",
    }


def test_every_column_that_is_not_read_has_a_reason():
    """The mapping says of each column why it is not read."""
    header = ["Plate", "Plaque", "Make", "", "Note", "note", "Year", "Insurer", "Driver"]
    row = ["AB12CDE", "AB12CDE", "FORD", "a", "b", "c", "old", "Acme", "d"]
    found = suggestion(header, row, kind=Kind.VEHICLES)
    text = mapping_text(found, "f.csv", "own", "command").text
    assert text.partition("# Columns that are not read:\n")[2].splitlines() == [
        "#   \"Plaque\": named like registration, which is read from 'Plate'",
        "#   column 4: it has no name",
        '#   "Note": its name is in the header more than once',
        '#   "note": its name is in the header more than once',
        '#   "Year": named like year, but most of its values are no years',
        '#   "Insurer": could be insurer in a mapping of its own, with --kind policies',
        '#   "Driver": no known name',
    ]
    assert tomllib.loads(text)["columns"] == {"registration": "Plate", "make": "Make"}


def test_an_empty_column_is_found_by_its_name():
    """Of fines that are all unpaid, the day of payment is empty."""
    found = suggestion(["N° avis", "Plaque", "Montant dû", "Payée le"], ["R-1", "A1", "35.00", ""])
    text = mapping_text(found, "f.csv", "own", "command").text
    assert 'settledOn = "Payée le"       # no values among these rows' in text
