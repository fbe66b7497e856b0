"""What a load changed, in words: short for tables, complete for pages."""

from app.registers.applying.answers import ANSWERS, Turned
from app.registers.change import INSURERS_MAX, LoadChange, MemberChange
from app.registers.change_words import brief, lines, sections
from tests.rows import each_row

NATIONAL = 40_000_000


def lost(name, count, held=4_000, **counts):
    """Return a change by which plates lose an answer."""
    return LoadChange(held=(held, held), answers={name: Turned(0, count)}, **counts)


@each_row(
    ("change", "text"),
    [
        (LoadChange(), "no change"),
        (LoadChange(held=(9, 9)), "no change"),
        (LoadChange(held=(4_000, 3_692), added=12, removed=320), "+12 -320"),
        (LoadChange(held=(9_000, 9_000), updated=8_000), "8,000 changed"),
        (LoadChange(held=(0, NATIONAL), added=NATIONAL), "+40,000,000"),
        (LoadChange(held=(0, 9), added=9, answers={"insured": Turned(9, 0)}), "+9"),
        (lost("insured", 960, removed=960), "-960, 960 lose cover"),
        (lost("insured", 40, updated=40), "40 changed"),
        (lost("insured", 41, updated=41), "41 changed, 41 lose cover"),
        (lost("insured", 9, held=9, removed=9), "-9, 9 lose cover"),
        (lost("mot", 3, held=5, updated=3), "3 changed, 3 lose MOT"),
        (lost("mot", 2, held=3, updated=2), "2 changed"),
        (lost("insured", NATIONAL, held=NATIONAL, updated=1), "1 changed, 40,000,000 lose cover"),
        (LoadChange(held=(100, 100), updated=50, moved=60), "50 changed, 60 numbers moved"),
        (
            LoadChange(
                held=(4_000, 0), removed=4_000, answers=dict.fromkeys(ANSWERS, Turned(0, 4_000))
            ),
            "-4,000, 4,000 lose cover, 4,000 lose MOT",
        ),
        (
            LoadChange(held=(100, 100), updated=50, answers={"fines": Turned(50, 0)}),
            "50 changed, 50 pass on fines",
        ),
    ],
)
def test_the_short_form_names_only_what_is_unusual(change, text):
    """Rows are always counted; effects on answers if they are about over 1 % of the register."""
    assert str(brief(change)) == text


def test_a_disaster_is_told_from_a_usual_night():
    """Over 4 % that become worse are marked; those that become better are not."""
    assert brief(lost("insured", 200)).is_bad
    assert not brief(lost("insured", 150)).is_bad
    assert not brief(lost("mot", 200, day_sooner={"mot": 60})).is_bad
    better = LoadChange(held=(4_000, 4_000), answers={"insured": Turned(960, 0)})
    assert brief(better).effects == brief(better).gains == ("960 gain cover",)
    assert not brief(better).is_bad
    assert brief(lost("insured", 200)).gains == ()


def test_several_loads_have_one_short_form():
    """Their rows are added up; the largest effects of all are named."""
    first = LoadChange(held=(10, 10), added=1, updated=2, answers={"mot": Turned(0, 10)})
    usual = LoadChange(held=(9_000, 9_001), added=3, removed=2, answers={"mot": Turned(0, 11)})
    assert str(brief(first, usual)) == "+4 -2, 2 changed, 10 lose MOT"
    assert str(brief()) == "no change"


def test_the_short_form_quotes_no_value():
    """SEC: alerts and logs show it."""
    change = lost("insured", 960, insurers={"CANARY": Turned(0, 960)})
    assert "CANARY" not in str(brief(change))


def test_the_full_list_has_every_count():
    """Also insurers, those first that most plates left, and the members with both sides."""
    change = LoadChange(
        day="2026-03-01",
        held=(4_000, 3_692),
        in_force=(3_900, 3_000),
        added=12,
        removed=320,
        updated=8,
        plates=340,
        left=300,
        moved=20,
        answers={"insured": Turned(5, 310)},
        insurers={"": Turned(1, 2), "B": Turned(3, 4), "A": Turned(5, 6)},
        members={
            "number": MemberChange(known=(4_000, 3_692), values=(1_000, 999), had=9, lost=1),
            "validTo": MemberChange(known=(1, 2), values=(1, 1), gained=3, changed=4, misplaced=5),
            "motExpiry": MemberChange(changed=7, day_sooner=6),
            "type": MemberChange(),
        },
    )
    assert lines(change) == [
        "+12 -320, 8 changed, 310 lose cover",
        "rows: 3,692, before 4,000: 12 added, 320 removed, 8 changed",
        "in force on 2026-03-01: 3,000, before 3,900",
        "plates: 340 with other rows, on which answers depend",
        "plates that left: 300 without a row in force here any more",
        "numbers moved: 20 to another plate",
        "insured: 5 gain cover, 310 lose cover",
        "insurer A: plates: 5 gained, 6 without cover now",
        "insurer B: plates: 3 gained, 4 without cover now",
        "other or unknown insurers: plates: 1 gained, 2 without cover now",
        "number: rows with a value: 3,692, before 4,000; "
        "different values: 999, before 1,000 or more; 1 lost",
        "validTo: rows with a value: 2, before 1; different values: 1, before 1; "
        "3 gained; 4 changed; 5 moved back, or over 20 years away",
        "motExpiry: rows with a value: 0, before 0; different values: 0, before 0; "
        "7 changed; 6 moved back by one day",
    ]


def test_a_merge_counts_the_rows_that_it_touched():
    """Its counts must not read as if they were of the whole register."""
    change = LoadChange(held=(900, 900), in_force=(9, 0), members={"make": MemberChange((9, 0))})
    told = lines(change, "merge")
    assert "touched rows in force: 0, before 9" in told
    assert any(line.startswith("make: touched rows with a value: 0, before 9") for line in told)


def test_every_answer_has_its_words():
    """None of the answers that are counted is left out."""
    change = LoadChange(held=(1, 1), answers=dict.fromkeys(ANSWERS, Turned(1, 2)))
    (answers,) = [each.lines for each in sections(change) if each.title == "Answers"]
    assert [name for name, _ in answers] == list(ANSWERS)


def test_names_of_insurers_stay_on_their_line():
    """SEC: others choose them, and they are written to terminals."""
    insurers = {f"X\x1b[2J\n{number}": Turned(1, 0) for number in range(INSURERS_MAX)}
    told = [line for line in lines(LoadChange(insurers=insurers)) if line.startswith("insurer ")]
    assert len(told) == INSURERS_MAX
    assert all(line.isprintable() for line in told)


def test_a_first_load_says_that_no_rule_applies():
    """Only a person can tell whether it is damaged."""
    first, second = lines(LoadChange(held=(0, 9))), lines(LoadChange(held=(9, 9)))
    assert [line for line in first if "nothing to compare with" in line]
    assert not [line for line in second if "nothing to compare with" in line]


def test_members_that_are_as_before_are_left_out():
    """A usual night has few lines."""
    same, other = MemberChange((9, 9), (2, 2), 9), MemberChange((9, 8), (2, 2), 9, lost=1)
    told = lines(LoadChange(held=(9, 9), members={"make": same, "model": other}))
    assert [line.split(":")[0] for line in told if "different values" in line] == ["model"]
