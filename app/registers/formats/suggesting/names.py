"""The names that sources give to our members, in English, German, Dutch, French and Spanish."""

import re
import unicodedata
from collections.abc import Mapping
from enum import Enum, auto

from app.storage.tables import Kind

EXACT, PART = 3.0, 2.0
"""How sure a name is: it is one of those below, or it contains one."""
_PART_CHARACTERS_MIN = 5
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")
_UMLAUT = re.compile("(?<=[aou])e")
_NUMBER_OF = re.compile(r"\s*n(?:[°º.]|[or]\b\.?|um\w*\.?)\s*(?:de\s+|d['\u2019])?")


class Shape(Enum):
    """What the values of a member look like."""

    PLATE = auto()
    DAY = auto()
    TIME = auto()
    YEAR = auto()
    FLAG = auto()
    MONEY = auto()
    TEXT = auto()


SHAPES: Mapping[str, Shape] = {
    "registration": Shape.PLATE,
    "year": Shape.YEAR,
    "lastUpdated": Shape.TIME,
    "amount": Shape.MONEY,
    **dict.fromkeys(("insured", "motExempt"), Shape.FLAG),
    **dict.fromkeys(
        (
            *("motExpiry", "firstRegistered", "taxDue", "validFrom", "validTo", "cancelledOn"),
            *("issuedOn", "settledOn"),
        ),
        Shape.DAY,
    ),
}
"""The shapes of members; all others are texts."""

_COMMON = {
    "registration": """
        registration registrationnumber registrationno registrationmark regno regnr regnumber reg
        vrm vrn numberplate licenceplate licenseplate plate platenumber plateno vehicleregistration
        vehiclereg kennzeichen amtlicheskennzeichen kfzkennzeichen polizeilicheskennzeichen
        nummernschild kontrollschild kenteken kentekennummer nummerplaat immatriculation
        numeroimmatriculation numerodimmatriculation noimmatriculation immat plaque
        plaqueimmatriculation plaquedimmatriculation matricula numeromatricula numerodematricula
        placa placas patente""",
    "lastUpdated": """
        lastupdated updated updatedat updatedon lastmodified modified modifiedat lastchanged
        aktualisiert geandert geandertam letzteanderung stand bijgewerkt gewijzigd laatstgewijzigd
        misajour misajourle datemodification modifiele actualizado ultimaactualizacion
        modificado""",
}
_VEHICLES = {
    "make": """
        make vehiclemake carmake makename maker carmaker vehiclemaker manufacturer
        vehiclemanufacturer brand carbrand brandname automarke fahrzeugmarke fahrzeughersteller
        herstellername automerk voertuigmerk fabrikant marquevehicule marqueduvehicule
        marcavehiculo marcadelvehiculo marcacoche marke hersteller fabrikat merk marque constructeur
        fabricant marca fabricante""",
    "model": """
        model vehiclemodel modelname modell fahrzeugmodell handelsbezeichnung typ type
        handelsbenaming modele modelo""",
    "year": """
        year modelyear yearofmanufacture manufactureyear buildyear yearbuilt baujahr modelljahr
        bouwjaar annee anneemodele anneedefabrication ano anofabricacion anodefabricacion
        anomodelo""",
    "color": """
        color colour vehiclecolour vehiclecolor farbe fahrzeugfarbe kleur eerstekleur couleur""",
    "insured": """
        insured isinsured versichert istversichert verzekerd wamverzekerd assure asegurado""",
    "motExpiry": """
        motexpiry motexpirydate motexpires motdue motduedate motuntil motvaliduntil mot motdate
        hu hubis nachstehu hufallig tuv tuvbis hauptuntersuchung apk apkvervaldatum vervaldatumapk
        apkgeldigtot controletechnique datecontroletechnique prochaincontroletechnique finct
        echeancect dateecheancect echeancecontroletechnique
        itv itvhasta caducidaditv vencimientoitv fechaitv proximaitv""",
    "motExempt": """
        motexempt hubefreit apkvrijgesteld exemptecontroletechnique exentoitv""",
    "firstRegistered": """
        firstregistered firstregistration firstregistrationdate dateoffirstregistration
        registrationdate dateregistered erstzulassung erstzulassungsdatum datumerstzulassung ez
        zulassungsdatum eerstetoelating datumeerstetoelating datumeerstetenaamstelling
        premiereimmatriculation datepremiereimmatriculation miseencirculation
        datemiseencirculation datedemiseencirculation premieremiseencirculation
        matriculacion fechamatriculacion fechadematriculacion primeramatriculacion
        fechaprimeramatriculacion""",
    "taxStatus": """
        taxstatus roadtax roadtaxstatus vedstatus steuerstatus belastingstatus""",
    "taxDue": """
        taxdue taxduedate taxexpiry taxuntil steuerbis steuerfallig steuerfalligam""",
}
_POLICIES = {
    "number": """
        number policynumber policyno policyid policyref policyreference policy contract
        contractnumber contractno vertrag vertragsnummer vertragsnr police policennummer
        policenummer versicherungsnummer versicherungsschein versicherungsscheinnummer vsnr polis
        polisnummer contractnummer contrat numerocontrat numerodecontrat nocontrat numeropolice
        numerodepolice poliza numeropoliza numerodepoliza contrato""",
    "insurer": """
        insurer insurername insurancecompany insurance company underwriter carrier versicherer
        versicherung versicherungsgesellschaft gesellschaft verzekeraar verzekeringsmaatschappij
        maatschappij assureur compagnie compagniedassurance assurance aseguradora compania""",
    "validFrom": """
        validfrom start startdate from begin begindate effectivedate effectivefrom inception
        inceptiondate coverstart coverfrom policystart policystartdate beginn gultigab gultigvon
        von ab vertragsbeginn versicherungsbeginn ingangsdatum begindatum vanaf geldigvanaf
        startdatum debut datedebut datededebut dateeffet datedeffet effet du valabledu inicio
        fechainicio fechadeinicio desde validodesde vigenciadesde fechaefecto
        insurancestart insurancestartdate insurancefrom insuredfrom insuredsince
        versichertab versichertseit versicherungab ingangsdatumverzekering verzekerdvanaf
        verzekerdsinds debutassurance datedebutassurance assuredepuis inicioseguro
        fechainicioseguro aseguradodesde""",
    "validTo": """
        validto validuntil validtill end enddate to until expiry expirydate expires coverend coverto
        policyend policyenddate policyexpiry ende gultigbis bis ablauf ablaufdatum vertragsende
        versicherungsende enddatum einddatum vervaldatum tot geldigtot afloopdatum fin datefin
        datedefin echeance dateecheance au valableau fechafin fechadefin hasta validohasta
        vigenciahasta vencimiento fechavencimiento caducidad
        insuranceexpiry insuranceexpirydate insuranceexpires insuranceend insuranceenddate
        insuranceuntil insurancevaliduntil insurancedue insuranceduedate insuranceto insureduntil
        insuredto insurancerenewal insurancerenewaldate renewaldate policyexpirydate
        versichertbis versicherungbis versicherungsablauf versicherungsschutzbis
        versicherunggultigbis verzekerdtot verzekeringtot verzekeringgeldigtot
        einddatumverzekering vervaldatumverzekering finassurance datefinassurance
        echeanceassurance dateecheanceassurance assurejusquau assurancevalablejusquau
        finseguro fechafinseguro vencimientoseguro fechavencimientoseguro caducidadseguro
        aseguradohasta segurohasta validezseguro""",
    "type": """
        type covertype policytype cover coverage coveragetype art deckung deckungsart vertragsart
        versicherungsart tarif tarifart typ dekking soort soortdekking formule garantie couverture
        typecontrat cobertura tipo tipopoliza modalidad""",
    "cancelledOn": """
        cancelledon cancelled canceled canceledon cancellationdate cancelleddate storno stornodatum
        gekundigt gekundigtam kundigung kundigungsdatum opgezegd opgezegdop opzegdatum geannuleerd
        resilie resiliation dateresiliation dateannulation cancelado anulado fechaanulacion
        fechabaja baja""",
}
_FINES = {
    "reference": """
        reference ref referenceno referencenumber finenumber fineid noticenumber pcn pcnnumber
        ticket ticketnumber caseno casenumber referenz aktenzeichen bussgeldnummer bescheidnummer
        vorgang vorgangsnummer kenmerk boetenummer beschikkingsnummer zaaknummer numeroamende
        numeroavis numerodavis avis dossier referencia expediente numeroexpediente numeromulta
        numerodemulta boletin""",
    "issuedOn": """
        issuedon issued issuedate dateissued offencedate offensedate violationdate date datum
        ausgestellt ausgestelltam tatdatum tattag bescheiddatum overtredingsdatum datumovertreding
        datumboete dateinfraction dateamende dateemission emisle fecha fechamulta fechainfraccion
        fechaemision fechadenuncia""",
    "amount": """
        amount amountdue amountowed outstanding balance fine fineamount betrag offenerbetrag
        bussgeld forderung bedrag boete boetebedrag openstaand montant montantdu amende solde
        importe
        importependiente multa cantidad pendiente""",
    "currency": """
        currency wahrung valuta munt devise monnaie moneda divisa""",
    "settledOn": """
        settledon settled paid paidon paiddate datepaid paymentdate bezahlt bezahltam
        zahlungsdatum betaald betaaldop betaaldatum paye payele datepaiement regle pagado
        fechapago fechadepago""",
}
_NAMES: Mapping[Kind, Mapping[str, frozenset[str]]] = {
    kind: {member: frozenset(names.split()) for member, names in (_COMMON | own).items()}
    for kind, own in {
        Kind.VEHICLES: _VEHICLES,
        Kind.POLICIES: _POLICIES,
        Kind.FINES: _FINES,
    }.items()
}
_ALL_NAMES = frozenset[str]().union(*(each for own in _NAMES.values() for each in own.values()))


def scores(name: str, kind: Kind) -> dict[str, float]:
    """Return the members of a kind that a column's name can mean, and how sure that is."""
    compact = _compact(name)
    # An umlaut is written with and without an e. "N° de" can be left out.
    spellings = {compact, _UMLAUT.sub("", compact)}
    spellings.add(_compact(_NUMBER_OF.sub("", name[:200].casefold(), count=1)))
    found: dict[str, float] = {
        member: EXACT
        for member, known in _NAMES[kind].items()
        if not known.isdisjoint(spellings) or compact == member.lower()
    }
    if not found and not _ALL_NAMES.isdisjoint(spellings):
        return {}  # In a list of policies "Échéance CT" is no end of a policy.
    for member, known in _NAMES[kind].items():
        parts = [each for each in known if len(each) >= _PART_CHARACTERS_MIN and each in compact]
        if parts and member not in found:
            # The longest part says most: "first registration date" is no registration.
            found[member] = PART + max(map(len, parts)) / max(len(compact), 1)
    return found


def _compact(name: str) -> str:
    """Return a name in lower case, without accents, spaces and punctuation."""
    plain = unicodedata.normalize("NFKD", name[:200].casefold())
    return _OTHER_CHARACTERS.sub("", plain)
