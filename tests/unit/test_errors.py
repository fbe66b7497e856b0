"""The error catalogue, and how every failure becomes one body (D5)."""

import json
import logging

import falcon
import falcon.testing
import peewee
import pytest

from app.errors import CATALOGUE, RETRY_AFTER_SECONDS, Problem
from app.logs import JsonFormatter
from app.serve.http import problems
from app.serve.http.context import Request
from tests.rows import each_row

# Spec 7: status and error type, word for word.
SPEC_7 = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
}
SECRET = "the-secret-that-was-sent"


class Failing:
    """A resource that fails as requested."""

    def __init__(self, failure):
        self._failure = failure

    def on_get(self, req, resp):
        resp.status = falcon.HTTP_201
        resp.text = "begun"
        resp.stream = iter([b"begun"])
        raise self._failure


@pytest.fixture
def answer_to(world):
    """Return what a client gets when a responder raises something."""

    def ask(failure, **headers):
        app = falcon.App(request_type=Request)
        problems.install(app, world.engine, {"/": ["GET"]}, {}, lambda req, resp: None)
        app.add_route("/", Failing(failure))
        return falcon.testing.TestClient(app).simulate_get("/", headers=headers)

    return ask


@each_row("code", CATALOGUE)
def test_every_code_has_a_status_and_its_title(code):
    """One status has one title; the promised titles are kept."""
    status, title = CATALOGUE[code][:2]
    assert 400 <= status < 600
    assert title == SPEC_7.get(status, title)
    assert {kind.title for kind in CATALOGUE.values() if kind.status == status} == {title}


def test_spec_7_all_statuses_of_the_spec_are_there():
    """The catalogue has every status that the interface names."""
    assert SPEC_7.items() <= {kind.status: kind.title for kind in CATALOGUE.values()}.items()


def test_a_problem_has_the_members_of_d5():
    """A problem has `errors` only if a member is wrong."""
    assert Problem("not_found", "Nothing.").body("id") == {
        "type": "/docs/errors#not_found",
        "title": "Not Found",
        "status": 404,
        "detail": "Nothing.",
        "code": "not_found",
        "request_id": "id",
    }


def test_a_member_at_fault_is_named_by_its_pointer():
    """A refusal of one member repeats its sentence next to the pointer."""
    body = Problem.at("/name", "invalid_body", "Wrong.").body("id")
    assert body["errors"] == [{"pointer": "/name", "detail": "Wrong."}]


def test_problems_share_nothing():
    """What is added to one refusal does not appear in the next."""
    headers = {"Allow": "GET"}
    first = Problem("database_unavailable", "Gone.", headers=headers)
    first.headers["X"] = "1"
    assert headers == {"Allow": "GET"}
    assert "X" not in Problem("database_unavailable", "Gone.").headers


@each_row("code", CATALOGUE)
def test_a_503_says_when_to_come_back(code):
    """Every 503 has Retry-After, and by default no other status has."""
    headers = Problem(code, "x").headers
    expected = {"Retry-After": str(RETRY_AFTER_SECONDS)} if CATALOGUE[code].status == 503 else {}
    assert headers == expected


def test_an_unknown_code_cannot_be_raised():
    """A code that is not in the catalogue is a program error."""
    with pytest.raises(KeyError):
        Problem("no_such_code", "x")


class TestFailures:
    @pytest.mark.parametrize(
        ("failure", "status", "code"),
        [
            (Problem("vehicle_not_found", "x"), 404, "vehicle_not_found"),
            (falcon.HTTPNotFound(), 404, "not_found"),
            (falcon.HTTPMethodNotAllowed(["GET"]), 405, "method_not_allowed"),
            (falcon.HTTPBadRequest(description=SECRET), 400, "invalid_request"),
            (falcon.HTTPInvalidHeader(SECRET, "X"), 400, "invalid_request"),
            (falcon.HTTPContentTooLarge(), 413, "body_too_large"),
            (falcon.HTTPUnsupportedMediaType(), 415, "unsupported_media_type"),
            (falcon.HTTPServiceUnavailable(), 503, "service_unavailable"),
            (falcon.HTTPInternalServerError(description=SECRET), 500, "internal_error"),
            (falcon.HTTPNotImplemented(), 500, "internal_error"),
            (ValueError(SECRET), 500, "internal_error"),
            (RecursionError(), 500, "internal_error"),
            (MemoryError(), 500, "internal_error"),
            (UnicodeEncodeError("utf-8", SECRET, 0, 1, "x"), 500, "internal_error"),
            (AssertionError(SECRET), 500, "internal_error"),
            (peewee.OperationalError("locked"), 503, "database_unavailable"),
            (peewee.InterfaceError("closed"), 503, "database_unavailable"),
            (peewee.InternalError("broken"), 503, "database_unavailable"),
            (peewee.ProgrammingError(SECRET), 500, "internal_error"),
            (peewee.DataError(SECRET), 500, "internal_error"),
            (peewee.IntegrityError(SECRET), 500, "internal_error"),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
    )
    def test_every_failure_leaves_as_one_body(self, answer_to, caplog, failure, status, code):
        """Every exception becomes a problem body that quotes nothing."""
        answer = answer_to(failure)
        assert (answer.status_code, answer.json["status"]) == (status, status)
        assert answer.json["code"] == code
        assert answer.json["title"] == CATALOGUE[code].title
        assert answer.headers["content-type"] == "application/problem+json"
        assert "begun" not in answer.text
        logged = [JsonFormatter().format(record) for record in caplog.records]
        assert SECRET not in answer.text + "".join(logged)

    @pytest.mark.parametrize("failure", [Problem("not_found", "x"), ValueError()])
    @pytest.mark.parametrize(
        "accept", ["text/html", "application/xml", "multipart/form-data", "x", "", "image/*;q=0"]
    )
    def test_the_body_is_json_whatever_is_accepted(self, answer_to, caplog, failure, accept):
        """The body is JSON, whatever `Accept` says."""
        answer = answer_to(failure, Accept=accept)
        assert answer.headers["content-type"] == "application/problem+json"
        assert json.loads(answer.text)["status"] == answer.status_code

    def test_headers_of_a_refusal_are_sent(self, answer_to):
        """The client gets the headers of a refusal."""
        problem = Problem("unauthorized", "x", headers={"WWW-Authenticate": "Bearer"})
        assert answer_to(problem).headers["www-authenticate"] == "Bearer"
        allow = answer_to(falcon.HTTPMethodNotAllowed(["GET", "HEAD"])).headers["allow"]
        assert allow == "GET, HEAD"

    def test_an_unexpected_failure_is_logged_with_its_place(self, answer_to, caplog):
        """The log has the stack and the request id, so that a report can be found."""
        answer = answer_to(KeyError(SECRET))
        (record,) = [r for r in caplog.records if r.name == "verifyd.http"]
        assert record.levelno == logging.ERROR
        assert record.exc_info[0] is KeyError
        assert record.request_id == answer.json["request_id"]

    def test_a_refusal_is_not_logged_as_an_error(self, answer_to, caplog):
        """A client's mistake is no error of the service."""
        answer_to(Problem("not_found", "x"))
        assert caplog.records == []

    @pytest.mark.parametrize("failure", [peewee.OperationalError(), peewee.DataError()])
    def test_a_failed_connection_is_replaced(self, answer_to, world, caplog, failure):
        """After a failure the next request gets another connection, not a broken transaction."""
        former = world.engine.connection()
        answer_to(failure)
        assert world.engine.connection() is not former
