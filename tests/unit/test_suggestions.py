"""What a wrong word or path was probably meant to be."""

import pytest

from app.errors import closest, listed
from app.routes import SUGGESTED_PATHS
from app.serve.http.paths import closest_path
from tests.rows import each_row


@each_row("word", ["asof", "as_of", "As-Of", "asOff", "asO"])
def test_a_misspelt_word_has_a_closest_one(word):
    """Case, underscores and single letters do not hide which word was meant."""
    assert closest(word, ["limit", "asOf", "explain"]) == "asOf"


@each_row("word", ["date", "", "x", "asof" * 100])
def test_a_different_word_has_none(word):
    """A word that is like no other gets no suggestion."""
    assert closest(word, ["asOf", "explain"]) is None


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_words_are_listed_as_in_a_sentence(words, text):
    """The last word comes after `and`."""
    assert listed(words) == text


@each_row(
    ("request_line", "template"),
    {
        "GET /vehicle/AB12CDE/insurance": "/v1/vehicle/{registration}/insurance",
        "GET /v1/vehicles/AB12CDE/insurance": "/v1/vehicle/{registration}/insurance",
        "GET /v2/vehicle/AB12CDE/insurance": "/v1/vehicle/{registration}/insurance",
        "GET /v1/vehicle/AB12CDE/insurance/": "/v1/vehicle/{registration}/insurance",
        "GET /api/vehicle/AB12CDE/insurance": "/v1/vehicle/{registration}/insurance",
        "GET /v1/vehicle/AB12CDE": "/v1/vehicle/{registration}/insurance",
        "HEAD /v1/vehicle/AB12CDE": "/v1/vehicle/{registration}/insurance",
        "POST /v1/vehicle/bulk_insurance": "/v1/vehicle/bulk-insurance",
        "POST /v1/bulk-insurance": "/v1/vehicle/bulk-insurance",
        "POST /v1/compliance": "/v1/compliance/bulk",
        "GET /compliance/AB12CDE": "/v1/compliance/{registration}",
        "GET /v1/complience/AB12CDE": "/v1/compliance/{registration}",
        "DELETE /v1/complience/AB12CDE": "/v1/compliance/{registration}",
        "GET /domains": "/api/domains",
        "GET /v1/domains": "/api/domains",
        "POST /API/Domains": "/api/domains",
        "GET /api/domains/": "/api/domains",
        "DELETE /api/domain/example.com": "/api/domains/{domain}",
        "GET /account": "/v1/account",
        "GET /health": "/healthz",
    }.items(),
)
def test_a_wrong_path_has_a_closest_one(request_line, template):
    """The usual mistakes lead to the path that was meant, at best to one that has the method."""
    method, path = request_line.split()
    assert closest_path(path, method, SUGGESTED_PATHS) == template


@each_row(
    "request_line",
    [
        *("GET /", "GET /nothing", "GET /favicon.ico", "GET /wp-login.php"),
        *("GET /docs/x", "GET /docs/operations/x", "GET /api/operations/x"),
        *("GET /v1", "GET /api", "GET /v1/insurance/AB12CDE", "POST /v1/vehicle/bulk-compliance"),
        *("GET /" + "x/" * 4_000, "GET /" + "x" * 8_000),
    ],
    ids=lambda line: line[:40],
)
def test_a_strange_path_has_none(request_line):
    """A path that is like no other gets no suggestion."""
    method, path = request_line.split()
    assert closest_path(path, method, SUGGESTED_PATHS) is None
