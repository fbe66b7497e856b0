"""What a wrong word or path was probably meant to be."""

import pytest

from app.http.paths import closest_template
from app.routes import ENDPOINTS
from app.suggestions import closest, listed

TEMPLATES = [endpoint.path for endpoint in ENDPOINTS]


@pytest.mark.parametrize("word", ["asof", "as_of", "As-Of", "asOff", "asO"])
def test_a_misspelt_word_has_a_closest_one(word):
    """Case, underscores and single letters do not hide which word was meant."""
    assert closest(word, ["limit", "asOf", "explain"]) == "asOf"


@pytest.mark.parametrize("word", ["date", "", "x", "asof" * 100])
def test_a_different_word_has_none(word):
    """A word that is like no other gets no suggestion."""
    assert closest(word, ["asOf", "explain"]) is None


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_words_are_listed_as_in_a_sentence(words, text):
    """The last word comes after `and`."""
    assert listed(words) == text


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/vehicle/AB12CDE/insurance", "/v1/vehicle/{registration}/insurance"),
        ("/v1/vehicles/AB12CDE/insurance", "/v1/vehicle/{registration}/insurance"),
        ("/v2/vehicle/AB12CDE/insurance", "/v1/vehicle/{registration}/insurance"),
        ("/v1/vehicle/AB12CDE/insurance/", "/v1/vehicle/{registration}/insurance"),
        ("/api/vehicle/AB12CDE/insurance", "/v1/vehicle/{registration}/insurance"),
        ("/v1/vehicle/bulk_insurance", "/v1/vehicle/bulk-insurance"),
        ("/v1/bulk-insurance", "/v1/vehicle/bulk-insurance"),
        ("/compliance/AB12CDE", "/v1/compliance/{registration}"),
        ("/v1/complience/AB12CDE", "/v1/compliance/{registration}"),
        ("/domains", "/api/domains"),
        ("/v1/domains", "/api/domains"),
        ("/API/Domains", "/api/domains"),
        ("/api/domains/", "/api/domains"),
        ("/api/domain/example.com", "/api/domains/{domain}"),
        ("/health", "/healthz"),
        ("/openapi.yaml", "/openapi.json"),
    ],
)
def test_a_wrong_path_has_a_closest_one(path, template):
    """The usual mistakes lead to the path that was meant."""
    assert closest_template(path, TEMPLATES) == template


@pytest.mark.parametrize("path", ["/", "/nothing", "/favicon.ico", "/wp-login.php", "//" * 4_000])
def test_a_strange_path_has_none(path):
    """A path that is like no other gets no suggestion."""
    assert closest_template(path, TEMPLATES) is None
