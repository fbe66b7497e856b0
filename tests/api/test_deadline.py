"""The service itself answers a request whose time is up (D45)."""

import pytest

from app.main import create_app
from app.serve.http.envelope import Deadline, GivenUp
from tests.conftest import Client

KINDS = {"whole": {}, "chunked": {"HTTP_TRANSFER_ENCODING": "chunked"}}


class Endless:
    """A body during which the time is up."""

    def read(self, *_size):
        raise GivenUp


@pytest.fixture
def given_up(world):
    """`given_up(environ)` sends a request whose time is up while its body is read."""
    application = create_app(world.config, world.engine)

    def broken(environ, start_response):
        return application(environ | {"wsgi.input": Endless()}, start_response)

    def send(path, environ, **options):
        alice = Client(Deadline(broken), world.alice_key)
        return alice.request("POST", path, body=b"{}", environ=environ, **options)

    return send


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["/api/domains", "/healthz", "/nothing"])
def test_a_timeout_is_answered_like_any_failure(given_up, kind, path, caplog):
    """The answer is 500 with all headers, logged with its place under the client's id."""
    answer = given_up(path, KINDS[kind])
    assert (answer.status_int, answer.json["code"]) == (500, "internal_error")
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == "unexpected TookTooLong"
    assert record.request_id == answer.headers["X-Request-ID"] == answer.json["request_id"]


def test_nothing_is_done_twice(world, monkeypatch, statements, stopped_clock):
    """A timeout in a responder neither repeats the key's query nor takes another token."""
    application = create_app(world.config, world.engine)
    monkeypatch.setattr("app.domains.resources.read_json", _give_up)
    alice = Client(Deadline(application), world.alice_key)
    before = int(alice.get("/api/domains").headers["X-RateLimit-Remaining"])
    with statements() as seen:
        answer = alice.post("/api/domains", {"name": "example.com"})
    assert (answer.status_int, answer.headers["X-RateLimit-Limit"]) == (500, "600")
    assert int(answer.headers["X-RateLimit-Remaining"]) == before - 1
    assert len(seen) <= 1  # A worker on SQLite knows the key already (D109).


def _give_up(*_args):
    raise GivenUp
