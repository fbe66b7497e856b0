"""Which plates an unknown one may be a misreading of (D175)."""

from itertools import product

import pytest

from app.vehicles.facts import Record
from app.vehicles.reader import Found
from app.vehicles.registration import canonical_registration
from app.vehicles.suggestions import SUGGESTED_MAX, suggestions, variants_of
from tests.rows import each_row

GROUPS = ("0ODQ", "1I", "2Z", "5S", "8B", "6G")


def model(plate, changes):
    """Return all texts of the same length that differ in so many confusable characters."""
    choices = [next((group for group in GROUPS if c in group), c) for c in plate]
    texts = ("".join(each) for each in product(*choices))
    return sorted(t for t in texts if sum(a != b for a, b in zip(t, plate, strict=True)) == changes)


@each_row(
    "plate",
    ["AB12CDE", "O0", "SO15RNN", "Q", "ACHJ34", "ŁÓDŹ1", "\u041c\u041e0", "8BB8", "1234567"],
)
def test_variants_are_those_of_a_model(plate):
    """One change before two, each in alphabetical order, every one once, never the plate itself."""
    assert variants_of(plate, 1) == model(plate, 1)
    assert variants_of(plate, 2) == model(plate, 1) + model(plate, 2)


@pytest.mark.parametrize(("changes_max", "count"), [(1, 36), (2, 36 + 594)])
def test_twelve_confusable_characters_are_the_most(changes_max, count):
    """A registration has 12 characters, so the number of variants is bounded."""
    variants = variants_of("0ODQ" * 3, changes_max)
    assert len(set(variants)) == len(variants) == count
    assert [canonical_registration(each) for each in variants] == variants


class Known:
    """A look-up that knows some plates, and notes what it was asked."""

    def __init__(self, *plates):
        self.calls = []
        self._plates = plates

    def __call__(self, asked):
        self.calls.append(list(asked))
        records = {each: Record(each, None, 0, None) for each in self._plates}
        return [Found(each, each, records.get(each)) for each in asked]


def suggested(unknown, changes_max, known):
    found = suggestions(unknown, changes_max, known)
    return {plate: [each.registration for each in some] for plate, some in found.items()}


def test_all_plates_are_looked_up_at_once():
    """Each variant once, also if two plates have it; each plate gets its own."""
    known = Known("A10", "AIO", "AB")
    assert suggested(["A1O", "AI0", "A8"], 1, known) == {
        "A1O": ["A10", "AIO"],
        "AI0": ["A10", "AIO"],
        "A8": ["AB"],
    }
    (asked,) = known.calls
    assert len(set(asked)) == len(asked)


def test_without_a_confusable_character_nothing_is_looked_up():
    """Most plates have one; the others cost nothing."""
    known = Known("CAR")
    assert suggested(["CAT", "ŁW"], 2, known) == {"CAT": [], "ŁW": []}
    assert suggested([], 2, known) == {}
    assert known.calls == []


def test_at_most_ten_are_suggested():
    """The first ten: differences of one character, then by alphabet."""
    plate = "5" * 12
    known = Known(*variants_of(plate, 2))
    assert suggested([plate], 2, known)[plate] == variants_of(plate, 1)[:SUGGESTED_MAX]
    far = Known(*variants_of(plate, 2)[11:])
    assert suggested([plate], 2, far)[plate] == [
        variants_of(plate, 1)[-1],
        *sorted(set(variants_of(plate, 2)) - set(variants_of(plate, 1)))[: SUGGESTED_MAX - 1],
    ]
