"""A browser looks at every page of the service for programmers: widths, schemes and languages."""

import re

import pytest

from tests.system.browsers import WIDTHS, Visitor, chromium
from tests.system.client_tools import axe_script

pytestmark = [pytest.mark.system_long, pytest.mark.shared_world]

LINKED = """[...document.querySelectorAll("a[href]")].map((each) => each.href)
    .filter((each) => each.startsWith(origin)).map((each) => new URL(each).pathname)"""
TRY = "/docs/try"


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
    assert seen >= {"/", "/docs", "/docs/errors"}
    context.close()
