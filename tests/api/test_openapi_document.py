"""GET /openapi.json: the address it names, and how it is cached."""

import pytest

from app.settings.values import networks
from app.version import VERSION
from tests.conftest import ON_SQLITE, SHARED, Client, World
from tests.contract.answers import document
from tests.rows import each_row

PATH = "/openapi.json"
PROXIES = networks("10.0.0.0/8")
OWN = "http://127.0.0.1:8000"

pytestmark = [SHARED, ON_SQLITE]


def url_told(client: Client, peer: str, **headers: str) -> str:
    """Return the address that the document names to a peer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    response = client.get(PATH, headers=sent, environ={"REMOTE_ADDR": peer})
    (server,) = response.json["servers"]
    url: str = server["url"]
    return url


@pytest.fixture
def stranger(world: World) -> Client:
    """A client without a key."""
    return world.client(None, trusted_proxies=PROXIES)


class TestServer:
    @each_row(
        ("host", "url"),
        [
            ("api.example.com", "http://api.example.com"),
            ("api.example.com:8000", "http://api.example.com:8000"),
            ("api.example.com:80", "http://api.example.com"),
            ("api.example.com:443", "http://api.example.com:443"),
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("[::1]:8000", "http://[::1]:8000"),
            ("localhost", "http://localhost"),
        ],
    )
    def test_it_is_the_host_that_the_client_asked(self, stranger, host, url):
        """A client that reads the document can use its address as it is."""
        assert url_told(stranger, "192.0.2.1", Host=host) == url

    @each_row("peer", ["", "10.1.2.3", "::ffff:10.1.2.3"])
    @each_row(
        ("headers", "url"),
        [
            ({"X_Forwarded_Proto": "https"}, "https://api.example.com"),
            ({"X_Forwarded_Proto": "http"}, "http://api.example.com:443"),
            ({"X_Forwarded_Proto": "gopher"}, "https://api.example.com"),
            ({}, "https://api.example.com"),
        ],
    )
    def test_a_trusted_proxy_says_how_it_was_asked(self, stranger, peer, headers, url):
        """A proxy that says nothing speaks TLS, as ours does."""
        assert url_told(stranger, peer, Host="api.example.com:443", **headers) == url

    @pytest.mark.parametrize("peer", ["127.0.0.1", "192.0.2.1", "11.0.0.1"])
    def test_nobody_else_says_so(self, stranger, peer):
        """From another peer the header does not count (D10)."""
        url = url_told(stranger, peer, Host="api.example.com", X_Forwarded_Proto="https")
        assert url == "http://api.example.com"

    @each_row(
        "host",
        [
            *("", "-", "a b", "a/b", "a?b", "a#b", "user@example.com", "a:b", "a:", "a:123456"),
            *("<script>", '"', "_", "a,b", "a\\b", "example.com.", "[::1", "[zz]", "a" * 254),
            *("{host}", "b\u00fccher.example"),
        ],
    )
    def test_what_is_no_host_is_not_repeated(self, stranger, host):
        """The address of the file stands in for it."""
        assert url_told(stranger, "192.0.2.1", Host=host) == OWN


class TestContent:
    def test_the_version_is_the_programs(self, stranger):
        """A client sees which program it talks to."""
        assert stranger.get(PATH).json["info"]["version"] == VERSION

    def test_it_is_the_document_of_the_package(self, stranger):
        """Only the version and the server differ from the file."""
        served = stranger.get(PATH, headers={"Host": "127.0.0.1:8000"}).json
        assert served == document()


class Test304:
    @pytest.fixture
    def etag(self, stranger: Client) -> str:
        """The ETag of the document."""
        tag: str = stranger.get(PATH).headers["ETag"]
        assert tag.startswith('"')
        return tag

    @each_row("method", ["GET", "HEAD"])
    @each_row("held", ["{}", "W/{}", '"other", {}', 'W/"a",W/{}, "b"', "*"])
    def test_a_client_that_has_it_gets_no_body(self, stranger, etag, method, held):
        """Lists, `*` and weak tags match; a compressing proxy turns our tag into a weak one."""
        headers = {"If-None-Match": held.format(etag)}
        response = stranger.request(method, PATH, headers=headers)
        assert (response.status_int, response.body) == (304, b"")
        assert (response.headers["ETag"], response.headers["Cache-Control"]) == (etag, "no-cache")

    @pytest.mark.parametrize("held", ['"other"', 'W/"other"', "", '""', "nonsense"])
    def test_a_client_with_another_one_gets_it(self, stranger, etag, held):
        """A copy that is out of date is replaced."""
        response = stranger.get(PATH, headers={"If-None-Match": held})
        assert (response.status_int, response.headers["ETag"]) == (200, etag)
        assert response.json["openapi"]

    def test_another_address_is_another_document(self, stranger, etag):
        """What names another server has another ETag."""
        assert stranger.get(PATH, headers={"Host": "other.example"}).headers["ETag"] != etag
