"""Pages with a form: one to fill in, or a question to confirm. And the rows that they change."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import falcon
import peewee

from app.actions import Actor, changing
from app.console.forms import CHANGED_MEANWHILE, Field, Form, Refusal, require_version
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, missing, redirect
from app.storage import reserve
from app.storage.engine import Engine

T = TypeVar("T")
R = TypeVar("R")


def first_row(engine: Engine, query: "peewee.ModelSelect[Any]") -> Any:
    """Return the first row of a query for named tuples; None if there is none.

    NOTE: not first(), which does not close the statement with named tuples. On SQLite no later
    transaction of this connection could write then.
    """
    return next(iter(list(query.execute(engine))), None)


class Entity(NamedTuple, Generic[T]):
    """A kind of row that pages show and change, such as accounts."""

    name: str
    """A noun, such as `account`."""
    place: str
    """The first segment of the paths of its pages; the second segment names a row."""
    rows: Callable[[str], "peewee.ModelSelect[Any]"]
    """Selects the row that a segment names, to find or lock it."""
    version: Callable[[T], str]
    """Returns the version of a row, as `version_of` does."""
    finder: Callable[[Engine, str], T | None] | None = None
    """Returns the row that a segment names, if pages show more than `rows` selects."""
    why_missing: str = "It was deleted, or never was."
    refusal: Refusal = CHANGED_MEANWHILE
    """The refusal of a form from an older state."""

    def find(self, engine: Engine, segment: str) -> T | None:
        """Return the row that a segment names, None if there is none."""
        if self.finder is not None:
            return self.finder(engine, segment)
        found: T | None = self.rows(segment).first(engine)
        return found

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
            uses_reserve: whether the change must work on a full disk (D57).

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
    """A form about the row that its path names.

    GET shows the form. POST accepts the form, or shows it again with its faults.
    """

    entity: Entity[T]
    template: str
    fields: Sequence[Field] = ()

    def _find(self, **segments: str) -> T:
        """Return the row that the path names. Raises PageError if there is none."""
        return self.entity.require(self.engine, *segments.values())

    def _fields(self, row: T) -> Sequence[Field]:
        """Return the fields; by default those that are the same for all rows."""
        return self.fields

    def _initial(self, row: T) -> Mapping[str, str]:
        """Return the values to begin with. Raises PageError if there is nothing to fill in now."""
        return {}

    def _values(self, req: ConsoleRequest, row: T) -> Values:
        """Return the values of the template besides `form`."""
        return {}

    def _received(self, req: ConsoleRequest, row: T) -> Form:
        """Return the form that a browser has sent, with its faults."""
        return Form.received(req, self._fields(row))

    @abstractmethod
    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: T, form: Form) -> None:
        """Accept a form without faults, and answer; or add the faults found now."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Show the form."""
        row = self._find(**segments)
        self._show(req, resp, row, Form(self._fields(row), self._initial(row)))

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Accept the form, or show it again."""
        row = self._find(**segments)
        form = self._received(req, row)
        if form.is_sound:
            self._accept(req, resp, row, form)
        if not form.is_sound:
            resp.status = falcon.HTTP_422
            self._show(req, resp, row, form)

    def _show(self, req: ConsoleRequest, resp: falcon.Response, row: T, form: Form) -> None:
        self.show(req, resp, self.template, {**self._values(req, row), "form": form})


class RowlessForm(FormPage[None]):
    """A form whose path names no row."""

    def _find(self, **segments: str) -> None:
        pass


class ConfirmationText(NamedTuple):
    """The question of a page before a change."""

    heading: str
    text: str
    button: str
    is_dangerous: bool = True


def ask(
    page: Resource,
    req: ConsoleRequest,
    resp: falcon.Response,
    question: ConfirmationText,
    *back: str,
    version: str = "",
) -> None:
    """Answer with a question.

    Args:
        back: the segments of the path to go to instead.
        version: the version of the row, for `require_version`.
    """
    values = {"question": question, "back": back, "version": version}
    page.show(req, resp, "confirm.html", values)


class Confirmation(Resource, ABC, Generic[T]):
    """A question before a row is changed: GET asks it, and POST changes the row."""

    entity: Entity[T]
    done: str
    """The value of `done` on the next page."""
    leads_to_list = False
    """Whether the next page is the list, as when the row is gone."""
    uses_reserve = False
    """Whether the change must work on a full disk (D57)."""

    @abstractmethod
    def _question(self, row: T) -> ConfirmationText:
        """Return the question. Raises PageError if the change is not possible now."""

    @abstractmethod
    def _change(self, row: T, actor: Actor) -> None:
        """Change a row, in the transaction that has locked it."""

    def _changed(self) -> None:
        """Do what follows a change, once it is committed; by default nothing."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Ask for confirmation."""
        (segment,) = segments.values()
        row, place = self.entity.require(self.engine, segment), self.entity.place
        question, version = self._question(row), self.entity.version(row)
        ask(self, req, resp, question, place, segment, version=version)

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, **segments: str) -> None:
        """Change the row."""
        (segment,) = segments.values()

        def checked(row: T) -> None:
            self._question(row)  # It may have become impossible.
            self._change(row, req.actor)

        uses_reserve = self.uses_reserve
        self.entity.change(req, self.engine, segment, checked, uses_reserve=uses_reserve)
        self._changed()
        next_page = (self.entity.place,) if self.leads_to_list else (self.entity.place, segment)
        redirect(req, resp, *next_page, done=self.done)
