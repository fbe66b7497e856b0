"""What the demo register is made of: models, insurers, plates and how often each case occurs.

Makes, models and their years of sale are real; insurers are invented, and none may be a
company that exists.
"""

from typing import NamedTuple

YEARS_OF_SALE_OPEN = 9999


class ModelOnSale(NamedTuple):
    """A model, and the first and last calendar year in which it was sold new."""

    make: str
    model: str
    first_year: int
    last_year: int = YEARS_OF_SALE_OPEN


MODELS = (
    ModelOnSale("Audi", "A3", 1996),
    ModelOnSale("Audi", "A4", 1995),
    ModelOnSale("Audi", "Q3", 2011),
    ModelOnSale("BMW", "1 Series", 2004),
    ModelOnSale("BMW", "3 Series", 1982),
    ModelOnSale("BMW", "X3", 2004),
    ModelOnSale("BMW", "i3", 2013, 2022),
    ModelOnSale("Citroën", "C1", 2005, 2022),
    ModelOnSale("Citroën", "C3", 2002),
    ModelOnSale("Citroën", "Berlingo", 1998),
    ModelOnSale("Dacia", "Duster", 2012),
    ModelOnSale("Dacia", "Sandero", 2013),
    ModelOnSale("Fiat", "500", 2008),
    ModelOnSale("Fiat", "Panda", 1983),
    ModelOnSale("Ford", "Escort", 1968, 2000),
    ModelOnSale("Ford", "Fiesta", 1976, 2023),
    ModelOnSale("Ford", "Focus", 1998, 2025),
    ModelOnSale("Ford", "Kuga", 2008),
    ModelOnSale("Ford", "Mondeo", 1993, 2022),
    ModelOnSale("Ford", "Puma", 2019),
    ModelOnSale("Ford", "Transit Custom", 2012),
    ModelOnSale("Honda", "Civic", 1973),
    ModelOnSale("Honda", "CR-V", 1997),
    ModelOnSale("Honda", "Jazz", 2002),
    ModelOnSale("Hyundai", "i10", 2008),
    ModelOnSale("Hyundai", "i20", 2009),
    ModelOnSale("Hyundai", "Kona", 2017),
    ModelOnSale("Hyundai", "Tucson", 2004),
    ModelOnSale("Jaguar", "XF", 2008, 2024),
    ModelOnSale("Kia", "Ceed", 2007),
    ModelOnSale("Kia", "Picanto", 2004),
    ModelOnSale("Kia", "Sportage", 1995),
    ModelOnSale("Land Rover", "Discovery", 1989),
    ModelOnSale("Land Rover", "Freelander", 1997, 2015),
    ModelOnSale("Mazda", "CX-5", 2012),
    ModelOnSale("Mazda", "MX-5", 1990),
    ModelOnSale("Mercedes-Benz", "A-Class", 1998),
    ModelOnSale("Mercedes-Benz", "C-Class", 1993),
    ModelOnSale("Mercedes-Benz", "Sprinter", 1995),
    ModelOnSale("MG", "MG4 EV", 2022),
    ModelOnSale("MG", "ZS", 2017),
    ModelOnSale("MINI", "Countryman", 2010),
    ModelOnSale("MINI", "Hatch", 2001),
    ModelOnSale("Nissan", "Juke", 2010),
    ModelOnSale("Nissan", "Leaf", 2011),
    ModelOnSale("Nissan", "Micra", 1983, 2023),
    ModelOnSale("Nissan", "Qashqai", 2007),
    ModelOnSale("Peugeot", "107", 2005, 2014),
    ModelOnSale("Peugeot", "208", 2012),
    ModelOnSale("Peugeot", "3008", 2009),
    ModelOnSale("Peugeot", "Partner", 1996),
    ModelOnSale("Renault", "Captur", 2013),
    ModelOnSale("Renault", "Clio", 1991),
    ModelOnSale("Renault", "Megane", 1996, 2024),
    ModelOnSale("SEAT", "Ibiza", 1985),
    ModelOnSale("SEAT", "Leon", 1999),
    ModelOnSale("Skoda", "Fabia", 2000),
    ModelOnSale("Skoda", "Octavia", 1998),
    ModelOnSale("Skoda", "Yeti", 2009, 2017),
    ModelOnSale("Suzuki", "Swift", 1985),
    ModelOnSale("Tesla", "Model 3", 2019),
    ModelOnSale("Toyota", "Aygo", 2005, 2021),
    ModelOnSale("Toyota", "Corolla", 1968),
    ModelOnSale("Toyota", "Prius", 2000),
    ModelOnSale("Toyota", "Yaris", 1999),
    ModelOnSale("Vauxhall", "Astra", 1980),
    ModelOnSale("Vauxhall", "Corsa", 1993),
    ModelOnSale("Vauxhall", "Insignia", 2008, 2022),
    ModelOnSale("Vauxhall", "Mokka", 2012),
    ModelOnSale("Vauxhall", "Vivaro", 2001),
    ModelOnSale("Volkswagen", "Golf", 1974),
    ModelOnSale("Volkswagen", "Passat", 1973),
    ModelOnSale("Volkswagen", "Polo", 1975),
    ModelOnSale("Volkswagen", "Tiguan", 2008),
    ModelOnSale("Volkswagen", "Transporter", 1950),
    ModelOnSale("Volvo", "V40", 1995, 2019),
    ModelOnSale("Volvo", "XC60", 2008),
)
"""What drives to work, and fills the years until it is a classic."""

CLASSICS = (
    ModelOnSale("Austin", "Mini", 1980, 1988),
    ModelOnSale("Ford", "Anglia", 1959, 1967),
    ModelOnSale("Ford", "Capri", 1969, 1986),
    ModelOnSale("Ford", "Cortina", 1962, 1982),
    ModelOnSale("Jaguar", "E-Type", 1961, 1974),
    ModelOnSale("Land Rover", "Series III", 1971, 1985),
    ModelOnSale("MG", "MGB", 1962, 1980),
    ModelOnSale("MG", "Midget", 1961, 1979),
    ModelOnSale("Morris", "Minor", 1948, 1971),
    ModelOnSale("Rover", "P6", 1963, 1977),
    ModelOnSale("Triumph", "Spitfire", 1962, 1980),
    ModelOnSale("Triumph", "Stag", 1970, 1977),
    ModelOnSale("Volkswagen", "Beetle", 1953, 1978),
)

YEARS_UNTIL_CLASSIC = 40

AGE_SHARES = {(0, 3): 17, (3, 10): 45, (10, 17): 26, (17, 26): 7, (26, 40): 2, (40, 64): 3}
"""Ages in years, from and below, when the year began, and their share in a hundred."""

COLORS = {
    "Grey": 25,
    "Black": 20,
    "White": 17,
    "Blue": 16,
    "Silver": 9,
    "Red": 8,
    "Green": 3,
    "Orange": 1,
    "Yellow": 1,
}
"""Body colour and its share in a hundred."""


class Insurer(NamedTuple):
    """An invented insurer; in `number`, # is a digit and YY the year the term begins."""

    name: str
    number: str


INSURERS = (
    Insurer("Brackenmoor Mutual", "BM-########"),
    Insurer("Hollowbank Motor Policies", "HMP/YY/######"),
    Insurer("Larkmere General", "LG YY#### ####"),
    Insurer("Ottersea Direct", "OTD#########"),
    Insurer("Pennyfold Assurance", "PFA-MC-#######"),
    Insurer("Quillmarsh Insurance", "YY-Q-######-##"),
    Insurer("Thistlecote Motor", "TCM########P"),
    Insurer("Wrenhithe & Daughters", "WD/#####/YY"),
)

POLICY_TYPES = {
    "comprehensive": 87,
    "third_party_fire_theft": 8,
    "third_party": 5,
}

INSURANCE_SHARES = {
    "in_force": 820,
    "lapsed": 60,
    "overlapping": 40,
    "cancelled": 30,
    "future": 20,
    "insured_flag": 10,
    "uninsured": 10,
    "insurance_unknown": 10,
}
"""Share in a thousand vehicles of each thing that the policies may say (D20)."""

MOT_SHARES = {"valid": 930, "expired": 60, "unknown": 10}
"""Of those old enough for a test and too young to be exempt."""

TAX_SHARES = {"taxed": 890, "sorn": 40, "past_due": 30, "untaxed": 25, "unknown": 15}
"""Of those not exempt as historic vehicles."""

FINED_SHARES = {"none": 900, "settled": 60, "outstanding": 40}

FINE_AMOUNTS = ("25.00", "35.00", "50.00", "70.00", "80.00", "100.00", "130.00", "160.00")

FINE_ISSUERS = ("BK", "CM", "HV", "LN", "MX", "TY", "WS")

CURRENT_AREAS_FIRST = "ABCDEFGHKLMNOPRSVWY"
CURRENT_AREAS_SECOND = "ABCDEFGHJKLMNOPRSTUVWXY"
"""Letters of the area tag of plates since September 2001."""

SERIAL_LETTERS = "BCDFGHJKLMNPRSTVWXY"
"""No vowels: three random letters must not make a word."""

PREFIX_LETTERS = (
    (1983, 8, "A"),
    (1984, 8, "B"),
    (1985, 8, "C"),
    (1986, 8, "D"),
    (1987, 8, "E"),
    (1988, 8, "F"),
    (1989, 8, "G"),
    (1990, 8, "H"),
    (1991, 8, "J"),
    (1992, 8, "K"),
    (1993, 8, "L"),
    (1994, 8, "M"),
    (1995, 8, "N"),
    (1996, 8, "P"),
    (1997, 8, "R"),
    (1998, 8, "S"),
    (1999, 3, "T"),
    (1999, 9, "V"),
    (2000, 3, "W"),
    (2000, 9, "X"),
    (2001, 3, "Y"),
)
"""Year and month from which a plate such as `P123 ABC` began with the letter."""

SUFFIX_LETTERS = (
    (1963, 2, "A"),
    (1964, 1, "B"),
    (1965, 1, "C"),
    (1966, 1, "D"),
    (1967, 1, "E"),
    (1967, 8, "F"),
    (1968, 8, "G"),
    (1969, 8, "H"),
    (1970, 8, "J"),
    (1971, 8, "K"),
    (1972, 8, "L"),
    (1973, 8, "M"),
    (1974, 8, "N"),
    (1975, 8, "P"),
    (1976, 8, "R"),
    (1977, 8, "S"),
    (1978, 8, "T"),
    (1979, 8, "V"),
    (1980, 8, "W"),
    (1981, 8, "X"),
    (1982, 8, "Y"),
)
"""Year and month from which a plate such as `ABC 123K` ended with the letter."""

NORTHERN_IRISH_CODES = ("AZ", "BZ", "CZ", "DZ", "EZ", "FZ", "GZ", "HZ", "JZ", "KZ", "LZ", "XZ")
"""Codes of Northern Ireland, which never shows the year: `NKZ 1234`."""
