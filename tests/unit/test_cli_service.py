"""`verifyd check` and `migrate`, and rules that hold for all commands."""

import argparse
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC
from typing import Any

import pytest

from app.alerts import sending
from app.cli import build_parser
from app.settings import time_zones
from app.storage.engine import close_quietly, open_engine
from app.storage.versions import Installation, program_schema
from tests.rows import each_row

NEED_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def database_kind() -> str:
    """SQLite: these tests concern its file."""
    return "sqlite"


def commands(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Return every command of a parser, as the words that call it."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield words
    for group in groups:
        for name, command in group.choices.items():
            yield from commands(command, *words, name)


COMMANDS = list(commands(build_parser()))
NO_OWNER = ("version", "copy", "completion")
"""Commands that open no database of the settings."""


def set_versions(cli, *, schema: int, oldest: int) -> None:
    """Set the schema versions that another program would have written."""
    engine = open_engine(f"sqlite:///{cli.database}")
    Installation.update(schema_version=schema, oldest_program=oldest).execute(engine)
    close_quietly(engine)


def test_a_directory_is_no_database(bare_cli, monkeypatch):
    """SQLite's own message would name neither the path nor the setting."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{bare_cli.directory}")
    told = (
        f"{bare_cli.directory} is a directory; name a file in it, or correct VERIFYD_DATABASE_URL"
    )
    for command in ("migrate", "lookup X", "accounts list"):
        assert bare_cli.refusal(*command.split()) == f"{told}\n"


@each_row("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(bare_cli, words):
    """`--help` of every command exits with 0 and changes nothing."""
    ended = bare_cli.run(*words, "--help")
    assert (ended.status, ended.stderr) == (0, "")
    assert f"usage: verifyd {' '.join(words)} " in ended.stdout
    assert not bare_cli.database.exists()


@pytest.mark.parametrize(
    "words", [(), ("nonsense",), ("keys",), ("keys", "create"), ("serve", "x")]
)
def test_an_unknown_command_is_a_usage_error(cli, words):
    """An unknown command exits with 2 and prints the usage."""
    assert "usage: verifyd" in cli.misuse(*words)


@each_row(
    "words",
    [
        "serve",
        "check",
        "accounts list",
        "plans list",
        "keys list",
        "accounts create acme",
        "keys create acme",
        "keys revoke 3NnTYh3d",
        "keys rotate 3NnTYh3d",
        "import x.csv",
        "domains list acme",
        "domains suspend acme example.com",
        "imports list",
        "imports rollback",
        "imports drop native",
        "imports undrop native",
        "backup backups",
    ],
)
def test_no_command_but_migrate_and_demo_creates_a_database(bare_cli, words):
    """A mistyped URL must not become an empty service (D27)."""
    assert "does not exist; run " in bare_cli.refusal(*words.split())
    assert list(bare_cli.directory.iterdir()) == []


def test_a_missing_database_is_reported_with_its_whole_path(bare_cli, monkeypatch):
    """A URL with a slash too few means a relative path, so the message has the whole path."""
    monkeypatch.chdir(bare_cli.directory)
    monkeypatch.setenv("VERIFYD_DATABASE_URL", "sqlite:///var/verifyd.db")
    told = bare_cli.refusal("check")
    assert f"database file {bare_cli.directory}/var/verifyd.db does not exist; run" in told
    assert told.endswith(", or check VERIFYD_DATABASE_URL\n"), told


def test_a_missing_default_database_names_the_setting(bare_cli, monkeypatch):
    """Without the setting the default is used, and the message says so."""
    monkeypatch.chdir(bare_cli.directory)
    monkeypatch.delenv("VERIFYD_DATABASE_URL")
    told = bare_cli.refusal("check")
    assert f"database file {bare_cli.directory}/verifyd.db does not exist; run" in told
    assert "or set VERIFYD_DATABASE_URL: it is not set, so this is the default" in told


def test_check_reports_an_unreadable_directory(bare_cli, monkeypatch):
    """If a directory cannot be read, `check` reports the setting's name among its faults."""
    closed = bare_cli.directory / ("x" * 300)  # Root can read every directory.
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{closed}/verifyd.db")
    monkeypatch.setenv("VERIFYD_STATE_DIR", f"{closed}/state")
    monkeypatch.setenv("VERIFYD_COLOUR", "blue")
    told = [line.partition(":")[0] for line in bare_cli.refusal("check").splitlines()]
    assert told == ["VERIFYD_COLOUR", "VERIFYD_DATABASE_URL"]


@pytest.mark.parametrize("words", [("check",), ("accounts", "list"), ("migrate",)])
def test_all_wrong_settings_are_reported_at_once(cli, monkeypatch, words):
    """One run names every wrong value and every unknown variable, one per line."""
    monkeypatch.setenv("VERIFYD_WORKERS", "many")
    monkeypatch.setenv("VERIFYD_BIND", "nowhere")
    monkeypatch.setenv("VERIFYD_COLOUR", "blue")
    lines = cli.refusal(*words).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "VERIFYD_BIND",
        "VERIFYD_WORKERS",
        "VERIFYD_COLOUR",
    ]


def test_a_wrong_setting_is_not_reported_as_missing(cli, monkeypatch):
    """Although another setting needs it."""
    monkeypatch.setenv("VERIFYD_CONSOLE_PROXY_SECRET", "x" * 32)
    monkeypatch.setenv("VERIFYD_CONSOLE_GROUPS", "staff=boss")
    (line,) = cli.refusal("check").splitlines()
    assert line.startswith("VERIFYD_CONSOLE_GROUPS: must be different groups with a role")


def test_a_wrong_url_is_not_repeated(cli, monkeypatch):
    """A database URL can hold a password, so the message leaves it out."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", "postgres:/verifyd:hunter2@db/verifyd")
    ended = cli.run("check")
    assert "VERIFYD_DATABASE_URL: must be" in ended.stderr
    assert "hunter2" not in ended.stderr


def test_check_succeeds(cli):
    """`check` exits with 0 and ends with a sentence."""
    ended = cli.run("check")
    assert (ended.status, ended.stderr) == (0, "")
    assert "all settings are right" in ended.stdout


def test_check_prints_one_document(cli, monkeypatch):
    """With `--json` the faults are in the document, and the exit status is unchanged."""
    off = {"state": "off", "reason": None, "size_bytes": None, "records": None, "sealed_at": None}
    zone = {"name": "UTC", "host": None, "tzdata": time_zones.USED.version}
    told: dict[str, Any] = {"warnings": [], "audit": off, "time_zone": zone}
    told |= {"unknown": False, "complete_registers": []}
    monkeypatch.setattr(time_zones, "host_zone", lambda: UTC)
    assert cli.json("check") == {"ok": True, "faults": []} | told
    monkeypatch.setenv("VERIFYD_COLOUR", "blue")
    ended = cli.run("check", "--json")
    assert ended.status == 1
    faults = ["VERIFYD_COLOUR: no such setting"]
    assert json.loads(ended.stdout) == {"ok": False, "faults": faults} | told


class TestTimeZone:
    """`check` shows the zone, and which rules count."""

    @pytest.fixture(autouse=True)
    def _zone(self, cli, monkeypatch):
        monkeypatch.setenv("VERIFYD_TIMEZONE", "America/Vancouver")

    @pytest.fixture
    def old_system(self, monkeypatch, tmp_path):
        """A system that knows Vancouver as UTC: the directory, and a version for its rules."""
        (tmp_path / "America").mkdir()
        shutil.copy(f"{time_zones.PACKAGE.directory}/UTC", tmp_path / "America/Vancouver")
        rules = time_zones.Rules(str(tmp_path), "2025b")
        monkeypatch.setattr(time_zones, "SYSTEM", rules)
        monkeypatch.setattr(time_zones, "USED", time_zones.PACKAGE)
        return rules

    @pytest.mark.parametrize(
        ("host", "told"),
        [
            ("America/Vancouver", ""),
            ("Canada/Pacific", ""),
            ("Europe/London", ", but Europe/London on this host"),
            (None, ""),
        ],
    )
    def test_it_tells_if_the_zone_of_the_host_differs(self, cli, monkeypatch, host, told):
        """That is no warning: many hosts are in UTC on purpose."""
        zone = host and time_zones.require_zone(host)
        monkeypatch.setattr(time_zones, "host_zone", lambda: zone)
        monkeypatch.setattr(time_zones, "SYSTEM", None)
        version = time_zones.USED.version
        line, _, last = cli.run("check").stdout.splitlines()
        assert line == f"time zone: America/Vancouver{told}; rules of tzdata {version}"
        assert last == "all settings are right; the database can be used"

    def test_it_warns_if_the_system_has_other_rules(self, cli, old_system, monkeypatch):
        """Other programs of the host, and hosts with other data, are on another day."""
        package = time_zones.PACKAGE.version
        (warning,) = cli.json("check")["warnings"]
        told = "The tzdata of the system ({}) and of verifyd ({}) have different rules for "
        assert warning.startswith(told.format("2025b", package) + "America/Vancouver, from 20")
        assert warning.endswith("Those of verifyd count; update the package tzdata of the system.")
        monkeypatch.setattr(time_zones, "USED", old_system)
        (warning,) = cli.json("check")["warnings"]
        assert warning.endswith("Those of the system count; upgrade verifyd.")
        monkeypatch.setattr(time_zones, "SYSTEM", old_system._replace(version=""))
        (warning,) = cli.json("check")["warnings"]
        assert warning.startswith(told.format("of an unknown version", package))

    @pytest.mark.usefixtures("old_system")
    def test_it_does_not_warn_of_other_zones(self, cli, monkeypatch):
        """Only the zone of the setting decides which day it is."""
        monkeypatch.setenv("VERIFYD_TIMEZONE", "Europe/London")
        assert cli.json("check")["warnings"] == []


def test_check_warns_of_accounts_for_the_metrics_that_do_not_exist(cli, monkeypatch):
    """A mistyped account would get 403 from the metrics, and could exist later."""
    monkeypatch.setenv("VERIFYD_METRICS_ACCOUNTS", "prometheus, graphana")
    cli.json("accounts", "create", "prometheus")
    assert cli.json("check")["warnings"] == [
        "VERIFYD_METRICS_ACCOUNTS names graphana: there is no such account"
    ]


def test_check_warns_of_registers_in_settings_that_do_not_exist(cli, monkeypatch):
    """A mistyped register would silently have no limit of its own."""
    cli.run("import", cli.file("a.csv", "registration,make", "AB12CDE,FORD"))
    for setting, value in {
        "STALE_AFTER": "9d",
        "UNCHANGED_AFTER": "2d",
        "MOT_FIRST_YEARS": "3",
    }.items():
        with monkeypatch.context() as typed:
            typed.setenv(f"VERIFYD_{setting}", f"nativ={value},native={value},*={value}")
            told = f"VERIFYD_{setting} names nativ: there is no such register"
            assert cli.json("check")["warnings"] == [told]


def test_check_warns_of_complete_registers_that_decide_nothing(cli, monkeypatch):
    """A mistyped one, or one without policies: then it is not known who has none (D198)."""
    policy = "AB12CDE,P1,2025-01-01,2026-12-31"
    cli.run("import", cli.file("a.csv", "registration,make", "AB12CDE,FORD"))
    words = (
        "--register",
        "mid",
        cli.file("b.csv", "registration,number,validFrom,validTo", policy),
    )
    assert cli.run("import", *words).status == 0
    monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", "mid,native,midd")
    ended = cli.run("check")
    assert (ended.status, ended.stderr) == (0, "")
    assert cli.json("check")["complete_registers"] == ["mid", "native", "midd"]
    assert cli.json("check")["warnings"] == [
        "VERIFYD_COMPLETE_REGISTERS names native: that register holds no policies",
        "VERIFYD_COMPLETE_REGISTERS names midd: there is no such register",
    ]


def test_check_shows_the_rule_in_force(cli, monkeypatch):
    """Whether answers tell what is not known, and in which registers absence counts (D198)."""

    def told():
        lines = cli.run("check").stdout.splitlines()
        return next(each for each in lines if each.startswith("what is not known: "))

    assert told().endswith('false in answers; "verifyd migrate --unknown on" lets them tell it')
    cli.json("migrate", "--unknown", "on")
    assert cli.json("check")["unknown"] is True
    assert told().endswith("the absence of a policy counts nowhere")
    monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", "mid,midd")
    assert told().endswith("the absence of a policy counts nowhere")
    policy = cli.file(
        "p.csv", "registration,number,validFrom,validTo", "A1,P1,2025-01-01,2026-12-31"
    )
    assert cli.run("import", "--register", "mid", policy).status == 0
    assert told() == "what is not known: told; the absence of a policy counts in mid"


def test_a_warning_ends_with_one_sign(cli):
    """A reason that is a question keeps its question mark."""
    options, drop = (cli.directory / name for name in ("options", "drop"))
    (drop / "fleet").mkdir(parents=True)
    options.mkdir()
    (options / "fleet").write_text("--mode replac")
    path = drop / "fleet" / "a.csv"
    path.write_text("registration,make\n")
    os.utime(path, (0, 0))
    assert cli.run("import", "--drop", drop, "--options", options).status == 1
    assert cli.json("check")["warnings"][0].endswith("did you mean replace?")


def test_check_shows_warnings(cli):
    """Warnings are printed, and the exit status stays 0."""
    assert cli.run("import", cli.file("a.csv", "registration,make", "!,FORD")).status == 1
    ended = cli.run("check")
    assert (ended.status, ended.stderr) == (0, "")
    assert "warning: The last load of the register native failed, at " in ended.stdout
    assert len(cli.json("check")["warnings"]) == 1
    assert cli.run("import", cli.file("a.csv", "registration,make", "AB12CDE,FORD")).status == 0
    assert cli.json("check")["warnings"] == []


def test_check_looks_at_the_registers(cli):
    """A register whose file is missing would make every look-up fail with 503."""
    cli.json("import", cli.file("a.csv", "registration,make", "AB12CDE,FORD"))
    (file,) = cli.directory.glob("*.register_native.*.db")
    file.unlink()
    assert cli.refusal("check") == (
        "VERIFYD_DATABASE_URL: the register native cannot be read: restore it, or drop it and "
        "load it again\n"
    )


def test_check_looks_at_more_than_texts(bare_cli, monkeypatch):
    """A missing database and unusable state and socket directories are reported together."""
    (bare_cli.directory / "file").write_text("")
    monkeypatch.setenv("VERIFYD_STATE_DIR", str(bare_cli.directory / "file"))
    monkeypatch.setenv("VERIFYD_BIND", f"unix:{bare_cli.directory}/none/socket")
    faults = bare_cli.refusal("check").splitlines()
    assert [fault.partition(":")[0] for fault in faults] == [
        "VERIFYD_DATABASE_URL",
        "VERIFYD_STATE_DIR",
        "VERIFYD_BIND",
    ]


@pytest.mark.parametrize("in_the_way", ["file", "file/x", "data/notices", "data/rejects"])
def test_check_looks_at_the_data_directory(cli, monkeypatch, in_the_way):
    """It warns if alerts and rejects cannot be written: look-ups still work."""
    data_dir = cli.directory / ("data" if "data" in in_the_way else in_the_way)
    file = cli.directory / in_the_way.removesuffix("/x")
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    monkeypatch.setenv("VERIFYD_DATA_DIR", str(data_dir))
    warning = f"VERIFYD_DATA_DIR: {file} cannot be written to, so rejects and alerts are lost."
    assert cli.json("check")["warnings"] == [warning]


def test_check_warns_of_destinations_that_cannot_work(cli, monkeypatch):
    """It warns of a missing command, https without a secret, and mail without sendmail."""
    monkeypatch.setattr(sending, "_SENDMAIL_PATH", str(cli.directory))
    command = cli.file("alert", "#!/bin/sh")
    notify = f"exec:{command},exec:{cli.directory},exec:/none,https://h/token,mailto:ops"
    monkeypatch.setenv("VERIFYD_NOTIFY", notify)
    assert cli.json("check")["warnings"] == [
        *(
            f"VERIFYD_NOTIFY names exec:{path}, which is not a file that this user can execute."
            for path in (command, cli.directory, "/none")
        ),
        "VERIFYD_NOTIFY names an https URL, and there is no VERIFYD_NOTIFY_SECRET to sign with.",
        "VERIFYD_NOTIFY names mailto:ops, and there is no sendmail on this machine.",
    ]
    command.chmod(0o755)
    assert len(cli.json("check")["warnings"]) == 4


def test_a_test_message_tries_the_queue_out(cli, monkeypatch):
    """A test message fails if alerts could not be queued, although it is sent without the queue."""
    command = cli.file("alert", "#!/bin/sh", "cat >/dev/null")
    command.chmod(0o755)
    monkeypatch.setenv("VERIFYD_NOTIFY", f"exec:{command}")
    ended = cli.run("notify", "--test")
    told = "sent to 1 of 1 destination, by this command, because no unit of systemd delivers here"
    assert (ended.status, told in ended.stdout) == (0, True)
    assert list((cli.directory / "notices" / "queue").iterdir()) == []
    monkeypatch.setenv("VERIFYD_DATA_DIR", f"{command}/x")
    ended = cli.run("notify", "--test")
    assert (ended.status, " sent " in ended.stdout) == (1, True)
    assert ended.stderr == (
        f"VERIFYD_DATA_DIR: no alert can be queued in {command}/x: Not a directory\n"
    )


@pytest.mark.parametrize("words", ["notify --deliver", "watch"])
def test_jobs_of_timers_log_why_they_fail(cli, monkeypatch, caplog, words):
    """Nobody watches timers, so the reason of a failure is a line of the log."""
    monkeypatch.setenv("VERIFYD_NOTIFY", "nonsense")
    assert cli.run(*words.split()).status == 1
    assert "VERIFYD_NOTIFY: must be exec:/PATH" in caplog.text
    caplog.clear()
    assert cli.refusal("notify", "--test").startswith("VERIFYD_NOTIFY: must be exec:/PATH")
    assert caplog.text == ""


def test_a_wrong_setting_hides_no_other_fault(bare_cli, monkeypatch):
    """The database is checked even if another setting is wrong."""
    monkeypatch.setenv("VERIFYD_WORKERS", "many")
    faults = bare_cli.refusal("check").splitlines()
    assert [fault.partition(":")[0] for fault in faults] == [
        "VERIFYD_WORKERS",
        "VERIFYD_DATABASE_URL",
    ]


def test_another_programs_database_is_left_alone(bare_cli):
    """A mistyped URL adds no tables to another program's database (D27)."""
    with closing(sqlite3.connect(bare_cli.database)) as other:
        other.execute("CREATE TABLE theirs (a)")
    before = bare_cli.database.read_bytes()
    assert "another program" in bare_cli.refusal("migrate")
    assert bare_cli.database.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"this is no database\n" * 100])
def test_a_file_that_is_no_database_is_refused(bare_cli, content):
    """An empty file and another program's file stay unchanged."""
    bare_cli.database.write_bytes(content)
    for words in (("check",), ("accounts", "list")):
        assert "database" in bare_cli.refusal(*words)
    assert bare_cli.database.read_bytes() == content


def test_migrate_creates_a_database_once(bare_cli):
    """The first run applies all scripts, and the second none."""
    first, second = bare_cli.json("migrate"), bare_cli.json("migrate")
    applied = ["0001_tables", "0002_generations", "0003_attempts", "0004_snapshots"]
    applied += ["0005_jobs", "0006_account_status", "0007_actions", "0008_usage"]
    applied += ["0009_console", "0010_tasks", "0011_enquiry", "0012_audit_tasks"]
    applied += ["0013_register_identity", "0014_load_change", "0015_audit_host", "0016_suggest"]
    applied += ["0017_restricted_keys", "0018_sandbox", "0019_watches", "0020_person_days"]
    applied += ["0021_recorded_states", "0022_unknown"]
    told = {"schema": program_schema(), "unknown": first["unknown"]}
    assert first == {"applied": applied} | told
    assert second == {"applied": []} | told


def test_migrate_creates_no_directory(bare_cli, monkeypatch):
    """A mistyped path, or a disk that is not mounted, is named; the file is for the group only."""
    path = bare_cli.directory / "new" / "verifyd.db"
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{path}")
    for words in (("migrate",), ("demo",)):
        assert bare_cli.refusal(*words) == (
            f"the directory {path.parent} does not exist; "
            "create it, or correct VERIFYD_DATABASE_URL\n"
        )
    assert list(bare_cli.directory.iterdir()) == []
    path.parent.mkdir()
    assert bare_cli.run("migrate").status == 0
    assert path.stat().st_mode & 0o137 == 0


def test_migrate_leaves_data_alone(cli):
    """A second run changes no data."""
    cli.run("accounts", "create", "acme")
    assert cli.run("migrate").status == 0
    assert [account["name"] for account in cli.json("accounts", "list")] == ["acme"]


@pytest.mark.parametrize("words", [("migrate",), ("check",), ("accounts", "list")])
def test_a_newer_database_is_refused(cli, words):
    """A database that needs a newer program is refused; the message has its version (D29)."""
    set_versions(cli, schema=99, oldest=98)
    refusal = cli.refusal(*words)
    assert "schema 99 and needs a program of schema 98" in refusal
    assert "upgrade verifyd" in refusal


def test_a_newer_database_that_allows_this_program_is_used(cli):
    """After an upgrade that only added things, the older program still works (D29)."""
    set_versions(cli, schema=99, oldest=program_schema())
    assert cli.run("check").status == 0
    assert cli.json("migrate") == {"applied": [], "schema": 99, "unknown": False}


@NEED_ROOT
@each_row(
    "words", [w for w in COMMANDS if (len(w) == 1 or w[-1] == "list") and w[0] not in NO_OWNER]
)
def test_another_user_than_the_owner_is_refused(cli, words):
    """Files that another user makes next to the database would lock the service out (D27)."""
    os.chown(cli.database, 12_345, -1)
    before = cli.database.read_bytes()
    arguments = ["x"] if words[0] in ("import", "lookup", "domains", "backup", "restore") else []
    arguments += ["--deliver"] if words[0] == "notify" else []
    refusal = cli.refusal(*words, *arguments)
    assert "sudo -u '#12345' verifyd" in refusal
    assert cli.database.read_bytes() == before
    assert [path.name for path in cli.directory.iterdir()] == [cli.database.name]


def test_a_closed_pipe_is_no_error_message(cli, monkeypatch):
    """Output into a closed pipe ends quietly with 1."""
    read_end, write_end = os.pipe()
    with open(write_end, "w") as pipe:
        os.close(read_end)
        monkeypatch.setattr("sys.stdout", pipe)
        pipe.write("too late")
        ended = cli.run("accounts", "list")
    assert (ended.status, ended.stderr) == (1, "")


def test_an_older_schema_is_no_fault(cli, monkeypatch):
    """`check` accepts an older schema, because `serve` migrates it."""
    monkeypatch.setattr("app.storage.versions.program_schema", lambda: 9)
    assert cli.run("check").status == 0


def test_check_waits_for_a_service_in_vain(cli, monkeypatch):
    """After the timeout the message names the address that does not answer."""
    monkeypatch.setattr("app.cli.service.DEADLINE_SECONDS", 0)
    refusal = cli.refusal("check", "--ready", f"unix:{cli.directory}/socket")
    assert refusal.startswith(f"the service at unix:{cli.directory}/socket is not ready")
    assert "--ready" in cli.misuse("check", "--ready", "nowhere")


class TestReport:
    """`verifyd report`, which a timer runs with `--send`."""

    @pytest.fixture
    def destination(self, cli, monkeypatch):
        """A command that would get the report."""
        monkeypatch.setenv("VERIFYD_NOTIFY", "exec:/bin/true")
        return cli

    def test_it_is_shown_at_any_time(self, cli):
        """It needs no setting, and showing it sends nothing."""
        shown = cli.json("report")
        assert shown["subject"].endswith("morning report, all is well")
        # What others write meanwhile changes how much room there is.
        texts = (shown["text"], cli.run("report").stdout)
        first, second = (re.sub(r"[0-9.]+ [kMGT]?B in /", "", text) for text in texts)
        assert first == second
        assert not (cli.directory / "notices").exists()

    def test_it_is_sent_once_where_it_is_on(self, destination, monkeypatch):
        """Off is no failure, because the timer runs everywhere."""
        assert destination.run("report", "--send").stdout == "VERIFYD_MORNING_REPORT is off\n"
        monkeypatch.setenv("VERIFYD_MORNING_REPORT", "on")
        sent = destination.json("report", "--send")
        assert sent["reason"].startswith("queued: verifyd on ")
        assert len(list((destination.directory / "notices" / "queue").iterdir())) == 1
        again = destination.json("report", "--send")
        assert (again["message"], " sent it at " in again["reason"]) == (None, True)

    def test_a_report_without_a_destination_is_a_fault(self, cli, monkeypatch, caplog):
        """The check warns of it, and the timer's run fails."""
        monkeypatch.setenv("VERIFYD_MORNING_REPORT", "on")
        fault = "VERIFYD_MORNING_REPORT is on, and VERIFYD_NOTIFY names no destination"
        assert cli.json("check")["warnings"] == [f"{fault}."]
        assert cli.run("report", "--send").status == 1
        assert "VERIFYD_NOTIFY names no destination" in caplog.text

    def test_other_wrong_settings_are_in_it(self, destination, monkeypatch):
        """Only the settings that it needs must be right."""
        monkeypatch.setenv("VERIFYD_WORKERS", "none")
        monkeypatch.setenv("VERIFYD_MORNING_REPORT", "on")
        assert "- settings are wrong" in destination.json("report")["text"]
        assert destination.json("report", "--send")["message"]
        monkeypatch.setenv("VERIFYD_MORNING_REPORT", "perhaps")
        assert destination.run("report", "--send").status == 1
