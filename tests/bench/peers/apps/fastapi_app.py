"""FastAPI, SQLAlchemy and slowapi: served by uvicorn's workers."""

import uuid
from typing import Annotated

import models
import vehicles
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyHeader
from pydantic import BaseModel
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address
from sqlalchemy.orm import Session
from vehicles import Problem

api_key = APIKeyHeader(name="X-API-Key", auto_error=False)


def limited_by(request: Request):
    return request.headers.get("X-API-Key") or get_remote_address(request)


limiter = Limiter(key_func=limited_by, headers_enabled=True)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.exception_handler(Problem)
def answer_problem(_request: Request, problem: Problem):
    body = vehicles.problem_json(problem, uuid.uuid4().hex)
    return JSONResponse(body, problem.status, media_type="application/problem+json")


def get_session():
    with Session(models.engine) as session:
        yield session


SessionDep = Annotated[Session, Depends(get_session)]


def get_account(session: SessionDep, key: Annotated[str | None, Depends(api_key)]):
    account = models.find_account(session, key or "")
    if account is None:
        raise Problem(401, "unauthorized", "The API key is missing or not valid.")
    return account


AccountDep = Annotated[models.Account, Depends(get_account)]


class Policy(BaseModel):
    number: str
    insurer: str | None
    validFrom: str  # noqa: N815 - the wire's spelling, as below
    validTo: str  # noqa: N815
    type: str | None


class Vehicle(BaseModel):
    make: str | None
    model: str | None
    year: int | None
    color: str | None


class Insurance(BaseModel):
    registration: str
    insured: bool
    policy: Policy | None
    vehicle: Vehicle
    lastUpdated: str  # noqa: N815


class Checks(BaseModel):
    insuranceValid: bool  # noqa: N815
    motValid: bool  # noqa: N815
    roadTaxPaid: bool  # noqa: N815
    noOutstandingFines: bool  # noqa: N815


class Compliance(BaseModel):
    registration: str
    compliant: bool
    checks: Checks
    lastChecked: str  # noqa: N815


class Registrations(BaseModel):
    registrations: list[str]


class Item(BaseModel):
    registration: str
    insured: bool
    policy: Policy | None = None
    error: str | None = None
    code: str | None = None


class Bulk(BaseModel):
    results: list[Item]
    processed: int
    successful: int
    failed: int


@app.get("/v1/vehicle/{registration}/insurance")
@limiter.limit(vehicles.RATE_LIMIT)
def insurance(
    registration: str, request: Request, response: Response, session: SessionDep, _: AccountDep
) -> Insurance:
    return vehicles.insurance(session, registration)


@app.get("/v1/compliance/{registration}")
@limiter.limit(vehicles.RATE_LIMIT)
def compliance(
    registration: str, request: Request, response: Response, session: SessionDep, _: AccountDep
) -> Compliance:
    return vehicles.compliance(session, registration)


# Members that an item does not have are left out.
@app.post("/v1/vehicle/bulk-insurance", response_model_exclude_unset=True)
@limiter.limit(vehicles.RATE_LIMIT)
def bulk_insurance(
    sent: Registrations,
    request: Request,
    response: Response,
    session: SessionDep,
    account: AccountDep,
) -> Bulk:
    return vehicles.bulk_insurance(session, account, sent.registrations)
