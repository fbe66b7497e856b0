"""Requests as bytes: what the service accepts and refuses, and attempts to smuggle a request.

Each request has the answer that it gets: its status and code, or its status alone if it reaches an
operation. `None` means that the connection is closed without an answer.
"""

from collections.abc import Iterator
from typing import NamedTuple

LIST = "GET /api/domains HTTP/1.1"
BULK = "POST /v1/vehicle/bulk-insurance HTTP/1.1"
BODY = b'{"registrations": ["AB12CDE"]}'
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = b"1e\r\n" + BODY + b"\r\n0\r\n\r\n"
_JSON = "Content-Type: application/json"
_SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LINE_BYTES_MAX = 8_190
FIELDS_MAX = 64


class Expected(NamedTuple):
    """What a request gets."""

    status: int | None
    code: str = ""
    detail: str = ""
    """Of an `invalid_request`."""


NOTHING = Expected(None)
DONE = Expected(200)
MALFORMED = Expected(400, "invalid_request", "The request is not well-formed HTTP.")
BAD_HOST = Expected(400, "invalid_request", "The Host header is missing or invalid.")
BAD_EXPECTATION = Expected(400, "invalid_request", "The Expect header may only be 100-continue.")
TOO_MANY_FIELDS = Expected(400, "invalid_request", "The request has more than 64 headers.")
TOO_LONG_A_FIELD = Expected(400, "invalid_request", "A header is longer than 8,190 bytes.")
TOO_LONG_A_HEAD = Expected(
    400, "invalid_request", "All headers together are longer than 532,484 bytes."
)
INCOMPLETE = Expected(400, "invalid_request", "The body ended before its Content-Length.")
WITHOUT_LENGTH = Expected(
    400,
    "invalid_request",
    "A body must be sent with its Content-Length and without Transfer-Encoding: .NET needs "
    "LoadIntoBufferAsync, Spring a BufferingClientHttpRequestFactory.",
)
NO_KEY = Expected(401, "unauthorized")
NOT_FOUND = Expected(404, "not_found")
NOT_ALLOWED = Expected(405, "method_not_allowed")
TOO_LARGE = Expected(413, "body_too_large")
TOO_LONG = Expected(414, "uri_too_long")
Row = tuple[str, bytes, Expected]


def raw(
    line: str, *fields: str | bytes, key: str = "", body: bytes = b"", host: str = "Host: x"
) -> bytes:
    """Return a request with these lines, each of which gets its line end.

    Args:
        key: is sent in X-API-Key if it is not empty.
        host: the line of `Host`, or nothing.
    """
    lines: list[str | bytes] = [line]
    lines += [each for each in (host, f"X-API-Key: {key}" if key else "") if each]
    lines += fields
    encoded = [each if isinstance(each, bytes) else each.encode("latin-1") for each in lines]
    return b"".join(each + b"\r\n" for each in encoded) + b"\r\n" + body


def rows(key: str) -> Iterator[Row]:
    """Yield name, bytes and expected answer of every request."""
    yield from _lines(key)
    yield from _targets(key)
    yield from _fields(key)
    yield from _values(key)
    yield from _hosts(key)
    yield from _lengths(key)
    yield from _codings(key)
    yield from _line_ends(key)
    yield from _limits(key)


def _lines(key: str) -> Iterator[Row]:
    """Request lines, but for their targets."""
    yield "a list", raw(LIST, key=key), DONE
    yield "HTTP/1.0", raw("GET /api/domains HTTP/1.0", key=key), DONE
    yield "HTTP/1.2", raw("GET /api/domains HTTP/1.2", key=key), DONE
    yield "HTTP/0.9 without version", raw("GET /api/domains", key=key), MALFORMED
    yield "HTTP/0.9 alone", b"GET /\r\n", MALFORMED
    yield "HTTP/0.9", raw("GET /api/domains HTTP/0.9", key=key), MALFORMED
    yield "HTTP/2.0", raw("GET /api/domains HTTP/2.0", key=key), MALFORMED
    yield "the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", MALFORMED
    yield "HTTP/1.11", raw("GET /api/domains HTTP/1.11", key=key), MALFORMED
    yield "HTTP/1", raw("GET /api/domains HTTP/1", key=key), MALFORMED
    yield "HTTP/1,1", raw("GET /api/domains HTTP/1,1", key=key), MALFORMED
    yield "version in lower case", raw("GET /api/domains http/1.1", key=key), MALFORMED
    yield "a space after the version", raw(LIST + " ", key=key), MALFORMED
    yield "a tab after the version", raw(LIST + "\t", key=key), MALFORMED
    yield "a space before the method", raw(" " + LIST, key=key), MALFORMED
    yield "two spaces", raw("GET  /api/domains HTTP/1.1", key=key), MALFORMED
    yield "a tab in place of a space", raw("GET\t/api/domains HTTP/1.1", key=key), MALFORMED
    yield "a vertical tab in the line", raw("GET\x0b/api/domains HTTP/1.1", key=key), MALFORMED
    yield "an unknown method", raw("FETCH /api/domains HTTP/1.1", key=key), NOT_ALLOWED
    yield "a registration as the method", raw("AB12CDE / HTTP/1.1"), NOT_ALLOWED
    yield "a method in lower case", raw("get /api/domains HTTP/1.1", key=key), MALFORMED
    yield "a method in mixed case", raw("Get /api/domains HTTP/1.1", key=key), MALFORMED
    yield "a short method", raw("GE /api/domains HTTP/1.1", key=key), MALFORMED
    yield "a method of 20 letters", raw("A" * 20 + " / HTTP/1.1"), NOT_ALLOWED
    yield "a method of 21 letters", raw("A" * 21 + " / HTTP/1.1"), MALFORMED
    yield "a method of signs", raw("!$%&' / HTTP/1.1"), NOT_ALLOWED
    yield "a method with a number sign", raw("GET# / HTTP/1.1"), MALFORMED
    yield "a method with a colon", raw("GET: / HTTP/1.1"), MALFORMED
    yield "a method in brackets", raw("(GET) / HTTP/1.1"), MALFORMED
    yield "TRACE", raw("TRACE /api/domains HTTP/1.1", key=key), NOT_ALLOWED
    yield "no target", raw("GET HTTP/1.1", key=key), MALFORMED
    yield "an empty target", raw("GET  HTTP/1.1", key=key), MALFORMED
    yield "no request line", raw("GARBAGE", host=""), MALFORMED
    yield "a handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", MALFORMED
    yield "a proxy line", raw("PROXY TCP4 10.0.0.1 10.0.0.2 1 80", LIST, key=key), MALFORMED
    yield "an empty line first", b"\r\n" + raw(LIST, key=key), DONE
    yield "two empty lines first", b"\r\n\r\n" + raw(LIST, key=key), MALFORMED
    yield "a bare line feed first", b"\n" + raw(LIST, key=key), MALFORMED
    yield "half a line", b"GET /api", NOTHING
    yield "half a head", raw(LIST)[:-2], NOTHING


def _targets(key: str) -> Iterator[Row]:
    """Request targets."""

    def get(target: str | bytes) -> bytes:
        line = target if isinstance(target, bytes) else target.encode()
        return raw(LIST, key=key).replace(b"/api/domains", line, 1)

    yield "a query", get("/api/domains?limit=5"), DONE
    yield "a fragment", get("/api/domains#x"), DONE
    yield "a fragment after a query", get("/api/domains?limit=5#?x"), DONE
    yield "an encoded path", get("/%61pi/domains"), DONE
    yield "an encoded NUL", get("/api/domains/%00"), Expected(404, "domain_not_found")
    yield "two slashes first", get("//api/domains"), NOT_FOUND
    yield "an absolute target", get("http://x/api/domains"), DONE
    yield "an absolute target without path", get("http://x"), DONE
    yield "an absolute target of another host", get("https://y:1/api/domains?limit=5"), DONE
    yield "an absolute target with brackets", get("http://[x/api/domains"), MALFORMED
    yield "an absolute target of IPv6", get("http://[::1]:8000/api/domains"), DONE
    yield "an absolute target without host", get("http:///api/domains"), MALFORMED
    yield "an absolute target with a user", get("http://u@x/api/domains"), MALFORMED
    yield "an absolute target without scheme", get("://x/api/domains"), MALFORMED
    yield "a target that becomes absolute", get("api/domains://x"), MALFORMED
    yield "an absolute target of another scheme", get("ftp://x/api/domains"), DONE
    yield "a target without slash", get("api/domains"), MALFORMED
    yield "an asterisk", get("*"), MALFORMED
    yield "an asterisk with OPTIONS", raw("OPTIONS * HTTP/1.1", key=key), NOT_FOUND
    yield "host and port", get("x:80"), MALFORMED
    yield "CONNECT", raw("CONNECT x:80 HTTP/1.1", key=key), NOT_FOUND
    yield "a backslash", get("\\api\\domains"), MALFORMED
    yield "a question mark alone", get("?limit=5"), MALFORMED
    yield "letters beyond ASCII", get("/api/domains/é"), MALFORMED
    yield "a byte beyond ASCII", get(b"/api/domains/\xff"), MALFORMED
    yield "a NUL in the target", get("/api/domains\x00"), MALFORMED
    yield "a DEL in the target", get("/api/domains\x7f"), MALFORMED
    yield "a tab in the target", get("/api\t/domains"), MALFORMED
    yield "a space in the target", get("/api/domains?a b"), MALFORMED


def _fields(key: str) -> Iterator[Row]:
    """Names of header fields, and what connects them to their values."""

    def get(*fields: str | bytes) -> bytes:
        return raw(LIST, *fields, key=key)

    yield "a name of signs", get("!#$%&'*+-.^`|~: 1"), DONE
    yield "no space after the colon", get("X:1"), DONE
    yield "no value", get("X:"), DONE
    yield "no colon", get("X"), MALFORMED
    yield "no name", get(": 1"), MALFORMED
    yield "a space before the colon", get("X : 1"), MALFORMED
    yield "a tab before the colon", get("X\t: 1"), MALFORMED
    yield "a space before the colon of a length", get("Content-Length : 5"), MALFORMED
    yield "a space in a name", get("X Y: 1"), MALFORMED
    yield "a space before a name", get("X: 1", " Y: 1"), MALFORMED
    yield "a space before the first name", raw(LIST, " X: 1", host=""), MALFORMED
    yield "a NUL in a name", get("X\x00: 1"), MALFORMED
    yield "a letter beyond ASCII in a name", get("é: 1"), MALFORMED
    yield "a name in brackets", get("(X): 1"), MALFORMED
    yield "a name with an underscore is ignored", get("Content_Length: 5"), DONE
    yield "a key with an underscore is ignored", raw(LIST, f"X_API_Key: {key}"), NO_KEY
    yield "a coding with an underscore is ignored", get("Transfer_Encoding: chunked"), DONE
    yield "a folded field", get("X: 1", " 2"), MALFORMED
    yield "a folded field with a tab", get("X: 1", "\t2"), MALFORMED
    yield "a folded length", get("Content-Length:", " 5"), MALFORMED
    yield "a folded empty line", get("X: 1", " "), MALFORMED
    yield "a field twice", get("X: 1", "X: 2"), DONE
    yield "a key twice", raw(LIST, f"X-API-Key: {key}", f"X-API-Key: {key}"), NO_KEY
    yield "a name in lower case", raw(LIST, f"x-api-key: {key}"), DONE
    yield "an upgrade", get("Connection: Upgrade", "Upgrade: websocket"), DONE
    yield (
        "an upgrade to HTTP/2",
        get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
        DONE,
    )
    yield "a name of a variable", get("Script-Name: /api", "Path-Info: /healthz"), DONE
    yield "a variable of the proxy", get("Proxy: http://y"), DONE


def _values(key: str) -> Iterator[Row]:
    """Values of header fields."""

    def get(*fields: str | bytes) -> bytes:
        return raw(LIST, *fields, key=key)

    yield "spaces around a value", raw(LIST, f"X-API-Key: \t {key} \t"), DONE
    yield "bytes beyond ASCII in a value", get(b"X: \xc3\xa9\xff"), DONE
    yield "a tab in a value", get("X: 1\t2"), DONE
    yield "a NUL in a value", get("X: \x00"), MALFORMED
    yield "a bell in a value", get("X: 1\x072"), MALFORMED
    yield "a DEL in a value", get("X: \x7f"), MALFORMED
    yield "a vertical tab in a value", get("X: 1\x0b2"), MALFORMED
    yield "a form feed around a value", get("X: \x0c1"), MALFORMED
    yield "a carriage return in a value", get("X: 1\r2"), MALFORMED
    yield "a carriage return that ends a value", get("X: 1\r"), MALFORMED
    yield "two types", raw(BULK, _JSON, _JSON, LENGTH, key=key, body=BODY), MALFORMED
    yield (
        "an expectation",
        raw(BULK, _JSON, LENGTH, "Expect: 100-Continue", key=key, body=BODY),
        Expected(100),
    )
    yield (
        "an expectation in HTTP/1.0",
        raw("GET /api/domains HTTP/1.0", "Expect: 100-continue", key=key),
        DONE,
    )
    yield "an unknown expectation", get("Expect: tea"), BAD_EXPECTATION
    yield "two expectations", get("Expect: 100-continue, tea"), BAD_EXPECTATION
    yield "an empty expectation", get("Expect:"), BAD_EXPECTATION
    yield (
        "a registration as the content type",
        raw(BULK, "Content-Type: AB12CDE", LENGTH, key=key, body=BODY),
        Expected(415, "unsupported_media_type"),
    )


def _hosts(key: str) -> Iterator[Row]:
    """The header field Host."""
    yield "no host", raw(LIST, key=key, host=""), BAD_HOST
    yield "no host and an absolute target", raw("GET http://x/ HTTP/1.1", host=""), BAD_HOST
    yield "no host in HTTP/1.2", raw("GET /healthz HTTP/1.2", host=""), BAD_HOST
    yield "no host in HTTP/1.0", raw("GET /api/domains HTTP/1.0", key=key, host=""), DONE
    yield "two hosts", raw(LIST, "Host: y", key=key), MALFORMED
    yield "the same host twice", raw(LIST, "Host: x", key=key), MALFORMED
    yield "two hosts in different case", raw(LIST, "hOST: y", key=key), MALFORMED
    yield "an empty host", raw(LIST, key=key, host="Host:"), DONE
    for host in ("x:", "x:443", "a.b-c_d~", "192.0.2.1:8000", "[2001:db8::1]:443", "%C3%A9", "_:1"):
        yield f"the host {host}", raw(LIST, key=key, host=f"Host: {host}"), DONE
    for host in (
        *("x/y", "x y", "u@x", "x, y", "x:y", "x:80:80", "x:-1", "[x]", "[::1", "::1", "[:::1]:80"),
        *("[::1]x", "[fe80::1%25eth0]", "%zz", "é", "x?", "x#", "x\\", '"x"'),
    ):
        yield f"the host {host}", raw(LIST, key=key, host=f"Host: {host}"), BAD_HOST


def _lengths(key: str) -> Iterator[Row]:
    """Content-Length, and bodies of that length."""

    def post(*lengths: str | bytes, body: bytes = BODY) -> bytes:
        return raw(BULK, _JSON, *lengths, key=key, body=body)

    yield "a bulk", post(LENGTH), DONE
    yield "a bulk with a request after it", post(LENGTH, body=BODY + _SMUGGLED), DONE
    yield "a length of zeros", post(f"Content-Length: 000{len(BODY)}"), DONE
    yield "no length", post(), Expected(400, "invalid_json")
    yield "a length of nothing", post("Content-Length: 0", body=b""), Expected(400, "invalid_json")
    yield "a GET with a body", raw(LIST, LENGTH, key=key, body=BODY), DONE
    yield "half a body", post(LENGTH, body=BODY[:-1]), INCOMPLETE
    yield "half a body of a GET", raw(LIST, LENGTH, key=key, body=BODY[:-1]), INCOMPLETE
    yield "the length twice", post(LENGTH, LENGTH), MALFORMED
    yield "two lengths", post(LENGTH, "Content-Length: 0", body=BODY + _SMUGGLED), MALFORMED
    yield "two lengths in one", post(f"{LENGTH}, {len(BODY)}"), MALFORMED
    yield "two lengths in different case", post(LENGTH, "content-length: 1"), MALFORMED
    for length in ("-1", "+30", "30x", "0x1e", "3e1", "30.0", "3 0", "", "1_0", "٣٠", "NaN"):
        yield (
            f"the length {length or 'of no digits'}",
            post(b"Content-Length: " + length.encode()),
            MALFORMED,
        )
    yield "the length of a superscript", post(b"Content-Length: \xb2"), MALFORMED
    yield "a length of 19 digits", post("Content-Length: " + "9" * 19), TOO_LARGE
    yield "a length of 4,300 digits", post("Content-Length: " + "9" * 4_300), TOO_LARGE
    yield "a length of 4,301 digits", post("Content-Length: " + "9" * 4_301), MALFORMED
    yield (
        "a body of 1 MiB and a byte",
        post(f"Content-Length: {2**20 + 1}", body=b" " * (2**20 + 1)),
        TOO_LARGE,
    )
    yield (
        "a body of 1 MiB",
        post(f"Content-Length: {2**20}", body=b" " * 2**20),
        Expected(400, "invalid_json"),
    )


def _codings(key: str) -> Iterator[Row]:
    """Transfer-Encoding, which is always refused."""

    def post(*fields: str, body: bytes = CHUNKS, line: str = BULK) -> bytes:
        return raw(line, _JSON, *fields, key=key, body=body)

    yield "chunks", post(CHUNKED), WITHOUT_LENGTH
    yield "chunks and a request", post(CHUNKED, body=CHUNKS + _SMUGGLED), WITHOUT_LENGTH
    yield "chunks of a GET", post(CHUNKED, line=LIST), WITHOUT_LENGTH
    yield "chunks for OPTIONS", post(CHUNKED, line="OPTIONS /api/domains HTTP/1.1"), Expected(204)
    yield "chunks without a key", raw(BULK, CHUNKED, body=CHUNKS), NO_KEY
    yield "chunks for no path", post(CHUNKED, line="POST /nowhere HTTP/1.1"), NOT_FOUND
    yield "chunks and a length", post(CHUNKED, LENGTH), MALFORMED
    yield "a length and chunks", post(LENGTH, CHUNKED), MALFORMED
    yield "chunks and no length", post("Content-Length: 0", CHUNKED, body=_SMUGGLED), MALFORMED
    yield (
        "chunks in HTTP/1.0",
        post(CHUNKED, line="POST /v1/vehicle/bulk-insurance HTTP/1.0"),
        MALFORMED,
    )
    for coding in (
        "Chunked",
        "identity, chunked",
        "gzip, chunked",
        " chunked ",
        "deflate,\tchunked",
    ):
        yield f"the coding {coding!r}", post(f"Transfer-Encoding: {coding}"), WITHOUT_LENGTH
    for coding in (
        *("chunked, chunked", "chunked, identity", "chunked, gzip", "identity", "gzip"),
        *(
            "xchunked",
            "chunked;q=1",
            '"chunked"',
            "chunked,",
            ",chunked",
            "",
            "cow",
            "cow, chunked",
        ),
        *("chunked cow", "chunked\x0b", "\x0bchunked", "x\rchunked"),
    ):
        yield f"the coding {coding!r}", post(f"Transfer-Encoding: {coding}"), MALFORMED
    yield "two codings", post(CHUNKED, "Transfer-Encoding: identity"), MALFORMED
    yield (
        "two codings, the last of which is chunked",
        post("Transfer-Encoding: identity", CHUNKED),
        WITHOUT_LENGTH,
    )
    yield "chunked twice", post(CHUNKED, CHUNKED), MALFORMED
    yield "a coding with a space before its colon", post("Transfer-Encoding : chunked"), MALFORMED
    yield "a coding on a folded line", post("Transfer-Encoding:", " chunked"), MALFORMED
    for name, chunks in {
        "no size": b"\r\n\r\n",
        "a size that is no number": b"zz\r\n",
        "a negative size": b"-1\r\n\r\n",
        "a size with 0x": b"0x1\r\na\r\n0\r\n\r\n",
        "too little": b"5\r\nabc",
        "too much": b"1\r\nabc\r\n0\r\n\r\n",
        "bare line feeds": b"1\na\n0\n\n",
        "an extension": b"1;x=y\r\na\r\n0\r\n\r\n",
        "a line feed in an extension": b"1;\nx\r\na\r\n0\r\n\r\n",
        "a trailer": b"1\r\na\r\n0\r\nX: 1\r\n\r\n",
        "a forbidden trailer": b"1\r\na\r\n0\r\nContent-Length: 1\r\n\r\n",
        "a huge size": b"f" * 40 + b"\r\na\r\n",
    }.items():
        yield f"chunks with {name}", post(CHUNKED, body=chunks), WITHOUT_LENGTH


def _line_ends(key: str) -> Iterator[Row]:
    """Line ends, and the end of the head."""
    good = raw(LIST, key=key)
    yield "line feeds alone", good.replace(b"\r\n", b"\n"), MALFORMED
    yield "carriage returns alone", good.replace(b"\r\n", b"\r"), NOTHING
    yield "a line feed after the line", good.replace(b"1.1\r\n", b"1.1\n", 1), MALFORMED
    yield "a carriage return after the line", good.replace(b"1.1\r\n", b"1.1\r", 1), MALFORMED
    yield "two carriage returns after the line", good.replace(b"1.1\r\n", b"1.1\r\r\n"), MALFORMED
    yield "a line feed after a field", good.replace(b": x\r\n", b": x\n", 1), MALFORMED
    yield "a carriage return after a field", good.replace(b": x\r\n", b": x\r", 1), MALFORMED
    yield "line feeds at the end", good[:-4] + b"\n\n", MALFORMED
    yield "a line feed at the end", good[:-4] + b"\r\n\n", MALFORMED
    yield "a line feed before the end", good[:-4] + b"\n\r\n", MALFORMED
    yield "a line reversed", good.replace(b": x\r\n", b": x\n\r", 1), MALFORMED
    yield "no fields", b"GET /healthz HTTP/1.0\r\n\r\n", DONE
    yield "the head in the middle of a request", good[:-2] + b"X: 1\r\n" + good, MALFORMED


def _limits(key: str) -> Iterator[Row]:
    """The longest lines, and most fields."""

    def line(length: int) -> bytes:
        return raw("GET /".ljust(length - len(" HTTP/1.1"), "a") + " HTTP/1.1", key=key)

    def value(length: int) -> bytes:
        return raw(LIST, "X: ".ljust(length, "a"), key=key)

    def fields(number: int) -> bytes:
        return raw(LIST, *["X: 1"] * (number - 2), key=key)

    yield "the longest line", line(LINE_BYTES_MAX), NOT_FOUND
    yield "a longer line", line(LINE_BYTES_MAX + 1), TOO_LONG
    yield "a line without end", b"GET /" + b"a" * 9_000, TOO_LONG
    yield "a line of 100 kB", line(100_000), TOO_LONG
    yield "the longest field", value(LINE_BYTES_MAX), DONE
    yield "a longer field", value(LINE_BYTES_MAX + 1), TOO_LONG_A_FIELD
    yield "a field without end", raw(LIST, key=key)[:-2] + b"X: " + b"a" * 900_000, TOO_LONG_A_HEAD
    yield "the most fields", fields(FIELDS_MAX), DONE
    yield "a field more", fields(FIELDS_MAX + 1), TOO_MANY_FIELDS

    yield "a longer field with a NUL", raw(LIST, "X: \0".ljust(9_000, "a")), MALFORMED
    yield "many fields that are ignored", raw(LIST, *["X_Y: 1"] * (FIELDS_MAX - 2), key=key), DONE
    yield (
        "the most fields of the greatest length",
        raw(LIST, *["X: ".ljust(LINE_BYTES_MAX, "a")] * (FIELDS_MAX - 2), key=key),
        DONE,
    )
