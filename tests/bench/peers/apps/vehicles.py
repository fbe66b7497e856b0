"""What the two Python applications answer: the queries, and the rules of verifyd (D20, D22)."""

import time
import unicodedata
from datetime import UTC, datetime

from models import Fine, Policy, Vehicle
from sqlalchemy import and_, case, or_, select

RATE_LIMIT = "1000000000 per second"
TITLES = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class Problem(Exception):
    def __init__(self, status, code, detail):
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


def canonical(text):
    """Return the plate as it is stored; None if it is no plate."""
    plate = unicodedata.normalize("NFKC", text).replace(" ", "").replace("-", "").upper()
    return plate if plate.isalnum() and len(plate) <= 12 else None


def find_record(session, text, day):
    """Return the vehicle of a plate, which may be None, and the policy to answer with."""
    plate = canonical(text)
    if plate is None:
        raise Problem(400, "invalid_registration", "Invalid registration number")
    vehicle = session.get(Vehicle, plate)
    in_force = and_(
        Policy.valid_from <= day,
        Policy.valid_to >= day,
        or_(Policy.cancelled_on.is_(None), Policy.cancelled_on > day),
    )
    is_cut_short = Policy.cancelled_on < Policy.valid_to
    end = case((is_cut_short, Policy.cancelled_on), else_=Policy.valid_to)
    order = (
        in_force.desc(),
        end.desc(),
        Policy.valid_from.desc(),
        Policy.number.desc(),
        Policy.insurer,
    )
    of_plate = select(Policy).where(Policy.registration == plate)
    policy = session.scalar(of_plate.order_by(*order).limit(1))
    if vehicle is None and policy is None:
        raise Problem(404, "vehicle_not_found", "Vehicle not found")
    return plate, vehicle, policy


def is_insured(vehicle, policy, day):
    return policy.is_in_force(day) if policy else bool(vehicle.insured)


def policy_json(policy):
    return policy and {
        "number": policy.number,
        "insurer": policy.insurer or None,
        "validFrom": policy.valid_from.isoformat(),
        "validTo": policy.valid_to.isoformat(),
        "type": policy.type,
    }


def iso(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def today():
    return datetime.now(UTC).date()


def insurance(session, text):
    day = today()
    plate, vehicle, policy = find_record(session, text, day)
    return {
        "registration": plate,
        "insured": is_insured(vehicle, policy, day),
        "policy": policy_json(policy),
        "vehicle": {
            name: getattr(vehicle, name, None) for name in ("make", "model", "year", "color")
        },
        "lastUpdated": iso(max(row.updated for row in (vehicle, policy) if row)),
    }


def compliance(session, text):
    day = today()
    plate, vehicle, policy = find_record(session, text, day)
    owed = select(Fine.reference).where(Fine.registration == plate, Fine.settled.is_(False))
    checks = {
        "insuranceValid": is_insured(vehicle, policy, day),
        "motValid": has_mot(vehicle, day),
        "roadTaxPaid": is_taxed(vehicle, day),
        "noOutstandingFines": session.scalar(owed.limit(1)) is None,
    }
    return {
        "registration": plate,
        "compliant": all(checks.values()),
        "checks": checks,
        "lastChecked": iso(time.time()),
    }


def has_mot(vehicle, day):
    if vehicle is None:
        return False
    in_date = vehicle.mot_expiry is not None and vehicle.mot_expiry >= day
    return bool(vehicle.mot_exempt) or in_date


def is_taxed(vehicle, day):
    if vehicle is None or vehicle.tax_status not in ("taxed", "exempt"):
        return False
    return vehicle.tax_due is None or vehicle.tax_due >= day


def bulk_insurance(session, account, texts):
    if len(texts) > account.plan.bulk_max:
        raise Problem(400, "too_many_registrations", "Too many registrations")
    day = today()
    plates = [canonical(text) for text in texts]
    wanted = {plate for plate in plates if plate}
    of_wanted = select(Vehicle).where(Vehicle.registration.in_(wanted))
    vehicles = {vehicle.registration: vehicle for vehicle in session.scalars(of_wanted)}
    policies = {}
    of_wanted = select(Policy).where(Policy.registration.in_(wanted)).order_by(Policy.insurer)
    for policy in session.scalars(of_wanted):
        policies.setdefault(policy.registration, []).append(policy)
    results = [
        bulk_item(text, plate, vehicles.get(plate), best(policies.get(plate), day), day)
        for text, plate in zip(texts, plates, strict=True)
    ]
    failed = sum("error" in item for item in results)
    return {
        "results": results,
        "processed": len(results),
        "successful": len(results) - failed,
        "failed": failed,
    }


def best(policies, day):
    """Return the policy to answer with, by the same rule as the ORDER BY above."""
    if not policies:
        return None
    return max(policies, key=lambda p: (p.is_in_force(day), p.end, p.valid_from, p.number))


def bulk_item(text, plate, vehicle, policy, day):
    if plate is None:
        why = {"error": "Invalid registration number", "code": "invalid_registration"}
        return {"registration": text, "insured": False, **why}
    if vehicle is None and policy is None:
        why = {"error": "Vehicle not found", "code": "vehicle_not_found"}
        return {"registration": plate, "insured": False, **why}
    insured = is_insured(vehicle, policy, day)
    return {"registration": plate, "insured": insured, "policy": policy_json(policy)}


def problem_json(problem, request_id):
    return {
        "type": f"/docs/errors#{problem.code}",
        "title": TITLES[problem.status],
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        "request_id": request_id,
    }
