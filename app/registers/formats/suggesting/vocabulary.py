"""The names that sources give to our members.

They are in English, German, Dutch, French, Spanish, Italian and Polish, in this order. They are in
lower case and have no accents, spaces and punctuation. Those after a question mark have other
meanings, too: they count only as whole names, and are remarked on.
"""

from collections.abc import Mapping

from app.storage.tables import Kind

_COMMON = {
    "registration": """
        registration registrationnumber registrationno registrationmark registrationplate regno
        regnr regnumber vrm vrn numberplate licenceplate licenseplate plate platenumber plateno
        vehicleregistration vehiclereg kennzeichen amtlicheskennzeichen amtlkennzeichen
        kfzkennzeichen polizeilicheskennzeichen fahrzeugkennzeichen kennz kfzkz nummernschild
        kontrollschild kenteken kentekennummer nummerplaat kentekenplaat immatriculation immat
        plaque plaqueimmatriculation plaquedimmatriculation matricula placa placas patente targa
        targaveicolo targadelveicolo nrrejestracyjny numerrejestracyjny nrrej
        tablicarejestracyjna
        ? reg rejestracja rej""",
    "lastUpdated": """
        lastupdated lastupdate updated updatedat updatedon lastmodified modified modifiedat
        lastchanged lastchange aktualisiert aktualisiertam letzteaktualisierung geandert
        geandertam letzteanderung anderungsdatum bijgewerkt bijgewerktop gewijzigd gewijzigdop
        laatstgewijzigd laatstbijgewerkt wijzigingsdatum mutatiedatum misajour misajourle
        miseajour datemiseajour datedemiseajour dernieremisajour datemodification
        datedemodification modifiele actualizado ultimaactualizacion fechaactualizacion
        modificado ultimamodificacion aggiornato aggiornatoil ultimoaggiornamento
        dataaggiornamento ultimamodifica zaktualizowano ostatniaaktualizacja dataaktualizacji
        ostatniazmiana datamodyfikacji
        ? stand maj""",
}
_VEHICLES = {
    "make": """
        make vehiclemake carmake makename maker carmaker vehiclemaker manufacturer
        vehiclemanufacturer brand carbrand brandname marke hersteller fabrikat automarke
        fahrzeugmarke fahrzeughersteller herstellername merk automerk voertuigmerk fabrikant
        marque marquevehicule marqueduvehicule constructeur fabricant marca marcavehiculo
        marcadelvehiculo marcacoche fabricante marcaveicolo marcadelveicolo casacostruttrice
        costruttore marka markapojazdu producent""",
    "model": """
        model vehiclemodel modelname carmodel modell fahrzeugmodell modellbezeichnung
        handelsbezeichnung handelsbenaming modele modelevehicule modeleduvehicule
        denominationcommerciale modelo modelovehiculo modelodelvehiculo modello modelloveicolo
        modellodelveicolo modelpojazdu
        ? typ type fahrzeugtyp""",
    "year": """
        year modelyear yearofmanufacture manufactureyear buildyear yearbuilt yearofbuild baujahr
        modelljahr herstellungsjahr bouwjaar modeljaar productiejaar annee anneemodele
        anneedefabrication anneedeconstruction millesime ano anofabricacion anodefabricacion
        anomodelo anno annoproduzione annodiproduzione annocostruzione annodicostruzione
        annomodello rokprodukcji rocznik rokbudowy rokprod
        ? rok bj bauj""",
    "color": """
        color colour vehiclecolour vehiclecolor farbe fahrzeugfarbe kleur eerstekleur couleur
        colore kolor kolorpojazdu barwa""",
    "insured": """
        insured isinsured versichert istversichert verzekerd wamverzekerd assure assuree
        asegurado assicurato assicurata ubezpieczony czyubezpieczony""",
    "motExpiry": """
        motexpiry motexpirydate motexpires motdue motduedate motuntil motvaliduntil nextmot
        inspectiondue inspectionexpiry inspectionvaliduntil hubis nachstehu hufallig
        hufalligkeit hugultigbis hutermin tuvbis tuvfallig tuvtermin nachstertuv
        hauptuntersuchung hauptuntersuchungbis pickerlbis apkvervaldatum vervaldatumapk
        apkgeldigtot apktot apkverloopt einddatumapk prochaincontroletechnique prochainct finct
        echeancect dateecheancect echeancecontroletechnique validitect validitecontroletechnique
        itvhasta caducidaditv vencimientoitv proximaitv validezitv fechacaducidaditv
        scadenzarevisione datascadenzarevisione prossimarevisione revisionefinoal
        badanietechnicznedo badanietechnicznewaznedo badaniewaznedo nastepnebadanietechniczne
        terminbadaniatechnicznego waznoscbadaniatechnicznego przegladdo przegladwaznydo
        nastepnyprzeglad terminprzegladu waznoscprzegladu
        ? mot motdate hu tuv apk controletechnique datecontroletechnique itv revisione
          badanietechniczne przeglad""",
    "motExempt": """
        motexempt hubefreit tuvbefreit apkvrijgesteld exemptecontroletechnique exemptect
        exentoitv esenterevisione zwolnionyzbadan""",
    "firstRegistered": """
        firstregistered firstregistration firstregistrationdate dateoffirstregistration
        erstzulassung erstzulassungsdatum datumerstzulassung datumdererstzulassung
        tagdererstzulassung ez ezdatum eerstetoelating datumeerstetoelating
        datumeerstetenaamstelling eersteinschrijving premiereimmatriculation
        datepremiereimmatriculation datedepremiereimmatriculation 1ereimmatriculation
        date1ereimmatriculation miseencirculation datemiseencirculation datedemiseencirculation
        premieremiseencirculation 1eremiseencirculation datemec matriculacion fechamatriculacion
        fechadematriculacion primeramatriculacion fechaprimeramatriculacion
        fechadeprimeramatriculacion immatricolazione dataimmatricolazione datadiimmatricolazione
        primaimmatricolazione dataprimaimmatricolazione datadiprimaimmatricolazione
        pierwszarejestracja datapierwszejrejestracji datefirstreg firstreg firstregdate erstzul
        tagdererstenzulassung inverkehrsetzung 1inverkehrsetzung fecha1amatriculacion
        data1rejestracji
        ? registrationdate dateregistered zulassungsdatum dateimmatriculation
          datedimmatriculation datarejestracji""",
    "taxStatus": """
        taxstatus roadtaxstatus vedstatus steuerstatus belastingstatus estadoimpuesto statobollo
        statuspodatku
        ? roadtax""",
    "taxDue": """
        taxdue taxduedate taxexpiry taxuntil roadtaxdue roadtaxuntil steuerbis steuerfallig
        steuerfalligam wegenbelastingtot vencimientoivtm scadenzabollo bolloscadenza
        datascadenzabollo""",
}
_POLICIES = {
    "number": """
        policynumber policyno policyid policyref policyreference contractnumber contractno
        vertragsnummer vertragsnr policennummer policenummer versicherungsnummer
        versicherungsschein versicherungsscheinnummer versicherungsscheinnr vsnr polisnummer
        polisnr contractnummer referencecontrat refcontrat nropoliza nrpolisy numerpolisy
        nrumowy numerumowy
        ? number policy contract vertrag police polizze polis contrat poliza contrato polizza
          contratto polisa umowa""",
    "insurer": """
        insurer insurername insurancecompany insuranceprovider underwriter versicherer
        versicherungsgesellschaft versicherungsunternehmen verzekeraar verzekeringsmaatschappij
        assureur compagniedassurance compagnieassurance aseguradora companiaaseguradora
        companiadeseguros entidadaseguradora assicuratore compagniaassicurativa
        compagniadiassicurazione ubezpieczyciel zakladubezpieczen towarzystwoubezpieczen
        firmaubezpieczeniowa
        ? insurance company carrier versicherung gesellschaft vu maatschappij compagnie
          assurance compania compagnia assicurazione towarzystwo tu""",
    "validFrom": """
        validfrom startdate begindate effectivedate effectivefrom inception inceptiondate
        coverstart coverfrom policystart policystartdate insurancestart insurancestartdate
        insurancefrom insuredfrom insuredsince gultigab gultigvon vertragsbeginn
        versicherungsbeginn versichertab versichertseit versicherungab ingangsdatum begindatum
        geldigvanaf startdatum ingangsdatumverzekering verzekerdvanaf verzekerdsinds datedebut
        datededebut dateeffet datedeffet datedeprisedeffet prisedeffet valabledu debutcontrat
        debutassurance datedebutassurance assuredepuis fechainicio fechadeinicio iniciovigencia
        validodesde vigenciadesde fechaefecto fechadeefecto inicioseguro fechainicioseguro
        aseguradodesde datainizio datadiinizio iniziovalidita iniziocopertura decorrenza
        datadecorrenza validadal validodal waznaod waznyod obowiazujeod poczatekochrony
        poczatekpolisy poczatekubezpieczenia datapoczatku datarozpoczecia okresod
        ubezpieczenieod
        ? start from begin beginn von ab vanaf debut effet du inicio desde inizio dal effetto od
          poczatek ingang""",
    "validTo": """
        validto validuntil validtill enddate expirydate expirationdate coverend coverto
        policyend policyenddate policyexpiry policyexpirydate insuranceexpiry
        insuranceexpirydate insuranceexpires insuranceend insuranceenddate insuranceuntil
        insurancevaliduntil insurancedue insuranceduedate insuranceto insureduntil insuredto
        insurancerenewal insurancerenewaldate renewaldate gultigbis ablaufdatum vertragsende
        versicherungsende versichertbis versicherungbis versicherungsablauf
        versicherungsschutzbis versicherunggultigbis vertragsablauf enddatum einddatum geldigtot
        afloopdatum verzekerdtot verzekeringtot verzekeringgeldigtot einddatumverzekering
        vervaldatumverzekering datefin datedefin dateecheance datedecheance valableau
        valablejusquau fincontrat finassurance datefinassurance echeanceassurance
        dateecheanceassurance assurejusquau assurancevalablejusquau fechafin fechadefin
        finvigencia validohasta vigenciahasta fechavencimiento fechadevencimiento finseguro
        fechafinseguro vencimientoseguro fechavencimientoseguro caducidadseguro aseguradohasta
        segurohasta validezseguro datafine datadifine finevalidita finecopertura scadenzapolizza
        datascadenzapolizza datascadenza datadiscadenza validafinoal validofinoal waznado
        waznydo obowiazujedo koniecochrony koniecpolisy koniecubezpieczenia datakonca
        datazakonczenia okresdo ubezpieczeniedo scadenzaassicurazione fechavto
        ? end to until expiry expires ende bis ablauf vervaldatum tot fin echeance au hasta
          vencimiento caducidad fine al scadenza do koniec einde vto""",
    "type": """
        covertype policytype coveragetype typeofcover insurancetype deckungsart vertragsart
        versicherungsart tarifart soortdekking soortverzekering polistype typecontrat
        typedecontrat typedegarantie tipopoliza tipodepoliza tiposeguro tipodeseguro
        tipocobertura tipopolizza tipodipolizza tipocopertura tipodicopertura rodzajpolisy
        rodzajubezpieczenia typpolisy zakresubezpieczenia
        ? type cover coverage art deckung tarif typ dekking soort formule garantie couverture
          tipo cobertura modalidad copertura garanzia rodzaj zakres""",
    "cancelledOn": """
        cancelledon canceledon cancellationdate cancelleddate stornodatum gekundigtam
        kundigungsdatum opgezegdop opzegdatum dateresiliation datederesiliation dateannulation
        resiliele fechaanulacion fechadeanulacion fechabaja fechadebaja datadisdetta
        dataannullamento datawypowiedzenia dataanulowania datarozwiazania
        ? cancelled canceled storno gekundigt kundigung opgezegd geannuleerd resilie resiliation
          cancelado anulado baja disdetta annullata annullato anulowana wypowiedzenie""",
}
_FINES = {
    "reference": """
        referenceno referencenumber finenumber fineid noticenumber pcn pcnnumber ticketnumber
        caseno casenumber aktenzeichen bussgeldnummer bescheidnummer vorgangsnummer
        kassenzeichen kenmerk boetenummer beschikkingsnummer zaaknummer cjibnummer numeroamende
        numeroavis expediente numeroexpediente nrmandatu numermandatu nrsprawy numersprawy
        sygnatura znaksprawy
        ? reference ref ticket referenz az vorgang avis amende dossier pv contravention
          referencia multa boletin denuncia verbale riferimento""",
    "issuedOn": """
        issuedon issuedate dateissued offencedate offensedate violationdate ausgestelltam
        ausstellungsdatum tatdatum tattag bescheiddatum overtredingsdatum datumovertreding
        datumboete datumbeschikking pleegdatum dateinfraction datedinfraction datedelinfraction
        dateamende dateemission datedemission emisle emisele fechamulta fechadelamulta
        fechainfraccion fechadelainfraccion fechadeinfraccion fechaemision fechadeemision
        fechadenuncia dataemissione datadiemissione dataverbale datadelverbale datainfrazione
        datadellinfrazione dataviolazione datawystawienia datawydania datamandatu
        datawykroczenia contraventiondate dataaccertamento datazdarzenia
        ? issued date ausgestellt datum fecha data""",
    "amount": """
        amountdue amountowed amountoutstanding outstanding balance offenerbetrag restbetrag offen
        openstaandbedrag openstaand verschuldigdbedrag tebetalen montantdu resteapayer solde
        importependiente cantidadpendiente pendiente importodovuto importodapagare
        totaledapagare dapagare kwotadozaplaty dozaplaty
        ? amount fine fineamount betrag bussgeld bussgeldbetrag forderung bedrag boete boetebedrag
          montant amende montantamende montantdelamende importe importemulta multa cantidad
          importo importomulta importosanzione sanzione kwota kwotamandatu grzywna""",
    "currency": """
        currency wahrung valuta munt munteenheid devise monnaie moneda divisa waluta""",
    "settledOn": """
        settledon paidon paiddate datepaid paymentdate bezahltam zahlungsdatum beglichenam
        betaaldop betaaldatum betalingsdatum payele payeele datepaiement datedepaiement reglele
        regleele datereglement datedereglement fechapago fechadepago pagadoel pagadael
        datapagamento datadipagamento pagatoil pagatail datazaplaty dataplatnosci datawplaty
        ? settled paid bezahlt beglichen betaald voldaan paye payee regle reglee pagado pagada
          pagato pagata zaplacono oplacono""",
}
NAMES: Mapping[Kind, Mapping[str, str]] = {
    Kind.VEHICLES: _COMMON | _VEHICLES,
    Kind.POLICIES: _COMMON | _POLICIES,
    Kind.FINES: _COMMON | _FINES,
}
OTHERS = """
    remarque brandstof garantie warranty leas rental miet location renting noleggi najm wynaj
    marcadabollo tweedekleur herstellerschlussel
    herstellernummer herstellernr versicherernummer versicherernr phone telefon telefoon telefono
    email address adres indirizzo direccion innen interi interno tapicer wnetrz tyre tire reifen
    pneu banden neumatic opon trailer anhanger aanhang remorque remolque rimorchio przyczep
    previous vorher vorversicher altes vorig ancien anterior preceden poprzedni birth geburt
    geboorte naissance nacimiento nascita urodzenia permis"""
"""Parts of names that change the meaning of a known name in them, as `tyre` does in `tyre make`."""
