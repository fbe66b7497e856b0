"""Whether a vehicle is road-legal on a day: four checks, with a reason for each (D22)."""

import msgspec
import pytest
from msgspec.structs import replace

from app.vehicles.answer_shapes import FourChecks
from app.vehicles.answers import compliance_answer
from app.vehicles.compliance import TAX_STATUSES, judge
from app.vehicles.facts import PolicyFacts, Record
from tests.contract.answers import document
from tests.rows import each_row

DAY = "2025-07-01"
POLICY = PolicyFacts("", "P-1", "2025-01-01", "2025-12-31", None, None, 0)
LEGAL = Record(
    registration="AB12CDE",
    make="Ford",
    model="Focus",
    year=2021,
    color="Blue",
    insured=None,
    mot_expiry="2026-01-31",
    mot_exempt=None,
    first_registered=None,
    tax_status="taxed",
    tax_due="2026-02-28",
    updated=0,
    has_outstanding_fines=False,
    policy=POLICY,
)


def reason(check, day=DAY, first_years=0, **different):
    """Return the reason of one check, for a legal vehicle with a few facts changed."""
    record = replace(LEGAL, mot_first_years=first_years, **different)
    return getattr(judge(record, day), check).reason


def members(explain=False, **different):
    """Return the compliance record of a legal vehicle with a few facts changed."""
    judgement = judge(replace(LEGAL, **different), DAY)
    answer = compliance_answer("AB12CDE", judgement, explain=explain, checked_at=1_700_000_000)
    return msgspec.to_builtins(answer)


class TestInsurance:
    @each_row(
        ("expected", "facts"),
        [
            ("valid", {}),
            ("expired", {"policy": POLICY._replace(valid_to="2025-06-30")}),
            ("future", {"policy": POLICY._replace(valid_from="2025-07-02")}),
            ("cancelled", {"policy": POLICY._replace(cancelled_on="2025-07-01")}),
            ("flag", {"policy": None, "insured": True}),
            ("none", {"policy": None, "insured": False}),
            ("unknown", {"policy": None, "insured": None}),
        ],
    )
    def test_every_reason(self, expected, facts):
        """Insurance holds if it is valid, or flagged by a register without policies."""
        answer = members(explain=True, **facts)
        assert answer["reasons"]["insuranceValid"] == expected
        assert answer["checks"]["insuranceValid"] == (expected in ("valid", "flag"))


class TestMot:
    @each_row(
        ("expected", "facts"),
        [
            ("valid", {"mot_expiry": "2025-07-02"}),
            ("valid", {"mot_expiry": "2025-07-01"}),
            ("expired", {"mot_expiry": "2025-06-30"}),
            ("unknown", {"mot_expiry": None}),
            ("unknown", {"mot_expiry": None, "mot_exempt": False}),
            ("exempt", {"mot_expiry": None, "mot_exempt": True}),
            ("exempt", {"mot_expiry": "2025-06-30", "mot_exempt": True}),
            ("expired", {"mot_expiry": "2025-06-30", "mot_exempt": False}),
        ],
    )
    def test_every_reason_but_not_due(self, expected, facts):
        """A certificate holds on its last day; an exemption holds whatever the date."""
        answer = members(explain=True, **facts)
        assert answer["reasons"]["motValid"] == expected
        assert answer["checks"]["motValid"] == (expected in ("valid", "exempt"))

    @each_row(
        ("first_registered", "day", "expected"),
        [
            ("2022-07-01", "2025-06-30", "not_due"),
            ("2022-07-01", "2025-07-01", "unknown"),
            ("2022-07-02", "2025-07-01", "not_due"),
            ("2024-02-29", "2027-02-28", "not_due"),
            ("2024-02-29", "2027-03-01", "unknown"),
            ("2025-08-01", "2025-07-01", "not_due"),
            (None, "2025-07-01", "unknown"),
        ],
    )
    def test_it_is_not_due_in_the_first_years(self, first_registered, day, expected):
        """A car needs no test until its third anniversary; on that day it does."""
        facts = {"mot_expiry": None, "first_registered": first_registered}
        assert reason("mot", day, 3, **facts) == expected

    @pytest.mark.parametrize(
        ("day", "expected"), [("2028-02-28", "not_due"), ("2028-02-29", "unknown")]
    )
    def test_a_leap_day_comes_again_in_the_fourth_year(self, day, expected):
        """After four years 29 February is an anniversary like any other (Northern Ireland)."""
        facts = {"mot_expiry": None, "first_registered": "2024-02-29"}
        assert reason("mot", day, 4, **facts) == expected

    def test_first_years_are_off_by_default(self):
        """With 0 years a new vehicle without a test is unknown, and never legal by guess."""
        facts = {"mot_expiry": None, "first_registered": "2025-06-30"}
        assert reason("mot", DAY, 0, **facts) == "unknown"

    def test_an_expiry_comes_before_the_first_years(self):
        """Years do not override an agency's date, such as that of a diesel van (D154)."""
        facts = {"mot_expiry": "2025-06-30", "first_registered": "2024-06-01"}
        assert reason("mot", "2025-06-30", 3, **facts) == "valid"
        assert reason("mot", DAY, 3, **facts) == "expired"

    def test_not_due_counts_as_valid(self):
        """A vehicle whose first test is not due is legal in that respect."""
        facts = {"mot_expiry": None, "first_registered": "2025-01-01"}
        judgement = judge(replace(LEGAL, mot_first_years=3, **facts), DAY)
        answer = compliance_answer("AB12CDE", judgement, explain=True, checked_at=0)
        assert isinstance(answer.reasons, FourChecks)
        assert answer.reasons.motValid == "not_due"
        assert answer.compliant is True

    @pytest.mark.parametrize("day", ["0001-01-01", "9997-12-31", "9998-06-01"])
    def test_first_years_may_lie_beyond_the_calendar(self, day):
        """The first and the last years of the calendar count correctly."""
        facts = {"mot_expiry": None, "first_registered": "9998-01-01"}
        assert reason("mot", day, 3, **facts) == "not_due"


class TestTax:
    @each_row(
        ("expected", "status", "due"),
        [
            ("valid", "taxed", "2025-07-02"),
            ("valid", "taxed", "2025-07-01"),
            ("expired", "taxed", "2025-06-30"),
            ("valid", "taxed", None),
            ("exempt", "exempt", None),
            ("exempt", "exempt", "2025-07-01"),
            ("expired", "exempt", "2025-06-30"),
            ("sorn", "sorn", None),
            ("sorn", "sorn", "2026-01-01"),
            ("untaxed", "untaxed", None),
            ("untaxed", "untaxed", "2026-01-01"),
            ("unknown", None, None),
            ("unknown", None, "2026-01-01"),
            ("unknown", "refused", "2026-01-01"),
            ("unknown", "Taxed", "2026-01-01"),
        ],
    )
    def test_every_reason(self, expected, status, due):
        """Taxed or exempt holds up to and including the last paid day; other words do not."""
        answer = members(explain=True, tax_status=status, tax_due=due)
        assert answer["reasons"]["roadTaxPaid"] == expected
        assert answer["checks"]["roadTaxPaid"] == (expected in ("valid", "exempt"))


class TestFines:
    @pytest.mark.parametrize(("owed", "expected"), [(False, "none"), (True, "outstanding")])
    def test_every_reason(self, owed, expected):
        """The check passes if no fine is owed, also if no fine is on record."""
        answer = members(explain=True, has_outstanding_fines=owed)
        assert answer["reasons"]["noOutstandingFines"] == expected
        assert answer["checks"]["noOutstandingFines"] is not owed

    @pytest.mark.parametrize("day", ["2020-01-01", "2030-01-01"])
    def test_the_day_makes_no_difference(self, day):
        """Fines are always the current ones, whatever day is asked about."""
        assert reason("fines", day, has_outstanding_fines=True) == "outstanding"

    def test_a_look_up_without_fines_is_not_judged(self):
        """A vehicle of which fines were not looked up must not pass for one without."""
        with pytest.raises(ValueError, match="fines were not looked up"):
            judge(replace(LEGAL, has_outstanding_fines=None), DAY)


class TestRecord:
    def test_compliant_is_all_four(self):
        """A vehicle that passes all four checks is compliant."""
        assert members()["compliant"] is True
        assert set(members()["checks"].values()) == {True}

    @each_row(
        ("check", "facts"),
        [
            ("insuranceValid", {"policy": None}),
            ("motValid", {"mot_expiry": None}),
            ("roadTaxPaid", {"tax_status": None}),
            ("noOutstandingFines", {"has_outstanding_fines": True}),
        ],
    )
    def test_one_failed_check_is_enough(self, check, facts):
        """A single failed check makes compliant false."""
        answer = members(**facts)
        assert answer["compliant"] is False
        assert [name for name, holds in answer["checks"].items() if not holds] == [check]

    def test_reasons_are_optional(self):
        """Without explain the record has only the four promised members."""
        assert set(members()) == {"registration", "compliant", "checks", "lastChecked"}
        assert set(members(explain=True)) - set(members()) == {"reasons"}

    def test_last_checked_is_the_time_that_was_handed_in(self):
        """Unix seconds become an ISO 8601 time in UTC."""
        assert members()["lastChecked"] == "2023-11-14T22:13:20Z"


def test_tax_statuses_are_those_a_register_may_hold():
    """The checks know exactly the tax statuses that the native format stores."""
    assert set(TAX_STATUSES) == {"taxed", "exempt", "sorn", "untaxed"}


def test_every_reason_that_is_documented_was_seen_here():
    """Each documented reason occurs in these tests, or in those of what is not known."""
    then = {"not_known_then"}
    documented = document()["components"]["schemas"]["ComplianceReasons"]["properties"]
    assert {check: set(node["examples"]) for check, node in documented.items()} == {
        "insuranceValid": then
        | {"valid", "expired", "future", "cancelled", "flag", "none", "no_policy", "unknown"},
        "motValid": then | {"valid", "expired", "exempt", "not_due", "unknown"},
        "roadTaxPaid": then | {"valid", "expired", "exempt", "sorn", "untaxed", "unknown"},
        "noOutstandingFines": {"none", "outstanding", "unknown"},
    }
