"""The context of each request of the console, and how templates become pages."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from urllib.parse import quote, urlencode

import falcon
import jinja2
from markupsafe import Markup

from app import clock
from app.accounts.usage.store import CLASSES, INTERVAL_SECONDS, KEPT_DAYS
from app.actions import Actor
from app.audit.record import row_of
from app.console import look_up_sentences, look_up_texts
from app.console.charts import CLASS_NAMES, columns_chart, filled_columns
from app.documentation import resources as documentation
from app.own_command import INSTALLED, as_run_here, is_installed
from app.people.directory import Person
from app.people.sessions import Session
from app.registers.change_words import brief
from app.serve.http.caching import CSS, JAVASCRIPT, Asset, own_asset
from app.serve.http.context import Request, RequestContext
from app.settings.roles import RIGHTS, Right
from app.storage.files import size_text
from app.storage.tables import Kind
from app.text import capitalised, counted
from app.version import VERSION
from app.watches.words import states_of, words_of

Values = Mapping[str, object]
"""The values of a template, by their names in the template."""
ROOT = "/console"
"""The path of the overview; all other paths of the console are below it."""


class ConsoleContext(RequestContext):
    """The fields of every request, and the session of this one."""

    __slots__ = ("person", "session")

    def __init__(self) -> None:
        super().__init__()
        self.session: Session | None = None
        """The session of the person who asks; never None on pages that need a right."""
        self.person: Person | None = None
        """Whom a proxy identified; never None where that opens a session."""


class ConsoleRequest(Request):
    """A request for a page of the console."""

    context_type = ConsoleContext
    context: ConsoleContext

    @property
    def session(self) -> Session:
        """The session of the person who asks; only for pages that need a right."""
        session = self.context.session
        assert session is not None  # noqa: S101 - Entrance has refused requests without a session
        return session

    @property
    def actor(self) -> Actor:
        """The person who asks, for the record of actions."""
        return Actor(self.session.name, "console")


ASSETS_PATH = f"{ROOT}/assets/"

ASSETS: Mapping[str, Asset] = {
    "console.css": own_asset("app.console", "console.css", CSS),
    # The console may have a listener of its own, which serves nothing else.
    "icon.svg": documentation.ASSETS["icon.svg"],
    "console.js": own_asset("app.console", "console.js", JAVASCRIPT),
}


class MenuItem(NamedTuple):
    """A page in the navigation."""

    title: str
    path: str
    right: Right
    group: str
    """The title of its group; empty for the first one."""


class View:
    """The request as every template sees it, as `page`.

    All links are relative, so that they work behind a proxy's path prefix.
    """

    def __init__(self, req: ConsoleRequest, menu: Iterable[MenuItem]) -> None:
        # Falcon drops a slash at the end of `req.path`; the browser does not.
        self.root = documentation.way_to_root(req.env["PATH_INFO"].count("/") - 1)
        self.path = req.path
        self.is_read = req.method in ("GET", "HEAD")
        self.session = req.context.session
        self.request_id = req.context.request_id
        self.done = req.get_param("done")
        """The result of the form before this page, such as `created`."""
        rights = RIGHTS[self.session.role] if self.session else frozenset()
        self._rights = rights
        self._menu = [item for item in menu if item.right in rights]
        self.has_menu = len(self._menu) > 1
        self.menu = [
            (group, list(items)) for group, items in groupby(self._menu, attrgetter("group"))
        ]
        """The groups of the navigation, each with its title and its pages."""

    def to(self, *segments: str, **query: object) -> str:
        """Return a link to a page: `to()` is the overview, `to("accounts", tag)` an account."""
        path = "/".join([ROOT.strip("/"), *(quote(each, safe="") for each in segments)])
        return f"{self.root}{path}" + (f"?{urlencode(query)}" if query else "")

    def link(self, path: str) -> str:
        """Return a link to a path of the console, such as `/console/accounts`."""
        return f"{self.root}{path.lstrip('/')}"

    def may(self, right: str) -> bool:
        """Tell whether the person has a right: `look-up`, `read`, `change` or `audit`."""
        return right in self._rights

    def current(self, place: str = "") -> str:
        """Return the title in the navigation that this page belongs to; empty if there is none.

        Args:
            place: the title of a page that is not below its path.
        """
        for item in self._menu:
            is_below = item.path != ROOT and self.path.startswith(f"{item.path}/")
            if item.title == place or item.path == self.path or is_below:
                return item.title
        return ""


class Renderer:
    """Renders pages.

    Args:
        zone: the operator's time zone, in which pages show times.
        menu: the pages in the navigation, in their order.
        has_directory: whether people can also sign in by their directory.
    """

    def __init__(self, zone: tzinfo, menu: Iterable[MenuItem], *, has_directory: bool) -> None:
        self._environment = _environment(zone)
        self._menu = tuple(menu)
        self._has_directory = has_directory

    def send(
        self, req: ConsoleRequest, resp: falcon.Response, template: str, values: Values
    ) -> None:
        """Answer with a page.

        Args:
            template: the name of its file in `templates/`.
            values: the values of the template besides `page` (a View) and `has_directory`.
        """
        view = View(req, self._menu)
        resp.content_type = falcon.MEDIA_HTML
        found = self._environment.get_template(template)
        resp.text = found.render(values, page=view, has_directory=self._has_directory)


def moment(epoch_seconds: int | None, zone: tzinfo, clock_form: str = "%H:%M") -> Markup:
    """Return a time as HTML, in the operator's time zone and in UTC; a dash for None."""
    if epoch_seconds is None:
        return _DASH
    here = datetime.fromtimestamp(epoch_seconds, zone)
    text = f"<span>{here.day} {here:%b %Y}, {here:{clock_form}}</span>"
    utc = "UTC"
    if here.utcoffset():
        there = here.astimezone(UTC)
        utc = f"{there:{clock_form}} UTC"
        if here.date() != there.date():
            utc = f"{there.day} {there:%b}, {utc}"
    time = f'<time datetime="{clock.iso_utc(epoch_seconds)}">{text} <small>{utc}</small></time>'
    return Markup(time)  # noqa: S704 - numbers and names of months


def time_in_zone(epoch_seconds: int | None, zone: tzinfo) -> Markup:
    """Return a time as HTML in the operator's time zone, which the heading of its column names.

    Its tooltip has UTC. None is a dash.
    """
    if epoch_seconds is None:
        return _DASH
    here = datetime.fromtimestamp(epoch_seconds, zone)
    utc = clock.iso_utc(epoch_seconds)
    return Markup(  # noqa: S704 - numbers and names of months
        f'<time datetime="{utc}" title="{utc}"><span>{here.day} {here:%b %Y, %H:%M}</span></time>'
    )


def iso_moment(text: str, zone: tzinfo, clock_form: str = "%H:%M") -> Markup | str:
    """Return a time of an answer or a record as HTML, like `moment`; any other text as it is."""
    try:
        return moment(int(datetime.fromisoformat(text).timestamp()), zone, clock_form)
    except (ValueError, OverflowError):
        return text  # In a record: somebody changed it.


def with_moments(text: str, zone: tzinfo) -> Markup:
    """Return a sentence as HTML whose times in UTC are shown like those of the page."""
    parts = _ISO_UTC.split(text)
    return Markup("").join(iso_moment(part, zone) for part in parts)


def number(value: int | None) -> Markup | str:
    """Return a number with groups of three digits; a dash for None."""
    return _DASH if value is None else f"{value:,}"


_ISO_UTC = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_DASH = Markup('<span aria-hidden="true">&ndash;</span><span class="hidden">none</span>')
_GLOBALS: Mapping[str, object] = {
    "assets": {
        name: f"{ASSETS_PATH.strip('/')}/{asset.served_name}" for name, asset in ASSETS.items()
    },
    "class_names": CLASS_NAMES,
    "columns_chart": columns_chart,
    "release": VERSION,
    "classes": CLASSES,
    "command": as_run_here(INSTALLED),
    "is_installed": is_installed(),
    "filled_columns": filled_columns,
    "kinds": tuple(Kind),
    "states_of": states_of,
    "sentences": look_up_sentences,
    "texts": look_up_texts,
    "usage_days_kept": KEPT_DAYS,
    "usage_seconds": INTERVAL_SECONDS,
    "words_of": words_of,
}
_FILTERS: Mapping[str, Callable[..., object]] = {
    "as_run_here": as_run_here,
    "brief": brief,
    "counted": counted,
    "capitalised": capitalised,
    "duration": clock.duration_text,
    "in_words": look_up_texts.in_words,
    "audit_row": row_of,
    "number": number,
    "shell_word": shlex.quote,
    "size": size_text,
}


@cache
def _environment(zone: tzinfo) -> jinja2.Environment:
    environment = documentation.templates_of("app.console")
    environment.globals |= {**_GLOBALS, "zone_name": str(zone)}
    environment.filters |= {
        **_FILTERS,
        "moment": partial(moment, zone=zone),
        "time_in_zone": partial(time_in_zone, zone=zone),
        "iso_moment": partial(iso_moment, zone=zone),
        "with_moments": partial(with_moments, zone=zone),
        "recorded": partial(look_up_texts.recorded, zone=zone),
        "recorded_moment": partial(iso_moment, zone=zone, clock_form="%H:%M:%S"),
    }
    # PERF: compiling takes 40 ms. Done at the start, it does not delay the first page.
    for name in environment.list_templates():
        environment.get_template(name)
    return environment
