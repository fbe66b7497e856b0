"""`make screenshots`: draws the pictures of the console that the pages show, from the demo.

Usage of a working day is invented, because a new demo has none.
"""

import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import Browser, Page

from app import clock
from app.accounts.authentication import Authenticator
from app.accounts.usage.counts import Count, CountIncrease, class_of
from app.accounts.usage.store import write
from app.console.rendering import ROOT
from app.people.sessions import create_link
from app.settings.roles import Role
from app.storage.engine import close_quietly, open_engine
from tests.system.browsers import chromium
from tests.system.processes import ROOT as SOURCES
from tests.system.processes import Service, free_port, run_command

_HOUR_SECONDS = 3600
_PLATE = "AB12CDE"


class Picture(NamedTuple):
    """A picture of one page."""

    name: str
    path: str
    scheme: Literal["light", "dark"]
    width: int
    height: int


PICTURES = [
    Picture("console-overview.png", ROOT, "light", 1280, 760),
    Picture("console-look-up.png", f"{ROOT}/look-up", "dark", 1280, 760),
    Picture("console-phone.png", ROOT, "light", 390, 760),
]


def draw(directory: Path) -> None:
    """Write the pictures into a directory."""
    with _demo() as (url, database), chromium() as browser:
        for picture in PICTURES:
            page = _signed_in(browser, url, database, picture)
            page.goto(f"{url}{picture.path}")
            if picture.path.endswith("look-up"):
                page.get_by_label("Plates").fill(_PLATE)
                page.get_by_role("button", name="Look up", exact=True).click()
                page.wait_for_load_state()
            page.screenshot(path=directory / picture.name, animations="disabled")
            page.close()


@contextmanager
def _demo() -> Iterator[tuple[str, str]]:
    """Serve the demo with a console; yield its address and the URL of its database."""
    with tempfile.TemporaryDirectory() as name:
        directory, bind = Path(name), f"127.0.0.1:{free_port()}"
        url = f"sqlite:///{directory / 'demo.db'}"
        settings: dict[str, Any] = {"database_url": url, "mot_first_years": 3}
        key = json.loads(run_command("demo", "--json", bind=bind, **settings).stdout)["key"]
        _invent_usage(url, key)
        with Service(directory, bind, workers=1, console="on", **settings) as service:
            service.wait_ready()
            yield f"http://{bind}", url


def _invent_usage(database_url: str, key: str) -> None:
    """Write the usage of the last day, which rises until noon and falls until the night."""
    engine = open_engine(database_url, is_serving=True)
    try:
        caller = Authenticator(engine).find_caller(key)
        assert caller
        changes = []
        this_hour = clock.now() // _HOUR_SECONDS * _HOUR_SECONDS
        for began_at in range(this_hour - 24 * _HOUR_SECONDS, this_hour, _HOUR_SECONDS):
            hour = began_at // _HOUR_SECONDS % 24
            answers = round(9_000 * (1.1 - math.cos(2 * math.pi * (hour - 1) / 24)))
            for status, share in ((200, 1), (404, 0.05), (429, 0.02 if hour == 12 else 0)):
                count = Count(caller, "insurance", class_of(status))
                counted = round(answers * share)
                changes.append(CountIncrease(began_at, count, counted, counted))
        write(engine, changes, UTC)
    finally:
        close_quietly(engine)


def _signed_in(browser: Browser, url: str, database: str, picture: Picture) -> Page:
    page = browser.new_page(
        color_scheme=picture.scheme, viewport={"width": picture.width, "height": picture.height}
    )
    engine = open_engine(database, is_serving=True)
    try:
        token = create_link(engine, "Ann Marlowe", Role.OPERATOR)
    finally:
        close_quietly(engine)
    page.goto(f"{url}{ROOT}/sign-in/{token}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
    return page


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if sys.argv[1:] else SOURCES / "deploy")
