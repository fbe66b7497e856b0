"""What the console says is missing where no register knows an outcome (D198)."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.clock import shifted_day
from app.console.look_up_missing import missing_on
from app.console.look_up_texts import CHECKS
from app.vehicles.compliance import judge
from app.vehicles.periods import record_on
from tests.rows import each_row
from tests.unit.test_unknown import TODAY, policy, record, vehicle

TOMORROW, BEFORE, LONG_AGO = shifted_day(TODAY, 1), shifted_day(TODAY, -1), "2010-03-01"
ENDED, BEGINS = policy("2026-01-01", "2026-05-31"), policy("2026-07-01", "2027-06-30")
CANCELLED = policy("2026-01-01", "2026-12-31", "2026-03-01")
NO_POLICY, NOT_COMPLETE = "no register knows a policy", "no register is said to hold every policy"
SINCE = "rdw says {}, known since 10 January 2026; nothing is known for 1 March 2010"
ONLY_TODAY = "rdw says {}, known for today only; nothing is known for 16 June 2026"


@each_row(
    ("rows", "complete", "day", "expected"),
    [
        ([vehicle()], (), TODAY, [NO_POLICY, NOT_COMPLETE]),
        ([vehicle(), ENDED], (), TODAY, ["policy P1 ended on 31 May 2026", NOT_COMPLETE]),
        ([vehicle(), BEGINS], (), TODAY, ["policy P1 begins on 1 July 2026", NOT_COMPLETE]),
        ([CANCELLED], (), TODAY, ["policy P1 was cancelled on 1 March 2026", NOT_COMPLETE]),
        (
            [vehicle(insured=True), ENDED],
            *(("rdw",), TODAY),
            ["policy P1 ended on 31 May 2026", "but rdw says insured"],
        ),
        ([vehicle(insured=True)], (), LONG_AGO, [SINCE.format("insured")]),
        ([vehicle(insured=False)], ("rdw",), LONG_AGO, [SINCE.format("not insured")]),
        ([vehicle(insured=True)], (), TOMORROW, [ONLY_TODAY.format("insured")]),
        (
            *([vehicle()], ("rdw",), LONG_AGO),
            [NO_POLICY, "rdw holds every policy of today; nothing is known for 1 March 2010"],
        ),
    ],
)
def test_insurance(rows, complete, day, expected):
    """The policy that comes closest, what a register says without a date, or what is incomplete."""
    found = missing_on(record(*[("rdw", each) for each in rows], day=day, complete=complete), day)
    assert found["insuranceValid"] == expected


@each_row(
    ("check", "values", "day", "expected"),
    [
        ("motValid", {}, TODAY, "no register knows an expiry"),
        ("motValid", {"mot_exempt": True}, LONG_AGO, SINCE.format("exempt")),
        ("motValid", {"mot_exempt": True}, TOMORROW, ONLY_TODAY.format("exempt")),
        (
            *("motValid", {"mot_expiry": "2027-03-01"}, LONG_AGO),
            SINCE.format("valid until 1 March 2027"),
        ),
        ("roadTaxPaid", {}, TODAY, "no register knows a status"),
        ("roadTaxPaid", {"tax_status": "taxed"}, TOMORROW, ONLY_TODAY.format("taxed")),
        ("roadTaxPaid", {"tax_status": "sorn"}, LONG_AGO, SINCE.format("SORN")),
        (
            *("roadTaxPaid", {"tax_status": "taxed", "tax_due": "2027-03-01"}, LONG_AGO),
            SINCE.format("taxed until 1 March 2027"),
        ),
        (
            *("roadTaxPaid", {"tax_status": "untaxed", "tax_due": "2026-03-01"}, LONG_AGO),
            SINCE.format("untaxed"),
        ),
    ],
)
def test_papers(check, values, day, expected):
    """What a register says, and for which days that is known."""
    assert missing_on(record(("rdw", vehicle(**values)), day=day), day)[check] == [expected]


def test_fines():
    """They are missing if no register has any."""
    assert missing_on(record(("rdw", vehicle())), TODAY).keys() >= {"motValid"}
    assert "noOutstandingFines" not in missing_on(record(("rdw", vehicle())), TODAY)
    found = missing_on(record(("rdw", vehicle()), has_fines=False), TODAY)
    assert found["noOutstandingFines"] == ["no register has fines"]


def test_nothing_is_missing_by_the_rule_of_the_first_release():
    """There an unknown outcome is a failure."""
    assert missing_on(record(("rdw", vehicle())).without_basis(), TODAY) == {}


DAYS = [(date.fromisoformat(TODAY) + timedelta(n)).isoformat() for n in range(-4, 5)]
a_day, maybe = st.sampled_from(DAYS), st.none() | st.booleans()
vehicles = st.builds(
    vehicle,
    a_day,
    insured=maybe,
    mot_exempt=maybe,
    mot_expiry=st.none() | a_day,
    first_registered=st.none() | a_day,
    tax_status=st.sampled_from([None, "taxed", "exempt", "sorn", "untaxed", "?"]),
    tax_due=st.none() | a_day,
)
policies = st.builds(
    lambda days, cancelled: policy(min(days), max(days), cancelled),
    st.tuples(a_day, a_day),
    st.none() | a_day,
)
registers = st.sampled_from(["rdw", "mid"])
held = st.tuples(
    st.lists(vehicles, min_size=1, max_size=2).map(
        lambda its: list(zip(("rdw", "mid"), its, strict=False))
    ),
    st.lists(st.tuples(registers, policies), max_size=2),
)


@given(held, st.sets(registers), a_day, a_day, st.sampled_from([0, 3]), st.booleans())
def test_each_check_that_is_not_known_says_what_is_missing(
    rows, complete, asked, day, years, has_fines
):
    """Also of a later day of a period; what is known says nothing."""
    asked, day = min(asked, day), max(asked, day)
    found = record(
        *rows[0], *rows[1], day=asked, complete=tuple(complete), has_fines=has_fines, years=years
    )
    missing = missing_on(found, day)
    verdicts = dict(zip(CHECKS, judge(record_on(found, day), day), strict=True))
    assert set(missing) == {check for check, verdict in verdicts.items() if not verdict.is_known}
    assert all(map(all, missing.values()))
    assert all(missing.values())
