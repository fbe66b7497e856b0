"""The headers in which a client says why it looks vehicles up."""

import pytest

from app.serve.http.context import REPEATED
from tests.api.rate_limits import NOW
from tests.conftest import ON_SQLITE
from tests.enquiry import set_enquiry
from tests.rows import each_row

HEADERS = ("Enquiry-Reason", "Enquiry-Reference", "Enquiry-User")
CAR = {"registration": "AB12CDE", "make": "FORD"}
LOOK_UPS = {
    "insurance": ("GET", "/v1/vehicle/AB12CDE/insurance"),
    "its head": ("HEAD", "/v1/vehicle/AB12CDE/insurance"),
    "bulk insurance": ("POST", "/v1/vehicle/bulk-insurance"),
    "compliance": ("GET", "/v1/compliance/AB12CDE"),
    "the plate BULK": ("GET", "/v1/compliance/bulk"),
    "bulk compliance": ("POST", "/v1/compliance/bulk"),
}
OTHERS = ("/api/domains", "/v1/account", "/healthz", "/docs", "/v1/nothing")
EVERY_LOOK_UP = pytest.mark.parametrize("operation", LOOK_UPS)
EVERY_HEADER = pytest.mark.parametrize("header", HEADERS)
WRONG = {
    "empty": "",
    "65 characters": "A" * 65,
    "far too long": "A" * 8_000,
    "tab": "A\tB",
    "NUL": "A\x00B",
    "delete": "A\x7fB",
    "escape": "A\x1b[2JB",
    "Latin-1": "J\xfcrgen",
    "no-break space": "A\xa0B",
}


def ask(client, operation, headers=None, **options):
    """Send a look-up with these headers."""
    method, path = LOOK_UPS[operation]
    body = '{"registrations": ["AB12CDE", "!"]}' if method == "POST" else b""
    kind = {"Content-Type": "application/json"} if body else {}
    return client.request(method, path, body=body, headers=kind | (headers or {}), **options)


@pytest.fixture
def demand(world):
    """`demand(enquiry, reasons)` sets what alice's plan wants to know."""
    world.load([CAR, {**CAR, "registration": "BULK"}])
    return lambda enquiry, reasons="": set_enquiry(world.engine, "standard", enquiry, reasons)


@EVERY_LOOK_UP
class TestOff:
    def test_anything_is_ignored(self, demand, alice, operation):
        """A plan ignores the headers by default, whatever they contain."""
        for value in WRONG.values():
            if value.isprintable():  # WebTest refuses the others.
                sent = dict.fromkeys(HEADERS, value)
                assert ask(alice, operation, sent).status_int == 200
        assert ask(alice, operation).status_int == 200


class TestOptional:
    @EVERY_LOOK_UP
    def test_headers_are_accepted(self, demand, alice, operation):
        """All of them, some or none, with 64 characters and with commas."""
        demand("optional")
        for sent in (
            {},
            {"Enquiry-User": "Doe, Jane (x) ~!"},
            dict.fromkeys(HEADERS, "A" * 64),
        ):
            assert ask(alice, operation, sent).status_int == 200

    @ON_SQLITE
    @each_row("operation", LOOK_UPS)
    @each_row("header", HEADERS)
    @each_row("value", WRONG.values(), ids=WRONG)
    def test_a_wrong_header_is_refused(self, demand, alice, operation, header, value):
        """The answer names the header and the rule, and does not repeat the value."""
        demand("optional")
        name = f"HTTP_{header.upper().replace('-', '_')}"
        refused = ask(alice, operation, environ={name: value})
        assert refused.status_int == 400
        if operation != "its head":
            rule = "must have 1 to 64 printable ASCII characters"
            fault = "character " if value else "it is empty"
            if len(value) > 64:
                fault = f"it has {len(value):,}"
            assert refused.json["code"] == "invalid_enquiry"
            assert refused.json["detail"].startswith(f"The header {header} {rule}; {fault}")

    @EVERY_HEADER
    def test_a_repeated_header_is_refused(self, demand, alice, header):
        """The worker tells which fields were repeated: their values arrive as one."""
        demand("optional")
        name = f"HTTP_{header.upper().replace('-', '_')}"
        refused = ask(alice, "insurance", environ={name: "A,B", REPEATED: {"HTTP_X", name}})
        assert (refused.status_int, refused.json["code"]) == (400, "invalid_enquiry")
        assert refused.json["detail"] == f"The header {header} was sent more than once."

    def test_the_reason_must_be_accepted(self, demand, alice):
        """In its spelling; a look-up without one is answered."""
        demand("optional", "THEFT, A B,THEFT")
        for reason, status in (("THEFT", 200), ("A B", 200), ("theft", 400), ("THEFT,A B", 400)):
            answer = ask(alice, "insurance", {"Enquiry-Reason": reason})
            assert answer.status_int == status, reason
        assert answer.json["code"] == "invalid_enquiry"
        assert answer.json["detail"].endswith("; it accepts THEFT and A B.")
        assert ask(alice, "insurance").status_int == 200


class TestRequired:
    @EVERY_LOOK_UP
    def test_a_reason_is_needed(self, demand, alice, operation):
        """Every look-up without one is refused, and the others are answered."""
        demand("required")
        refused = ask(alice, operation, {"Enquiry-Reference": "CASE-1", "Enquiry-User": "jane"})
        assert refused.status_int == 400
        if operation != "its head":
            assert refused.json["code"] == "enquiry_reason_required"
        assert ask(alice, operation, {"Enquiry-Reason": "ANY"}).status_int == 200

    def test_the_refusal_names_the_accepted_reasons(self, demand, alice):
        """A client can correct itself without asking the operator."""
        demand("required", "THEFT")
        assert ask(alice, "insurance").json["detail"].endswith("; it accepts THEFT.")

    def test_an_unknown_plate_needs_one_too(self, demand, alice):
        """Otherwise a client could ask which plates are known."""
        demand("required")
        refused = alice.get("/v1/compliance/ZZ99ZZZ")
        assert refused.json["code"] == "enquiry_reason_required"

    @pytest.mark.parametrize("path", OTHERS)
    def test_other_requests_need_none(self, demand, alice, path):
        """The headers are of look-ups only; elsewhere they are ignored."""
        plain = alice.get(path).status_int
        demand("required", "THEFT")
        assert alice.get(path).status_int == plain
        assert alice.get(path, headers={"Enquiry-Reason": "!" * 99}).status_int == plain


def test_it_takes_effect_with_the_next_request(world, demand, alice):
    """So does every change of a plan; accounts on other plans are not asked."""
    dave = world.client(world.key_of("dave", "free"))
    for enquiry, status in (("required", 400), ("optional", 200), ("required", 400), ("off", 200)):
        demand(enquiry)
        assert ask(alice, "insurance").status_int == status
        assert ask(dave, "insurance").status_int == 200


def test_a_refused_look_up_takes_a_token(world, carol, stopped_clock):
    """As every other 400 of a known key does."""
    set_enquiry(world.engine, "tiny", "required", None)
    answers = [ask(carol, "insurance") for _ in range(4)]
    assert [answer.status_int for answer in answers] == [400, 400, 400, 429]
    left = [answer.headers["X-RateLimit-Remaining"] for answer in answers]
    assert left == ["2", "1", "0", "0"]
    assert int(answers[0].headers["X-RateLimit-Reset"]) > NOW
