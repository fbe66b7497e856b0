"""Decodes JSON objects without loss of digits."""

from typing import Any

import msgspec

from app.registers.formats.line_blocks import windows_1252


class JsonNumber(str):
    """The text of a JSON number with a fraction or an exponent. It never becomes a float."""

    __slots__ = ()


_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=JsonNumber)


def decoded_object(text: bytes | str) -> dict[str, Any]:
    """Return the members of a JSON object.

    Numbers without a fraction or an exponent become integers; all others become `JsonNumber`.
    Raises ValueError or RecursionError if the text is not a JSON object.
    """
    return _decoder.decode(text)


def find_object(text: bytes) -> dict[str, Any] | None:
    """Return the members of a JSON object, or None if the text is not a JSON object."""
    try:
        return decoded_object(decoded_text(text))
    except (ValueError, RecursionError):
        return None


def decoded_text(text: bytes) -> str:
    """Decode a record as UTF-8, or as Windows-1252 if it is not valid UTF-8 (formats 0.5)."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return windows_1252(text)
