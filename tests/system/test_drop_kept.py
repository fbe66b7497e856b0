"""`import --drop`: markers, and the files kept in `loaded/` and `failed/` (D73)."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess

import pytest

from app.storage.engine import close_quietly
from tests.system.drop import CAR, OTHER

DAY_SECONDS = 86_400


def aged(path, days):
    """Set a file's time of change this many days back."""
    changed_at = path.stat().st_mtime - days * DAY_SECONDS
    os.utime(path, (changed_at, changed_at))


def sha256sum(path):
    """Write the marker of a file as an uploader does."""
    marker = path.with_name(f"{path.name}.sha256")
    with open(marker, "w") as file:
        subprocess.run(["sha256sum", path.name], cwd=path.parent, stdout=file, check=True)
    return marker


def test_a_file_is_loaded_when_its_checksum_is_there(drop):
    """`sha256` needs no minute without changes; the marker moves with its file."""
    paths = [drop.put(name, age_seconds=0) for name in ("a.csv", "fleet/1.csv", "fleet/2.csv")]
    sha256sum(drop.put("b.csv"))
    assert drop.run(drop_wait="sha256").returncode == 0
    assert drop.loaded() == ["loaded/b.csv", "loaded/b.csv.sha256"]
    for path in paths:
        sha256sum(path)
    ended = drop.run(drop_wait="sha256")
    assert ended.returncode == 0, ended.stderr
    assert drop.left() == []
    assert drop.loaded() == [
        *("fleet/loaded/1.csv", "fleet/loaded/1.csv.sha256"),
        *("fleet/loaded/2.csv", "fleet/loaded/2.csv.sha256"),
        *("loaded/a.csv", "loaded/a.csv.sha256", "loaded/b.csv", "loaded/b.csv.sha256"),
    ]
    assert drop.held() == {"native": 1, "fleet": 1}


def test_a_file_with_a_wrong_checksum_is_set_aside(drop):
    """It is moved with its marker; reason and history have both checksums."""
    sha256sum(drop.put("a.csv")).rename(drop.root / "b.csv.sha256")
    drop.put("b.csv", OTHER)
    os.utime(drop.root / "b.csv.sha256")
    ended = drop.run("--json", drop_wait="sha256")
    assert ended.returncode == 1
    assert drop.left() == ["a.csv", "failed/b.csv", "failed/b.csv.sha256"]
    (told,) = json.loads(ended.stdout)
    assert told["status"] == "failed"
    assert hashlib.sha256(OTHER.encode()).hexdigest() in told["reason"]
    assert drop.held() == {}


@pytest.mark.system_long
def test_a_writer_that_pauses_is_waited_for(drop):
    """A file that is open for writing waits, even after a minute without changes."""
    path = drop.put("a.csv")
    with open(path, "a") as upload:
        aged(path, 0.5)
        assert drop.run().returncode == 0
        assert (drop.left(), drop.loads()) == (["a.csv"], [])
        upload.write("AB13CDE,SEAT\n")
    aged(path, 0.5)
    assert drop.run().returncode == 0
    assert (drop.left(), drop.held()) == ([], {"native": 2})


@pytest.mark.system_long
def test_an_upload_that_never_ends_is_reported(drop):
    """It is logged at first, and reported each night after a day."""
    aged(drop.put("a.csv"), 0.9)
    ended = drop.run(drop_wait="done")
    assert (ended.returncode, "left for the next run: a.csv.done is missing" in ended.stderr) == (
        0,
        True,
    )
    aged(drop.put("a.csv"), 1.1)
    ended = drop.run("--scheduled", drop_wait="done")
    assert ended.returncode == 1
    (line,) = [line for line in map(json.loads, ended.stderr.splitlines()) if "still" in str(line)]
    assert (line["level"], "a.csv.done is missing" in line["message"]) == ("warning", True)
    assert drop.left() == ["a.csv"]


@pytest.mark.system_long
def test_loaded_files_are_kept_for_a_week(drop):
    """The week begins with the load, whatever the file's own time."""
    for number in range(3):
        drop.put("a.csv", CAR + f"AB1{number}XXX,SEAT\n", age_seconds=30 * DAY_SECONDS)
        assert drop.run().returncode == 0
    assert drop.loaded() == ["loaded/a.csv", "loaded/a.csv.1", "loaded/a.csv.2"]
    assert [f"AB1{n}XXX" in (drop.root / name).read_text() for n, name in enumerate(drop.loaded())]
    aged(drop.root / "loaded/a.csv", 7.1)
    aged(drop.root / "loaded/a.csv.1", 6.9)
    drop.put("a.csv")
    assert drop.run().returncode == 0
    assert drop.loaded() == ["loaded/a.csv.1", "loaded/a.csv.2", "loaded/a.csv.3"]


@pytest.mark.parametrize(("keep", "left"), [("2d", ["loaded/a.csv"]), ("0", [])])
def test_how_long_they_are_kept_is_a_setting(drop, keep, left):
    """With 0, a file and its marker are removed as soon as it is loaded."""
    for name, days in (("loaded/old.csv", 3), ("loaded/older.csv", 4)):
        aged(drop.put(name), days)
    drop.put("a.csv")
    (drop.root / "a.csv.done").touch()
    assert drop.run(keep_loaded=keep).returncode == 0
    assert drop.loaded() == [*left, *(f"{name}.done" for name in left)]
    assert drop.left() == []


@pytest.mark.parametrize("kind", ["loaded", "failed"])
def test_the_oldest_kept_files_are_removed_above_the_limit(drop, kind):
    """The limit is for all directories together, and separately for each kind."""
    other = {"loaded": "failed", "failed": "loaded"}[kind]
    megabyte = "x" * (1 << 20)
    aged(drop.put(f"{other}/a.csv", megabyte * 2), 6)
    for days, folder in enumerate(["", "fleet/", "", "van/"]):
        aged(drop.put(f"{folder}{kind}/{days}.csv", megabyte), days)
    ended = drop.run(drop_limit="2M")
    assert ended.returncode == 0, ended.stderr
    kept = [f"{kind}/0.csv", f"{other}/a.csv", f"fleet/{kind}/1.csv"]
    assert sorted([*drop.left(), *drop.loaded()]) == sorted(kept)
    assert ended.stderr.count(": removed; it was kept since ") == 2


@pytest.mark.system_long
def test_failed_files_are_kept_for_a_month(drop):
    """Failed files stay for a month, so that somebody can look at them."""
    drop.put("a.csv", "nonsense\n")
    drop.run()
    aged(drop.put("failed/b.csv"), 31)
    aged(drop.put("fleet/failed/c.csv"), 29)
    assert drop.run().returncode == 0
    assert drop.left() == ["failed/a.csv", "fleet/failed/c.csv"]


@pytest.mark.system_long
def test_a_link_in_place_of_a_directory_is_not_followed(drop, world):
    """Nothing is moved to the target of a link, and nothing is removed there."""
    outside = world.directory / "outside"
    outside.mkdir()
    (outside / "precious.csv").write_text(CAR)
    os.utime(outside / "precious.csv", (1, 1))
    (drop.root / "loaded").symlink_to(outside)
    (drop.root / "fleet").mkdir()
    (drop.root / "fleet" / "failed").symlink_to(outside)
    drop.put("a.csv")
    ended = drop.run()
    assert ended.returncode == 1
    assert f"skipped: its files cannot be moved to {drop.root}/loaded" in ended.stderr
    assert [path.name for path in outside.iterdir()] == ["precious.csv"]
    assert (drop.root / "a.csv").exists()


@pytest.mark.system_long
def test_kept_files_are_removed_if_a_load_needs_space(drop, world, make_disk):
    """The oldest loaded files are removed if space is short; failed files stay."""
    disk = make_disk(8)
    close_quietly(world.engine)
    shutil.copy(world.database, disk)
    drop.root = disk / "drop"
    drop.root.mkdir()
    drop.settings["database_url"] = f"sqlite:///{disk / 'verifyd.db'}"
    for days, name in enumerate(["loaded/new.csv", "loaded/old.csv", "failed/a.csv"]):
        aged(drop.put(name, "x" * (2 << 20)), days)
    lines = "".join(f"AB{n:05},{'FORD' * 15}\n" for n in range(10_000))
    drop.put("a.csv", f"registration,make\n{lines}")
    ended = drop.run()
    assert ended.returncode == 0, ended.stderr
    assert drop.left() == ["failed/a.csv"]
    assert drop.loaded() == ["loaded/a.csv", "loaded/new.csv"]
    many = "".join(f"AB{n:06},{'FORD' * 15}\n" for n in range(60_000))
    (drop.root / "b.csv").write_bytes(gzip.compress(f"registration,make\n{many}".encode()))
    aged(drop.root / "b.csv", 0.5)
    ended = drop.run()
    assert "of disk space in" in ended.stderr
    # Even all of them are not enough.
    assert drop.loaded() == ["loaded/a.csv", "loaded/new.csv"]
    assert drop.left() == ["b.csv", "failed/a.csv"]


OPTION_FILES = {
    "comment": "# --mode replace\n",
    "quoted": "# it's the fleet's\n--kind vehicles # as agreed\n",
    "mark": "\ufeff# by Notepad\r\n--kind vehicles\r\n",
    "blank": "\n \t\r\n\n",
    "nothing": "",
}


@pytest.mark.system_long
def test_an_option_file_of_comments_and_blank_lines_is_right(drop):
    """Line ends and byte order marks of other systems are accepted, too."""
    for name, text in OPTION_FILES.items():
        drop.put(f"{name}/a.csv")
        (drop.options / name).write_bytes(text.encode())
    ended = drop.run()
    assert ended.returncode == 0, ended.stderr
    assert drop.held() == dict.fromkeys(OPTION_FILES, 1)


@pytest.mark.system_long
def test_a_wrong_option_file_never_costs_the_data(drop, world):
    """The files stay, also with a wrong rejects file, or a register too many."""
    (world.directory / "notes.txt").write_text("precious")
    texts = {
        "unknown": b"--mod replace --nonsense",
        "wide": "--kind vehicles".encode("utf-16"),
        "binary": bytes(range(256)),
        "missing": f"--rejects {world.directory}/rejcets/a.csv".encode(),
        "taken": f"--rejects {world.directory}/notes.txt".encode(),
        "folder": f"--rejects {world.directory}".encode(),
    }
    for name, text in texts.items():
        drop.put(f"{name}/a.csv", CAR + ",\n")
        (drop.options / name).write_bytes(text)
    assert drop.run().returncode == 1
    assert drop.left() == sorted(f"{name}/a.csv" for name in texts)
    for name in texts:
        (drop.options / name).write_text("--max-rejects 100%")
    assert drop.run().returncode == 0
    for name in ("seven", "eight", "nine"):
        drop.put(f"{name}/a.csv")
    ended = drop.run()
    assert "there are 8 registers; drop one first" in ended.stderr
    assert drop.left() == ["seven/a.csv"]


@pytest.mark.system_long
def test_files_of_one_load_never_replace_each_other(drop):
    """A free name for one file must not be that of another file of the load."""
    drop.put("fleet/a.csv")
    assert drop.run().returncode == 0
    drop.put("fleet/a.csv")
    drop.put("fleet/a.csv.1", OTHER)
    assert drop.run().returncode == 0
    kept = drop.root / "fleet" / "loaded"
    found = {path.name: path.read_text() for path in kept.iterdir()}
    assert found == {"a.csv": CAR, "a.csv.1": CAR, "a.csv.1.1": OTHER}


def test_a_mistake_in_an_option_file_is_in_the_document_of_the_run(drop):
    """The document has each attempted load, under the same number as the history."""
    path = drop.put("fleet/cars.csv")
    drop.option("fleet", "--modee merge")
    ended = drop.run("--json")
    assert ended.returncode == 1
    (told,) = json.loads(ended.stdout)
    assert (told["files"], told["status"], told["load"]) == ([str(path)], "failed", 1)
    assert "--modee" in told["reason"]
