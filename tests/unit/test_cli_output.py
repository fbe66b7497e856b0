"""What commands print for people: it ends with a sentence, and no line of it is JSON."""

import argparse
import io
import re
import subprocess
import sys
import threading

import pytest

from app.cli import output
from app.registers.generations import locked
from app.registers.history import insert_line
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_SQLITE
from tests.rows import each_row

VEHICLES = "registration,make"
POLICIES = "registration,number,insurer,validFrom,validTo"


@pytest.fixture
def filled(cli):
    """A database with an account, a key, a domain and a loaded register."""
    cli.run("accounts", "create", "acme")
    cli.file("cars.csv", VEHICLES, "AB12CDE,FORD", "XY34ZZZ,OPEL", "!,FIAT")
    cli.file("plates.csv", "plate", "AB12CDE")
    assert cli.run("import", "--max-rejects", 1, cli.directory / "cars.csv").status == 0
    return cli


CONTROLS = "\x1b]0;x\x07\x7f\x9b31m\u202e\u2028"


def test_no_text_of_an_uploader_controls_the_terminal(cli):
    """Names of files and columns, and values, are printed with escapes, also as JSON."""
    name = cli.directory / f"f{CONTROLS}.csv"
    name.write_text(f"plate;m{CONTROLS}\nAB1;{CONTROLS}\n")
    rejected = cli.file("cars.csv", VEHICLES, f"{CONTROLS},x", f"AB2,{CONTROLS}")
    for words in (
        ("import", name),
        ("import", "--suggest-map", name),
        ("import", cli.directory / CONTROLS),
        ("import", rejected),
        ("imports", "list"),
        ("imports", "show", 1),
        ("lookup", f"AB1{CONTROLS}"),
        ("audit", "verify", cli.directory / CONTROLS),
    ):
        for options in ([], ["--json"]):
            ended = cli.run(*words, *options)
            printed = ended.stdout + ended.stderr
            assert printed.replace("\n", "").isprintable(), (words, printed)


@ON_SQLITE  # The database decides nothing here.
@each_row(
    ("closed", "words", "status", "told"),
    [
        (">&-", ["version"], 0, ""),
        ("<&-", ["lookup", "-"], 1, "standard input has no plate; write one on each line\n"),
        ("2>&-", ["lookup", "-"], 1, ""),
    ],
)
def test_a_closed_stream_fails_no_command(cli, closed, words, status, told):
    """What starts a command may have closed its standard streams; that is no fault of its own."""
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "app", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (status, told)


@ON_SQLITE  # The database decides nothing here.
def test_letters_that_the_terminal_lacks_are_escaped(cli, monkeypatch):
    """As in a locale with Latin-1, where a plate can have other letters all the same."""
    cli.run("migrate")
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    ended = subprocess.run(
        [sys.executable, "-m", "app", "lookup", "ЖÄ 1"],
        capture_output=True,
        encoding="latin-1",
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout.startswith("\\u0416Ä1 (asked for as")


LAST_LINES = {
    "check": r"all settings are right; the database can be used",
    "migrate": r"the database is at schema \d+",
    "migrate --status": "nothing is pending",
    "version": r"verifyd \S+.* runs on Python \S+",
    "accounts create other": "account other created on plan standard",
    "accounts set-plan acme free": "account acme is on plan free",
    "accounts list": "1 account",
    "accounts suspend acme": "account acme is suspended",
    "accounts resume acme": "account acme is active",
    "accounts delete acme --yes": "account acme and its 0 keys deleted",
    "plans list": "3 plans",
    "plans set tiny --requests 1 --window 60 --bulk-max 1 --domains-max 0": (
        "plan tiny allows 1 request per 60 seconds"
    ),
    "plans delete free": "plan free deleted",
    "keys create acme": "key .{8} created; save it, it is not shown again",
    "keys list": "0 keys",
    "domains list acme": "0 domains",
    "import {0}/cars.csv --max-rejects 1": (
        "2 vehicles loaded into register native, 1 rejected, 1 note to read"
    ),
    "import {0}/cars.csv --max-rejects 1 --dry-run": (
        "2 vehicles would be loaded into register native, 1 rejected, 1 note to read; "
        "nothing was changed"
    ),
    "import {0}/cars.csv --max-rejects 1 --mode replace --register other": (
        "2 vehicles loaded into register other, 1 rejected"
    ),
    "imports list": "1 attempt",
    "imports show 1": "load 1: 2 vehicles loaded into register native, 1 rejected",
    "imports drop native --yes": (
        'register native dropped; bring it back with "verifyd imports undrop native"'
    ),
    "lookup AB12CDE": "1 plate answered",
    "lookup --csv {0}/plates.csv --output {0}/out.csv": (
        "1 line answered for .*: 1 found, 0 not found, 0 invalid, 0 not read, written to .*/out.csv"
    ),
    "watch": "nothing is wrong",
    "actions list": "2 actions",
}


@ON_SQLITE
@pytest.mark.parametrize("words", LAST_LINES)
def test_the_last_line_is_a_sentence(filled, words):
    """It tells what was done or found; stderr, which is no terminal, has nothing."""
    ended = filled.run(*words.format(filled.directory).split())
    assert (ended.status, ended.stderr, ended.log) == (0, "", [])
    assert re.fullmatch(LAST_LINES[words], ended.stdout.splitlines()[-1])
    assert not [line for line in ended.stdout.splitlines() if line.startswith(("{", "["))]


@ON_SQLITE
def test_a_backup_ends_with_its_name(filled):
    """The last line names the backup, and says how many older ones were removed."""
    backups = filled.directory / "backups"
    for _ in range(2):
        ended = filled.run("backup", backups, "--keep", 1)
        assert ended.status == 0
    (left,) = backups.glob("verifyd-*")
    told = f"backup {left} taken, and 1 older backup removed"
    assert ended.stdout.splitlines()[-1] == told


def test_a_failed_load_prints_its_reason_alone(filled):
    """The log has nothing to add: no JSON line, and no second line about the failure."""
    ended = filled.run("import", filled.file("bad.csv", VEHICLES, "!,FORD"))
    assert (ended.status, ended.stdout, ended.log) == (1, "", [])
    assert ended.stderr.startswith("1 of 1 record ")
    assert "warning" not in ended.stderr


def test_the_log_of_a_job_is_json(filled):
    """Why a job fails that a timer started is one JSON line if stderr is no terminal."""
    words = ("backup", filled.directory / "missing" / "backups")
    ended = filled.run(*words, "--scheduled")
    assert [line["level"] for line in ended.log] == ["error"]
    assert ended.log[0]["message"] in filled.run(*words).stderr


def test_a_job_that_a_person_starts_prints_why_it_fails(filled):
    """Without `--scheduled` the reason is a sentence, whatever stderr is."""
    nowhere = filled.directory / "missing"
    for words in (("backup", nowhere / "backups"), ("import", "--drop", nowhere)):
        ended = filled.run(*words)
        assert (ended.status, ended.log) == (1, [])
        assert f"{nowhere} does not exist" in ended.stderr


@pytest.mark.parametrize(
    "words", [("accounts", "show", "M\udcfc"), ("lookup", "--json", "M\udcfc")]
)
def test_an_argument_that_is_not_utf_8_is_told(cli, words):
    """As from a terminal in Latin-1: it is no failure of the program."""
    ended = cli.run(*words)
    assert (ended.status, ended.stderr) == (1, "an argument has bytes that are not UTF-8\n")


def test_a_directory_that_cannot_be_created_is_named(filled):
    """An errno is no reason: the sentence says what could not be done, to what, and why."""
    ended = filled.run("backup", "/proc/x")
    assert (ended.status, ended.stderr) == (
        1,
        "no backup was made: the directory /proc/x cannot be created: No such file or directory\n",
    )


def test_a_file_is_no_place_for_backups(filled):
    """The message says that it is no directory, not that it exists."""
    file = filled.file("taken", "")
    told = f"no backup was made: {file} is not a directory; correct the path\n"
    assert filled.refusal("backup", file) == told


def test_a_mistyped_directory_is_named_and_not_created(filled):
    """A backup creates only the last directory of its path."""
    wrong = filled.directory / "bakcups" / "verifyd"
    ended = filled.run("backup", wrong)
    assert ended.status == 1
    assert f"the directory {wrong.parent} does not exist" in ended.stderr
    assert not wrong.parent.exists()


def test_a_busy_register_is_refused_without_the_number_of_a_load(filled):
    """A running line of the history can be that of a killed load, so the refusal names none."""
    engine = open_engine(filled.database_url)
    try:
        with locked(engine, "native"):
            columns = {"register": "native", "kind": "vehicles", "mode": "merge"}
            insert_line(engine, status="running", format="", files="", **columns)
            ended = filled.run("import", filled.directory / "cars.csv", "--max-rejects", 1)
    finally:
        close_quietly(engine)
    refusal = "another load of the register native is running; try again when it has ended\n"
    assert (ended.status, ended.stderr) == (1, refusal)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PERSONS = argparse.Namespace(is_job=False)
JOBS = argparse.Namespace(is_job=True)


@pytest.fixture
def said(monkeypatch) -> threading.Event:
    """Whether something was said."""
    event, say = threading.Event(), output._say

    def say_and_note(what: str) -> None:
        say(what)
        event.set()

    monkeypatch.setattr(output, "_say", say_and_note)
    return event


class TestWaiting:
    def test_it_is_said_at_once_at_a_terminal(self, monkeypatch, said):
        """What the command waits for is on stderr before it ends."""
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        with output.waiting_for(PERSONS, "a lock"):
            assert said.wait(60)
        assert terminal.getvalue() == "waiting for a lock\n"

    def test_a_short_wait_is_not_mentioned_elsewhere(self, capsys):
        """A log or a pipe gets a line after some seconds only."""
        with output.waiting_for(PERSONS, "a lock"):
            pass
        assert capsys.readouterr().err == ""

    def test_a_long_wait_is_mentioned_elsewhere(self, capsys, monkeypatch, said):
        """As soon as the patience is over."""
        monkeypatch.setattr(output, "PATIENCE_SECONDS", 0)
        with output.waiting_for(PERSONS, "a lock"):
            assert said.wait(60)
        assert capsys.readouterr().err == "waiting for a lock\n"

    def test_the_log_of_a_job_has_only_events(self, capsys, monkeypatch):
        """Its lines are JSON, and nobody waits for it."""
        monkeypatch.setattr(output, "PATIENCE_SECONDS", 0)
        before = threading.active_count()
        with output.waiting_for(JOBS, "a lock"):
            assert threading.active_count() == before
        assert capsys.readouterr().err == ""

    def test_reading_a_terminal_is_said(self, monkeypatch, capsys):
        """Otherwise the command would look as if it hung."""
        monkeypatch.setattr(sys, "stdin", Terminal())
        output.say_if_terminal_is_read(False)
        assert capsys.readouterr().err == ""
        output.say_if_terminal_is_read(True)
        assert capsys.readouterr().err == "waiting for standard input; end it with Ctrl-D\n"


@ON_SQLITE
def test_each_note_and_reason_has_a_line(cli):
    """Several notes on one line are not read; JSON has them as a list."""
    path = cli.file("a.csv", "registration,year,motExpiry", "A1,x,x", "A2,x,2027-01-01", "A 3/,,,")
    words = ("import", path, "--max-rejects", "50%", "--dry-run")
    first, second = cli.json(*words)["notes"]
    told = cli.run(*words).stdout
    assert f"\nnotes        {first}\n{' ' * 13}{second}\n" in told
