"""`verifyd import --drop` with real files, processes and signals; loaded files move (D60)."""

import fcntl
import json
import os
import re
import signal
from pathlib import Path

import apsw
import pytest

from tests.system.drop import CAR, OTHER, Drop
from tests.system.processes import DEADLINE_SECONDS, run_command, until


def test_complete_files_are_loaded_and_moved(drop):
    """A file is one load, and a directory's files are one load of the register of its name."""
    drop.option("fleet", "--kind vehicles --max-rejects 5\n")
    drop.put("a car.csv")
    drop.put("fleet/1.csv")
    drop.put("fleet/2.csv", OTHER)
    drop.put("fresh.csv", "registration,ma", age_seconds=0)
    drop.put("x.csv.part", "registration,ma")
    drop.put(".hidden.csv", "registration,ma")
    drop.put("waiting/1.csv")
    drop.put("waiting/2.csv.part")
    ended = drop.run()
    assert ended.returncode == 0, ended.stderr
    waiting = ["waiting/1.csv", "waiting/2.csv.part"]
    assert drop.left() == [".hidden.csv", "fresh.csv", *waiting, "x.csv.part"]
    assert drop.loaded() == ["fleet/loaded/1.csv", "fleet/loaded/2.csv", "loaded/a car.csv"]
    assert drop.held() == {"native": 1, "fleet": 2}
    assert drop.loads() == [("native", "done"), ("fleet", "done")]
    # The lines are for programs.
    messages = [json.loads(line)["message"] for line in ended.stderr.splitlines()]
    assert sum(": done in " in message for message in messages) == len(drop.loads())


def test_loads_are_printed_as_one_document(drop):
    """`--json` prints an element per load, also for failed ones."""
    car, bad = drop.put("car.csv"), drop.put("nonsense.csv", "nonsense\n")
    ended = drop.run("--json")
    assert ended.returncode == 1
    loaded, failed = json.loads(ended.stdout)
    assert (loaded["files"], loaded["status"], loaded["loaded"]) == ([str(car)], "loaded", 1)
    assert (failed["files"], failed["status"]) == ([str(bad)], "failed")
    assert "The file fits no format" in failed["reason"]


def test_a_failed_file_is_moved_and_others_are_loaded(drop):
    """A failed file is moved with its reason, so that it is not retried; others are loaded."""
    drop.put("a.csv", "nonsense\n")
    drop.put("b.csv")
    drop.put("fleet/a.csv", "nonsense\n")
    drop.put("other/a.csv", OTHER)
    ended = drop.run()
    assert ended.returncode == 1
    assert drop.left() == ["failed/a.csv", "fleet/failed/a.csv"]
    assert drop.held() == {"native": 1, "other": 1}
    assert "The file fits no format" in ended.stderr
    assert f"{drop.root}/a.csv: not loaded; moved to {drop.root}/failed" in ended.stderr
    assert "FileFault" not in ended.stderr
    assert drop.run().returncode == 0


def test_a_stray_file_that_is_removed_is_no_warning(drop, world):
    """A file of no known register is reported until it is gone from `failed/`; so says `check`."""

    def warnings() -> str:
        return run_command("check", **drop.settings).stdout

    for name in ("one.csv", "two.csv"):
        drop.put(name, "nonsense\n")
    assert drop.run().returncode == 1
    assert "2 loads of an unknown register failed" in warnings()
    shown = run_command("imports", "show", "1", **drop.settings).stdout
    assert f"moved to {drop.root}/failed" in shown
    (drop.root / "failed" / "two.csv").unlink()
    assert "A load of an unknown register failed" in warnings()
    assert "(load 1)" in warnings()
    (drop.root / "failed" / "one.csv").rename(world.directory / "one.csv")
    assert "unknown register" not in warnings()


@pytest.mark.system_long
def test_nothing_that_was_put_aside_is_overwritten(drop):
    """A second failed file of the same name gets a number."""
    for number in range(3):
        drop.put("a.csv", f"nonsense {number}\n")
        drop.run()
    aside = drop.root / "failed"
    told = {path.name: path.read_text() for path in aside.iterdir()}
    assert told == {f"a.csv{end}": f"nonsense {n}\n" for n, end in enumerate(("", ".1", ".2"))}


@pytest.mark.system_long
def test_a_directory_that_names_no_register_is_left_alone(drop):
    """The directory is reported and left alone, and the exit status is 1."""
    drop.put("fleet/a.csv", CAR + "AB13CDE,SEAT\n")
    assert drop.run().returncode == 0
    names = ["fleet --mode replace --allow-shrink", "rdw --dry-run", "Fleet", "1fleet", "-x"]
    names += ["--help", "x" * 31, "new\nline", "*", "$(id)"]
    files = {str(drop.put(f"{name}/a.csv").relative_to(drop.root)) for name in names}
    drop.put("native/a.csv")
    ended = drop.run()
    assert ended.returncode == 1
    told = "its name is not a register name, which has 1 to 30 of a-z, 0-9 and _, beginning with"
    assert ended.stderr.count(f"skipped: {told} a letter") == len(names)
    assert set(drop.left()) == files
    assert drop.held() == {"fleet": 2, "native": 1}


MISTAKES = {
    "--register other": "there is no option --register",
    "--dry-run": "there is no option --dry-run",
    "--drop /tmp": "there is no option --drop",
    "--json": "there is no option --json",
    "--help": "there is no option --help",
    "other.csv": "unrecognized arguments: other.csv",
    "-- other.csv": "unrecognized arguments: ",
    "--kind $(id)": "argument --kind: must be vehicles, policies or fines, not '$(id)'",
    "--max-rejects many": "argument --max-rejects: must be N or N%",
    "--format 'nyc-csv": "No closing quotation",
    "--map /nowhere/map.toml": "/nowhere/map.toml: ",
    "--format \udcff": "cannot be read: 'utf-8' codec",
    "--map a\0b": "it has a NUL character",
}


def test_a_mistake_in_an_option_file_is_reported_with_its_name(drop):
    """The option file is named; its files stay, and all others are loaded."""
    for number, text in enumerate(MISTAKES):
        drop.put(f"r{number}/a.csv")
        drop.option(f"r{number}", text)
    drop.put("zz.csv")
    ended = drop.run()
    assert ended.returncode == 1
    for number, told in enumerate(MISTAKES.values()):
        assert told in ended.stderr
        assert f"{drop.options}/r{number}: " in ended.stderr or "map.toml" in told
    assert ended.stderr.count(": skipped") == len(MISTAKES)
    assert drop.left() == sorted(f"r{number}/a.csv" for number in range(len(MISTAKES)))
    assert drop.held() == {"native": 1}


def test_a_mapping_for_another_register_is_refused(drop, world):
    """The directory names the register, so a mapping that names another one is a mistake."""
    mapping = world.directory / "map.toml"
    mapping.write_text(
        'kind = "vehicles"\nregister = "leases"\n[columns]\nregistration = "Plate"\n'
    )
    for register in ("fleet", "leases"):
        drop.option(register, f"--map {mapping}")
        drop.put(f"{register}/a.csv", "Plate\nAB12CDE\n")
    ended = drop.run()
    assert ended.returncode == 1
    assert (
        "names the register leases, but the directory is that of the register fleet" in ended.stderr
    )
    assert (drop.left(), drop.held()) == (["fleet/a.csv"], {"leases": 1})


def test_options_are_words_with_quotes_and_comments(drop):
    """Options are split as in a shell, over several lines, without expansion."""
    fines = (
        "Plate,State,Summons Number,Issue Date,Amount Due\n"
        "QQ1,NY,1,01/31/2026,5.00\nQQ1,NJ,2,01/31/2026,7.00\n"
    )
    drop.option("nyc", "# New Jersey's\n--state 'nj'\n--format nyc-csv  # as it comes\n")
    drop.put("nyc/a.csv", fines)
    (loaded,) = json.loads(drop.run("--json").stdout)
    assert (loaded["loaded"], loaded["skipped"]) == (1, 1)


@pytest.mark.system_long
def test_a_missing_directory_is_reported(drop):
    """A mistyped directory must not look like an empty one; nor must the options'."""
    drop.put("a.csv")
    drop.options.rmdir()
    ended = drop.run()
    assert (ended.returncode, drop.left()) == (1, ["a.csv"])
    assert f"{drop.options} does not exist" in ended.stderr
    settings = {"database_url": drop.settings["database_url"]}
    for wrong in (drop.root / "none", drop.root / "a.csv"):
        ended = run_command("import", "--drop", wrong, **settings)
        assert ended.returncode == 1
        assert f"{wrong} does not exist, or is not a directory" in ended.stderr


@pytest.mark.system_long
def test_files_are_not_to_blame_for_the_settings(drop):
    """If the program cannot run at all, all files stay."""
    drop.put("a.csv")
    assert drop.run(workers="many").returncode == 1
    nowhere = f"sqlite:///{drop.root}/none.db"
    assert drop.run(database_url=nowhere).returncode == 1
    assert drop.left() == ["a.csv"]


@pytest.mark.system_long
def test_a_busy_register_is_loaded_the_next_time(drop, world):
    """The files stay in place, because another load of the register is not their fault."""
    drop.put("fleet/a.csv")
    drop.put("b.csv")
    lock = world.database.with_name(f"{world.database.stem}.register_fleet.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = drop.run()
    assert ended.returncode == 1
    assert "another load of the register fleet is running" in ended.stderr
    assert drop.left() == ["fleet/a.csv"]
    assert drop.run().returncode == 0
    assert drop.left() == []


def test_links_are_not_followed(drop, world):
    """Links to files and directories are skipped; their targets are not read or removed."""
    outside = world.directory / "outside"
    outside.mkdir()
    for name in ("a.csv", "fleet.csv"):
        (outside / name).write_text(CAR)
        os.utime(outside / name, (1, 1))
    (drop.root / "link.csv").symlink_to(outside / "a.csv")
    (drop.root / "fleet").symlink_to(outside)
    drop.put("other/real.csv")
    (drop.root / "other" / "link.csv").symlink_to(outside / "a.csv")
    os.mkfifo(drop.root / "pipe.csv")
    ended = drop.run()
    assert ended.returncode == 1
    assert ended.stderr.count("skipped: it is not a regular file") == 4
    assert ended.stderr.count("; the files beside it are skipped, too") == 1
    assert drop.held() == {}
    assert sorted(path.name for path in outside.iterdir()) == ["a.csv", "fleet.csv"]
    assert (drop.root / "other" / "real.csv").exists()


@pytest.mark.system_long
def test_failed_files_do_not_follow_a_link(drop, world):
    """If `failed` is a link instead of a directory, the files stay."""
    outside = world.directory / "outside"
    outside.mkdir()
    (drop.root / "failed").symlink_to(outside)
    drop.put("a.csv", "nonsense\n")
    ended = drop.run()
    assert (ended.returncode, list(outside.iterdir())) == (1, [])
    assert "cannot be moved to" in ended.stderr
    assert "a.csv" in drop.left()


def test_a_name_that_cannot_be_shown_is_passed_over(drop):
    """The name could forge a line of the log or history; it is quoted, and the file stays."""
    names = [b"a\nb.csv", b"\xff.csv", b"\x1b[2J.csv"]
    for path in (os.path.join(os.fsencode(drop.root), name) for name in names):
        with open(path, "w") as file:
            file.write(CAR)
        os.utime(path, (1, 1))
    ended = drop.run()
    assert ended.returncode == 1
    assert ended.stderr.count("its name has control characters, or is not UTF-8") == len(names)
    assert "\x1b" not in ended.stderr
    assert set(os.listdir(os.fsencode(drop.root))) == set(names)
    assert drop.held() == {}


@pytest.mark.system_long
def test_odd_names_are_only_names(drop):
    """A name is never an option, a pattern or standard input; a future time is accepted."""
    for name in ("-", "-x.csv", "--help", "* $(id) ; é.csv"):
        drop.put(name)
    drop.put("of another clock.csv", age_seconds=-86_400)
    ended = drop.run()
    assert (ended.returncode, drop.left(), drop.held()) == (0, [], {"native": 1}), ended.stderr
    assert len(drop.loads()) == 5


def test_a_file_that_cannot_be_removed_is_not_loaded(drop):
    """Such a file would be loaded every night; the message names the user to give access."""
    drop.put("fleet/a.csv")
    drop.put("b.csv")
    (drop.root / "fleet").chmod(0o555)
    if os.access(drop.root / "fleet", os.W_OK):
        pytest.skip("root may write anywhere")
    ended = drop.run()
    (drop.root / "fleet").chmod(0o755)
    assert ended.returncode == 1
    assert f"must be able to write to {drop.root}/fleet" in ended.stderr
    assert drop.left() == ["fleet/a.csv"]
    assert drop.held() == {"native": 1}


class Slow:
    """A load that waits while another one writes to the register."""

    def __init__(self, drop: Drop, world) -> None:
        drop.put("fleet/1.csv")
        assert drop.run().returncode == 0
        drop.put("fleet/1.csv")
        drop.put("fleet/2.csv", OTHER)
        drop.put("later.csv")
        (register,) = world.directory.glob("*register_fleet.1.db")
        self._writer = apsw.Connection(str(register))
        self._writer.execute("BEGIN IMMEDIATE")
        self.process = drop.start()
        until(lambda: ("fleet", "running") in drop.loads(), "the load to begin")

    def go_on(self) -> str:
        """Let the load continue, and return the command's output."""
        self._writer.execute("ROLLBACK")
        self._writer.close()
        stderr: str = self.process.communicate(timeout=DEADLINE_SECONDS)[1]
        return stderr


@pytest.mark.system_long
def test_a_file_that_changes_or_comes_meanwhile_is_not_removed(drop, world):
    """Only loaded files are removed; a set with a changed file is loaded again as a whole."""
    slow = Slow(drop, world)
    changed = drop.root / "fleet" / "2.csv"
    at = changed.stat()
    changed.write_text(OTHER.replace("SEAT", "FORD"))  # The same length,
    os.utime(changed, ns=(at.st_atime_ns, at.st_mtime_ns))  # and the same time.
    drop.put("fleet/3.csv", "registration,make\nAB14CDE,FIAT\n")
    told = slow.go_on()
    assert drop.left() == ["fleet/1.csv", "fleet/2.csv", "fleet/3.csv"]
    # This depends on the progress of the load.
    assert "changed during the load" in told or "was changed while it was read" in told
    assert drop.run().returncode == 0
    assert (drop.left(), drop.held()) == ([], {"fleet": 3, "native": 1})


def test_one_command_at_a_time(drop, world):
    """A second command is refused at once, without harm to the first."""
    slow = Slow(drop, world)
    second = drop.run()
    assert second.returncode == 1
    assert re.search(r"another .* is running since \d{4}-.*; try again", second.stderr)
    assert drop.left() == ["fleet/1.csv", "fleet/2.csv", "later.csv"]
    slow.go_on()
    assert (slow.process.returncode, drop.left()) == (0, [])


@pytest.mark.parametrize(("number", "is_for_all"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_stop_leaves_everything_for_the_next_time(drop, world, number, is_for_all):
    """The running load is cancelled properly, no other one begins, and all files stay."""
    slow = Slow(drop, world)
    if is_for_all:  # As systemd and the terminal do.
        os.killpg(slow.process.pid, number)
    else:
        slow.process.send_signal(number)
    told = slow.go_on()
    assert slow.process.returncode == 128 + number
    assert "interrupted" in told
    assert "Traceback" not in told
    assert drop.left() == ["fleet/1.csv", "fleet/2.csv", "later.csv"]
    assert drop.loads()[-1] == ("fleet", "failed")
    assert drop.run().returncode == 0
    assert (drop.left(), drop.held()) == ([], {"fleet": 2, "native": 1})


@pytest.mark.system_long
def test_a_kill_ends_the_load_too(drop, world):
    """All processes of a killed command end, and the next one loads everything."""
    slow = Slow(drop, world)
    slow.process.kill()
    slow.go_on()
    until(lambda: drop.run().returncode == 0, "the killed load to be gone")
    assert (drop.left(), drop.held()) == ([], {"fleet": 2, "native": 1})


@pytest.mark.system_long
def test_a_load_that_is_killed_stops_no_other(drop, world):
    """The files of a killed load, as without memory, are set aside; others are loaded."""
    slow = Slow(drop, world)
    children = Path(f"/proc/{slow.process.pid}/task/{slow.process.pid}/children").read_text()
    os.kill(int(children.split()[0]), signal.SIGKILL)
    told = slow.go_on()
    assert slow.process.returncode == 1
    assert "the process of the load was killed" in told
    assert drop.left() == ["fleet/failed/1.csv", "fleet/failed/2.csv"]
    assert drop.held()["native"] == 1


BULK, JUNE, JULY = (
    "bulk-light-vehicle_30-05-2025.json",
    "delta-light-vehicle_30-06-2025.json",
    "delta-light-vehicle_01-07-2025.json",
)


def delta(make: str) -> str:
    """Return a DVSA file with one vehicle."""
    return json.dumps({"registration": "AB12CDE", "make": make, "motTests": []}) + "\n"


def test_files_with_dates_are_loaded_in_the_order_of_their_dates(drop):
    """The dates count, not the names: a file of June must not follow one of July."""
    drop.put("a.csv", OTHER)
    for name in (JULY, BULK, JUNE):
        drop.put(name, delta(name))
    ended = drop.run("--json")
    assert ended.returncode == 0, ended.stderr
    told = [Path(each["files"][0]).name for each in json.loads(ended.stdout)]
    assert told == ["a.csv", BULK, JUNE, JULY]


@pytest.mark.system_long
def test_no_later_file_is_loaded_before_one_that_is_left(drop):
    """Later deltas wait for one that stays, whatever the reason; undated files do not."""
    drop.put("z.csv", OTHER)
    drop.put(JULY, delta("JULY"))
    drop.put(JUNE, delta("JUNE"), age_seconds=0)
    ended = drop.run()
    assert ended.returncode == 0, ended.stderr
    assert (drop.left(), drop.loaded()) == ([JULY, JUNE], ["loaded/z.csv"])
    assert f"{JUNE} must be loaded before it" in ended.stderr
    drop.put(JUNE, delta("JUNE"))
    assert drop.run().returncode == 0
    assert drop.left() == []
