"""When a file in the drop directory is complete (D73)."""

import fcntl
import hashlib
import logging
import os
from itertools import product

import pytest

from app.errors import Hindered
from app.registers.dropped import directory
from app.registers.dropped.directory import _PARTIAL, batches, keep
from app.registers.dropped.uploads import DONE, QUIET, SHA256, is_being_written, upload_of
from app.registers.formats import FileFault
from tests.rows import each_row

CAR = b"registration,make\nAB12CDE,FORD\n"
DIGEST = hashlib.sha256(CAR).hexdigest()
OTHER = hashlib.sha256(b"").hexdigest()
COMPLETE = ("", "", False)


@pytest.fixture
def put(tmp_path):
    """`put(name, data)` writes a file that was last changed this many seconds ago."""

    def write(name: str, data: bytes | str = CAR, age_seconds: int = 300):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        changed_at = path.stat().st_mtime - age_seconds
        os.utime(path, (changed_at, changed_at))
        return path

    return write


def look(path, wait):
    """Return the state of a file."""
    return upload_of(path, path.lstat(), wait, os.listdir(path.parent))


def names(found):
    """Return the names of the files that would be loaded."""
    return [[file.path.name for file in batch.files] for batch in found]


@each_row(
    "text",
    [
        f"{DIGEST}  car.csv\n",
        f"{DIGEST} *car.csv\n",
        DIGEST,
        f"{DIGEST.upper()}\r\n",
        f"{DIGEST}  -\n",
        f"{DIGEST}  /srv/outgoing/cars of today.csv\n",
        f"\\{DIGEST}  a\\\\car.csv\n",
        f"SHA256 (car.csv) = {DIGEST}\n",
        f"SHA2-256(car.csv)= {DIGEST}\n",
        f"\ufeff{DIGEST}\n",
        f"{OTHER}  bus.csv\n{DIGEST}  car.csv\n",
        f"{DIGEST}\n".encode("utf-16"),
        f"\r\nAlgorithm  Hash{' ' * 61}Path\r\n---------  ----{' ' * 61}----\r\n"
        f"SHA256     {DIGEST.upper()} C:\\out\\car.csv\r\n\r\n",
        f"\r\nAlgorithm : SHA256\r\nHash      : {DIGEST.upper()}\r\nPath      : C:\\car.csv\r\n",
        f'"Algorithm","Hash","Path"\r\n"SHA256","{DIGEST.upper()}","C:\\car.csv"\r\n'.encode(
            "utf-16"
        ),
        f"The checksum is {DIGEST}.",
        f"{DIGEST}\n{DIGEST.upper()}\n",
    ],
)
def test_a_checksum_is_read_as_tools_write_it(put, text):
    """Digests as sha256sum, openssl and PowerShell write them, or in a sentence, are read."""
    put("car.csv.sha256", text)
    assert look(put("car.csv"), SHA256)[1:] == COMPLETE


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGEST[:-1],
        f"{DIGEST}0",
        "car.csv",
        b"\xff\x00",
    ],
)
def test_a_marker_without_the_checksum_is_no_verdict(put, text):
    """A marker without a checksum may still be written, so the file waits without a fault."""
    put("car.csv.sha256", text)
    upload = look(put("car.csv"), SHA256)
    assert (upload.waits_for, upload.fault) == (
        "car.csv.sha256 has no SHA-256 checksum for it",
        "",
    )


def test_a_wrong_checksum_is_a_fault_when_the_upload_has_ended(put):
    """It is a fault if the marker is newer and the file unchanged for a minute."""
    put("car.csv.sha256", OTHER, 200)
    told = look(put("car.csv"), SHA256).fault
    assert told == f"its checksum is {DIGEST}, but car.csv.sha256 has {OTHER}"


@pytest.mark.parametrize(
    ("markers", "told"),
    [
        ({"car.csv.sha256": f"{OTHER}  bus.csv\n{DIGEST}  van.csv\n"}, "car.csv.sha256 has "),
        ({"car.csv.sha256": DIGEST, "car.csv.SHA256": OTHER}, f"car.csv.SHA256 has {OTHER}"),
        ({"car.csv.sha256": f"{DIGEST} or {OTHER}"}, "car.csv.sha256 has "),
        ({"car.csv.sha256": f"{DIGEST}  car.csv\n{OTHER}  car.csv\n"}, "car.csv.sha256 has "),
    ],
)
def test_two_checksums_that_differ_are_a_fault(put, markers, told):
    """Two digests, in one marker or in two, cannot both be right for a file."""
    for name, text in markers.items():
        put(name, text, 200)
    assert told in look(put("car.csv"), SHA256).fault


@pytest.mark.parametrize(
    "marker",
    [
        "car.csv.SHA256",
        "car.csv.Sha256",
        "car.csv.sha256sum",
        "car.csv.sha256.txt",
        "CAR.CSV.sha256",
    ],
)
@pytest.mark.parametrize("wait", [QUIET, SHA256])
def test_a_marker_is_known_by_any_of_its_names(put, tmp_path, marker, wait):
    """Capitals do not matter, and tools add different ends: each such marker is compared."""
    put("car.csv")
    put(marker, OTHER, 200)
    (batch,) = batches(tmp_path, wait, print)
    assert "its checksum is" in batch.fault
    put(marker, DIGEST, 200)
    (batch,) = batches(tmp_path, wait, print)
    assert (batch.fault, [file.path.name for file in batch.markers]) == ("", [marker])
    keep(batch, print)
    assert sorted(path.name for path in (tmp_path / "loaded").iterdir()) == sorted(
        ["car.csv", marker]
    )


def test_a_marker_belongs_to_the_file_that_it_names(put, tmp_path):
    """Of files whose names differ in case only, a marker belongs to the one with its own name."""
    put("car.csv")
    put("CAR.csv", CAR + b"X1,KIA\n")
    put("car.csv.sha256", DIGEST)
    assert names(batches(tmp_path, SHA256, print)) == [["car.csv"]]


def test_markers_of_other_case_overwrite_nothing(put, tmp_path):
    """A file whose marker is spelt otherwise the next day gets a number, as its marker does."""
    for marker in ("CAR.CSV.sha256", "car.csv.SHA256", "CAR.CSV.sha256"):
        put("car.csv")
        put(marker, DIGEST)
        (batch,) = batches(tmp_path, SHA256, print)
        keep(batch, print)
    assert sorted(path.name for path in (tmp_path / "loaded").iterdir()) == [
        "CAR.CSV.2.sha256",
        "CAR.CSV.sha256",
        "car.csv",
        "car.csv.1",
        "car.csv.1.SHA256",
        "car.csv.2",
    ]


def test_a_marker_without_a_checksum_is_reported_after_an_hour(put, tmp_path):
    """A marker may come early; at rest for an hour, beside a file at rest, it is reported."""
    told: list[str] = []
    for file_age, marker_age in ((3000, 4000), (4000, 3000), (4000, 4000)):
        assert told == []
        put("car.csv", age_seconds=file_age)
        put("car.csv.sha256", "soon", marker_age)
        assert names(batches(tmp_path, QUIET, told.append)) == []
    assert "car.csv.sha256 has no SHA-256 checksum for it" in told[0]


@pytest.mark.parametrize("end", [*(end.upper() for end in _PARTIAL), *_PARTIAL, ".3902CBf2"])
def test_a_name_that_says_partial_holds_its_directory_back(put, tmp_path, end):
    """Programs name incomplete files differently: none is loaded, nor the files beside it."""
    put("fleet/1.csv")
    put(f"fleet/2.csv{end}")
    put(f"car.csv{end}")
    assert names(batches(tmp_path, QUIET, print)) == []


def test_a_date_behind_a_name_is_no_sign(put, tmp_path):
    """Eight digits may be a date. boto3 adds eight hexadecimal ones to a name with an end."""
    for name in ("car.csv.20261101", "fleet.deadbeef"):
        put(name)
    assert names(batches(tmp_path, QUIET, print)) == [["car.csv.20261101"], ["fleet.deadbeef"]]


def test_a_name_that_ends_meanwhile_holds_its_directory_back(put, tmp_path, monkeypatch):
    """An upload that ends while the others are examined belongs to the same load."""
    put("fleet/1.csv")
    partial = put("fleet/2.csv.filepart")

    def end_upload(*arguments):
        partial.rename(partial.with_suffix(""))
        monkeypatch.undo()
        return upload_of(*arguments)

    monkeypatch.setattr(directory, "upload_of", end_upload)
    assert names(batches(tmp_path, QUIET, print)) == []
    assert names(batches(tmp_path, QUIET, print)) == [["1.csv", "2.csv"]]


def test_a_dated_name_that_ends_meanwhile_holds_later_ones_back(put, tmp_path):
    """A delta of the DVSA whose upload ends during the run comes before those of later dates."""
    put("a.csv")
    partial = put("delta-light-vehicle_01-01-2026.json.gz.filepart")
    put("delta-light-vehicle_02-01-2026.json.gz")
    found = batches(tmp_path, QUIET, print)
    assert [file.path.name for file in next(found).files] == ["a.csv"]
    partial.rename(partial.with_suffix(""))
    assert names(found) == []
    assert [name for (name,) in names(batches(tmp_path, QUIET, print))] == [
        "a.csv",
        "delta-light-vehicle_01-01-2026.json.gz",
    ]


def test_what_systems_leave_is_passed_by(put, tmp_path):
    """What systems, file servers and Office put beside files is neither loaded nor reported."""
    told: list[str] = []
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store", "~$car.csv", "fleet/Thumbs.db"):
        put(name)
    for name in ("@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found"):
        put(f"{name}/car.csv")
    put("fleet/1.csv")
    assert names(batches(tmp_path, QUIET, told.append)) == [["1.csv"]]
    assert told == []


def test_nothing_is_loaded_that_cannot_be_moved(put, tmp_path, monkeypatch):
    """The sticky bit lets only the owner of a file, or of the directory, move it."""
    told: list[str] = []
    put("car.csv")
    tmp_path.chmod(0o1777)
    assert names(batches(tmp_path, QUIET, told.append)) == [["car.csv"]]
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert names(batches(tmp_path, QUIET, told.append)) == []
    assert "only its owner can move car.csv out of a directory with the sticky bit" in told[0]
    tmp_path.chmod(0o777)
    assert names(batches(tmp_path, QUIET, told.append)) == [["car.csv"]]


@pytest.mark.parametrize("place", [".", "fleet"])
def test_nothing_is_loaded_that_loaded_cannot_take(put, tmp_path, place):
    """The next night it would be loaded again, together with newer files."""
    told: list[str] = []
    aside = put(f"{place}/car.csv").with_name("loaded")
    for make in (
        lambda: aside.write_text("a file"),
        lambda: aside.symlink_to(tmp_path),
        lambda: aside.symlink_to("nowhere"),
    ):
        make()
        assert names(batches(tmp_path, QUIET, told.append)) == []
        assert f"its files cannot be moved to {aside}" in told.pop()
        aside.unlink()
    aside.mkdir()
    assert names(batches(tmp_path, QUIET, told.append)) == [["car.csv"]]


def test_a_wrong_checksum_is_no_fault_during_the_upload(put):
    """It is no fault if the file changed after its marker or just now, or is open."""
    path = put("car.csv")
    marker = put("car.csv.sha256", OTHER, 400)
    early = look(path, SHA256)
    put("car.csv.sha256", OTHER, 200)
    with open(path, "ab"):
        opened = look(path, SHA256)
    fresh = look(put("car.csv", age_seconds=30), SHA256)
    for upload in (early, opened, fresh):
        assert (bool(upload.waits_for), upload.fault) == (True, ""), upload
        assert list(upload.markers) == [marker]


def test_a_right_checksum_needs_no_minute(put):
    """A file with the right checksum is complete at once, even if it is open."""
    path = put("car.csv", age_seconds=0)
    for age_seconds in (-100, 0, 3600):
        put("car.csv.sha256", DIGEST, age_seconds)
        with open(path, "ab"):
            assert look(path, SHA256)[1:] == COMPLETE


def test_a_file_waits_for_its_own_marker(put):
    """The checksum of another file, or of another kind, does not count."""
    path = put("car.csv")
    put("bus.csv.sha256", DIGEST)
    put("car.sha256", DIGEST)
    put("car.csv.done", "")
    assert look(path, SHA256).waits_for == "car.csv.sha256 is missing"
    (path.parent / "car.csv.done").unlink()
    assert look(path, DONE).waits_for == "car.csv.done is missing"


def test_a_done_marker_is_enough_if_the_file_is_older(put):
    """A file that is newer than its marker is the next upload, which needs its own marker."""
    path = put("car.csv", age_seconds=0)
    put("car.csv.done", "", -1)
    assert look(path, DONE)[1:] == COMPLETE
    put("car.csv.done", "", 100)
    assert look(path, DONE).waits_for == "it was changed after car.csv.done was made"


def test_the_time_of_another_clock_does_not_outdate_a_marker(put):
    """A copied file can have a time in the future, and the marker still counts."""
    path = put("car.csv", age_seconds=-3600)
    put("car.csv.done", "", -1)
    assert look(path, DONE)[1:] == COMPLETE


def test_without_markers_a_minute_must_pass(put):
    """A file waits until it is unchanged for a minute, and not open for writing."""
    path = put("car.csv", age_seconds=50)
    assert look(path, QUIET).waits_for == "it changed less than a minute ago"
    put("car.csv", age_seconds=70)
    assert look(path, QUIET)[1:] == COMPLETE
    with open(path, "ab"):
        assert look(path, QUIET).waits_for == "a process has it open for writing"
    with open(path, "rb"):
        assert look(path, QUIET)[1:] == COMPLETE


@pytest.mark.parametrize("wait", [QUIET, DONE])
def test_a_checksum_that_is_there_is_always_compared(put, wait):
    """A file that contradicts its checksum is not loaded, whatever the setting."""
    put("car.csv.sha256", OTHER, 200)
    put("car.csv.done", "", 200)
    assert "its checksum is" in look(put("car.csv"), wait).fault


@pytest.mark.parametrize("wait", [QUIET, DONE, SHA256])
def test_a_link_is_no_marker(put, tmp_path, wait):
    """A link could make other files readable, or bypass the checksum."""
    path = put("car.csv")
    put("car.csv.done", "", 200)
    (tmp_path / "car.csv.sha256").symlink_to(put("elsewhere", OTHER))
    assert look(path, wait).waits_for == "car.csv.sha256 is not a regular file"


def test_opening_a_file_meanwhile_does_not_wait(put):
    """The lease that shows whether somebody writes is released at once."""
    path = put("car.csv")
    for _ in range(100):
        assert not is_being_written(path)
        with open(path, "ab"):
            assert is_being_written(path)


@pytest.mark.parametrize(
    ("wait", "missing"), list(product([QUIET, SHA256, DONE], ["marker", "end", "file"]))
)
def test_waiting_files_are_reported_after_a_day(put, tmp_path, caplog, wait, missing):
    """A file without a marker, a name that stays .part, or a marker alone is reported."""
    name = {"marker": "car.csv", "end": "car.csv.part", "file": "car.csv.done"}[missing]
    told: list[str] = []
    put(name, age_seconds=86_300)
    with caplog.at_level(logging.INFO):
        found = names(batches(tmp_path, wait, told.append))
    if (wait, missing) == (QUIET, "marker"):
        assert found == [["car.csv"]]
        return
    assert (found, told) == ([], [])
    assert f"{name}: left for the next run: " in caplog.text
    put(name, age_seconds=86_500)
    assert names(batches(tmp_path, wait, told.append)) == []
    (sentence,) = told
    assert f"{tmp_path}/{name}: still waiting, unchanged since " in sentence


def test_a_directory_waits_for_the_markers_of_all_its_files(put, tmp_path):
    """The files of a directory are one load, and each has its own marker."""
    put("fleet/1.csv")
    put("fleet/1.csv.sha256", DIGEST)
    put("fleet/2.csv")
    assert names(batches(tmp_path, SHA256, print)) == []
    put("fleet/2.csv.sha256", DIGEST)
    (batch,) = batches(tmp_path, SHA256, print)
    assert names([batch]) == [["1.csv", "2.csv"]]
    assert [file.path.name for file in batch.markers] == ["1.csv.sha256", "2.csv.sha256"]


def test_a_file_that_changes_after_it_was_found_is_not_loaded(put, tmp_path):
    """If a file or its marker changes, or is opened for writing, it is not loaded."""
    path, marker = put("car.csv"), put("car.csv.sha256", DIGEST)
    (batch,) = batches(tmp_path, QUIET, print)
    batch.require_whole()
    with open(path, "ab"), pytest.raises(Hindered, match="open for writing"):
        batch.require_whole()
    put(marker.name, DIGEST)
    with pytest.raises(Hindered, match=r"car.csv.sha256 was changed while it was read"):
        batch.require_whole()


def test_a_batch_with_a_wrong_checksum_fails(put, tmp_path):
    """A wrong checksum fails the batch like an unreadable file, so that it is set aside."""
    put("car.csv")
    put("car.csv.sha256", OTHER, 200)
    (batch,) = batches(tmp_path, QUIET, print)
    with pytest.raises(FileFault, match=r"car.csv: its checksum is"):
        batch.require_whole()


def test_a_file_system_without_leases_works(put, monkeypatch):
    """Without leases, the minute without a change is enough."""

    def refuse(*_args: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert look(put("car.csv"), QUIET)[1:] == COMPLETE
