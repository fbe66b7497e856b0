"""The console in Firefox and in WebKitGTK, where they are installed: a walk, and a clerk's day."""

import pytest

from app.console.rendering import ROOT
from app.people.sessions import create_link
from app.settings.roles import Role
from tests.system.browsers import WIDTHS
from tests.system.webdriver import firefox, webkit

pytestmark = pytest.mark.system_long

WIDER = "return document.documentElement.scrollWidth - innerWidth"
PLACES = """return [...document.querySelectorAll("header nav a")].map(
    (each) => [each.pathname, each.textContent])"""


@pytest.fixture(params=[firefox, webkit], ids=["firefox", "webkit"])
def window(request, world, serve):
    """A window of each browser, not signed in."""
    papers = {"motExempt": True, "taxStatus": "taxed", "make": "Ford", "model": "Focus"}
    plates = {"AB01CDE": True, "AB02CDE": False}
    world.load([{"registration": each, "insured": held, **papers} for each, held in plates.items()])
    served = serve(console="on", audit="on")
    with request.param(f"http://{served.bind}") as window:
        yield window


def sign_in(world, window, role):
    """Follow a new link, and press its button."""
    window.open(f"{ROOT}/sign-in/{create_link(world.engine, 'Ann Marlowe', role)}")
    window.press("Sign in")
    assert "Ann Marlowe" in window.text()


def require_fitting(window):
    """Fail if a page is wider than its window."""
    for width in WIDTHS:
        if window.set_width(width):
            assert window.run(WIDER) <= 0, (window.title(), width)


def test_an_operator_walks_through_the_console(world, window):
    """Every place of the menu opens and fits; an account is suspended; signing out ends it."""
    sign_in(world, window, Role.OPERATOR)
    assert window.title() == "Overview · verifyd"
    places = window.run(PLACES)
    assert len(places) > 10
    for path, title in places:
        window.open(path)
        assert window.title() == f"{title} · verifyd"
        require_fitting(window)
    window.open(f"{ROOT}/accounts/new")
    window.type("#field-name", "harbour")
    window.press("Create the account")
    assert window.run("return document.querySelector('h1').textContent") == "harbour"
    window.press("Sign out")
    window.open(ROOT)
    assert "Overview" not in window.title()


def test_a_clerk_has_a_day(world, window):
    """Plates are looked up with the keyboard, one by one and as a list, and explained."""
    sign_in(world, window, Role.CLERK)
    for plate, verdict in {"AB01CDE": "Insured", "AB02CDE": "Not insured"}.items():
        window.type("textarea", plate)
        window.press("Look up")
        assert window.run("return document.querySelector('h3').textContent.trim()") == plate
        assert (
            window.run("return document.querySelector('.verdicts strong').textContent") == verdict
        )
        require_fitting(window)
    window.type("textarea", "AB01CDE,AB02CDE,ZZ99ZZZ," * 4)
    window.press("Look up")
    assert "12 plates: 8 found" in window.text()
    require_fitting(window)
    window.press("Sign out")
    window.open(f"{ROOT}/look-up")
    assert "Ann Marlowe" not in window.text()
