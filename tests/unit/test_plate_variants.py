"""Which plates an unknown one may be a misreading of (D175)."""

from itertools import product

import pytest

from app.vehicles.facts import Record
from app.vehicles.reader import FoundPlate
from app.vehicles.registration import canonical_registration
from app.vehicles.suggestions import SUGGESTED_MAX, suggestions, variants_of
from tests.rows import each_row

SHAPES = ("0ODQ", "1I", "2Z", "5S", "8B", "6G")
ACCENTS = ("AÄÅ", "OÖØ", "UÜ")


def model(plate, changes):
    """Return all texts of the same length that differ in so many confusable characters."""
    groups = SHAPES + ACCENTS * (changes == 1)
    choices = ["".join({c, *"".join(g for g in groups if c in g)}) for c in plate]
    texts = ("".join(each) for each in product(*choices))
    return sorted(t for t in texts if sum(a != b for a, b in zip(t, plate, strict=True)) == changes)


@each_row(
    "plate",
    ["AB12CDE", "OL0", "SO15RNN", "Q", "ACHJ34", "ŁÓDŹ1", "8BJ8", "1234567"],
)
def test_variants_are_those_of_a_model(plate):
    """One change before two, each in alphabetical order, every one once, never the plate itself."""
    assert variants_of(plate, 1) == model(plate, 1)
    assert variants_of(plate, 2) == model(plate, 1) + model(plate, 2)


@each_row(
    ("plate", "others"),
    [
        ("FUSAB123", ["FÜSAB123"]),
        ("FÜSÅB1", ["FUSAB1"]),
        ("AA1234BB", ["\u0410\u04101234\u0412\u0412", "\u0391\u03911234\u0392\u0392"]),
        ("\u0410\u04101234\u0412\u0412", ["AA1234BB", "\u0391\u03911234\u0392\u0392"]),
        ("\u0391\u0391\u03961", ["AAZ1"]),
        ("\u0410Z1", ["AZ1"]),
        # Nothing else has its letters.
        ("\u04161", []),
    ],
)
def test_the_plate_in_other_letters(plate, others):
    """A plate that a camera or a program wrote in plain letters, or in those of another script."""
    variants = variants_of(plate, 1)
    assert [each for each in others if each not in variants] == []
    assert plate not in variants
    assert {*variants}.isdisjoint({"\u0410Z1", "A\u04101234BB"})
    assert [canonical_registration(each) for each in variants] == variants


@pytest.mark.parametrize(("changes_max", "count"), [(1, 62), (2, 62 + 594)])
def test_twelve_confusable_characters_are_the_most(changes_max, count):
    """A registration has 12 characters, so the number of variants is bounded."""
    variants = variants_of("O" * 12, changes_max)
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
        return [FoundPlate(each, each, records.get(each)) for each in asked]


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
    known = Known("CLF")
    assert suggested(["CLW", "ŁW"], 2, known) == {"CLW": [], "ŁW": []}
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
