"""The cast of the demo register: one memorable plate for each answer of the service (D22)."""

from datetime import date, timedelta
from typing import NamedTuple


class Car(NamedTuple):
    """The data of a vehicle that never change."""

    registration: str
    make: str
    model: str
    color: str
    first_registered: date


class Papers(NamedTuple):
    """The state of a car's insurance, MOT, tax and fines. By default everything is in order."""

    insurance: str = "in_force"
    mot: str = "valid"
    tax: str = "taxed"
    fines: str = "none"
    is_listed: bool = True
    """Whether the car has a vehicle row. If not, only its policy mentions its plate (D24)."""


_NEW_CAR_AGE = timedelta(days=400)

# Plate, make, model, colour, day of first registration (empty: `_NEW_CAR_AGE` ago) and papers.
_MEMBERS: dict[str, tuple[str, str, str, str, str, Papers]] = {
    "compliant": ("AB12CDE", "Ford", "Focus", "Blue", "2012-05-14", Papers()),
    "lapsed": ("LP63SED", "Vauxhall", "Corsa", "Red", "2013-11-04", Papers("lapsed")),
    "future": ("FU17URE", "Volkswagen", "Golf", "Grey", "2017-03-20", Papers("future")),
    "cancelled": ("CA16NCL", "Nissan", "Qashqai", "Black", "2016-06-30", Papers("cancelled")),
    "overlapping": ("OV66LAP", "Skoda", "Octavia", "Silver", "2016-10-12", Papers("overlapping")),
    "insured_flag": ("FL11AGG", "Toyota", "Yaris", "White", "2011-08-01", Papers("flag")),
    "uninsured": ("NO61POL", "Peugeot", "107", "Yellow", "2011-12-09", Papers("uninsured")),
    "insurance_unknown": ("WH14NOS", "Honda", "Jazz", "Silver", "2014-04-02", Papers("unknown")),
    "mot_expired": ("MO14TXP", "Renault", "Clio", "Orange", "2014-07-07", Papers(mot="expired")),
    "mot_exempt": ("MGB970H", "MG", "MGB", "Green", "1970-03-03", Papers(tax="exempt")),
    "mot_unknown": ("MO13WHO", "Fiat", "500", "White", "2013-03-28", Papers(mot="unknown")),
    "new_car": ("NEW1", "Tesla", "Model 3", "White", "", Papers()),
    "sorn": ("SO15RNN", "Mazda", "MX-5", "Red", "2015-05-22", Papers(tax="sorn")),
    "tax_expired": ("DU15TAX", "Kia", "Ceed", "Grey", "2015-08-17", Papers(tax="past_due")),
    "untaxed": ("NO65TAX", "Citroën", "C1", "Blue", "2015-09-08", Papers(tax="untaxed")),
    "tax_unknown": ("WH12TAX", "Hyundai", "i20", "Black", "2012-08-24", Papers(tax="unknown")),
    "fined": ("FN15EDD", "BMW", "3 Series", "Black", "2015-06-03", Papers(fines="owed")),
    "fine_settled": ("PA16DUP", "Audi", "A3", "Grey", "2016-05-11", Papers(fines="settled")),
    "policy_only": ("PO12LCY", "Volvo", "V40", "Blue", "2012-04-16", Papers(is_listed=False)),
}  # fmt: skip

CAST = {part: member[0] for part, member in _MEMBERS.items()} | {"unknown": "ZZ99ZZZ"}
"""The plate of each part. `unknown` is in no register, because no British plate begins with Z."""


def cast_members(today: date) -> list[tuple[Car, Papers]]:
    """Return the cars of the cast with their papers on a day."""
    new = (today - _NEW_CAR_AGE).isoformat()
    return [
        (Car(plate, make, model, color, date.fromisoformat(day or new)), papers)
        for plate, make, model, color, day, papers in _MEMBERS.values()
    ]
