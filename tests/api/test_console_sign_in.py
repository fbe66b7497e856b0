"""Links, sessions and cookies of the console (D132)."""

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import peewee
import pytest

from app import clock
from app.actions import Criteria, list_actions, of_command
from app.console.rendering import ROOT
from app.people.sessions import (
    LINK_SECONDS,
    SESSION_SECONDS,
    TOKEN_CHARACTERS,
    ConsoleLink,
    ConsoleSession,
    LinkRefused,
    Sessions,
    create_link,
    end_sessions,
    list_sessions,
    open_session,
)
from app.registers.generations import locked
from app.settings.roles import Role
from app.storage.engine import close_quietly, open_engine
from tests.api.console import ADDRESS, HOST, ORIGIN, SAME_ORIGIN, Browser, signed_in, stored
from tests.conftest import ON_SQLITE, engine_independent
from tests.rows import each_row
from tests.unit.held import begun

IDLE_SECONDS = 3_600
PLAIN, SECURE = "verifyd-console", "__Host-verifyd-console"
BEHIND_NGINX = {"REMOTE_ADDR": ""}
"""A request over a Unix socket; without X-Forwarded-Proto it counts as TLS."""


@pytest.fixture
def application(world):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def token(world, later):
    """The token of a fresh link for Ann, an operator."""
    return create_link(world.engine, "Ann", Role.OPERATOR)


@pytest.fixture
def later(monkeypatch):
    """`later(seconds)` moves the clock, which stands still until then."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)

    def move(seconds):
        monkeypatch.setattr(clock, "now", lambda: now + seconds)

    return move


def sign_in_path(token):
    return f"{ROOT}/sign-in/{token}"


class TestLinks:
    def test_a_link_opens_a_session(self, world, application, token):
        """GET shows who signs in as what; POST leads to the overview, signed in."""
        browser = Browser(application)
        page = browser.get(sign_in_path(token))
        assert page.status_int == 200
        assert "Ann" in page.text
        assert "operator" in page.text
        response = browser.post(sign_in_path(token))
        assert (response.status_int, response.location) == (303, "../../console")
        assert browser.get(ROOT).status_int == 200
        (session,) = list_sessions(world.engine)
        assert (session.name, session.role) == ("Ann", Role.OPERATOR)
        assert session.expires_at - session.started_at == IDLE_SECONDS

    def test_reading_a_link_uses_nothing_up(self, world, application, token):
        """Programs that follow links in mails leave the link, and the database, as they were."""
        before = stored(world)
        for method in ("GET", "HEAD", "GET", "OPTIONS"):
            assert Browser(application).request(method, sign_in_path(token)).status_int == 200
        assert stored(world) == before
        Browser(application).sign_in(token)

    def test_a_used_link_is_known_for_a_day(self, world, application, token, later):
        """Until a day after it would have expired, its page says when it was used."""
        Browser(application).sign_in(token)
        for seconds, told in (
            (LINK_SECONDS + 86_400 - 1, "The link was used at 2"),
            (LINK_SECONDS + 86_400, "The link is unknown"),
        ):
            later(seconds)
            create_link(world.engine, "Bob", Role.VIEWER)  # This removes what is too old.
            assert told in Browser(application).get(sign_in_path(token)).text

    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_a_link_works_once(self, world, application, token, method):
        """A used link is refused, says when it was used, and leaves the first session open."""
        first = Browser(application).sign_in(token)
        again = Browser(application)
        response = (
            again.get(sign_in_path(token)) if method == "GET" else again.post(sign_in_path(token))
        )
        assert response.status_int == 401
        assert "The link was used at 2" in response.text
        assert not again.cookies
        assert first.get(ROOT).status_int == 200
        assert len(list_sessions(world.engine)) == 1

    @pytest.mark.parametrize(("seconds", "status"), [(LINK_SECONDS - 1, 303), (LINK_SECONDS, 401)])
    def test_a_link_works_for_ten_minutes(self, application, token, later, seconds, status):
        """After ten minutes, to the second, a link opens nothing."""
        later(seconds)
        response = Browser(application).post(sign_in_path(token))
        assert response.status_int == status
        assert ("older than 10 minutes" in response.text) == (status == 401)

    @each_row(
        ("change", "told"),
        [
            (lambda token: token[:-1], "not complete"),
            (lambda token: token[:10], "not complete"),
            (lambda token: f"{token}x", "not complete"),
            (lambda token: token.swapcase(), "unknown"),
            (lambda token: "x" * len(token), "unknown"),
            (lambda token: "%C3%A9" * len(token), "unknown"),
            (lambda token: "<script>" + token[8:], "unknown"),
        ],
    )
    def test_a_wrong_link_is_refused(self, world, application, token, change, told):
        """A truncated, longer or changed link is refused with a page that says why."""
        for method in ("GET", "POST"):
            browser = Browser(application)
            response = browser.request(method, sign_in_path(change(token)), headers=SAME_ORIGIN)
            assert response.status_int == 401
            assert told in response.text
            assert "<script>" not in response.text
            assert not browser.cookies
        assert list_sessions(world.engine) == []

    def test_of_requests_at_the_same_time_one_uses_it(self, world, token):
        """Whoever comes second is refused, however close the two are."""
        start = threading.Barrier(6)

        def use():
            start.wait()
            try:
                return open_session(world.engine, token)
            except LinkRefused as refused:
                return refused
            finally:
                close_quietly(world.engine)

        with ThreadPoolExecutor(start.parties) as threads:
            ended = [each.result() for each in [threads.submit(use) for _ in range(start.parties)]]
        assert [type(each) for each in ended].count(str) == 1
        assert len(list_sessions(world.engine)) == 1

    def test_a_withdrawn_link_is_refused(self, world, application, token):
        """`verifyd console end` withdraws links that were not used."""
        assert end_sessions(world.engine, "Ben") == (0, 0)
        assert end_sessions(world.engine, "Ann") == (0, 1)
        assert "unknown" in Browser(application).post(sign_in_path(token)).text

    def test_a_link_without_its_token_is_no_page(self, application):
        """The path without a token is refused like any other without a session."""
        assert Browser(application).get(f"{ROOT}/sign-in").status_int == 401
        assert Browser(application).get(f"{ROOT}/sign-in/").status_int == 401


class TestSessions:
    def test_only_the_hashes_of_tokens_are_stored(self, world, application, token):
        """Neither the token of a link nor that of a session is in the database."""
        browser = Browser(application).sign_in(token)
        content = stored(world)
        for secret in (token, browser.cookies[PLAIN]):
            assert len(secret) == TOKEN_CHARACTERS
            assert secret.encode() not in content
            assert hashlib.sha256(secret.encode()).hexdigest().encode() in content

    @pytest.mark.parametrize(
        ("seconds", "status"), [(SESSION_SECONDS - 1, 200), (SESSION_SECONDS, 401)]
    )
    @pytest.mark.parametrize("idle", [0, IDLE_SECONDS])
    def test_a_session_lasts_eight_hours(self, world, token, later, idle, seconds, status):
        """It ends to the second, however much it was used."""
        application = world.client(None, console=True, console_idle=idle).application
        browser = Browser(application).sign_in(token)
        for used in range(0, seconds if idle else 0, 1_800):
            later(used)
            assert browser.get(ROOT).status_int == 200
        later(seconds)
        response = browser.get(ROOT)
        assert response.status_int == status
        assert ("Your session has ended" in response.text) == (status == 401)

    @pytest.mark.parametrize(("seconds", "status"), [(-1, 200), (0, 401)])
    def test_a_session_ends_without_use(self, application, token, later, seconds, status):
        """An hour after the last use that was written, to the second."""
        browser = Browser(application).sign_in(token)
        later(2_000)
        assert browser.get(ROOT).status_int == 200
        later(2_000 + IDLE_SECONDS + seconds)
        response = browser.get(f"{ROOT}/people")
        assert response.status_int == status
        assert ("Your session has ended" in response.text) == (status == 401)

    @pytest.mark.parametrize(("seconds", "writes"), [(299, False), (300, True)])
    def test_a_use_is_written_every_five_minutes(
        self, world, application, token, later, seconds, writes
    ):
        """A commit would make every worker ask for its keys again (D109)."""
        browser = Browser(application).sign_in(token)
        (session,) = list_sessions(world.engine)
        later(seconds)
        for _ in range(3):
            browser.get(ROOT)
        (used,) = list_sessions(world.engine)
        assert used.expires_at - session.expires_at == seconds * writes

    def test_a_form_is_a_use(self, world, token, later):
        """Also one that changes nothing, with the shortest time that can be set."""
        application = world.client(None, console=True, console_idle=600).application
        browser = Browser(application).sign_in(token)
        for used in (599, 1_198, 1_797):
            later(used)
            answer = browser.post(f"{ROOT}/look-up", {"plates": "AB12CDE"})
            assert answer.status_int == 200
        later(1_797 + 600)
        assert browser.get(ROOT).status_int == 401

    def test_a_page_that_loads_itself_again_is_no_use(self, world, application, token, later):
        """Its `Refresh` header names an address that browsers ask for by themselves."""
        browser = Browser(application).sign_in(token)
        load_id = begun(world.engine, "native")
        page = f"{ROOT}/loads/{load_id}"
        with locked(world.engine, "native"):
            header = browser.get(page).headers["Refresh"]
            assert header == "3; url=?refresh=auto"
            query = header.partition("url=")[2]
            later(IDLE_SECONDS - 1)
            again = browser.get(page + query)
            assert (again.status_int, again.headers["Refresh"]) == (200, header)
        later(IDLE_SECONDS)
        assert browser.get(page + query).status_int == 401

    def test_a_session_that_has_ended_is_not_used(self, world, application, token, later):
        """Whoever reads a page at the moment in which it ends brings nothing back."""
        Browser(application).sign_in(token)
        (session,) = list_sessions(world.engine)
        end_sessions(world.engine, "Ann")
        later(400)
        Sessions(world.engine, IDLE_SECONDS).note_use(session)
        assert list_sessions(world.engine) == []

    def test_a_database_that_cannot_be_written_to_shows_pages(
        self, world, application, token, later, monkeypatch
    ):
        """The use is not noted then, and the page is shown."""
        browser = Browser(application).sign_in(token)
        later(400)

        def refuse(*_arguments):
            raise peewee.OperationalError("attempt to write a readonly database")

        monkeypatch.setattr(Sessions, "note_use", refuse)
        assert browser.get(f"{ROOT}/people").status_int == 200

    @ON_SQLITE
    def test_a_page_does_not_wait_for_another_writer(
        self, world, application, token, later, statements
    ):
        """The use is noted by the next page; look-ups of this worker would wait, too."""
        browser = Browser(application).sign_in(token)
        (session,) = list_sessions(world.engine)
        later(400)
        with closing(open_engine(world.config.database_url)) as writer:
            writer.execute_sql("BEGIN IMMEDIATE")
            with statements() as seen:
                assert browser.get(f"{ROOT}/people").status_int == 200
        assert "PRAGMA busy_timeout = 0" in "".join(map(str, seen))
        assert list_sessions(world.engine) == [session]
        browser.get(f"{ROOT}/people")
        assert list_sessions(world.engine) != [session]

    def test_signing_in_again_ends_the_first_session(self, world, application, token):
        """The browser would forget its cookie, which would go on working for whoever has it."""
        browser = Browser(application).sign_in(token)
        kept = browser.cookies[PLAIN]
        other = signed_in(world, application, Role.VIEWER, "Ann")
        browser.sign_in(create_link(world.engine, "Ben", Role.VIEWER))
        assert [each.name for each in list_sessions(world.engine)].count("Ann") == 1
        thief = Browser(application)
        assert thief.get(ROOT, headers={"Cookie": f"{PLAIN}={kept}"}).status_int == 401
        assert (browser.get(ROOT).status_int, other.get(ROOT).status_int) == (200, 200)
        opened, ended = list_actions(world.engine, Criteria(action="console"))[:2]
        assert (ended.action, ended.actor, ended.subject, ended.before) == (
            "console.end",
            "Ben",
            "Ann",
            {"sessions": 1},
        )
        assert opened.action == "console.sign-in"

    def test_a_link_that_is_refused_ends_nothing(self, application, token):
        """The session of the browser goes on."""
        browser = Browser(application).sign_in(token)
        assert browser.post(sign_in_path(token)).status_int == 401
        assert browser.get(ROOT).status_int == 200

    def test_a_person_can_sign_out_everywhere(self, world, application, token):
        """All sessions and unused links of the name end, after a question; others go on."""
        one = Browser(application).sign_in(token)
        other, ben = (signed_in(world, application, Role.VIEWER, each) for each in ("Ann", "ben"))
        unused = create_link(world.engine, "Ann", Role.VIEWER)
        path = f"{ROOT}/sign-out/everywhere"
        assert "Sign Ann out everywhere?" in one.get(path).text
        assert other.get(ROOT).status_int == 200
        assert "All sessions of Ann have ended." in one.post(path).text
        assert not one.cookies
        assert (other.get(ROOT).status_int, ben.get(ROOT).status_int) == (401, 200)
        assert Browser(application).post(sign_in_path(unused)).status_int == 401
        (action,) = list_actions(world.engine, Criteria(action="console.end"))
        assert (action.actor, action.via, action.subject) == ("Ann", "console", "Ann")
        assert action.before == {"sessions": 2, "links": 1}

    def test_a_restart_keeps_sessions(self, world, application, token):
        """A session is in the database, so every worker and every later program knows it."""
        browser = Browser(application).sign_in(token)
        restarted = Browser(world.client(None, console=True).application)
        restarted.cookies = browser.cookies
        assert restarted.get(ROOT).status_int == 200

    def test_a_page_writes_nothing(self, world, application, token):
        """A commit would make every worker ask for its keys again (D109)."""
        browser = Browser(application).sign_in(token)
        before = stored(world)
        for page in ("", "/accounts", "/people", "/nothing"):
            browser.get(f"{ROOT}{page}")
        assert stored(world) == before

    def test_signing_out_ends_the_session(self, world, application, token):
        """The cookie is removed, and no longer works for anyone who kept it."""
        browser = Browser(application).sign_in(token)
        kept = browser.cookies[PLAIN]
        response = browser.post(f"{ROOT}/sign-out")
        assert response.status_int == 200
        assert "You are signed out" in response.text
        assert not browser.cookies
        assert list_sessions(world.engine) == []
        assert browser.get(ROOT, headers={"Cookie": f"{PLAIN}={kept}"}).status_int == 401

    def test_an_ended_session_is_over_at_its_next_click(self, world, application, token):
        """Another operator ends it, and the person reads so; ending it again is no mistake."""
        browser = Browser(application).sign_in(token)
        (session,) = list_sessions(world.engine)
        other = signed_in(world, application, Role.OPERATOR, "ben")
        path = f"{ROOT}/people/{session.id}/end"
        for _ in range(2):
            assert other.post(path).location.endswith("../console/people?ended=1")
        assert other.get(path).status_int == 404
        assert "The session has ended" in other.get(f"{ROOT}/people?ended=1").text
        response = browser.get(ROOT)
        assert response.status_int == 401
        assert "Your session has ended" in response.text
        assert not browser.cookies

    def test_the_record_has_who_came_in_and_when_it_ended(self, world, application):
        """A link, its use, and the end of a session are actions, with who did each."""
        ann, ben = (signed_in(world, application, Role.VIEWER, each) for each in ("ann", "ben"))
        Browser(application).post(sign_in_path("x" * 43))
        ann.post(f"{ROOT}/sign-out")
        end_sessions(world.engine, "ben")
        assert ben.get(ROOT).status_int == 401
        host = of_command().name
        recorded = [
            (each.action, each.actor, each.via, each.subject, each.before, each.after)
            for each in list_actions(world.engine, Criteria(action="console"))[::-1]
        ]
        role, ended, left = {"role": "viewer"}, {"sessions": 1}, {"sessions": 0}
        by_link = {**role, "by": "link"}
        assert recorded == [
            ("console.link", host, "command", "ann", None, role),
            ("console.sign-in", "ann", "console", "ann", None, by_link),
            ("console.link", host, "command", "ben", None, role),
            ("console.sign-in", "ben", "console", "ben", None, by_link),
            ("console.end", "ann", "console", "ann", ended, left),
            ("console.end", host, "command", "ben", ended, left),
        ]

    def test_the_command_ends_sessions(self, world, application):
        """`console end NAME` ends those of one person, `console end` all."""
        ann, ben = (signed_in(world, application, Role.VIEWER, each) for each in ("ann", "ben"))
        assert end_sessions(world.engine, "ann") == (1, 0)
        assert (ann.get(ROOT).status_int, ben.get(ROOT).status_int) == (401, 200)
        assert end_sessions(world.engine) == (1, 0)
        assert ben.get(ROOT).status_int == 401

    def test_expired_rows_are_removed(self, world, application, token, later):
        """Whoever creates a link, or ends sessions, removes what has expired."""
        Browser(application).sign_in(token)
        later(SESSION_SECONDS + LINK_SECONDS + 86_400)
        create_link(world.engine, "ben", Role.VIEWER)
        assert ConsoleSession.select().count(world.engine) == 0
        assert [each.name for each in ConsoleLink.select().execute(world.engine)] == ["ben"]


class TestCookies:
    @pytest.mark.parametrize(
        ("environ", "name"), [({}, PLAIN), (BEHIND_NGINX, SECURE)], ids=["http", "https"]
    )
    def test_the_cookie_has_every_guard(self, application, token, environ, name):
        """HttpOnly, SameSite=Strict and its time; with TLS `__Host-`, Secure and the path /."""
        browser = Browser(application, environ)
        response = browser.post(sign_in_path(token))
        given, *attributes = response.headers["Set-Cookie"].split("; ")
        assert given.partition("=")[0] == name
        expected = {"HttpOnly", "Max-Age=28800", "Path=/", "SameSite=Strict"}
        assert set(attributes) == expected | ({"Secure"} if environ else set())

    def test_a_cookie_counts_only_with_its_scheme(self, application, token):
        """With TLS a cookie that could have been set without it does not count."""
        browser = Browser(application, BEHIND_NGINX).sign_in(token)
        browser.cookies = {PLAIN: browser.cookies[SECURE]}
        assert browser.get(ROOT).status_int == 401

    def test_the_scheme_of_an_untrusted_peer_does_not_count(self, application, token):
        """X-Forwarded-Proto is believed from proxies only."""
        headers = {**SAME_ORIGIN, "X-Forwarded-Proto": "https"}
        response = Browser(application).post(sign_in_path(token), headers=headers)
        assert response.headers["Set-Cookie"].startswith(f"{PLAIN}=")

    @pytest.mark.parametrize(
        "change",
        [
            lambda token: token[:-1],
            lambda token: token + "x",
            lambda token: token.swapcase(),
            lambda token: "",
            lambda token: '"' + token + '"x',
            lambda token: "\xe9" * TOKEN_CHARACTERS,
        ],
    )
    def test_a_changed_cookie_opens_nothing(self, application, token, change):
        """A cookie that is not exactly that of a session is 401."""
        browser = Browser(application).sign_in(token)
        cookie = f"{PLAIN}={change(browser.cookies[PLAIN])}"
        assert browser.get(ROOT, headers={"Cookie": cookie}).status_int == 401

    def test_a_link_is_no_cookie(self, application, token):
        """The token of a link does not open pages as a cookie."""
        assert (
            Browser(application).get(ROOT, headers={"Cookie": f"{PLAIN}={token}"}).status_int == 401
        )


class TestAddresses:
    @pytest.mark.parametrize("kind", ["link", "cookie"])
    def test_wrong_links_and_cookies_are_charged(self, world, stopped_clock, kind):
        """After VERIFYD_ANONYMOUS_LIMIT guesses the address gets 429 (D10)."""
        application = world.client(None, console=True, anonymous_limit=2).application
        browser = Browser(application)

        def guess():
            if kind == "link":
                return browser.get(sign_in_path("x" * TOKEN_CHARACTERS))
            return browser.get(ROOT, headers={"Cookie": f"{PLAIN}={'x' * TOKEN_CHARACTERS}"})

        answers = [guess() for _ in range(3)]
        assert [each.status_int for each in answers] == [401, 401, 429]
        assert answers[2].headers["Retry-After"] == "30"
        assert "Too many attempts" in answers[2].text
        response = world.client(None, anonymous_limit=2).get("/api/domains", environ=ADDRESS)
        assert response.status_int == 429

    def test_a_session_is_never_held_up(self, world, stopped_clock):
        """Pages of a session, links that work and requests without a cookie are not charged."""
        application = world.client(None, console=True, anonymous_limit=1).application
        browser = signed_in(world, application, Role.VIEWER)
        for _ in range(3):
            assert browser.get(ROOT).status_int == 200
            assert Browser(application).get(ROOT).status_int == 401
        response = world.client(None, anonymous_limit=1).get("/api/domains", environ=ADDRESS)
        assert response.status_int == 401


class TestApart:
    def test_an_api_key_does_not_open_the_console(self, world, application):
        """A valid key is ignored at /console."""
        headers = {"Authorization": f"Bearer {world.alice_key}", "X-API-Key": world.alice_key}
        assert Browser(application).get(ROOT, headers=headers).status_int == 401

    def test_a_session_does_not_open_the_api(self, world, application):
        """The cookie is ignored everywhere but at /console."""
        browser = signed_in(world, application, Role.OPERATOR)
        for path in ("/api/domains", "/v1/account", "/v1/vehicle/AB12CDE/insurance"):
            response = browser.get(path)
            assert response.status_int == 401
            assert response.content_type == "application/problem+json"

    @pytest.mark.parametrize("path", [ROOT, f"{ROOT}/accounts", f"{ROOT}/sign-in/x"])
    def test_without_the_setting_there_is_no_console(self, world, alice, stranger, path):
        """By default the paths are unknown ones: 404 with a key, 401 without."""
        for client, status in ((alice, 404), (stranger, 401)):
            response = client.get(path)
            assert (response.status_int, response.content_type) == (
                status,
                "application/problem+json",
            )

    @pytest.mark.parametrize("path", ["/consoles", "/console-x", "/Console", "/x/console"])
    def test_similar_paths_are_not_the_console(self, world, path):
        """Only /console and what is below it belongs to the console."""
        client = world.client(world.alice_key, console=True)
        assert client.get(path).content_type == "application/problem+json"


class TestOrigins:
    """A request that changes something must come from a page of the console."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
            {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
            {"Origin": ORIGIN},
        ],
    )
    def test_forms_of_the_console_are_accepted(self, application, token, headers):
        """`Sec-Fetch-Site` decides; without it, `Origin` must be the address of the service."""
        assert Browser(application).post(sign_in_path(token), headers=headers).status_int == 303

    @engine_independent
    @each_row(
        "headers",
        [
            {},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": ""},
            {"Sec-Fetch-Site": "cross-site", "Origin": ORIGIN},
            {"Origin": "null"},
            {"Origin": "https://evil.example"},
            {"Origin": f"https://{HOST}"},
            {"Origin": f"{ORIGIN}:8000"},
            {"Origin": f"{ORIGIN}.evil.example"},
            {"Referer": f"{ORIGIN}{ROOT}"},
        ],
    )
    def test_other_forms_are_refused(self, world, application, token, headers):
        """A form of another site, or of nobody knows where, is 403 and changes nothing."""
        browser = signed_in(world, application, Role.OPERATOR)
        before = stored(world)
        for path in (f"{ROOT}/sign-out", f"{ROOT}/accounts/new", sign_in_path(token)):
            response = browser.post(path, {"name": "x", "plan": "free"}, headers=headers)
            assert response.status_int == 403
            assert "not sent from the console" in response.text
        assert stored(world) == before

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
    def test_pages_can_be_linked_from_anywhere(self, world, application, site):
        """Reading changes nothing, so where a link was does not matter."""
        browser = signed_in(world, application, Role.VIEWER)
        assert browser.get(ROOT, headers={"Sec-Fetch-Site": site}).status_int == 200


def test_no_token_reaches_the_log(world, capfd, caplog):
    """The access log has the route of a link, and neither its token nor that of a session."""
    application = world.client(None, console=True, access_log=True).application
    token = create_link(world.engine, "ann", Role.OPERATOR)
    browser = Browser(application)
    browser.get(sign_in_path(token))
    browser.sign_in(token)
    secret = browser.cookies[PLAIN]
    for path in (ROOT, sign_in_path(token), f"{ROOT}/{secret}"):
        browser.get(path)
    written = capfd.readouterr()
    assert token not in written.out + written.err + caplog.text
    assert secret not in written.out + written.err + caplog.text
    lines = [json.loads(line) for line in written.out.splitlines()]
    assert [line["route"] for line in lines] == [
        *[f"{ROOT}/sign-in/{{token}}"] * 2,
        ROOT,
        None,  # It was refused before it was routed.
        None,
    ]
