"""Finds what is missing where no register knows the outcome of a check (D198)."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from app.console import look_up_sentences as sentences
from app.console import look_up_texts as texts
from app.vehicles.answers import detailed_policy_answer
from app.vehicles.compliance import TAX_STATUSES, insured_on, judge, judge_insurance
from app.vehicles.facts import Basis, Record
from app.vehicles.periods import record_on

Missing = Mapping[str, Sequence[str]]
"""For each check whose outcome is not known, by its name in the API: sentences that say why."""


def missing_on(record: Record, day: str) -> Missing:
    """Return what is missing on a day (ISO date); nothing by the rule of 1.0.0.

    Args:
        record: of a look-up for this day or an earlier one that asked for dates.
    """
    then, basis = record_on(record, day), record.basis
    if basis is None:
        return {}
    verdicts = zip(_FINDERS.items(), judge(then, day), strict=True)
    return {
        check: list(find(then, day, basis))
        for (check, find), verdict in verdicts
        if not verdict.is_known
    }


def _of_insurance(record: Record, day: str, basis: Basis) -> Iterator[str]:
    said = [(name, its) for name, its in record.rows.vehicles if its.insured is not None]
    if record.policy is not None:
        policy = msgspec.structs.asdict(detailed_policy_answer(record.policy))
        yield sentences.why_not_insured(judge_insurance(record, day).reason, policy)
    elif not said:
        yield sentences.NO_POLICY
    if said:
        name, its = said[0]
        if insured_on(record, day):
            yield sentences.BUT_INSURED.format(name)
        else:
            value = (texts.INSURED if its.insured else texts.NOT_INSURED).lower()
            yield sentences.not_known_then(name, value, basis.first_day(its.updated), day)
    elif not basis.complete:
        yield sentences.NOT_COMPLETE
    else:
        yield sentences.complete_now(sorted(basis.complete), day)


def _of_mot(record: Record, day: str, basis: Basis) -> Iterator[str]:
    vehicles = [(basis.first_day(its.updated), name, its) for name, its in record.rows.vehicles]
    exempt = [(since, name) for since, name, its in vehicles if its.mot_exempt]
    valid = [
        (since, name, its.mot_expiry)
        for since, name, its in vehicles
        if its.mot_expiry and its.mot_expiry >= day
    ]
    if exempt:
        since, name = min(exempt)
        yield sentences.not_known_then(name, sentences.EXEMPT, since, day)
    if valid:
        since, name, expiry = min(valid)
        yield sentences.not_known_then(name, sentences.mot_until(expiry), since, day)
    if not exempt and not valid:
        yield sentences.NO_EXPIRY


def _of_tax(record: Record, day: str, basis: Basis) -> Iterator[str]:
    said = ((name, its.tax_status, its) for name, its in record.rows.vehicles if its.tax_status)
    name, status, its = next(said, ("", "", None))
    if its is None or status not in TAX_STATUSES:
        yield sentences.NO_STATUS
    else:
        value = sentences.tax_status(status, its.tax_due)
        yield sentences.not_known_then(name, value, basis.first_day(its.updated), day)


def _of_fines(record: Record, day: str, basis: Basis) -> Iterator[str]:
    yield sentences.NO_FINES


_FINDERS: Mapping[str, Callable[[Record, str, Basis], Iterator[str]]] = dict(
    zip(texts.CHECKS, (_of_insurance, _of_mot, _of_tax, _of_fines), strict=True)
)
