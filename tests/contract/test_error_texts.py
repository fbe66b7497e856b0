"""Every error says which rule was broken, and what to send instead (D90)."""

import json
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import pytest

from app import clock
from app.accounts.administration import create_key, require_account, revoke_key, set_plan
from app.accounts.models import ApiKey
from app.accounts.restrictions import Restrictions
from app.accounts.tokens import new_token
from app.domains.repository import Domains
from app.errors import CATALOGUE
from tests.contract.answers import document, resolved
from tests.enquiry import set_enquiry
from tests.rows import each_row

BULK = "/v1/vehicle/bulk-insurance"
DOMAINS = "/api/domains"
INSURANCE = "/v1/vehicle/AB12CDE/insurance"
COMPLIANCE = "/v1/compliance/AB12CDE"
WATCH = "/v1/watches/AB12CDE"
JSON = {"Content-Type": "application/json"}
KNOWN = '{"registrations": ["AB12CDE"]'


LONG_LABEL = "\u00fc" * 60


def key(text: str) -> dict[str, str]:
    """Return the headers of a key."""
    return {"X-API-Key": text}


PARAMETERS = {
    f"{INSURANCE}?asof=2026-01-01": "The parameter asof is unknown; did you mean asOf?",
    f"{INSURANCE}?as_of=2026-01-01": "The parameter as_of is unknown; did you mean asOf?",
    f"{INSURANCE}?date=2026-01-01": (
        "The parameter date is unknown; this operation has asOf, from, to, details and policies."
    ),
    f"{COMPLIANCE}?explian=true": "The parameter explian is unknown; did you mean explain?",
    f"{COMPLIANCE}?date=2026-01-01": (
        "The parameter date is unknown; this operation has asOf, from, to, details and explain."
    ),
    f"{DOMAINS}?page=2": (
        "The parameter page is unknown; this operation has limit, after and status."
    ),
    f"{DOMAINS}/a.example?limit=1": "The parameter limit is unknown; this operation has none.",
    f"{DOMAINS}?AB%2012=1": "A parameter is unknown; this operation has limit, after and status.",
    f"{INSURANCE}?asOf=tomorrow": (
        "The parameter asOf must be a day as YYYY-MM-DD, such as 2026-12-31."
    ),
    f"{INSURANCE}?asOf=2026-02-30": "The parameter asOf names a day that does not exist.",
    "/v1/usage?from=2026-13-01": "The parameter from names a day that does not exist.",
    **{
        f"{INSURANCE}?{name}=vfd_1": (
            f"The parameter {name} is unknown; send the key in the header X-API-Key."
        )
        for name in ("api_key", "apikey", "key", "access_token", "X-API-Key")
    },
    f"{INSURANCE}?Enquiry-Reason=x": (
        "The parameter Enquiry-Reason is unknown; send it in the header Enquiry-Reason."
    ),
    f"{INSURANCE}?reason=x": (
        "The parameter reason is unknown; send it in the header Enquiry-Reason."
    ),
    f"{INSURANCE}?asOf=2026-01-01&asOf=2026-01-01": "The parameter asOf is given more than once.",
    f"{COMPLIANCE}?explain=yes": "The parameter explain must be true or false.",
    f"{DOMAINS}?limit=0": "The parameter limit must be a whole number from 1 to 1,000.",
    f"{DOMAINS}?status=deleted": "The parameter status must be active or suspended.",
    f"{DOMAINS}?after=localhost": (
        "The parameter after must be a domain name. "
        "A domain name has at least two labels, such as example.com; got one."
    ),
}
PLATES = {
    "AB12CDE3456789": "1 to 12 letters and digits; got 14",
    "%20-%20": "1 to 12 letters and digits; got none",
    "AB_12": "1 to 12 letters and digits; character 3 is neither",
    "AB%25": "1 to 12 letters and digits; character 3 is neither",
    "AB%2520C": "1 to 12 letters and digits; character 3 is neither. "
    "It is percent-encoded: encoded twice in a path, or once elsewhere",
    "A" * 101: "at most 100 characters with spaces; got 101",
    "%C3%9F" * 9: "1 to 12 letters and digits; got 18",
    "%E2%91%A0" * 13: "1 to 12 letters and digits; got 13",
    "MU%CC%88%20AB_12": "1 to 12 letters and digits; one character is neither",
    "%EF%B7%BA" * 33: "1 to 12 letters and digits; got too many",
}
PATHS = {
    "/v1/vehicle//insurance": "/v1/vehicle/{registration}/insurance",
    "/vehicle/AB12CDE/insurance": "/v1/vehicle/{registration}/insurance",
    "/v1/vehicles/AB12CDE/insurance": "/v1/vehicle/{registration}/insurance",
    "/v1/domains": "/api/domains",
    "/api/domains/": "/api/domains, without the final slash",
}
NAMES = {
    "": "A domain name is needed; this is empty.",
    "localhost": "A domain name has at least two labels, such as example.com; got one.",
    "a." * 127 + "com": "A domain name has at most 253 characters in its ASCII form; got 257.",
    "a." * 1_000: "A domain name has at most 253 characters in its ASCII form; got 2,000.",
    "a..example": (
        "Label 2 of the domain name must be 1 to 63 letters, digits and inner hyphens; it is empty."
    ),
    f"a.{'b' * 64}.example": (
        "Label 2 of the domain name must be 1 to 63 letters, digits and inner hyphens; "
        "it has 64 characters."
    ),
    f"{LONG_LABEL}.example": (
        "A label of the domain name has more than 63 characters in its ASCII form."
    ),
    "\u00fc." * 40 + "example": (
        "A domain name has at most 253 characters in its ASCII form; this has more."
    ),
    "\u00fc..example": "A label of the domain name is empty.",
    "-a.example": "Label 1 of the domain name must be 1 to 63 letters, digits and inner hyphens.",
    "\uff11.\uff12": "The last label of a domain name must not be a number.",
    "192.0.2.1": "The last label of a domain name must not be a number.",
    "\u2603.example": "This is not a valid international domain name (IDNA 2008, UTS 46).",
}
BODIES = {
    "[1 true]": "The body is not JSON: see line 1, column 4. A comma or a quote is missing.",
    '{"name": 1': (
        "The body is not JSON: see line 1, column 11. Its end is missing, or a closing quote."
    ),
    "": "The body is empty. The body must be a JSON object.",
    "{\n  registrations": (
        "The body is not JSON: see line 2, column 3. Texts and names of members need double quotes."
    ),
    f"{KNOWN} x}}": ("The body is not JSON: see line 1, column 31. A comma or a quote is missing."),
    f"{KNOWN[:-1]}": (
        "The body is not JSON: see line 1, column 29. Its end is missing, or a closing quote."
    ),
    f"{KNOWN}, : 1}}": "The body is not JSON: see line 1, column 32.",
    f'{KNOWN}, "asOf": NaN}}': "The body is not JSON: it contains NaN or Infinity.",
    f'{KNOWN}, "asOf": "\\ud800"}}': (
        "The body is not JSON: it contains half of a surrogate pair (\\ud800 to \\udfff)."
    ),
    f'{KNOWN}, "asOf": "\\u0000"}}': "The body contains the character NUL (\\u0000).",
    f'{KNOWN}, "asOf": {"[" * 100_000}': ("The body is nested too deeply."),
    "\ufeff" + KNOWN + "}": "The body begins with a byte order mark. Send it without one.",
}
MEMBERS = {
    '["AB12CDE"]': ("", "The body must be a JSON object; got an array."),
    "{}": ("/registrations", "The member registrations is missing."),
    '{"registration": ["AB12CDE"]}': (
        "/registration",
        "The member registration is unknown; did you mean registrations?",
    ),
    f'{KNOWN}, "asof": "2026-01-01"}}': (
        "/asof",
        "The member asof is unknown; did you mean asOf?",
    ),
    f'{KNOWN}, "<b>": 1}}': ("", "A member is unknown; this operation has "),
    f'{KNOWN}, "AB12CDE": 1}}': ("", "A member is unknown; this operation has "),
    f'{KNOWN}, "registrations": ["A1"]}}': (
        "/registrations",
        "The member registrations is given more than once.",
    ),
    f'{KNOWN}, "asOf": "x", "asOf": "2026-01-01"}}': (
        "/asOf",
        "The member asOf is given more than once.",
    ),
    f'{KNOWN}, "details": 1}}': (
        "/details",
        "The member details must be true, false or null; got a number.",
    ),
    '{"registrations": "AB12CDE"}': (
        "/registrations",
        "The member registrations must be an array of strings; got a string.",
    ),
    '{"registrations": ["AB12CDE", 7]}': (
        "/registrations/1",
        "registrations[1] must be a string; got a number.",
    ),
    '{"registrations": [{"plate": "AB12CDE"}]}': (
        "/registrations/0",
        "registrations[0] must be a string; got an object.",
    ),
    '{"registrations": []}': (
        "/registrations",
        "The member registrations must have at least one registration.",
    ),
    f'{KNOWN}, "asOf": "2026-02-30"}}': (
        "/asOf",
        "The member asOf names a day that does not exist.",
    ),
    f'{KNOWN}, "api_key": "vfd_1"}}': (
        "/api_key",
        "The member api_key is unknown; send the key in the header X-API-Key.",
    ),
    f'{KNOWN}, "asOf": "today"}}': (
        "/asOf",
        "The member asOf must be a day as YYYY-MM-DD, such as 2026-12-31.",
    ),
}


@each_row(("address", "detail"), PARAMETERS.items(), ids=PARAMETERS)
def test_a_parameter_that_is_wrong(alice, address, detail):
    """The detail names the parameter, and what it may be; an unknown one has a code of its own."""
    problem = alice.get(address).json
    assert problem["detail"] == detail
    assert problem["code"] == ("unknown_parameter" if "unknown" in detail else "invalid_parameter")


def test_no_operation_ignores_a_parameter(alice):
    """Reading or writing, an operation refuses what it does not know; OPTIONS asks for nothing."""
    reads = (DOMAINS, f"{DOMAINS}/a.example", INSURANCE, COMPLIANCE)
    for path in (*reads, WATCH, "/v1/watches", "/v1/events"):
        assert alice.get(f"{path}?x=1").json["code"] == "unknown_parameter"
        assert alice.request("HEAD", f"{path}?x=1").status_int == 400
        assert alice.request("OPTIONS", f"{path}?x=1").status_int == 204
    for path in (DOMAINS, BULK, "/v1/watches/bulk"):
        assert alice.post(f"{path}?x=1", {}).json["code"] == "unknown_parameter"


def repeated_members(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the text of a JSON value with one member given twice, and the pointer to it."""
    parts: Iterable[tuple[Any, Any]] = enumerate(value)
    if isinstance(value, dict):
        parts = value.items()
    for place, part in parts:
        if isinstance(value, dict):
            escaped = f"\\u{ord(place[0]):04x}{place[1:]}"
            for name in (place, escaped):
                yield f'{json.dumps(value)[:-1]}, "{name}": {json.dumps(part)}}}', f"/{place}"
        if isinstance(part, (dict, list)):
            others = copy(value)
            others[place] = "HERE"
            for text, pointer in repeated_members(part):
                yield json.dumps(others).replace('"HERE"', text), f"/{place}{pointer}"


def test_no_operation_takes_a_member_twice(alice):
    """At whatever depth of its examples: programs disagree about which of the two counts."""
    depths = set()
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {})
            for example in content.get("application/json", {}).get("examples", {}).values():
                for text, pointer in repeated_members(resolved(example)["value"]):
                    url = path.replace("{registration}", "AB12CDE")
                    answer = alice.request(method.upper(), url, body=text, headers=JSON)
                    assert answer.status_int == 400, text
                    (fault,) = answer.json["errors"]
                    assert (answer.json["code"], fault["pointer"]) == ("invalid_body", pointer)
                    depths.add((path, pointer.count("/")))
    assert len(depths) == 6


@each_row(
    "path",
    [
        *("/", "/healthz", "/readyz", "/openapi.json", "/metrics"),
        *("/docs", "/docs/operations/putWatch", "/docs.md", "/docs/errors", "/docs/try"),
    ],
)
def test_other_paths_ignore_parameters(world, path):
    """Probes and browsers add parameters of their own."""
    local = {"REMOTE_ADDR": "127.0.0.1"}
    assert world.client(None).get(f"{path}?x=1", environ=local).status_int == 200


def test_the_key_comes_before_parameters(stranger):
    """Without a key nobody learns which parameters there are."""
    assert stranger.get(f"{DOMAINS}?x=1").json["code"] == "unauthorized"


@each_row("plate", PLATES)
def test_a_registration_that_is_none(alice, plate):
    """The detail says how many characters there were, or which one is wrong."""
    for path in (f"/v1/vehicle/{plate}/insurance", f"/v1/compliance/{plate}"):
        problem = alice.get(path).json
        assert problem["code"] == "invalid_registration"
        assert problem["detail"] == f"Invalid registration number: {PLATES[plate]}."


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_does_not_exist(alice, path):
    """The detail names the closest path that exists."""
    problem = alice.get(path).json
    assert problem["code"] == "not_found"
    assert problem["detail"] == f"There is nothing at this path; did you mean {PATHS[path]}?"


@pytest.mark.parametrize("path", ["/nothing", "/docs/x"])
def test_a_strange_path_leads_to_the_documentation(alice, path):
    """A path like no other, or without its key, gets no guess."""
    detail = alice.get(path).json["detail"]
    assert detail == "There is nothing at this path. /docs lists the paths."


@each_row(("name", "detail"), NAMES.items(), ids=NAMES)
def test_a_domain_name_that_is_none(alice, name, detail):
    """The detail names the rule that the name breaks."""
    problem = alice.post(DOMAINS, {"name": name}).json
    assert (problem["code"], problem["detail"]) == ("invalid_domain_name", detail)


@each_row(("body", "detail"), BODIES.items(), ids=lambda text: text[:30])
def test_a_body_that_is_not_json(alice, body, detail):
    """The detail says where the body stops being JSON; it quotes nothing of it."""
    problem = alice.post(BULK, body.encode()).json
    assert (problem["code"], problem["detail"]) == ("invalid_json", detail)


def test_a_body_that_is_not_utf_8(alice):
    """The detail gives the place of the first byte that does not fit."""
    problem = alice.post(BULK, b'{"registrations": ["M\xdc"]}').json
    assert problem["detail"] == "The body is not UTF-8: see byte 22."


@each_row(("body", "fault"), MEMBERS.items(), ids=MEMBERS)
def test_a_member_that_is_wrong(alice, body, fault):
    """A pointer leads to the member, and the detail says what it must be and what it is."""
    pointer, detail = fault
    problem = alice.post(BULK, body.encode()).json
    assert problem["code"] == ("unknown_member" if "unknown" in detail else "invalid_body")
    assert problem["detail"].startswith(detail)
    assert problem["errors"] == [{"pointer": pointer, "detail": problem["detail"]}]


def test_a_list_that_is_too_long(alice, world):
    """The detail says how many the plan allows, and how many there were."""
    most = alice.post(BULK, {"registrations": ["A1"] * 1_001}).json
    assert most["detail"] == (
        "The account's plan allows 1,000 registrations in one request; got 1,001."
    )


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({}, "The body must be sent as `Content-Type: application/json`, in UTF-8; got none."),
        (
            {"Content-Type": "text/plain"},
            "The body must be sent as `Content-Type: application/json`, in UTF-8; got text/plain.",
        ),
        (
            {"Content-Type": "application/json; charset=latin-1"},
            "The body must be sent as `Content-Type: application/json`, in UTF-8; "
            "got another charset.",
        ),
        (
            {"Content-Type": 'application/json; charset=utf-8; profile="x"'},
            "The body must be sent as `Content-Type: application/json`, in UTF-8; "
            "got another parameter than `charset`.",
        ),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            "The body must be sent as it is, without Content-Encoding.",
        ),
    ],
)
def test_a_body_of_another_type(alice, headers, detail):
    """The detail names the type that is accepted; a compressed body is not called bad UTF-8."""
    problem = alice.request("POST", BULK, body=b"\x1f\x8b", headers=headers).json
    assert (problem["code"], problem["detail"]) == ("unsupported_media_type", detail)


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json;"}])
@pytest.mark.parametrize(("method", "path"), [("POST", BULK), ("PUT", "/v1/watches/A1")])
def test_a_body_that_is_missing(alice, method, path, headers):
    """The detail says so, and asks for no type of what was not sent."""
    problem = alice.request(method, path, headers=headers).json
    detail = "The body is empty. The body must be a JSON object."
    assert (problem["code"], problem["detail"]) == ("invalid_json", detail)


def test_a_method_that_a_path_does_not_have(alice):
    """The detail names the methods that it has."""
    problem = alice.request("PATCH", DOMAINS).json
    assert problem["detail"] == "This path takes GET, HEAD, POST and OPTIONS."


@each_row(
    ("headers", "detail"),
    [
        ({}, "An API key is needed, as `Authorization: Bearer KEY` or `X-API-Key: KEY`."),
        *(
            (
                {"Authorization": authorization},
                "The header Authorization must be `Bearer`, a space and the key.",
            )
            for authorization in ("vfd_1", "Basic dXNlcg==", "Bearer: vfd_1", "Bearer\tvfd_1")
        ),
        ({"Authorization": "Bearer "}, "The header Authorization has no key after `Bearer`."),
        *(
            (key("Bearer vfd_1") | other, "X-API-Key takes the key alone, without `Bearer`.")
            for other in ({}, {"Authorization": "Basic dXNlcg=="})
        ),
        (
            key("vfd_1, vfd_1"),
            "The header with the API key was sent twice, or has two keys. Send one.",
        ),
        (
            {"Authorization": "Bearer one", "X-API-Key": "two"},
            "Two different API keys were sent, in Authorization and X-API-Key. Send one.",
        ),
        (key(""), "The header X-API-Key is empty."),
        (key("0123456789"), "The API key has another format: keys begin with `vfd_`."),
        (key("vfd_123"), "The API key is not complete: such keys have 68 characters; got 7."),
        (key(f"vfd_{'0' * 65}"), "The API key is too long: such keys have 68 characters; got 69."),
        *(
            (headers, "The API key has a space or tab inside. Send it without.")
            for headers in (key("vfd_1 23"), key("vfd_1\t23"), {"Authorization": "Bearer vfd_1 2"})
        ),
        (
            key("X-API-Key: vfd_1"),
            "The header X-API-Key has its own name in its value. Send `X-API-Key: KEY`.",
        ),
        (
            key("vfd_" + "0" * 64),
            "The API key is mistyped: its last six characters do not fit the others.",
        ),
    ],
)
def test_a_key_that_is_sent_wrongly(stranger, headers, detail):
    """The detail says what is wrong with the headers or with the format of the key."""
    problem = stranger.get(DOMAINS, headers=headers).json
    assert (problem["code"], problem["detail"]) == ("unauthorized", detail)


def test_a_key_that_does_not_work(stranger, world):
    """Unknown, revoked and expired keys keep one answer (D2)."""
    revoked, expired = (create_key(world.engine, "alice")[1] for _ in range(2))
    revoke_key(world.engine, revoked.key_id)
    ApiKey.update(expires_at=clock.now()).where(ApiKey.id == expired.key_id).execute(world.engine)
    for each in (new_token("abcdef"), revoked, expired):
        assert stranger.get(DOMAINS, headers=key(each.text)).json["detail"] == (
            "The API key is unknown, expired or revoked, or its account is suspended."
        )


def test_the_type_leads_to_the_page_of_errors(alice):
    """The `type` of an error is an address on this service that explains its code."""
    problem = json.loads(alice.get("/v1/compliance/ZZ99ZZZ").body)
    assert problem["type"] == "/docs/errors#vehicle_not_found"


def refusals(world, alice):
    """Yield the texts of refusals that depend on the state of the account, by their codes."""
    limits = {"requests": 600, "window_seconds": 60, "bulk_max": 1}
    set_plan(world.engine, "standard", {**limits, "domains_max": 1})
    alice.post(DOMAINS, {"name": "a.example"})
    yield "domain_already_exists", alice.post(DOMAINS, {"name": "A.example"})
    yield "domain_quota_reached", alice.post(DOMAINS, {"name": "b.example"})
    yield "domain_not_found", alice.get(f"{DOMAINS}/b.example")
    account = require_account(world.engine, "alice")
    Domains(world.engine).set_status(account.id, "a.example", "suspended")
    yield "domain_suspended", alice.request("DELETE", f"{DOMAINS}/a.example")
    yield "vehicle_not_found", alice.get(INSURANCE)
    yield "watch_quota_reached", alice.request("PUT", WATCH, body="{}", headers=JSON)
    yield "watch_not_found", alice.get(WATCH)
    yield "events_gone", alice.get("/v1/events?after=00000000-1")
    yield "too_many_registrations", alice.post(BULK, {"registrations": ["A1", "A2"]})
    yield "body_too_large", alice.post(BULK, b"x" * (1024 * 1024 + 1))
    yield "invalid_request", alice.get(DOMAINS, environ={"HTTP_TRANSFER_ENCODING": "chunked"})
    yield "forbidden", alice.get("/metrics", environ={"REMOTE_ADDR": "192.0.2.1"})
    restrictions = Restrictions("vehicles", ["192.0.2.0/24"])
    key = create_key(world.engine, "alice", restrictions=restrictions)[1]
    restricted = world.client(key.text)
    yield "operation_forbidden", restricted.get(DOMAINS)
    yield "address_forbidden", restricted.get(DOMAINS, environ={"REMOTE_ADDR": "198.51.100.7"})
    set_enquiry(world.engine, "standard", "required", "THEFT,COLLISION")
    yield "enquiry_reason_required", alice.get(INSURANCE)
    yield "invalid_enquiry", alice.get(INSURANCE, headers={"Enquiry-Reason": "ANY"})
    set_plan(world.engine, "standard", limits | {"requests": 1, "domains_max": 1})
    yield "rate_limit_exceeded", alice.get(DOMAINS)
    world.store.lose()
    yield "database_unavailable", alice.get(DOMAINS)
    yield "not_ready", alice.get("/readyz")


TEXTS = {
    "domain_already_exists": "The account already has the domain a.example.",
    "domain_quota_reached": "The account has the only domain that its plan allows.",
    "domain_not_found": "The account has no such domain.",
    "domain_suspended": "The domain a.example is suspended. Only the operator can lift that.",
    "vehicle_not_found": "Vehicle not found",
    "watch_quota_reached": "The account has all 0 watches that its plan allows.",
    "watch_not_found": "The account has no such watch.",
    "events_gone": "The events after this one are no longer kept, or the feed has begun again ",
    "too_many_registrations": "The account's plan allows 1 registration in one request; got 2.",
    "body_too_large": "A body has at most 1,048,576 bytes; got more.",
    "invalid_request": (
        "A body must be sent with its Content-Length and without Transfer-Encoding: .NET needs "
        "LoadIntoBufferAsync, Spring a BufferingClientHttpRequestFactory."
    ),
    "forbidden": "The key's account may not read the metrics",
    "operation_forbidden": "The key may be used only for vehicles, not for this operation.",
    "address_forbidden": "The key may not be used from the address 198.51.100.7.",
    "enquiry_reason_required": (
        "The account's plan needs a reason for each look-up, in the header Enquiry-Reason; "
        "it accepts THEFT and COLLISION."
    ),
    "invalid_enquiry": (
        "The header Enquiry-Reason has a reason that the plan does not accept; "
        "it accepts THEFT and COLLISION."
    ),
    "rate_limit_exceeded": "The limit of 1 request in 60 s is used up; ",
    "database_unavailable": "The database cannot be reached now. Retry in 2 s.",
    "not_ready": "The database cannot be reached.",
}


def test_refusals_that_depend_on_the_account(world, alice, caplog):
    """Each says what the account has, what its plan allows, or when to come back."""
    texts = {code: response.json for code, response in refusals(world, alice)}
    assert {code: problem["code"] for code, problem in texts.items()} == {c: c for c in TEXTS}
    for code, text in TEXTS.items():
        assert texts[code]["detail"].startswith(text), texts[code]["detail"]


def test_every_code_has_its_text_in_a_test():
    """Every code has a test of its text, here or in tests/system."""
    here = {"invalid_parameter", "unknown_parameter", "invalid_registration", "not_found"}
    here |= {"invalid_domain_name", "invalid_json", "invalid_body", "unknown_member"}
    here |= {"unsupported_media_type", "method_not_allowed", "unauthorized"}
    elsewhere = {"uri_too_long", "too_many_connections", "internal_error", "service_unavailable"}
    assert here | set(TEXTS) | elsewhere == set(CATALOGUE)
