"""When a file in the drop directory is complete (D73)."""

import fcntl
import hashlib
import logging
import os
from itertools import product

import pytest

from app.errors import Hindered
from app.registers.dropped.directory import batches
from app.registers.dropped.uploads import DONE, QUIET, SHA256, is_being_written, upload_of
from app.registers.formats import FileFault
from tests.rows import each_row

CAR = b"registration,make\nAB12CDE,FORD\n"
DIGEST = hashlib.sha256(CAR).hexdigest()
OTHER = hashlib.sha256(b"").hexdigest()


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
    return upload_of(path, path.lstat(), wait)


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
    ],
)
def test_a_checksum_is_read_as_tools_write_it(put, text):
    """Digests as sha256sum, openssl and PowerShell print them, or bare, are read in any case."""
    put("car.csv.sha256", text)
    assert look(put("car.csv"), SHA256)[1:] == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGEST[:-1],
        f"{DIGEST}0",
        "car.csv",
        f"{OTHER}  bus.csv\n{OTHER}  van.csv\n",
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
            assert look(path, SHA256)[1:] == ("", "")


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
    assert look(path, DONE)[1:] == ("", "")
    put("car.csv.done", "", 100)
    assert look(path, DONE).waits_for == "it was changed after car.csv.done was made"


def test_the_time_of_another_clock_does_not_outdate_a_marker(put):
    """A copied file can have a time in the future, and the marker still counts."""
    path = put("car.csv", age_seconds=-3600)
    put("car.csv.done", "", -1)
    assert look(path, DONE)[1:] == ("", "")


def test_without_markers_a_minute_must_pass(put):
    """A file waits until it is unchanged for a minute, and not open for writing."""
    path = put("car.csv", age_seconds=50)
    assert look(path, QUIET).waits_for == "it changed less than a minute ago"
    put("car.csv", age_seconds=70)
    assert look(path, QUIET)[1:] == ("", "")
    with open(path, "ab"):
        assert look(path, QUIET).waits_for == "a process has it open for writing"
    with open(path, "rb"):
        assert look(path, QUIET)[1:] == ("", "")


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
    assert look(put("car.csv"), QUIET)[1:] == ("", "")
