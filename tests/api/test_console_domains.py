"""The pages of domains: lists, suspend and activate."""

import pytest

from app.accounts.administration import create_account, require_account
from app.actions import list_actions
from app.console.rendering import ROOT
from app.domains.repository import Domains
from app.settings.roles import Role
from tests.api.console import signed_in, stored
from tests.api.test_console_accounts import MARKUP
from tests.conftest import SHARED, STORAGE
from tests.rows import each_row

DOMAINS = f"{ROOT}/domains"


@pytest.fixture
def application(world):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of an operator."""
    return signed_in(world, application, Role.OPERATOR)


@pytest.fixture
def make(world):
    """`make(account, name)` creates a domain and returns it."""

    def create(account, name):
        number = require_account(world.engine, account).id
        return Domains(world.engine).create_domain(number, name, 1_000)

    return create


def status_of(world, name, account="alice"):
    number = require_account(world.engine, account).id
    domain = Domains(world.engine).find_domain(number, name)
    assert domain is not None
    return domain.status


def names_on(page):
    return [row.text for row in page.html.select("tbody th")]


class TestList:
    def test_it_has_the_domains_of_all_accounts(self, world, browser, make):
        """Two accounts can have the same name; each row leads to its own domain and account."""
        pair = [make("alice", "example.com"), make("bob", "example.com")]
        make("bob", "a.example.org")
        page = browser.get(DOMAINS)
        assert names_on(page) == ["a.example.org", "example.com", "example.com"]
        links = {a["href"].rpartition("/")[2] for a in page.html.select("tbody th a")}
        assert {each.id for each in pair} < links
        owners = [cell.text for cell in page.html.select('td[data-title="Account"]')]
        assert sorted(owners[1:]) == ["alice", "bob"]

    @STORAGE
    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("q=SHOP", ["shop.example.com"]),
            ("q=%25", []),
            ("status=suspended", ["b.example"]),
            ("status=active", ["a.example", "shop.example.com"]),
            ("sort=-name", ["shop.example.com", "b.example", "a.example"]),
            ("sort=-account&status=active", ["shop.example.com", "a.example"]),
            ("status=nothing&page=7&sort=x", ["a.example", "b.example", "shop.example.com"]),
            ("q=%3Cscript%3E", []),
        ],
    )
    def test_it_can_be_sorted_and_filtered_by_url(self, world, browser, make, query, names):
        """Filters combine, and what does not exist counts as absent."""
        for account, name in (("alice", "a.example"), ("alice", "b.example")):
            make(account, name)
        make("bob", "shop.example.com")
        number = require_account(world.engine, "alice").id
        Domains(world.engine).set_status(number, "b.example", "suspended")
        page = browser.get(f"{DOMAINS}?{query}")
        assert names_on(page) == names
        assert ("No domain fits" in page.text) == (not names)
        assert not page.html.select("script:not([src])")

    def test_the_domains_of_one_account_have_a_list(self, world, browser, make):
        """The account's page leads there, and says how many there are."""
        make("alice", "example.com")
        make("bob", "bob.example")
        tag = require_account(world.engine, "alice").tag
        (link,) = browser.get(f"{ROOT}/accounts/{tag}").html.select("dd a[href*=domains]")
        assert link["href"].endswith(f"console/domains?account={tag}")
        page = browser.get(f"{DOMAINS}?account={tag}&sort=-name")
        assert names_on(page) == ["example.com"]
        assert page.html.h1.text == "Domains of alice"
        assert "No domain fits" in browser.get(f"{DOMAINS}?account=AAAAAA").text

    def test_an_installation_without_domains_says_so(self, browser):
        """The empty list says where domains come from."""
        assert "Accounts create their domains themselves" in browser.get(DOMAINS).text


class TestStatus:
    def test_suspending_and_activating(self, world, browser, make, alice):
        """Each takes a confirmation, is what the account sees at once, and is recorded."""
        path = f"{DOMAINS}/{make('alice', 'example.com').id}"
        assert browser.send(f"{path}/suspend").status_int == 303
        assert alice.get("/api/domains/example.com").json["status"] == "suspended"
        page = browser.get(f"{path}?done=suspended")
        assert "The domain is suspended" in page.text
        assert [a.text for a in page.html.select(".actions a")] == ["Activate"]
        assert browser.send(f"{path}/activate").status_int == 303
        assert alice.get("/api/domains/example.com").json["status"] == "active"
        recorded = [
            (each.actor, each.via, each.action, each.account, each.subject)
            for each in list_actions(world.engine, limit=2)
        ]
        assert recorded == [
            ("ann", "console", "domains.activate", "alice", "example.com"),
            ("ann", "console", "domains.suspend", "alice", "example.com"),
        ]

    def test_the_same_name_of_another_account_stays(self, world, browser, make):
        """Only the domain of the page is changed."""
        domain, _ = make("alice", "example.com"), make("bob", "example.com")
        assert browser.send(f"{DOMAINS}/{domain.id}/suspend").status_int == 303
        assert status_of(world, "example.com", "alice") == "suspended"
        assert status_of(world, "example.com", "bob") == "active"

    def test_of_two_operators_one_suspends(self, world, application, browser, make):
        """A form of an earlier state, or without its version, is 409."""
        path = f"{DOMAINS}/{make('alice', 'example.com').id}/suspend"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        other = signed_in(world, application, Role.OPERATOR, "ben")
        assert other.post(path, {"version": version}).status_int == 303
        before = stored(world)
        for sent in (version, "", "0" * 16, MARKUP):
            response = browser.post(path, {"version": sent})
            assert response.status_int == 409
            assert "Somebody else has changed this" in response.text
        assert stored(world) == before

    def test_a_form_for_another_domain_does_nothing(self, world, browser, make):
        """Two domains in the same state have different versions."""
        paths = [
            f"{DOMAINS}/{make('alice', name).id}/suspend" for name in ("a.example", "b.example")
        ]
        version = browser.get(paths[0]).html.find("input", {"name": "version"})["value"]
        assert browser.post(paths[1], {"version": version}).status_int == 409
        assert status_of(world, "b.example") == "active"

    @SHARED
    @each_row("rest", ["", "/suspend", "/activate"])
    @each_row(
        "domain_id", ["dom_" + "A" * 20, "1", "example.com", "%3Cscript%3E", "%00", "x" * 300]
    )
    def test_a_domain_that_nobody_has_is_not_found(self, world, browser, domain_id, rest):
        """Any other id is 404, also for a form that is sent by hand."""
        before = stored(world)
        path = f"{DOMAINS}/{domain_id}{rest}"
        answers = [browser.get(path), *([browser.post(path, {"version": "x"})] if rest else [])]
        for page in answers:
            assert page.status_int == 404
            assert "There is no such" in page.text
            assert "<script>" not in page.text
        assert stored(world) == before

    def test_a_domain_that_its_account_deleted_is_not_found(self, world, browser, make):
        """The form of a domain that is gone is 404."""
        path = f"{DOMAINS}/{make('alice', 'example.com').id}/suspend"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        number = require_account(world.engine, "alice").id
        assert Domains(world.engine).delete_domain(number, "example.com")
        assert browser.post(path, {"version": version}).status_int == 404


def test_markup_in_an_accounts_name_stays_text(world, browser, make):
    """Every page of a domain shows the name of its account as it is."""
    create_account(world.engine, MARKUP)
    path = f"{DOMAINS}/{make(MARKUP, 'example.com').id}"
    tag = require_account(world.engine, MARKUP).tag
    for page in (DOMAINS, f"{DOMAINS}?account={tag}", path, f"{path}/suspend", f"{path}/activate"):
        shown = browser.get(page)
        assert MARKUP in shown.html.text
        assert not shown.html.select("script:not([src]), [onerror]")
