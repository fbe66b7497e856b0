"""After a typical mistake, the error says what was probably done, and what to do (D103)."""

import gzip
import json
import zlib
from http import HTTPStatus

import pytest

from app.accounts.tokens import new_token
from tests.rows import each_row

BULK = "/v1/vehicle/bulk-insurance"
DOMAINS = "/api/domains"
NEW_NAME = b'{"name": "a.example"}'
MANY = '{"registrations": ["AB12CDE"]}'
DOUBLE_QUOTES = "JSON takes double quotes, not single ones."
BEGINNING = "A JSON object begins with `{`."
OTHER_UNICODE = "The body is UTF-16 or UTF-32. Send it in UTF-8."
CONTROL = r"Control characters in a text are escaped: a line end as `\n`, a tab as `\t`."
NO_BREAK_SPACE = "JSON has no such space; it may be a no-break space."
COMPRESSED = "The body is compressed. Send it uncompressed."

SYNTAX = {
    "{'name': 'a.example'}": DOUBLE_QUOTES,
    "'{name:": DOUBLE_QUOTES,
    "{\"name\": 'a.example'}": DOUBLE_QUOTES,
    "{\u201cname\u201d: \u201ca.example\u201d}": "JSON takes straight double quotes.",
    r"{\"name\": \"a.example\"}": "Quotes around texts must not have a backslash before them.",
    '{name: "a.example"}': "Texts and names of members need double quotes.",
    '{"name": a.example}': "Texts and names of members need double quotes.",
    '{"name": "a.example", "x": True}': "JSON has the words `true`, `false` and `null`.",
    r'{"name": "\x"}': r"JSON has no such escape; a backslash in a text is written `\\`.",
    r'{"name": "a.example\'"}': r"JSON has no such escape; a backslash in a text is written `\\`.",
    r'{"name": "\u12"}': r"After `\u` there must be four hexadecimal digits.",
    '{"name": "a.example\n"}': CONTROL,
    '{"name": "\x01"}': CONTROL,
    '{"name" "a.example"}': "A colon is missing here.",
    '{1: "a.example"}': "Texts and names of members need double quotes.",
    '{"name": +1}': "A number begins with a digit, or with `-` and a digit.",
    '{"name": None}': "JSON has the words `true`, `false` and `null`.",
    '{"name": undefined}': "JSON has the words `true`, `false` and `null`.",
    '{"name": "a.example",}': "A value is missing here, or there is a comma too many.",
    '{"x": ["A1",]}': "A value is missing here, or there is a comma too many.",
    '{"x": [,"A1"]}': "A value is missing here, or there is a comma too many.",
    '{"name": }': "A value is missing here, or there is a comma too many.",
    '{"name": "a.example" "x": 1}': "A comma or a quote is missing.",
    '{"x": ["A1" "A2"]}': "A comma or a quote is missing.",
    '{"x": ["A1"}': "A bracket before this is not closed.",
    '{"name": "a.example"\u00a0}': NO_BREAK_SPACE,
    '\u00a0{"name": "a.example"}': NO_BREAK_SPACE,
    '{"name": "a.example" /* why */}': "JSON has no comments.",
    '{"name": "a.example", // why\n}': "JSON has no comments.",
    '{"name": "a.example"': "Its end is missing, or a closing quote.",
    '{"name": "a.example}': "Its end is missing, or a closing quote.",
    '{"name": "a.example"}\n{"name": "b.example"}': "Something follows the JSON object.",
    "name=a.example": "This looks like a form. Send a JSON object.",
    "<name>a.example</name>": "This looks like XML. Send a JSON object.",
    "%7B%22name%22%3A%22a.example%22%7D": "This is percent-encoded. Send plain JSON.",
    "@body.json": BEGINNING,
    "$BODY": BEGINNING,
    "undefined": BEGINNING,
    "AB12CDE\nLP63SED": BEGINNING,
}
BYTES = {
    gzip.compress(NEW_NAME, mtime=0): COMPRESSED,
    zlib.compress(NEW_NAME): COMPRESSED,
    b"PK\x03\x04\xff": COMPRESSED,
    MANY.encode("utf-16"): OTHER_UNICODE,
    MANY.encode("utf-32"): OTHER_UNICODE,
    b'{"registrations": ["M\xdc"]}': "The body is not UTF-8: see byte 22.",
}
TYPES = {
    "application/x-www-form-urlencoded": "a form, the default of `curl -d`",
    "multipart/form-data; boundary=x": "a form",
    "text/json": "text/json",
    "Text/XML": "XML",
    "application/vnd.api+json": "another type",
    "AB12CDE": "another type",
}
URL = "Give the domain name without scheme, port and path: example.com."
SPACES = "A domain name has no spaces or line ends."
NAMES = {
    "https://example.com": URL,
    "https://m\u00fcller.example/x": URL,
    "example.com/path": URL,
    "example.com:8080": URL,
    "me@example.com": "Give the domain name without what comes before the @: example.com.",
    "*.example.com": "A domain name has no wildcards (*).",
    "_dmarc.example.com": "A domain name has no underscores.",
    "a.example,b.example": "Give one domain name, without commas.",
    " example.com": SPACES,
    "example.com\n": SPACES,
    "dom_jNjhgO5ZsG4AFHNWqOSk": "Give the name of the domain, not its id.",
}
IN_BODY = {
    f"{BULK}?asOf=2026-01-01": "asOf",
    f"{BULK}?registrations=AB12CDE": "registrations",
    "/v1/compliance/bulk?explain=true": "explain",
    f"{DOMAINS}?name=a.example": "name",
}
INSURANCE = "/v1/vehicle/{registration}/insurance"
COMPLIANCE = "/v1/compliance/{registration}"
DOMAIN = "/api/domains/{domain}"
NO_SLASH = ", without a slash in {}"
PATHS = {
    "GET /v1/vehicle/AB/12CDE/insurance": INSURANCE + NO_SLASH.format("{registration}"),
    "GET /v1/vehicle/A%2FB%2F1/insurance": INSURANCE + NO_SLASH.format("{registration}"),
    "GET /v1/compliance/AB%2F12CDE": COMPLIANCE + NO_SLASH.format("{registration}"),
    "GET /api/domains/https://example.com": DOMAIN + NO_SLASH.format("{domain}"),
    "DELETE /api/domains/example.com/path": DOMAIN + NO_SLASH.format("{domain}"),
    "GET /v1/vehicle/AB12CDE/compliance": COMPLIANCE,
    "GET /v1/insurance/AB12CDE": INSURANCE,
    "GET /api/v1/vehicle/AB12CDE/insurance": INSURANCE,
    "GET /v1/api/domains": DOMAINS,
    "POST /v1/vehicle/bulk": BULK,
    "POST /v1/insurance/bulk": BULK,
    "POST /v1/vehicle/bulk-compliance": "/v1/compliance/bulk",
    "POST /v1/vehicle/bulk-insurance/today": BULK,
    "POST /v1/compliance/bulk/today": "/v1/compliance/bulk",
    "GET /v1/vehicle/insurance/AB12CDE": INSURANCE,
    "GET /swagger.json": "/openapi.json",
    "GET /openapi.yaml": "/openapi.json",
}


@each_row("body", SYNTAX)
def test_a_body_that_is_nearly_json(alice, body):
    """The place is followed by what is wrong there, or by what the body looks like."""
    problem = alice.post(DOMAINS, body.encode()).json
    place, _, hint = problem["detail"].partition(". ")
    assert problem["code"] == "invalid_json"
    assert place.startswith("The body is not JSON: see line ")
    assert hint == SYNTAX[body]


@pytest.mark.parametrize("body", BYTES)
def test_bytes_that_are_no_utf_8(alice, body):
    """A compressed body is recognised, without the header too, and so are other encodings."""
    problem = alice.post(BULK, body).json
    assert (problem["code"], problem["detail"]) == ("invalid_json", BYTES[body])


def test_a_text_in_utf_16_without_a_mark(alice):
    """Its bytes are UTF-8 with NUL characters between them."""
    assert alice.post(BULK, MANY.encode("utf-16-le")).json["detail"].endswith(OTHER_UNICODE)


def test_json_within_json(alice):
    """A string in place of an object was probably encoded twice."""
    detail = alice.post(DOMAINS, json.dumps(NEW_NAME.decode()).encode()).json["detail"]
    assert detail == (
        "The body must be a JSON object; got a string. It may have been encoded twice."
    )


@pytest.mark.parametrize("media_type", TYPES)
def test_a_body_of_a_usual_wrong_type(alice, media_type):
    """The detail names the types that clients send by mistake, and repeats no other."""
    headers = {"Content-Type": media_type}
    problem = alice.request("POST", DOMAINS, body=NEW_NAME, headers=headers).json
    assert problem["code"] == "unsupported_media_type"
    assert problem["detail"] == (
        "The body must be sent as `Content-Type: application/json`, in UTF-8; "
        f"got {TYPES[media_type]}."
    )


@each_row("name", NAMES)
def test_what_is_taken_for_a_domain_name(alice, name):
    """The detail says which part to leave out, wherever the name is sent."""
    problem = alice.post(DOMAINS, {"name": name}).json
    assert (problem["code"], problem["detail"]) == ("invalid_domain_name", NAMES[name])
    after = alice.get(f"{DOMAINS}?after={''.join(f'%{each:02X}' for each in name.encode())}").json
    assert after["detail"] == f"The parameter after must be a domain name. {NAMES[name]}"


def test_the_id_of_a_domain_in_a_path(alice):
    """An id in place of a name is recognised."""
    problem = alice.get(f"{DOMAINS}/dom_jNjhgO5ZsG4AFHNWqOSk").json
    assert problem["detail"] == "Give the name of the domain, not its id."


@pytest.mark.parametrize("address", IN_BODY)
def test_a_parameter_that_is_a_member(alice, address):
    """The detail says that it belongs into the body."""
    problem = alice.post(address, MANY.encode()).json
    assert (problem["code"], problem["detail"]) == (
        "unknown_parameter",
        f"The parameter {IN_BODY[address]} is unknown; send it as a member of the body.",
    )


@each_row("line", PATHS)
def test_a_path_that_does_not_exist(alice, line):
    """The detail names the path that was meant, and a slash that does not belong there."""
    method, path = line.split(" ")
    problem = alice.request(method, path).json
    assert problem["code"] == "not_found"
    assert problem["detail"] == f"There is nothing at this path; did you mean {PATHS[line]}?"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/compliance/bulk-compliance", "/v1/compliance/bulk"),
        ("/v1/compliance/bulks", "/v1/compliance/bulk"),
        ("/v1/compliance/bulk-insurance", BULK),
    ],
)
def test_a_misspelt_path_for_many_vehicles(alice, stranger, path, meant):
    """It is taken for the path of a plate, which has no POST; the 405 names the path meant."""
    problem = alice.post(path, {}).json
    assert (problem["code"], problem["detail"]) == (
        "method_not_allowed",
        f"This path takes GET, HEAD and OPTIONS; did you mean {meant}?",
    )
    assert stranger.post(path, {}).json["code"] == "unauthorized"
    plain = alice.post("/v1/compliance/AB12CDE", {}).json
    assert plain["detail"] == "This path takes GET, HEAD and OPTIONS."


def test_a_plus_sign_in_a_path(alice):
    """Only in a query does a plus sign stand for a space."""
    detail = alice.get("/v1/compliance/AB+12CDE").json["detail"]
    assert detail.endswith(" A space in a path is %20, not a plus sign.")


def test_many_vehicles_by_get(alice):
    """GET asks for the plate BULK; its 404 says how many vehicles are checked (D92)."""
    problem = alice.get("/v1/compliance/bulk").json
    assert (problem["code"], problem["detail"]) == (
        "vehicle_not_found",
        "Vehicle not found. To check many vehicles, send a POST to this path.",
    )
    assert alice.get("/v1/compliance/bulk?asOf=x").json["code"] == "invalid_parameter"
    assert alice.get("/v1/compliance/BULK").json["detail"] == "Vehicle not found"


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"Authorization": "Bearer Bearer vfd_1"}, "The header Authorization has `Bearer` twice."),
        (
            {"X-API-Key": "$KEY"},
            "The API key is the name of a shell variable. Use double quotes in the command.",
        ),
        *(
            (headers, "The API key has something before its `vfd_`, such as a quote.")
            for headers in ({"X-API-Key": '"vfd_1"'}, {"Authorization": "Bearer <vfd_1>"})
        ),
        (
            {"X-API-Key": new_token("abcdef").text.lower()},
            "The API key is mistyped: its last six characters do not fit the others.",
        ),
    ],
)
def test_a_key_that_is_wrapped_in_something(stranger, headers, detail):
    """The detail says what surrounds the key."""
    answer = stranger.get(DOMAINS, headers=headers)
    assert answer.status_int == HTTPStatus.UNAUTHORIZED
    assert answer.json["detail"] == detail
