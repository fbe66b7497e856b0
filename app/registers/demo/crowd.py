"""The other cars of the demo register: real models with invented plates."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random

from app.registers.demo.cast import CAST, Car, Papers

PLATES = 300
"""The number of plates in the whole register, with the cast."""
_AGE_YEARS_MAX = 15
_MODELS = {
    ("Audi", "A3"): 1996, ("BMW", "1 Series"): 2004, ("BMW", "3 Series"): 1982,
    ("Citroën", "C3"): 2002, ("Dacia", "Duster"): 2012, ("Fiat", "500"): 2008,
    ("Ford", "Kuga"): 2008, ("Ford", "Puma"): 2019, ("Ford", "Transit Custom"): 2012,
    ("Honda", "Civic"): 1973, ("Hyundai", "Tucson"): 2004, ("Kia", "Sportage"): 1995,
    ("MG", "ZS"): 2017, ("MINI", "Hatch"): 2001, ("Mercedes-Benz", "A-Class"): 1998,
    ("Nissan", "Juke"): 2010, ("Nissan", "Leaf"): 2011, ("Peugeot", "208"): 2012,
    ("Renault", "Clio"): 1991, ("Skoda", "Fabia"): 2000, ("Tesla", "Model 3"): 2019,
    ("Toyota", "Corolla"): 1968, ("Vauxhall", "Astra"): 1980, ("Vauxhall", "Corsa"): 1993,
    ("Volkswagen", "Golf"): 1974, ("Volkswagen", "Polo"): 1975, ("Volvo", "XC60"): 2008,
}  # fmt: skip
"""The first year in which each make and model was sold."""
_COLORS = {"Grey": 26, "Black": 20, "White": 17, "Blue": 17, "Silver": 10, "Red": 10}
_AREAS = "ABCDEFGHKLMNOPRSVWY"
_LETTERS = "BCDFGHJKLMNPRSTVWXY"
"""Letters without vowels, so that three random letters never make a word."""

# The percentage of cars with each state.
_INSURANCE = {"in_force": 83, "lapsed": 5, "overlapping": 4, "cancelled": 3, "future": 2}
_INSURANCE |= {"flag": 1, "uninsured": 1, "unknown": 1}
_MOT = {"valid": 92, "expired": 7, "unknown": 1}
_TAX = {"taxed": 88, "sorn": 4, "past_due": 4, "untaxed": 3, "unknown": 1}
_FINES = {"none": 88, "settled": 7, "owed": 5}
_SHARES = (_INSURANCE, _MOT, _TAX, _FINES)


def crowd(today: date, rng: Random) -> Iterator[tuple[Car, Papers]]:
    """Yield random cars that were first registered before this year, with their papers."""
    taken = set(CAST.values())
    while len(taken) < PLATES + 1:  # The plate `unknown` of the cast is in no register.
        age = timedelta(days=rng.randint(1, _AGE_YEARS_MAX * 365))
        first_registered = date(today.year, 1, 1) - age
        sold = [name for name, since in _MODELS.items() if since <= first_registered.year]
        car = Car(
            _plate(rng, first_registered), *rng.choice(sold), _drawn(rng, _COLORS), first_registered
        )
        insurance, mot, tax, fines = (_drawn(rng, each) for each in _SHARES)
        if car.registration not in taken:
            taken.add(car.registration)
            yield car, Papers(insurance, mot, tax, fines)


def _drawn(rng: Random, shares: dict[str, int]) -> str:
    return rng.choices(list(shares), list(shares.values()))[0]


def _plate(rng: Random, first_registered: date) -> str:
    """Return a plate such as AB24CDE. It has 24 from March 2024, and 74 from September 2024."""
    year, month = first_registered.year % 100, first_registered.month
    age = year + 50 if month >= 9 else year if month >= 3 else year + 49
    return (
        f"{rng.choice(_AREAS)}{rng.choice(_LETTERS)}{age:02}{''.join(rng.choices(_LETTERS, k=3))}"
    )
