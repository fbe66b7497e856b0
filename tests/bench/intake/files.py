"""Register files of any size: reproducible, with rows in random order and unique keys."""

import random
from array import array
from itertools import islice, product
from pathlib import Path
from string import ascii_uppercase

from app.storage.tables import Kind

_YEAR_DAYS = 336
_DAYS = [
    f"{year}-{month:02}-{day:02}"
    for year, month, day in product(range(2005, 2028), range(1, 13), range(1, 29))
]
_STARTS = [f"{a}{b}{n:02}" for a, b, n in product(ascii_uppercase, ascii_uppercase, range(100))]
_ENDS = ["".join(letters) for letters in product(ascii_uppercase, repeat=3)]
_DIFFERENT_ROWS = 100_003
"""How many there are, their keys left aside."""
_ROWS_AT_ONCE = 10_000
# In the order of the tables' columns, so that a database can read the file directly.
_HEADERS = {
    Kind.VEHICLES: "registration,make,model,year,color,insured,motExpiry,motExempt,"
    "firstRegistered,taxStatus,taxDue,lastUpdated",
    Kind.POLICIES: "registration,insurer,number,validFrom,validTo,type,cancelledOn,lastUpdated",
}


def plate(number: int) -> str:
    """Return the plate of a vehicle, counted from 0."""
    return _STARTS[number % len(_STARTS)] + _ENDS[number // len(_STARTS)]


def write_file(path: Path, kind: Kind, rows: int) -> None:
    """Write native CSV of `rows` vehicles, or a policy for each; about 100 bytes per row."""
    chance = random.Random(kind.value)
    numbers = array("I", range(rows))
    chance.shuffle(numbers)
    rest = _vehicles(chance) if kind == Kind.VEHICLES else _policies(chance)
    left = iter(numbers)
    with open(path, "w") as file:
        file.write(_HEADERS[kind] + "\n")
        while some := list(islice(left, _ROWS_AT_ONCE)):
            file.write("".join([plate(n) + rest[n % _DIFFERENT_ROWS] for n in some]))


def _vehicles(chance: random.Random) -> list[str]:
    return [
        f",MAKE{n % 60},MODEL {n % 900},{1990 + n % 35},COLOUR {n % 10},,"
        f"{chance.choice(_DAYS)},false,{chance.choice(_DAYS)},taxed,{chance.choice(_DAYS)},{_moment(chance)}\n"
        for n in range(_DIFFERENT_ROWS)
    ]


def _policies(chance: random.Random) -> list[str]:
    starts = [chance.randrange(len(_DAYS) - _YEAR_DAYS) for _ in range(_DIFFERENT_ROWS)]
    return [
        f",Insurer {n % 40},POL-{chance.randrange(10**9):09},{_DAYS[start]},"
        f"{_DAYS[start + _YEAR_DAYS]},comprehensive,,{_moment(chance)}\n"
        for n, start in enumerate(starts)
    ]


def _moment(chance: random.Random) -> str:
    hour, minute, second = chance.randrange(24), chance.randrange(60), chance.randrange(60)
    return f"{chance.choice(_DAYS)}T{hour:02}:{minute:02}:{second:02}Z"
