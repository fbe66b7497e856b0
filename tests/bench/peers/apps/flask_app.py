"""Flask, SQLAlchemy and Flask-Limiter: served by gunicorn's sync worker."""

import uuid

import models
import vehicles
from flask import Flask, g, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from sqlalchemy.orm import scoped_session, sessionmaker
from vehicles import Problem

app = Flask(__name__)
session = scoped_session(sessionmaker(models.engine))


def api_key():
    return request.headers.get("X-API-Key", "")


limiter = Limiter(
    lambda: api_key() or get_remote_address(),
    app=app,
    default_limits=[vehicles.RATE_LIMIT],
    headers_enabled=True,
    storage_uri="memory://",
)


@app.before_request
def authenticate():
    g.account = models.find_account(session, api_key())
    if g.account is None:
        raise Problem(401, "unauthorized", "The API key is missing or not valid.")


@app.teardown_appcontext
def remove_session(_error=None):
    session.remove()


@app.errorhandler(Problem)
def answer_problem(problem):
    body = vehicles.problem_json(problem, uuid.uuid4().hex)
    return body, problem.status, {"Content-Type": "application/problem+json"}


@app.get("/v1/vehicle/<registration>/insurance")
def insurance(registration):
    return vehicles.insurance(session, registration)


@app.get("/v1/compliance/<registration>")
def compliance(registration):
    return vehicles.compliance(session, registration)


@app.post("/v1/vehicle/bulk-insurance")
def bulk_insurance():
    registrations = request.get_json()["registrations"]
    return vehicles.bulk_insurance(session, g.account, registrations)
