"""Files as the operator names them: plain, gzip, zip, standard input."""

import contextlib
import errno
import gzip
import io
import os
import struct
import sys
import threading
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import Hindered
from app.registers.formats import FileFault
from app.registers.formats.format import HEAD_BYTES
from app.registers.reading import sources, streams
from app.registers.reading.sources import open_members, sorted_by_date, unpacked_bytes_of
from app.text import printable

DATA = b"registration,make\n" + b"".join(b"P%06d,FORD\n" % n for n in range(20_000))
MIB = 1024 * 1024

Saved = Callable[[bytes], str]


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """Save bytes under a neutral name, and return the path."""

    def save(data: bytes) -> str:
        path = tmp_path / "register.bin"
        path.write_bytes(data)
        return str(path)

    return save


def zipped(*entries: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return target.getvalue()


def read(path: str) -> list[tuple[str, bytes]]:
    """Return name and content of each member; the names have no directory."""
    with contextlib.closing(open_members(path)) as opened:
        return [
            (member.name.removeprefix(path).removeprefix(": "), member.stream.read())
            for member in opened
        ]


def fault(path: str) -> str:
    with pytest.raises(FileFault) as caught:
        read(path)
    assert caught.value.name.startswith("standard input" if path == "-" else printable(path))
    return caught.value.reason


def feed_standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_plain_file(saved: Saved) -> None:
    """A plain file is one member, and still has the head that was read."""
    path = saved(DATA)
    for member in open_members(path):
        assert (member.name, member.bytes_total) == (path, len(DATA))
        assert member.head == DATA[:HEAD_BYTES]
        assert member.stream.read() == DATA
        assert member.bytes_read() == len(DATA)


def test_compression_is_seen_not_believed(tmp_path: Path) -> None:
    """Compression is detected from the first bytes, whatever the file's name."""
    (tmp_path / "a.gz").write_bytes(DATA)
    (tmp_path / "b.csv").write_bytes(gzip.compress(DATA))
    (tmp_path / "c.csv").write_bytes(zipped(("x.csv", DATA)))
    assert read(str(tmp_path / "a.gz")) == [("", DATA)]
    assert read(str(tmp_path / "b.csv")) == [("", DATA)]
    assert read(str(tmp_path / "c.csv")) == [("x.csv", DATA)]


def test_gzip_of_several_streams(saved: Saved) -> None:
    """Several gzip streams are one file, and zeros after them are padding."""
    parts = gzip.compress(DATA[:100]) + gzip.compress(b"") + gzip.compress(DATA[100:])
    assert read(saved(parts)) == [("", DATA)]
    assert read(saved(parts + bytes(512))) == [("", DATA)]


def test_zip_members(saved: Saved) -> None:
    """Each data member of a zip is read, also gzip inside, in the order of the archive."""
    entries = [
        ("data/", b""),
        ("data/b_1.json.gz", gzip.compress(b"{}")),
        ("__MACOSX/data/._b_1.json.gz", b"x"),
        ("data/.hidden.csv", b"x"),
        ("README.txt", b"x"),
        ("terms.pdf", b"x"),
        ("data\\a.CSV", DATA),
        ("c.ndjson", b"{}\n"),
        ("d.jsonl", b"{}\n"),
        ("e.tsv", b"x"),
    ]
    assert read(saved(zipped(*entries))) == [
        ("data/b_1.json.gz", b"{}"),
        ("data\\a.CSV", DATA),
        ("c.ndjson", b"{}\n"),
        ("d.jsonl", b"{}\n"),
        ("e.tsv", b"x"),
    ]


def test_only_member_of_a_zip(saved: Saved) -> None:
    """A member with another suffix is read if it is the only file."""
    entries = [("folder/", b""), ("folder/MID_P_000123.txt", DATA), ("__MACOSX/x.csv", b"x")]
    assert read(saved(zipped(*entries))) == [("folder/MID_P_000123.txt", DATA)]


def test_zip_without_data(saved: Saved) -> None:
    """A zip without data members is refused; the message lists its members."""
    reason = fault(saved(zipped(("a.txt", b"x"), ("b\n.pdf", b"x"))))
    assert "a.txt, b\\n.pdf" in reason
    assert "0 files" in fault(saved(zipped()))
    assert "0 files" in fault(saved(zipped(("folder/", b""))))


def test_paths_in_a_zip_are_never_followed(saved: Saved, tmp_path: Path) -> None:
    """A path that leaves the archive is only a name: nothing is written to disk."""
    path = saved(zipped(("../../evil.csv", b"a"), ("/etc/evil.csv", b"b")))
    before = sorted(tmp_path.parent.rglob("*"))
    assert read(path) == [("../../evil.csv", b"a"), ("/etc/evil.csv", b"b")]
    assert sorted(tmp_path.parent.rglob("*")) == before


@pytest.mark.parametrize("path", ["no/such/file.csv", "/", "x\0y"])
def test_unopenable_files(path: str) -> None:
    """The fault of a missing file or a directory has its name."""
    assert fault(path)


def test_missing_file_says_so() -> None:
    """The message is the operating system's."""
    assert fault("no/such/file.csv") == "The file cannot be read: No such file or directory."
    assert fault("/") == "The file cannot be read: Is a directory."


@pytest.mark.parametrize(
    "data", [b"", gzip.compress(b""), zipped(("a.csv", b""))], ids=["plain", "gzip", "zip"]
)
def test_empty_file(data: bytes, saved: Saved) -> None:
    """A file of 0 bytes is read as such, compressed or not."""
    assert [content for _, content in read(saved(data))] == [b""]


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_only_regular_files_are_read_where_others_can_write(kind: str, saved: Saved) -> None:
    """A link is not followed and a pipe not awaited, even if it replaced a file just now."""
    path = Path(saved(b"registration\nAB12CDE\n"))
    assert [member.head for member in open_members(str(path), is_trusted=False)] == [
        path.read_bytes()
    ]
    other = path.with_name("other")
    if kind == "link":
        other.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(other)
    else:
        other.mkdir()
    with pytest.raises(FileFault, match="The file cannot be read: "):
        list(open_members(str(other), is_trusted=False))
    assert unpacked_bytes_of(str(other), is_trusted=False) is None


def test_a_file_of_somebody_else_says_who_must_read_it(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `sudo verifyd` it is not obvious that the user verifyd reads the file."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = saved(b"registration\nAB12CDE\n")
    monkeypatch.setattr(sources, "open_file", refuse)
    monkeypatch.setattr(streams, "user_name", lambda: "verifyd")
    told = "The file cannot be read: Permission denied. Let the user verifyd read it."
    assert fault(path) == told


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_disk_that_fails_is_no_fault_of_the_file(
    number: int, saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk error hinders the load, without making the file count as failed."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    path = saved(b"registration\nAB12CDE\n")
    monkeypatch.setattr(sources, "open_file", fail)
    with pytest.raises(Hindered, match=os.strerror(number)):
        list(open_members(path))


@pytest.mark.parametrize("kept", [1, 5, 12, 1000, -1, -4, -9])
def test_gzip_cut_off(kept: int, saved: Saved) -> None:
    """A gzip file that is truncated anywhere is a fault."""
    whole = gzip.compress(os.urandom(4 * HEAD_BYTES))
    path = saved(whole[:kept])
    if kept == 1:
        assert read(path) == [("", whole[:1])]
    else:
        assert fault(path) == "The file is cut off."


def test_second_gzip_stream_cut_off(saved: Saved) -> None:
    """A truncated second stream is a fault, even after a whole first one."""
    assert "cut off" in fault(saved(gzip.compress(DATA) + gzip.compress(DATA)[:-10]))


def test_bad_checksum(saved: Saved) -> None:
    """A wrong checksum of a gzip file or zip member is a fault at its end."""
    broken = bytearray(gzip.compress(DATA))
    broken[-8] ^= 1
    assert "damaged" in fault(saved(bytes(broken)))
    broken = bytearray(zipped(("a.csv", DATA), compression=zipfile.ZIP_STORED))
    broken[broken.index(b"P000123")] ^= 1
    path = saved(bytes(broken))
    assert "damaged" in fault(path)
    with pytest.raises(FileFault) as caught:
        read(path)
    assert caught.value.name == f"{path}: a.csv"


def test_broken_deflate(saved: Saved) -> None:
    """Damage inside the compressed bytes is a fault."""
    broken = bytearray(gzip.compress(DATA))
    broken[20:60] = bytes(40)
    assert fault(saved(bytes(broken)))


def test_rubbish_after_gzip(saved: Saved) -> None:
    """Bytes after a gzip stream that are no other stream are a fault."""
    assert "damaged" in fault(saved(gzip.compress(DATA) + b"rubbish"))


@pytest.mark.parametrize("kept", [4, 30, 200, 10_000, -1, -22, -60])
def test_zip_cut_off(kept: int, saved: Saved) -> None:
    """A zip that is truncated anywhere has no directory, and is a fault."""
    assert fault(saved(zipped(("a.csv", DATA))[:kept]))


def test_zip_member_cut_off(saved: Saved) -> None:
    """A gzip member that was truncated before it was zipped is a fault."""
    cut_off = gzip.compress(DATA)[:-10]
    assert fault(saved(zipped(("a.csv.gz", cut_off)))) == "The file is cut off."


def test_encrypted_zip(saved: Saved) -> None:
    """The refusal says that the member is encrypted."""
    data = bytearray(zipped(("a.csv", DATA)))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(signature) + offset
        data[at : at + 2] = struct.pack("<H", 1)
    assert fault(saved(bytes(data))) == "The member is encrypted."


UNREAD_METHODS = [
    (9, "compressed with Deflate64, as Windows Explorer does with more than 2 GB. Compress the"),
    (98, "compressed with PPMd. Compress the file with gzip"),
    (97, "compressed with method 97. Compress the file with gzip"),
]
if sys.version_info < (3, 14):
    UNREAD_METHODS.append((93, "compressed with zstd. Compress the file with gzip"))


@pytest.mark.parametrize(("method", "told"), UNREAD_METHODS)
def test_unread_zip_method(method: int, told: str, saved: Saved) -> None:
    """The refusal names the compression method, and what to compress the file with."""
    data = bytearray(zipped(("a.csv", DATA)))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.index(signature) + offset
        data[at : at + 2] = struct.pack("<H", method)
    assert told in fault(saved(bytes(data)))


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    ],
)
def test_other_containers(start: bytes, word: str, saved: Saved) -> None:
    """The refusal names the kind of container."""
    assert word in fault(saved(start + DATA))


def test_containers_in_containers(saved: Saved) -> None:
    """A zip inside another container, and gzip in gzip, are refused."""
    inner = zipped(("a.csv", DATA))
    assert "zip" in fault(saved(gzip.compress(inner)))
    assert "zip" in fault(saved(zipped(("a.csv", inner))))
    assert "twice" in fault(saved(gzip.compress(gzip.compress(DATA))))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input can be plain or gzip; its bytes are counted, its size is unknown."""
    for data in (DATA, gzip.compress(DATA)):
        feed_standard_input(monkeypatch, data)
        for member in open_members("-"):
            assert (member.name, member.bytes_total) == ("standard input", None)
            assert member.head == DATA[:HEAD_BYTES]
            assert member.stream.read() == DATA
            assert member.bytes_read() == len(data)


def test_zip_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip on standard input is refused with the reason."""
    feed_standard_input(monkeypatch, zipped(("a.csv", DATA)))
    assert "not from standard input" in fault("-")


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty standard input is a file of 0 bytes."""
    feed_standard_input(monkeypatch, b"")
    assert [content for _, content in read("-")] == [b""]


@pytest.mark.parametrize("compressed", [False, True])
def test_named_pipe(compressed: bool, tmp_path: Path) -> None:
    """A named pipe is read like standard input."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = gzip.compress(DATA) if compressed else DATA
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    for member in open_members(str(path)):
        assert member.bytes_total is None
        assert member.stream.read() == DATA
        assert member.bytes_read() == len(data)
    writer.join()


def test_progress(saved: Saved) -> None:
    """Bytes are counted as they are in the file, and never decrease between members."""
    path = saved(zipped(*((f"{n}.csv", os.urandom(4 * HEAD_BYTES)) for n in range(3))))
    size = Path(path).stat().st_size
    seen = []
    for member in open_members(path):
        assert member.bytes_total == size
        while member.stream.read(HEAD_BYTES):
            seen.append(member.bytes_read())
    assert seen == sorted(seen)
    assert size * 0.9 < seen[-1] <= size
    assert member.bytes_read() == size


@pytest.mark.system_long
def test_reading_stays_flat(saved: Saved) -> None:
    """A compressed file is never unpacked into memory as a whole."""
    data = b"x" * 64 * MIB
    bomb = gzip.compress(data)
    for path in (saved(bomb), saved(zipped(("a.csv.gz", bomb), ("b.csv", data)))):
        tracemalloc.start()
        try:
            for member in open_members(path):
                while member.stream.read(HEAD_BYTES):
                    pass
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 * MIB


@pytest.mark.parametrize(
    "whole",
    [
        gzip.compress(b"registration\nAB1\n"),
        zipped(("a.csv", b"registration\nAB1\n"), ("b.csv.gz", gzip.compress(b"x"))),
        zipped(("a.csv", b"registration\nAB1\n"), compression=zipfile.ZIP_LZMA),
        zipped(("a.csv", b"registration\nAB1\n"), compression=zipfile.ZIP_BZIP2),
    ],
    ids=["gzip", "zip", "lzma", "bzip2"],
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage(whole: bytes, data: st.DataObject, saved: Saved) -> None:
    """Any damage to a container is harmless, or raises FileFault."""
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FileFault):
        read(saved(bytes(damaged)))


@pytest.mark.parametrize("data", [DATA, gzip.compress(DATA), zipped(("a.csv", DATA))])
@pytest.mark.parametrize("what", ["appended to", "written over", "truncated"])
def test_a_file_that_changes(data: bytes, what: str, saved: Saved) -> None:
    """A file that changes while it is read is a fault at its end."""
    path = Path(saved(data))
    opened = open_members(str(path))
    member = next(opened)
    if what == "truncated":
        os.truncate(path, len(data) - 8)
    else:
        with open(path, "ab" if what == "appended to" else "r+b") as file:
            file.write(data[:10])
    os.utime(path, (1, 1))
    with pytest.raises(FileFault, match=r"was changed while it was read|cut off|damaged"):
        _ = member.stream.read(), next(opened, None)


def test_a_file_that_is_replaced(saved: Saved) -> None:
    """The opened file is read to its end, even if a new one takes its name."""
    path = Path(saved(DATA))
    for member in open_members(str(path)):
        path.with_suffix(".new").write_bytes(b"another")
        path.with_suffix(".new").rename(path)
        assert member.stream.read() == DATA


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: zipped(("a.csv", data))])
def test_a_bomb(
    pack: Callable[[bytes], bytes], saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that unpacks to more than 200 times its size is refused."""
    monkeypatch.setattr(streams, "_UNPACKED_BYTES_FREE", 2 * len(DATA))
    assert "more than 200 times its size" in fault(saved(pack(bytes(4 * MIB))))
    assert len(read(saved(pack(DATA * 10)))) == 1


def test_order_of_dates() -> None:
    """DVSA files are sorted by the dates in their names, a bulk before deltas."""
    wanted = [
        "a/bulk-light-vehicle_29-06-2025.zip",
        "z/delta-light-vehicle_29-06-2025.zip",
        "delta-light-vehicle_30-06-2025 (1).zip",
        "DELTA-LIGHT-VEHICLE_01-07-2025.ZIP",
        "b\\delta-light-vehicle_01-01-2026.zip",
    ]
    assert sorted_by_date(sorted(wanted), str) == wanted
    assert sorted_by_date(wanted[::-1], str) == wanted


@pytest.mark.parametrize("other", ["vehicles.csv", "-", "delta-light-vehicle_30-06-2025/x.zip"])
def test_order_as_given(other: str) -> None:
    """If one file has no such name, all files keep the given order."""
    files = ["delta-light-vehicle_02-07-2025.zip", other, "delta-light-vehicle_01-07-2025.zip"]
    assert sorted_by_date(files, str) == files


def test_order_of_members_with_one_date(saved: Saved) -> None:
    """Members with the same date keep the order of the zip's directory."""
    names = [f"bulk-light-vehicle_29-06-2025_{n}.json" for n in (0, 1, 10, 2)]
    assert [name for name, _ in read(saved(zipped(*((name, b"x") for name in names))))] == names


def test_a_workbook_is_named(tmp_path):
    """An Excel workbook is a zip, but what to do with it is something else."""
    path = tmp_path / "fleet.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"):
            archive.writestr(name, "<x/>")
    with pytest.raises(
        FileFault, match=r"fleet\.xlsx: The file is an Excel workbook; save it as CSV"
    ):
        list(open_members(str(path)))


def test_an_old_workbook_is_named(tmp_path):
    """A binary .xls file is no CSV, and not a file with zero bytes either."""
    path = tmp_path / "fleet.xls"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504))
    with pytest.raises(
        FileFault, match=r"fleet\.xls: The file is an old Excel workbook; save it as CSV"
    ):
        list(open_members(str(path)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_database_is_named(pack, saved: Saved):
    """The blocks of NULs in a file that is no text are not an incomplete upload."""
    told = fault(saved(pack(b"SQLite format 3\0" + bytes(4096))))
    assert told.startswith("The file is an SQLite database")


HOLE = 512


@pytest.mark.parametrize("at", [0, 17, 18, 1000, 65_000, 65_536 - 100, 131_072])
@pytest.mark.parametrize("size", [HOLE, 4096, 1_000_000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda data: zipped(("a.csv", data))])
def test_a_block_of_nuls_is_an_incomplete_upload(at, size, pack, saved: Saved) -> None:
    """512 NULs in a row are a part that was not written, wherever they are."""
    holed = DATA[:at] + bytes(size) + DATA[at + size :] + DATA
    told = fault(saved(pack(holed)))
    assert told.startswith(f"From byte {at:,} on there is a block of NUL bytes, so the upload is")


@pytest.mark.parametrize("size", [HOLE, 4096, 1_000_000])
def test_nuls_at_the_end_are_named_as_that(size, saved: Saved) -> None:
    """NULs up to the end are the rest of an unfinished upload, or padding."""
    told = fault(saved(DATA + bytes(size)))
    assert told.startswith(f"From byte {len(DATA):,} to its end the file has only NUL bytes")


def test_fewer_nuls_are_content(saved: Saved) -> None:
    """Less than 512 NULs in a row are read, for the format to judge their rows."""
    data = (DATA + bytes(HOLE - 1) + b"x") * 4
    assert read(saved(data)) == [("", data)]
    data += bytes(HOLE - 1)
    assert read(saved(data)) == [("", data)]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_content_is_that_of_the_file(data: st.DataObject, saved: Saved) -> None:
    """Whatever the sizes of reads, a file is read as it is, without a final ^Z."""
    parts = data.draw(st.lists(st.sampled_from([b"x", b"\n", b"\r\n", b"\x1a", b"\0", b"y" * 50])))
    content = b"".join(parts)
    found = streams.Content(io.BytesIO(content), "", lambda _: None)
    read_sizes = data.draw(st.lists(st.integers(1, 40), min_size=1))
    pieces, number = [], 0
    while piece := found.read(read_sizes[number % len(read_sizes)]):
        pieces.append(piece)
        number += 1
    text = content.rstrip(b"\r\n\x1a\0")
    ended = content.find(b"\x1a", len(text))
    assert b"".join(pieces) == (content if ended < 0 else content[:ended])


def test_a_long_end_does_not_fill_the_memory(saved: Saved) -> None:
    """Line ends after a ^Z are returned as they are if there are too many of them."""
    data = DATA + b"\x1a" + b"\n" * 200_000
    assert read(saved(data)) == [("", data)]
