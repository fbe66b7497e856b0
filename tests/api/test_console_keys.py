"""The pages of keys: lists, a new key that is shown once, rotate and revoke."""

from datetime import UTC, timedelta

import pytest

from app import clock
from app.accounts.administration import (
    create_account,
    create_key,
    delete_account,
    end_of_day,
    list_keys,
    require_account,
    require_key,
    revoke_key,
    rotate_key,
    suspend_account,
)
from app.accounts.models import ApiKey
from app.accounts.tokens import parse_token
from app.accounts.usage.store import UsageDay
from app.actions import Actor, list_actions
from app.console.listing import ROWS_PER_PAGE
from app.console.rendering import ROOT
from app.settings.roles import Role
from tests.api.console import signed_in, stored
from tests.api.test_console_accounts import MARKUP
from tests.conftest import ON_SQLITE, SHARED, engine_independent
from tests.rows import each_row

KEYS = f"{ROOT}/keys"


@pytest.fixture
def application(world):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of an operator."""
    return signed_in(world, application, Role.OPERATOR)


@pytest.fixture
def alice_id(world):
    """The id of the key of alice."""
    return id_of(world.alice_key)


def creation_page(world, name="alice"):
    return f"{ROOT}/accounts/{require_account(world.engine, name).tag}/keys/new"


def ids_on(page):
    return [row.text for row in page.html.select("tbody th")]


def field_at_fault(response, fault):
    """Return the only field that a refused form marks; its sentence must hold this text."""
    assert response.status_int == 422
    (wrong,) = response.html.select("[aria-invalid=true]")
    assert fault in response.html.find(id=f"{wrong['id']}-fault").text
    return wrong


def id_of(text):
    """Return the id of a whole key."""
    token = parse_token(text)
    assert token is not None
    return token.key_id


def make(world, account, **columns):
    """Create a key and set some of its columns."""
    key, _ = create_key(world.engine, account)
    if columns:
        ApiKey.update(**columns).where(ApiKey.id == key.id).execute(world.engine)
    return key.id


def latest_action(world):
    return list_actions(world.engine, limit=1)[0]


class TestList:
    def test_the_newest_key_comes_first(self, world, browser, alice_id):
        """The list has the keys of all accounts, and no secret."""
        later = make(world, "bob", created_at=clock.now() + 60)
        page = browser.get(KEYS)
        assert ids_on(page)[0] == later
        assert set(ids_on(page)) == {key.id for key in list_keys(world.engine)}
        assert world.alice_key[18:40] not in page.text
        (heading,) = page.html.select('th[aria-sort="descending"] a')
        assert (heading.text, heading["href"]) == ("Created", "?sort=created")
        assert ids_on(browser.get(f"{KEYS}?sort=created"))[-1] == later

    def test_each_status_can_be_chosen(self, world, browser, alice_id):
        """The filter agrees with the status that each key is shown with."""
        create_account(world.engine, "carl")
        chosen = {
            "active": {alice_id, make(world, "alice", expires_at=clock.now() + 600)},
            "suspended": {make(world, "carl")},
            "expired": {
                make(world, "alice", expires_at=clock.now() - 1),
                make(world, "carl", expires_at=1),
            },
            "revoked": {
                make(world, "alice", revoked_at=1),
                make(world, "carl", revoked_at=1, expires_at=1),
            },
        }
        suspend_account(world.engine, "carl")
        chosen["active"].add(id_of(world.bob_key))
        for status, ids in chosen.items():
            page = browser.get(f"{KEYS}?status={status}")
            assert set(ids_on(page)) == ids
            shown = {cell.text.strip() for cell in page.html.select('td[data-title="Status"]')}
            assert shown == {status}

    def test_it_searches_accounts_labels_and_ids(self, world, browser, alice_id):
        """A part of the account or label is enough; an id must be whole."""
        labelled, _ = create_key(world.engine, "bob", "Billing 100%")
        bobs = {labelled.id, id_of(world.bob_key)}
        for text, ids in (
            ("bob", bobs),
            ("bILL", {labelled.id}),
            ("100%25", {labelled.id}),
            (alice_id, {alice_id}),
            (alice_id[:-1], set()),
            ("%25%25", set()),
        ):
            assert set(ids_on(browser.get(f"{KEYS}?q={text}"))) == ids, text

    def test_the_keys_of_one_account_have_a_list(self, world, browser, alice_id):
        """With the account's tag the list is that of the account; its forms and links keep it."""
        tag = require_account(world.engine, "alice").tag
        page = browser.get(f"{KEYS}?account={tag}")
        assert ids_on(page) == [alice_id]
        assert page.html.h1.text == "Keys of alice"
        assert page.html.select_one("form.filters input[type=hidden]")["value"] == tag
        assert page.html.select_one("thead a")["href"].startswith(f"?account={tag}")
        (link,) = page.html.select("a.primary")
        assert link["href"].endswith(f"accounts/{tag}/keys/new")

    def test_a_list_of_nobody_is_empty(self, browser):
        """A tag that no account has leaves no key."""
        for tag in ("AAAAAA", "%3Cscript%3E", "x" * 200):
            page = browser.get(f"{KEYS}?account={tag}")
            assert page.status_int == 200
            assert "No key fits" in page.text

    def test_a_whole_key_is_no_search(self, world, browser):
        """A key that somebody pastes there leads to the form that sends it with POST."""
        page = browser.get(f"{KEYS}?q={world.alice_key}")
        assert page.status_int == 303
        assert page.location.endswith("console/keys/find")
        assert world.alice_key not in page.text + page.location

    def test_an_account_shows_its_latest_keys(self, world, browser):
        """Its page has ten keys, and a link to the list of all."""
        for _ in range(10):
            make(world, "alice")
        path = creation_page(world).removesuffix("/keys/new")
        page = browser.get(path)
        assert len(page.html.select("tbody th")) == 10
        assert "Show all 11 keys" in page.text

    def test_long_lists_have_pages(self, world, browser):
        """A page has 50 keys."""
        for _ in range(ROWS_PER_PAGE):
            make(world, "alice")
        assert len(ids_on(browser.get(KEYS))) == ROWS_PER_PAGE
        assert len(ids_on(browser.get(f"{KEYS}?page=2"))) == 2


class TestDetail:
    def test_it_shows_the_key_without_its_secret(self, world, browser, alice_id):
        """The page has what the database knows, which is not the key."""
        page = browser.get(f"{KEYS}/{alice_id}")
        assert page.status_int == 200
        assert world.alice_key[:18] in page.text
        assert world.alice_key[18:30] not in page.text
        assert "never" in page.text

    def test_it_shows_the_day_of_the_last_use(self, world, browser, alice_id):
        """The latest day of any operation, on the pages of the key and of its account."""
        keys = [make(world, "alice", label=name) for name in ("used", "unused")]
        account = require_account(world.engine, "alice")
        row = {"status": "2xx", "answers": 1, "vehicles": 1, "account_id": account.id}
        last, former = (clock.today(UTC) - timedelta(days=back) for back in (200, 399))
        for day, operation in ((former, "insurance"), (last, "compliance")):
            use = row | {"day": day, "operation": operation, "key_id": keys[0]}
            UsageDay.insert(**use).execute(world.engine)
        for key, told in zip(keys, (str(last), "not in 400 days"), strict=True):
            for path in (f"keys/{key}", f"accounts/{account.tag}"):
                page = browser.get(f"{ROOT}/{path}").html
                link = page.select_one(f"tbody a[href$='{key}']")
                shown = link.find_parent("tr") if link else page.select_one(".facts")
                assert told in shown.text, path

    def test_a_rotated_key_leads_to_its_successor_and_back(self, world, browser, alice_id):
        """Either page links to the other."""
        made, _ = rotate_key(world.engine, alice_id)
        old, new = browser.get(f"{KEYS}/{alice_id}"), browser.get(f"{KEYS}/{made.id}")
        assert [a.text for a in old.html.select("dd a code")] == [made.id]
        assert [a.text for a in new.html.select("dd a code")] == [alice_id]
        assert [a.text for a in old.html.select(".actions a")] == ["Revoke"]
        assert [a.text for a in new.html.select(".actions a")] == ["Rotate", "Revoke"]

    @SHARED
    @each_row("rest", ["", "/rotate", "/revoke"])
    @each_row("key_id", ["AAAAAAAA", "1", "%3Cscript%3E", "%00", "AAAAAAA%20", "%FF", "x" * 300])
    def test_a_key_that_nobody_has_is_not_found(self, world, browser, key_id, rest):
        """Any other id is 404 with a way back, also for a form that is sent by hand."""
        before = stored(world)
        answers = [browser.get(f"{KEYS}/{key_id}{rest}")]
        if rest:
            answers.append(browser.post(f"{KEYS}/{key_id}{rest}", {"grace": "0", "version": "x"}))
        for page in answers:
            assert page.status_int == 404
            assert "There is no such" in page.text
            assert "<script>" not in page.text
        assert stored(world) == before


class TestFind:
    def test_a_whole_key_leads_to_its_page(self, world, browser, alice_id):
        """The whole key, or its id, is enough; spaces around it do not matter."""
        for text in (world.alice_key, f"  {world.alice_key}\t", alice_id):
            response = browser.post(f"{KEYS}/find", {"key": text})
            assert response.status_int == 303
            assert response.location.endswith(f"/keys/{alice_id}")

    @SHARED
    @each_row(
        "text",
        ["", " ", "x", "AAAAAAAA", "x" * 101, "a\nb", "\x07", MARKUP, "vfd_" + "A" * 64],
    )
    def test_what_is_no_key_is_not_found(self, world, browser, text):
        """The form comes back without what was typed, which can be a part of a key."""
        before = stored(world)
        response = browser.post(f"{KEYS}/find", {"key": text})
        assert response.status_int == 422
        assert response.html.find(id="field-key")["value"] == ""
        assert response.html.select("[aria-invalid=true]")
        assert not response.html.select("script:not([src])")
        assert stored(world) == before

    def test_a_mistyped_key_is_not_shown_again(self, world, browser):
        """No page repeats a part of a key."""
        response = browser.post(f"{KEYS}/find", {"key": f"{world.alice_key[:-1]}!"})
        assert response.status_int == 422
        assert world.alice_key[4:30] not in response.text


class TestCreate:
    def test_a_new_key_is_shown_once(self, world, browser):
        """The answer to the form has the key, which works; no other page and no table has it."""
        last_day = clock.today(world.config.timezone) + timedelta(days=30)
        fields = {"label": "billing", "expires": last_day.isoformat()}
        response = browser.send(creation_page(world), fields)
        assert response.status_int == 200
        text = response.html.find(id="key").text
        assert world.client(text).get("/v1/account").status_int == 200
        key = require_key(world.engine, id_of(text))
        assert key.label == "billing"
        assert key.expires_at == end_of_day(last_day)
        secret = text[19:].encode()
        assert secret not in stored(world)
        for path in (KEYS, f"{KEYS}/{key.id}", creation_page(world).removesuffix("/keys/new")):
            assert secret.decode() not in browser.get(path).text

    def test_a_restricted_key(self, world, browser):
        """Every page that shows the key shows its restrictions, and so does the record."""
        networks = "192.0.2.0/24\r\n\r\n 2001:db8::/32 \r\n192.0.2.0/24"
        page = browser.get(creation_page(world))
        assert "a request on the service's Unix socket without X-Real-IP" in page.html.text
        response = browser.send(creation_page(world), {"only": "domains", "networks": networks})
        text = response.html.find(id="key").text
        client = world.client(text)
        assert client.get("/api/domains").status_int == 200
        assert client.get("/v1/usage").status_int == 403
        assert client.get("/api/domains", environ={"REMOTE_ADDR": "10.0.0.1"}).status_int == 403
        told = "only domains, from 192.0.2.0/24, 2001:db8::/32"
        assert told in response.html.text
        assert told in browser.get(f"{KEYS}/{id_of(text)}").html.text
        for path in (KEYS, creation_page(world).removesuffix("/keys/new")):
            row = browser.get(path).html.select_one(f"tbody a[href$='{id_of(text)}']")
            assert "only domains, from 2 networks" in row.find_parent("tr").text
        after = latest_action(world).after
        assert (after["only"], after["networks"]) == ("domains", ["192.0.2.0/24", "2001:db8::/32"])
        new = browser.send(f"{KEYS}/{id_of(text)}/rotate", {"grace": "0"})
        assert told in new.html.text

    def test_a_key_for_everything(self, world, browser):
        """The first choice restricts nothing, and neither does an empty list."""
        fields = {"only": "everything", "networks": " \r\n"}
        text = browser.send(creation_page(world), fields).html.find(id="key").text
        assert require_key(world.engine, id_of(text)).restricted_hash is None
        assert world.client(text).get("/v1/usage").status_int == 200

    @engine_independent
    @each_row(
        ("fields", "name", "fault"),
        [
            ({"only": "all"}, "only", "Choose one of the list as operations."),
            ({"networks": "here"}, "networks", "Network 1 must be an address or network such as"),
            ({"networks": "::1\n10.0.0.1/8"}, "networks", "Network 2 has bits after its prefix;"),
            ({"networks": MARKUP}, "networks", "Network 1 must be an address or network such as"),
            ({"networks": "\n".join(f"10.0.0.{n}" for n in range(21))}, "networks", "at most 20"),
            ({"networks": "x" * 2_000}, "networks", "can have at most 1,020 characters"),
        ],
    )
    def test_a_wrong_restriction_is_named(self, world, browser, fields, name, fault):
        """The form comes back with a sentence at the field, and no key is made."""
        before = stored(world)
        response = browser.send(creation_page(world), fields)
        assert field_at_fault(response, fault)["name"] == name
        assert not response.html.select("script:not([src])")
        assert stored(world) == before

    def test_nothing_keeps_the_answer(self, world, browser):
        """Neither a browser nor a proxy stores the page with the key."""
        response = browser.send(creation_page(world))
        assert response.headers["Cache-Control"] == "no-store"
        assert response.html.select_one("button[data-copy=key][hidden]")

    def test_it_is_recorded_as_the_persons_action(self, world, browser):
        """The record has who, the key's id and its label, but no secret."""
        response = browser.send(creation_page(world), {"label": "billing"})
        text = response.html.find(id="key").text
        action = latest_action(world)
        assert (action.actor, action.via, action.action) == ("ann", "console", "keys.create")
        assert (action.subject, action.account) == (id_of(text), "alice")
        assert action.after["label"] == "billing"

    def test_sending_the_form_again_makes_no_second_key(self, world, browser):
        """Reloading the page with the key is 409, which says that the key exists."""
        page = browser.get(creation_page(world))
        version = page.html.find("input", {"name": "version"})["value"]
        first = browser.post(creation_page(world), {"version": version})
        before = stored(world)
        second = browser.post(creation_page(world), {"version": version})
        assert (first.status_int, second.status_int) == (200, 409)
        assert "that key exists, and is not shown again" in second.text
        assert stored(world) == before

    @engine_independent
    @each_row(
        ("fields", "name", "fault"),
        [
            ({"label": "x" * 101}, "label", "at most 100 characters; this one has 101"),
            ({"label": "a\nb"}, "label", "must not contain line breaks"),
            ({"label": "a\x1bb"}, "label", "must not contain line breaks"),
            ({"expires": "tomorrow"}, "expires", "must be a day as YYYY-MM-DD"),
            ({"expires": "31.12.2030"}, "expires", "must be a day as YYYY-MM-DD"),
            ({"expires": "20301231"}, "expires", "must be a day as YYYY-MM-DD"),
            ({"expires": "2030-02-30"}, "expires", "a day that does not exist"),
            ({"expires": "9999-12-31"}, "expires", "must be before 9999-12-31"),
            ({"expires": "0"}, "expires", "must be a day as YYYY-MM-DD"),
            ({"expires": "9" * 200}, "expires", "at most 100 characters"),
            ({"expires": MARKUP}, "expires", "must be a day as YYYY-MM-DD"),
            ({"expires": "2001-01-01"}, "expires", "must expire in the future"),
        ],
    )
    def test_a_wrong_field_is_named(self, world, browser, fields, name, fault):
        """The form comes back with a sentence at the field, and no key is made."""
        before = stored(world)
        response = browser.send(creation_page(world), fields)
        wrong = field_at_fault(response, fault)
        assert (wrong["name"], wrong["value"]) == (name, fields[name])
        assert stored(world) == before

    def test_markup_stays_text(self, world, browser):
        """A label with markup is shown as it was typed, on every page that shows it."""
        text = browser.send(creation_page(world), {"label": MARKUP}).html.find(id="key").text
        path = f"{KEYS}/{id_of(text)}"
        for page in (KEYS, path, f"{path}/revoke", creation_page(world).removesuffix("/keys/new")):
            shown = browser.get(page)
            assert MARKUP in shown.html.text
            assert not shown.html.select("script:not([src]), [onerror]")

    def test_an_account_that_is_gone_gets_no_key(self, world, browser):
        """The form of an account that was deleted meanwhile is 404."""
        path = creation_page(world)
        delete_account(world.engine, "alice", lambda _: 0)
        for response in (browser.get(path), browser.post(path, {"label": "x"})):
            assert response.status_int == 404


class TestRotate:
    def test_the_old_key_works_for_a_while(self, world, browser, alice_id):
        """The new key is shown once, and the old one ends after the hours that were asked for."""
        now = clock.now()
        response = browser.send(f"{KEYS}/{alice_id}/rotate", {"grace": "2"})
        assert response.status_int == 200
        text = response.html.find(id="key").text
        for key in (world.alice_key, text):
            assert world.client(key).get("/v1/account").status_int == 200
        old = require_key(world.engine, alice_id)
        assert old.replaced_by == id_of(text)
        assert 7200 <= (old.expires_at or 0) - now <= 7210
        assert latest_action(world).actor == "ann"

    def test_without_hours_the_old_key_ends_at_once(self, world, browser, alice_id):
        """0 is a number of hours, too."""
        response = browser.send(f"{KEYS}/{alice_id}/rotate", {"grace": "0"})
        assert "no longer works" in response.text
        assert world.client(world.alice_key).get("/v1/account").status_int == 401

    def test_the_form_begins_with_a_day(self, browser, alice_id):
        """The default is that of the command."""
        page = browser.get(f"{KEYS}/{alice_id}/rotate")
        assert page.html.find(id="field-grace")["value"] == "24"

    @ON_SQLITE
    @each_row("grace", ["", " ", "-1", "1.5", "1e3", "x", "8785", "9" * 5000, "²", "٣", MARKUP])
    def test_wrong_hours_change_nothing(self, world, browser, alice_id, grace):
        """Anything but a whole number of hours, up to 366 days, is refused at its field."""
        before = stored(world)
        response = browser.send(f"{KEYS}/{alice_id}/rotate", {"grace": grace})
        assert response.status_int == 422
        fault = response.html.find(id="field-grace-fault").text
        assert "from 0 to 8,784" in fault or "at most 100 characters" in fault
        assert stored(world) == before

    def test_a_key_that_ended_or_was_rotated_is_not_rotated(self, world, browser, alice_id):
        """Rotating never brings back access that was ended; the page says what to do instead."""
        expired = make(world, "bob", expires_at=1)
        revoked = make(world, "bob", revoked_at=1)
        rotate_key(world.engine, alice_id)
        before = stored(world)
        for key_id, text in (
            (expired, "Create a new key instead"),
            (revoked, "Create a new key instead"),
            (alice_id, "Rotate that one instead"),
        ):
            page = browser.get(f"{KEYS}/{key_id}/rotate")
            assert page.status_int == 409
            assert text in page.text
            sent = browser.post(f"{KEYS}/{key_id}/rotate", {"grace": "1", "version": "x"})
            assert sent.status_int == 409
        assert stored(world) == before

    def test_of_two_operators_one_rotates(self, world, application, browser, alice_id):
        """The second form is 409, and makes no key."""
        other = signed_in(world, application, Role.OPERATOR, "ben")
        path = f"{KEYS}/{alice_id}/rotate"
        shown = other.get(path).html.find("input", {"name": "version"})
        fields = {"grace": "1", "version": shown["value"]}
        assert browser.post(path, fields).status_int == 200
        before = len(list_keys(world.engine))
        assert other.post(path, fields).status_int == 409
        assert len(list_keys(world.engine)) == before


class TestRevoke:
    def test_a_revoked_key_is_refused(self, world, browser, alice, alice_id):
        """It takes a confirmation, and counts from the next request on."""
        assert alice.get("/v1/account").status_int == 200
        response = browser.send(f"{KEYS}/{alice_id}/revoke")
        assert response.status_int == 303
        assert alice.get("/v1/account").status_int == 401
        page = browser.get(f"{KEYS}/{alice_id}?done=revoked")
        assert "The key is revoked" in page.text
        assert not page.html.select(".actions a")
        action = latest_action(world)
        assert (action.actor, action.via, action.action) == ("ann", "console", "keys.revoke")

    def test_a_form_of_an_earlier_state_changes_nothing(self, world, browser, alice_id):
        """Whoever has not seen that the key was rotated must look again."""
        path = f"{KEYS}/{alice_id}/revoke"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        rotate_key(world.engine, alice_id)
        before = stored(world)
        for sent in (version, "", "0" * 16, MARKUP):
            assert browser.post(path, {"version": sent}).status_int == 409
        assert stored(world) == before
        assert require_key(world.engine, alice_id).revoked_at is None

    def test_a_key_is_revoked_once(self, world, browser, alice_id):
        """A second form is 409; the key keeps the time when it was revoked."""
        path = f"{KEYS}/{alice_id}/revoke"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        revoked = revoke_key(world.engine, alice_id, actor=Actor("ben", "console"))
        assert browser.post(path, {"version": version}).status_int == 409
        assert require_key(world.engine, alice_id).revoked_at == revoked.revoked_at
        assert latest_action(world).actor == "ben"
