"""JSON in and out: bodies taken in whole, decoded strictly, encoded once (D5, D6)."""

import sys
from contextlib import suppress
from typing import Any, TypeVar, get_args, get_origin

import falcon
import msgspec

from app.errors import Problem

BODY_BYTES_MAX = 1024 * 1024
DRAINED_BYTES_MAX = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_LENGTH_DIGITS_MAX = 18
_JSON = "application/json"
_JSON_BLANKS = b" \t\r\n"

_T = TypeVar("_T")


class BodyIntake:
    """Reads every body before anything else happens, so that each refusal gets through (D5).

    An unread body makes nginx answer 502. What is wrong with the body is kept for its turn in
    the order of checks.
    """

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Take the body in, up to 1 MiB; read and throw away the rest, up to 4 MiB."""
        req.context.body = _take_in(req)


def _take_in(req: falcon.Request) -> bytes | Problem:
    stream = req.env["wsgi.input"]
    if "HTTP_TRANSFER_ENCODING" in req.env:
        _drain(stream, DRAINED_BYTES_MAX)
        return Problem("invalid_request", "A body must be sent with its Content-Length.")
    length = req.env.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.isdigit()):
        return Problem("invalid_request", "Content-Length is not a number.")
    # SEC: int() refuses texts of thousands of digits.
    length_bytes = int(length) if len(length) <= _LENGTH_DIGITS_MAX else sys.maxsize
    if length_bytes > BODY_BYTES_MAX:
        _drain(stream, min(length_bytes, DRAINED_BYTES_MAX))
        return Problem("body_too_large", f"A body holds at most {BODY_BYTES_MAX:,} bytes.")
    body = b""
    with suppress(OSError):  # The client went away.
        body = stream.read(length_bytes) if length_bytes else b""
    if len(body) < length_bytes:
        return Problem("invalid_request", "The body ended before its Content-Length.")
    return body


def _drain(stream: Any, bytes_max: int) -> None:
    # NOTE: what a server raises on a malformed chunk is its own; the answer is the same.
    with suppress(Exception):
        while bytes_max > 0:
            chunk = stream.read(min(_CHUNK_BYTES, bytes_max))
            if not chunk:
                return
            bytes_max -= len(chunk)


def refuse_broken_body(req: falcon.Request) -> None:
    """Refuse a chunked or cut-off body where no body is asked for; a whole one is ignored (D5).

    Raises Problem invalid_request.
    """
    body: bytes | Problem = req.context.body
    if isinstance(body, Problem) and body.code == "invalid_request":
        raise body


def read_json(req: falcon.Request, shape: type[_T]) -> _T:
    """Return the request's JSON body in the shape asked for; unknown members are ignored (D6).

    Raises Problem: body_too_large, unsupported_media_type, invalid_request, invalid_json, or
    invalid_body with a pointer to the member at fault.
    """
    body: bytes | Problem = req.context.body
    if isinstance(body, Problem) and body.code == "body_too_large":
        raise body
    _require_json_content_type(req)
    if isinstance(body, Problem):
        raise body
    _require_clean_text(body)
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError:
        pointer, detail = _fault_of(body, shape)
        raise Problem.at(pointer, "invalid_body", detail) from None
    except RecursionError:
        raise Problem("invalid_json", "The body is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeError):
        raise Problem("invalid_json", "The body is not JSON.") from None


def _require_json_content_type(req: falcon.Request) -> None:
    media_type, _, rest = (req.content_type or "").partition(";")
    charset = rest.replace(" ", "").replace('"', "").lower()
    if media_type.strip().lower() != _JSON or charset not in ("", "charset=utf-8"):
        raise Problem("unsupported_media_type", f"The body must be sent as {_JSON}, in UTF-8.")


def _require_clean_text(body: bytes) -> None:
    """Refuse what msgspec lets pass: NUL characters, and bad UTF-8 in unknown members."""
    try:
        body.decode()
    except UnicodeDecodeError:
        raise Problem("invalid_json", "The body is not UTF-8.") from None
    # PERF: pairs of backslashes are backslashes, and taken out first: 2 ms for 1 MiB of them.
    if b"\\u0000" in body and b"\\u0000" in body.replace(b"\\\\", b"__"):
        raise Problem("invalid_json", "The body holds a NUL character.")


def _fault_of(body: bytes, shape: type) -> tuple[str, str]:
    """Return the JSON pointer of the first member that is not as the shape has it, and why.

    msgspec says so to people only. So each member is decoded again by itself, which reads no
    further than the body was read before.
    """
    if not body.lstrip(_JSON_BLANKS).startswith(b"{"):
        return "", "The body must be a JSON object."
    missing = ""
    for field in msgspec.structs.fields(shape):
        name = field.encode_name
        try:
            value = _member(body, name, field.type)
        except msgspec.ValidationError:
            place = _faulty_place(body, name, field.type)
            return f"/{name}{place}", f"This must be {_described(field.type, is_item=bool(place))}."
        except RecursionError:  # Of a member after the one at fault.
            continue
        if value is msgspec.UNSET and field.required:
            missing = missing or name
    return f"/{missing}", f"The member {missing} is missing."


def _member(body: bytes, name: str, kind: Any) -> Any:
    """Return one member of a JSON object, UNSET if it is missing. Raises ValidationError."""
    shape = msgspec.defstruct("Member", [("value", kind, msgspec.UNSET)], rename={"value": name})
    decoded: Any = msgspec.json.decode(body, type=shape)
    return decoded.value


def _faulty_place(body: bytes, name: str, kind: Any) -> str:
    """Return the place in an array of the first item at fault, as `/3`; else the empty text."""
    if get_origin(kind) is not list:
        return ""
    with suppress(msgspec.ValidationError, RecursionError):  # It is no array, or nested too deeply.
        for place, item in enumerate(_member(body, name, list[msgspec.Raw])):
            try:
                msgspec.json.decode(item, type=get_args(kind)[0])
            except msgspec.ValidationError:
                return f"/{place}"
    return ""


def _described(kind: Any, *, is_item: bool) -> str:
    """Return what a member must be, or an item of it."""
    return "an array of strings" if get_origin(kind) is list and not is_item else "a string"


def answer(resp: falcon.Response, members: object) -> None:
    """Put JSON into a response."""
    resp.content_type = _JSON
    resp.data = msgspec.json.encode(members)
