"""The pages of accounts, and with them what all lists and forms of the console do."""

import pytest

from app.accounts.administration import (
    create_account,
    delete_account,
    require_account,
    set_account_plan,
    suspend_account,
)
from app.accounts.models import Account
from app.actions import list_actions
from app.console.listing import ROWS_PER_PAGE
from app.console.rendering import ROOT
from app.domains.repository import Domains
from app.people.sessions import list_sessions
from app.settings.roles import Role
from app.version import VERSION
from tests.api.console import SAME_ORIGIN, Browser, signed_in, stored
from tests.conftest import ON_SQLITE, SHARED, STORAGE, engine_independent
from tests.rows import each_row

ACCOUNTS = f"{ROOT}/accounts"
MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


@pytest.fixture
def browser(world):
    """A browser of an operator."""
    application = world.client(None, console=True).application
    return signed_in(world, application, Role.OPERATOR)


def page_of(world, name):
    return f"{ACCOUNTS}/{require_account(world.engine, name).tag}"


def names_on(page):
    return [row.text for row in page.html.select("tbody th a")]


class TestList:
    def test_accounts_are_listed_by_name(self, world, browser):
        """The list has plan, status and creation, and links to each account."""
        suspend_account(world.engine, "bob")
        page = browser.get(ACCOUNTS)
        assert names_on(page) == ["alice", "bob"]
        statuses = [cell.text.strip() for cell in page.html.select('td[data-title="Status"]')]
        assert statuses == ["active", "suspended"]
        assert "1 to 2 of 2 accounts" in page.text

    def test_it_can_be_sorted_by_url(self, world, browser):
        """Each heading links to its order, the second time to the reverse one."""
        set_account_plan(world.engine, "bob", "free")
        page = browser.get(ACCOUNTS)
        (heading,) = page.html.select('th[aria-sort="ascending"] a')
        assert (heading.text, heading["href"]) == ("Name", "?sort=-name")
        reverse = browser.get(f"{ACCOUNTS}?sort=-name")
        assert names_on(reverse) == ["bob", "alice"]
        (heading,) = reverse.html.select('th[aria-sort="descending"] a')
        assert heading["href"] == "?"
        assert names_on(browser.get(f"{ACCOUNTS}?sort=plan")) == ["bob", "alice"]
        assert names_on(browser.get(f"{ACCOUNTS}?sort=-plan")) == ["alice", "bob"]

    @STORAGE
    @each_row(
        ("query", "names"),
        [
            ("q=LIC", ["alice"]),
            ("q=%25", []),
            ("q=_", []),
            ("q=%20bob%20", ["bob"]),
            ("status=suspended", ["bob"]),
            ("status=active", ["alice"]),
            ("plan=standard", ["alice", "bob"]),
            ("plan=free", []),
            ("plan=standard&status=suspended&q=b&sort=-created", ["bob"]),
        ],
    )
    def test_it_can_be_filtered_by_url(self, world, browser, query, names):
        """Filters combine; the form shows them again, and an empty result offers a way out."""
        suspend_account(world.engine, "bob")
        page = browser.get(f"{ACCOUNTS}?{query}")
        assert names_on(page) == names
        assert "Show all" in page.text
        assert ("No account fits" in page.text) == (not names)

    @SHARED
    @each_row(
        "query",
        [
            "sort=nothing",
            "sort=secret_hash",
            "sort=--name",
            "sort=plan&sort=name",
            "page=0",
            "page=-1",
            "page=2",
            "page=99999999999999999999",
            "page=x",
            "page=%C2%B2",
            "status=nothing",
            "plan=nothing",
            "q=",
            "q=%00",
            "q=a&q=b",
            "other=1",
        ],
    )
    def test_what_does_not_exist_counts_as_absent(self, browser, query):
        """A URL that somebody kept or mistyped shows the list as it is."""
        page = browser.get(f"{ACCOUNTS}?{query}")
        assert page.status_int == 200
        assert names_on(page) == ["alice", "bob"]

    def test_long_lists_have_pages(self, world, browser):
        """A page has 50 rows; links lead to the next and the previous one, and keep the filters."""
        for number in range(ROWS_PER_PAGE + 1):
            create_account(world.engine, f"x{number:02}")
        first = browser.get(f"{ACCOUNTS}?q=x")
        assert len(names_on(first)) == ROWS_PER_PAGE
        assert "1 to 50 of 51 accounts" in first.text
        (following,) = first.html.select("a[rel=next]")
        assert not first.html.select("a[rel=prev]")
        second = browser.get(f"{ACCOUNTS}{following['href']}")
        assert names_on(second) == ["x50"]
        (previous,) = second.html.select("a[rel=prev]")
        assert previous["href"] == "?q=x"
        assert names_on(browser.get(f"{ACCOUNTS}?q=x&page=9")) == ["x50"]

    def test_an_installation_without_accounts_says_so(self, world, browser):
        """The empty list says what an account is."""
        for name in ("alice", "bob"):
            delete_account(world.engine, name, lambda _: 0)
        assert "There are no accounts yet" in browser.get(ACCOUNTS).text


class TestDetail:
    def test_it_shows_plan_and_keys(self, world, browser):
        """The page has the limits of the plan, and each key without its secret."""
        page = browser.get(page_of(world, "alice"))
        assert "600 in 1 min" in page.text
        assert world.alice_key[10:18] in page.text
        assert world.alice_key[18:40] not in page.text

    @SHARED
    @each_row("tag", ["AAAAAA", "1", "alice", "%3Cscript%3E", "..%5c..%5cetc", "%00"])
    @each_row("rest", ["", "/suspend", "/resume", "/plan", "/reset", "/delete", "/keys/new"])
    def test_an_account_that_nobody_has_is_not_found(self, browser, tag, rest):
        """Any other tag is 404, with a way back."""
        page = browser.get(f"{ACCOUNTS}/{tag}{rest}")
        assert page.status_int == 404
        assert "<script>" not in page.text
        if "2f" not in tag and "%00" not in tag:
            assert "There is no such account" in page.text
            assert page.html.select_one(".message a")["href"].endswith("console/accounts")

    def test_a_sentence_of_the_url_is_not_shown(self, world, browser):
        """`done` chooses one of our own sentences."""
        for done in ("nothing", "%3Cb%3E", ""):
            page = browser.get(f"{page_of(world, 'alice')}?done={done}")
            assert page.status_int == 200
            assert not page.html.select(".notice")


class TestCreate:
    def test_a_new_account_is_shown(self, world, browser):
        """The form leads to the page of the account, which says what to do next."""
        form = browser.get(f"{ACCOUNTS}/new")
        assert form.html.select_one("option[selected]").text == "standard"
        response = browser.post(f"{ACCOUNTS}/new", {"name": "  Acme & Söhne  ", "plan": "free"})
        assert response.status_int == 303
        account = require_account(world.engine, "Acme & Söhne")
        assert account.plan_id == "free"
        assert response.location == f"../../console/accounts/{account.tag}?done=created"
        page = browser.get(f"{ACCOUNTS}/{account.tag}?done=created")
        assert page.html.h1.text == "Acme & Söhne"
        assert "The account was created" in page.text

    @engine_independent
    @each_row(
        ("fields", "fault"),
        [
            ({}, "Name is needed"),
            ({"name": ""}, "Name is needed"),
            ({"name": "   "}, "Name is needed"),
            ({"name": "x" * 101}, "at most 100 characters; this one has 101"),
            ({"name": "a\nb"}, "must not contain line breaks"),
            ({"name": "a\x1b[31m"}, "must not contain line breaks"),
            ({"name": "alice"}, "There is already an account named alice"),
            ({"name": "x", "plan": ""}, "Plan is needed"),
            ({"name": "x", "plan": "gold"}, "Choose one of the list"),
            ({"name": "x", "plan": MARKUP}, "Choose one of the list"),
            ({"name": "x", "plan": "x" * 5000}, "at most 100 characters"),
        ],
    )
    def test_a_wrong_field_is_named(self, world, browser, fields, fault):
        """The form comes back with what was typed, and a sentence at the field."""
        before = stored(world)
        response = browser.post(f"{ACCOUNTS}/new", {"plan": "standard", **fields})
        assert response.status_int == 422
        (wrong,) = response.html.select("[aria-invalid=true]")
        told = {f"{wrong['id']}-fault", f"{wrong['id']}-hint"}
        assert set(wrong["aria-describedby"].split()) == told
        assert fault in response.html.find(id=f"{wrong['id']}-fault").text
        assert response.html.select_one(".notice a")["href"] == f"#{wrong['id']}"
        shown = response.html.find(id="field-name")["value"]
        assert shown == fields.get("name", "").strip()
        assert stored(world) == before

    def test_markup_stays_text(self, world, browser):
        """A name with markup is shown as it was typed, on every page that shows it."""
        response = browser.post(f"{ACCOUNTS}/new", {"name": MARKUP, "plan": "standard"})
        assert response.status_int == 303
        path = page_of(world, MARKUP)
        for page in (ACCOUNTS, f"{ACCOUNTS}?q=%3Cscript%3E", path, f"{path}/suspend"):
            shown = browser.get(page)
            assert MARKUP in shown.html.text
            assert not shown.html.select("script:not([src])")
            assert not shown.html.select("[onerror]")
        again = browser.post(f"{ACCOUNTS}/new", {"name": MARKUP, "plan": "standard"})
        assert again.html.find(id="field-name")["value"] == MARKUP

    def test_markup_in_a_persons_name_stays_text(self, world, browser):
        """The name that a link was made for is text, too."""
        application = world.client(None, console=True).application
        person = signed_in(world, application, Role.VIEWER, MARKUP)
        for page in (person.get(ROOT), browser.get(f"{ROOT}/people")):
            assert MARKUP in page.html.text
            assert not page.html.select("script:not([src]), [onerror]")


class TestStatus:
    def test_suspending_and_resuming(self, world, browser, alice):
        """Each takes a confirmation, counts from the next request on, and says that it was done."""
        path = page_of(world, "alice")
        assert alice.get("/v1/account").status_int == 200
        response = browser.send(f"{path}/suspend")
        assert response.status_int == 303
        assert response.location.endswith("?done=suspended")
        assert alice.get("/v1/account").status_int == 401
        page = browser.get(f"{path}?done=suspended")
        assert "The account is suspended" in page.text
        actions = [each.text for each in page.html.select(".actions a")]
        assert actions == ["New key", "Resume", "Delete"]
        assert browser.send(f"{path}/resume").status_int == 303
        assert alice.get("/v1/account").status_int == 200

    def test_what_is_done_is_recorded(self, world, browser):
        """The record names the person in the console, and has nothing of what failed (D130)."""
        browser.post(f"{ACCOUNTS}/new", {"name": "acme", "plan": "free"})
        browser.post(f"{ACCOUNTS}/new", {"name": "acme", "plan": "free"})
        browser.send(f"{page_of(world, 'acme')}/suspend")
        browser.post(f"{page_of(world, 'acme')}/resume")
        other = signed_in(world, world.client(None, console=True).application, Role.VIEWER, "ben")
        (session,) = [each for each in list_sessions(world.engine) if each.name == "ben"]
        for _ in range(2):
            browser.post(f"{ROOT}/people/{session.id}/end")
        assert other.get(ROOT).status_int == 401
        recorded = [each for each in list_actions(world.engine) if each.via == "console"]
        assert [(each.actor, each.action, each.subject) for each in reversed(recorded)] == [
            ("ann", "console.sign-in", "ann"),
            ("ann", "accounts.create", "acme"),
            ("ann", "accounts.suspend", "acme"),
            ("ben", "console.sign-in", "ben"),
            ("ann", "console.end", "ben"),
        ]

    @pytest.mark.parametrize("action", ["suspend", "resume"])
    def test_a_form_without_its_version_changes_nothing(self, world, browser, action):
        """A form that was not made from the page as it is now is 409."""
        before = stored(world)
        for fields in ({}, {"version": ""}, {"version": "0" * 16}, {"version": MARKUP}):
            response = browser.post(f"{page_of(world, 'alice')}/{action}", fields)
            assert response.status_int == 409
            assert "Somebody else has changed this" in response.text
        assert stored(world) == before

    def test_two_operators_do_not_undo_each_others_work(self, world, browser):
        """A form that was made before another one was sent is 409, and leads to the page."""
        path = page_of(world, "alice")
        pages = [browser.get(f"{path}/suspend") for _ in range(2)]
        version = pages[1].html.find("input", {"name": "version"})["value"]
        set_account_plan(world.engine, "alice", "enterprise")
        response = browser.post(f"{path}/suspend", {"version": version})
        assert response.status_int == 409
        assert response.html.select_one(".message a")["href"].endswith(path.rpartition("/")[2])
        assert require_account(world.engine, "alice").suspended_at is None

    def test_a_confirmation_shows_nothing_of_its_form(self, world, browser):
        """The version of the form is not taken for that of the program, nor the other way round."""
        page = browser.get(f"{page_of(world, 'alice')}/suspend")
        assert page.html.footer.text == f"verifyd {VERSION}"
        application = world.client(None, console=True).application
        other = signed_in(world, application, Role.VIEWER)
        assert other.get(ROOT).html.footer.text == f"verifyd {VERSION}"
        session = list_sessions(world.engine)[0]
        page = browser.get(f"{ROOT}/people/{session.id}/end")
        assert not page.html.select("input")

    def test_a_deleted_account_is_not_found(self, world, browser):
        """A form about an account that was deleted meanwhile is 404."""
        path = page_of(world, "alice")
        version = browser.get(f"{path}/suspend").html.find("input", {"name": "version"})["value"]
        delete_account(world.engine, "alice", lambda _: 0)
        response = browser.post(f"{path}/suspend", {"version": version})
        assert response.status_int == 404


class TestPlan:
    def test_an_account_moves_to_another_plan(self, world, browser):
        """The form shows the plans and the current one; the change is recorded."""
        path = page_of(world, "alice")
        form = browser.get(f"{path}/plan")
        assert form.html.select_one("option[selected]").text == "standard"
        response = browser.send(f"{path}/plan", {"plan": "enterprise"})
        assert response.status_int == 303
        assert require_account(world.engine, "alice").plan_id == "enterprise"
        assert "on another plan" in browser.get(f"{path}?done=moved").text
        (action,) = list_actions(world.engine, limit=1)
        assert (action.actor, action.via, action.action) == ("ann", "console", "accounts.set-plan")

    @pytest.mark.parametrize("plan", ["", "gold", "x" * 101, "a\nb", MARKUP])
    def test_a_plan_that_is_not_in_the_list_is_refused(self, world, browser, plan):
        """The form comes back, and the account stays on its plan."""
        before = stored(world)
        response = browser.send(f"{page_of(world, 'alice')}/plan", {"plan": plan})
        assert response.status_int == 422
        assert response.html.select("select[aria-invalid=true]")
        assert not response.html.select("script:not([src]), [onerror]")
        assert stored(world) == before

    def test_two_operators_do_not_undo_each_others_work(self, world, browser):
        """A form from before another change is 409."""
        path = f"{page_of(world, 'alice')}/plan"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        set_account_plan(world.engine, "alice", "free")
        for sent in (version, "", MARKUP):
            response = browser.post(path, {"plan": "enterprise", "version": sent})
            assert response.status_int == 409
        assert require_account(world.engine, "alice").plan_id == "free"


class TestReset:
    def test_an_account_gets_its_requests_back(self, stopped_clock, world, browser):
        """The account's page shows how many are left, and the form fills them up."""
        client, path = world.client(world.alice_key), page_of(world, "alice")
        for _ in range(3):
            client.get("/v1/account")
        assert "597 left now" in browser.get(path).text
        assert browser.send(f"{path}/reset").status_int == 303
        page = browser.get(f"{path}?done=reset")
        assert "600 left now" in page.text
        assert "has all its requests back" in page.text
        (action,) = list_actions(world.engine, limit=1)
        assert (action.actor, action.action) == ("ann", "limits.reset")

    def test_without_the_file_of_limits_nothing_is_recorded(self, world, browser):
        """The page of the account shows no number, and the reset is 503."""
        path = page_of(world, "alice")
        version = browser.get(f"{path}/reset").html.find("input", {"name": "version"})["value"]
        before = list_actions(world.engine)
        world.limits.unlink()
        assert "left now" not in browser.get(path).text
        response = browser.post(f"{path}/reset", {"version": version})
        assert response.status_int == 503
        assert "The rate limits cannot be used" in response.text
        assert list_actions(world.engine) == before


class TestDelete:
    def test_it_takes_the_name(self, world, browser, alice):
        """With its name the account is deleted with its keys, and the list says so."""
        path = f"{page_of(world, 'alice')}/delete"
        assert "its 1 key are" in browser.get(path).text
        response = browser.send(path, {"name": "alice"})
        assert response.status_int == 303
        assert alice.get("/v1/account").status_int == 401
        page = browser.get(f"{ACCOUNTS}?done=deleted")
        assert names_on(page) == ["bob"]
        assert "The account and its keys were deleted" in page.text
        (action,) = list_actions(world.engine, limit=1)
        assert (action.actor, action.action) == ("ann", "accounts.delete")

    @ON_SQLITE
    @each_row("name", ["", "Alice", "bob", "alic", "a" * 101, "a\nb", MARKUP])
    def test_another_name_deletes_nothing(self, world, browser, name):
        """The form comes back with a sentence at the name."""
        before = stored(world)
        response = browser.send(f"{page_of(world, 'alice')}/delete", {"name": name})
        assert response.status_int == 422
        assert response.html.find(id="field-name-fault")
        assert not response.html.select("script:not([src]), [onerror]")
        assert stored(world) == before

    def test_an_account_with_domains_stays(self, world, browser):
        """Domains are not lost by mistake, also if one was created after the form was shown."""
        path = f"{page_of(world, 'alice')}/delete"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        account = require_account(world.engine, "alice")
        Domains(world.engine).create_domain(account.id, "example.com", 10)
        fields = {"name": "alice", "version": version}
        for response in (browser.get(path), browser.post(path, fields)):
            assert response.status_int == 409
            assert "alice has 1 domain" in response.text
        assert require_account(world.engine, "alice").id == account.id

    def test_a_form_of_an_earlier_state_deletes_nothing(self, world, browser):
        """Whoever has not seen that the account was suspended must look again."""
        path = f"{page_of(world, 'alice')}/delete"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        suspend_account(world.engine, "alice")
        response = browser.post(path, {"name": "alice", "version": version})
        assert response.status_int == 409


class TestForms:
    """What is sent by hand, without a form of the console."""

    KIND = "application/x-www-form-urlencoded"

    @engine_independent
    @each_row(
        ("kind", "body"),
        [
            ("application/json", b'{"name": "x", "plan": "free"}'),
            ("multipart/form-data; boundary=x", b"--x--"),
            ("text/plain", b"name=x&plan=free"),
            ("", b"name=x&plan=free"),
            (KIND, b"name=x&name=y&plan=free"),
            (KIND, b"name=%00&plan=free"),
            (KIND, b"name=%FF&plan=free"),
            (KIND, b"name=\xff&plan=free"),
            (KIND, b"name"),
            (KIND, b"&".join(b"f%d=" % number for number in range(200))),
        ],
    )
    def test_a_malformed_form_is_refused(self, world, browser, kind, body):
        """It gets 400 with a page, and nothing is changed."""
        before = stored(world)
        headers = {**SAME_ORIGIN, "Content-Type": kind}
        response = browser.request("POST", f"{ACCOUNTS}/new", body=body, headers=headers)
        assert response.status_int == 400
        assert response.content_type == "text/html"
        assert "Nothing was changed" in response.text
        assert stored(world) == before

    def test_a_form_that_is_too_long_is_refused(self, world, browser):
        """More than 1 MiB is 413."""
        response = browser.post(f"{ACCOUNTS}/new", {"name": "x" * (1 << 20), "plan": "free"})
        assert response.status_int == 413
        assert "The form is too long" in response.text

    def test_a_form_for_someone_else_does_nothing(self, world, browser):
        """Two accounts with equal plans have different versions."""
        alice, bob = (page_of(world, name) for name in ("alice", "bob"))
        version = browser.get(f"{alice}/suspend").html.find("input", {"name": "version"})["value"]
        assert browser.post(f"{bob}/suspend", {"version": version}).status_int == 409
        assert Account.select().where(Account.suspended_at.is_null(False)).count(world.engine) == 0


def test_a_lost_database_gets_a_page(world):
    """Every page says that the database cannot be used, and works again when it is back."""
    application = world.client(None, console=True).application
    browser = signed_in(world, application, Role.OPERATOR)
    path = f"{page_of(world, 'alice')}/suspend"
    version = browser.get(path).html.find("input", {"name": "version"})["value"]
    world.store.lose()
    answers = [
        browser.get(each) for each in (ROOT, ACCOUNTS, f"{ROOT}/people", f"{ROOT}/sign-in/x")
    ]
    answers.append(browser.post(path, {"version": version}))
    world.store.give_back()
    for response in (*answers[:3], answers[4]):
        assert response.status_int == 503
        assert response.headers["Retry-After"] == "2"
        assert "The database cannot be used now" in response.text
    assert browser.get(ROOT).status_int == 200
    assert Browser(application).get(ROOT).status_int == 401
    assert browser.post(path, {"version": version}).status_int == 303
