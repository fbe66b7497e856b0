"""`verifyd import --drop`, one quick test of each rule that tests/system tries at length (D60)."""

import errno
import fcntl
import json
import os

import pytest

from app import clock
from app.registers.dropped import directory, kept, uploads
from app.registers.dropped.directory import File, state_of
from tests.conftest import ON_SQLITE

pytestmark = ON_SQLITE
CAR = "registration,make\nAB12CDE,FORD\n"
DAY_SECONDS = 86_400


class Drop:
    """A drop directory, and the command that loads what lies there."""

    def __init__(self, cli) -> None:
        self.cli = cli
        self.root, self.options = cli.directory / "drop", cli.directory / "options"
        self.root.mkdir()
        self.options.mkdir()

    def put(self, name, text=CAR, *, days=1):
        """Put a file there that was last changed so many days ago."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        changed_at = clock.now() - days * DAY_SECONDS
        os.utime(path, (changed_at, changed_at))

    def run(self, root=None):
        """Run the command; return its status, what it logged, and why it failed."""
        ended = self.cli.run("import", "--drop", root or self.root, "--options", self.options)
        return ended.status, "\n".join([*(line["message"] for line in ended.log), ended.stderr])

    def files(self):
        """All files below the drop."""
        found = [path for path in self.root.rglob("*") if path.is_file()]
        return sorted(str(path.relative_to(self.root)) for path in found)


@pytest.fixture
def drop(cli) -> Drop:
    """An empty drop directory."""
    return Drop(cli)


def test_a_missing_directory_is_reported(drop):
    """Mistyped, neither drop nor options may look like an empty directory."""
    status, told = drop.run(drop.root / "none")
    assert (status, f"{drop.root}/none does not exist" in told) == (1, True)
    drop.put("a.csv")
    drop.options.rmdir()
    status, told = drop.run()
    assert (status, f"{drop.options} does not exist" in told) == (1, True)
    assert drop.files() == ["a.csv"]


def test_a_directory_that_names_no_register_is_left_alone(drop):
    """What else there is is loaded, and the exit status is 1."""
    drop.put("rdw --dry-run/a.csv")
    drop.put("fleet/a.csv")
    status, told = drop.run()
    assert (status, "its name is not a register name" in told) == (1, True)
    assert drop.files() == ["fleet/loaded/a.csv", "rdw --dry-run/a.csv"]


def test_odd_names_are_only_names(drop):
    """They are no options, and a time ahead came with the file."""
    drop.put("--help")
    drop.put("-x.csv", days=-1)
    assert drop.run()[0] == 0
    assert drop.files() == ["loaded/--help", "loaded/-x.csv"]


def test_a_busy_register_is_loaded_the_next_time(drop):
    """Its files stay where they are."""
    drop.put("fleet/a.csv")
    database = drop.cli.database
    with database.with_name(f"{database.stem}.register_fleet.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, told = drop.run()
    assert (status, "another load of the register fleet is running" in told) == (1, True)
    assert drop.files() == ["fleet/a.csv"]
    assert drop.run()[0] == 0


def test_files_are_not_to_blame_for_the_settings(drop, monkeypatch):
    """If the program cannot run at all, they stay where they are."""
    drop.put("a.csv")
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{drop.root}/none.db")
    assert drop.run()[0] == 1
    assert drop.files() == ["a.csv"]


def test_a_wrong_option_file_never_costs_the_data(drop):
    """A file without text, or a rejects file where another file is: the data stays."""
    notes = drop.cli.file("notes.txt", "precious")
    texts = {"binary": bytes(range(256)), "taken": f"--rejects {notes}".encode()}
    for name, text in texts.items():
        drop.put(f"{name}/a.csv", CAR + ",\n")
        (drop.options / name).write_bytes(text)
    assert drop.run()[0] == 1
    assert drop.files() == ["binary/a.csv", "taken/a.csv"]
    assert notes.read_text() == "precious\n"


def test_each_load_says_what_it_changed(drop):
    """In words for a person; for a program held loads say it, too."""
    drop.put("native/a.csv", "registration,make\n" + "".join(f"AB{n}CDE,FORD\n" for n in range(30)))
    ended = drop.cli.run("import", "--drop", drop.root)
    assert "change       +30" in ended.stdout
    (drop.options / "native").write_text("--mode replace\n")
    drop.put("native/b.csv", "registration,make\nAB1CDE,FORD\n")
    ended = drop.cli.run("import", "--drop", drop.root, "--options", drop.options, "--json")
    (held,) = json.loads(ended.stdout)
    assert (held["status"], held["change"]["removed"]) == ("held", 29)


def test_an_option_file_of_comments_is_right(drop):
    """With the line ends and the mark of other systems, too."""
    drop.put("fleet/a.csv")
    (drop.options / "fleet").write_bytes(b"\xef\xbb\xbf# nothing\r\n\r\n")
    assert drop.run()[0] == 0
    assert drop.files() == ["fleet/loaded/a.csv"]


def test_nothing_that_is_kept_is_overwritten(drop):
    """The second file of a name gets a number, whether it was loaded or failed."""
    for text in (CAR, "nonsense\n", CAR, "nonsense\n"):
        drop.put("a.csv", text)
        drop.run()
    assert drop.files() == ["failed/a.csv", "failed/a.csv.1", "loaded/a.csv", "loaded/a.csv.1"]


def test_loaded_files_are_kept_for_a_week_and_failed_ones_for_a_month(drop):
    """Both directories of every register are looked at in each run."""
    for days in (6, 8):
        drop.put(f"loaded/{days}.csv", days=days)
    (drop.root / "fleet").mkdir()
    for days in (29, 31):
        drop.put(f"fleet/failed/{days}.csv", days=days)
    assert drop.run()[0] == 0
    assert drop.files() == ["fleet/failed/29.csv", "loaded/6.csv"]


@pytest.mark.parametrize(("name", "text"), [("loaded", CAR), ("failed", "nonsense\n")])
def test_a_link_in_place_of_a_directory_is_not_followed(drop, name, text):
    """Nothing is moved to where it leads, and nothing is removed there, however old it is."""
    outside = drop.cli.directory / "outside"
    outside.mkdir()
    (outside / "precious.csv").write_text(CAR)
    os.utime(outside / "precious.csv", (1, 1))
    (drop.root / name).symlink_to(outside)
    drop.put("a.csv", text)
    status, told = drop.run()
    assert (status, "cannot be moved to" in told) == (1, True)
    assert [path.name for path in outside.iterdir()] == ["precious.csv"]
    assert (drop.root / "a.csv").exists()


def test_a_file_that_is_open_for_writing_is_waited_for(drop):
    """Although it was changed long ago."""
    drop.put("a.csv", days=0.5)
    with open(drop.root / "a.csv", "a"):
        assert drop.run()[0] == 0
        assert drop.files() == ["a.csv"]
    drop.put("a.csv")
    assert drop.run()[0] == 0
    assert drop.files() == ["loaded/a.csv"]


def test_a_file_that_was_taken_away_has_changed(drop):
    """Nobody may be told that it was loaded or kept."""
    drop.put("cars.csv")
    path = drop.root / "cars.csv"
    file = File(path, state_of(path.lstat()))
    assert file.is_unchanged()
    path.unlink()
    assert not file.is_unchanged()


def test_a_directory_whose_files_cannot_be_examined_is_skipped(drop, monkeypatch):
    """Its names can be read without the right to search it; the other files are loaded."""

    def lstat_if_exists(path):
        if path.parent.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return lstat(path)

    lstat = uploads.lstat_if_exists
    monkeypatch.setattr(directory, "lstat_if_exists", lstat_if_exists)
    drop.put("closed/a.csv")
    drop.put("fleet/a.csv")
    status, told = drop.run()
    assert (status, f"{drop.root}/closed: skipped: Permission denied" in told) == (1, True)
    assert drop.files() == ["closed/a.csv", "fleet/loaded/a.csv"]


def test_a_marker_whose_file_is_gone_is_kept_too(drop):
    """Somebody can remove a held file while it is loaded; no other marker is overwritten."""
    drop.put("failed/a.csv.sha256", "new")
    drop.put("loaded/a.csv.sha256", "old")
    kept.move(drop.root, [], kept.LOADED, ["a.csv.sha256"], of=[kept.FAILED])
    assert drop.files() == ["loaded/a.csv.sha256", "loaded/a.csv.sha256.1"]
    assert (drop.root / "loaded/a.csv.sha256").read_text() == "old"
