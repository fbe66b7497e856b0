"""What resources of the console are made of: views, forms, and questions before a change."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Generic, NamedTuple, TypeVar

import falcon
import peewee

from app.actions import Actor, changing
from app.console.forms import CHANGED_MEANWHILE, Field, Form, Refusal, require_version
from app.console.rendering import ASSETS, ConsoleRequest, PageError, Services, actor_of, redirect
from app.serve.http.caching import send_asset
from app.storage import reserve
from app.storage.engine import Engine

Values = Mapping[str, object]
"""What a template shows, by the names that it has there."""
T = TypeVar("T")
R = TypeVar("R")
_NUMBER_DIGITS_MAX = 18
_ASSETS = {asset.served_name: asset for asset in ASSETS.values()}


class Question(NamedTuple):
    """What a page asks before a change."""

    heading: str
    text: str
    button: str
    is_dangerous: bool = True


class Resource:
    """Answers the requests for one path. HEAD is answered like GET."""

    on_get: Callable[..., None]
    on_head: Callable[..., None]

    def __init__(self, services: Services) -> None:
        self.services = services
        self.engine = services.engine
        self.config = services.config

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "on_get"):
            cls.on_head = cls.on_get

    def show(
        self, req: ConsoleRequest, resp: falcon.Response, template: str, values: Values
    ) -> None:
        """Answer with a page."""
        self.services.pages.send(req, resp, template, **values)

    def ask(
        self,
        req: ConsoleRequest,
        resp: falcon.Response,
        question: Question,
        *back: str,
        version: str = "",
    ) -> None:
        """Ask for confirmation.

        Args:
            back: the segments of the path to go to instead.
            version: the version of the row, for `require_version`.
        """
        values = {"question": question, "back": back, "version": version}
        self.show(req, resp, "confirm.html", values)


def view(template: str) -> Callable[[Callable[..., Values | None]], Callable[..., None]]:
    """Return a decorator for responders that return what a template shows.

    A responder that returns None has answered by itself.
    """

    def decorated(responder: Callable[..., Values | None]) -> Callable[..., None]:
        @wraps(responder)
        def shown(
            resource: Resource, req: ConsoleRequest, resp: falcon.Response, **segments: str
        ) -> None:
            values = responder(resource, req, resp, **segments)
            if values is not None:
                resource.show(req, resp, template, values)

        return shown

    return decorated


class ConsoleAsset(Resource):
    """A style sheet or script; everybody may read it."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, asset: str) -> None:
        """GET /console/assets/{asset}. Raises falcon.HTTPNotFound for any name but the current."""
        if asset not in _ASSETS:  # SEC: only these names ever become a path.
            raise falcon.HTTPNotFound
        send_asset(req, resp, _ASSETS[asset])


def missing(what: str, text: str, *back: str) -> PageError:
    """Return the error page of a path that names nothing.

    Args:
        what: a noun, such as `account`.
        text: why there is none, in sentences.
        back: the segments of the path to offer as a way out.
    """
    return PageError(404, f"There is no such {what}", text, back)


def number_in_path(text: str) -> int:
    """Return a segment as a number; 0, which nothing has, if it is none."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX
    return int(text) if is_number else 0


class Entity(NamedTuple, Generic[T]):
    """A kind of row that pages show and change, such as accounts."""

    name: str
    """A noun, such as `account`."""
    place: str
    """The first segment of the paths of its pages. The second one names a row."""
    find: Callable[[Engine, str], T | None]
    """Returns the row that a segment names."""
    rows: Callable[[str], "peewee.ModelSelect[Any]"]
    """Selects the row that a segment names, to lock it."""
    version: Callable[[T], str]
    """Returns the version of what pages show of a row."""
    why_missing: str = "It was deleted, or never was."
    refusal: Refusal = CHANGED_MEANWHILE
    """What is said of a form from an older state."""

    def require(self, engine: Engine, segment: str) -> T:
        """Return the row that a segment names. Raises PageError if there is none."""
        found = self.find(engine, segment)
        if found is None:
            raise missing(self.name, self.why_missing, self.place)
        return found

    def change(
        self,
        req: ConsoleRequest,
        engine: Engine,
        segment: str,
        change: Callable[[T], R],
        *,
        uses_reserve: bool = False,
    ) -> R:
        """Change a row in a transaction, and return what `change` returns.

        Args:
            uses_reserve: whether this must work on a full disk (D57).

        Raises PageError if the row has changed since the form was made.
        """

        def locked_change() -> R:
            with changing(engine):
                engine.lock_rows(self.rows(segment))
                row = self.require(engine, segment)
                require_version(req, self.version(row), (self.place, segment), self.refusal)
                return change(row)

        return reserve.with_reserve(engine, locked_change) if uses_reserve else locked_change()


class FormPage(Resource, ABC, Generic[T]):
    """A form: GET shows it, and POST does what it asks for, or shows it again with its faults.

    T is the type of the row that the path names; None if the path names no row.
    """

    template: str
    _find: Callable[..., T]
    """Takes the segments of the path; returns the row that they name, or raises PageError."""

    @abstractmethod
    def _fields(self, row: T) -> Sequence[Field]:
        """Return the fields."""

    def _initial(self, row: T) -> Mapping[str, str]:
        """Return the values to begin with. Raises PageError if there is nothing to fill in now."""
        return {}

    def _values(self, req: ConsoleRequest, row: T) -> Values:
        """Return what the template shows besides `form`."""
        return {}

    def _received(self, req: ConsoleRequest, row: T) -> Form:
        """Return the form that a browser has sent, with its faults."""
        return Form.received(req, self._fields(row))

    @abstractmethod
    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: T, form: Form) -> None:
        """Do what a form without faults asks for, and answer; or add the faults found now."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Show the form."""
        row = self._find(**segments)
        self._show(req, resp, row, Form(self._fields(row), self._initial(row)))

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Do what the form asks for, or show it again."""
        row = self._find(**segments)
        form = self._received(req, row)
        if form.is_sound:
            self._accept(req, resp, row, form)
        if not form.is_sound:
            resp.status = falcon.HTTP_422
            self._show(req, resp, row, form)

    def _show(self, req: ConsoleRequest, resp: falcon.Response, row: T, form: Form) -> None:
        self.show(req, resp, self.template, {**self._values(req, row), "form": form})


class Confirmation(Resource, ABC, Generic[T]):
    """A question before a row is changed: GET asks it, and POST changes the row."""

    entity: Entity[T]
    done: str
    """What the next page says was done."""
    ends_row = False
    """Whether the row is gone then: the next page is the list."""
    uses_reserve = False
    """Whether it must work on a full disk (D57)."""

    @abstractmethod
    def _question(self, row: T) -> Question:
        """Return the question. Raises PageError if the change is not possible now."""

    @abstractmethod
    def _change(self, row: T, actor: Actor) -> None:
        """Change a row, in the transaction that has locked it."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Ask for confirmation."""
        (segment,) = segments.values()
        row, place = self.entity.require(self.engine, segment), self.entity.place
        self.ask(req, resp, self._question(row), place, segment, version=self.entity.version(row))

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Change the row."""
        (segment,) = segments.values()

        def checked(row: T) -> None:
            self._question(row)  # It may have become impossible.
            self._change(row, actor_of(req))

        uses_reserve = self.uses_reserve
        self.entity.change(req, self.engine, segment, checked, uses_reserve=uses_reserve)
        next_page = (self.entity.place,) if self.ends_row else (self.entity.place, segment)
        redirect(req, resp, *next_page, done=self.done)
