"""What people with the role clerk can do: look plates up, and sign out."""

import pytest

from app.console.pages import PAGES
from app.console.rendering import ROOT
from app.monitoring.check import clerk_warnings
from app.settings.roles import Role
from tests.api.console import signed_in, stored
from tests.conftest import ON_SQLITE

LOOK_UP = f"{ROOT}/look-up"
pytestmark = ON_SQLITE


@pytest.fixture
def application(world):
    """The service with its console and the audit trail."""
    world.load([{"registration": "AB12CDE", "make": "Ford"}])
    trail = world.directory / "audit"
    return world.client(None, console=True, audit=True, audit_dir=trail).application


@pytest.fixture
def clerk(world, application):
    """The browser of a clerk."""
    return signed_in(world, application, Role.CLERK)


class Test200:
    """A clerk has one page."""

    def test_a_clerk_looks_up(self, clerk):
        """The answer is that of everybody else."""
        assert "AB12CDE" in clerk.send(LOOK_UP, {"plates": "ab12 cde"}).text

    def test_the_navigation_has_only_the_look_up_page(self, clerk):
        """No link of the page leads to another page of the console but signing out."""
        page = clerk.get(LOOK_UP).text
        others = {each.path for each in PAGES if each.menu} - {ROOT, LOOK_UP}
        assert not [path for path in others if f'href="..{path}"' in page]
        assert 'action="../console/sign-out"' in page

    def test_a_clerk_signs_out_everywhere(self, clerk):
        """The question leads back to the look-up page."""
        path = f"{ROOT}/sign-out/everywhere"
        assert "console/look-up" in clerk.get(path).text
        assert "have ended" in clerk.post(path).text
        assert clerk.get(LOOK_UP).status_int == 401


class Test303:
    """What is the overview for others is the look-up page for a clerk."""

    @pytest.mark.parametrize("path", [ROOT, f"{ROOT}/"])
    def test_the_overview_leads_to_the_look_up_page(self, clerk, path):
        """So does a sign-in, which opens the overview."""
        response = clerk.get(path)
        assert response.status_int == 303
        assert response.headers["Location"].endswith("console/look-up")


class Test403:
    """Forms of an operator are refused."""

    def test_a_form_of_an_operator_changes_nothing(self, world, clerk):
        """The page leads back to the look-up page."""
        before = stored(world)
        response = clerk.post(f"{ROOT}/accounts/new", {"name": "mallory", "plan": "free"})
        assert response.status_int == 403
        assert "you are signed in as clerk" in response.text
        assert "Go to the look-up page" in response.text
        assert stored(world) == before


class Test503:
    """Without the audit trail nobody would see what clerks ask."""

    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_a_clerk_cannot_look_up_without_the_trail(self, world, method):
        """The page says why and offers no other page; `check` warns; a viewer can look up."""
        application = world.client(None, console=True).application
        clerk = signed_in(world, application, Role.CLERK)
        response = clerk.get(LOOK_UP) if method == "GET" else clerk.post(LOOK_UP, {"plates": "X1"})
        assert response.status_int == 503
        assert "VERIFYD_AUDIT=on" in response.text
        (link,) = response.html.select("a.button")
        assert (link.text, link["href"]) == ("Try again", "")
        (warning,) = clerk_warnings(world.engine, world.configured(console=True))
        assert warning == "VERIFYD_AUDIT: clerks cannot look up while it is off."
        assert signed_in(world, application, Role.VIEWER).get(LOOK_UP).status_int == 200
