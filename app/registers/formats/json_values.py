"""JSON objects decoded so that nothing of them is lost."""

from typing import Any

import msgspec

from app.registers.formats.line_blocks import windows_1252


class JsonNumber(str):
    """A JSON number with a fraction or an exponent, as it stands in the file: never a float."""

    __slots__ = ()


_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=JsonNumber)


def decoded_object(text: bytes | str) -> dict[str, Any]:
    """Decode an object with all its members.

    Whole numbers become integers, all others a `JsonNumber`. Raises ValueError or RecursionError if
    the text is not a JSON object.
    """
    return _decoder.decode(text)


def find_object(text: bytes) -> dict[str, Any] | None:
    """Return the object that a text is; None if it is not a JSON object."""
    try:
        return decoded_object(decoded_text(text))
    except (ValueError, RecursionError):
        return None


def decoded_text(text: bytes) -> str:
    """Decode a record as UTF-8, or as Windows-1252 if it is not UTF-8 (formats 0.5)."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return windows_1252(text)
