"""The documentation page needs nothing but this service."""

import gc
import hashlib
import json
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import falcon
import pytest
import webtest
from packaging.version import Version

import app.operations
from app.operations.documentation import DocumentationAsset, DocumentationPage
from app.operations.openapi_document import OpenApiDocument

SWAGGER_UI = Path(app.operations.__file__).parent / "swagger-ui"
MANIFEST = json.loads((SWAGGER_UI / "manifest.json").read_text())
ASSETS = {
    "/docs/docs.js": "text/javascript",
    "/docs/favicon-32x32.png": "image/png",
    "/docs/swagger-ui-bundle.js": "text/javascript",
    "/docs/swagger-ui.css": "text/css",
}


class Links(HTMLParser):
    """Collects the addresses that a page loads or links to, and its inline scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.inline_scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the addresses and event handlers of one element."""
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        """Record the text of a script."""
        if self.lasttag == "script" and data.strip():
            self.inline_scripts.append(data)


@pytest.fixture(scope="module")
def client() -> webtest.TestApp:
    """An application with only the three resources."""
    app = falcon.App()
    app.add_route("/openapi.json", OpenApiDocument())
    app.add_route("/docs", DocumentationPage())
    app.add_route("/docs/{asset}", DocumentationAsset())
    return webtest.TestApp(app)


def test_the_document_is_served(client: webtest.TestApp) -> None:
    """GET /openapi.json answers with the document as JSON."""
    response = client.get("/openapi.json")
    assert response.content_type == "application/json"
    assert json.loads(response.body)["openapi"].startswith("3.1.")


def test_every_address_on_the_page_is_served(client: webtest.TestApp) -> None:
    """Each address of the page is served in its media type, and no file is unused."""
    page = client.get("/docs")
    assert page.content_type == "text/html"
    paths = {urljoin("/docs", address) for address in Links(page.text).addresses}
    assert paths == {*ASSETS, "/openapi.json"}
    for path, media_type in ASSETS.items():
        response = client.get(path)
        assert response.content_type == media_type
        assert response.content_length == len(response.body) > 0


def test_the_page_shows_our_document(client: webtest.TestApp) -> None:
    """The initialiser loads the document next to the page, and reaches nothing outside."""
    script = client.get("/docs/docs.js").text
    address = re.search(r'url: "([^"]*)"', script)
    assert address
    assert urljoin("/docs", address[1]) == "/openapi.json"
    assert "validatorUrl: null" in script
    assert "queryConfigEnabled: false" in script
    assert "persistAuthorization: false" in script


@pytest.mark.parametrize("path", ["/docs", "/docs/docs.js"])
def test_nothing_names_another_host(client: webtest.TestApp, path: str) -> None:
    """Neither the page nor its initialiser has the address of another host."""
    assert not re.search(r"//[^\s]", client.get(path).text)


def test_swagger_ui_is_as_upstream_made_it() -> None:
    """The directory has exactly the files that the manifest pins by SHA-256 (D63)."""
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in SWAGGER_UI.iterdir()
        if path.name != "manifest.json"
    }
    assert found == MANIFEST["files"]
    assert {"LICENSE", "NOTICE"} <= found.keys()


def test_swagger_ui_has_no_known_fault() -> None:
    """The bundle has the manifest's versions; older ones have known vulnerabilities."""
    bundle = (SWAGGER_UI / "swagger-ui-bundle.js").read_text(encoding="utf-8")
    assert re.findall(r'PACKAGE_VERSION:"([^"]*)"', bundle) == [MANIFEST["version"]]
    assert re.findall(r'DOMPurify\.version="([^"]*)"', bundle) == [MANIFEST["dompurify"]]
    assert Version(MANIFEST["version"]) >= Version("5.32.5")
    assert Version(MANIFEST["dompurify"]) >= Version("3.4.11")


def test_the_style_sheet_loads_nothing(client: webtest.TestApp) -> None:
    """The style sheet embeds its images and imports no other."""
    style = client.get("/docs/swagger-ui.css").text
    assert set(re.findall(r"url\(\W*(\w+:?)", style)) == {"data:"}
    assert "@import" not in style


def test_the_page_has_no_inline_script(client: webtest.TestApp) -> None:
    """All scripts are files, as the content security policy requires."""
    links = Links(client.get("/docs").text)
    assert links.inline_scripts == []
    assert links.handlers == []


@pytest.mark.parametrize("path", ["/docs", *ASSETS])
def test_the_browser_is_kept_to_this_service(client: webtest.TestApp, path: str) -> None:
    """The page and its files may run and reach only what this service sends."""
    response = client.get(path)
    policy = dict(
        part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", *ASSETS])
def test_head_answers_as_get_without_a_body(client: webtest.TestApp, path: str) -> None:
    """HEAD gives the headers of GET, the length included (D1)."""
    head, get = client.head(path), client.get(path)
    assert head.body == b""
    assert dict(head.headers) == dict(get.headers)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_file_is_left_open(client: webtest.TestApp, method: str) -> None:
    """An asset's file is closed when the answer is sent, or when no body is needed."""
    gc.collect()  # Ignore files that other tests left open.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        client.request("/docs/swagger-ui-bundle.js", method=method)
        gc.collect()
    assert [warning.message for warning in caught] == []


@pytest.mark.parametrize(
    "asset",
    [
        "",
        ".",
        "..",
        "..%2f",
        "..%2f..%2f__init__.py",
        "%2e%2e%2fswagger-ui.css",
        ".%2fswagger-ui.css",
        "..%5cswagger-ui.css",
        "%2fetc%2fpasswd",
        "swagger-ui.css%00",
        "swagger-ui.css/",
        "SWAGGER-UI.CSS",
        "swagger-ui.js",
        "index.html",
        "nothing.js",
    ],
)
def test_unknown_asset_is_not_found(client: webtest.TestApp, asset: str) -> None:
    """Only the four files of the page are assets; other files and paths are not."""
    client.get(f"/docs/{asset}", status=404)
    client.head(f"/docs/{asset}", status=404)
