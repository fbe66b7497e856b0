"""The cast of the demo register: one memorable plate for every reason of D22.

Everything about a member is in order but what its name says.
"""

from datetime import date, timedelta
from typing import NamedTuple


class Car(NamedTuple):
    """A vehicle as it left the works."""

    registration: str
    make: str
    model: str
    color: str
    first_registered: date


class Situation(NamedTuple):
    """What the papers of a vehicle say; the words are the keys of the shares in `data`."""

    insurance: str = "in_force"
    mot: str = "valid"
    tax: str = "taxed"
    fines: str = "none"
    is_listed: bool = True
    """False: no vehicle row; the plate is known through its policy alone (D24)."""


NEW_CAR_AGE_DAYS = 400
_ALWAYS_NEW = date.min

_MEMBERS: dict[str, tuple[Car, Situation]] = {
    "compliant": (
        Car("AB12CDE", "Ford", "Focus", "Blue", date(2012, 5, 14)),
        Situation(),
    ),
    "lapsed": (
        Car("LP63SED", "Vauxhall", "Corsa", "Red", date(2013, 11, 4)),
        Situation(insurance="lapsed"),
    ),
    "future": (
        Car("FU17URE", "Volkswagen", "Golf", "Grey", date(2017, 3, 20)),
        Situation(insurance="future"),
    ),
    "cancelled": (
        Car("CA16NCL", "Nissan", "Qashqai", "Black", date(2016, 6, 30)),
        Situation(insurance="cancelled"),
    ),
    "overlapping": (
        Car("OV66LAP", "Skoda", "Octavia", "Silver", date(2016, 10, 12)),
        Situation(insurance="overlapping"),
    ),
    "insured_flag": (
        Car("FL11AGG", "Toyota", "Yaris", "White", date(2011, 8, 1)),
        Situation(insurance="insured_flag"),
    ),
    "uninsured": (
        Car("NO61POL", "Peugeot", "107", "Yellow", date(2011, 12, 9)),
        Situation(insurance="uninsured"),
    ),
    "insurance_unknown": (
        Car("WH14NOS", "Honda", "Jazz", "Silver", date(2014, 4, 2)),
        Situation(insurance="insurance_unknown"),
    ),
    "mot_expired": (
        Car("MO14TXP", "Renault", "Clio", "Orange", date(2014, 7, 7)),
        Situation(mot="expired"),
    ),
    "mot_exempt": (
        Car("MGB970H", "MG", "MGB", "Green", date(1970, 3, 3)),
        Situation(tax="exempt"),
    ),
    "mot_unknown": (
        Car("MO13WHO", "Fiat", "500", "White", date(2013, 3, 28)),
        Situation(mot="unknown"),
    ),
    "new_car": (
        Car("NEW1", "Tesla", "Model 3", "White", _ALWAYS_NEW),
        Situation(),
    ),
    "sorn": (
        Car("SO15RNN", "Mazda", "MX-5", "Red", date(2015, 5, 22)),
        Situation(tax="sorn"),
    ),
    "tax_expired": (
        Car("DU15TAX", "Kia", "Ceed", "Grey", date(2015, 8, 17)),
        Situation(tax="past_due"),
    ),
    "untaxed": (
        Car("NO65TAX", "Citroën", "C1", "Blue", date(2015, 9, 8)),
        Situation(tax="untaxed"),
    ),
    "tax_unknown": (
        Car("WH12TAX", "Hyundai", "i20", "Black", date(2012, 8, 24)),
        Situation(tax="unknown"),
    ),
    "fined": (
        Car("FN15EDD", "BMW", "3 Series", "Black", date(2015, 6, 3)),
        Situation(fines="outstanding"),
    ),
    "fine_settled": (
        Car("PA16DUP", "Audi", "A3", "Grey", date(2016, 5, 11)),
        Situation(fines="settled"),
    ),
    "policy_only": (
        Car("PO12LCY", "Volvo", "V40", "Blue", date(2012, 4, 16)),
        Situation(is_listed=False),
    ),
}

UNKNOWN_REGISTRATION = "ZZ99ZZZ"
"""In no demo register: no plate of Great Britain begins with Z."""

CAST: dict[str, str] = {
    **{name: car.registration for name, (car, _) in _MEMBERS.items()},
    "unknown": UNKNOWN_REGISTRATION,
}
"""The part that a plate plays -> its registration."""


def cast_members(today: date) -> list[tuple[Car, Situation]]:
    """Return the cast as of `today`: only the new car has to be given a date."""
    new = today - timedelta(days=NEW_CAR_AGE_DAYS)
    return [
        (car._replace(first_registered=new) if car.first_registered == _ALWAYS_NEW else car, papers)
        for car, papers in _MEMBERS.values()
    ]
