"""JSON objects in a stream: three shapes, line numbers, truncation, limits."""

import contextlib
import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FileFault, json_format, json_splitter
from app.registers.formats.json_format import JsonObjects
from app.registers.formats.json_splitter import member_names
from tests.rows import each_row
from tests.unit.register_files import Heard

MIB = 1024 * 1024
BROKEN_LINE = '{"id": 1, "x": \n{"id": 2}\n'


def read(text: str | bytes) -> tuple[list[dict], list[tuple[int, str]]]:
    """Read a stream of any shape."""
    heard = Heard()
    data = text.encode() if isinstance(text, str) else text
    return list(JsonObjects(io.BytesIO(data), heard)), heard.rejects


@pytest.fixture(params=[1, 7, 64, 262_144])
def block_bytes(request, monkeypatch) -> int:
    """The size of a block, which must not affect the result."""
    for module in (json_format, json_splitter):
        monkeypatch.setattr(module, "BLOCK_BYTES", request.param)
    return request.param


@contextlib.contextmanager
def read_in_blocks(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_splitter, "BLOCK_BYTES", size)
        yield


OBJECTS = [
    {"id": 1, "x": 'a}{"id": 9}, {"id"', "tests": [{"id": 7}, {"id": 8}]},
    {"id": 2, "x": "line\nbreak \\", "deep": [[{}], {"a": {"b": []}}]},
    {"other first": "é€", "id": 3},
    {},
    {"id": 4},
]


@each_row(
    "text",
    [
        "\n".join(map(json.dumps, OBJECTS)),
        "\r\n\r\n".join(map(json.dumps, OBJECTS)) + "\r\n",
        "".join(map(json.dumps, OBJECTS)),
        "\n".join(json.dumps(each, indent=2) for each in OBJECTS),
        "\n".join(json.dumps(each, indent=0) for each in OBJECTS) + "\n",
        json.dumps(OBJECTS),
        json.dumps(OBJECTS, indent="\t"),
        json.dumps(OBJECTS, separators=(",", ":")),
        "[" + "\n,".join(map(json.dumps, OBJECTS)) + "\n]\n",
        json.dumps(OBJECTS[:2]) + "\n[]" + json.dumps(OBJECTS[2:]) + " ",
    ],
    ids="lines crlf joined indented unindented array tabs compact socrata pages".split(),
)
def test_shapes(text: str, block_bytes: int) -> None:
    """Objects on lines, indented, in sequence, and in arrays are read as the same objects."""
    assert read(text) == (OBJECTS, [])


@pytest.mark.parametrize("text", ['{"id": 1}', '[{"id": 1}]', '{\n"id": 1}'])
def test_byte_order_mark(text: str) -> None:
    """A byte order mark, and white space before the first value, are ignored."""
    assert read(f"\ufeff{text}") == read(f"\n \n{text}") == ([{"id": 1}], [])


values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.sampled_from('{}[]",:\\ \né'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab{"', max_size=2), inner),
    max_leaves=6,
)
records = st.lists(st.dictionaries(st.sampled_from(["id", "x", 'q"', "{"]), values), min_size=1)


@given(records, st.sampled_from([None, 0, 1]), st.booleans(), st.integers(1, 40))
def test_any_objects(objects: list[dict], indent: int | None, ascii_: bool, size: int) -> None:
    """Objects are read unchanged from an array or a sequence, in blocks of any size."""
    array = json.dumps(objects, indent=indent, ensure_ascii=ascii_)
    texts = [json.dumps(each, indent=indent, ensure_ascii=ascii_) for each in objects]
    with read_in_blocks(size):
        assert read(array) == (objects, [])
        if indent is None:
            assert read("\n".join(texts)) == (objects, [])
        # The first object decides the shape: alone on its line it would be NDJSON.
        first = '{"id": [\n{"id": 5}\n]}'
        with read_in_blocks(max(size, len(first))):
            assert read("\n".join([first, *texts])) == ([{"id": [{"id": 5}]}, *objects], [])


def test_lines_of_rejects(block_bytes: int) -> None:
    """A reject has the line on which its record begins, in every shape."""
    array = '[\n {"id":1},\r\n 5,\r\n {\n"id": 2},\r\r null, "a\\n",\n\n[1],\n-1e9, true]'
    found, rejects = read(array)
    assert found == [{"id": 1}, {"id": 2}]
    assert rejects == [(line, "not a JSON object") for line in (3, 7, 7, 9, 10, 10)]


def test_broken_lines() -> None:
    """A broken line of NDJSON is one reject, also the first; blank lines are ignored."""
    assert read(BROKEN_LINE) == ([{"id": 2}], [(1, "not a JSON object")])
    for line in ('{"id": 1} {', '{"id": tru}', "nonsense", '{"id"', '{"a": 1}}', "{"):
        text = f'{line}\n\n{{"id": 2}}\n'
        assert read(text) == ([{"id": 2}], [(1, "not a JSON object")])
        text = f'{{"id": 0}}\n{line}\n \n{{"id": 2}}'
        assert read(text) == ([{"id": 0}, {"id": 2}], [(2, "not a JSON object")])


def test_broken_line_after_one_longer_than_a_block() -> None:
    """An object on a line of hundreds of kilobytes is NDJSON; one over several lines is not."""
    long = {"id": 0, "tests": ["x" * 1000] * 600}
    text = f'{json.dumps(long)}\n{{"id"\n{{"id": 2}}\n'
    assert read(text) == ([long, {"id": 2}], [(2, "not a JSON object")])
    with pytest.raises(FileFault, match="invalid at line 606"):
        read(json.dumps(long, indent=0) + '\n{"id" 1}\n{"id": 2}\n')


@each_row(
    ("text", "fault"),
    [
        ('[{"id": 1}', "cut off"),
        ('[{"id": 1},', "cut off"),
        ("[", "cut off"),
        ('[{"id": 1}, {"id": "', "cut off"),
        ('[{"id": 1}, {"id": "\\', "cut off"),
        ('[{"id": 1}, {"id": [1', "cut off"),
        ('[{"id": 1},\n{"id": 2]', "invalid at line 2"),
        ('[{"id": 1}\n{"id": 2}]', "invalid at line 2"),
        ('[{"id": 1},\n,{"id": 2}]', "invalid at line 2"),
        ('[{"id": 1},\n]', "invalid at line 2"),
        ('[{"id": 1},\n{"id": tru}, {"id": 3}]', "invalid at line 2"),
        ('[{"id": 1},\n{"id" 2}]', "invalid at line 2"),
        ('[{"id": 1}}, {"id": 2}]', "invalid at line 1"),
        ('{\n"id" 1\n}\n{\n"id": 2\n}', "invalid at line 1"),
        ('{\n"id": 1\n}\n,\n{\n"id": 2\n}', "invalid at line 4"),
        ('{\n"id": 1\n}\n{\n"id" 2\n}\n{\n"id": 3\n}', "invalid at line 4"),
        ('{\n"id": 1\n}\n{\n"id": 2', "cut off"),
        ('{\n"id": 1\n}\n]', "invalid at line 4"),
    ],
)
def test_breaks(text: str, fault: str, block_bytes: int) -> None:
    """A truncated or broken array, or stream of indented objects, fails the file."""
    with pytest.raises(FileFault, match=fault):
        read(text)


@each_row(
    "value",
    [
        pytest.param('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", id="deep nesting"),
        pytest.param('{"x":' * 100_000 + "1" + "}" * 100_000, id="deep objects"),
        pytest.param('{"id":"\\ud800"}', id="lone surrogate"),
        pytest.param('{"id":' + "9" * 10_000 + "}", id="number too long"),
        pytest.param('{"id":NaN}', id="not a number"),
        pytest.param('{"id":"A\x00"}', id="raw control character"),
    ],
)
def test_hostile_values(value: str) -> None:
    """A well-formed value that cannot be used is one reject, and the next one is read."""
    for text in (f'[{{"id": 1}},\n{value},\n{{"id": 2}}]', f'{{"id": 1}}\n{value}\n{{"id": 2}}'):
        assert read(text) == ([{"id": 1}, {"id": 2}], [(2, "not a JSON object")])


def test_great_numbers() -> None:
    """A number out of range is kept as text."""
    assert read('[{"id": 1e999}]')[0] == [{"id": "1e999"}]


def test_members_there_twice() -> None:
    """If a member occurs twice, the latter counts."""
    assert read('[{"id": 1, "id": 2}]')[0] == [{"id": 2}]


@pytest.mark.parametrize(("open_", "close"), [('{"x": "', '"}'), ('{"x": [', "0]}"), ('"', '"')])
def test_values_over_the_limit(open_: str, close: str) -> None:
    """A value over 1 MiB is one reject, is never held whole, and its lines count."""
    filler = ("\\\\" if '"' in close else "0,\n") * (2 * MIB)
    text = f'[{{"id": 1}},\n{open_}{filler}{close},\n{{"id": 2}}, 5]'
    line = 3 + filler.count("\n")
    assert read(text) == (
        [{"id": 1}, {"id": 2}],
        [(2, "longer than 1,048,576 bytes"), (line, "not a JSON object")],
    )


def test_value_of_the_limit() -> None:
    """A value of exactly 1 MiB is read; one more byte is too many."""
    fits = '{"id": "' + "x" * (MIB - 10) + '"}'
    more = fits.replace("xx", "xxx", 1)
    found, rejects = read(f"[{fits}, {more}, {fits}]")
    assert (len(found), rejects) == (2, [(1, "longer than 1,048,576 bytes")])


def test_quote_never_closed() -> None:
    """A missing quote fails the file at its end, without filling the memory."""
    with pytest.raises(FileFault, match="cut off"):
        read('[{"id": "' + 'x", "y": "' * MIB)


def test_windows_1252() -> None:
    """An object that is not UTF-8 is read as Windows-1252; others are not."""
    text = b'[{"id": "\xc3\x8b"}, {"id": "\xcb", "x": "\xc3\x8b"}, {"id": "\xc3\x8b"}]'
    assert [each["id"] for each in read(text)[0]] == ["Ë", "Ë", "Ë"]


def test_member_names() -> None:
    """Member names of the objects are found in every shape, even if the head is cut off."""
    record = '{"Id": 1, "a b": {"in": [{"in": 2}]}, "c": "x\\": 1"}'
    for text in (record, f"[{record}", f"[\n{record},{record}", f'\ufeff{record}{{"id": "'):
        assert member_names(text.encode()) == {"id", "a_b", "c"}
    assert member_names(BROKEN_LINE.encode() + b'{"y": 1}') >= {"id", "x", "y"}
    assert member_names(b'{"id": 1, "tests": [{"in": "' + b"x" * 70_000) == {"id", "tests"}


@given(
    st.binary(max_size=200)
    | st.text(alphabet='{}[]",:\\ud8e09.-+ntrf \r\n\x00', max_size=80).map(str.encode),
    st.integers(1, 40),
)
def test_any_bytes(data: bytes, size: int) -> None:
    """Any bytes are read, or raise FileFault."""
    with read_in_blocks(size):
        for start in (b"", b"[", b'[{"id": 1},', b'{\n"id":', b'{"id": 1}\n'):
            member_names(start + data)
            with contextlib.suppress(FileFault):
                read(start + data)
