"""The pages of plans: list, detail with accounts, create, change and delete (D12, D81)."""

import pytest

from app.accounts.administration import (
    create_account,
    create_key,
    delete_plan,
    list_plans,
    require_account,
    require_plan,
    set_account_plan,
    set_plan,
)
from app.actions import list_actions
from app.console.plans import segment_of
from app.console.rendering import ROOT
from app.settings.roles import Role
from tests.api.console import signed_in, stored
from tests.api.test_console_accounts import MARKUP
from tests.conftest import ON_SQLITE, SHARED, engine_independent
from tests.rows import each_row

PLANS = f"{ROOT}/plans"
LIMITS = {"requests": "7", "window_seconds": "60", "bulk_max": "10", "domains_max": "0"}
LIMITS |= {"watches_max": "3"}
FIELDS = {**LIMITS, "enquiry": "off", "enquiry_reasons": "", "suggest": "off", "sandbox": "off"}
NO_TEXT = [None, "", " ", "x" * 101, "a\nb", "9" * 5000, MARKUP]
NO_NUMBERS = ["-1", "1.5", "x", "²"]
ODD_NAMES = ["new", "a/b", "..", ".", "50 % & more", "~", "Größe", "<b>", "x" * 30]


@pytest.fixture
def browser(world):
    """A browser of an operator."""
    return signed_in(world, world.client(None, console=True).application, Role.OPERATOR)


def values_of(plan):
    names = ("requests", "window_seconds", "bulk_max", "domains_max", "watches_max")
    return {name: str(getattr(plan, name)) for name in names}


def version_on(page):
    return page.html.find("input", {"name": "version"})["value"]


def make(world, name, **rules):
    limits = {member: int(value) for member, value in LIMITS.items()}
    return set_plan(world.engine, name, limits, **rules)


class TestList:
    def test_plans_have_their_accounts_counted(self, world, browser):
        """The list begins with the fewest requests, and counts the accounts on each plan."""
        set_account_plan(world.engine, "bob", "free")
        page = browser.get(PLANS)
        rows = {
            row.th.a.text: row.find("td", {"data-title": "Accounts"}).text
            for row in page.html.select("tbody tr")
        }
        assert list(rows) == [plan.name for plan in list_plans(world.engine)]
        assert rows == {"free": "1", "standard": "1", "enterprise": "0"}
        (default,) = [row for row in page.html.select("tbody th") if row.select(".badge")]
        assert default.a.text == "standard"

    @pytest.mark.parametrize("sort", ["name", "-name", "requests", "vehicles", "-domains", "x"])
    def test_it_can_be_sorted_by_url(self, browser, sort):
        """Each order shows all plans."""
        page = browser.get(f"{PLANS}?sort={sort}")
        names = [row.a.text for row in page.html.select("tbody th")]
        assert sorted(names) == ["enterprise", "free", "standard"]
        if sort.endswith("name"):
            assert names == sorted(names, reverse=sort.startswith("-"))


class TestDetail:
    def test_it_shows_limits_and_accounts(self, world, browser):
        """The accounts of the plan are a list with pages of its own."""
        for number in range(51):
            create_account(world.engine, f"x{number:02}", "free")
        page = browser.get(f"{PLANS}/free?sort=-name")
        assert "60 in 1 min" in page.text
        names = [row.a.text for row in page.html.select("tbody th")]
        assert (len(names), names[0]) == (50, "x50")
        assert page.html.select_one("a[rel=next]")["href"] == "?sort=-name&page=2"

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_every_name_has_a_page(self, world, browser, name):
        """The links of the list lead to the plan, whatever characters its name has."""
        make(world, name)
        (link,) = [a for a in browser.get(PLANS).html.select("tbody th a") if a.text == name]
        path = f"{PLANS}/{link['href'].rpartition('/')[2]}"
        assert browser.get(path).html.h1.text == f"Plan {name}"
        assert browser.send(f"{path}/change", {**FIELDS, "requests": "8"}).status_int == 303
        assert require_plan(world.engine, name).requests == 8
        assert browser.send(f"{path}/delete").status_int == 303
        assert name not in {plan.name for plan in list_plans(world.engine)}

    @SHARED
    @each_row("rest", ["", "/change", "/delete"])
    @each_row("segment", ["gold", "~zz", "~00", "~ff", "~", "%00", "%3Cscript%3E", "x" * 300])
    def test_a_plan_that_nobody_has_is_not_found(self, world, browser, segment, rest):
        """Any other path is 404, also for a form that is sent by hand."""
        before = stored(world)
        path = f"{PLANS}/{segment}{rest}"
        answers = [browser.get(path), *([browser.post(path, FIELDS)] if rest else [])]
        for page in answers:
            assert page.status_int == 404
            assert "There is no such" in page.text
            assert "<script>" not in page.text
        assert stored(world) == before


class TestCreate:
    def test_a_new_plan_is_shown(self, world, browser):
        """The form begins with the limits of the default plan, and leads to the new one."""
        form = browser.get(f"{PLANS}/new")
        standard = values_of(require_plan(world.engine, "standard"))
        assert form.html.find(id="field-requests")["value"] == standard["requests"]
        response = browser.post(f"{PLANS}/new", {"name": " trial ", **FIELDS})
        assert response.status_int == 303
        assert response.location.endswith("/plans/trial?done=created")
        assert values_of(require_plan(world.engine, "trial")) == LIMITS
        (action,) = list_actions(world.engine, limit=1)
        assert (action.actor, action.via, action.action) == ("ann", "console", "plans.set")
        assert "The plan was created" in browser.get(f"{PLANS}/trial?done=created").text

    def test_an_existing_plan_is_not_changed_by_mistake(self, world, browser):
        """A name that a plan has is refused, though the command would change that plan."""
        before = stored(world)
        response = browser.post(f"{PLANS}/new", {"name": "free", **FIELDS})
        assert response.status_int == 422
        assert "There is already a plan" in response.html.find(id="field-name-fault").text
        assert stored(world) == before

    @engine_independent
    @each_row(
        ("field", "value"),
        [
            *(("name", value) for value in NO_TEXT),
            *((field, value) for field in LIMITS for value in (*NO_TEXT, *NO_NUMBERS)),
            *(("enquiry", value) for value in (None, "", "on", MARKUP)),
            *(("suggest", value) for value in (None, "", "optional", MARKUP)),
            *(("sandbox", value) for value in (None, "", "true", MARKUP)),
            *(("enquiry_reasons", value) for value in ("x" * 3301, "a\nb", "THEFT")),
        ],
    )
    def test_a_wrong_field_is_named(self, world, browser, field, value):
        """The form comes back with a sentence at the field, and no plan is made."""
        fields = {"name": "trial", **FIELDS, field: value}
        before = stored(world)
        response = browser.post(f"{PLANS}/new", {k: v for k, v in fields.items() if v is not None})
        assert response.status_int == 422
        (wrong,) = response.html.select("[aria-invalid=true]")
        assert wrong["name"] == field
        assert response.html.find(id=f"field-{field}-fault").text
        assert not response.html.select("script:not([src]), [onerror]")
        assert stored(world) == before

    @engine_independent
    @each_row(
        ("field", "value"),
        [
            ("requests", "0"),
            ("requests", "1000000001"),
            ("window_seconds", "0"),
            ("window_seconds", "31622401"),
            ("bulk_max", "0"),
            ("bulk_max", "10001"),
            ("domains_max", "1000001"),
            ("watches_max", "1000001"),
        ],
    )
    def test_limits_have_the_ranges_of_the_command(self, browser, field, value):
        """What `plans set` refuses is refused here, in the words of the form."""
        response = browser.post(f"{PLANS}/new", {"name": "trial", **FIELDS, field: value})
        assert response.status_int == 422
        fault = response.html.find(id=f"field-{field}-fault").text
        assert "must be a whole number from" in fault
        assert "--" not in fault


class TestChange:
    def test_new_limits_count_from_the_next_request(self, world, browser, alice):
        """The form has the limits as they are, and the account sees the new ones."""
        form = browser.get(f"{PLANS}/standard/change")
        assert form.html.find(id="field-requests")["value"] == "600"
        assert "Changes count for 2 accounts" in form.text
        response = browser.send(f"{PLANS}/standard/change", FIELDS)
        assert response.status_int == 303
        assert alice.get("/v1/account").headers["X-RateLimit-Limit"] == "7"
        assert "The plan is changed" in browser.get(f"{PLANS}/standard?done=changed").text
        (action,) = list_actions(world.engine, limit=1)
        assert action.actor == "ann"
        assert action.before is not None
        assert action.before["requests"] == 600

    @ON_SQLITE
    def test_leading_zeros_do_not_make_a_number_wrong(self, browser):
        """The value of a number counts, not how many digits it is written with."""
        fields = {**FIELDS, "requests": "7".zfill(20)}
        assert browser.send(f"{PLANS}/standard/change", fields).status_int == 303
        form = browser.get(f"{PLANS}/standard/change").html
        assert form.find(id="field-requests")["value"] == "7"

    @engine_independent
    @each_row("field", LIMITS)
    @each_row("value", ["", "x", "-1", "9" * 5000, "1\n2", MARKUP])
    def test_a_wrong_field_changes_nothing(self, world, browser, field, value):
        """The form comes back with a sentence at the field."""
        before = stored(world)
        response = browser.send(f"{PLANS}/standard/change", {**FIELDS, field: value})
        assert response.status_int == 422
        (wrong,) = response.html.select("[aria-invalid=true]")
        assert wrong["name"] == field
        assert stored(world) == before

    def test_two_operators_do_not_undo_each_others_work(self, world, browser):
        """A form from before another change, or without its version, is 409."""
        path = f"{PLANS}/free/change"
        version = version_on(browser.get(path))
        make(world, "free")
        for sent in (version, "", MARKUP):
            response = browser.post(path, {**FIELDS, "requests": "9", "version": sent})
            assert response.status_int == 409
        assert require_plan(world.engine, "free").requests == 7

    def test_a_deleted_plan_is_not_created_again(self, world, browser):
        """The form of a plan that was deleted meanwhile is 404."""
        path = f"{PLANS}/free/change"
        version = version_on(browser.get(path))
        delete_plan(world.engine, "free")
        assert browser.post(path, {**FIELDS, "version": version}).status_int == 404
        assert "free" not in {plan.name for plan in list_plans(world.engine)}


def test_suggestions_are_switched_on_and_shown(world, browser):
    """The form, the page of the plan, the list and the page of an account show it (D175)."""
    path = f"{PLANS}/standard/change"
    assert browser.get(path).html.select_one("#field-suggest [selected]").text == "off"
    assert browser.send(path, {**FIELDS, "suggest": "on"}).status_int == 303
    assert require_plan(world.engine, "standard").suggest == "on"
    assert browser.get(path).html.select_one("#field-suggest [selected]").text == "on"
    tag = require_account(world.engine, "alice").tag
    for page in (f"{PLANS}/standard", f"{ROOT}/accounts/{tag}"):
        facts = browser.get(page).html.select(".facts div")
        (shown,) = [each.dd.text for each in facts if each.dt.text == "Suggestions"]
        assert shown.startswith("on")
    listed = browser.get(PLANS).html.select("td[data-title=Suggestions]")
    assert [cell.text for cell in listed] == ["on", "off", "off"]
    (action,) = list_actions(world.engine, limit=1)
    assert [each and each["suggest"] for each in (action.before, action.after)] == ["off", "on"]


class TestEnquiry:
    """What look-ups must say, with the rules and sentences of `plans set`."""

    def test_it_is_set_and_shown(self, world, browser):
        """The form, the page of the plan, the list and the page of an account show it."""
        asking = {"enquiry": "required", "enquiry_reasons": "THEFT, COLLISION"}
        assert browser.send(f"{PLANS}/standard/change", {**FIELDS, **asking}).status_int == 303
        plan = require_plan(world.engine, "standard")
        assert (plan.enquiry, plan.enquiry_reasons) == ("required", "THEFT,COLLISION")
        form = browser.get(f"{PLANS}/standard/change").html
        assert form.select_one("#field-enquiry [selected]").text == "required"
        assert form.find(id="field-enquiry_reasons")["value"] == "THEFT,COLLISION"
        tag = require_account(world.engine, "alice").tag
        for path in (f"{PLANS}/standard", f"{ROOT}/accounts/{tag}"):
            assert "required; accepts THEFT, COLLISION" in browser.get(path).text
        listed = browser.get(PLANS).html.select("td[data-title=Enquiry]")
        assert [cell.text for cell in listed] == ["required", "off", "off"]
        (action,) = list_actions(world.engine, limit=1)
        assert action.after is not None
        assert action.after["enquiry_reasons"] == ["THEFT", "COLLISION"]

    @ON_SQLITE  # The database decides nothing here.
    @each_row(
        ("reasons", "enquiry", "fault"),
        [
            ("THEFT", "off", "Accepted reasons need an enquiry that is optional or required."),
            ("A,,B", "required", "Each accepted reason must have 1 to 64 printable ASCII"),
            ("Jürgen", "optional", "got 'Jürgen'"),
            (MARKUP, "required", "Each accepted reason must have 1 to 64"),
            (",".join(f"R{number}" for number in range(51)), "required", "at most 50"),
        ],
    )
    @each_row("path", ["free/change", "new"])
    def test_wrong_reasons_change_nothing(self, world, browser, reasons, enquiry, fault, path):
        """The form comes back with the sentence of the command."""
        before = stored(world)
        fields = {**FIELDS, "enquiry": enquiry, "enquiry_reasons": reasons}
        if path == "new":
            fields["name"] = "trial"
        response = browser.send(f"{PLANS}/{path}", fields)
        assert response.status_int == 422
        told = response.html.find(id="field-enquiry_reasons-fault").text
        assert fault in told
        assert "--" not in told
        assert response.html.find(id="field-enquiry_reasons")["value"] == reasons
        assert stored(world) == before

    def test_a_plan_that_does_not_ask_any_more_keeps_its_reasons(self, world, browser):
        """They are there when it asks again, as with the command."""
        make(world, "trial", enquiry="required", reasons="THEFT")
        for enquiry in ("off", "optional"):
            fields = {**FIELDS, "enquiry": enquiry, "enquiry_reasons": "THEFT"}
            assert browser.send(f"{PLANS}/trial/change", fields).status_int == 303
            plan = require_plan(world.engine, "trial")
            assert (plan.enquiry, plan.enquiry_reasons) == (enquiry, "THEFT")

    def test_a_new_plan_does_not_ask(self, world, browser):
        """Whatever the default plan does, as with the command."""
        make(world, "standard", enquiry="required", reasons="THEFT")
        form = browser.get(f"{PLANS}/new").html
        assert not form.select("#field-enquiry [selected]")
        assert form.select_one("#field-enquiry option").text == "off"
        assert form.find(id="field-enquiry_reasons")["value"] == ""


class TestDelete:
    def test_an_unused_plan_is_deleted(self, world, browser):
        """It takes a confirmation, and leads to the list."""
        page = browser.get(f"{PLANS}/free")
        assert [a.text for a in page.html.select(".actions a")] == ["Change", "Delete"]
        assert browser.send(f"{PLANS}/free/delete").status_int == 303
        assert "The plan was deleted" in browser.get(f"{PLANS}?done=deleted").text
        (action,) = list_actions(world.engine, limit=1)
        assert (action.actor, action.action, action.subject) == ("ann", "plans.delete", "free")

    def test_a_plan_that_somebody_needs_stays(self, world, browser):
        """The default plan and a plan with accounts are 409; their pages offer no such button."""
        path = f"{PLANS}/free/delete"
        version = version_on(browser.get(path))
        set_account_plan(world.engine, "bob", "free")
        for response, text in (
            (browser.get(path), "One account is on it"),
            (browser.post(path, {"version": version}), "One account is on it"),
            (browser.get(f"{PLANS}/standard/delete"), "The default plan cannot be deleted"),
        ):
            assert response.status_int == 409
            assert text in response.text
        for name in ("free", "standard"):
            page = browser.get(f"{PLANS}/{name}")
            assert [a.text for a in page.html.select(".actions a")] == ["Change"]
        assert require_account(world.engine, "bob").plan_id == "free"

    def test_a_plan_that_was_changed_meanwhile_stays(self, world, browser):
        """Whoever has not seen the change must look again."""
        version = version_on(browser.get(f"{PLANS}/free/delete"))
        make(world, "free")
        assert browser.post(f"{PLANS}/free/delete", {"version": version}).status_int == 409
        assert require_plan(world.engine, "free").requests == 7


def test_usual_names_stay_readable_in_urls():
    """Only other names are encoded."""
    assert [segment_of(name) for name in ("standard", "Trial-2026", "new", "a b")] == [
        "standard",
        "Trial-2026",
        "~6e6577",
        "~612062",
    ]


class TestSandbox:
    """A plan is a sandbox from its creation, and keeps its accounts apart (D180)."""

    @pytest.fixture
    def tag(self, world, browser):
        """The tag of an account on a sandbox that the console has made."""
        fields = {"name": "trial", **FIELDS, "sandbox": "on"}
        assert browser.post(f"{PLANS}/new", fields).status_int == 303
        return create_account(world.engine, "tester", "trial").tag

    def test_it_is_made_and_shown(self, world, browser, tag):
        """The list, the plan, its account and a key say so."""
        assert require_plan(world.engine, "trial").is_sandbox
        assert [each.text for each in browser.get(PLANS).html.select(".badge")].count(
            "sandbox"
        ) == 1
        assert "invented answers" in browser.get(f"{PLANS}/trial").text
        key = create_key(world.engine, "tester")[0]
        account = browser.get(f"{ROOT}/accounts/{tag}")
        assert f"<code>vfd_test_{tag}</code>" in account.text
        assert account.html.find("td", {"data-title": "Last used"}).text == "not counted"
        assert f"<code>vfd_test_{tag}{key.id}</code>" in browser.get(f"{ROOT}/keys/{key.id}").text

    def test_a_new_key_has_its_prefix(self, browser, tag):
        """The page that shows it once has the whole key."""
        page = browser.send(f"{ROOT}/accounts/{tag}/keys/new", {"label": "", "expires": ""})
        assert f"vfd_test_{tag}" in page.text

    def test_a_change_keeps_it(self, world, browser, tag):
        """The form of a change has no such field, and ignores one that is sent."""
        assert browser.get(f"{PLANS}/trial/change").html.find(id="field-sandbox") is None
        assert browser.send(f"{PLANS}/trial/change", FIELDS).status_int == 303
        assert require_plan(world.engine, "trial").is_sandbox

    @pytest.mark.parametrize(("name", "plan"), [("tester", "standard"), ("alice", "trial")])
    def test_an_account_stays_on_its_side(self, world, browser, tag, name, plan):
        """Only plans of the same side can be chosen; any other is refused."""
        account = require_account(world.engine, name)
        path = f"{ROOT}/accounts/{account.tag}/plan"
        choices = [each.text for each in browser.get(path).html.select("option")]
        assert account.plan_id in choices
        assert plan not in choices
        assert browser.send(path, {"plan": plan}).status_int == 422
        assert require_account(world.engine, name).plan_id == account.plan_id
