"""A browser walks through every page and action of the console, behind the shipped nginx site."""

from datetime import timedelta

import pytest

from app import clock
from app.accounts.administration import create_account, require_account
from app.accounts.usage.store import CLASSES, UsageAccount, UsageDay, UsageHour, first_hour
from app.console.rendering import ROOT
from app.domains.repository import Domains
from app.people.sessions import create_link
from app.registers.generations import locked
from app.registers.history import History, json_text
from app.registers.reading.reader import Progress
from app.registers.rules import RULES
from app.settings.roles import Role
from tests.system.browsers import WIDTHS, Visitor, chromium
from tests.system.client_tools import axe_script
from tests.system.site import behind_site
from tests.unit.held import HEADER, begun, held_load, loaded, vehicles
from tests.unit.held_watches import hold

pytestmark = pytest.mark.system_long

# Both schemes, with JavaScript and without.
EVERY_WAY = pytest.mark.parametrize(
    ("scheme", "has_javascript"),
    [("light", True), ("dark", False), ("light", False), ("dark", True)],
)
VISITED = {
    ROOT,
    f"{ROOT}/registers",
    f"{ROOT}/registers/{{name}}",
    f"{ROOT}/registers/{{name}}/rollback/{{load_id}}",
    f"{ROOT}/registers/{{name}}/accept/{{load_id}}",
    f"{ROOT}/registers/{{name}}/reject/{{load_id}}",
    f"{ROOT}/registers/{{name}}/drop",
    f"{ROOT}/registers/{{name}}/undrop",
    f"{ROOT}/registers/{{name}}/purge",
    f"{ROOT}/tasks/{{task_id}}",
    f"{ROOT}/loads",
    f"{ROOT}/loads/{{load_id}}",
    f"{ROOT}/loads/{{load_id}}/changed",
    f"{ROOT}/loads/changed/{{audit_task}}",
    f"{ROOT}/loads/changed/{{audit_task}}/{{file}}",
    f"{ROOT}/accounts",
    f"{ROOT}/accounts/new",
    f"{ROOT}/accounts/{{tag}}",
    f"{ROOT}/accounts/{{tag}}/suspend",
    f"{ROOT}/accounts/{{tag}}/resume",
    f"{ROOT}/accounts/{{tag}}/plan",
    f"{ROOT}/accounts/{{tag}}/reset",
    f"{ROOT}/accounts/{{tag}}/delete",
    f"{ROOT}/accounts/{{tag}}/keys/new",
    f"{ROOT}/keys",
    f"{ROOT}/keys/find",
    f"{ROOT}/keys/{{key_id}}",
    f"{ROOT}/keys/{{key_id}}/rotate",
    f"{ROOT}/keys/{{key_id}}/revoke",
    f"{ROOT}/plans",
    f"{ROOT}/plans/new",
    f"{ROOT}/plans/{{plan}}",
    f"{ROOT}/plans/{{plan}}/change",
    f"{ROOT}/plans/{{plan}}/delete",
    f"{ROOT}/domains",
    f"{ROOT}/domains/{{domain_id}}",
    f"{ROOT}/domains/{{domain_id}}/suspend",
    f"{ROOT}/domains/{{domain_id}}/activate",
    f"{ROOT}/look-up",
    f"{ROOT}/watches",
    f"{ROOT}/watches/{{tag}}",
    f"{ROOT}/watches/{{tag}}/events",
    f"{ROOT}/watches/{{tag}}/accept",
    f"{ROOT}/watches/files/{{audit_task}}",
    f"{ROOT}/watches/files/{{audit_task}}/{{file}}",
    f"{ROOT}/usage",
    f"{ROOT}/audit",
    f"{ROOT}/audit/export",
    f"{ROOT}/audit/plate",
    f"{ROOT}/audit/report",
    f"{ROOT}/audit/verify",
    f"{ROOT}/audit/tasks/{{audit_task}}",
    f"{ROOT}/audit/tasks/{{audit_task}}/{{file}}",
    f"{ROOT}/people",
    f"{ROOT}/people/{{session_id}}/end",
    f"{ROOT}/actions",
    f"{ROOT}/sign-out",
    f"{ROOT}/sign-out/everywhere",
    f"{ROOT}/sign-in/{{token}}",
    f"{ROOT}/sign-in/proxy",  # In test_directory_browser.py.
    f"{ROOT}/assets/{{asset}}",
}
"""The pages that the walk opens. Add yours when you have added them to the walk."""


_LABELS = """[...document.querySelectorAll("svg.chart")]
    .filter((each) => each.checkVisibility())
    .map((each) => parseFloat(getComputedStyle(each.querySelector(".label")).fontSize)
        * each.getBoundingClientRect().width / each.viewBox.baseVal.width)"""
"""The sizes of the labels on the screen, for each chart that is shown."""


@pytest.fixture(scope="module")
def browser():
    """The browser of all walks."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def site(world, serve):
    """The address of the console: a service behind the shipped nginx site."""
    world.load([{"registration": "AB12CDE", "make": "Ford", "model": "Focus"}], register="native")
    for number in range(60):
        create_account(world.engine, f"customer {number:02}")
    use(world, "customer 03", 4_000)
    use(world, "customer 04", 90)
    served = serve(console="on", audit="on", trusted_proxies="127.0.0.1")
    with behind_site(served.bind, world.directory) as bind:
        yield f"https://{bind.removeprefix('tls:')}"


@pytest.fixture
def visit(world, site, browser):
    """`visit(scheme, has_javascript)` returns a browser window that is not signed in."""
    contexts = []

    def open_window(scheme, has_javascript, *, is_tested=True):
        context = browser.new_context(
            color_scheme=scheme, java_script_enabled=has_javascript, ignore_https_errors=True
        )
        contexts.append(context)
        context.set_default_timeout(20_000)
        return Visitor(
            context.new_page(), site, axe_script() if has_javascript and is_tested else None
        )

    yield open_window
    for context in contexts:
        context.close()


def use(world, account, answers, *, ago=0):
    """Let an account have answers of all classes in this hour, or some hours and days ago."""
    number = require_account(world.engine, account).id
    UsageAccount.insert(id=number, name=account).on_conflict_ignore().execute(world.engine)
    day = clock.today(world.config.timezone) - timedelta(ago)
    for place, status in enumerate(CLASSES):
        row = {"account_id": number, "key_id": f"key{number:05}", "operation": "compliance"}
        row |= {"status": status, "answers": answers // 4**place, "vehicles": answers}
        UsageHour.insert(**row, hour=first_hour(1 + ago)).execute(world.engine)
        UsageDay.insert(**row, day=day).execute(world.engine)


def sign_in(world, visitor, role):
    """Follow a new link, and press its button."""
    visitor.open(f"{ROOT}/sign-in/{create_link(world.engine, 'Ann Marlowe', role)}")
    visitor.click("Sign in", "button")


@EVERY_WAY
def test_a_person_can_walk_through_every_page(world, visit, scheme, has_javascript):
    """Every page and action works, is accessible, fits its screen, and breaks no policy."""
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    visitor.open(ROOT, 401)
    visitor.open(f"{ROOT}/sign-in/{'x' * 43}", 401)
    sign_in(world, visitor, Role.OPERATOR)
    assert page.title() == "Overview · verifyd"

    visitor.click("Accounts")
    visitor.click("Plan")
    visitor.click("Next")
    page.get_by_label("Name").fill("customer 05")
    visitor.click("Show", "button")
    visitor.click("customer 05")
    visitor.click("Suspend")
    visitor.click("Suspend the account", "button")
    assert page.get_by_text("The account is suspended.").is_visible()
    visitor.click("Resume")
    visitor.click("Cancel")
    visitor.click("Resume")
    visitor.click("Resume the account", "button")
    assert page.get_by_text("The account is active again.").is_visible()

    visitor.open(f"{ROOT}/accounts?q=nobody")
    visitor.click("Show all")
    visitor.click("New account")
    page.get_by_label("Name").fill("customer 05")
    visitor.click("Create the account", "button")
    assert page.get_by_text("There is already an account").first.is_visible()
    page.get_by_label("Name").fill('<img src="x">')
    visitor.click("Create the account", "button")
    assert page.get_by_role("heading", level=1).inner_text() == '<img src="x">'

    other = create_link(world.engine, "Ben", Role.VIEWER)
    guest = visit(scheme, has_javascript)
    guest.open(f"{ROOT}/sign-in/{other}")
    guest.click("Sign in", "button")
    visitor.click("People")
    visitor.click("End the session of Ben")
    visitor.click("End the session", "button")
    assert page.get_by_text("The session has ended.").is_visible()
    guest.open(f"{ROOT}/accounts", 401)
    visitor.click("Actions")
    page.locator("select[name=action]").select_option("console.end")
    visitor.click("Show", "button")
    page.locator("td summary").first.click()
    visitor.check()
    assert page.locator("li", has_text="sessions 1").is_visible()
    visitor.click("Show all")
    visitor.click("customer 05")
    visitor.click("What operators changed on this account")
    page.get_by_label("Who").fill("nobody")
    visitor.click("Show", "button")
    visitor.click("Show all")
    visitor.click("Subject")
    visitor.click("Next")
    visitor.open(f"{ROOT}/nothing", 404)
    visitor.click("Go to the overview")
    visitor.click("Sign out", "button")
    visitor.open(ROOT, 401)
    sign_in(world, visitor, Role.VIEWER)
    visitor.click("People")
    visitor.click("Sign out everywhere")
    visitor.click("Sign out everywhere", "button")
    visitor.open(ROOT, 401)


@pytest.mark.parametrize(("scheme", "has_javascript"), [("light", True), ("dark", False)])
def test_a_held_load_is_accepted(world, visit, scheme, has_javascript):
    """The overview leads to the load, its rules and the question."""
    held_load(world)
    visitor = visit(scheme, has_javascript)
    sign_in(world, visitor, Role.OPERATOR)
    visitor.click("See load 3 and what to do")
    assert visitor.page.get_by_text("It was refused, and waits for a decision.").is_visible()
    visitor.click("Reject")
    visitor.click("Cancel")
    visitor.open(f"{ROOT}/loads/3")
    visitor.click("Accept")
    visitor.click("Cancel")
    visitor.open(f"{ROOT}/loads/3")
    visitor.click("Accept")
    task(visitor, "Accept and load it")
    visitor.click("Go to the register")


@EVERY_WAY
def test_a_person_can_undo_what_was_loaded(world, visit, scheme, has_javascript):
    """A rollback, a drop, its return and a purge work by clicks, and each page shows its state."""
    content = f"{HEADER}AB10CDE,FORD\n" + "?,SEAT\n" * 30
    for make in ("FORD", "SEAT"):
        loaded(world, vehicles(make), register="fleet")
    loaded(world, content, register="fleet", mode="merge")
    loaded(world, vehicles("KIA"), register="fleet")
    begun(world.engine, "mistyped")
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.OPERATOR)

    visitor.click("Loads")
    page.get_by_label("Status").select_option("interrupted")
    visitor.click("Show", "button")
    visitor.click("6")
    assert page.get_by_text("Its process was killed.").is_visible()
    visitor.open(f"{ROOT}/loads?status=running")
    visitor.click("Show all")
    visitor.click("Rejected")
    visitor.click("4")
    history = History(world.engine, "mistyped")
    history.note_progress(6, json_text(Progress("fleet.csv", 1, 3, 1_234)))
    with locked(world.engine, "mistyped"):
        visitor.open(f"{ROOT}/loads/6")
        assert page.get_by_text("1,234 rows so far").is_visible()
        visitor.click("Stop that")
        visitor.open(f"{ROOT}/registers/mistyped")

    visitor.click("Registers")
    visitor.click("Look at mistyped")
    visitor.click("End the warning")
    task(visitor, "End the warning")
    visitor.click("Registers")
    visitor.click("fleet")
    visitor.click("Roll back to load 4")
    task(visitor, "Roll the register back")
    visitor.click("Go to the register")
    visitor.click("Drop the register")
    visitor.click("Cancel")
    visitor.click("Drop the register")
    task(visitor, "Drop the register")
    visitor.click("Go to the register")
    visitor.click("Bring back")
    task(visitor, "Bring the register back")
    visitor.click("Go to the register")
    visitor.click("Drop the register")
    task(visitor, "Drop the register")
    visitor.click("Registers")
    visitor.click("fleet")
    visitor.click("Remove for good")
    task(visitor, "Remove the register for good")
    visitor.open(f"{ROOT}/registers/fleet/drop", 409)
    visitor.click("Show it as it is now")


def task(visitor, button):
    """Press the button of a question, and wait until its page says that it is done."""
    visitor.click(button, "button")
    visitor.page.get_by_text("Done", exact=True).wait_for()
    visitor.check()


@EVERY_WAY
def test_an_operator_sees_what_a_load_changed(world, visit, scheme, has_javascript):
    """A disaster is marked in the list, and leads to its counts, its plates and their file."""
    for makes in (30, 12):
        loaded(world, vehicles(*["KIA"] * makes), register="fleet", accept=list(RULES))
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.OPERATOR)
    visitor.click("Loads")
    assert page.locator("td", has_text="-18").is_visible()
    visitor.click("3")
    page.get_by_text("Members").click()
    visitor.check()
    visitor.click("List the plates with other answers")
    page.get_by_label("Reason").fill("REVIEW")
    visitor.click("List the plates", "button")
    page.get_by_text("18 plates have other answers").wait_for()
    visitor.check()
    with page.expect_download() as started:
        page.get_by_text("Download as CSV").click()
    assert started.value.suggested_filename.startswith("audit-diff-")


@EVERY_WAY
def test_a_person_can_do_the_daily_work(world, visit, scheme, has_javascript):
    """Plans, an account with its keys, domains and look-ups: each page and action, as above."""
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.OPERATOR)

    visitor.click("Plans")
    visitor.click("New plan")
    visitor.click("Create the plan", "button")
    assert page.get_by_text("Name is needed.").first.is_visible()
    page.get_by_label("Name").fill("trial/1")
    visitor.click("Create the plan", "button")
    visitor.click("Change")
    page.get_by_label("Requests").fill("9")
    visitor.click("Change the plan", "button")
    assert page.get_by_text("The plan is changed.").is_visible()
    visitor.click("Change")
    page.get_by_label("Accepted reasons").fill("THEFT")
    visitor.click("Change the plan", "button")
    assert page.get_by_text("need an enquiry that is optional").first.is_visible()
    page.get_by_label("Enquiry").select_option("required")
    visitor.click("Change the plan", "button")
    visitor.click("What operators changed on this plan")
    page.locator("summary", has_text="enquiry").first.click()
    assert page.locator("li", has_text="now required").is_visible()

    visitor.click("Accounts")
    visitor.click("customer 01")
    visitor.click("Change the plan")
    page.get_by_label("Plan", exact=True).select_option("trial/1")
    visitor.click("Change the plan", "button")
    visitor.click("Give back all requests")
    visitor.click("Give all requests back", "button")
    assert page.get_by_text("9 left now").is_visible()
    visitor.click("New key")
    page.get_by_label("Label").fill("billing")
    page.get_by_label("Last day").fill("2099-12-31")
    visitor.click("Create the key", "button")
    key = page.locator("#key").inner_text()
    assert page.get_by_role("button", name="Copy").is_visible() == has_javascript
    visitor.click("I have saved it")
    visitor.click("Rotate")
    visitor.click("Rotate the key", "button")
    assert page.locator("#key").inner_text() != key
    visitor.click("Keys")
    visitor.click("Find a key")
    page.get_by_label("Key, or its id").fill(key)
    visitor.click("Find the key", "button")
    visitor.click("Revoke")
    visitor.click("Revoke the key", "button")
    assert page.get_by_text("The key is revoked.").is_visible()

    number = require_account(world.engine, "customer 02").id
    Domains(world.engine).create_domain(number, f"{scheme}{has_javascript}.example", 9)
    visitor.click("Domains")
    visitor.click(f"{scheme}{has_javascript}.example")
    visitor.click("Suspend")
    visitor.click("Suspend the domain", "button")
    visitor.click("Activate")
    visitor.click("Activate the domain", "button")

    visitor.click("Accounts")
    visitor.click("customer 01")
    visitor.click("Delete")
    page.get_by_label("Name of the account").fill("customer 01")
    visitor.click("Delete the account", "button")
    visitor.click("Plans")
    visitor.click("trial/1")
    visitor.click("Delete")
    visitor.click("Delete the plan", "button")
    assert page.get_by_text("The plan was deleted.").is_visible()


@EVERY_WAY
def test_a_viewer_can_look_plates_up(world, visit, scheme, has_javascript):
    """One plate is explained, a list is a table or a file, and the form can be sent again."""
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.VIEWER)
    visitor.click("Look up")
    plates = page.get_by_label("Plates")
    plates.fill("ab12 cde")
    visitor.click("Look up", "button")
    assert page.get_by_text("no register knows a policy", exact=True).is_visible()
    plates.fill("AB12CDE\nZZ99ZZZ\n!!\n" * 4)
    visitor.click("Look up", "button")
    assert page.locator("p", has_text="12 plates: 4 found").is_visible()
    for _ in range(2):
        with page.expect_download() as started:
            page.get_by_role("button", name="Download as CSV").click()
        assert started.value.suggested_filename.startswith("look-up-20")
    visitor.click("Change this list", "button")
    assert plates.input_value().split() == ["AB12CDE", "ZZ99ZZZ", "!!"] * 4
    visitor.click("Clear")
    assert plates.input_value() == ""
    assert "AB12CDE" not in page.url


@EVERY_WAY
def test_a_clerk_can_ask_about_days(world, visit, scheme, has_javascript):
    """Legal from Friday to Monday, what lapses in 30 days, which policies covered a day."""
    papers = {"make": "Seat", "motExempt": True, "taxStatus": "taxed", "insured": True}
    world.load(
        [
            {"registration": "GAP1", **papers},
            *(
                {"registration": f"T{n}", **papers, "taxDue": f"2026-12-{n:02}"}
                for n in range(1, 14)
            ),
        ]
    )
    policy = {"registration": "GAP1", "insurer": "Larkmere", "type": "comprehensive"}
    world.load(
        [
            policy | {"number": "P-1", "validFrom": "2025-12-06", "validTo": "2026-12-05"},
            policy | {"number": "P-2", "validFrom": "2026-12-07", "validTo": "2027-12-06"},
            policy | {"number": "P-3", "validFrom": "2026-01-01", "validTo": "2026-06-30"},
        ]
    )
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.VIEWER)
    visitor.click("Look up")

    def ask(plates, **days):
        page.get_by_label("Plates").fill(plates)
        if not page.locator("#field-from").is_visible():
            page.get_by_text("Day or period").click()
        for name in ("Day", "From", "To"):
            page.locator(f"#field-{name.lower()}").fill(days.get(name, ""))
        visitor.click("Look up", "button")

    def verdicts():
        return page.locator(".verdicts p").all_inner_texts()

    ask("GAP1", From="2026-12-04", To="2026-12-07")
    insured, compliant = (" ".join(each.split()) for each in verdicts())
    # The days of the registers follow.
    assert insured.startswith(
        "Not insured from Sunday, 6 December 2026 policy P-2 begins on 7 December 2026"
    )
    assert compliant.startswith("Not compliant from Sunday, 6 December 2026 not insured")
    ask("GAP1", From="2026-12-07", To="2026-12-10")
    assert verdicts()[0].split()[:4] == ["Insured", "on", "every", "day"]

    ask("AB12CDE,GAP1," + ",".join(f"T{n}" for n in range(13, 0, -1)), Day="2026-12-01")
    rows = page.locator("tbody tr").all_inner_texts()
    assert [" ".join(row.split()[:7]) for row in rows[:3]] == [
        "AB12CDE nothing is left to lapse not",
        "T1 road tax until 1 December 2026",
        "T2 road tax until 2 December 2026",
    ]
    assert page.locator("p", has_text="Lapsing within 30 days: 14.").is_visible()

    ask("GAP1", Day="2026-02-03")
    for number in ("P-1", "P-3"):
        assert page.locator("dd", has_text=f"{number} of Larkmere, comprehensive").is_visible()
    assert page.get_by_text("2 policies").is_visible()
    ask("GAP1", Day="2026-02-03", From="2026-12-04")
    assert page.get_by_text("From is not allowed without To.").first.is_visible()


@EVERY_WAY
def test_a_viewer_can_see_what_was_used(world, visit, scheme, has_javascript):
    """Charts, numbers, tables by everything, and a file; an account's page leads there, too."""
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.VIEWER)
    page.get_by_text("Numbers of each hour").click()
    visitor.check()
    visitor.click("Usage")
    page.get_by_text("Numbers of each day").click()
    visitor.check()
    visitor.click("Vehicles")
    visitor.click("customer 03")
    assert page.get_by_role("heading", name="Usage of customer 03").is_visible()
    for by in ("key", "operation", "account"):
        page.locator("select[name=by]").select_option(by)
        visitor.click("Show", "button")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download as CSV").click()
    assert started.value.suggested_filename.startswith("usage-20")
    visitor.click("Previous month")
    assert page.get_by_text("Choose other days").is_visible()
    visitor.open(f"{ROOT}/usage?by=day&account=customer+03")
    visitor.click(str(clock.today(world.config.timezone)))
    visitor.click(page.locator("tbody th a").inner_text())
    assert page.get_by_text("This key was deleted with its account.").is_visible()
    visitor.open(f"{ROOT}/usage?month=2026-13", 422)
    visitor.click("Accounts")
    visitor.click("customer 04")
    visitor.click("This month of this account")
    assert page.get_by_role("heading", name="Usage of customer 04").is_visible()


@EVERY_WAY
def test_an_operator_sees_watches_and_accepts_what_is_held_back(
    world, visit, scheme, has_javascript
):
    """From the account's page to the lists and a file; the accepted changes are then events."""
    hold(world)
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.OPERATOR)
    visitor.click("Watches")
    visitor.click("Accept the changes of alice")
    visitor.click("Cancel")
    visitor.click("Watches")
    visitor.click("Accept the changes of alice")
    page.get_by_role("button", name="Accept and report").click()
    page.get_by_role("row", name="alice 60 60").wait_for()
    visitor.check()
    visitor.click("alice")
    visitor.click("Next")
    visitor.click("Events")
    assert page.get_by_text("60 events").is_visible()
    asked(visitor, "Download all as CSV", "60 events")
    downloaded(page, "CSV")


@EVERY_WAY
def test_an_auditor_can_ask_the_trail(world, visit, scheme, has_javascript):
    """A search, an export, a report and a verification: each form, its result and its file."""
    visitor = visit(scheme, has_javascript)
    page = visitor.page
    sign_in(world, visitor, Role.AUDITOR)
    visitor.click("Look up")
    page.get_by_label("Plates").fill("AB12CDE")
    page.get_by_label("Reason").fill("THEFT")
    visitor.click("Look up", "button")
    assert page.get_by_label("Reason").input_value() == "THEFT"

    visitor.click("Audit")
    visitor.click("Search", "button")
    assert page.get_by_text("Plate, account or user is needed.").first.is_visible()
    page.get_by_label("Plate, account or user").fill("ab12 cde")
    asked(visitor, "Search", "1 record")
    assert page.get_by_role("cell", name="THEFT").is_visible()
    downloaded(page, "CSV")
    assert "AB12CDE" not in page.url + page.title()
    visitor.click("New search")
    visitor.click("Export")
    page.get_by_label("Format").select_option("ndjson")
    asked(visitor, "Export", "2 records exported")
    downloaded(page, "NDJSON")
    visitor.click("Audit")
    visitor.click("Report")
    asked(visitor, "Make the report", "The trail verifies")
    downloaded(page, "one page")
    visitor.click("Audit")
    visitor.click("Report about a plate")
    page.get_by_label("Plate").fill("AB12CDE")
    asked(visitor, "Make the report", "No account watches this plate")
    downloaded(page, "one page")
    visitor.click("Audit")
    visitor.click("Verify")
    page.get_by_label("Digest").fill("1" * 64)
    asked(visitor, "Verify", "The trail does not verify")
    visitor.click("Audit")
    visitor.click("Search 1")


def asked(visitor, button, result):
    """Press the button of a form, wait until its page shows the result, and check that.

    Before that, the page loads itself again each second, which would end a check.
    """
    visitor.page.get_by_role("button", name=button, exact=True).click()
    visitor.page.get_by_text(result, exact=True).first.wait_for()
    visitor.check()


def downloaded(page, name):
    """Download the file of a task."""
    with page.expect_download() as started:
        page.get_by_role("link", name=f"Download as {name}").click()
    assert started.value.path().stat().st_size > 0


@pytest.mark.parametrize("role", Role)
def test_every_page_of_the_navigation_opens_for_its_role(world, visit, role):
    """Each role can click through its navigation."""
    visitor = visit("light", True, is_tested=False)
    sign_in(world, visitor, role)
    titles = visitor.page.locator("header nav a").all_inner_texts()
    for title in titles:
        visitor.click(title)


@pytest.mark.parametrize("has_javascript", [True, False])
def test_a_phone_has_a_menu(world, visit, has_javascript):
    """It is folded, names the current page, and opens and leads on without JavaScript, too."""
    visitor = visit("light", has_javascript, is_tested=False)
    page = visitor.page
    sign_in(world, visitor, Role.OPERATOR)
    page.set_viewport_size({"width": 375, "height": 800})
    link = page.get_by_role("link", name="People", exact=True)
    assert not link.is_visible()
    page.get_by_text("Menu: Overview").click()
    with page.expect_navigation():
        link.click()
    assert page.get_by_role("heading", level=1).inner_text() == "People"
    assert page.get_by_text("Menu: People").is_visible()
    assert not page.get_by_role("link", name="Overview", exact=True).is_visible()


def test_signing_out_comes_last_for_the_keyboard(world, visit):
    """After everything on the page, on wide and narrow screens."""
    visitor = visit("light", True, is_tested=False)
    sign_in(world, visitor, Role.OPERATOR)
    for width in WIDTHS:
        visitor.page.set_viewport_size({"width": width, "height": 800})
        visitor.page.reload()
        reached: list[str] = []
        while not reached or reached[-1]:
            visitor.page.keyboard.press("Tab")
            focused = "document.activeElement"
            is_some = visitor.page.evaluate(f"{focused} !== document.body")
            reached.append(visitor.page.evaluate(f"{focused}.textContent") if is_some else "")
        assert reached[0] == "Skip to the content"
        assert reached[-2] == "Sign out"


@pytest.mark.parametrize("width", [768, 1280])
def test_each_action_has_one_line(world, visit, width):
    """However long its names are; they can be read in full with the details."""
    name = "northern-vehicle-hire-and-leasing"
    create_account(world.engine, name, "standard")
    visitor = visit("light", True, is_tested=False)
    sign_in(world, visitor, Role.OPERATOR)
    visitor.open(f"{ROOT}/actions")
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 800})
    rows, row = page.locator("tbody tr"), page.locator("tbody tr", has_text=name).first
    assert len({round(each.bounding_box()["height"]) for each in rows.all()}) == 1
    row.locator("summary").click()
    cell = row.locator("td", has_text=name).first
    assert cell.evaluate("(each) => each.scrollWidth <= each.clientWidth")


def test_a_person_with_a_long_name_can_read_their_role(world, visit):
    """On each screen, also where the pages scroll below it because there is little height."""
    visitor = visit("light", True, is_tested=False)
    page = visitor.page
    name = "Ann Marlowe-Featherstonehaugh of the Northern Region"
    visitor.open(f"{ROOT}/sign-in/{create_link(world.engine, name, Role.OPERATOR)}")
    visitor.click("Sign in", "button")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 400})
        person, role = (page.locator(each).bounding_box() for each in (".person", ".role"))
        assert role["y"] + role["height"] <= person["y"] + person["height"] + 1
    back = page.locator(".who").evaluate("(each) => getComputedStyle(each).backgroundColor")
    assert back == "rgb(255, 255, 255)"


def test_labels_of_charts_can_be_read(world, visit):
    """On each screen their letters are at least 11 pixels high."""
    use(world, "customer 03", 40, ago=1)  # One hour or day alone is a sentence.
    visitor = visit("light", True, is_tested=False)
    sign_in(world, visitor, Role.OPERATOR)
    today = clock.today(world.config.timezone)
    days = f"from={today - timedelta(1)}&to={today}"  # Yesterday may be in another month.
    for path in (ROOT, f"{ROOT}/usage?{days}"):
        visitor.open(path)
        for width in WIDTHS:
            visitor.page.set_viewport_size({"width": width, "height": 800})
            sizes = visitor.page.evaluate(_LABELS)
            assert sizes
            assert min(sizes) >= 11, (path, width)


def test_the_cookie_is_one_that_browsers_guard(world, visit):
    """Behind TLS the browser keeps it as a host's own, from scripts and from other sites."""
    visitor = visit("light", True, is_tested=False)
    sign_in(world, visitor, Role.VIEWER)
    (cookie,) = visitor.page.context.cookies()
    assert cookie["name"] == "__Host-verifyd-console"
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
    assert visitor.page.evaluate("document.cookie") == ""


@pytest.mark.sample
def test_another_site_can_neither_send_forms_nor_frame_pages(world, visit, site):
    """A page of another origin gets no frame, and its form is refused."""
    visitor = visit("light", True, is_tested=False)
    page = visitor.page
    sign_in(world, visitor, Role.OPERATOR)
    page.route(
        "https://evil.example/",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f'<form method="post" action="{site}{ROOT}/accounts/new">'
            '<input name="name" value="evil"><input name="plan" value="standard">'
            f'<button>Go</button></form><iframe src="{site}{ROOT}"></iframe>',
        ),
    )
    with page.expect_console_message(lambda message: "frame-ancestors 'none'" in message.text):
        page.goto("https://evil.example/")
    with page.expect_navigation() as led:
        page.get_by_role("button", name="Go").click()
    assert led.value.status == 403
    assert "not sent from the console" in page.content()
