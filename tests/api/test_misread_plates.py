"""A misread plate finds the plate that was meant: random British and Dutch plates (D175)."""

import random
from collections import Counter, defaultdict

import pytest

from app.accounts.administration import set_plan
from tests.enquiry import set_suggest
from tests.unit.test_plate_variants import SHAPES as GROUPS

BRITISH = "LLDDLLL LDDDLLL LLLDDDL".split(), "ABCDEFGHJKLMNOPRSTUVWXYZ"
DUTCH = (
    "LLDDDD DDDDLL DDLLDD LLDDLL LLLLDD DDLLLL DDLLLD DLLLDD LLDDDL LDDDLL LLLDDL DLLDDD".split(),
    "BDFGHJKLMNOPRSTVWXZ",
)
CHANGED = {c: group.replace(c, "") for group in GROUPS for c in group}


def misread(chance, plate, changes=1):
    """Return a plate with some of its confusable characters taken for others."""
    letters = list(plate)
    places = [place for place, c in enumerate(plate) if c in CHANGED]
    for place in chance.sample(places, min(changes, len(places))):
        letters[place] = chance.choice(CHANGED[letters[place]])
    return "".join(letters)


def random_plates(chance, count):
    """Return British and Dutch plates in equal parts, all with a confusable character."""
    made: dict[str, None] = {}
    while len(made) < count:
        forms, letters = (BRITISH, DUTCH)[len(made) % 2]
        form = chance.choice(forms)
        plate = "".join(chance.choice(letters if c == "L" else "0123456789") for c in form)
        if not CHANGED.keys().isdisjoint(plate):
            made[plate] = None
    return list(made)


def shape(plate):
    """Return a text that all misreadings of a plate have in common."""
    return "".join(next((group for group in GROUPS if c in group), c) for c in plate)


def distance(one, other):
    return sum(a != b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.system_long)])
def test_a_misread_plate_is_suggested(world, alice, count):
    """With one confusion it is there if at most ten are known; all answers equal a model's."""
    chance = random.Random(31)
    real = random_plates(chance, count)
    # Some have many neighbours, which hide them if there are more than ten.
    crowded = {misread(chance, plate, 2) for plate in real[: count // 10] for _ in range(60)}
    alike = defaultdict(list)
    for plate in {*real, *crowded}:
        alike[shape(plate)].append(plate)
    known = sorted({*real, *crowded})
    world.load([{"registration": plate, "make": f"M-{plate}"} for plate in known])
    limits = {"requests": 1_000_000, "window_seconds": 60, "bulk_max": 1, "domains_max": 1}
    set_plan(world.engine, "standard", limits)
    set_suggest(world.engine, "standard", "on")
    outcomes: Counter[str] = Counter()
    for plate in real:
        seen = misread(chance, plate)
        answer = alice.get(f"/v1/vehicle/{seen}/insurance")
        if seen in alike[shape(seen)]:
            assert (answer.status_int, answer.json["registration"]) == (200, seen)
            outcomes["known itself"] += 1
            continue
        near = sorted(other for other in alike[shape(seen)] if distance(other, seen) == 1)
        assert answer.status_int == 404
        assert answer.json["suggestions"] == [
            {"registration": each, "make": f"M-{each}", "model": None, "color": None}
            for each in near[:10]
        ]
        assert plate in near
        outcomes["suggested" if plate in near[:10] else "hidden by more than ten"] += 1
        assert plate in near[:10] or len(near) > 10
    assert outcomes["suggested"] > 0.8 * count
    assert outcomes["known itself"] > 0
