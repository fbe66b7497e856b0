"""Whether a file in the drop directory is complete (D73)."""

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

CAR = b"registration,make\nAB12CDE,FORD\n"
DIGEST = hashlib.sha256(CAR).hexdigest()
OTHER = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def put(tmp_path):
    """`put(name, data)` writes a file that was last changed so many seconds ago."""

    def write(name: str, data: bytes | str = CAR, age_seconds: int = 300):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        changed_at = path.stat().st_mtime - age_seconds
        os.utime(path, (changed_at, changed_at))
        return path

    return write


def look(path, wait):
    """Look at a file as it is now."""
    return upload_of(path, path.lstat(), wait)


def names(found):
    """What would be loaded."""
    return [[file.path.name for file in batch.files] for batch in found]


@pytest.mark.parametrize(
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
    """sha256sum in both modes, its --tag, openssl, PowerShell, the bare digest; in any case."""
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
    """It may still be written: the file waits, and has no fault."""
    put("car.csv.sha256", text)
    upload = look(put("car.csv"), SHA256)
    assert (upload.waits_for, upload.fault) == (
        "car.csv.sha256 has no SHA-256 checksum for it",
        "",
    )


def test_a_wrong_checksum_is_a_fault_when_the_upload_has_ended(put):
    """The marker is newer than the file, which nobody has changed for a minute."""
    put("car.csv.sha256", OTHER, 200)
    told = look(put("car.csv"), SHA256).fault
    assert told == f"its checksum is {DIGEST}, but car.csv.sha256 has {OTHER}"


def test_a_wrong_checksum_is_none_while_the_upload_goes_on(put):
    """Where the marker came first, the file changed just now, or somebody has it open."""
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
    """What has the checksum is complete, whichever came first, and whoever has it open."""
    path = put("car.csv", age_seconds=0)
    for age_seconds in (-100, 0, 3600):
        put("car.csv.sha256", DIGEST, age_seconds)
        with open(path, "ab"):
            assert look(path, SHA256)[1:] == ("", "")


def test_a_file_waits_for_its_own_marker(put):
    """That of another file, or of the other kind, is not enough."""
    path = put("car.csv")
    put("bus.csv.sha256", DIGEST)
    put("car.sha256", DIGEST)
    put("car.csv.done", "")
    assert look(path, SHA256).waits_for == "car.csv.sha256 is missing"
    (path.parent / "car.csv.done").unlink()
    assert look(path, DONE).waits_for == "car.csv.done is missing"


def test_done_is_enough_unless_the_file_changes_afterwards(put):
    """A file that is newer than its marker is the next upload, which the marker is not for."""
    path = put("car.csv", age_seconds=0)
    put("car.csv.done", "", -1)
    assert look(path, DONE)[1:] == ("", "")
    put("car.csv.done", "", 100)
    assert look(path, DONE).waits_for == "it was changed after car.csv.done was made"


def test_the_time_of_another_clock_does_not_outdate_a_marker(put):
    """A file can be copied with a time to come."""
    path = put("car.csv", age_seconds=-3600)
    put("car.csv.done", "", -1)
    assert look(path, DONE)[1:] == ("", "")


def test_without_markers_a_minute_must_pass(put):
    """One without a change, and without anybody who could change it."""
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
    """Whatever is waited for: a file that contradicts its checksum is not loaded."""
    put("car.csv.sha256", OTHER, 200)
    put("car.csv.done", "", 200)
    assert "its checksum is" in look(put("car.csv"), wait).fault


@pytest.mark.parametrize("wait", [QUIET, DONE, SHA256])
def test_a_link_is_no_marker(put, tmp_path, wait):
    """Whoever can make links there must not have other files read, nor a file loaded unchecked."""
    path = put("car.csv")
    put("car.csv.done", "", 200)
    (tmp_path / "car.csv.sha256").symlink_to(put("elsewhere", OTHER))
    assert look(path, wait).waits_for == "car.csv.sha256 is not a regular file"


def test_whoever_opens_a_file_meanwhile_is_not_disturbed(put):
    """The lease that finds out who writes is given back at once."""
    path = put("car.csv")
    for _ in range(100):
        assert not is_being_written(path)
        with open(path, "ab"):
            assert is_being_written(path)


@pytest.mark.parametrize(
    ("wait", "missing"), list(product([QUIET, SHA256, DONE], ["marker", "end", "file"]))
)
def test_nothing_waits_in_silence_for_more_than_a_day(put, tmp_path, caplog, wait, missing):
    """A file without its marker, a name that stays .part, a marker without its file."""
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
    """They are one load; each has a marker of its own."""
    put("fleet/1.csv")
    put("fleet/1.csv.sha256", DIGEST)
    put("fleet/2.csv")
    assert names(batches(tmp_path, SHA256, print)) == []
    put("fleet/2.csv.sha256", DIGEST)
    (batch,) = batches(tmp_path, SHA256, print)
    assert names([batch]) == [["1.csv", "2.csv"]]
    assert [file.path.name for file in batch.markers] == ["1.csv.sha256", "2.csv.sha256"]


def test_what_changes_after_it_was_found_is_not_loaded(put, tmp_path):
    """Neither a file nor its marker may; and without markers nobody may open it for writing."""
    path, marker = put("car.csv"), put("car.csv.sha256", DIGEST)
    (batch,) = batches(tmp_path, QUIET, print)
    batch.require_whole()
    with open(path, "ab"), pytest.raises(Hindered, match="open for writing"):
        batch.require_whole()
    put(marker.name, DIGEST)
    with pytest.raises(Hindered, match=r"car.csv.sha256 was changed while it was read"):
        batch.require_whole()


def test_a_batch_with_a_wrong_checksum_fails(put, tmp_path):
    """As a file that cannot be read does, so that it is put aside."""
    put("car.csv")
    put("car.csv.sha256", OTHER, 200)
    (batch,) = batches(tmp_path, QUIET, print)
    with pytest.raises(FileFault, match=r"car.csv: its checksum is"):
        batch.require_whole()


def test_a_file_system_without_leases_is_no_obstacle(put, monkeypatch):
    """Then nobody can tell, and the minute must do."""

    def refuse(*_args: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert look(put("car.csv"), QUIET)[1:] == ("", "")
