"""Bodies are read in full and decoded strictly (D5)."""

import gc
import io
import json
import time
from contextlib import suppress

import falcon.testing
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Problem
from app.serve.http.bodies import (
    BODY_BYTES_MAX,
    DRAINED_BYTES_MAX,
    BodyIntake,
    RequestBody,
    answer,
    read_json,
)
from app.serve.http.context import Request
from tests.contract.malformed import NESTED_TOO_DEEPLY, no_objects, not_json
from tests.rows import each_row

KNOWN = '"name": "a", "names": ["x"]'
NOT_JSON = not_json(KNOWN)
NO_OBJECTS = no_objects(KNOWN)


class Shape(RequestBody):
    """The expected shape of the bodies in these tests."""

    name: str
    names: list[str] = []  # noqa: RUF012 - msgspec copies it
    day: str | None = None
    x: msgspec.Raw = msgspec.Raw(b"null")


def taken_in(stream, **environ):
    """Return the bytes that are kept of a body, or the refusal."""
    environ = {**falcon.testing.create_environ(method="POST"), **environ, "wsgi.input": stream}
    request = Request(environ)
    BodyIntake().process_request(request, falcon.Response())
    return request.context.body


def read(body, content_type="application/json"):
    """Decode a body into the shape."""
    headers = {"Content-Type": content_type}
    environ = falcon.testing.create_environ(method="POST", body=body, headers=headers)
    request = Request(environ)
    BodyIntake().process_request(request, falcon.Response())
    return read_json(request, Shape)


def refusal(body):
    """Return the refusal of a body."""
    with pytest.raises(Problem) as caught:
        read(body)
    return caught.value


def seconds(body):
    """Return the processor time that a body takes, the best of three."""
    times = []
    gc.disable()  # A collection takes longer the more tests have run.
    try:
        for _ in range(3):
            began = time.process_time()
            with suppress(Problem):
                read(body)
            times.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(times)


class GoneClient(io.BytesIO):
    """A body whose sender disconnects."""

    def read(self, *_):
        raise ConnectionResetError


class BadChunk(io.BytesIO):
    """A body in which the server's parser raises its own error after a while."""

    def read(self, size=-1):
        part = super().read(size)
        if not part:
            raise ValueError("bad chunk")
        return part


class TestIntake:
    @pytest.mark.parametrize("length", [0, 1, BODY_BYTES_MAX])
    def test_a_body_is_read_as_long_as_it_says(self, length):
        """Bytes after the announced length stay unread."""
        stream = io.BytesIO(b"x" * length + b"next")
        assert taken_in(stream, CONTENT_LENGTH=str(length)) == b"x" * length
        assert stream.read() == b"next"

    @pytest.mark.parametrize("environ", [{}, {"CONTENT_LENGTH": ""}])
    def test_no_length_is_no_body(self, environ):
        """Without a Content-Length nothing is read."""
        assert taken_in(io.BytesIO(b"x"), **environ) == b""

    def test_a_large_body_is_thrown_away(self):
        """A body over 1 MiB is refused, but read to its end so that the client gets the answer."""
        stream = io.BytesIO(b"x" * (BODY_BYTES_MAX + 1) + b"next")
        body = taken_in(stream, CONTENT_LENGTH=str(BODY_BYTES_MAX + 1))
        assert body.code == "body_too_large"
        assert stream.read() == b"next"

    def test_throwing_away_has_a_limit(self):
        """At most 4 MiB of a large body are read."""
        stream = io.BytesIO(b"x" * (DRAINED_BYTES_MAX + 10))
        taken_in(stream, CONTENT_LENGTH=str(DRAINED_BYTES_MAX + 10))
        assert stream.tell() == DRAINED_BYTES_MAX == 4 * 1024 * 1024

    @pytest.mark.parametrize("digits", ["9" * 18, "9" * 19, "9" * 10_000])
    def test_a_length_of_any_size_is_understood(self, digits):
        """A length beyond every machine's integers is too large, and no failure."""
        assert taken_in(io.BytesIO(), CONTENT_LENGTH=digits).code == "body_too_large"

    @each_row("length", ["-1", "+1", "1.0", "0x1", "1,1", "x", " ", "\u0661"])
    def test_a_length_must_be_a_number(self, length):
        """A length that is not all digits is refused."""
        assert taken_in(io.BytesIO(b"x"), CONTENT_LENGTH=length).code == "invalid_request"

    @pytest.mark.parametrize("stream", [io.BytesIO(b"abc"), GoneClient()])
    def test_a_body_cut_off_is_refused(self, stream):
        """A body that ends early, or whose sender disconnects, is refused."""
        assert taken_in(stream, CONTENT_LENGTH="4").code == "invalid_request"

    @pytest.mark.parametrize("kind", [io.BytesIO, GoneClient, BadChunk])
    def test_a_chunked_body_is_refused(self, kind):
        """A body without a length is discarded and refused, even with malformed chunks."""
        stream = kind(b"x" * 100_000)
        body = taken_in(stream, HTTP_TRANSFER_ENCODING="chunked")
        assert body.code == "invalid_request"
        assert kind is GoneClient or stream.tell() == 100_000

    def test_an_endless_chunked_body_is_not_read_forever(self):
        """At most 4 MiB of a chunked body are read."""
        stream = io.BytesIO(b"x" * (DRAINED_BYTES_MAX + 10))
        taken_in(stream, HTTP_TRANSFER_ENCODING="chunked")
        assert stream.tell() == DRAINED_BYTES_MAX


class TestJson:
    def test_a_body_becomes_the_shape(self):
        """Known members are decoded, in any order."""
        shape = read('{"x": {"name": 1}, "name": "ä", "names": ["b"]}'.encode())
        assert (shape.name, shape.names) == ("ä", ["b"])

    @each_row("fault", NOT_JSON)
    def test_a_body_that_is_not_json_is_refused(self, fault):
        """Every text that is not JSON is refused, also what msgspec accepts."""
        assert refusal(NOT_JSON[fault]).code == "invalid_json"

    def test_a_body_with_an_unknown_member_is_refused(self):
        """The first one is named, and so is the closest known one."""
        problem = refusal(b'{"name": "a", "nams": [], "z": 1}')
        assert (problem.code, problem.errors[0]["pointer"]) == ("unknown_member", "/nams")
        assert problem.detail == "The member nams is unknown; did you mean names?"

    @each_row("kind", NO_OBJECTS)
    def test_other_json_than_an_object_is_refused(self, kind):
        """The error of a JSON value that is no object points at the root."""
        problem = refusal(NO_OBJECTS[kind])
        assert (problem.code, problem.errors[0]["pointer"]) == ("invalid_body", "")

    @each_row(
        ("body", "pointer", "detail"),
        [
            (b"{}", "/name", "The member name is missing."),
            (b'{"name": -1}', "/name", "The member name must be a string; got a number."),
            (b'{"name": true}', "/name", "The member name must be a string; got true."),
            (
                b'{"name": "a", "names": "x"}',
                "/names",
                "The member names must be an array of strings; got a string.",
            ),
            (
                b'{"name": "a", "names": ["x", null]}',
                "/names/1",
                "names[1] must be a string; got null.",
            ),
            (
                b'{"name": "a", "day": []}',
                "/day",
                "The member day must be a string or null; got an array.",
            ),
            (b'{"names": 1}', "/name", "The member name is missing."),
            (b"[1]", "", "The body must be a JSON object; got an array."),
            (b'{"name": 1, "name": "a"}', "/name", "The member name is given more than once."),
            (
                b'{"n\\u0061me": "a", "name": "a"}',
                "/name",
                "The member name is given more than once.",
            ),
            (
                b'{"name": "a", "x": [7, {"y": [[{"z": 1, "z": 1}]]}]}',
                "/x/1/y/0/0/z",
                "The member x[1].y[0][0].z is given more than once.",
            ),
            (
                b'{"name": "a", "x": {"y": {"z": 1, "z": 1}, "y": 1}}',
                "/x/y",
                "The member x.y is given more than once.",
            ),
            (b'{"name": 1e999}', "/name", "The member name must be a string; got a number."),
            (
                b'{"x": {}, "names": [[1]], "name": "y"}',
                "/names/0",
                "names[0] must be a string; got an array.",
            ),
            (b' \r\n["name"]', "", "The body must be a JSON object; got an array."),
        ],
    )
    def test_the_member_at_fault_is_pointed_at(self, body, pointer, detail):
        """A JSON pointer (RFC 6901) and a sentence say what is wrong where."""
        problem = refusal(body)
        assert problem.code == "invalid_body"
        assert problem.errors == ({"pointer": pointer, "detail": detail},)

    @each_row(
        "beginning",
        [b'{"name": 1', b'{"y": 1', b'{"name": "a", "name": 1', b"[1", b"1", b'"a"', b"null"],
    )
    @each_row(
        "end", [b"", b" true", b', "x": NaN', b', "x": "\\x"', b', "x": "\xff"', b"]]", b"}}"]
    )
    def test_the_syntax_comes_before_all_else(self, beginning, end):
        """What is not JSON is called so, even after a member or a type that is wrong."""
        if beginning + end not in (b"1", b'"a"', b"null"):
            assert refusal(beginning + end).code == "invalid_json"

    def test_deep_nesting_comes_before_all_else(self):
        """A body that is nested too deeply is called so, even after an unknown member."""
        for beginning in (b'{"name": ', b'{"y": 1, "x": '):
            problem = refusal(beginning + NESTED_TOO_DEEPLY + b"}")
            assert (problem.code, problem.detail) == (
                "invalid_json",
                "The body is nested too deeply.",
            )

    @each_row(
        ("value", "code"),
        [
            pytest.param("[" * 499 + "]" * 499, "unknown_member", id="as deep as possible"),
            pytest.param("[" * 500 + "]" * 500, "invalid_json", id="a level more"),
            pytest.param('{"a":' * 500 + "1" + "}" * 500, "invalid_json", id="objects"),
            pytest.param('["[",' * 300 + "1" + "]" * 300, "unknown_member", id="in texts"),
            pytest.param('"' + '\\\\\\"[' * 600 + '"', "unknown_member", id="after escapes"),
            pytest.param('["\\\\",' * 500 + "1" + "]" * 500, "invalid_json", id="after texts"),
            pytest.param("[[]," * 300 + "1" + "]" * 300, "unknown_member", id="beside each other"),
            pytest.param("[" * 500, "invalid_json", id="not closed"),
        ],
    )
    def test_a_body_has_at_most_500_levels(self, value, code):
        """However many the version of Python follows; brackets in texts do not count (D103)."""
        problem = refusal(f'{{"y": {value}}}'.encode())
        assert problem.code == code
        assert code != "invalid_json" or problem.detail == "The body is nested too deeply."

    @each_row(
        "text",
        ["\\\\u0000", "\\\\\\\\ud800", "\\ud83d\\ude00", "\\uD83D\\uDE00", "\\u0001", "\\\\"],
    )
    def test_harmless_escapes_are_accepted(self, text):
        """An escaped backslash before `u0000` is no NUL; a surrogate pair is a character."""
        body = f'{{"name": "a{text}b", "x": "{text}"}}'.encode()
        assert read(body).name == json.loads(body)["name"]

    @pytest.mark.parametrize("part", ["\\\\", "\\\\u0000", "\\u00e4"])
    def test_escapes_cost_little_more_than_other_text(self, part):
        """A body full of backslashes takes at most 10 times as long as plain letters."""

        def body(text: str, end: str) -> bytes:
            return f'{{"name": "a", "x": "{text * (1_000_000 // len(text))}{end}"}}'.encode()

        assert seconds(body(part, "\\\\u0000")) < 10 * seconds(body("letters ", ""))

    @pytest.mark.parametrize(
        "part",
        ['{"y":0}', '{"y":0,"y":0}', '{"y":0,"z":0}', "{}", "[]", "[[]]", "0", '"a"'],
    )
    def test_the_search_for_repeated_members_grows_with_the_body(self, part):
        """Twenty times as many objects take about twenty times as long, not four hundred times."""

        def body(objects: int) -> bytes:
            return f'{{"name": "a", "x": [{",".join([part] * objects)}]}}'.encode()

        assert seconds(body(40_000)) < 100 * seconds(body(2_000))

    def test_the_search_grows_with_the_members_of_an_object(self):
        """Also if only the last two of them have the same name."""

        def body(count: int) -> bytes:
            members = "".join(f'"{number}":0,' for number in range(count))
            return f'{{"name": "a", "x": {{{members}"z":0,"z":0}}}}'.encode()

        assert refusal(body(40_000)).errors[0]["pointer"] == "/x/z"
        assert seconds(body(40_000)) < 100 * seconds(body(2_000))

    @each_row("levels", [500, 980, 990, 1_000, 5_000, 50_000])
    def test_what_is_too_deep_to_search_is_refused(self, levels):
        """Members within it could be repeated."""
        body = f'{{"name": "a", "x": {"[" * levels}{{"y": 1, "y": 1}}{"]" * levels}}}'.encode()
        assert refusal(body).code in ("invalid_body", "invalid_json")

    @each_row(
        ("content_type", "is_taken"),
        [
            ("application/json", True),
            ("APPLICATION/JSON; CHARSET=UTF-8", True),
            ('application/json;charset="utf-8"', True),
            ("application/json; charset=utf-16", False),
            ("application/json; charset=utf-8; x=1", False),
            ("application/jsonx", False),
            ("text/json", False),
            ("", False),
        ],
    )
    def test_the_content_type_is_json_in_utf_8(self, content_type, is_taken):
        """Another type, charset or parameter is refused before the body is decoded."""
        if is_taken:
            assert read(b'{"name": "a"}', content_type).name == "a"
        else:
            with pytest.raises(Problem) as caught:
                read(b"{", content_type)
            assert caught.value.code == "unsupported_media_type"

    def test_an_answer_is_compact_json(self):
        """Answers are UTF-8 without white space."""
        response = falcon.Response()
        answer(response, {"name": "ä", "next": None})
        assert response.data == '{"name":"ä","next":null}'.encode()
        assert response.content_type == "application/json"


clean_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | clean_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(clean_texts, inner, max_size=4),
    max_leaves=10,
)
unclean = st.sampled_from(["\0", "\ud800", "\udfff", "\udc00\ud800", "\udc00\udc00"])
pieces = [b"\\", b'"', b"\\u0000", b"\\ud83d", b"\\ude00", b"\\ud800", b"\xff", b"\xc3\xa4", b"\\u"]
pieces += [b"\0", b"{", b"}", b"[", b"]", b",", b"NaN", b"-", b"0", b"1e9", b"/**/", b"\n", b"\x01"]


def strictly(body):
    """Return what the standard library decodes; ValueError if it is no clean JSON."""

    def refuse(constant):
        raise ValueError(constant)

    document = json.loads(body.decode(), parse_constant=refuse)
    text = json.dumps(document, ensure_ascii=False)
    text.encode()  # half a surrogate pair raises UnicodeEncodeError, a ValueError
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("NUL")
    return document


@given(clean_texts, st.dictionaries(clean_texts, values, max_size=4), st.booleans())
def test_all_clean_json_is_taken(name, others, is_ascii):
    """Known members are read, whatever one of them holds, escaped or not."""
    body = json.dumps({"x": others, "name": name}, ensure_ascii=is_ascii).encode()
    assert read(body).name == name


@given(clean_texts, unclean, clean_texts, st.sampled_from(["name", "x"]))
def test_no_unclean_text_is_taken(before, fault, after, member):
    """A NUL or half a surrogate pair is refused wherever it occurs."""
    body = json.dumps({"name": "a", member: before + fault + after}).encode()
    assert refusal(body).code == "invalid_json"


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from(pieces)), min_size=1, max_size=4))
def test_a_damaged_body_is_refused_or_still_json(damages):
    """What we accept, the standard library decodes to the same value."""
    body = b'{"name": "a\\u00e4\\ud83d\\ude00", "x": {"y": ["\\\\u0000", 1.5e3, null]}}'
    for place, piece in damages:
        body = body[:place] + piece + body[place:]
    with suppress(Problem):
        name = read(body).name
        assert strictly(body)["name"] == name


tokens = [b'"a"', b'"name":', b'"y":', b'"x"', b"true", b"null", b"NaN", b"\\u", b"\\x"]
tokens += [bytes([each]) for each in b'"\\{}[],:01-.ea \n\x01']


@given(st.lists(st.sampled_from(tokens), max_size=12).map(b"".join))
def test_what_is_called_no_json_is_none(body):
    """The code is invalid_json if and only if the standard library finds no clean JSON."""
    code = None
    try:
        read(body)
    except Problem as problem:
        code = problem.code
    try:
        strictly(body)
    except ValueError:
        assert code == "invalid_json"
    else:
        assert code != "invalid_json"


names = st.sampled_from(["y", "\\u0079", "z", ":", "y:"])
repeating = st.recursive(
    st.sampled_from(["0", "1e5", '"a"', '":"', '"\\u003a"', '"\\":"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.builds('"{}":{}'.format, names, inner), max_size=4).map(
            lambda members: f"{{{','.join(members)}}}"
        )
    ),
    max_leaves=12,
)


@given(repeating)
def test_every_repeated_member_is_found(value):
    """A body is refused if and only if an object in it has a name twice, however it is written."""
    has_repeated: list[bool] = []
    body = f'{{"name": "a", "x": {value}}}'
    json.loads(
        body, object_pairs_hook=lambda each: has_repeated.append(len(dict(each)) < len(each))
    )
    if any(has_repeated):
        assert "is given more than once" in refusal(body.encode()).detail
    else:
        assert read(body.encode()).name == "a"


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(body):
    """A body of any bytes is decoded or refused; no other error occurs."""
    assert refusal(body).kind.status == 400
