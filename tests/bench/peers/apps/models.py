"""The tables that the two Python applications share, and the check of a key.

They are the tables of a register of verifyd, and those of its accounts.
"""

import hashlib
import hmac
import os
import time
from datetime import date

from sqlalchemy import ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship

engine = create_engine(f"sqlite:///{os.environ['PEERS_DATABASE']}")


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

    @property
    def end(self):
        return min(self.valid_to, self.cancelled_on or self.valid_to)

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
