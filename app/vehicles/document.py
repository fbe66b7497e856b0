"""The answers about plates with their explanations, as one document (D26).

`verifyd lookup` prints it, and the console makes its page of it.
"""

from operator import attrgetter
from typing import Any

import msgspec

from app import clock
from app.storage.tables import COLUMNS, Kind
from app.vehicles.answers import (
    add_asked,
    checks_answer,
    compliance_answer,
    detailed_policy_answer,
    failure_answer,
    insurance_answer,
    suggestion_answers,
    unknown_checks,
)
from app.vehicles.compliance import judge
from app.vehicles.deciding import LoadTimes
from app.vehicles.explanation import Explained, Explanation
from app.vehicles.facts import FineFacts, PlateFacts, PolicyFacts, Record, VehicleFacts
from app.vehicles.periods import Period, Question, record_on
from app.vehicles.policies import Choice, policy_state

Document = dict[str, Any]
"""What `verifyd lookup` prints with `--json`, or as text for people."""


def document_of(explained: Explained, day: str, period: Period | None = None) -> Document:
    """Return the document: the days, the registers in the order of precedence, and the plates.

    A plate has the answers of the API with dates and all policies, or `error` and `code`, and if it
    is unknown `suggestions`.
    """
    return {
        "asOf": day,
        **({"period": {"firstDay": period.first, "lastDay": period.last}} if period else {}),
        "registers": list(explained.registers),
        "plates": [_plate(each, explained, day, period) for each in explained.plates],
    }


def _plate(
    explanation: Explanation, explained: Explained, day: str, period: Period | None
) -> Document:
    found = explanation.found
    asked = {"asked": found.asked, "registration": found.registration}
    if found.record is None:
        failed = asked | failure_answer(found)._asdict()
        if found.registration is None:
            return failed
        return failed | {
            "suggestions": msgspec.to_builtins(suggestion_answers(explanation.suggested))
        }
    return asked | {
        **_answers(found.record, day, period, explained.times),
        "decidedBy": [
            {
                "column": each.column,
                "value": each.value,
                "registers": list(each.registers),
                "why": each.why,
                "contradictedBy": list(each.contradicted_by),
                **({} if each.is_known else {"unknown": True}),
            }
            for each in explanation.decisions
        ],
        "chosenPolicy": _choice(explanation.choice, day),
        "registers": [_holding(name, found.record.rows, day) for name in explained.registers],
    }


def _answers(record: Record, day: str, period: Period | None, times: LoadTimes) -> Document:
    """Return the answers of the two operations, with all that can be asked of them.

    A period that fails also has the `checks` and the `policy` of its first failing day.
    """
    asked = Question(period=period, details=True, policies=True)
    insurance = insurance_answer(record, day)
    compliance = compliance_answer(
        record.registration, judge(record, day), explain=True, checked_at=clock.now()
    )
    add_asked(insurance, record, day, asked, times)
    add_asked(compliance, record, day, asked, times)
    answers = {"insurance": insurance, "compliance": compliance}
    document: Document = msgspec.to_builtins(answers)
    for answer in document.values():
        failed = answer.get("period", {})
        if then := failed.get("firstFailingDay"):
            later = record_on(record, then)
            judgement = judge(later, then)
            failed["checks"] = msgspec.to_builtins(checks_answer(judgement))
            # Those of the first day of a period, as `checks`.
            if unknown := [each for each in unknown_checks(judgement) or () if each != "compliant"]:
                failed["unknown"] = [*failed.get("unknown", ()), *unknown]
            failed["policy"] = later.policy and _policy_document(later.policy, then)
    return document


def _choice(choice: Choice | None, day: str) -> Document | None:
    if choice is None:
        return None
    chosen = {"register": choice.register, "rule": choice.rule, "why": choice.why}
    return chosen | _policy_document(choice.policy, day)


def _holding(register: str, held: PlateFacts, day: str) -> Document:
    vehicles, policies, fines = held.of(register)
    shown = sorted((policy for _, policy in policies), key=_SHOWN_BY)
    return {
        "register": register,
        "vehicle": _vehicle(vehicles[0][1]) if vehicles else None,
        "policies": [_policy_document(each, day) for each in shown],
        "fines": [_fine(fine) for _, fine in fines],
    }


_SHOWN_BY = attrgetter("valid_from", "number", "insurer")
"""The order of the policies of one register."""


def _vehicle(facts: VehicleFacts) -> Document:
    """Return a vehicle with the members of the native format."""
    members = {
        # SQLite has 1 and 0 for flags.
        each.name: value if value is None or bool not in each.types else bool(value)
        for each, value in zip(COLUMNS[Kind.VEHICLES][1:], facts, strict=True)
    }
    return members | {"lastUpdated": clock.iso_utc(facts.updated)}


def _policy_document(policy: PolicyFacts, day: str) -> Document:
    """Return the policy object of the API and two more members; `state` is that of the day."""
    return {
        **msgspec.structs.asdict(detailed_policy_answer(policy)),
        "lastUpdated": clock.iso_utc(policy.updated),
        "state": policy_state(policy, day),
    }


def _fine(fine: FineFacts) -> Document:
    # NOTE: text, as in the native format, because money is never a float.
    sign, cents = "-" * (fine.amount_cents < 0), abs(fine.amount_cents)
    return {
        "reference": fine.reference,
        "issuedOn": fine.issued_on,
        "amount": f"{sign}{cents // 100}.{cents % 100:02}",
        "currency": fine.currency,
        "outstanding": not fine.settled,
        "lastUpdated": clock.iso_utc(fine.updated),
    }
