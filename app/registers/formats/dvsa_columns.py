"""The members of a vehicle in the files of the DVSA (formats 2)."""

from app.registers.formats.columns import Column, Presence

MODIFICATION = frozenset({"modification", "last_modification", "lastmodification"})
OTHER_COLUMNS = MODIFICATION | {
    "secondarycolour",
    "lastmottestdate",
    "fueltype",
    "enginesize",
    "datasource",
    "hasoutstandingrecall",
    "mottestduedate",
    "vehicleid",
    "vin",
}
_YEARS = frozenset({"manufacturedate", "firstuseddate", "registrationdate"})
COLUMNS = (
    Column("registration", frozenset({"registration"}), str, Presence.REQUIRED),
    Column("make", frozenset({"make"}), str, Presence.SPARSE),
    Column("model", frozenset({"model"}), str, Presence.SPARSE),
    Column("primaryColour", frozenset({"primarycolour"}), str, Presence.SPARSE),
    Column("manufactureDate", _YEARS, str, Presence.SPARSE),
    Column("motTests", frozenset({"mottests"}), str, Presence.SPARSE),
    Column(
        "last_update_date",
        frozenset({"last_update_date", "lastupdatedate", "lastupdatetimestamp"}),
        str,
    ),
)
