"""A browser looks at every page of the service for programmers: widths, schemes and languages."""

import re

import pytest
from playwright.sync_api import expect

from app.documentation.reference import PACKAGED_URL, Reference
from app.documentation.resources import read_document
from tests.system.browsers import WIDTHS, Visitor, chromium
from tests.system.client_tools import axe_script

pytestmark = [pytest.mark.system_long, pytest.mark.shared_world]

LINKED = """[...document.querySelectorAll("a[href]")].map((each) => each.href)
    .filter((each) => each.startsWith(origin)).map((each) => new URL(each).pathname)"""
TRY = "/docs/try"
OPERATIONS = Reference(read_document()).operations
PAGES = {name: f"/docs/operations/{name}" for name in OPERATIONS}
FOCUSED = "document.activeElement"
# What nobody sees, such as a link that shows only when it has the focus, is at no place.
IS_SEEN = f"{FOCUSED}.getBoundingClientRect().bottom > 0 && {FOCUSED}.checkVisibility()"


@pytest.fixture(scope="module")
def browser():
    """The browser of all visits."""
    with chromium() as browser:
        yield browser


def is_page(path):
    """Tell pages from files, and from what the API answers."""
    return re.fullmatch(r"/|/docs(/\w+)*", path) is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_and_accessible(served, browser, scheme):
    """All that the start page leads to, in each language of the samples."""
    context = browser.new_context(color_scheme=scheme, extra_http_headers={"Accept": "text/html"})
    url = f"http://{served.bind}"
    visitor = Visitor(context.new_page(), url, axe_script())
    waiting, seen = ["/"], set()
    while waiting:
        path = waiting.pop()
        if path in seen or path == TRY:  # that page is Swagger UI's
            continue
        seen.add(path)
        visitor.open(path)
        waiting += filter(is_page, visitor.page.evaluate(LINKED))
        for language in visitor.page.locator("input[name=language]").all():
            language.evaluate("(each) => each.click()")
            for width in WIDTHS:
                visitor.page.set_viewport_size({"width": width, "height": 800})
                visitor.require_whole(width)
    assert seen == {"/", "/docs", "/docs/errors", *PAGES.values()}
    context.close()


@pytest.fixture
def visitor(served, browser):
    """Somebody with a phone, at night, who may copy."""
    context = browser.new_context(
        color_scheme="dark",
        viewport={"width": 375, "height": 800},
        permissions=["clipboard-read", "clipboard-write"],
        extra_http_headers={"Accept": "text/html"},
    )
    visitor = Visitor(context.new_page(), f"http://{served.bind}", axe_script())
    yield visitor
    assert visitor.complaints == []
    context.close()


def press_until(page, key, script):
    """Press a key until the element that has the focus is the one; it must come, and be seen."""
    for _ in range(60):
        page.keyboard.press(key)
        if page.evaluate(f"{FOCUSED}.matches({script!r})"):
            assert page.evaluate(IS_SEEN)
            return
    pytest.fail(f"{script} never has the focus", pytrace=False)


def test_the_keyboard_leads_from_page_to_page(served, visitor):
    """Skip to the content, open the contents, choose an operation, its language, and copy."""
    page, url = visitor.page, f"http://{served.bind}"
    page.goto(f"{url}/docs")
    press_until(page, "Tab", ".skip")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{FOCUSED}.matches('main summary')")
    page.keyboard.press("Enter")
    press_until(page, "Tab", "main [href='docs/operations/putWatch']")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{PAGES['putWatch']}")
    assert page.get_by_role("heading", level=1).inner_text() == OPERATIONS["putWatch"].summary
    press_until(page, "Tab", "#language-curl")
    page.keyboard.press("ArrowRight")
    press_until(page, "Tab", ".sample.python .copy")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    told = OPERATIONS["putWatch"].samples[1].text
    assert page.evaluate("navigator.clipboard.readText()") == told
    visitor.check()
    visitor.open(PAGES["getWatch"])
    assert page.evaluate("document.querySelector('.sample.python').checkVisibility()")


def test_each_sample_can_be_copied(served, visitor):
    """On each page, each button copies what stands beside it, with the address of the service."""
    page, url = visitor.page, f"http://{served.bind}"
    for name, path in PAGES.items():
        page.goto(f"{url}{path}")
        operation = OPERATIONS[name]
        told = [each.text for each in operation.samples]
        if operation.answer.body:
            told.append(operation.answer.body)
        for button, text in zip(page.locator(".copy").all(), told, strict=True):
            button.evaluate("(each) => each.click()")
            expect(button).to_have_text("Copied")
            copied = page.evaluate("navigator.clipboard.readText()")
            assert copied == text.replace(PACKAGED_URL, url), path


def test_an_old_link_leads_to_the_operation(served, browser, visitor):
    """With the script at once, also on the page itself; without it, to the link at that place."""
    page, url = visitor.page, f"http://{served.bind}"
    first_and_last = [list(PAGES.items())[place] for place in (0, -1)]
    for name, path in first_and_last:
        page.goto("about:blank")
        page.goto(f"{url}/docs#{name}")
        page.wait_for_url(f"**{path}")
    page.goto(f"{url}/docs#vehicles")
    page.evaluate("location.hash = 'putWatch'")
    page.wait_for_url(f"**{PAGES['putWatch']}")
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    for name, path in first_and_last:
        plain.goto("about:blank")
        plain.goto(f"{url}/docs#{name}")
        plain.locator(":target").get_by_role("link").click()
        assert plain.url == f"{url}{path}"
    context.close()


def test_the_menu_stays_where_operations_are_tried(served, visitor):
    """Swagger UI opens the operation, and the contents beside it lead back to its page."""
    page, operation = visitor.page, OPERATIONS["putWatch"]
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"http://{served.bind}{PAGES[operation.id]}")
    page.get_by_role("link", name="Try it in the browser").click()
    page.locator(f"#operations-{operation.tag}-{operation.id}.is-open").wait_for()
    menu = page.get_by_role("navigation", name="Pages")
    assert menu.locator("[aria-current=page]").inner_text() == "Try it"
    contents = page.get_by_role("navigation", name="Contents")
    contents.get_by_role("link", name=operation.summary, exact=True).click()
    page.wait_for_url(f"**{PAGES[operation.id]}")


def test_a_browser_that_stores_nothing_shows_everything(served, visitor):
    """The choice of a language is then for one page."""
    page = visitor.page
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied'); }})"
    )
    visitor.open(PAGES["putWatch"])
    page.locator("#language-python").evaluate("(each) => each.click()")
    assert page.evaluate("document.querySelector('.sample.python').checkVisibility()")
    assert page.locator(".copy").count() == 4
