"""Guesses what a body was meant to be that is not JSON, so that its sender can correct it (D103).

A hint is a sentence, and quotes nothing of the body.
"""

import json
import re

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
