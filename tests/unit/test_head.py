"""Heads of requests: what gunicorn's own parser accepts is accepted, and nothing else."""

import re
from collections.abc import MutableMapping
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import LimitRequestLine, NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.http.wsgi import create
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import Problem
from app.serve.http.bodies import BODY_BYTES_MAX, DRAINED_BYTES_MAX
from app.serve.http.context import REPEATED
from app.serve.worker.head import LineTooLong, Malformed
from app.serve.worker.intake import Intake, is_last
from tests.rows import each_row


def strict_settings() -> Config:
    """Return the settings of gunicorn with which the service ran before it had its own worker."""
    settings = Config()
    limits = {"limit_request_line": 8190, "limit_request_fields": 64}
    nobody = {"forwarded_allow_ips": "", "forwarder_headers": ""}
    for name, value in {**limits, **nobody, "http_parser": "python"}.items():
        settings.set(name, value)
    return settings


PEER = ("192.0.2.1", 80)
SERVER = ("127.0.0.1", 8000)
GOOD = b"GET /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX-Y: 1\r\nContent-Length: 3\r\n\r\nabc"
SETTINGS = strict_settings()
# What they say differently without a difference to the application.
_OWN = re.compile(r"wsgi\..*|gunicorn\..*|verifyd\..*|RAW_URI|SERVER_.*|REMOTE_.*|SCRIPT_NAME")
# What a Host header may be, without IPv6.
HOST = re.compile(r"([-._~!$&'()*+,;=0-9A-Za-z]|%[0-9A-Fa-f]{2})*(:[0-9]*)?")
METHODS = b"GET|POST|OPTIONS|CONNECT|get|G|AAAAAAAAAAAAAAAAAAAAA|G_T|#GET|"
TARGETS = b"/|//|*|/a|/%41%00|/a?b=c|/a#b|http://x/a|http://[x/|x:80|http://u@y/|://"
VERSIONS = b"HTTP/1.1|HTTP/1.0|HTTP/1.9|HTTP/2.0|HTTP/0.9|http/1.1|HTTP/1.10"
BETWEEN = b" |  |\t|\r\n|\n|\r|\r\n |\r\n\t|\r\n\r\n|\x0b|\x00|:|: | :|:\t|,|;|\x7f|_"
NAMES = b"Host|host|Content-Length|Content_Length|Transfer-Encoding|X-Y|\xe9|Content-Type"
VALUES = b"Connection|chunked|identity|gzip|cow|3|+3|03|\xb2|-1|x|\xff|close|keep-alive|abc"
EXPECTATIONS = b"Expect: 100-continue|Expect: tea"
PARTS = [
    part
    for parts in (METHODS, TARGETS, VERSIONS, BETWEEN, NAMES, VALUES, EXPECTATIONS)
    for part in parts.split(b"|")
]


def by_gunicorn(sent: bytes) -> object:
    """Return the environment of a request, its refusal, or None if it is incomplete."""
    try:
        request: Any = Request(SETTINGS, IterUnreader(iter([sent])), PEER)
        request._expected_100_continue = False  # Otherwise it is answered here.
        _, environ = create(request, cast(Any, None), PEER, SERVER, SETTINGS)
    except LimitRequestLine:
        return LineTooLong
    except ParseException:
        return Malformed
    except (NoMoreData, StopIteration):
        return None
    return comparable(environ) if has_clear_host(environ) else Malformed


def has_clear_host(environ: MutableMapping[str, Any]) -> bool:
    """Tell whether RFC 9112, 3.2 is followed, and let the host be that of an absolute target."""
    target, host = environ["RAW_URI"], environ.get("HTTP_HOST")
    if not target.startswith("/") and environ["REQUEST_METHOD"] != "CONNECT" and target != "*":
        parts = urlsplit(target)
        if not parts.scheme or not parts.hostname or not HOST.fullmatch(parts.netloc):
            return False
        environ["HTTP_HOST"] = parts.netloc
    if host is None:
        return environ["SERVER_PROTOCOL"] == "HTTP/1.0"
    return HOST.fullmatch(host) is not None


def by_us(sent: bytes) -> object:
    """Return the same."""
    intake = Intake({"REMOTE_ADDR": PEER[0]})
    intake.add(sent)
    try:
        environ = intake.next_request() or intake.last_request()
    except Malformed as error:
        return type(error)
    return environ and comparable(environ)


def comparable(environ: MutableMapping[str, Any]) -> dict[str, Any]:
    """Return what both servers must tell the application."""
    # An empty type is as good as none (PEP 3333).
    return {
        key: value
        for key, value in environ.items()
        if not _OWN.fullmatch(key) and (key, value) != ("CONTENT_TYPE", "")
    }


@st.composite
def mutated(draw) -> bytes:
    """A good request with some of its bytes replaced."""
    sent = GOOD
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(sent)))
        end = draw(st.integers(begin, min(len(sent), begin + 12)))
        sent = sent[:begin] + draw(st.sampled_from(PARTS)) + sent[end:]
    return sent


@given(st.one_of(mutated(), st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join)))
@example(GOOD)
@example(b"GET http://[x/ HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET http://x/a HTTP/1.1\r\nHost: y\r\n\r\n")
@example(b"GET http://x/a HTTP/1.0\r\n\r\n")
@example(b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET / HTTP/1.1\r\n\r\n")
@example(b"GET / HTTP/1.1\r\nHost: x/\r\n\r\n")
@example(b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n")
@example(b"GET / HTTP/1.1\r\nHost: x\r\nX-Y: 1\r\nx-y: 2\r\nX-Y: 3\r\n\r\n")
def test_a_head_is_read_as_gunicorn_reads_it(sent):
    """Requests are accepted, refused and understood as by gunicorn's strict parser."""
    if sent.lower().count(b"expect") < 2:  # We refuse two expectations.
        assert by_us(sent) == by_gunicorn(sent)


def test_repeated_fields_are_noted():
    """A comma in a value tells nothing; the environment says which fields were repeated."""
    intake = Intake({})
    for _ in range(2):
        intake.add(b"GET / HTTP/1.1\r\nHost: x\r\nA-B: 1,2\r\nX-Y: 1\r\nx-y: 2\r\n\r\n")
        intake.add(b"GET / HTTP/1.1\r\nHost: x\r\nA-B: 1,2\r\n\r\n")
    notes = [(intake.next_request() or {}).get(REPEATED) for _ in range(4)]
    assert notes == [{"HTTP_X_Y"}, None] * 2


@each_row("size", [1, 2, 3, 7])
def test_a_request_is_the_same_in_pieces(size):
    """The pieces in which a request arrives change nothing, whatever follows it."""
    sent = GOOD + b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
    intake = Intake({"REMOTE_ADDR": PEER[0]})
    found = []
    for begin in range(0, len(sent), size):
        intake.add(sent[begin : begin + size])
        while environ := intake.next_request():
            found.append((environ["PATH_INFO"], environ["wsgi.input"].read()))
    assert found == [("/a b", b"abc"), ("/next", b"")]


@each_row("size", [1, 5])
@each_row("begun", [b"GET / HTTP/1.1\nHost: x", b"GET /\r\n", b"A" * 8_200])
def test_a_hopeless_head_is_refused_at_once(begun, size):
    """The rest of a head that is already malformed is not waited for."""
    with pytest.raises(Malformed):
        add_in_pieces(begun, size)


def add_in_pieces(sent: bytes, size: int) -> None:
    """Add bytes to an intake, which finds no whole request among them."""
    intake = Intake({})
    for begin in range(0, len(sent), size):
        intake.add(sent[begin : begin + size])
        assert intake.next_request() is None


OF_NGINX = b"X-Real-IP: 192.0.2.9\r\nX-Request-ID: %b\r\n" % (b"a" * 32)
TOO_MANY_FIELDS = b"A: b\r\n" * 65


@each_row(
    ("fields", "body", "known"),
    [
        (OF_NGINX, b"", {"192.0.2.9", "a" * 32}),
        (OF_NGINX, b"\r\nX-Real-IP: 192.0.2.8\r\n\r\n", {"192.0.2.9", "a" * 32}),
        (b"", b"\r\n" + OF_NGINX, set()),
        (OF_NGINX + OF_NGINX, b"", set()),
        (b"X-Real-IP: 192.0.2.9\r\n" * 2, b"", set()),
    ],
)
def test_only_a_head_says_whose_malformed_request_it_is(fields, body, known):
    """What nginx says counts once, and neither twice nor in a body."""
    intake = Intake({"REMOTE_ADDR": ""})
    intake.add(b"POST / HTTP/1.1\r\n" + fields + TOO_MANY_FIELDS + b"\r\n" + body)
    with pytest.raises(Malformed):
        intake.next_request()
    environ = intake.refused(Problem("invalid_request", ""))
    assert {environ[key] for key in ("HTTP_X_REAL_IP", "HTTP_X_REQUEST_ID") if key in environ} == (
        known
    )


@each_row(
    ("version", "option", "expected"),
    [
        ("1.1", "", False),
        ("1.1", "keep-alive", False),
        ("1.1", "Keep-Alive, Close", True),
        ("1.0", "", True),
        ("1.0", "Keep-Alive", False),
        ("1.0", "close, keep-alive", True),
    ],
)
def test_a_client_says_whether_it_sends_more(version, option, expected):
    """`close` counts more than `keep-alive`, as RFC 9112, 9.3 says."""
    intake = Intake({})
    line = f"Connection: {option}\r\n" if option else ""
    intake.add(f"GET / HTTP/{version}\r\nHost: x\r\n{line}\r\n".encode())
    environ = intake.next_request()
    assert environ is not None
    assert is_last(environ) is expected


@pytest.mark.parametrize("length", [BODY_BYTES_MAX, BODY_BYTES_MAX + 1])
def test_a_body_that_is_too_large_is_not_asked_for(length):
    """A client that expects `100 Continue` gets 413 in its place, at once."""
    intake = Intake({})
    fields = b"Host: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n" % length
    intake.add(b"POST / HTTP/1.1\r\n" + fields + b"\r\n")
    is_refused = intake.next_request() is not None
    assert is_refused == (length > BODY_BYTES_MAX)
    assert intake.expects_continue != is_refused


def test_a_body_that_is_too_large_is_discarded_up_to_a_limit():
    """Then it is refused, without waiting for the rest."""
    intake = Intake({})
    intake.add(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % 10**9)
    intake.add(bytes(DRAINED_BYTES_MAX - 1))
    assert intake.next_request() is None
    intake.add(b"x")
    assert intake.next_request() is not None
