"""Sign-in by the customer's own directory, which a proxy has asked (D189)."""

from ipaddress import ip_network

import pytest

from app import clock
from app.actions import Criteria, list_actions
from app.console.rendering import ROOT
from app.monitoring.check import clerk_warnings
from app.people.directory import directory_fault, person_of
from app.people.sessions import create_link, end_sessions, list_sessions
from app.settings.roles import Role
from tests.api.console import (
    ADDRESS,
    DIRECTORY,
    ON_SOCKET,
    PROXY,
    PROXY_SECRET,
    SAME_ORIGIN,
    Browser,
    signed_in,
    stated,
    stored,
)
from tests.conftest import STORAGE, engine_independent
from tests.rows import each_row

COLOGNE = {"K\u00f6ln B\u00fcro": Role.VIEWER}
SETTINGS = {**DIRECTORY, "console_groups": {**DIRECTORY["console_groups"], **COLOGNE}}


def coming(application, environ=ON_SOCKET, **said):
    """Return a browser of somebody whom a proxy identifies, and the answer to its form."""
    browser = Browser(application, environ)
    return browser, browser.post(PROXY, headers={**SAME_ORIGIN, **stated(**said)})


@pytest.fixture
def application(world):
    """The service with its console, and a directory."""
    return world.client(None, **SETTINGS).application


@pytest.fixture
def browser(application):
    """A browser behind the proxy."""
    return Browser(application, ON_SOCKET)


class Test200:
    def test_get_shows_who_would_sign_in(self, world, browser):
        """It opens nothing: browsers fetch pages ahead."""
        before = stored(world)
        page = browser.get(PROXY, headers=stated("Ann", "guests, clerks"))
        assert page.status_int == 200
        assert "<strong>ann</strong>, with the role <strong>clerk" in page.text
        assert "Your directory says that this is you." in page.text
        assert not browser.cookies
        assert stored(world) == before

    @each_row(
        ("name", "shown"),
        [
            ("ANN", "ann"),
            ("\u00c4nne", "\u00e4nne"),
            ("A\u0308nne", "\u00e4nne"),
            ("acme\\ann", "acme\\ann"),
            ("Ann.B@Example.COM", "ann.b@example.com"),
            ("<b>Ann</b>", "&lt;b&gt;ann&lt;/b&gt;"),
            ("x" * 100, "x" * 100),
        ],
    )
    def test_names_have_one_form(self, browser, name, shown):
        """They are lower case and NFC, and are shown as text."""
        assert f"<strong>{shown}</strong>" in browser.get(PROXY, headers=stated(name)).text

    @each_row(
        ("groups", "role"),
        [
            ("clerks", Role.CLERK),
            ("clerks,operators", Role.OPERATOR),
            ("operators , clerks", Role.OPERATOR),
            ("K\u00f6ln B\u00fcro,x", Role.VIEWER),
            ("Ko\u0308ln Bu\u0308ro", Role.VIEWER),
            (",".join(f"g{number}" for number in range(1_000)) + ",clerks", Role.CLERK),
        ],
    )
    def test_the_first_group_of_the_setting_counts(self, browser, groups, role):
        """The order of the person's own groups does not matter, and others are ignored."""
        assert f"role <strong>{role}<" in browser.get(PROXY, headers=stated(groups=groups)).text

    @pytest.mark.parametrize("is_set", [True, False])
    def test_the_page_without_a_session_leads_there(self, world, is_set):
        """If there is a directory, and only then; the command for a link is there always."""
        application = world.client(None, **(SETTINGS if is_set else {"console": True})).application
        page = Browser(application, ON_SOCKET).get(f"{ROOT}/people")
        assert ('href="../console/sign-in/proxy"' in page.text) == is_set
        assert "verifyd console link" in page.text

    def test_signing_out_says_what_it_cannot_do(self, application):
        """The browser or the directory may let the person in again."""
        browser, _ = coming(application)
        page = browser.post(f"{ROOT}/sign-out")
        assert "may still know you" in page.text
        assert browser.get(ROOT).status_int == 401


class Test303:
    def test_a_session_opens(self, world, application):
        """It lasts like any other, and the record says that the directory let the person in."""
        browser, response = coming(application, name="Ann")
        assert (response.status_int, response.location) == (303, "../../console")
        (session,) = list_sessions(world.engine)
        assert (session.name, session.role) == ("ann", Role.CLERK)
        assert session.expires_at - session.started_at == world.config.console_idle
        (action,) = list_actions(world.engine, Criteria(action="console"))
        assert (action.action, action.actor, action.via) == ("console.sign-in", "ann", "console")
        assert action.after == {"role": "clerk", "by": "directory"}
        assert browser.get(ROOT).location.endswith("/look-up")

    def test_a_trusted_proxy_may_be_elsewhere(self, world):
        """Its address is in VERIFYD_TRUSTED_PROXIES."""
        trusted = (ip_network("192.0.2.7"),)
        application = world.client(None, **SETTINGS, trusted_proxies=trusted).application
        assert coming(application, ADDRESS)[1].status_int == 303

    def test_a_role_that_changes_counts_from_the_next_sign_in(self, world, application):
        """The open session keeps its role; the next one in the same browser ends it."""
        browser, _ = coming(application, groups="operators")
        moved = stated(groups="clerks")
        assert browser.get(f"{ROOT}/accounts/new", headers=moved).status_int == 200
        response = browser.post(PROXY, headers={**SAME_ORIGIN, **moved})
        assert response.status_int == 303
        assert browser.get(f"{ROOT}/accounts/new").status_int == 403
        assert [each.role for each in list_sessions(world.engine)] == [Role.CLERK]

    def test_a_session_ends_after_eight_hours(self, application, monkeypatch):
        """However long the directory would know the person."""
        browser, _ = coming(application)
        now = clock.now()
        monkeypatch.setattr(clock, "now", lambda: now + 8 * 3600)
        assert browser.get(f"{ROOT}/look-up", headers=stated()).status_int == 401

    @STORAGE
    def test_ending_sessions_ignores_case(self, world, application):
        """A person has one name in all sessions and links, on both databases."""
        coming(application, name="\u00c4nne")
        signed_in(world, application, Role.VIEWER, "\u00c4NNE")
        create_link(world.engine, "A\u0308nne", Role.VIEWER)
        signed_in(world, application, Role.VIEWER, "anne")
        assert end_sessions(world.engine, "\u00e4NNE") == (2, 1)
        assert [each.name for each in list_sessions(world.engine)] == ["anne"]

    def test_whoever_ends_a_session_is_told_of_the_directory(self, world, application):
        """The person could come in again at once."""
        coming(application)
        operator, _ = coming(application, name="ben", groups="operators")
        ann = next(each for each in list_sessions(world.engine) if each.name == "ann")
        page = operator.get(f"{ROOT}/people/{ann.id}/end")
        assert "unless you remove the person from the groups there" in page.text


class Test401:
    """Nobody comes in, no cookie is set, and nothing is written."""

    @pytest.fixture
    def refused(self, world, application):
        def refused(environ=ON_SOCKET, headers=None, **said):
            before = stored(world)
            browser = Browser(application, environ)
            sent = {**stated(**said), **(headers or {})}
            page = browser.get(PROXY, headers=sent)
            response = browser.post(PROXY, headers={**SAME_ORIGIN, **sent})
            assert (page.status_int, response.status_int) == (401, 401)
            assert response.headers["WWW-Authenticate"] == 'Cookie realm="console"'
            assert "You were not identified" in response.text
            assert not browser.cookies
            assert stored(world) == before
            return response.text

        return refused

    @each_row(
        ("said", "told"),
        [
            ({"secret": None, "name": None}, "The proxy did not say who you are."),
            ({"secret": None}, "The proxy sent no secret."),
            ({"secret": ""}, "The proxy sent no secret."),
            ({"secret": "s" * 31}, "another secret"),
            ({"secret": "s" * 33}, "another secret"),
            ({"secret": PROXY_SECRET.upper()}, "another secret"),
            ({"secret": f"{PROXY_SECRET},{PROXY_SECRET}"}, "another secret"),
            ({"secret": "\u00e9" * 32}, "another secret"),
            ({"name": None}, "The proxy sent no name."),
            ({"name": ""}, "The proxy sent no name."),
            ({"name": "ann,ben"}, "has a comma, as if it were two"),
            ({"name": "x" * 500}, "1 to 100 printable characters; it has 500"),
            ({"name": "Everybody"}, "stands for all people"),
            ({"name": "ann\x00"}, "character 4 is not printable"),
            ({"name": "a\x1b[31m"}, "character 2 is not printable"),
            ({"name": "ann\u202e"}, "character 4 is not printable"),
            ({"name": "ann\u200b"}, "character 4 is not printable"),
        ],
    )
    def test_what_the_proxy_says_is_checked(self, refused, said, told):
        """The page says what is wrong, and shows neither the secret nor the name."""
        text = refused(**said)
        assert told in text
        assert PROXY_SECRET not in text
        assert "xxx" not in text

    def test_a_name_that_is_not_utf_8_is_refused(self, refused):
        """No other encoding is guessed."""
        text = refused(headers={"X-Verifyd-User": "\xe9"})
        assert "is not UTF-8" in text

    @each_row("address", ["192.0.2.7", "127.0.0.1", "::1"])
    def test_another_peer_is_refused(self, refused, address):
        """A process of this host may say nothing either, unless its address is listed."""
        text = refused(environ={"REMOTE_ADDR": address})
        assert "did not come from a proxy that the service trusts" in text

    def test_the_headers_count_only_at_their_path(self, application):
        """Everywhere else they are ignored, with whatever secret."""
        browser = Browser(application, ON_SOCKET)
        for path in (ROOT, f"{ROOT}/people", f"{ROOT}/sign-in", f"{ROOT}/sign-in/proxy/x"):
            assert browser.get(path, headers=stated()).status_int == 401

    @engine_independent
    @each_row(
        "settings",
        [
            {},
            {"console_proxy_secret": PROXY_SECRET},
            {"console_groups": DIRECTORY["console_groups"]},
        ],
    )
    def test_without_both_settings_there_is_no_such_sign_in(self, world, settings):
        """The path is a link that is not complete, as before."""
        application = world.client(None, console=True, **settings).application
        _, response = coming(application)
        assert response.status_int == 401
        assert "The link is not complete" in response.text


class Test403:
    @each_row("groups", ["guests", "", None, "Clerks", "clerks x", "clerksx", "=", "\u00e9"])
    def test_who_is_in_no_group_is_told_so(self, world, browser, groups):
        """The page names the person, and none of the groups of the settings."""
        before = stored(world)
        sent = {**SAME_ORIGIN, **stated("Eve", groups)}
        for response in (browser.get(PROXY, headers=sent), browser.post(PROXY, headers=sent)):
            assert response.status_int == 403
            assert "You are eve, and none of your groups may use the console." in response.text
            assert "operators" not in response.text
        assert not browser.cookies
        assert stored(world) == before

    def test_groups_that_are_not_utf_8_give_no_role(self, browser):
        """The person is named all the same."""
        sent = {**stated("eve"), "X-Verifyd-Groups": "clerks,\xe9"}
        assert browser.get(PROXY, headers=sent).status_int == 403

    @each_row("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}])
    def test_another_site_cannot_sign_somebody_in(self, world, browser, headers):
        """The form must come from the page of the console."""
        response = browser.post(PROXY, headers={**headers, **stated()})
        assert response.status_int == 403
        assert "not sent from the console" in response.text
        assert list_sessions(world.engine) == []

    def test_a_clerk_cannot_send_the_forms_of_an_operator(self, world, application):
        """Headers that would make the person an operator do not count with a session."""
        browser, _ = coming(application)
        before = stored(world)
        sent = {**SAME_ORIGIN, **stated(groups="operators")}
        path, form = f"{ROOT}/accounts/new", {"name": "mallory", "plan": "free"}
        assert browser.post(path, form, headers=sent).status_int == 403
        assert stored(world) == before


class Test429:
    @pytest.mark.parametrize("said", [{"secret": "x" * 32}, {"name": "a,b"}, {"groups": "guests"}])
    def test_refusals_are_charged_to_the_client(self, world, stopped_clock, said):
        """To the address of X-Real-IP, as wrong links are (D10); others are not held up."""
        application = world.client(None, **SETTINGS, anonymous_limit=2).application
        browser = Browser(application, ON_SOCKET)
        address = {"X-Real-IP": "192.0.2.99"}
        sent = {**stated(**said), **address}
        statuses = [browser.get(PROXY, headers=sent).status_int for _ in range(3)]
        assert statuses[0] in (401, 403)
        assert statuses[2] == 429
        assert browser.get(PROXY, headers={**stated(), **address}).status_int == 200
        other = {**stated(**said), "X-Real-IP": "192.0.2.98"}
        assert browser.get(PROXY, headers=other).status_int in (401, 403)


def test_one_setting_without_the_other_is_a_fault(world):
    """`verifyd check` and the start name both."""
    assert directory_fault(world.configured(**SETTINGS)) is None
    assert directory_fault(world.configured()) is None
    for given, other in (("PROXY_SECRET", "GROUPS"), ("GROUPS", "PROXY_SECRET")):
        name = f"console_{given.lower()}"
        fault = directory_fault(world.configured(**{name: SETTINGS[name]}))
        needed = f"must be set because VERIFYD_CONSOLE_{given} is"
        assert fault == f"VERIFYD_CONSOLE_{other}: {needed}"


def test_clerks_of_the_directory_need_the_audit_trail(world):
    """`verifyd check` warns before the first of them signs in."""
    assert clerk_warnings(world.engine, world.configured(console_groups={"it": Role.VIEWER})) == []
    (warning,) = clerk_warnings(world.engine, world.configured(**SETTINGS))
    assert warning == "VERIFYD_AUDIT: clerks cannot look up while it is off."
    assert clerk_warnings(world.engine, world.configured(**SETTINGS, audit=True)) == []


def test_a_person_is_one_in_every_spelling():
    """Case and composition do not matter, and what is once folded stays as it is."""
    names = ["Ann", "\u00c4NNE", "A\u0308nne", "\u0130x", "Stra\u00dfe", "\u1e9e"]
    for name in names:
        assert person_of(person_of(name)) == person_of(name)
    assert person_of("\u00c4NNE") == person_of("A\u0308nne")
