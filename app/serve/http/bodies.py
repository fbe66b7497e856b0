"""JSON in and out: bodies taken in whole, decoded strictly, encoded once (D5)."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from wsgiref.types import InputStream

import falcon
import msgspec

from app.errors import Problem
from app.serve.http.body_faults import refusal_of, repeated_member, syntax_fault
from app.serve.http.context import Request

BODY_BYTES_MAX = 1024 * 1024
DRAINED_BYTES_MAX = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_LENGTH_DIGITS_MAX = 18
# The defaults of .NET's PostAsJsonAsync and of Spring's RestClient are chunks.
_WITHOUT_LENGTH = (
    "A body must be sent with its Content-Length and without Transfer-Encoding: .NET needs "
    "LoadIntoBufferAsync, Spring a BufferingClientHttpRequestFactory."
)
_JSON = "application/json"
_CHARSETS = frozenset({"charset=utf-8", "charset=utf8"})
# What clients send by mistake. A type that is not listed is not repeated (D90).
_OTHER_TYPES = {
    "": "none",
    "application/x-www-form-urlencoded": "a form, the default of `curl -d`",
    "multipart/form-data": "a form",
    "text/plain": "text/plain",
    "text/json": "text/json",
    "application/xml": "XML",
    "text/xml": "XML",
}


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends as JSON; a member that the operation does not have is refused."""


_T = TypeVar("_T", bound=RequestBody)


class BodyIntake:
    """Reads every body before anything else happens.

    NOTE: if a request is refused with its body unread, nginx answers 502 in place of the refusal.
    A fault of the body is kept in the context until it is its turn in the order of checks.
    """

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Read the body, up to 1 MiB; read and discard a longer one, up to 4 MiB."""
        req.context.body = _take_in(req)


def _take_in(req: Request) -> bytes | Problem:
    stream = req.env["wsgi.input"]
    if "HTTP_TRANSFER_ENCODING" in req.env:
        _drain(stream, DRAINED_BYTES_MAX)
        return Problem("invalid_request", _WITHOUT_LENGTH)
    length = req.env.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.isdigit()):
        return Problem("invalid_request", "Content-Length is not a number.")
    # SEC: int() refuses texts of thousands of digits.
    length_bytes = int(length) if len(length) <= _LENGTH_DIGITS_MAX else sys.maxsize
    if length_bytes > BODY_BYTES_MAX:
        _drain(stream, min(length_bytes, DRAINED_BYTES_MAX))
        detail = f"A body has at most {BODY_BYTES_MAX:,} bytes; got more."
        return Problem("body_too_large", detail)
    if not length_bytes:
        return b""
    body = b""
    with suppress(OSError):  # The client went away.
        body = stream.read(length_bytes)
    if len(body) < length_bytes:
        return Problem("invalid_request", "The body ended before its Content-Length.")
    return body


def _drain(stream: InputStream, bytes_max: int) -> None:
    # NOTE: servers raise errors of their own for a malformed chunk; the answer is the same.
    with suppress(Exception):
        while bytes_max > 0:
            chunk = stream.read(min(_CHUNK_BYTES, bytes_max))
            if not chunk:
                return
            bytes_max -= len(chunk)


def refuse_broken_body(req: Request) -> None:
    """Refuse a chunked or incomplete body where none is needed; ignore a complete one.

    Raises Problem invalid_request.
    """
    body = req.context.body
    if isinstance(body, Problem) and body.code == "invalid_request":
        raise body


def read_json(req: falcon.Request, shape: type[_T]) -> _T:
    """Return the request's JSON body, checked.

    Raises Problem: body_too_large, unsupported_media_type, invalid_request, invalid_json, or
    invalid_body or unknown_member with a pointer to the member at fault.
    """
    body: bytes | Problem = req.context.body
    if isinstance(body, Problem) and body.code == "body_too_large":
        raise body
    if body != b"" or req.content_type:  # What is missing is the body, not its type.
        _require_json_content_type(req)
    if isinstance(body, Problem):
        raise body
    _require_clean_text(body)
    try:
        members = msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, RecursionError):
        raise refusal_of(body, shape) from None
    # Whoever sends a member twice expects both to count: of two plates the first would be lost.
    # PERF: the second reading takes 17 ms for 10,000 watches, 0.3 ms for 10,000 plates.
    problem = repeated_member(body)
    if problem is not None:
        raise problem
    return members


def _require_json_content_type(req: falcon.Request) -> None:
    media_type, *rest = (req.content_type or "").replace('"', "").lower().split(";")
    media_type = media_type.strip()
    parameters = {"".join(each.split()) for each in rest} - {""}
    if media_type != _JSON or not parameters <= _CHARSETS:
        if media_type != _JSON:
            got = _OTHER_TYPES.get(media_type, "another type")
        elif all(each.startswith("charset=") for each in parameters):
            got = "another charset"
        else:
            got = "another parameter than `charset`"
        detail = f"The body must be sent as `Content-Type: {_JSON}`, in UTF-8; got {got}."
        raise Problem("unsupported_media_type", detail)
    if req.env.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() not in ("", "identity"):
        detail = "The body must be sent as it is, without Content-Encoding."
        raise Problem("unsupported_media_type", detail)


def _require_clean_text(body: bytes) -> None:
    """Refuse NUL characters, and bad UTF-8 in unknown members: msgspec accepts both."""
    # Whatever is stored must be something that can be sent back.
    try:
        body.decode()
    except UnicodeDecodeError:
        raise Problem("invalid_json", syntax_fault(body)) from None
    # PERF: pairs of backslashes are backslashes, and taken out first: 2 ms for 1 MiB of them.
    if b"\\u0000" in body and b"\\u0000" in body.replace(b"\\\\", b"__"):
        raise Problem("invalid_json", "The body contains the character NUL (\\u0000).")


def answer(resp: falcon.Response, members: object) -> None:
    """Put JSON into a response."""
    resp.content_type = _JSON
    resp.data = msgspec.json.encode(members)


_PIECE_BYTES = 16 * 1024


class FileBody:
    """The body of an answer: a file that nobody changes, which the worker sends piece by piece.

    It is opened when the first piece is asked for, and closed after the last one. Raises OSError if
    it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.length = path.stat().st_size

    def __iter__(self) -> Iterator[bytes]:
        """Yield as many bytes as `length` says. Raises OSError if there are fewer."""
        left = self.length
        with open(self._path, "rb") as file:
            while left:
                piece = file.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise OSError(f"{self._path} became shorter")
                left -= len(piece)
                yield piece
