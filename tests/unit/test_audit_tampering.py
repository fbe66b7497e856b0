"""Whoever changes what was sealed is found every night, by what is on the host (D116).

Root, who knows the format, changes the files of a trail. What needs a digest that left the host is
in test_audit_forgery.py.
"""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from app.audit.record import AuditError
from tests.unit.tampered_trail import Kind, Original, Root, built, named, rows

FORGED = b'{"time":"2026-11-08T12:30:00.000000Z","operation":"insurance"}\n'
DEEP = b'{"time":' + b"[" * 1_200 + b"\n"
Do = Callable[[Root], object]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    with built(tmp_path_factory.mktemp("tampering")) as original:
        yield original


def check_found(original: Original, directory: Path, kind: Kind) -> None:
    """Require that a kind is found at night, and by reading everything."""
    root = Root.of(original, directory, kind)
    kind.do(root)
    faults = root.verify_at_night().faults
    assert named(faults) == kind.faults
    assert kind.words in faults[0].sentence
    assert msgspec.json.encode(faults)
    kept = root.verify_kept().faults
    assert [each for each in kept if each.kind != "digest"] == faults


# Segment 5, which has three look-ups and a search.


def data(change: Callable[[bytes], bytes]) -> Do:
    return lambda root: root.rewrite(5, change)


def records(change: Callable[[list[bytes]], list[bytes]]) -> Do:
    return lambda root: root.records(5, change)


def replaced(old: bytes, new: bytes, count: int = -1) -> Do:
    return data(lambda was: was.replace(old, new, count))


def blanked(lines: list[bytes]) -> list[bytes]:
    return [b" " * (len(lines[0]) - 1) + b"\n", *lines[1:]]


def reordered(lines: list[bytes]) -> list[bytes]:
    """Return the same records, the members of the first one in another order."""
    first = msgspec.json.decode(lines[0])
    return [msgspec.json.encode(dict(reversed(first.items()))) + b"\n", *lines[1:]]


def hole(root: Root) -> None:
    size = root.path(5).stat().st_size
    root.rewrite(5, lambda _: b"")
    os.truncate(root.path(5), size)


def moved_record(root: Root) -> None:
    last = root.path(5).read_bytes().splitlines(keepends=True)[-1]
    root.records(5, lambda lines: lines[:-1])
    root.records(6, lambda lines: [last, *lines])


def exchanged_records(root: Root) -> None:
    fifth, sixth = (root.path(n).read_bytes().splitlines(keepends=True)[0] for n in (5, 6))
    root.records(5, lambda lines: [sixth, *lines[1:]])
    root.records(6, lambda lines: [fifth, *lines[1:]])


def joined(root: Root) -> None:
    more = root.path(6).read_bytes()
    root.rewrite(5, lambda was: was + more)
    root.path(6).unlink()


BYTES = [
    Kind("a bit", data(lambda d: d[:9] + bytes([d[9] ^ 1]) + d[10:]), "changed 5"),
    Kind("another plate", replaced(b"05P1", b"05P9"), "changed 5"),
    Kind("another answer", replaced(b":true}", b":false}", 1), "extended 5"),
    Kind("another time", replaced(b"2026", b"2025", 1), "changed 5"),
    Kind("a reason less", replaced(b'"reason":"THEFT",', b"", 1), "shortened 5"),
    Kind("records in another order", records(lambda x: [x[1], x[0], *x[2:]]), "changed 5"),
    Kind("the end cut off", data(lambda d: d[:-20]), "shortened 5"),
    Kind("no last line end", data(lambda d: d[:-1]), "shortened 5"),
    Kind("no last record", records(lambda x: x[:-1]), "shortened 5"),
    Kind("a record less", records(lambda x: [x[0], *x[2:]]), "shortened 5"),
    Kind("an empty segment", data(lambda _: b""), "shortened 5"),
    Kind("bytes at the end", data(lambda d: d + d[:50]), "extended 5"),
    Kind("a record twice", records(lambda x: [*x, x[0]]), "extended 5"),
    Kind("a record more", records(lambda x: [x[0], FORGED, *x[1:]]), "extended 5"),
    Kind("a record blanked", records(blanked), "changed 5"),
    Kind("a hole of the same size", hole, "changed 5"),
    Kind("line ends of Windows", replaced(b"\n", b"\r\n"), "extended 5"),
    Kind("bytes that are no text", replaced(b"THEFT", b"\xff" * 5), "changed 5"),
    Kind("JSON of any depth", data(lambda _: DEEP), "extended 5"),
    Kind("two lines joined", replaced(b"\n", b" ", 1), "changed 5"),
    Kind("members in another order", records(reordered), "changed 5"),
    Kind("spaces in the JSON", replaced(b",", b", "), "extended 5"),
    Kind("compressed in its place", data(gzip.compress), "shortened 5"),
    Kind("in UTF-16", data(lambda d: d.decode().encode("utf-16")), "extended 5"),
    Kind("a record moved to the next segment", moved_record, "shortened 5, extended 6"),
    Kind("records of two segments exchanged", exchanged_records, "changed 5, changed 6"),
    Kind("two segments joined", joined, "extended 5, removed 6"),
]


@rows(BYTES)
def test_bytes_of_a_segment(original, tmp_path, kind):
    """The chain has the digest of what was sealed."""
    check_found(original, tmp_path, kind)


# Files


def removed(number: int) -> Do:
    return lambda root: root.path(number).unlink()


def all_removed(root: Root) -> None:
    for number in range(4, 14):
        root.path(number).unlink()


def renamed(name: str) -> Do:
    return lambda root: root.path(5).rename(root.directory / name)


def hidden(root: Root) -> None:
    (root.directory / "old").mkdir()
    root.path(5).rename(root.directory / "old" / root.path(5).name)


def compressed(root: Root) -> None:
    root.add(f"{root.names[4]}.ndjson.gz", gzip.compress(root.path(5).read_bytes()))
    root.path(5).unlink()


def copied(name: str) -> Do:
    return lambda root: shutil.copy(root.path(5), root.directory / name)


def exchanged(root: Root) -> None:
    fifth, sixth = root.path(5).read_bytes(), root.path(6).read_bytes()
    root.rewrite(5, lambda _: sixth)
    root.rewrite(6, lambda _: fifth)


def in_place(put: Callable[[Path, Path], object], number: int = 5) -> Do:
    """Put something else in the place of a segment, whose file is elsewhere."""

    def do(root: Root) -> None:
        elsewhere = root.directory.parent / "elsewhere"
        root.path(number).rename(elsewhere)
        put(root.path(number), elsewhere)

    return do


def of_other(number: int, directory: Callable[[Original], Path]) -> Do:
    """Replace a segment by that of the same number in another directory."""

    def do(root: Root) -> None:
        (source,) = directory(root.original).glob(f"{number:08}-*.ndjson")
        root.rewrite(number, lambda _: source.read_bytes())

    return do


def added(name: str, content: bytes = FORGED) -> Do:
    return lambda root: root.add(f"{name}.ndjson", content)


def restored(name: str) -> Do:
    return lambda root: root.add(f"{name}.ndjson", root.original.first)


ALL = ", ".join(f"removed {number}" for number in range(4, 14))
PIPE = "not a regular file"
FILES = [
    Kind("a segment removed", removed(5), "removed 5", "was removed"),
    Kind("the oldest that is kept", removed(4), "removed 4"),
    Kind("the newest that is sealed", removed(13), "removed 13"),
    Kind("all that are sealed", all_removed, ALL),
    Kind("one removed before it was sealed", removed(14), "removed 15", "follows number 13"),
    Kind("another hour", renamed("00000005-20300101T00.ndjson"), "renamed 5"),
    Kind("a number to come", renamed("00000016-20261108T00.ndjson"), "renamed 5"),
    Kind("a name that is no segment's", renamed("five.ndjson"), "renamed 5", "to five"),
    Kind("another suffix", renamed("00000005-20261106T12.bak"), "removed 5"),
    Kind("in a directory below", hidden, "removed 5"),
    Kind("compressed beside it", compressed, "removed 5"),
    Kind("a copy of another hour", copied("00000005-20300101T00.ndjson"), "duplicated 5"),
    Kind("a copy as the next one", copied("00000016-20261108T00.ndjson"), "duplicated 16"),
    Kind("a hard link", lambda r: os.link(r.path(5), r.path(6).with_stem("x")), "duplicated x"),
    Kind(
        "a copy in the place of another",
        lambda r: r.rewrite(6, lambda _: r.path(5).read_bytes()),
        "duplicated 6",
        "was replaced by a copy of 00000005",
    ),
    Kind("two exchanged", exchanged, "swapped 5, swapped 6"),
    Kind("a link to its content", in_place(lambda p, e: p.symlink_to(e)), "unreadable 5", PIPE),
    Kind("a link to nothing", in_place(lambda p, _: p.symlink_to("/x")), "unreadable 5", PIPE),
    Kind("a pipe", in_place(lambda p, _: os.mkfifo(p)), "unreadable 5", PIPE),
    Kind("a directory", in_place(lambda p, _: p.mkdir()), "unreadable 5", PIPE),
    Kind("a pipe, not sealed", in_place(lambda p, _: os.mkfifo(p), 15), "unreadable 15", PIPE),
    Kind("of another trail", of_other(6, lambda o: o.other), "changed 6"),
    Kind("of an older backup, when it was open", of_other(12, lambda o: o.older), "shortened 12"),
    Kind("an old number", added("00000005-20261106T13"), "added 5", "never sealed"),
    Kind("an old number, empty", added("00000005-20261106T13", b""), "added 5"),
    Kind("a number of one not sealed", added("00000014-20300101T00"), "added 14", "of another"),
    Kind("number 0", added("00000000-20261106T12"), "added 0"),
    Kind("no number", added("extra"), "added extra"),
    Kind("a name that is no UTF-8", added(os.fsdecode(b"\xff")), "added \\udcff"),
    Kind("an hour that is none", added("00000016-20261332T25"), "added 16"),
    Kind("a hidden file", added(".00000005"), "added .00000005"),
    Kind("a gap before it", added("00000019-20261108T00"), "removed 19", "follows number 15"),
    Kind("lines that are no records", added("00000016-20261108T00", b"{}\n"), "unreadable 16"),
    Kind("a pruned one put back", lambda r: r.path(1).write_bytes(r.original.first), "restored 1"),
    Kind(
        "a pruned one put back and changed",
        lambda r: r.path(1).write_bytes(FORGED),
        "restored 1",
        "its content was changed",
    ),
    Kind("a pruned one, an old number", restored("00000005-20261106T13"), "restored 5", "a copy"),
    Kind("a pruned one, a new number", restored("00000016-20261108T00"), "restored 16", "a copy"),
]


@rows(FILES)
def test_files(original, tmp_path, kind):
    """Each segment that was sealed has one file, and nothing else has such a name."""
    check_found(original, tmp_path, kind)


# The index, which leads a search to its records


def entries(change: Callable[[list[bytes]], list[bytes]]) -> Do:
    return lambda root: root.entries(5, change)


def index_in_place(put: Callable[[Path, Root], object]) -> Do:
    def do(root: Root) -> None:
        root.index_of(5).unlink()
        put(root.index_of(5), root)

    return do


def index_file(name: str) -> Do:
    return lambda root: (root.index / name).write_bytes(b"verifyd index 1\n")


AT = "index index:00000005"
INDEX = [
    Kind("an entry less", entries(lambda x: x[1:]), AT),
    Kind("an entry twice", entries(lambda x: [x[0], *x]), AT),
    Kind("an entry where nobody looks", entries(lambda x: [*x[1:], x[0]]), AT),
    Kind("another block", entries(lambda x: [x[0][:12] + b"\0\0\0\7", *x[1:]]), AT),
    Kind("another segment", entries(lambda x: [x[0][:8] + b"\0\0\0\6\0\0\0\0", *x[1:]]), AT),
    Kind("no entry", entries(lambda _: []), AT),
    Kind("half an entry", lambda r: os.truncate(r.index_of(5), 40), AT),
    Kind("no header", lambda r: r.index_of(5).write_bytes(b"x" * 32), AT),
    Kind("empty", lambda r: r.index_of(5).write_bytes(b""), AT),
    Kind("that of another segment", lambda r: shutil.copy(r.index_of(6), r.index_of(5)), AT),
    Kind(
        "a name that covers more",
        lambda r: r.index_of(5).rename(r.index / "00000005-00000006.0"),
        AT,
    ),
    Kind("an empty file for all", index_file("00000004-00000013.9"), "index index:00000004"),
    Kind("a link", index_in_place(lambda p, r: p.symlink_to(r.index_of(6))), AT),
    Kind("a pipe", index_in_place(lambda p, _: os.mkfifo(p)), AT),
    Kind("a directory", index_in_place(lambda p, _: p.mkdir()), AT),
    Kind("a file for what is to come", index_file("00000014-00000099.0"), "chain_cut chain"),
]


@rows(INDEX)
def test_the_index(original, tmp_path, kind):
    """A search must not miss a record (D140)."""
    check_found(original, tmp_path, kind)


# The chain as a text


def part(old: bytes, new: bytes, number: int = 5) -> Do:
    return lambda root: root.line(number, old, new)


def texts(change: Callable[[list[bytes]], list[bytes]]) -> Do:
    return lambda root: root.lines(change)


def text(change: Callable[[bytes], bytes]) -> Do:
    return lambda root: root.chain.write_bytes(change(root.chain.read_bytes()))


def foreign(root: Root) -> None:
    other = (root.original.other / "chain.ndjson").read_bytes().splitlines()
    root.lines(lambda x: [*x[:4], other[4], *x[4:]])


def older(root: Root) -> None:
    shutil.copy(root.original.older / "chain.ndjson", root.chain)


C5 = "chain_changed chain:5"
LOST = ", removed 5, added 5"
"""A line that cannot be read says nothing of its segment."""
FIRST = "chain_changed chain:1, removed 1, pruned_early chain:10"
NONE = "removed 4, chain_cut chain"
CHAIN = [
    Kind("a digest", part(b'"digest":"', b'"digest":"0'), C5),
    Kind(
        "a digest in upper case",
        texts(lambda x: [*x[:4], x[4][:-66] + x[4][-66:].upper(), *x[5:]]),
        C5,
    ),
    Kind("no digest", texts(lambda x: [*x[:4], x[4][:-77] + b"}", *x[5:]]), C5),
    Kind("the digest of a segment", part(b'"sha256":"', b'"sha256":"0'), f"{C5}, changed 5"),
    Kind("the digest before", part(b'"previous":"', b'"previous":"0'), C5),
    Kind("a count", part(b'"records":4', b'"records":3'), f"{C5}, count 5"),
    Kind("a time", part(b'"time":"2026', b'"time":"2025'), C5),
    Kind("a name", part(b'"00000005-20261106T1', b'"00000005-20261106T0'), f"{C5}, renamed 5"),
    Kind("a space", part(b",", b", "), C5),
    Kind("a member more", part(b',"records"', b',"more":1,"records"'), C5),
    Kind("a member less", part(b'"records":4,', b""), C5 + LOST),
    Kind("a member twice", part(b'"records":4', b'"records":4,"records":4'), C5),
    Kind("a character escaped", part(b"20261106T12", b"20261106\\u005412"), C5),
    Kind("another kind of line", part(b'"kind":"seal"', b'"kind":"prune"'), C5 + LOST),
    Kind("a line that is none", texts(lambda x: [*x[:4], b"?", *x[5:]]), C5 + LOST),
    Kind("zeros", texts(lambda x: [*x[:4], bytes(len(x[4])), *x[5:]]), C5 + LOST),
    Kind("an empty line", texts(lambda x: [*x[:4], b"", *x[4:]]), C5),
    Kind(
        "line ends of Windows",
        text(lambda d: d.replace(b"\n", b"\r\n", 1)),
        "chain_changed chain:1",
    ),
    Kind("two lines joined", text(lambda d: d.replace(b"\n", b"", 1)), FIRST),
    Kind("a line less", texts(lambda x: [*x[:4], *x[5:]]), "chain_broken chain:5, added 5"),
    Kind(
        "no first line",
        texts(lambda x: x[1:]),
        "chain_broken chain:1, pruned_early chain:10",
        "the lines of segments from 1 to 1 were removed",
    ),
    Kind(
        "no line of a prune",
        texts(lambda x: [*x[:10], *x[11:]]),
        "chain_broken chain:11, removed 1, removed 2, removed 3",
    ),
    Kind(
        "a pruned segment less",
        part(b',"00000003-20261102T08"', b"", 11),
        "chain_changed chain:11, removed 3",
    ),
    Kind(
        "two lines exchanged",
        texts(lambda x: [*x[:4], x[5], x[4], *x[6:]]),
        "chain_broken chain:5, chain_broken chain:6, chain_broken chain:7",
    ),
    Kind("a line again", texts(lambda x: [*x, x[4]]), "chain_broken chain:15", "duplicated"),
    Kind("of another trail", foreign, "chain_broken chain:5, chain_broken chain:6, removed 5"),
    Kind("no end", texts(lambda x: x[:-2]), "chain_cut chain"),
    Kind("no last line end", text(lambda d: d[:-1]), "chain_cut chain"),
    Kind("an empty file", text(lambda _: b""), NONE),
    Kind("no file", lambda r: r.chain.unlink(), NONE),
    Kind("of an older backup", older, "chain_cut chain"),
]


@rows(CHAIN)
def test_the_text_of_the_chain(original, tmp_path, kind):
    """Each line has its own digest, and that of the line before."""
    check_found(original, tmp_path, kind)


# What cannot be read


def chain_in_place(put: Callable[[Path], object]) -> Do:
    def do(root: Root) -> None:
        root.chain.rename(root.directory.parent / "elsewhere")
        put(root.chain)

    return do


def pipe_as_owner(root: Root) -> None:
    root.owner.unlink()
    os.mkfifo(root.owner)


UNREADABLE = [
    Kind("a link to the chain", chain_in_place(lambda p: p.symlink_to("../elsewhere")), "links"),
    Kind("a pipe as the chain", chain_in_place(os.mkfifo), PIPE),
    Kind("a directory as the chain", chain_in_place(Path.mkdir), PIPE),
    Kind("a damaged owner", lambda r: r.add("owner.json", b"{"), "owner.json is damaged"),
    Kind("a pipe as the owner", pipe_as_owner, PIPE),
]


@rows(UNREADABLE)
def test_what_cannot_be_read_is_no_trail_that_verifies(original, tmp_path, kind):
    """The verification ends, and fails."""
    root = Root.of(original, tmp_path, kind)
    kind.do(root)
    with pytest.raises((AuditError, OSError), match=kind.faults):
        root.verify_kept()
