"""Forms: reads what a browser sends, and shows it again with what is wrong."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

from app.accounts.models import NAME_CHARACTERS_MAX
from app.console.context import ConsoleRequest, PageError
from app.errors import Problem

VERSION_FIELD = "version"
"""The field that holds the version of what a form shows."""
_FIELDS_MAX = 100
_FORM = "application/x-www-form-urlencoded"


class Field(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    hint: str = ""
    characters_max: int = NAME_CHARACTERS_MAX
    is_required: bool = True
    choices: Sequence[str] = ()
    """The values of a list to choose from; a line of text if it is empty."""
    input_mode: str = "text"
    """The keyboard that a phone shows: `text` or `numeric`."""


class Form:
    """The values of a form's fields, and a sentence for each wrong one.

    Args:
        values: what the fields hold; empty by default.
    """

    def __init__(self, fields: Iterable[Field], values: Mapping[str, str] | None = None) -> None:
        self.fields = tuple(fields)
        self.values = {field.name: (values or {}).get(field.name, "") for field in self.fields}
        self.faults: dict[str, str] = {}

    @classmethod
    def received(cls, req: ConsoleRequest, fields: Iterable[Field]) -> "Form":
        """Return the form that a browser has sent, checked. Raises PageError if it is none."""
        form = cls(fields, read_fields(req))
        for field in form.fields:
            form.values[field.name] = value = form.values[field.name].strip()
            fault = _fault(field, value)
            if fault:
                form.faults[field.name] = fault
        return form

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    @property
    def is_sound(self) -> bool:
        """Whether no field is wrong."""
        return not self.faults


def read_fields(req: ConsoleRequest) -> Mapping[str, str]:
    """Return the fields of the form that a browser has sent. Raises Problem or PageError."""
    body = req.context.body
    if isinstance(body, Problem):
        raise body
    if (req.content_type or "").partition(";")[0].strip().lower() != _FORM:
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


def version_of(*shown: object) -> str:
    """Return a text that differs if what a page shows differs.

    A form carries it back. If somebody has changed the row meanwhile, the form is refused.
    """
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


def require_version(req: ConsoleRequest, current: str, back: tuple[str, ...]) -> None:
    """Refuse a form that was made from an older state. Raises PageError.

    Call it within the transaction that changes the row, after the row was locked.
    """
    if read_fields(req).get(VERSION_FIELD) != current:
        raise PageError(
            409,
            "Somebody else has changed this meanwhile",
            "Nothing was changed by you. Look at the page as it is now, and decide again.",
            back=back,
        )


def _fault(field: Field, value: str) -> str | None:
    if not value:
        return f"{field.label} is needed." if field.is_required else None
    if len(value) > field.characters_max:
        return (
            f"{field.label} can have at most {field.characters_max:,} characters; "
            f"this one has {len(value):,}."
        )
    if not value.isprintable():
        return f"{field.label} must not contain line breaks or control characters."
    if field.choices and value not in field.choices:
        return f"Choose one of the list as {field.label.lower()}."
    return None


def _malformed(text: str) -> PageError:
    return PageError(400, "This form is malformed", f"Nothing was changed. {text}")
