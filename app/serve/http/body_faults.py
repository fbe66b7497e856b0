"""Says what is wrong with a body, and where, without quoting its values (D5, D90).

Of a body that is not JSON, a hint says in a sentence what it seems to be.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin

import msgspec

from app.errors import Problem
from app.serve.http.parameters import is_plain_name, unknown

_COMPRESSED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"PK\x03\x04")
_OTHER_UNICODE = (b"\xff\xfe", b"\xfe\xff")
# What a text begins with, or what is at the place where it stops being JSON.
_BEGINNINGS = (
    (r"[\w.%+-]+=", "This looks like a form. Send a JSON object."),
    (r"<", "This looks like XML. Send a JSON object."),
    (r"%7[Bb]", "This is percent-encoded. Send plain JSON."),
    (r"[^\[{\"'\s]", "A JSON object begins with `{`."),
)
_SPACES = " \t\r\n"
_COMMENT = re.compile(r"//|/\*|#")
_PLACES = (
    (r"'", "JSON takes double quotes, not single ones."),
    (r"[\u2018-\u201f\u00ab\u00bb]", "JSON takes straight double quotes."),
    (r"\\", "Quotes around texts must not have a backslash before them."),
    (r"[,\]}]", "A value is missing here, or there is a comma too many."),
    (r"(True|False|None|undefined)\b", "JSON has the words `true`, `false` and `null`."),
    (r"[+.-]", "A number begins with a digit, or with `-` and a digit."),
    (r"\w|\$", "Texts and names of members need double quotes."),
)
# By the beginning of the parser's message.
_MESSAGES = {
    "Expecting ','": "A comma or a quote is missing.",
    "Expecting ':'": "A colon is missing here.",
    "Extra data": "Something follows the JSON object.",
    "Invalid \\escape": r"JSON has no such escape; a backslash in a text is written `\\`.",
    "Invalid \\uXXXX escape": r"After `\u` there must be four hexadecimal digits.",
    "Invalid control character": (
        r"Control characters in a text are escaped: a line end as `\n`, a tab as `\t`."
    ),
}


def bytes_hint(body: bytes) -> str | None:
    """Return what bytes that are not UTF-8 seem to be, None if nothing is recognised."""
    if body.startswith(_COMPRESSED):
        return "The body is compressed. Send it uncompressed."
    if body.startswith(_OTHER_UNICODE):
        return "The body is UTF-16 or UTF-32. Send it in UTF-8."
    return None


def text_hint(text: str, error: json.JSONDecodeError) -> str | None:
    """Return what a text seems to be, or what is wrong at the place of the error, if known."""
    if "\x00" in text[:4]:
        return "The body is UTF-16 or UTF-32. Send it in UTF-8."
    rest = text[error.pos :].lstrip(_SPACES)
    found = None if text[: error.pos].strip() else _first_match(_BEGINNINGS, rest)
    return found or _gap_hint(rest, error.msg) or _first_match(_PLACES, rest)


def _gap_hint(rest: str, message: str) -> str | None:
    """Return what seems to be missing before the rest of a text, or too much in it."""
    if not rest or message.startswith("Unterminated string"):
        return "Its end is missing, or a closing quote."
    # NOTE: what is invalid is inside a text, where other spaces are right.
    if rest[0].isspace() and not message.startswith("Invalid"):
        return "JSON has no such space; it may be a no-break space."
    if _COMMENT.match(rest):
        return "JSON has no comments."
    if message.startswith("Expecting ','") and rest[0] in "]}":
        return "A bracket before this is not closed."
    return next((hint for start, hint in _MESSAGES.items() if message.startswith(start)), None)


def _first_match(hints: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((hint for pattern, hint in hints if re.match(pattern, text)), None)


_NO_OBJECT = "The body must be a JSON object"
_TOO_DEEP = "The body is nested too deeply."
# SEC: searching all of a large body would take much longer than answering a right one.
_SEARCHED_BYTES_MAX = 64 * 1024
_SEARCHED_ITEMS_MAX = 10_000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_KINDS = {
    "{": "an object",
    "[": "an array",
    '"': "a string",
    "t": "true",
    "f": "false",
    "n": "null",
}


class _NotANumber(ValueError):
    """A body contains NaN or Infinity."""


def syntax_fault(body: bytes) -> str:
    """Return a sentence that says where a body stops being the JSON we take."""
    if not body.strip():
        return f"The body is empty. {_NO_OBJECT}."
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return bytes_hint(body) or f"The body is not UTF-8: see byte {error.start + 1:,}."
    if text.startswith("\ufeff"):
        return "The body begins with a byte order mark. Send it without one."
    if len(body) > _SEARCHED_BYTES_MAX:
        return "The body is not JSON."
    return f"The body is not JSON{_position(text)}"


def _position(text: str) -> str:
    """Return the end of a sentence, where a text stops being JSON or why, and perhaps a hint."""
    try:
        # Numbers stay texts: a long one would take long to read.
        json.loads(text, parse_constant=_refuse_constant, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        place = f": see line {error.lineno:,}, column {error.colno:,}."
        hint = text_hint(text, error)
        return f"{place} {hint}" if hint else place
    except _NotANumber:
        return ": it contains NaN or Infinity."
    if _SURROGATE.search(text):
        return r": it contains half of a surrogate pair (\ud800 to \udfff)."
    return "."


def _refuse_constant(_: str) -> NoReturn:
    raise _NotANumber


_LEVELS_MAX = 500
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_STEPS = bytes.maketrans(b"[{]}", bytes([1, 1, 255, 255]))  # 255 is -1 as a signed byte.


def _is_nested_too_deeply(body: bytes) -> bool:
    """Tell whether arrays and objects are nested more than _LEVELS_MAX deep (D103).

    PERF: the search takes 35 ms for 1 MiB of brackets, and 55 ms for 1 MiB of quotes.
    """
    if body.count(b"[") + body.count(b"{") <= _LEVELS_MAX:
        return False
    without_escapes = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_texts = b"".join(without_escapes.split(b'"')[::2])
    steps = outside_texts.translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > _LEVELS_MAX


def refusal_of(body: bytes, shape: type[msgspec.Struct]) -> Problem:
    """Return the refusal of a body that does not fit a Struct.

    Its code is invalid_json if the body is not JSON; otherwise unknown_member or invalid_body,
    with a JSON pointer to the first member at fault.
    """
    # How many levels a decoder follows depends on the version of Python.
    if _is_nested_too_deeply(body):
        return Problem("invalid_json", _TOO_DEEP)
    try:
        # NOTE: a Struct is decoded up to its first fault only, and the rest may be no JSON. A
        # wrong type does not help somebody who lost a quote.
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        return Problem("invalid_json", syntax_fault(body))
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        detail = f"{_NO_OBJECT}; got {_kind(body.decode().lstrip())}."
        if detail.endswith("a string."):
            detail += " It may have been encoded twice."
        return Problem.at("", "invalid_body", detail)
    # Of members with the same name only the last one is left here. What fits in all parts, but not
    # as a whole, is nested too deeply.
    problem = _object_problem(members, shape) or repeated_member(body)
    return problem or Problem("invalid_json", _TOO_DEEP)


def repeated_member(body: bytes) -> Problem | None:
    """Return the refusal of a member that an object has more than once, None if there is none.

    Outer objects come before those within them.

    Args:
        body: an object whose members are all known, at every depth.
    """
    # PERF: one colon is one member; 0.04 ms in place of 0.5 for 10,000 plates.
    if body.count(b":") < 2:
        return None
    repeated: list[tuple[tuple[str, object], ...]] = []

    def distinct(pairs: list[tuple[str, object]]) -> object:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        # A tuple stands for an object with a repeated member: JSON has no other.
        repeated.append(tuple(pairs))
        return repeated[-1]

    try:
        document = json.loads(body, object_pairs_hook=distinct, parse_int=str, parse_float=str)
        if not repeated:
            return None
        path = _path_of_repeated(document)
    except RecursionError:  # Of the decoder, or since Python 3.14 of the search.
        return Problem("invalid_json", _TOO_DEEP)
    pointer = "".join(f"/{each}" for each in path)
    name = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    detail = f"The member {name.removeprefix('.')} is given more than once."
    return Problem.at(pointer, "invalid_body", detail)


def _path_of_repeated(value: object) -> tuple[str | int, ...]:
    """Return names and positions that lead to the first repeated member; empty if there is none."""
    if isinstance(value, tuple):
        counts = Counter(name for name, _ in value)
        return (next(name for name, count in counts.items() if count > 1),)
    parts: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for place, part in parts:
        path = _path_of_repeated(part)
        if path:
            return (place, *path)
    return ()


def _object_problem(
    members: Mapping[str, msgspec.Raw], shape: type[msgspec.Struct], pointer: str = "", of: str = ""
) -> Problem | None:
    """Return the refusal of the first member that is unknown, missing or wrong.

    Args:
        pointer: where the object is.
        of: what comes before the names of its members in a sentence, such as `add[0].`.
    """
    fields = msgspec.structs.fields(shape)
    known = [field.encode_name for field in fields]
    for name in members:
        if name not in known:
            place = f"{pointer}/{name}" if is_plain_name(name) else pointer
            return Problem.at(place, "unknown_member", unknown("member", name, known))
    for field in fields:
        name = field.encode_name
        if name in members:
            problem = _problem(members[name], field.type, f"{pointer}/{name}", of + name)
            if problem is not None:
                return problem
        elif field.required:
            detail = f"The member {of}{name} is missing."
            return Problem.at(f"{pointer}/{name}", "invalid_body", detail)
    return None


def _problem(value: msgspec.Raw, expected: Any, pointer: str, name: str) -> Problem | None:
    """Return the refusal of a value that does not fit a type; None if it fits.

    Args:
        pointer: where the value is.
        name: what the sentence calls it, such as `registrations[0]`.
    """
    try:
        msgspec.json.decode(value, type=expected)
    except msgspec.ValidationError:
        pass
    else:
        return None
    with suppress(msgspec.ValidationError):  # It is no array, or no object.
        if get_origin(expected) is list:
            return _item_problem(value, expected, pointer, name)
        if isinstance(expected, type) and issubclass(expected, msgspec.Struct):
            members = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
            return _object_problem(members, expected, pointer, f"{name}.")
    got = _kind(bytes(value).decode())
    detail = f"{_subject(name)} must be {_described(expected)}; got {got}."
    return Problem.at(pointer, "invalid_body", detail)


def _item_problem(value: msgspec.Raw, expected: Any, pointer: str, name: str) -> Problem | None:
    """Return the refusal of an array that has a wrong item; None if items only repeat members.

    Raises msgspec.ValidationError if the value is no array.
    """
    (item_type,) = get_args(expected)
    items = msgspec.json.decode(value, type=list[msgspec.Raw])
    for number, item in enumerate(items[:_SEARCHED_ITEMS_MAX]):
        problem = _problem(item, item_type, f"{pointer}/{number}", f"{name}[{number}]")
        if problem is not None:
            return problem
    if len(items) <= _SEARCHED_ITEMS_MAX:
        return None
    detail = f"{_subject(name)} must be {_described(expected)}; one item is not."
    return Problem.at(pointer, "invalid_body", detail)


def _subject(name: str) -> str:
    return name if name.endswith("]") else f"The member {name}"


def _kind(text: str) -> str:
    """Return what a JSON value is, in words."""
    return _KINDS.get(text[:1], "a number")


# Whole numbers may be written as 28.0, which is a float to the decoder.
_WORDS = {int: "whole number", str: "string"}


def _described(expected: Any) -> str:
    """Return what a member must be, in words of JSON."""
    if get_origin(expected) is list:
        (item_type,) = get_args(expected)
        return f"an array of {_described(item_type).partition(' ')[2]}s"
    types = get_args(expected) or (expected,)
    if bool in types:
        return "true, false or null" if NoneType in types else "true or false"
    name = _WORDS.get(types[0])
    described = f"a {name}" if name else "an object"
    return f"{described} or null" if NoneType in types else described
