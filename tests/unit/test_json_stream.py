"""JSON objects in a stream: three shapes, where records begin, breaks, limits."""

import contextlib
import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats import FileFault, json_splitter, json_stream
from app.registers.formats.json_head import member_names
from app.registers.formats.json_stream import JsonObjects
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
    """How much is read at once; what a block cuts apart must not matter."""
    for module in (json_stream, json_splitter):
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


@pytest.mark.parametrize(
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
    """One object a line, one after the other, indented or not, or arrays: the same objects."""
    assert read(text) == (OBJECTS, [])


@pytest.mark.parametrize("text", ['{"id": 1}', '[{"id": 1}]', '{\n"id": 1}'])
def test_byte_order_mark(text: str) -> None:
    """A byte order mark, and blanks before the first value, are no part of it."""
    assert read(f"\ufeff{text}") == read(f"\n \n{text}") == ([{"id": 1}], [])


values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.sampled_from('{}[]",:\\ \né'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab{"', max_size=2), inner),
    max_leaves=6,
)
records = st.lists(st.dictionaries(st.sampled_from(["id", "x", 'q"', "{"]), values), min_size=1)


@given(records, st.sampled_from([None, 0, 1]), st.booleans(), st.integers(1, 40))
def test_any_objects(objects: list[dict], indent: int | None, ascii_: bool, size: int) -> None:
    """What is written as an array, or one after the other, is read as it was, in any blocks."""
    array = json.dumps(objects, indent=indent, ensure_ascii=ascii_)
    texts = [json.dumps(each, indent=indent, ensure_ascii=ascii_) for each in objects]
    with read_in_blocks(size):
        assert read(array) == (objects, [])
        if indent is None:
            assert read("\n".join(texts)) == (objects, [])
        # The first one tells the shape: one alone on its line would be NDJSON.
        first = '{"id": [\n{"id": 5}\n]}'
        with read_in_blocks(max(size, len(first))):
            assert read("\n".join([first, *texts])) == ([{"id": [{"id": 5}]}, *objects], [])


def test_lines_of_rejects(block_bytes: int) -> None:
    """A reject names the line on which its record begins, in every shape."""
    array = '[\n {"id":1},\r\n 5,\r\n {\n"id": 2},\r\r null, "a\\n",\n\n[1],\n-1e9, true]'
    found, rejects = read(array)
    assert found == [{"id": 1}, {"id": 2}]
    assert rejects == [(line, "not a JSON object") for line in (3, 7, 7, 9, 10, 10)]


def test_broken_lines() -> None:
    """A broken line of NDJSON is one reject, be it the first; blank lines are none."""
    assert read(BROKEN_LINE) == ([{"id": 2}], [(1, "not a JSON object")])
    for line in ('{"id": 1} {', '{"id": tru}', "nonsense", '{"id"', '{"a": 1}}', "{"):
        text = f'{line}\n\n{{"id": 2}}\n'
        assert read(text) == ([{"id": 2}], [(1, "not a JSON object")])
        text = f'{{"id": 0}}\n{line}\n \n{{"id": 2}}'
        assert read(text) == ([{"id": 0}, {"id": 2}], [(2, "not a JSON object")])


def test_broken_line_after_one_longer_than_a_block() -> None:
    """Lines are lines, though the first is hundreds of kilobytes; an object over lines is none."""
    long = {"id": 0, "tests": ["x" * 1000] * 600}
    text = f'{json.dumps(long)}\n{{"id"\n{{"id": 2}}\n'
    assert read(text) == ([long, {"id": 2}], [(2, "not a JSON object")])
    with pytest.raises(FileFault, match="invalid at line 606"):
        read(json.dumps(long, indent=0) + '\n{"id" 1}\n{"id": 2}\n')


@pytest.mark.parametrize(
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
    """Where an array or a stream of indented objects breaks or ends early, the file fails."""
    with pytest.raises(FileFault, match=fault):
        read(text)


@pytest.mark.parametrize(
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
    """What is well formed but cannot be taken is one reject, and the next one is read."""
    for text in (f'[{{"id": 1}},\n{value},\n{{"id": 2}}]', f'{{"id": 1}}\n{value}\n{{"id": 2}}'):
        assert read(text) == ([{"id": 1}, {"id": 2}], [(2, "not a JSON object")])


def test_great_numbers() -> None:
    """A number out of all bounds is kept as it stands."""
    assert read('[{"id": 1e999}]')[0] == [{"id": "1e999"}]


def test_members_there_twice() -> None:
    """Of two members of one name the latter counts."""
    assert read('[{"id": 1, "id": 2}]')[0] == [{"id": 2}]


@pytest.mark.parametrize(("open_", "close"), [('{"x": "', '"}'), ('{"x": [', "0]}"), ('"', '"')])
def test_values_over_the_limit(open_: str, close: str) -> None:
    """A value over 1 MiB is one reject, is never held whole, and its lines count."""
    filler = ("\\\\" if '"' in close else "0,\n") * (2 * MIB)
    text = f'[{{"id": 1}},\n{open_}{filler}{close},\n{{"id": 2}}, 5]'
    line = 3 + filler.count("\n")
    assert read(text) == (
        [{"id": 1}, {"id": 2}],
        [(2, "longer than 1048576 bytes"), (line, "not a JSON object")],
    )


def test_value_of_the_limit() -> None:
    """A value of exactly 1 MiB is read, one more byte is too many."""
    fits = '{"id": "' + "x" * (MIB - 10) + '"}'
    more = fits.replace("xx", "xxx", 1)
    found, rejects = read(f"[{fits}, {more}, {fits}]")
    assert (len(found), rejects) == (2, [(1, "longer than 1048576 bytes")])


def test_quote_never_closed() -> None:
    """A missing quote does not eat memory: the file ends within a text, and fails."""
    with pytest.raises(FileFault, match="cut off"):
        read('[{"id": "' + 'x", "y": "' * MIB)


def test_windows_1252() -> None:
    """An object that is not UTF-8 is read as Windows-1252, the others are not."""
    text = b'[{"id": "\xc3\x8b"}, {"id": "\xcb", "x": "\xc3\x8b"}, {"id": "\xc3\x8b"}]'
    assert [each["id"] for each in read(text)[0]] == ["Ë", "Ë", "Ë"]


def test_member_names() -> None:
    """Names are found in every shape, of the objects alone, though the head be cut off."""
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
    """No bytes at all raise anything but FileFault."""
    with read_in_blocks(size):
        for start in (b"", b"[", b'[{"id": 1},', b'{\n"id":', b'{"id": 1}\n'):
            member_names(start + data)
            with contextlib.suppress(FileFault):
                read(start + data)
