"""A browser signs in to the console by the customer's directory, behind the shipped nginx site."""

import pytest
from playwright.sync_api import HttpCredentials

from app.console.rendering import ROOT
from tests.system.browsers import Visitor, chromium
from tests.system.client_tools import axe_script
from tests.system.site import SECRET, add_sign_in, behind_site
from tests.system.test_site_sign_in import PROXY, answering

pytestmark = pytest.mark.system_long


@pytest.fixture
def site(world, serve, tmp_path):
    """The address of the console, where ben, a clerk, has a password."""
    (tmp_path / "passwords").write_text("ben:{PLAIN}secret\neve:{PLAIN}secret\n")
    changes = {"/etc/nginx/verifyd.passwords": f"{tmp_path}/passwords"}
    add_sign_in(tmp_path, "password-file", changes)
    settings = {"console_proxy_secret": SECRET, "console_groups": "staff=clerk"}
    served = serve(console="on", audit="on", trusted_proxies="127.0.0.1", **settings)
    with behind_site(served.bind, tmp_path) as bind:
        yield f"https://localhost:{bind.rpartition(':')[2]}"


def credentials_of(name: str) -> HttpCredentials:
    """Return what the browser answers when it is asked for a password."""
    return {"username": name, "password": "secret"}


@pytest.mark.parametrize(("scheme", "has_javascript"), [("light", True), ("dark", False)])
def test_a_clerk_signs_in_and_out(site, scheme, has_javascript):
    """The page without a session leads to the sign-in, and that to the look-up page."""
    with chromium() as browser:
        context = browser.new_context(
            color_scheme=scheme,
            java_script_enabled=has_javascript,
            ignore_https_errors=True,
            http_credentials=credentials_of("ben"),
        )
        visitor = Visitor(context.new_page(), site, axe_script() if has_javascript else None)
        visitor.open(ROOT, 401)
        visitor.click("Sign in")
        assert visitor.page.get_by_text("Your directory says that this is you.").is_visible()
        visitor.click("Sign in", "button")
        assert visitor.page.url == f"{site}{ROOT}/look-up"
        visitor.click("Sign out", "button")
        assert visitor.page.get_by_text("may still know you").is_visible()


def test_a_page_of_another_site_leads_to_the_sign_in(site):
    """No cookie comes along from there (`SameSite=Strict`), and the form works all the same."""
    leading = answering(answer=lambda _: (303, {"Location": f"{site}{PROXY}"}))
    with leading as (portal, _), chromium() as browser:
        known = credentials_of("ben")
        context = browser.new_context(ignore_https_errors=True, http_credentials=known)
        page = context.new_page()
        for _ in range(2):  # The second time with the cookie of the first.
            page.goto(f"http://{portal}/")
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"{site}{ROOT}/look-up")


def test_who_has_no_role_is_told_so(site):
    """The page names the person, and can be read by everybody."""
    with chromium() as browser:
        known = credentials_of("eve")
        context = browser.new_context(ignore_https_errors=True, http_credentials=known)
        visitor = Visitor(context.new_page(), site, axe_script())
        visitor.open(PROXY, 403)
        assert visitor.page.get_by_text("You are eve").is_visible()
