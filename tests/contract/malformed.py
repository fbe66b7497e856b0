"""Bodies that are not the JSON we accept, with the members that an operation needs.

`KNOWN` stands for those members, so that each body has a single fault.
"""

# Python 3.14 and newer follow as many levels as the stack has room for: 100,000 or more.
_LEVELS = 500_000
NESTED_TOO_DEEPLY = b"[" * _LEVELS + b"]" * _LEVELS

_NOT_JSON = {
    "empty": b"",
    "blank": b" \n",
    "truncated": b"{KNOWN",
    "truncated in a text": b'{KNOWN, "x": "abc',
    "trailing garbage": b"{KNOWN} x",
    "two documents": b"{KNOWN}{KNOWN}",
    "trailing NUL byte": b"{KNOWN}\x00",
    "trailing comma": b"{KNOWN,}",
    "trailing comma in an unknown member": b'{KNOWN, "x": [1,]}',
    "single quotes": b"{KNOWN, 'x': 1}",
    "bare word": b"hello",
    "form": b"name=example.com",
    "comment": b"{KNOWN /* why */}",
    "NaN": b'{KNOWN, "x": NaN}',
    "Infinity": b'{KNOWN, "x": Infinity}',
    "-Infinity": b'{KNOWN, "x": [-Infinity]}',
    "leading zero": b'{KNOWN, "x": 01}',
    "plus sign": b'{KNOWN, "x": +1}',
    "control character": b'{KNOWN, "x": "\x01"}',
    "raw NUL byte": b'{KNOWN, "x": "\x00"}',
    "escaped NUL": b'{KNOWN, "x": "a\\u0000b"}',
    "escaped NUL in a member's name": b'{KNOWN, "\\u0000": 1}',
    "escaped NUL behind backslashes": b'{KNOWN, "x": "\\\\\\u0000"}',
    "high surrogate alone": b'{KNOWN, "x": "\\ud800"}',
    "low surrogate alone": b'{KNOWN, "x": "\\uDC00"}',
    "surrogates in the wrong order": b'{KNOWN, "x": "\\udc00\\ud800"}',
    "two low surrogates": b'{KNOWN, "x": "\\udc00\\udc00"}',
    "two high surrogates": b'{KNOWN, "x": "\\ud83d\\ud83d\\ude00"}',
    "surrogate in a member's name": b'{KNOWN, "\\ud800": 1}',
    "surrogate, then text": b'{KNOWN, "x": "\\ud800dc00"}',
    "unknown escape": b'{KNOWN, "x": "\\q"}',
    "short escape": b'{KNOWN, "x": "\\u12"}',
    "nested too deeply": b'{KNOWN, "x": ' + NESTED_TOO_DEEPLY + b"}",
    "nested objects, too deeply": b'{KNOWN, "y": ' + b'{"x":' * 50_000 + b"1" + b"}" * 50_001,
    "nested too deeply, and not closed": b'{KNOWN, "y": ' + b"[" * 50_000,
    "a level too deep": b'{KNOWN, "y": ' + b"[" * 500 + b"]" * 500 + b"}",
    "bad UTF-8": b'{KNOWN, "x": "\xff"}',
    "bad UTF-8 in a member's name": b'{KNOWN, "\xff": 1}',
    "overlong UTF-8": b'{KNOWN, "x": "\xc0\xaf"}',
    "surrogate in UTF-8": b'{KNOWN, "x": "\xed\xa0\x80"}',
    "truncated UTF-8": b'{KNOWN, "x": "\xe2\x82"}',
    "byte order mark": b"\xef\xbb\xbf{KNOWN}",
}
_NO_OBJECTS = {
    "array": b"[{KNOWN}]",
    "empty array": b"[]",
    "text": b'"example.com"',
    "number": b"42",
    "true": b"true",
    "null": b"null",
}


def not_json(known: str) -> dict[str, bytes]:
    """Return bodies that get 400 `invalid_json`, by their fault."""
    bodies = _with(known, _NOT_JSON)
    whole = f"{{{known}}}"
    return bodies | {
        "UTF-16": whole.encode("utf-16"),
        "UTF-16 without a mark": whole.encode("utf-16-le"),
        "UTF-32": whole.encode("utf-32"),
    }


def no_objects(known: str) -> dict[str, bytes]:
    """Return bodies that get 400 `invalid_body` as a whole, by their type."""
    return _with(known, _NO_OBJECTS)


def _with(known: str, bodies: dict[str, bytes]) -> dict[str, bytes]:
    return {fault: body.replace(b"KNOWN", known.encode()) for fault, body in bodies.items()}
