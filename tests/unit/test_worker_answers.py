"""What the worker makes of an answer of the application."""

import io
import signal
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from app.serve.http.bodies import FileBody
from app.serve.http.envelope import Deadline
from app.serve.worker.answers import REST, BadAnswer, answer_of, failure
from app.serve.worker.worker import Worker
from tests.rows import each_row
from tests.system.test_raw_requests import split

JSON = ("Content-Type", "application/json")


class Body(list[bytes]):
    """A body that must be closed."""

    is_closed = False

    def close(self) -> None:
        """Take note of it."""
        self.is_closed = True


def application(
    status: str, fields: Iterable[tuple[str, str]], body: Iterable[bytes]
) -> Callable[..., Iterable[bytes]]:
    """Return an application that always answers this."""

    def answer(_environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        start(status, list(fields))
        return body

    return answer


def answered(
    status: str = "200 OK",
    fields: Iterable[tuple[str, str]] = (JSON,),
    body: Iterable[bytes] = (b"{", b"}"),
    *,
    method: str = "GET",
    is_last: bool = False,
) -> bytes:
    """Return the bytes of an answer."""
    environ = {
        "REQUEST_METHOD": method,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.input": io.BytesIO(),
    }
    return answer_of(application(status, fields, body), environ, is_last=is_last)


def test_an_answer_has_a_length_whether_the_application_gives_it_or_not():
    """The next answer on the connection begins where this one ends."""
    (told,) = split(answered(fields=[JSON, ("Content-Length", "2")]))
    (counted,) = split(answered())
    assert told.body == counted.body == b"{}"
    assert told.headers.get_all("Content-Length") == counted.headers.get_all("Content-Length")


@pytest.mark.parametrize(
    ("status", "method"),
    [("200 OK", "HEAD"), ("204 No Content", "GET"), ("304 Not Modified", "GET")],
)
def test_some_answers_have_no_body(status, method):
    """Nothing follows the head, even if the application gives a body."""
    answer = answered(status, [JSON, ("Content-Length", "2")], method=method)
    assert answer.endswith(b"\r\n\r\n")
    assert (b"Content-Length" in answer) is not status.startswith("204")


@each_row("value", ["a\r\nX: b", "a\nb", "a\rb", "a\x00b"])
def test_a_header_cannot_break_the_answer(value):
    """An answer whose header has a line end or a control character is not sent."""
    with pytest.raises(BadAnswer):
        answered(fields=[("X-Request-ID", value)])


@each_row("length", ["1", "3", "x", ""])
def test_a_body_has_the_length_that_the_application_says(length):
    """Otherwise a part of it would be the next answer, or the other way round."""
    with pytest.raises(BadAnswer):
        answered(fields=[JSON, ("Content-Length", length)])


@pytest.mark.parametrize(("is_last", "option"), [(True, "close"), (False, "keep-alive")])
def test_an_answer_says_whether_the_connection_stays_open(is_last, option):
    """Clients of HTTP/1.0 need to be told, too."""
    (answer,) = split(answered(is_last=is_last))
    assert answer.headers.get_all("Connection") == [option]


def test_a_body_is_closed():
    """The application may free what its body holds, also if the answer cannot be sent."""
    body = Body([b"{}"])
    with pytest.raises(BadAnswer):
        answered(fields=[("X", "\n")], body=body)
    assert body.is_closed


def test_of_a_file_only_the_beginning_is_read(tmp_path):
    """The rest is left for the connection, and the head has the length of all of it."""
    path = tmp_path / "file"
    for size in (0, 1, 3_000_000):
        path.write_bytes(b"x" * size)
        body = FileBody(path)
        environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "SERVER_PROTOCOL": "HTTP/1.1"}
        fields = [("Content-Length", str(body.length))]
        sent = answer_of(application("200 OK", fields, body), environ, is_last=False)
        head, _, first = sent.partition(b"\r\n\r\n")
        assert f"Content-Length: {size}\r\n".encode() in head + b"\r\n"
        assert len(first) < 1_000_000
        assert first + b"".join(environ[REST] or ()) == b"x" * size


def test_a_file_that_becomes_shorter_is_noticed(tmp_path):
    """What was announced cannot be sent, so the connection must end."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    pieces = iter(FileBody(path))
    next(pieces)
    path.write_bytes(b"")
    with pytest.raises(OSError, match="became shorter"):
        list(pieces)


def test_a_failure_is_a_problem_with_its_request_id():
    """If the application cannot answer at all, the client still gets the common error body."""
    sent, request_id = failure()
    (answer,) = split(sent)
    assert (answer.status, answer.headers["Connection"]) == (500, "close")
    assert answer.headers["X-Request-ID"] == request_id
    assert answer.expected.code == "internal_error"


def test_a_worker_is_not_told_twice_to_give_up():
    """A second ABRT does not interrupt the answer that says that the request was given up."""
    worker = Worker.__new__(Worker)
    worker._deadline = Deadline(application("200 OK", (), ()))
    worker._deadline.is_answering = worker.booted = worker._is_given_up = True
    worker.handle_abort(signal.SIGABRT, None)
    assert not worker.alive
