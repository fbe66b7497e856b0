"""The register files of a normal day, from which all others are made.

2,000 vehicles; 1,600 policies of six insurers, for 1,560 of these vehicles; 600 fines. 5 % of the
policies have ended and 4 % are cancelled, 5 % of the MOTs have expired, and two of five fines are
outstanding. A row is a dict of texts with the names of native files.
"""

from datetime import date, timedelta

Rows = list[dict[str, str]]

VEHICLES, POLICIES, FINES = 2_000, 1_600, 600
_LETTERS = "ABCDEFGHJKLMNOPRSTUVWXYZ"
_MAKES = "FORD SEAT KIA BMW AUDI FIAT OPEL SKODA VOLVO TESLA DACIA HONDA".split()
_COLORS = "BLACK WHITE GREY BLUE RED SILVER GREEN".split()
_INSURERS = (*["ACME"] * 8, *["BOLT"] * 5, *["CREST"] * 3, *["DELTA"] * 2, "EAGLE", "FJORD")


def plate(number: int) -> str:
    """Return the plate of a vehicle; a thirteenth of all begin with the same letter."""
    scattered = number * 7_919 % 100_000
    return f"{_LETTERS[number % 24]}{_LETTERS[scattered % 23]}{scattered:05}"


def later(today: date, days: int) -> str:
    """Return the ISO date so many days after today; earlier if the number is negative."""
    return (today + timedelta(days=days)).isoformat()


def vehicles(today: date, count: int = VEHICLES) -> Rows:
    """Return vehicles; those without a policy have the plain flag `insured`."""
    return [
        {
            "registration": plate(number),
            "make": _MAKES[number % 12],
            "model": f"MODEL {number % 60}",
            "year": str(today.year - 2 - number % 20),
            "color": _COLORS[number % 7],
            "insured": "" if number < POLICIES else str(number % 10 > 0).lower(),
            "motExpiry": later(today, number * 37 % 365 - 18),
            "motExempt": str(number % 25 == 0).lower(),
            "firstRegistered": later(today, -(number * 53 % 7_000) - 1_200),
            "taxStatus": _tax_status(number),
            "taxDue": later(today, number * 59 % 365 - 7) if number % 20 else "",
        }
        for number in range(count)
    ]


def _tax_status(number: int) -> str:
    return {0: "exempt", 1: "sorn", 2: "untaxed"}.get(number % 40, "taxed")


def policies(today: date, count: int = POLICIES) -> Rows:
    """Return policies of a year; every fortieth vehicle has two of them."""
    rows = []
    for number in range(count):
        begins = -(number * 29 % 384)
        cancelled = later(today, begins // 2) if number % 25 == 0 else ""
        rows.append(
            {
                "registration": plate(number - 1 if number % 40 == 39 else number),
                "insurer": _INSURERS[number * 7 % 20],
                "number": f"P0{number * 7_919 % 1_000_000:06}",
                "validFrom": later(today, begins),
                "validTo": later(today, begins + 364),
                "type": ("comprehensive", "third party")[number % 3 == 0],
                "cancelledOn": cancelled,
            }
        )
    return rows


def five_years(today: date, count: int = 500) -> Rows:
    """Return the policies of so many vehicles for this year, then those of four years before.

    Each year brings another number.
    """
    own = [row for row in policies(today) if not row["cancelledOn"]][:count]
    return [
        row
        | {
            "number": f"{row['number']}-{year}",
            "validFrom": later(date.fromisoformat(row["validFrom"]), -365 * year),
            "validTo": later(date.fromisoformat(row["validTo"]), -365 * year),
        }
        for year in range(5)
        for row in own
    ]


def fines(today: date, count: int = FINES) -> Rows:
    """Return fines; three of four vehicles that have one have only that one."""
    return [
        {
            "registration": plate(number * 3 if number % 4 else number * 3 + 3),
            "reference": f"F{number * 104_729 % 10_000_000:07}",
            "issuedOn": later(today, -(number * 11 % 700) - 1),
            "amount": f"{20 + number % 50 * 5}.00",
            "currency": "EUR",
            "settledOn": later(today, -1) if number % 5 < 3 else "",
        }
        for number in range(count)
    ]
