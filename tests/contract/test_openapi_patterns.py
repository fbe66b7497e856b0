"""The patterns of the OpenAPI document accept what the service accepts.

A pattern describes ASCII exactly. It cannot describe which other characters are letters, or how
they are normalised; the document says so.
"""

import re
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.clock import parse_iso_date
from app.domains.names import canonical_domain_name
from app.vehicles.registration import canonical_registration
from tests.contract.answers import document, resolved

SCHEMAS = document()["components"]["schemas"]
PLATES = st.text("ABCXYZabcxyz0189 -", max_size=30)
LABELS = st.from_regex(r"[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?", fullmatch=True)
NAMES = st.lists(LABELS | st.text("aZ0-", max_size=64), max_size=6).map(".".join)
ASCII_TEXT = st.text(st.characters(max_codepoint=0x7F), max_size=20)
ANY_TEXT = st.text(max_size=20)
DAYS = st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True)


def fits(name: str, text: str) -> bool:
    """Tell whether a text fits a schema, by the rules of ECMA's regular expressions."""
    schema = SCHEMAS[name]
    # NOTE: Python's $ also matches before a newline at the end.
    found = re.search(schema["pattern"].replace("$", r"\Z"), text)
    in_length = schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text))
    return found is not None and in_length


def is_a_label(label: str) -> bool:
    """Tell whether a text in the form of an A-label is one, which a pattern cannot."""
    return not label.lower().startswith("xn--")


class TestRegistrations:
    @given(PLATES | ASCII_TEXT)
    @example("%29")
    @example(")")
    @example("-")
    @example(" - ")
    @example("A" * 12 + "-" * 88)
    @example("A" * 12 + "-" * 89)
    @example("A" * 13)
    @example("AB12CDE\n")
    def test_in_ascii_the_pattern_is_the_rule(self, text):
        """An ASCII text fits exactly if it is a registration number (D19)."""
        assert fits("SentRegistration", text) == (canonical_registration(text) is not None)

    @given(ANY_TEXT | st.text("aZ9- Äß\ufdfa\u3000\u0301", max_size=101))
    @example("A" + "\u3000" * 99)
    @example("é" * 12)
    def test_what_does_not_fit_is_refused(self, text):
        """The pattern excludes nothing that the service accepts, and answers fit theirs."""
        plate = canonical_registration(text)
        if plate is not None:
            assert fits("SentRegistration", text)
            assert fits("Registration", plate)

    @given(st.text("ÄÖÜåçñБЯ京א", min_size=1, max_size=12))
    def test_letters_of_other_scripts_are_accepted(self, text):
        """Letters of other scripts fit, and the service accepts them."""
        assert fits("SentRegistration", text)
        assert canonical_registration(text) is not None


class TestDomainNames:
    @given(NAMES | NAMES.map("{}.".format) | ASCII_TEXT)
    @example("0")
    @example("example.0")
    @example("1.2.3.4.")
    @example("a.1-2")
    @example("a.b\n")
    @example(f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}.")
    @example(f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}")
    @example(f"{'a' * 64}.example")
    def test_in_ascii_the_pattern_is_the_rule(self, text):
        """An ASCII text fits exactly if it is a name, except for false A-labels."""
        if all(map(is_a_label, text.split("."))):
            assert fits("SentDomainName", text) == (canonical_domain_name(text) is not None)
        elif not fits("SentDomainName", text):
            assert canonical_domain_name(text) is None

    @given(st.lists(ANY_TEXT | LABELS, max_size=4).map(".".join) | st.text("aZ0.ü。-!_ ß\u00ad"))
    @example("ü。b。")
    def test_what_does_not_fit_is_refused(self, text):
        """The pattern excludes nothing that the service accepts, and answers fit theirs."""
        name = canonical_domain_name(text)
        if name is not None:
            assert fits("SentDomainName", text)
            assert fits("DomainName", name)

    @given(st.lists(st.text("äöüßçñбя京", min_size=1, max_size=15), min_size=2, max_size=4))
    def test_international_names_are_accepted(self, labels):
        """International names fit, and the service accepts them."""
        name = ".".join(labels)
        assert fits("SentDomainName", name)
        assert canonical_domain_name(name) is not None


class TestDays:
    @given(DAYS | ANY_TEXT | st.dates().map(date.isoformat))
    @example("0000-01-01")
    @example("2026-00-01")
    @example("2026-13-01")
    @example("2026-12-32")
    @example("2026-01-01\n")
    @example("\u0662026-01-01")
    def test_the_pattern_is_the_rule_except_for_the_length_of_months(self, text):
        """A text fits exactly if it is a date, except for days beyond a month's end."""
        assert fits("Day", text) or parse_iso_date(text) is None
        if fits("Day", text) and int(text[-2:]) <= 28:
            assert parse_iso_date(text) is not None


def sent() -> list[Any]:
    """Every place for a client's text: name of the schema, and how it is sent."""
    return [
        pytest.param("SentRegistration", "/v1/vehicle/{}/insurance", id="insurance"),
        pytest.param("SentRegistration", "/v1/compliance/{}", id="compliance"),
        pytest.param("SentDomainName", "/api/domains/{}", id="domain"),
        pytest.param("SentDomainName", "/api/domains?after={}", id="after"),
        pytest.param("Day", "/v1/vehicle/AB12CDE/insurance?asOf={}", id="asOf"),
        pytest.param("Day", "/v1/compliance/AB12CDE?asOf={}", id="asOf of compliance"),
    ]


@pytest.mark.hypothesis
@pytest.mark.parametrize(("schema", "address"), sent())
def test_the_service_refuses_what_does_not_fit(world, schema, address):
    """Over HTTP, a text that does not fit is refused; one that fits is not called invalid."""
    client = world.client(world.key_of("carol", "enterprise"))
    texts = {"SentRegistration": PLATES, "SentDomainName": NAMES, "Day": DAYS}[schema]

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(texts | ASCII_TEXT)
    @example("0")
    @example(")")
    @example("")
    def send(text):
        escaped = "".join(f"%{byte:02X}" for byte in text.encode())
        response = client.get(address.format(escaped))
        if not fits(schema, text):
            assert response.status_int in (400, 404)
            assert response.json["code"] != "vehicle_not_found"
        elif all(map(is_a_label, text.split("."))) and (schema != "Day" or parse_iso_date(text)):
            assert response.status_int in (200, 404)
            assert response.json.get("code") in (None, "vehicle_not_found", "domain_not_found")

    send()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/domains", {"name": "0"}),
        ("/api/domains", {"name": "example.0"}),
        ("/v1/vehicle/bulk-insurance", {"registrations": ["A\0"]}),
        ("/v1/vehicle/bulk-insurance", {"registrations": []}),
        ("/v1/vehicle/bulk-insurance", {"registrations": ["A"], "asOf": "0000-01-01"}),
        ("/v1/watches/bulk", {"remove": ["A\0"]}),
        ("/v1/watches/bulk", {"add": [{"registration": "A\0"}]}),
    ],
)
def test_a_body_that_does_not_fit_is_refused(alice, path, body):
    """Bodies that the document excludes get 400."""
    assert alice.post(path, body).status_int == 400


def test_every_text_that_is_sent_has_a_pattern():
    """Every parameter and every text member of a request has a limiting schema."""
    plain = []
    for item in document()["paths"].values():
        for operation in item.values():
            schemas = [resolved(each)["schema"] for each in operation.get("parameters", [])]
            content = operation.get("requestBody", {}).get("content", {})
            for body in (resolved(media["schema"]) for media in content.values()):
                schemas += body["properties"].values()
            plain += [each for each in schemas if not is_told(resolved(each))]
    assert plain == []


def is_told(schema: dict[str, Any]) -> bool:
    """Tell whether a schema limits the texts that fit it."""
    if "anyOf" in schema:
        return all(is_told(resolved(each)) for each in schema["anyOf"])
    if schema["type"] == "array":
        return is_told(resolved(schema["items"]))
    if schema["type"] == "object":
        return all(is_told(resolved(each)) for each in schema["properties"].values())
    return schema["type"] != "string" or not schema.keys().isdisjoint({"pattern", "enum"})
