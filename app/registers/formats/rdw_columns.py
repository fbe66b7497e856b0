"""The columns of the RDW that verifyd does not read, by their names in its API (formats 1)."""

# The columns of 2023 and of 2025, and former names. Four columns have a display name that is longer
# than the API name; the set has both.
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
