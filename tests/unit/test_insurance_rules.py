"""Whether a vehicle is insured on a day, and the reason (D20, D22)."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.vehicles.answer_shapes import PolicyAnswer
from app.vehicles.answers import insurance_answer, policy_answer
from app.vehicles.compliance import judge_insurance
from app.vehicles.facts import PolicyFacts, Record
from tests.rows import each_row

POLICY = PolicyFacts("Northgate", "P-1", "2025-03-01", "2026-02-28", "comprehensive", None, 0)


def record(policy=None, flag=None):
    """Return a plate of which only the insurance is known."""
    unknown: dict[str, Any] = dict.fromkeys(Record.__struct_fields__)
    known = {"registration": "AB12CDE", "updated": 0, "has_outstanding_fines": False}
    return Record(**unknown | known | {"insured": flag, "policy": policy})


def judged(policy, day, flag=None):
    """Return the reason, and whether it is insured."""
    verdict = judge_insurance(record(policy, flag), day)
    return verdict.reason, verdict.is_good


class TestInForce:
    @each_row(
        ("day", "reason"),
        [
            ("2025-02-28", "future"),
            ("2025-03-01", "valid"),
            ("2025-09-15", "valid"),
            ("2026-02-28", "valid"),
            ("2026-03-01", "expired"),
        ],
    )
    def test_both_ends_are_included(self, day, reason):
        """A policy is in force from its first to its last day, both included."""
        assert judged(POLICY, day) == (reason, reason == "valid")

    def test_a_policy_of_one_day_is_in_force_on_that_day(self):
        """The first and the last day can be the same."""
        policy = POLICY._replace(valid_to="2025-03-01")
        days = ("2025-02-28", "2025-03-01", "2025-03-02")
        assert [judged(policy, day)[1] for day in days] == [False, True, False]

    @each_row(
        ("day", "reason"),
        [
            ("2025-05-31", "valid"),
            ("2025-06-01", "cancelled"),
            ("2025-06-02", "cancelled"),
            ("2026-02-28", "cancelled"),
            ("2026-03-01", "expired"),
        ],
    )
    def test_a_cancelled_policy_ends_before_the_day_of_cancelling(self, day, reason):
        """A policy is in force until the day before its cancellation."""
        policy = POLICY._replace(cancelled_on="2025-06-01")
        assert judged(policy, day) == (reason, reason == "valid")

    def test_cancelled_on_its_first_day_it_was_never_in_force(self):
        """A policy that is cancelled on its first day is never in force."""
        policy = POLICY._replace(cancelled_on=POLICY.valid_from)
        assert judged(policy, "2025-03-01") == ("cancelled", False)

    def test_cancelled_after_its_last_day_it_ran_to_the_end(self):
        """A cancellation after the last day changes nothing."""
        policy = POLICY._replace(cancelled_on="2026-03-01")
        assert judged(policy, "2026-02-28") == ("valid", True)
        assert judged(policy, "2026-03-01") == ("expired", False)


class TestBeforeItBegins:
    @pytest.mark.parametrize("cancelled_on", ["2024-12-01", "2025-02-01", "2025-03-01"])
    def test_a_future_policy_that_will_not_begin_is_cancelled(self, cancelled_on):
        """Before its first day, a policy that is cancelled by then counts as cancelled."""
        policy = POLICY._replace(cancelled_on=cancelled_on)
        assert judged(policy, "2025-02-01") == ("cancelled", False)

    def test_a_future_policy_that_is_cancelled_later_will_begin(self):
        """A policy that is cancelled after its first day still counts as future before it."""
        policy = POLICY._replace(cancelled_on="2025-03-02")
        assert judged(policy, "2025-02-28") == ("future", False)
        assert judged(policy, "2025-03-01") == ("valid", True)


class TestFlag:
    @each_row(("flag", "reason"), [(True, "flag"), (False, "none"), (None, "unknown")])
    @each_row("day", ["0001-01-01", "2025-06-01", "9999-12-31"])
    def test_it_counts_whatever_the_day_if_no_policy_is_known(self, flag, reason, day):
        """Without a policy the flag decides; an unknown flag means not insured."""
        assert judged(None, day, flag) == (reason, flag is True)

    @pytest.mark.parametrize(("stored", "reason"), [(1, "flag"), (0, "none")])
    def test_a_database_without_booleans_says_the_same(self, stored, reason):
        """SQLite's 1 and 0 are answered as true and false."""
        assert judged(None, "2025-06-01", stored) == (reason, bool(stored))
        assert type(judged(None, "2025-06-01", stored)[1]) is bool

    @pytest.mark.parametrize("flag", [True, False, None])
    def test_it_does_not_count_against_a_policy(self, flag):
        """If a policy is known, the flag has no effect."""
        assert judged(POLICY, "2025-06-01", flag) == ("valid", True)
        assert judged(POLICY, "2026-03-01", flag) == ("expired", False)


class TestMembers:
    def test_policy_has_the_five_members_of_the_spec(self):
        """The policy has no date of cancellation, because none was promised."""
        assert policy_answer(POLICY._replace(cancelled_on="2025-06-01")) == PolicyAnswer(
            number="P-1",
            insurer="Northgate",
            validFrom="2025-03-01",
            validTo="2026-02-28",
            type="comprehensive",
        )

    def test_an_unknown_insurer_is_null(self):
        """An unknown insurer is stored as the empty text and answered as null."""
        answer = policy_answer(POLICY._replace(insurer="", type=None))
        assert (answer.insurer, answer.type) == (None, None)

    def test_no_policy_is_null(self):
        """A plate without a policy has the policy null."""
        assert insurance_answer(record(), "2025-06-01").policy is None

    def test_last_updated_is_the_records_time(self):
        """Unix seconds become an ISO 8601 time in UTC (D21)."""
        answer = insurance_answer(replace(record(), updated=1_700_000_000), "2025-06-01")
        assert answer.lastUpdated == "2023-11-14T22:13:20Z"
