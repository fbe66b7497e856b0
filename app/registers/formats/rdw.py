"""RDW, Gekentekende voertuigen: the open data of the Dutch vehicle authority."""

import re

from app.registers.bounded_cache import cached
from app.registers.formats import dates, values
from app.registers.formats.columns import (
    SOCRATA_COLUMNS,
    SOCRATA_PAGES,
    Column,
    Layout,
    Presence,
    ValueColumns,
    Values,
    normalised,
)
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import NamedFormat
from app.registers.formats.json_format import JsonFormat
from app.storage.tables import Kind, Row, VehicleRow

# The columns that verifyd does not read, by their names in the API: those of 2023 and of 2025, and
# former names. Four columns have a display name that is longer than the API name; the set has both.
OTHER_COLUMNS = frozenset(
    """
    aanhangwagen_autonoom_geremd aanhangwagen_middenas_geremd aantal_cilinders aantal_deuren
    aantal_passagiers_zitplaatsen_wettelijk aantal_rolstoelplaatsen aantal_staanplaatsen
    aantal_wielen aantal_zitplaatsen aanwijzingsnummer additionele_massa_alternatieve_aandrijving
    aerodyn_voorz aerodynamische_voorziening_of_uitrusting
    afstand_hart_koppeling_tot_achterzijde_voertuig afstand_voorzijde_voertuig_tot_hart_koppeling
    afwijkende_maximum_snelheid api_gekentekende_voertuigen_assen
    api_gekentekende_voertuigen_brandstof api_gekentekende_voertuigen_carrosserie
    api_gekentekende_voertuigen_carrosserie_specifiek api_gekentekende_voertuigen_voertuigklasse
    breedte breedte_voertuig_maximum breedte_voertuig_minimum bruto_bpm catalogusprijs
    cilinderinhoud code_toelichting_tellerstandoordeel datum_eerste_afgifte_nederland
    datum_eerste_afgifte_nederland_dt datum_eerste_tenaamstelling_in_nederland
    datum_eerste_tenaamstelling_in_nederland_dt datum_eerste_toelating_dt datum_tenaamstelling
    datum_tenaamstelling_dt europese_uitvoeringcategorie_toevoeging europese_voertuigcategorie
    europese_voertuigcategorie_toevoeging export_indicator gem_lading_wrde
    gemiddelde_lading_waarde hoogte_voertuig hoogte_voertuig_maximum hoogte_voertuig_minimum
    inrichting jaar_laatste_registratie_tellerstand laadvermogen lengte lengte_voertuig_maximum
    lengte_voertuig_minimum massa_alt_aandr massa_bedrijfsklaar_maximaal
    massa_bedrijfsklaar_minimaal massa_ledig_voertuig massa_rijklaar maximale_constructiesnelheid
    maximum_last_onder_de_vooras_sen_tezamen_koppeling maximum_massa_samenstelling
    maximum_massa_technisch_maximaal maximum_massa_technisch_minimaal
    maximum_massa_trekken_ongeremd maximum_ondersteunende_snelheid maximum_trekken_massa_geremd
    openstaande_terugroepactie_indicator oplegger_geremd plaats_chassisnummer
    registratie_datum_goedkeuring_afschrijvingsmoment_bpm
    registratie_datum_goedkeuring_afschrijvingsmoment_bpm_dt rupsonderstelconfiguratiecode
    subcategorie_nederland taxi_indicator technisch_toelaatbaar_massa_koppelpunt
    technische_max_massa_voertuig tellerstandoordeel tenaamstellen_mogelijk
    toegestane_maximum_massa_voertuig tweede_kleur type type_gasinstallatie
    type_remsysteem_voertuig_code typegoedkeuringsnummer uitvoering variant verl_cab_ind
    verlengde_cabine_indicator vermogen_massarijklaar
    verticale_belasting_koppelpunt_getrokken_voertuig vervaldatum_tachograaf
    vervaldatum_tachograaf_dt voertuigsoort volgnummer_wijziging_eu_typegoedkeuring
    wacht_op_keuren wielbasis wielbasis_voertuig_maximum wielbasis_voertuig_minimum
    zuinigheidsclassificatie zuinigheidslabel
    """.split()
)
_KEY = "Kenteken"
_EXPIRY = "Vervaldatum APK"
_EXPIRY_TIME = f"{_EXPIRY} DT"
_PLACEHOLDERS = values.MISSING | {"niet geregistreerd", "n.v.t.", "geen verstrekking in open data"}
_NO_DATES = _PLACEHOLDERS | {"0", "00000000"}
_TIME_OF_DAY = re.compile(r" [0-9]{2}:[0-9]{2}:[0-9]{2} [AP]M")


class _Rdw(NamedFormat):
    """What the CSV and the JSON of the RDW share."""

    register = "rdw"
    kinds = frozenset([Kind.VEHICLES])
    ignored_names = OTHER_COLUMNS | SOCRATA_COLUMNS
    page_rows = SOCRATA_PAGES

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        return Kind.VEHICLES if normalised(_KEY) in names else None

    def layout(self, kind: Kind) -> Layout:
        """Return the columns that are read. The last one replaces a missing date of expiry."""

        def build(read: Values) -> VehicleRow:
            plate, make, model, admitted, color, insured, expiry, expiry_by_time = read
            year, first_day = admitted or (None, None)
            if expiry == "":
                expiry = expiry_by_time
            return VehicleRow(plate, make, model, year, color, insured, expiry, None, first_day)

        def build_many(columns: ValueColumns) -> list[Row]:
            return list(map(build, zip(*columns, strict=True)))

        model, first = "Handelsbenaming", "Datum eerste toelating"
        color, insured = "Eerste kleur", "WAM verzekerd"
        yes_or_no = values.known_word(insured, {"ja": True, "nee": False}, _PLACEHOLDERS)
        admission = values.parser(first, _year_and_day, _NO_DATES)
        expiry_by_time = values.parser(_EXPIRY_TIME, _last_day, _NO_DATES)
        columns = (
            Column.named(_KEY, values.registration, Presence.REQUIRED, values.registrations),
            Column.named("Merk", values.text("Merk", _PLACEHOLDERS), Presence.EXPECTED),
            Column.named(model, values.text(model, _PLACEHOLDERS), Presence.SPARSE),
            Column.named(first, admission, Presence.SPARSE, blanks=_NO_DATES),
            Column.named(color, values.text(color, _PLACEHOLDERS), Presence.SPARSE),
            Column.named(insured, yes_or_no, Presence.EXPECTED, blanks=_PLACEHOLDERS),
            Column.named(_EXPIRY, cached(_expiry), Presence.SPARSE, blanks=_NO_DATES),
            Column.named(_EXPIRY_TIME, expiry_by_time, blanks=_NO_DATES),
        )
        return Layout(columns, build, build_many=build_many)


class RdwCsv(_Rdw, CsvFormat):
    """The CSV download with display names, and the SODA CSV with API names."""

    name = "rdw-csv"
    looked_for = f"a CSV header with the column {_KEY}"


class RdwJson(_Rdw, JsonFormat):
    """The SODA JSON. Its members have the API names; members without a value are left out."""

    name = "rdw-json"
    looked_for = f"JSON objects with the member {normalised(_KEY)}"
    shortest_record = '{"kenteken":"A"}'


def _expiry(text: str) -> str | None:
    """Return the last day with an APK, an empty text if it is missing, or None if it is no date."""
    value = values.stored_text(_EXPIRY, text, _NO_DATES)
    return "" if value is None else _last_day(value)


def _last_day(text: str) -> str | None:
    """Return the day before a date: a vehicle must be approved before its Vervaldatum APK."""
    return dates.day_before(_date(text))


def _year_and_day(text: str) -> tuple[int, str | None] | None:
    """Return year and day of a date, without a day that cannot be read; None without a year."""
    year = dates.year_of(text[:4])
    return None if year is None else (year, _date(text))


def _date(text: str) -> str | None:
    date_characters = len("MM/DD/YYYY")
    if _TIME_OF_DAY.fullmatch(text[date_characters:]):
        return dates.american_date(text[:date_characters])
    return dates.compact_date(text) or dates.iso_time_date(text)
