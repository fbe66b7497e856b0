"""A browser for the tests of the console: keeps cookies and sends what browsers send."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from webtest import TestApp, TestResponse

from app.console.rendering import ROOT
from app.people.sessions import create_link
from app.settings.roles import Role
from tests.conftest import World
from tests.stores import SqliteStore

HOST = "console.example"
ORIGIN = f"http://{HOST}"
ADDRESS = {"REMOTE_ADDR": "192.0.2.7"}
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
ON_SOCKET = {"REMOTE_ADDR": ""}
PROXY = f"{ROOT}/sign-in/proxy"
PROXY_SECRET = "s" * 32
DIRECTORY: dict[str, Any] = {
    "console": True,
    "console_proxy_secret": PROXY_SECRET,
    "console_groups": {f"{role}s": role for role in reversed(Role)},
}
"""Settings with which people of the groups `clerks`, `viewers` and so on sign in by a directory."""


class Browser:
    """A browser at one address; never raises for a status.

    Args:
        environ: of every request; by default it comes over TCP without TLS.
    """

    def __init__(self, application: Any, environ: Mapping[str, Any] | None = None) -> None:
        self.app = TestApp(application, lint=True)
        self.cookies: dict[str, str] = {}
        self._environ = {**ADDRESS, **(environ or {})}

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> TestResponse:
        """Send any request with the cookies that were set."""
        sent = {"Host": HOST, **(headers or {})}
        if self.cookies and "Cookie" not in sent:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        response = self.app.request(
            path, method=method, body=body, headers=sent, environ=self._environ, expect_errors=True
        )
        for line in response.headers.getall("Set-Cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            if "Max-Age=0" in line.split("; "):  # Browsers keep an empty cookie.
                del self.cookies[name]
        # WebTest has a jar of its own, which would send the cookie of another scheme, too.
        self.app.reset()
        return response

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.request("GET", path, **options)

    def post(
        self,
        path: str,
        fields: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] = SAME_ORIGIN,
    ) -> TestResponse:
        """Send a form."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(fields or {}).encode()
        return self.request("POST", path, body=body, headers={**kind, **headers})

    def send(self, page: str, fields: Mapping[str, str] | None = None) -> TestResponse:
        """Open a page and send its form as it is, with other values in some fields."""
        shown = self.get(page)
        assert shown.status_int == 200
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)">', shown.text))
        return self.post(page, {**hidden, **(fields or {})})

    def sign_in(self, token: str) -> "Browser":
        """Use a link up."""
        response = self.post(f"{ROOT}/sign-in/{token}")
        assert response.status_int == 303, response.text
        return self


def signed_in(world: World, application: Any, role: Role, name: str = "ann") -> Browser:
    """Return a browser with an open session of a role."""
    return Browser(application).sign_in(create_link(world.engine, name, role))


def stated(
    name: str | None = "ann", groups: str | None = "clerks", secret: str | None = PROXY_SECRET
) -> dict[str, str]:
    """Return the headers that a proxy sets, as WSGI encodes them, without those that are None."""
    values = {"User": name, "Groups": groups, "Proxy-Secret": secret}
    return {
        f"X-Verifyd-{header}": value.encode().decode("latin-1")
        for header, value in values.items()
        if value is not None
    }


def let_in(world: World, application: Any, role: Role, name: str = "ann") -> Browser:
    """Return a browser with an open session of a role, which a directory gave the person."""
    browser = Browser(application, ON_SOCKET)
    headers = {**SAME_ORIGIN, **stated(name, f"{role}s")}
    assert browser.post(PROXY, headers=headers).status_int == 303
    return browser


def stored(world: World) -> bytes:
    """Return everything that the database stores."""
    if isinstance(world.store, SqliteStore):
        # The -shm beside it has the locks of readers, too.
        files = [world.database, world.database.with_name(f"{world.database.name}-wal")]
        return b"".join(path.read_bytes() for path in files if path.exists())
    return world.store.content()
