"""The document that `verifyd lookup` prints with `--json`, or as text for people (D83)."""

from typing import Any

from app import clock
from app.vehicles.answers import (
    compliance_answer,
    failure_answer,
    insurance_answer,
    policy_answer,
)
from app.vehicles.choice import Choice
from app.vehicles.compliance import judge
from app.vehicles.explanation import Decision, Explained, Explanation
from app.vehicles.facts import FineFacts, PolicyFacts, VehicleFacts
from app.vehicles.holdings import Holding
from app.vehicles.insurance import policy_state

Document = dict[str, Any]


def document_of(explained: Explained, day: str, mot_first_years: int) -> Document:
    """Return the document: the day, the registers in the order of precedence, and the plates.

    A plate has the answers of the API, or `error` and `code`.
    """
    return {
        "asOf": day,
        "registers": list(explained.registers),
        "plates": [_plate(each, day, mot_first_years) for each in explained.plates],
    }


def _plate(explanation: Explanation, day: str, mot_first_years: int) -> Document:
    found = explanation.found
    asked = {"asked": found.asked, "registration": found.registration}
    if found.record is None:
        return asked | failure_answer(found)
    return asked | {
        "insurance": insurance_answer(found.record, day),
        "compliance": compliance_answer(
            found.record.registration,
            judge(found.record, day, mot_first_years),
            explain=True,
            checked_at=clock.now(),
        ),
        "decidedBy": list(map(_decision, explanation.decisions)),
        "chosenPolicy": _choice(explanation.choice, day),
        "registers": [_holding(each, day) for each in explanation.holdings],
    }


def _decision(decision: Decision) -> Document:
    return {
        "column": decision.column,
        "value": decision.value,
        "registers": list(decision.registers),
        "why": decision.why,
    }


def _choice(choice: Choice | None, day: str) -> Document | None:
    if choice is None:
        return None
    chosen = {"register": choice.register, "rule": choice.rule, "why": choice.why}
    return chosen | _policy(choice.policy, day)


def _holding(holding: Holding, day: str) -> Document:
    return {
        "register": holding.register,
        "vehicle": _vehicle(holding.vehicle),
        "policies": [_policy(each, day) for each in holding.policies],
        "fines": list(map(_fine, holding.fines)),
    }


def _vehicle(facts: VehicleFacts | None) -> Document | None:
    """Return a vehicle with the members of the native format."""
    if facts is None:
        return None
    return {
        "make": facts.make,
        "model": facts.model,
        "year": facts.year,
        "color": facts.color,
        "insured": facts.insured,
        "motExpiry": facts.mot_expiry,
        "motExempt": facts.mot_exempt,
        "firstRegistered": facts.first_registered,
        "taxStatus": facts.tax_status,
        "taxDue": facts.tax_due,
        "lastUpdated": clock.iso_utc(facts.updated),
    }


def _policy(policy: PolicyFacts, day: str) -> Document:
    """Return a policy as the API does, and what the API leaves out; `state` is that of the day."""
    return {
        **(policy_answer(policy) or {}),
        "cancelledOn": policy.cancelled_on,
        "lastUpdated": clock.iso_utc(policy.updated),
        "state": policy_state(policy, day),
    }


def _fine(fine: FineFacts) -> Document:
    # NOTE: text, as in the native format, because money is never a float (D34).
    sign, cents = "-" * (fine.amount_cents < 0), abs(fine.amount_cents)
    return {
        "reference": fine.reference,
        "issuedOn": fine.issued_on,
        "amount": f"{sign}{cents // 100}.{cents % 100:02}",
        "currency": fine.currency,
        "outstanding": not fine.settled,
        "lastUpdated": clock.iso_utc(fine.updated),
    }
