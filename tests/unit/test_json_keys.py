"""Numbers of JSON in texts that are keys: another spelling would be another row."""

from app.storage.tables import FineRow, VehicleRow
from tests.rows import each_row
from tests.unit.register_files import outcome

POLICY = '{{"registration":"A1","validFrom":"2026-01-01","validTo":"2026-12-31",{}}}\n'


@each_row("number", ["1e5", "1E+06", "1.0", "12.50", "-0", "-0.0"])
@each_row("member", ["number", "insurer", "reference"])
def test_numbers_that_may_lack_digits(member, number) -> None:
    """An exponent, a fraction or `-0` may have been another text: the object is rejected."""
    if member == "reference":
        text = f'{{"registration":"A1","reference": {number} ,"amount":5}}\n'
    else:
        others = {"number": '"insurer":"X"', "insurer": '"number":"1"'}[member]
        text = POLICY.format(f'{others},"{member}":{number}')
    told = outcome(text)
    assert told == f"{member}: not digits only: '{'0' if number == '-0' else number}'"


@each_row("number", ["0", "7", "12345678901234567890123", "-5"])
def test_plain_integers_stay(number) -> None:
    """Their digits are all there, also beside other members with -0."""
    text = f'{{"registration":"A1","reference":{number},"amount":5,"issuedOn":"2026-01-01"}}\n'
    assert outcome(text) == FineRow("A1", number, "2026-01-01", 500, None, False)


def test_other_texts() -> None:
    """A model may be a number with a fraction: it is no key."""
    assert outcome('{"registration":"A1","model":1.5}\n') == VehicleRow("A1", model="1.5")
