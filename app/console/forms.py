"""Forms: their fields, the values that browsers send, and the faults of the values."""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Literal, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode

import falcon
import msgspec

from app import clock
from app.accounts.models import NAME_CHARACTERS_MAX
from app.console.rendering import ConsoleRequest
from app.console.resources import PageError
from app.errors import OperatorError, Problem
from app.text import as_sentence

VERSION_FIELD = "version"
"""The field that holds the version of the row that a form shows."""
_FIELDS_MAX = 100


class Field(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    hint: str = ""
    characters_max: int = NAME_CHARACTERS_MAX
    is_required: bool = True
    choices: Sequence[str] = ()
    """The values of a list to choose from; empty for a line of text."""
    kind: Literal["text", "lines", "date", "number"] = "text"
    """One line of text, several lines, a day, or a whole number."""
    least: int = 0
    most: int = 0
    """The range of a number."""


class Form:
    """The values of a form's fields, and a sentence for each wrong one.

    Args:
        values: the values of the fields; empty by default.
    """

    def __init__(self, fields: Iterable[Field], values: Mapping[str, str] | None = None) -> None:
        self.fields = tuple(fields)
        self.values = {field.name: (values or {}).get(field.name, "") for field in self.fields}
        self.faults: dict[str, str] = {}

    @classmethod
    def received(cls, req: ConsoleRequest, fields: Iterable[Field]) -> Self:
        """Return the form that a browser has sent, with its faults. Raises as `read_fields`."""
        form = cls(fields, read_fields(req))
        for field in form.fields:
            # A tab may begin a pasted table, whose first cell is empty.
            blanks = "\r\n " if field.kind == "lines" else None
            form.values[field.name] = value = form.values[field.name].strip(blanks)
            is_given = value or field.is_required
            fault = next(_faults(field, value), None) if is_given else None
            if fault:
                form.faults[field.name] = fault
        return form

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def number(self, name: str) -> int:
        """Return the value of a number's field that is sound."""
        return int(self.values[name])

    def day(self, name: str) -> date | None:
        """Return the value of a day's field that is sound; None if it is empty."""
        return clock.parse_iso_date(self.values[name])

    @contextmanager
    def refused_for(self, name: str) -> Iterator[None]:
        """Note an OperatorError as the fault of a field."""
        try:
            yield
        except OperatorError as error:
            self.faults[name] = as_sentence(error.sentence)

    @property
    def is_sound(self) -> bool:
        """Whether no field is wrong."""
        return not self.faults


def read_fields(req: ConsoleRequest) -> Mapping[str, str]:
    """Return the fields of the form that a browser has sent. Raises Problem or PageError."""
    body = req.context.body
    if isinstance(body, Problem):
        raise body
    if (req.content_type or "").partition(";")[0].strip().lower() != falcon.MEDIA_URLENCODED:
        raise _malformed("It must be sent as a form.")
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError:  # UnicodeError is one, too.
        raise _malformed("Its fields cannot be read.") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _malformed("It has a field twice.")
    if any("\0" in text for pair in pairs for text in pair):
        raise _malformed("It contains the character NUL.")
    return fields


Refusal = tuple[str, str]
"""Why a form from an older state is refused: a heading and a text."""
CHANGED_MEANWHILE: Refusal = (
    "Somebody else has changed this meanwhile",
    "Nothing was changed by you. Look at the page as it is now, and decide again.",
)


def version_of(*shown: object) -> str:
    """Return the version of a page: another text if the page shows anything else.

    The page's form sends this version back. If the row has another one then, `require_version`
    refuses the form: two operators must not undo each other's work unseen.
    """
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


def require_version(
    req: ConsoleRequest,
    current: str,
    back: tuple[str, ...],
    refusal: Refusal = CHANGED_MEANWHILE,
) -> None:
    """Refuse a form that was made from an older state. Raises PageError.

    Call it within the transaction that changes the row, after the row was locked.
    """
    if read_fields(req).get(VERSION_FIELD) != current:
        raise PageError(409, *refusal, back=back)


def _faults(field: Field, value: str) -> Iterator[str]:
    """Yield the faults of a value, the most important first."""
    if not value and field.kind != "number":
        yield f"{field.label} is needed."
    if len(value) > field.characters_max:
        yield (
            f"{field.label} can have at most {field.characters_max:,} characters; "
            f"this one has {len(value):,}."
        )
    if field.kind == "lines":
        # Other characters that are not printable get pasted with a text, unseen.
        if any(unicodedata.category(each) == "Cc" and each not in "\r\n\t" for each in value):
            yield f"{field.label} must not contain control characters."
    elif not value.isprintable():
        yield f"{field.label} must not contain line breaks or control characters."
    if field.choices and value not in field.choices:
        yield f"Choose one of the list as {field.label.lower()}."
    if field.kind == "number" and not _is_within(value, field.least, field.most):
        yield f"{field.label} must be a whole number from {field.least:,} to {field.most:,}."
    if field.kind == "date":
        day = clock.parse_iso_date(value)
        if day is None:
            yield f"{field.label} {clock.day_fault(value)}."
        # The last day of the calendar has no end.
        elif day == date.max:
            yield f"{field.label} must be before {date.max}."


def _is_within(text: str, least: int, most: int) -> bool:
    # NOTE: int() refuses texts of thousands of digits, which no field takes.
    return text.isascii() and text.isdigit() and least <= int(text) <= most


def _malformed(text: str) -> PageError:
    return PageError(400, "This form is malformed", f"Nothing was changed. {text}")


# Pages that load themselves again while something runs, also without JavaScript.

REFRESH_SECONDS = 3
_MEMBER = "refresh"
_OFF, _AUTO = "off", "auto"


def refresh(
    req: falcon.Request,
    resp: falcon.Response,
    *,
    is_running: bool,
    seconds: int = REFRESH_SECONDS,
) -> bool:
    """Make the browser load the page again, unless the person has stopped that.

    A link with `refresh=off` stops it for people who need more time to read (WCAG 2.2.2). This is
    a header because checkers of accessibility refuse the HTML element, even with such a link.

    Args:
        is_running: whether the page can change by itself.
        seconds: the time until the browser loads the page.

    Return whether the browser will load the page again.
    """
    does = is_running and req.params.get(_MEMBER) != _OFF
    if does:
        query = urlencode({**req.params, _MEMBER: _AUTO}, doseq=True)
        resp.set_header("Refresh", f"{seconds}; url=?{query}")
    return does


def is_reload(req: falcon.Request) -> bool:
    """Tell whether the browser loads a page again by itself, without a person."""
    return req.params.get(_MEMBER) == _AUTO
