"""Makes what the vehicle operations answer with from the records of plates."""

from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import UNSET, UnsetType

from app import clock
from app.vehicles.answer_shapes import (
    BulkAnswer,
    ChecksAnswer,
    ComplianceAnswer,
    ComplianceDates,
    ComplianceItem,
    FailureAnswer,
    FourChecks,
    InsuranceAnswer,
    InsuranceDates,
    InsuranceItem,
    InsuranceLoaded,
    InsuranceReason,
    Items,
    PeriodAnswer,
    PolicyAnswer,
    ReasonsAnswer,
    SuggestionAnswer,
    ToldVerdict,
    Unknown,
    VehicleAnswer,
)
from app.vehicles.compliance import Judgement, judge, judge_insurance
from app.vehicles.deciding import LoadTimes, checks_loaded, insurance_loaded
from app.vehicles.facts import PolicyFacts, Record
from app.vehicles.periods import (
    Period,
    Question,
    good_until,
    has_too_many_policies,
    judge_period,
    newest_update,
    policies_in_force,
)
from app.vehicles.reader import FoundPlate
from app.vehicles.registration import registration_fault

NOT_FOUND = "Vehicle not found"


def insurance_answer(record: Record, day: str, as_of: str | None = None) -> InsuranceAnswer:
    """Return the insurance record on the day (ISO date).

    Args:
        as_of: the day that the request named.
    """
    verdict = judge_insurance(record, day)
    return InsuranceAnswer(
        record.registration,
        verdict.is_good,
        _policy_of(record),
        vehicle_answer(record),
        clock.iso_utc(record.updated),
        _or_unset(as_of),
        UNSET if verdict.is_known else _INSURED,
    )


_INSURED = ("insured",)


def vehicle_answer(record: Record) -> VehicleAnswer:
    return VehicleAnswer(record.make, record.model, record.year, record.color)


def _policy_of(record: Record) -> PolicyAnswer | None:
    return None if record.policy is None else policy_answer(record.policy)


def policy_answer(policy: PolicyFacts) -> PolicyAnswer:
    return PolicyAnswer(
        policy.number,
        policy.insurer or None,
        policy.valid_from,
        policy.valid_to,
        policy.type,
    )


def detailed_policy_answer(policy: PolicyFacts) -> PolicyAnswer:
    """Return the policy object with the day of its cancellation (D92)."""
    answer = policy_answer(policy)
    answer.cancelledOn = policy.cancelled_on
    return answer


def compliance_answer(
    registration: str,
    judgement: Judgement,
    *,
    explain: bool,
    checked_at: int,
    as_of: str | None = None,
) -> ComplianceAnswer:
    """Return the compliance record.

    Args:
        explain: add `reasons`.
        checked_at: Unix seconds of the request.
        as_of: the day that the request named.
    """
    return ComplianceAnswer(
        registration,
        judgement.is_compliant,
        checks_answer(judgement),
        clock.iso_utc(checked_at),
        reasons_answer(judgement) if explain else UNSET,
        _or_unset(as_of),
        unknown_checks(judgement),
    )


def unknown_checks(judgement: Judgement) -> Unknown:
    """Return the names of the checks of which the outcome is not known, and `compliant`."""
    insurance, mot, tax, fines = judgement
    # PERF: most answers name nothing.
    if insurance.is_known and mot.is_known and tax.is_known and fines.is_known:
        return UNSET
    return _unknown_names(judgement)


# PERF: a bulk has few judgements that differ, and this takes as long as judging.
@cache
def _unknown_names(judgement: Judgement) -> tuple[str, ...]:
    known = (*(verdict.is_known for verdict in judgement), judgement.is_known)
    return tuple(name for name, is_known in zip(_COMPLIANCE, known, strict=True) if not is_known)


_COMPLIANCE = (*FourChecks.__struct_fields__, "compliant")


def _or_unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text


def checks_answer(judgement: Judgement) -> ChecksAnswer:
    insurance, mot, tax, fines = judgement
    # PERF: the name of a generic type with its argument takes 1 us to call.
    return FourChecks(insurance.is_good, mot.is_good, tax.is_good, fines.is_good)


def reasons_answer(judgement: Judgement) -> ReasonsAnswer:
    insurance, mot, tax, fines = judgement
    return FourChecks(insurance.reason, mot.reason, tax.reason, fines.reason)


def invalid_registration(text: str) -> str:
    """Return the error for a text that is no registration, without a full stop."""
    return f"Invalid registration number: {registration_fault(text)}"


def failure_answer(found: FoundPlate) -> FailureAnswer:
    """Return why a plate has no record: it is no registration, or no register mentions it."""
    if found.registration is None:
        return FailureAnswer(invalid_registration(found.asked), "invalid_registration")
    return FailureAnswer(NOT_FOUND, "vehicle_not_found")


def suggestion_answers(suggested: Iterable[Record]) -> list[SuggestionAnswer]:
    """Return the suggestions as a 404 has them."""
    return [
        SuggestionAnswer(each.registration, each.make, each.model, each.color) for each in suggested
    ]


def bulk_answer(items: Items, as_of: str | None) -> BulkAnswer:
    """Return the answer of a bulk operation: one item per plate, in their order."""
    failed = sum(item.error is not UNSET for item in items)
    return BulkAnswer(items, len(items), len(items) - failed, failed, _or_unset(as_of))


def insurance_item(found: FoundPlate, day: str) -> InsuranceItem:
    """Return whether a plate is insured on the day (ISO date), or why it has no answer."""
    record = found.record
    if record is None:
        error, code = failure_answer(found)
        return InsuranceItem(_named(found), insured=False, error=error, code=code)
    verdict = judge_insurance(record, day)
    unknown = UNSET if verdict.is_known else _INSURED
    return InsuranceItem(record.registration, verdict.is_good, _policy_of(record), unknown)


def compliance_item(
    found: FoundPlate, judgement: Judgement | None, *, explain: bool
) -> ComplianceItem:
    """Return whether a plate is road-legal, or why it has no answer.

    Args:
        judgement: None if the plate has no record.
        explain: add `reasons`.
    """
    if judgement is None:
        error, code = failure_answer(found)
        return ComplianceItem(_named(found), compliant=False, error=error, code=code)
    return ComplianceItem(
        _named(found),
        judgement.is_compliant,
        checks_answer(judgement),
        reasons_answer(judgement) if explain else UNSET,
        unknown_checks(judgement),
    )


# PERF: to make a union of types takes 0.5 us.
_ITEMS = (InsuranceItem, ComplianceItem)
_WITH_TIME = (InsuranceAnswer, *_ITEMS)
_WITH_POLICY = (InsuranceAnswer, InsuranceItem)


def add_asked(
    answer: InsuranceDates, record: Record, day: str, question: Question, times: LoadTimes
) -> None:
    """Add to an answer what a request asks besides: details, a period, all policies (D92, D172).

    Args:
        record: of a look-up that asked for dates.
        day: ISO date that the answer is about.
        times: of the loads of the registers that were read; needed for details only.
    """
    tells_cancellations = question.details or question.policies
    if tells_cancellations and isinstance(answer, _WITH_POLICY) and record.policy is not None:
        answer.policy = detailed_policy_answer(record.policy)
    if question.details:
        _add_details(answer, record, day, times)
    if question.period is not None:
        _add_period(answer, record, question.period)
    if question.policies and isinstance(answer, InsuranceAnswer):
        in_force, has_more = policies_in_force(record, day)
        answer.policies = list(map(detailed_policy_answer, in_force))
        answer.policiesTruncated = has_more or UNSET


def _add_details(answer: InsuranceDates, record: Record, day: str, times: LoadTimes) -> None:
    if isinstance(answer, _ITEMS):
        answer.vehicle = vehicle_answer(record)
        answer.lastUpdated = clock.iso_utc(record.updated)
    has_too_many = has_too_many_policies(record)
    if has_too_many:
        answer.tooManyPolicies = True
    else:
        answer.insuredUntil = good_until(record, day, judge_insurance)
    if isinstance(answer, ComplianceDates):
        loaded = checks_loaded(record, judge(record, day), day, times)
        answer.loaded = FourChecks(*map(_time_or_none, loaded))
        if not has_too_many:
            answer.compliantUntil = good_until(record, day, judge)
        exempt = record.mot_exempt
        answer.motExpiry = record.mot_expiry
        # SQLite has 1 and 0.
        answer.motExempt = None if exempt is None else bool(exempt)
        answer.firstRegistered = record.first_registered
        answer.taxStatus, answer.taxDue = record.tax_status, record.tax_due
        answer.finesOutstanding = record.outstanding_fines
    else:
        verdict = judge_insurance(record, day)
        answer.loaded = InsuranceLoaded(
            _time_or_none(insurance_loaded(record, verdict, day, times))
        )


def _time_or_none(epoch_seconds: int | None) -> str | None:
    return None if epoch_seconds is None else clock.iso_utc(epoch_seconds)


def _add_period(answer: InsuranceDates, record: Record, period: Period) -> None:
    told = answer.period = PeriodAnswer(period.first, period.last)
    is_valid, failure, is_known = (
        judge_period(record, period, judge)
        if isinstance(answer, ComplianceDates)
        else judge_period(record, period, judge_insurance)
    )
    if is_valid is None:
        told.tooManyPolicies = True
        return
    told.validThroughout = is_valid
    if not is_known:
        told.unknown = _THROUGHOUT
    if failure is not None:
        told.firstFailingDay, verdict = failure
        told.reasons = (
            reasons_answer(verdict)
            if isinstance(verdict, Judgement)
            else InsuranceReason(verdict.reason)
        )
    if isinstance(answer, _WITH_TIME) and answer.lastUpdated:
        answer.lastUpdated = clock.iso_utc(newest_update(record))


_THROUGHOUT = ("validThroughout",)


def period_verdicts(answers: Iterable[InsuranceDates]) -> Iterator[ToldVerdict]:
    """Yield for each answer whether the vehicle passes on every day; None if that is not told."""
    for answer in answers:
        period = answer.period
        if period is UNSET or period.validThroughout is UNSET:
            yield None, ()
        else:
            yield period.validThroughout, period.unknown or ()


def _named(found: FoundPlate) -> str:
    """Return the canonical registration, or the text as it was sent if it is invalid."""
    return found.asked if found.registration is None else found.registration
