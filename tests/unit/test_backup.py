"""`verifyd backup`: what a backup holds, and what is left when it fails."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from app.backup import manifest, postgres, sqlite
from app.storage.file_lock import user_name
from app.storage.versions import program_schema
from tests.conftest import ON_SQLITE

pytestmark = ON_SQLITE

CAR = "AB12CDE,FORD"


@pytest.fixture
def stocked(cli):
    """A database with an account, and a register of one car."""
    cli.run("accounts", "create", "acme")
    cli.run("import", cli.file("cars.csv", "registration,make", CAR))
    return cli


def taken(cli, *options: str) -> Path:
    """Take a backup and return its directory."""
    return Path(cli.json("backup", cli.directory / "backups", *options)["backup"])


def names(directory: Path) -> list[str]:
    """List a directory without its hidden files."""
    return sorted(path.name for path in directory.iterdir() if path.name[0] != ".")


def test_a_backup_is_the_main_database_and_its_manifest(stocked):
    """By default registers are left out; the manifest has lengths, checksums and row counts."""
    backup = taken(stocked)
    assert names(backup) == ["main.db", "manifest.json"]
    told = json.loads((backup / "manifest.json").read_bytes())
    content = (backup / "main.db").read_bytes()
    file = told["files"]["main.db"]
    assert (file["size_bytes"], file["sha256"]) == (
        len(content),
        hashlib.sha256(content).hexdigest(),
    )
    assert (file["rows"]["account"], file["rows"]["plan"]) == (1, 3)
    assert (told["engine"], told["registers"], told["schema"]) == ("sqlite", None, program_schema())


def test_registers_are_in_it_on_request(stocked):
    """With `--registers` each register's file is in the backup."""
    backup = taken(stocked, "--registers")
    assert names(backup) == ["main.db", "manifest.json", "register_native.1.db"]
    assert manifest.read(backup).files["register_native.1.db"].rows["vehicle"] == 1


def test_registers_built_by_merges_are_in_it_on_request(stocked):
    """`--merged-registers` leaves out registers that a single file can restore."""
    for mode, register in (("replace", "fleet"), ("merge", "van")):
        file = stocked.file("cars.csv", "registration,make", CAR)
        stocked.run("import", file, "--mode", mode, "--register", register)
    backup = taken(stocked, "--merged-registers")
    assert names(backup) == [
        *("main.db", "manifest.json", "register_native.1.db", "register_van.3.db")
    ]
    told = manifest.read(backup)
    assert (told.registers, told.has_all_registers) == (["native", "van"], False)


def test_a_directory_above_that_is_missing_is_not_made(stocked):
    """A missing parent directory may be mistyped, or on a disk that is not mounted."""
    refusal = stocked.refusal("backup", stocked.directory / "bakcups" / "verifyd")
    assert f"the directory {stocked.directory}/bakcups does not exist" in refusal
    assert not (stocked.directory / "bakcups").exists()


def size_kilobytes(*backups: Path) -> int:
    """Return the disk space that the backups use."""
    files = [file for backup in backups for file in backup.iterdir()]
    return sum(file.stat().st_blocks for file in files) // 2


def test_the_limit_removes_the_oldest(stocked, monkeypatch):
    """The oldest go if all backups of the database exceed the limit, whatever `--keep` allows."""
    backups = [taken(stocked) for _ in range(3)]
    limit = size_kilobytes(*backups[:2]) + size_kilobytes(backups[0]) // 2
    monkeypatch.setenv("VERIFYD_BACKUP_LIMIT", f"{limit}K")
    told = stocked.json("backup", stocked.directory / "backups", "--keep", "14")
    assert told["removed"] == [str(path) for path in backups[:2]]
    left = [backups[2], Path(told["backup"])]
    assert names(stocked.directory / "backups") == [path.name for path in left]


def test_the_newest_backup_stays_however_large_it_is(stocked, monkeypatch):
    """If the newest backup alone exceeds the limit, the others go and a warning is printed."""
    backups = [taken(stocked) for _ in range(2)]
    monkeypatch.setenv("VERIFYD_BACKUP_LIMIT", "1K")
    ended = stocked.run("backup", stocked.directory / "backups", "--keep", "14", "--json")
    told = json.loads(ended.stdout)
    assert told["removed"] == [str(path) for path in backups]
    assert names(stocked.directory / "backups") == [Path(told["backup"]).name]
    assert "larger than VERIFYD_BACKUP_LIMIT" in ended.log[0]["message"]


def test_without_keep_nothing_is_removed(stocked, monkeypatch):
    """The size limit needs `--keep`: nobody prunes an archive."""
    monkeypatch.setenv("VERIFYD_BACKUP_LIMIT", "1K")
    assert len({taken(stocked) for _ in range(3)}) == 3
    assert len(names(stocked.directory / "backups")) == 3


def test_a_disk_without_room_gives_up_older_backups(stocked, monkeypatch):
    """If there is no space, the oldest backups go first, but never the newest complete one."""
    backups = [taken(stocked) for _ in range(4)]
    each_bytes = size_kilobytes(backups[0]) * 1024
    free_bytes = stocked.database.stat().st_size - each_bytes - 1

    def found(_directory: object) -> os.statvfs_result:
        given_up = each_bytes * sum(not path.exists() for path in backups)
        return os.statvfs_result((1, 1, 0, 0, free_bytes + given_up, 9, 9, 9, 0, 255))

    monkeypatch.setattr(os, "statvfs", found)
    ended = stocked.run("backup", stocked.directory / "backups", "--keep", "14", "--json")
    assert json.loads(ended.stdout)["removed"] == [str(path) for path in backups[:2]]
    free_bytes = -each_bytes * 9
    assert "make room" in stocked.refusal("backup", stocked.directory / "backups", "--keep", "14")
    assert [path for path in backups if path.exists()] == backups[2:]


def test_a_backup_that_term_stops_leaves_nothing_and_is_noted(stocked, monkeypatch):
    """A stop, as at a shutdown, counts as a failure, so that an alert is sent."""
    monkeypatch.setattr(sqlite, "copy", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(postgres, "dump", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    destination = stocked.directory / "backups"
    ended = stocked.run("backup", destination, "--scheduled")
    assert (ended.status, ended.stderr) == (128 + signal.SIGTERM, "interrupted\n")
    assert [path.name for path in destination.iterdir()] == [".lock"]
    assert [each["key"] for each in stocked.json("watch")["problems"]] == ["job:backup"]


def test_a_backup_is_private(stocked):
    """Only the owner can read a backup, whatever the umask."""
    os.umask(0)
    assert taken(stocked).stat().st_mode & 0o077 == 0


def test_each_backup_is_one_more(stocked):
    """Two backups of the same second have different names, in the order they were taken."""
    backups = [taken(stocked) for _ in range(3)]
    assert list(manifest.list_backups(stocked.directory / "backups")) == backups


def test_keep_removes_the_oldest(stocked):
    """`--keep 2` leaves the new backup and the one before, and prints which were removed."""
    backups = [taken(stocked) for _ in range(3)]
    told = stocked.json("backup", stocked.directory / "backups", "--keep", "2")
    assert told["removed"] == [str(path) for path in backups[:2]]
    assert names(stocked.directory / "backups") == [backups[2].name, Path(told["backup"]).name]


def test_keep_leaves_other_databases_alone(stocked, monkeypatch):
    """Backups of two databases in one directory are counted separately."""
    first = taken(stocked)
    other = f"sqlite:///{stocked.directory / 'other.db'}"
    monkeypatch.setenv("VERIFYD_DATABASE_URL", other)
    stocked.run("migrate")
    second = taken(stocked, "--keep", "1")
    assert names(stocked.directory / "backups") == [first.name, second.name]


def _damage_text(backup: Path) -> None:
    (backup / "manifest.json").write_text('{"engine": "sqlite"')


def _damage_content(backup: Path) -> None:
    (backup / "manifest.json").write_text("{}")


def _damage_bytes(backup: Path) -> None:
    (backup / "manifest.json").write_bytes(b"\xff\x00")


def _damage_letter(backup: Path) -> None:
    path = backup / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"version": "', b'"version": "\xff'))


def _damage_pipe(backup: Path) -> None:
    (backup / "manifest.json").unlink()
    os.mkfifo(backup / "manifest.json")


def _damage_kind(backup: Path) -> None:
    (backup / "manifest.json").unlink()
    (backup / "manifest.json").mkdir()


def _damage_link(backup: Path) -> None:
    (backup / "manifest.json").unlink()
    (backup / "manifest.json").symlink_to("manifest.json")


@pytest.mark.parametrize(
    "damage",
    [
        _damage_text,
        _damage_content,
        _damage_bytes,
        _damage_letter,
        _damage_pipe,
        _damage_kind,
        _damage_link,
    ],
)
def test_a_damaged_manifest_keeps_no_other_backup(stocked, damage):
    """A damaged backup is reported and left alone; the others are counted and removed as usual."""
    backups = [taken(stocked) for _ in range(4)]
    damage(backups[1])
    ended = stocked.run("backup", stocked.directory / "backups", "--keep", "2", "--json")
    assert (ended.status, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["removed"] == [str(backups[0]), str(backups[2])]
    (line,) = ended.log
    assert line["level"] == "warning"
    assert str(backups[1]) in line["message"]
    new = Path(json.loads(ended.stdout)["backup"])
    assert names(stocked.directory / "backups") == [backups[1].name, backups[3].name, new.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_backup_that_is_closed_to_us_is_left_alone(stocked):
    """A backup that cannot be read is left alone, like one with a damaged manifest."""
    backups = [taken(stocked) for _ in range(3)]
    backups[0].chmod(0)
    ended = stocked.run("backup", stocked.directory / "backups", "--keep", "1", "--json")
    backups[0].chmod(0o700)
    assert ended.status == 0
    assert json.loads(ended.stdout)["removed"] == [str(path) for path in backups[1:]]
    assert "cannot be read" in ended.log[0]["message"]


def test_keep_leaves_other_files_alone(stocked):
    """Links, files and directories that only have a backup's name stay."""
    folder = stocked.directory / "backups"
    former = taken(stocked).rename(stocked.directory / "elsewhere")
    (folder / "verifyd-1").symlink_to(former)
    (folder / "verifyd-2").write_text("notes")
    (folder / "verifyd-3").mkdir()
    new = taken(stocked, "--keep", "1")
    assert names(folder) == ["verifyd-1", "verifyd-2", new.name, "verifyd-3"]
    assert (former / "main.db").exists()


@pytest.fixture
def unremovable(stocked):
    """`unremovable(directory)` adds something that cannot be removed."""
    mounted = []

    def put(directory: Path) -> None:
        path = directory / "stuck"
        path.mkdir()
        (path / "file").touch()
        path.chmod(0o500)
        if os.access(path, os.W_OK):  # Root can remove any file, but not a mount point.
            mount = ["mount", "-t", "tmpfs", "none", str(path)]
            if subprocess.run(mount, check=False, capture_output=True).returncode:
                pytest.skip("only root, with the right to mount, can make what root cannot remove")
            mounted.append(path)

    yield put
    for path in stocked.directory.rglob("stuck"):
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
        path.chmod(0o700)


def test_a_backup_that_cannot_be_removed_keeps_no_other(stocked, unremovable):
    """It is reported at each run, no longer counts as a backup, and goes once that is possible."""
    backups = [taken(stocked) for _ in range(3)]
    unremovable(backups[0])
    folder = stocked.directory / "backups"
    for removed in ([str(backups[1])], [str(backups[2])]):
        ended = stocked.run("backup", folder, "--keep", "2", "--json")
        assert ended.status == 0
        assert json.loads(ended.stdout)["removed"] == removed
        assert "cannot be removed" in ended.log[0]["message"]
    assert len(names(folder)) == 2


@pytest.mark.parametrize("number", ["0", "-1", "many", "10001"])
def test_keep_is_a_number_of_backups(stocked, number):
    """`--keep 0` is refused: the new backup always stays."""
    assert "--keep" in stocked.misuse("backup", "backups", "--keep", number)


def test_the_next_backup_removes_an_incomplete_one(stocked):
    """A directory without its final name is no backup; the next run removes it."""
    left = stocked.directory / "backups" / ".verifyd-20260101T000000Z-000.partial"
    left.mkdir(parents=True)
    (left / "main.db").write_text("half")
    taken(stocked)
    assert not left.exists()


def test_one_backup_at_a_time(stocked):
    """A second backup to the same place is refused at once."""
    taken(stocked)
    with open(stocked.directory / "backups" / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "is running" in stocked.refusal("backup", stocked.directory / "backups")


def test_a_place_that_is_no_directory_is_refused(stocked):
    """A file in place of the directory is refused and left as it is."""
    file = stocked.file("backups", "precious")
    assert f"{file} is not a directory" in stocked.refusal("backup", file)
    assert file.read_text() == "precious\n"


def test_a_place_that_is_closed_to_us_is_told_with_a_remedy(stocked, monkeypatch):
    """The message names the user, the directory and the command that mends it."""
    place = stocked.directory / "backups"
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != place and access(path, mode))
    told = stocked.refusal("backup", place)
    user = user_name()
    assert f"the user {user} must be able to write to {place}" in told
    assert f"sudo install -d -o {user} -m 700 {place}" in told
    assert names(place) == []


def test_a_missing_register_is_reported(stocked):
    """A backup fails if a register that it should hold is missing."""
    (stocked.directory / "verifyd.register_native.1.db").unlink()
    refusal = stocked.refusal("backup", stocked.directory / "backups", "--registers")
    assert "verifyd.register_native.1.db does not exist" in refusal
    assert names(stocked.directory / "backups") == []


def test_a_register_that_is_loaded_meanwhile_is_in_it(stocked, monkeypatch):
    """Otherwise the restored database names a register without data, and no look-up works."""
    copy = sqlite.copy

    def after_a_load(source: Path, target: Path) -> dict[str, int]:
        if target.name == "main.db":
            stocked.run("import", stocked.directory / "cars.csv", "--register", "fleet")
        return copy(source, target)

    monkeypatch.setattr(sqlite, "copy", after_a_load)
    told = manifest.read(taken(stocked, "--registers"))
    assert told.registers == ["fleet", "native"]
    assert sorted(told.files) == ["main.db", "register_fleet.2.db", "register_native.1.db"]


def test_a_damaged_database_gives_no_backup(stocked):
    """A backup that cannot be read in full must not replace a good one."""
    good = taken(stocked)
    with open(stocked.database, "r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 3)
    ended = stocked.run("backup", stocked.directory / "backups", "--keep", "1")
    assert (ended.status, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    assert names(stocked.directory / "backups") == [good.name]


def test_rows_that_are_missing_from_a_copy_are_noticed(stocked):
    """The rows of a copy are counted and compared with the original."""
    rows = sqlite.copy(stocked.database, stocked.directory / "copy.db")
    with pytest.raises(Exception, match="number of rows differs"):
        sqlite.require_sound(stocked.directory / "copy.db", rows | {"account": 2})


def test_a_row_that_refers_to_nothing_is_noticed(stocked):
    """Foreign keys are checked in the copy."""
    path = stocked.directory / "copy.db"
    rows = sqlite.copy(stocked.database, path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE account SET plan_id = 'none'")
    with pytest.raises(Exception, match="refers to a missing row"):
        sqlite.require_sound(path, rows)
