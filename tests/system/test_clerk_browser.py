"""A clerk's day in a real browser: the keyboard only, on a desktop and a phone, in both schemes."""

from typing import Any

import pytest

from app.console.rendering import ROOT
from app.people.sessions import create_link
from app.settings.roles import Role
from app.storage.versions import set_tells_unknown
from tests.system.browsers import Visitor, chromium
from tests.system.client_tools import axe_script
from tests.system.processes import until

pytestmark = pytest.mark.system_long

# Of a phone, the upper part: the keyboard covers the lower one.
DEVICES = pytest.mark.parametrize(
    ("width", "height", "visible"),
    [(1280, 720, 720), (390, 844, 844 - 336)],
    ids="desktop phone".split(),
)
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
PLATES = [f"AB{number:02}CDE" for number in range(50)]
TABLE = "Fleet\tRegistration\tDriver\nF-1\tAB01CDE\tAnn\nF-2\tAB02CDE\tBob\n"
ADVICE = "Call the claims desk."
VERDICT_PIXELS = 48
IS_FOCUSED = "(element) => element === document.activeElement"
BORDER = "(element) => getComputedStyle(element).borderTopStyle"


@pytest.fixture(scope="module")
def browser():
    """The browser of all clerks."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def clerk(world, serve, browser):
    """`clerk(scheme, width, height)` returns the window of a clerk who is signed in."""
    papers = {"motExempt": True, "taxStatus": "taxed", "make": "Ford", "model": "Focus"}
    world.load([{"registration": each, "insured": True, **papers} for each in PLATES[:40]])
    world.load([{"registration": each, "insured": False, **papers} for each in PLATES[40:]])
    served = serve(console="on", audit="on", lookup_advice=ADVICE)
    contexts = []

    def signed_in(scheme, width, height, *, has_javascript=True):
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            java_script_enabled=has_javascript,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        context.set_default_timeout(20_000)
        axe = axe_script() if has_javascript else None
        visitor = Visitor(context.new_page(), f"http://{served.bind}", axe)
        visitor.open(f"{ROOT}/sign-in/{create_link(world.engine, 'Ann Marlowe', Role.CLERK)}")
        visitor.click("Sign in", "button")
        visitor.page.set_viewport_size({"width": width, "height": height})
        return visitor

    yield signed_in
    for context in contexts:
        context.close()


def answered(page):
    """Return the plates of a short list, in the order of the page; their answers are folded."""
    return page.locator(".overview > tbody > tr > th").all_inner_texts()


def enter(page, key="Enter"):
    """Press a key that sends the form."""
    with page.expect_navigation():
        page.keyboard.press(key)


def checked(visitor):
    """Check the page on all widths, and return to that of the device."""
    size = visitor.page.viewport_size
    visitor.check()
    visitor.page.set_viewport_size(size)


@DEVICES
@SCHEMES
def test_fifty_plates_need_one_key_each(clerk, scheme, width, height, visible):
    """Beyond typing; each verdict is large, and seen without scrolling."""
    page = clerk(scheme, width, height).page
    for plate in PLATES:
        page.keyboard.type(plate)
        enter(page)
        assert page.locator("h3").inner_text() == plate
        verdict = page.locator(".verdicts strong").first
        assert verdict.inner_text() == ("Insured" if plate in PLATES[:40] else "Not insured")
        box = verdict.bounding_box()
        assert box["height"] >= VERDICT_PIXELS
        assert box["y"] > 0
        assert box["y"] + box["height"] <= visible
        assert page.evaluate("scrollY") == 0


def enter_held(page):
    """Press Enter, and hold the answer; `()` of what is returned lets it come."""
    held: list[Any] = []

    def hold_first(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/console/look-up", hold_first)
    page.keyboard.press("Enter")
    # Only while it waits for something does Playwright call `hold_first`.
    until(lambda: page.wait_for_timeout(1) or held, "the request")
    return held[0].continue_


def test_nothing_that_is_typed_ahead_is_lost(clerk):
    """What is typed before an answer comes is in the field of its page, as one plate per line."""
    page = clerk("light", 1280, 720).page
    page.keyboard.type("AB01CDE")
    with page.expect_navigation():
        let_come = enter_held(page)
        page.keyboard.type("AB02CDE")
        page.keyboard.press("Enter")
        page.keyboard.type("AB03")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # The first one is still on its way: it does nothing.
        let_come()
    assert page.locator("h3").inner_text() == "AB01CDE"
    assert page.get_by_label("Plates").input_value() == "AB02CDE\nAB03"
    page.keyboard.type("CDE")
    enter(page)
    assert answered(page) == ["AB02CDE", "AB03CDE"]


def test_escape_ends_a_look_up_that_is_on_its_way(clerk):
    """After it, Enter looks up what was typed since."""
    page = clerk("light", 1280, 720).page
    page.keyboard.type("AB01CDE")
    enter_held(page)
    page.keyboard.press("Escape")
    page.keyboard.type("AB02CDE")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="AB02CDE").wait_for()


@DEVICES
@SCHEMES
def test_a_clerk_needs_no_mouse(clerk, scheme, width, height, visible):
    """A list, a reference, a table, the receipt, a misreading, and signing out."""
    visitor = clerk(scheme, width, height)
    page, keyboard = visitor.page, visitor.page.keyboard
    field, reference = page.get_by_label("Plates"), page.locator("#field-reference")
    checked(visitor)

    keyboard.type("AB01CDE")
    keyboard.press("Escape")
    assert field.input_value() == ""
    keyboard.type("AB01CDE")
    keyboard.press("Shift+Enter")
    keyboard.type("AB4OCDE")
    assert field.input_value() == "AB01CDE\nAB4OCDE"
    keyboard.press("Tab")
    keyboard.type("C-1")
    keyboard.press("Shift+Tab")
    keyboard.press("Escape")
    assert reference.input_value() == ""
    keyboard.type("AB01CDE,AB4OCDE")
    keyboard.press("Tab")
    keyboard.type("C-4711")
    enter(page)
    checked(visitor)
    assert page.get_by_text("2 plates: 1 found, 1 not found").is_visible()
    assert page.locator(".advice").count() == 1
    assert reference.input_value() == ""
    keyboard.press("Enter")  # The field is empty: the answer stays.
    page.locator("summary", has_text="for AB4OCDE").press("Enter")
    keyboard.press("Tab")
    assert page.get_by_role("button", name="Look up AB40CDE").evaluate(IS_FOCUSED)
    enter(page)
    assert answered(page) == ["AB40CDE", "AB01CDE"]

    for keys in (("Tab", "C-1", "Tab", "Space"), ()):
        keyboard.type("AB45CDE")
        for key in keys:
            keyboard.type(key) if key == "C-1" else keyboard.press(key)
        if keys:
            keyboard.press("Shift+Tab")
        enter(page)
        assert reference.input_value() == "C-1"
    checked(visitor)
    page.get_by_role("button", name="Copy receipt").focus()
    keyboard.press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    for line in (
        "Receipt of a look-up",
        "Plate: AB45CDE",
        "Reference: C-1",
        "Asked by: Ann Marlowe",
    ):
        assert line in copied.splitlines()
    keyboard.press("Escape")
    assert page.evaluate("document.activeElement.name") == "plates"

    keyboard.insert_text(TABLE)
    enter(page)
    checked(visitor)
    assert page.get_by_role("radio", name="Registration").evaluate(IS_FOCUSED)
    keyboard.press("ArrowDown")
    keyboard.press("ArrowUp")
    enter(page)
    assert answered(page) == ["AB01CDE", "AB02CDE"]

    keyboard.insert_text("AB01CDE\n" * 300)
    enter(page)
    checked(visitor)
    page.get_by_role("button", name="Change this list").focus()
    enter(page)
    assert field.input_value().count("AB01CDE") == 300
    page.get_by_role("button", name="Sign out", exact=True).focus()
    enter(page)
    assert page.get_by_text("You are signed out").is_visible()


@DEVICES
@SCHEMES
def test_the_three_outcomes_cannot_be_confused(world, clerk, scheme, width, height, visible):
    """Each has its word, and what is not known a broken line, also in lists and in print."""
    set_tells_unknown(world.engine, True)
    world.load([{"registration": "AB99CDE", "taxStatus": "taxed", "motExempt": True}])
    visitor = clerk(scheme, width, height)
    page = visitor.page
    outcomes = {
        "AB01CDE": ("Insured", "solid"),
        "AB45CDE": ("Not insured", "solid"),
        "AB99CDE": ("Not known", "dashed"),
    }
    for plate, (word, border) in outcomes.items():
        page.keyboard.type(plate)
        enter(page)
        checked(visitor)
        verdict = page.locator(".verdicts p").first
        assert verdict.locator("strong").inner_text() == word
        assert verdict.evaluate(BORDER) == border
        box = verdict.locator("strong").bounding_box()
        assert box["height"] >= VERDICT_PIXELS
        assert box["y"] + box["height"] <= visible
        page.emulate_media(media="print")
        told = page.locator(".receipt > .verdict dd").first
        assert told.inner_text().startswith(f"{word}; ")
        assert told.evaluate(BORDER) == ("dashed" if border == "dashed" else "none")
        page.emulate_media(media="screen")
        page.get_by_label("Plates").focus()  # In print there is no field.
    for plates in (list(outcomes), [*outcomes, *PLATES[:10]]):
        page.keyboard.insert_text("\n".join(plates))
        enter(page)
        checked(visitor)
        for plate, (word, border) in outcomes.items():
            row = page.locator(".overview > tbody > tr").filter(has_text=plate).first
            badge = row.locator(".badge").first
            assert badge.inner_text() == word.lower()
            assert (badge.evaluate(BORDER) == "dashed") == (border == "dashed")


def test_print_shows_receipts_only(clerk):
    """Of a few plates one each; of many the table, too."""
    page = clerk("light", 1280, 720).page
    for plates, count, is_table in (("AB01CDE,AB45CDE", 2, False), ("AB01CDE\n" * 12, 1, True)):
        page.emulate_media(media="screen")
        page.keyboard.insert_text(plates)
        enter(page)
        assert not page.locator(".receipt").first.is_visible()
        page.emulate_media(media="print")
        assert [each.is_visible() for each in page.locator(".receipt").all()] == [True] * count
        assert page.locator("table.overview").is_visible() == is_table
        for hidden in ("form.look-up", ".tools", ".bar", ".who"):
            assert not page.locator(hidden).first.is_visible()


@SCHEMES
def test_everything_works_without_a_script(clerk, scheme):
    """Buttons do what keys do, and nothing is lost."""
    visitor = clerk(scheme, 390, 844, has_javascript=False)
    page = visitor.page
    assert not page.locator(".keys").is_visible()
    page.get_by_label("Plates").fill(TABLE)
    visitor.click("Look up", "button")
    page.get_by_role("radio", name="Fleet").check()
    visitor.click("Look up", "button")
    assert page.get_by_text("2 plates: 0 found").is_visible()
    visitor.click("Change this list", "button")
    assert page.get_by_label("Plates").input_value().split() == ["F-1", "F-2"]
    visitor.click("Clear")
    assert page.get_by_label("Plates").input_value() == ""
    assert not page.get_by_role("button", name="Copy receipt").is_visible()
