"""What the two Python applications share: the tables, the queries and the rules.

The tables are those of a register of verifyd, and those of its accounts.
"""

import hashlib
import hmac
import os
import time
import unicodedata
from datetime import UTC, date, datetime

from sqlalchemy import ForeignKey, and_, create_engine, or_, select
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship

engine = create_engine(f"sqlite:///{os.environ['PEERS_DATABASE']}")

RATE_LIMIT = "1000000000 per second"
TITLES = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class Base(DeclarativeBase):
    pass


class Vehicle(Base):
    __tablename__ = "vehicle"

    registration: Mapped[str] = mapped_column(primary_key=True)
    make: Mapped[str | None]
    model: Mapped[str | None]
    year: Mapped[int | None]
    color: Mapped[str | None]
    insured: Mapped[bool | None]
    mot_expiry: Mapped[date | None]
    mot_exempt: Mapped[bool | None]
    tax_status: Mapped[str | None]
    tax_due: Mapped[date | None]
    updated: Mapped[int]


class Policy(Base):
    __tablename__ = "policy"

    registration: Mapped[str] = mapped_column(primary_key=True)
    insurer: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[str] = mapped_column(primary_key=True)
    valid_from: Mapped[date] = mapped_column(primary_key=True)
    valid_to: Mapped[date]
    type: Mapped[str | None]
    cancelled_on: Mapped[date | None]
    updated: Mapped[int]

    def is_in_force(self, day):
        in_dates = self.valid_from <= day <= self.valid_to
        return in_dates and (self.cancelled_on is None or day < self.cancelled_on)


class Fine(Base):
    __tablename__ = "fine"

    registration: Mapped[str] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(primary_key=True)
    settled: Mapped[bool]


class Plan(Base):
    __tablename__ = "plan"

    name: Mapped[str] = mapped_column(primary_key=True)
    bulk_max: Mapped[int]


class Account(Base):
    __tablename__ = "account"

    id: Mapped[int] = mapped_column(primary_key=True)
    plan_id: Mapped[str] = mapped_column(ForeignKey("plan.name"))
    suspended_at: Mapped[int | None]
    plan: Mapped[Plan] = relationship()


class ApiKey(Base):
    __tablename__ = "api_key"

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"))
    secret_hash: Mapped[str]
    expires_at: Mapped[int | None]
    revoked_at: Mapped[int | None]
    account: Mapped[Account] = relationship()


class Problem(Exception):
    def __init__(self, status, code, detail):
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


def find_account(session, key):
    """Return the account of a key, with its plan; None if the key does not work."""
    key_id, secret = key[10:18], key[19:62]
    with_plan = joinedload(ApiKey.account).joinedload(Account.plan)
    found = session.scalar(select(ApiKey).options(with_plan).where(ApiKey.id == key_id))
    if found is None or found.revoked_at is not None or found.account.suspended_at is not None:
        return None
    if found.expires_at is not None and found.expires_at <= time.time():
        return None
    secret_hash = hashlib.sha256(secret.encode()).hexdigest()
    return found.account if hmac.compare_digest(found.secret_hash, secret_hash) else None


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
    order = (
        in_force.desc(),
        Policy.valid_to.desc(),
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
    return max(policies, key=lambda p: (p.is_in_force(day), p.valid_to, p.valid_from, p.number))


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
