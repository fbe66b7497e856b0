"""The pages need nothing but this service, and their links lead somewhere."""

import gc
import hashlib
import json
import re
import warnings
from collections import defaultdict
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import falcon
import pytest
import webtest
from packaging.version import Version

import app.documentation
from app.documentation.reference import LIBRARIES, TYPED_CLIENTS
from app.documentation.resources import (
    ASSETS,
    DocumentationAsset,
    DocumentationMarkdown,
    DocumentationPage,
    ErrorsPage,
    OpenApiDocument,
    OperationPage,
    StartPage,
    TryPage,
)
from app.domains.resources import PAGE_DOMAINS_MAX
from app.errors import CATALOGUE
from app.monitoring.health import Health
from app.registers.formats.native import LAYOUTS
from app.serve.http.bodies import BODY_BYTES_MAX
from app.serve.http.context import Request
from app.serve.sandbox_errors import ERRORS
from app.storage.tables import Kind
from app.vehicles.registration import REGISTRATION_CHARACTERS_MAX
from app.vehicles.sandbox import VEHICLES, VEHICLES_UNKNOWN
from tests.contract.answers import document
from tests.contract.pages import ROOT, documentation_section
from tests.rows import each_row

SWAGGER_UI = Path(app.documentation.__file__).parent / "swagger-ui"
CLIENTS = ROOT / "tests" / "system" / "clients"
MANIFEST = json.loads((SWAGGER_UI / "manifest.json").read_text())
OPERATIONS = {
    node["operationId"]: (path, node)
    for path, item in document()["paths"].items()
    for node in item.values()
    if node["tags"] != ["Operations"]
}
OPERATION_PAGES = [f"/docs/operations/{name}" for name in OPERATIONS]
WITH_SAMPLES = ["/docs", *OPERATION_PAGES]
OWN_PAGES = ["/", "/docs/errors", *WITH_SAMPLES]
PAGES = [*OWN_PAGES, "/docs/try"]
ADDRESSES = {name: f"/docs/{asset.served_name}" for name, asset in ASSETS.items()}
MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """Collects what a page loads, links to and names, and checks that its elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.handlers: list[str] = []
        self.inline: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the addresses, names and event handlers of one element."""
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "src" or (tag == "link" and name == "href"):
                self.loaded.append(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name == "id":
                self.ids.append(value or "")
            elif name == "for":
                self.labels.append(value or "")
            elif name.startswith("on") or name == "style":
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be this one."""
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        """Record the text of a script or style."""
        if self.open and self.open[-1] in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def client() -> webtest.TestApp:
    """An application with only the pages and what they link to."""
    app = falcon.App(request_type=Request)
    app.add_route("/", StartPage())
    app.add_route("/healthz", Health())
    app.add_route("/openapi.json", OpenApiDocument())
    app.add_route("/docs", DocumentationPage())
    app.add_route("/docs/operations/{operation}", OperationPage())
    app.add_route("/docs.md", DocumentationMarkdown())
    app.add_route("/docs/errors", ErrorsPage())
    app.add_route("/docs/try", TryPage())
    app.add_route("/docs/{asset}", DocumentationAsset())
    return webtest.TestApp(app)


def page(client: webtest.TestApp, path: str) -> Page:
    """Return a page as a browser gets it."""
    response = client.get(path, headers=BROWSER)
    assert response.content_type == "text/html"
    return Page(response.text)


@pytest.mark.parametrize("path", PAGES)
def test_every_address_on_a_page_is_served(client: webtest.TestApp, path: str) -> None:
    """What a page loads is an asset; what it links to is there, and so is the place within it."""
    found = page(client, path)
    assert {urljoin(path, address) for address in found.loaded} <= set(ADDRESSES.values())
    places: dict[str, set[str]] = defaultdict(set)
    for address in found.links:
        target, fragment = urldefrag(urljoin(path, address))
        places[target].add(fragment)
    for target, fragments in places.items():
        assert target.startswith("/")
        response = client.get(target, headers=BROWSER)
        if target != "/docs/try" and fragments != {""}:
            assert fragments - {""} <= set(Page(response.text).ids), target


@each_row("name", OPERATIONS)
def test_every_deep_link_names_an_operation(client: webtest.TestApp, name: str) -> None:
    """Swagger UI opens the operation whose tag and id follow the #."""
    path = f"/docs/operations/{name}"
    links = [urljoin(path, address) for address in page(client, path).links]
    (tag,) = OPERATIONS[name][1]["tags"]
    assert [link for link in links if "/try#" in link] == [f"/docs/try#/{tag}/{name}"]


@pytest.mark.parametrize(("name", "address"), ADDRESSES.items())
def test_every_asset_is_served_under_a_name_of_its_content(
    client: webtest.TestApp, name: str, address: str
) -> None:
    """An asset has its media type; its name changes with its content, so it may be kept."""
    response = client.get(address)
    assert response.content_type == MEDIA_TYPES[name.rpartition(".")[2]]
    assert response.content_length == len(response.body) > 0
    assert hashlib.sha256(response.body).hexdigest()[:12] in address
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_every_asset_is_used(client: webtest.TestApp) -> None:
    """No file is served that no page loads."""
    used = {urljoin(path, each) for path in PAGES for each in page(client, path).loaded}
    assert used == set(ADDRESSES.values())


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_kept_until_it_changes(client: webtest.TestApp, path: str) -> None:
    """A page has an ETag and must be checked before each use; unchanged it is 304 (D7)."""
    response = client.get(path, headers=BROWSER)
    assert response.headers["Cache-Control"] == "no-cache"
    held = {"If-None-Match": response.headers["ETag"], **BROWSER}
    again = client.get(path, headers=held, status=304)
    assert again.body == b""


@pytest.mark.parametrize("path", OWN_PAGES)
def test_ids_are_unique_and_labels_have_their_control(client: webtest.TestApp, path: str) -> None:
    """An id is on a page once, and a label is for an element of the page."""
    found = page(client, path)
    assert len(found.ids) == len(set(found.ids))
    assert set(found.labels) <= set(found.ids)


def test_swagger_ui_shows_our_document(client: webtest.TestApp) -> None:
    """The initialiser loads the document, and reaches nothing outside."""
    script = client.get(ADDRESSES["try.js"]).text
    address = re.search(r'url: "([^"]*)"', script)
    assert address
    assert urljoin("/docs/try", address[1]) == "/openapi.json"
    assert "validatorUrl: null" in script
    assert "queryConfigEnabled: false" in script
    assert "persistAuthorization: false" in script


@pytest.mark.parametrize("path", [*PAGES, ADDRESSES["try.js"], ADDRESSES["style.css"]])
def test_nothing_names_another_host(client: webtest.TestApp, path: str) -> None:
    """Our pages, scripts and style sheets contain no address of another host."""
    text = client.get(path, headers={**BROWSER, "Host": "127.0.0.1:8000"}).text
    assert set(re.findall(r"//\w[\w.:]*", text)) <= {"//127.0.0.1:8000"}


class TestErrors:
    def test_every_code_has_a_place(self, client: webtest.TestApp) -> None:
        """The `type` of every error leads to a place on the page (D90)."""
        assert set(CATALOGUE) <= set(page(client, "/docs/errors").ids)

    @each_row("code", CATALOGUE)
    def test_it_says_what_the_catalogue_says(self, client: webtest.TestApp, code: str) -> None:
        """Status, meaning, action and retry are those of the catalogue."""
        text = page(client, "/docs/errors").text
        start = text.index(f'<section id="{code}"')
        shown = unescape(re.sub(r"<[^>]*>", "", text[start : text.index("</section>", start)]))
        kind = CATALOGUE[code]
        for told in (f"{kind.status} {kind.title}", kind.meaning[1:], kind.action, kind.retry[1:]):
            assert told.replace("`", "") in shown, told


class TestMarkdown:
    def test_it_says_what_the_page_says(self, client: webtest.TestApp) -> None:
        """Every word and every number of the pages is there, in the same order."""
        guide = page(client, "/docs").text
        shown = guide[guide.index('<section id="start">') : guide.index('<section id="vehicles">')]
        for tag in document()["tags"]:
            if tag["name"] == "Operations":
                continue
            shown += f" {tag['name']} {tag['description']} "
            for name, (_, node) in OPERATIONS.items():
                if node["tags"] == [tag["name"]]:
                    text = page(client, f"/docs/operations/{name}").text
                    shown += text[text.index('<section class="operation"') : text.index("</main>")]
        shown = re.sub(r'<label.*?</label>|<p class="try">.*?</p>', "", shown)
        told = re.findall(r"\w+", unescape(re.sub(r"<[^>]*>", " ", shown)))
        response = client.get("/docs.md")
        assert response.content_type == "text/markdown"
        # Links, list numbers and the languages of samples are not text of the page.
        written = re.sub(r"\]\([^)]*\)|^1\. |^```\w+$", "", response.text, flags=re.M)
        written = written[written.index("## Getting started") :]
        assert re.findall(r"\w+", written) == told

    def test_samples_are_fenced_and_nothing_is_markup(self, client: webtest.TestApp) -> None:
        """Samples name their language; outside of them there is no element of HTML."""
        text = client.get("/docs.md").text
        outside, inside = (text.split("```")[place::2] for place in (0, 1))
        assert {each.partition("\n")[0] for each in inside} == {"", "sh", "python", "typescript"}
        assert not re.search(r"</?[a-z]+[ >]", re.sub("`[^`]*`", "", "".join(outside)))

    def test_a_table_ends_before_a_list(self, client: webtest.TestApp) -> None:
        """Only rows follow rows: without an empty line, a list would be one more row."""
        assert not re.search(r"^\|.*\n(?![|\n])", client.get("/docs.md").text, flags=re.M)


class TestDocumentation:
    @each_row("name", OPERATIONS)
    def test_every_operation_has_a_page(self, client: webtest.TestApp, name: str) -> None:
        """It has the summary as heading, the path, the operation id, and three samples."""
        path, node = OPERATIONS[name]
        found = page(client, f"/docs/operations/{name}")
        assert f"<title>{node['summary']} - verifyd</title>" in found.text
        assert re.findall("<h1>(.*)</h1>", found.text) == [node["summary"]]
        assert f"<code>{path}</code>" in found.text
        assert f"Operation id <code>{name}</code>" in found.text
        assert found.text.count('<div class="sample ') == 3

    @each_row(
        "name",
        ["getMetrics", "getTryPage", "checkvehicleinsurance", "nothing", "..", "%2e%2e%2ferrors"],
    )
    def test_other_names_have_no_page(self, client: webtest.TestApp, name: str) -> None:
        """Probes, metrics and pages are not for clients, and a name is only looked up."""
        client.get(f"/docs/operations/{name}", headers=BROWSER, status=404)

    def test_an_old_link_leads_to_the_page(self, client: webtest.TestApp) -> None:
        """Each operation was a place on /docs: that place is now an entry with a link."""
        text = page(client, "/docs").text
        for name, (path, node) in OPERATIONS.items():
            (entry,) = re.findall(rf'(?s)<li id="{name}">.*?</li>', text)
            assert f'<a href="docs/operations/{name}">{node["summary"]}</a>' in entry
            assert f"<code>{path}</code>" in entry

    @each_row("path", [path for path in PAGES if path != "/"])
    def test_the_contents_are_on_every_page(self, client: webtest.TestApp, path: str) -> None:
        """They are the same everywhere, for wide and for narrow screens, and mark this page."""
        text = page(client, path).text
        listed = re.findall(r"(?s)<(?:nav class=.contents|details).*?</(?:nav|details)>", text)
        links = re.findall(r'<li><a href="([^"]*)"( aria-current="page")?>', listed[0])
        assert links == re.findall(r'<li><a href="([^"]*)"( aria-current="page")?>', listed[1])
        addresses = [urljoin(path, address) for address, _ in links]
        assert {each for each in addresses if "#" not in each} == set(OPERATION_PAGES)
        marked = [urljoin(path, address) for address, mark in links if mark]
        assert marked == [path] * (path in OPERATION_PAGES)

    @each_row("path", PAGES)
    def test_the_menu_marks_where_one_is(self, client: webtest.TestApp, path: str) -> None:
        """A page of an operation is a part of the documentation; the start page is in no menu."""
        menu = page(client, path).text.partition('<nav aria-label="Pages">')[2]
        marked = re.findall(r'href="([^"]*)" aria-current="(\w+)"', menu.partition("</nav>")[0])
        expected = ("/docs", "true") if path in OPERATION_PAGES else (path, "page")
        found = [(urljoin(path, address), mark) for address, mark in marked]
        assert found == [expected] * (path != "/")

    def test_headers_are_described_once(self, client: webtest.TestApp) -> None:
        """Operations that take them lead to one list."""
        text = "".join(page(client, path).text for path in WITH_SAMPLES)
        for name in ("Enquiry-Reason", "Enquiry-Reference", "Enquiry-User"):
            assert text.count(f"<dt><code>{name}</code>") == 1
        assert text.count('<a href="../../docs#reasons">Enquiry headers</a>') == 6

    def test_the_limits_on_the_page_are_those_of_the_program(self, client: webtest.TestApp) -> None:
        """The page names the length of a plate, of a body and of a page of domains."""
        text = re.sub(r"<[^>]*>", "", page(client, "/docs").text)
        start, end = text.index("\nRequests\n"), text.rindex("\nRate limits\n")
        assert f"1 to {REGISTRATION_CHARACTERS_MAX} letters and digits" in text[start:end]
        assert f"at most {BODY_BYTES_MAX // 1024**2} MiB" in text[start:end]
        text = page(client, "/docs/operations/listDomains").text
        assert f"At most this many domains, 1 to {PAGE_DOMAINS_MAX:,}." in text

    def test_the_table_of_codes_is_short(self, client: webtest.TestApp) -> None:
        """The table has the codes that a client decides by, and a link to the page of all."""
        section = client.get("/docs").text.partition('<section id="errors">')[2]
        (table,) = re.findall(r"(?s)<table.*?</table>", section.partition("</section>")[0])
        codes = re.findall(r'<td><a href="docs/errors#(\w+)">', table)
        wanted = {"vehicle_not_found", "events_gone", "rate_limit_exceeded"}
        assert wanted < set(codes)
        assert set(codes) < set(CATALOGUE)
        assert len(codes) < 10
        assert '<a href="docs/errors">' in section.partition(table)[0]

    def test_the_sandbox_has_one_table_of_all_that_can_be_sent(
        self, client: webtest.TestApp
    ) -> None:
        """Each plate has its reasons, each error its plate, its name, its status and its code."""
        section = client.get("/docs").text.partition('<section id="sandbox">')[2]
        (table,) = re.findall(r"(?s)<table.*?</table>", section.partition("</section>")[0])
        rows = [
            [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", cell)).strip() for cell in cells]
            for row in re.findall(r"(?s)<tr>(.*?)</tr>", table)[1:]
            if (cells := re.findall(r"(?s)<td>(.*?)</td>", row))
        ]
        plates = [each.plate for each in (*VEHICLES, *VEHICLES_UNKNOWN)]
        vehicles, provoked = rows[: len(plates)], rows[len(plates) :]
        assert [row[0] for row in vehicles] == plates
        told = {row[0]: row[3] for row in vehicles}
        for plate, said in (
            ("TESTLAPSED", "insured false, compliant false: expired, valid, valid, none"),
            ("TESTUNKINS", "insured not known, compliant not known: unknown, valid, valid, none"),
            ("TESTUNKFINE", "insured true, compliant true: valid, valid, valid, unknown"),
        ):
            assert told[plate] == said
        assert [row[:2] for row in provoked] == [
            [" ".join(filter(None, (each.plate, each.domain))), f"{each.answer} {each.code}"]
            for each in ERRORS
        ]

    def test_it_begins_with_what_a_client_must_not_ignore(self, client: webtest.TestApp) -> None:
        """Before all other rules it says that false can mean that nobody knows (D198)."""
        text = page(client, "/docs").text
        start, unknown, keys = (text.index(f'id="{name}"') for name in ("start", "unknown", "keys"))
        assert start < unknown < keys
        told = re.sub(r"<[^>]*>", "", text[unknown:keys]).split("\n")
        assert told[2].startswith("Act on false only if there is neither unknown nor error.")

    def test_samples_of_look_ups_tell_the_three_outcomes(self, client: webtest.TestApp) -> None:
        """Each sample in Python and TypeScript that reads a verdict asks whether it is known."""
        sections = {
            name: unescape(page(client, f"/docs/operations/{name}").text)
            for check in ("VehicleInsurance", "Vehicles", "Compliance", "VehiclesCompliance")
            for name in (f"check{check}",)
        }
        guide = unescape(page(client, "/docs").text)
        for name in ("start", "errors", "libraries", "typed"):
            sections[name] = guide.partition(f'id="{name}">')[2].partition("</section>")[0]
        for name, section in sections.items():
            samples = re.findall(r'(?s)<div class="sample \w+">\s*<pre[^>]*>(.*?)</pre>', section)
            assert ["verdict(" in each for each in samples] == [False, True, True], name

    def test_the_guide_begins_with_what_a_client_needs(self, client: webtest.TestApp) -> None:
        """The operator's part and the promises end the guide; vehicles are the first operations."""
        found = page(client, "/docs").ids
        places = [
            "start",
            "concepts",
            "unknown",
            "days",
            "errors",
            "changes",
            "browsers",
            "loading",
        ]
        places += ["vehicles", "watches", "domains"]
        assert sorted(places, key=found.index) == places
        contents = client.get("/docs").text.partition('<nav class="contents"')[2]
        linked = re.findall(r'href="docs(?:#|/operations/)(\w+)"', contents.partition("</nav>")[0])
        listed = [each for each in found if each in linked]
        assert linked == listed

    def test_the_page_names_the_zone_of_the_service(self) -> None:
        """Whoever asks around midnight sees which day counts."""
        app = falcon.App()
        app.add_route("/docs", DocumentationPage(zone="Europe/Lisbon"))
        text = webtest.TestApp(app).get("/docs").text
        assert "the time zone of the operator, Europe/Lisbon." in text

    @each_row("path", OWN_PAGES)
    def test_clients_need_not_know_the_proxy(self, client: webtest.TestApp, path: str) -> None:
        """The pages for clients name no program of the operator's."""
        assert "nginx" not in client.get(path).text

    def test_the_keys_of_generated_clients_are_tried(self) -> None:
        """The page's line for each generator is in the program that the tests run with it."""
        rows = re.findall(r"(?s)<tr><td>\w+: .*?</tr>", documentation_section("clients"))
        lines = [re.findall(r"<td><code>(.*?)</code>", row)[-1] for row in rows]
        programs = [path.read_text() for path in CLIENTS.glob("[wW]ith*")]
        assert len(lines) == len(programs) == 8
        for line in lines:
            assert sum(unescape(line) in program for program in programs) == 1, line

    @pytest.mark.parametrize("name", LIBRARIES)
    def test_a_library_can_be_downloaded(self, client: webtest.TestApp, name: str) -> None:
        """A library is saved under its name, checked before each use, and calls this service."""
        response = client.get(f"/docs/{name}", headers={"Host": "api.example.com"})
        assert response.content_type == "text/plain"
        assert response.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert response.headers["Cache-Control"] == "no-cache"
        assert "127.0.0.1" not in response.text
        assert '//api.example.com"' in response.text
        held = {"If-None-Match": response.headers["ETag"], "Host": "api.example.com"}
        client.get(f"/docs/{name}", headers=held, status=304)
        hostile = client.get(f"/docs/{name}", headers={"Host": '"; import os'})
        assert "import os" not in hostile.text.replace("\nimport os\n", "")

    @pytest.mark.parametrize("name", TYPED_CLIENTS)
    def test_a_typed_client_can_be_downloaded(self, client: webtest.TestApp, name: str) -> None:
        """It is saved under the name by which it finds its library, and names no address."""
        response = client.get(f"/docs/{name}")
        assert response.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert "TypedClient" in response.text
        assert "http" not in response.text

    @pytest.mark.parametrize("path", ["/docs/operations/getAccount", "/docs.md"])
    def test_samples_have_the_address_of_the_request(
        self, client: webtest.TestApp, path: str
    ) -> None:
        """Whoever copies a sample reaches this service."""
        headers, environ = {"Host": "api.example.com"}, {"REMOTE_ADDR": "192.0.2.1"}
        text = client.get(path, headers=headers, extra_environ=environ).text
        assert "http://api.example.com/v1/account" in text
        assert "127.0.0.1" not in text

    @pytest.mark.parametrize("host", ['"><script>', "a b", ""])
    @each_row("path", WITH_SAMPLES)
    def test_a_host_that_is_none_is_not_repeated(
        self, client: webtest.TestApp, host: str, path: str
    ) -> None:
        """The page holds nothing that a client made up."""
        text = client.get(path, headers={"Host": host}).text
        (script,) = re.findall("<script([^>]*)>", text)
        (address,) = re.findall('^ src="([^"]*)" defer$', script)
        assert urljoin(path, address) == ADDRESSES["docs.js"]

    def test_it_names_the_columns_of_native_files(self, client: webtest.TestApp) -> None:
        """Whoever loads a file finds the columns of each kind, in the order of `import --help`."""
        section = client.get("/docs").text.partition('<section id="loading">')[2]
        for kind in Kind:
            listed = re.search(rf"<dt>{kind.capitalize()}</dt>\n<dd>(.*)</dd>", section)
            assert listed
            names = re.findall("<code>(.*?)</code>", listed[1])
            assert names == [column.label for column in LAYOUTS[kind]().columns]

    def test_no_text_is_escaped_twice(self, client: webtest.TestApp) -> None:
        """Code in descriptions is shown as code."""
        for path in OWN_PAGES:
            text = re.sub(r"(?s)<pre.*?</pre>", "", page(client, path).text)
            assert not re.search(r"&lt;/?(code|strong)|&amp;(amp|lt|gt)|`", text)


class TestStyle:
    """Samples can be read on a telephone."""

    def test_no_sample_is_broken_within_a_word(self, client: webtest.TestApp) -> None:
        """A long line of a sample scrolls, with the keyboard too."""
        style = client.get(ADDRESSES["style.css"]).text
        assert {"white-space: pre", "overflow-x: auto"} <= declared(style, "pre")
        assert "overflow-wrap: normal" in declared(style, "pre code")
        assert "break-all" not in style
        assert not any("<pre><code>" in client.get(path).text for path in WITH_SAMPLES)

    def test_samples_are_not_small(self, client: webtest.TestApp) -> None:
        """The letters of a sample have 13 px at least, on every screen."""
        style = client.get(ADDRESSES["style.css"]).text
        sizes = re.findall(r"(?m)^ *pre \{[^}]*?font-size: ([\d.]+)rem", style)
        assert len(sizes) == 2
        assert all(float(size) * 16 >= 13 for size in sizes)
        assert "font-size: inherit" in declared(style, "pre code")


def declared(style: str, selector: str) -> set[str]:
    """Return the declarations of the first rule with a selector."""
    (rule, *_) = re.findall(rf"(?m)^{re.escape(selector)} \{{([^}}]*)\}}", style)
    return {each.strip() for each in rule.split(";") if each.strip()}


class TestStart:
    @pytest.mark.parametrize("accept", [None, "*/*", "application/json", "image/png", "nonsense"])
    def test_programs_get_links(self, client: webtest.TestApp, accept: str | None) -> None:
        """A client that does not prefer HTML gets JSON; each link is served."""
        response = client.get("/", headers={"Accept": accept} if accept else {})
        assert response.content_type == "application/json"
        assert response.headers["Vary"] == "Accept"
        assert list(response.json) == [
            *("name", "version", "documentation", "openapi", "errors", "health")
        ]
        for name in ("documentation", "openapi", "errors", "health"):
            client.get(response.json[name], status=200)

    @pytest.mark.parametrize("accept", [BROWSER["Accept"], "text/html", "text/*"])
    def test_browsers_get_a_page(self, client: webtest.TestApp, accept: str) -> None:
        """A client that prefers HTML gets a page; caches keep both apart."""
        response = client.get("/", headers={"Accept": accept})
        assert response.content_type == "text/html"
        assert response.headers["Vary"] == "Accept"
        assert response.headers["ETag"] != client.get("/").headers["ETag"]


def test_swagger_ui_is_as_upstream_made_it() -> None:
    """The directory has exactly the files that the manifest pins by SHA-256."""
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
    style = client.get(ADDRESSES["swagger-ui.css"]).text
    assert set(re.findall(r"url\(\W*(\w+:?)", style)) == {"data:"}
    assert "@import" not in style


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_script_or_style(client: webtest.TestApp, path: str) -> None:
    """All scripts and styles are files, as the content security policy requires."""
    found = page(client, path)
    assert found.inline == []
    assert found.handlers == []


def policy_of(response: webtest.TestResponse) -> dict[str, str]:
    """Return the directives of a content security policy."""
    policy = response.headers["Content-Security-Policy"].split("; ")
    return dict(part.split(" ", 1) for part in policy)


CONFINED = {
    "default-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.mark.parametrize("path", OWN_PAGES)
def test_our_pages_run_nothing_of_others(client: webtest.TestApp, path: str) -> None:
    """Our pages may load only a style sheet and an icon of this service; with samples, a script."""
    response = client.get(path, headers=BROWSER)
    script = {"script-src": "'self'"} if path in WITH_SAMPLES else {}
    assert policy_of(response) == CONFINED | script | {"style-src": "'self'", "img-src": "'self'"}
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@each_row("path", ["/docs/try", *ADDRESSES.values()])
def test_the_browser_is_kept_to_this_service(client: webtest.TestApp, path: str) -> None:
    """Swagger UI and its files may run and reach only what this service sends."""
    response = client.get(path)
    assert policy_of(response) == CONFINED | {
        "script-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
    }
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@each_row("path", ["/openapi.json", *PAGES, *ADDRESSES.values()])
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
        client.request(ADDRESSES["swagger-ui-bundle.js"], method=method)
        gc.collect()
    assert [warning.message for warning in caught] == []


@each_row(
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
        "swagger-ui.css",
        "style.000000000000.css",
        "swagger-ui.css/",
        "SWAGGER-UI.CSS",
        "swagger-ui.js",
        "index.html",
        "nothing.js",
    ],
)
def test_unknown_asset_is_not_found(client: webtest.TestApp, asset: str) -> None:
    """Only the names on the pages are assets; other files and paths are not."""
    client.get(f"/docs/{asset}", status=404)
    client.head(f"/docs/{asset}", status=404)
