"""The rows of the console's list: what lapses next, by asking every day."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.console.look_up_rows import SOON_DAYS, rows_of
from app.vehicles.compliance import judge
from app.vehicles.contradictions import Contradicted
from app.vehicles.facts import PolicyFacts, Record
from app.vehicles.periods import record_on
from app.vehicles.reader import FoundPlate

FIRST = date(2024, 2, 20)
DAYS = [(FIRST + timedelta(n)).isoformat() for n in range(45)]
CHECKS = ("insurance", "MOT", "road tax", "fines")


def maybe(values):
    return st.none() | values


a_day = st.sampled_from(DAYS)
policies = st.builds(
    lambda number, days, cancelled_on: PolicyFacts(
        "", number, min(days), max(days), None, cancelled_on, 0
    ),
    st.sampled_from("AB"),
    st.tuples(a_day, a_day),
    maybe(a_day),
)
records = st.builds(
    Record,
    st.just("AB12CDE"),
    maybe(st.booleans()),
    st.just(0),
    st.just(None),
    mot_expiry=maybe(a_day),
    mot_exempt=maybe(st.booleans()),
    first_registered=maybe(a_day.map(lambda day: f"2021{day[4:]}".replace("02-29", "02-28"))),
    tax_status=maybe(st.sampled_from(["taxed", "exempt", "sorn"])),
    tax_due=maybe(a_day),
    has_outstanding_fines=st.booleans(),
    mot_first_years=st.sampled_from([0, 3]),
    policies=st.lists(policies, max_size=4).map(tuple),
)


@given(records, st.sampled_from(DAYS[:15]))
def test_a_row_names_what_lapses_next_and_all_that_lapses_soon(record, day):
    """Of the checks that pass on the day: the first day each fails, by asking every day.

    A cover without a gap by several policies is one.
    """
    record = record_on(record, day)
    good = [n for n, verdict in enumerate(judge(record, day)) if verdict.is_good]
    is_any_good = good not in ([], [3])
    expected = []
    for last, each in zip(DAYS, [*DAYS[1:], "2099-12-31"], strict=True):
        then = judge(record_on(record, each), each)
        lapsed = [n for n in good if not then[n].is_good] if last >= day else []
        if lapsed:
            days = DAYS.index(last) - DAYS.index(day)
            expected.append((last, ", ".join(CHECKS[n] for n in lapsed), days))
            good = [n for n in good if n not in lapsed]
    (row,) = rows_of(
        [FoundPlate("ab12cde", "AB12CDE", record)], {"AB12CDE": Contradicted()}, day, None
    )
    assert row.answer is not None
    if expected:
        first, *later = expected
        assert row.answer.lapse == first
        assert row.answer.later == [each for each in later if each[2] <= SOON_DAYS]
    else:
        why = "no end is known" if is_any_good else "nothing is left to lapse"
        assert row.answer.lapse == why
        assert row.answer.later == []
