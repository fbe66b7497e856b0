"""`verifyd restore`: what it restores, keeps and refuses (D48)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from app import clock
from app.accounts.authentication import Authenticator
from app.backup import manifest, sqlite
from app.serve import service_lock
from app.serve.limits.file import FILE_NAME
from app.storage.engine import closed_afterwards, open_engine
from app.storage.versions import main_scripts
from app.watches.feed import CursorGone, Feed, id_of
from tests.system.processes import environment

OPEN = """
import sys
from app.storage.engine import open_engine
engine = open_engine(sys.argv[1])
engine.execute_sql("SELECT * FROM account").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def database_kind() -> str:
    """SQLite: the system tests restore Postgres."""
    return "sqlite"


@pytest.fixture
def stocked(cli):
    """A database with the account acme, and a register of one car."""
    cli.run("accounts", "create", "acme")
    load(cli, "AB12CDE,FORD")
    return cli


@pytest.fixture
def backup(stocked) -> Path:
    """A backup without registers; the account later was made after it."""
    path = Path(stocked.json("backup", stocked.directory / "backups")["backup"])
    stocked.run("accounts", "create", "later")
    return path


def load(cli, *rows: str, register: str = "native", mode: str = "merge") -> None:
    """Load cars into a register."""
    file = cli.file("cars.csv", "registration,make", *rows)
    assert cli.run("import", file, "--register", register, "--mode", mode).status == 0


def accounts(cli) -> list[str]:
    """Return the names of all accounts."""
    return [account["name"] for account in cli.json("accounts", "list")]


def registers(cli) -> dict[str, int]:
    """Return the number of loads in each register's history."""
    loads = [each["register"] for each in cli.json("imports", "list")]
    return {name: loads.count(name) for name in loads}


def edited(backup: Path, **members: object) -> None:
    """Change members of a manifest."""
    path = backup / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | members))


def tree(directory: Path) -> dict[str, bytes]:
    """Return all files below a directory, except the state directory's."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "state" not in path.parts and path.suffix not in (".lock",)
    }


def test_a_restore_brings_the_backup_back(stocked, backup):
    """The restored database is sound, keeps its journal mode, and has no later account."""
    told = stocked.json("restore", backup)
    assert accounts(stocked) == ["acme"]
    assert stocked.run("check").status == 0
    assert stocked.database.read_bytes()[18:20] == b"\x02\x02"  # WAL
    assert stocked.database.stat().st_mode & 0o027 == 0
    assert told["restored"] == str(backup)


def test_a_sandbox_comes_back(stocked):
    """Its plan and its keys are as they were (D180)."""
    limits = ("--requests", 1, "--window", 1, "--bulk-max", 1, "--domains-max", 1)
    stocked.run("plans", "set", "trial", *limits, "--sandbox", "on")
    stocked.run("accounts", "create", "tester", "--plan", "trial")
    key = stocked.json("keys", "create", "tester")["key"]
    backup = stocked.json("backup", stocked.directory / "backups")["backup"]
    stocked.run("keys", "revoke", key)
    stocked.json("restore", backup)
    with closed_afterwards(open_engine(stocked.database_url)) as engine:
        caller = Authenticator(engine).find_caller(key)
    assert caller
    assert caller.is_sandbox


def test_watches_come_back_and_cursors_of_before_are_refused(stocked):
    """The numbers of events that were told after the backup are given again (D186)."""
    limits = ("--requests", 1, "--window", 1, "--bulk-max", 1, "--domains-max", 1)
    stocked.run("plans", "set", "standard", *limits, "--watches-max", 1)
    file = stocked.file("watches.csv", "registration", "ZZ9")
    stocked.json("watchlist", "import", file, "--account", "acme")
    backup = stocked.json("backup", stocked.directory / "backups")["backup"]
    load(stocked, "ZZ9,FORD")
    feed = last_event(stocked)
    stocked.json("restore", backup)
    load(stocked, "ZZ9,FIAT")
    assert last_event(stocked) != feed
    with closed_afterwards(open_engine(stocked.database_url)) as engine, pytest.raises(CursorGone):
        Feed(engine).list_events(1, feed, 1)


def last_event(cli) -> str:
    """Return the id of the newest event of acme, which has one."""
    with closed_afterwards(open_engine(cli.database_url)) as engine:
        page = Feed(engine).list_events(1, None, 10)
    (event,) = page.events
    return id_of(page.feed, event)


def test_a_restricted_key_is_restored_as_it_was(stocked):
    """It works again, and no more than before (D178)."""
    words = ("--only", "domains", "--network", "192.0.2.0/24")
    made = stocked.json("keys", "create", "acme", *words)
    backup = stocked.json("backup", stocked.directory / "backups")["backup"]
    stocked.run("accounts", "delete", "acme", "--yes")
    stocked.json("restore", backup)
    (restored,) = stocked.json("keys", "list")
    assert (restored["only"], restored["networks"]) == ("domains", ["192.0.2.0/24"])
    with closed_afterwards(open_engine(stocked.database_url)) as engine:
        caller = Authenticator(engine).find_caller(made["key"])
    assert caller
    assert caller.restrictions == ("domains", ["192.0.2.0/24"])


def test_the_former_database_is_kept(stocked, backup, monkeypatch):
    """A directory next to the database keeps the former one, ready to use."""
    replaced = Path(stocked.json("restore", backup)["replaced"])
    assert replaced.parent == stocked.directory
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{replaced / stocked.database.name}")
    assert accounts(stocked) == ["acme", "later"]


def test_a_restore_can_be_repeated(stocked, backup):
    """A second restore gives the same result."""
    first, second = (stocked.json("restore", backup) for _ in range(2))
    assert accounts(stocked) == ["acme"]
    assert first["taken_at"] == second["taken_at"]
    assert first["registers"] == second["registers"] == ["native"]


def test_a_second_restore_overwrites_nothing_that_the_first_has_kept(stocked, backup, monkeypatch):
    """Both former databases are kept, also if both restores are in one second."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    first, second = (Path(stocked.json("restore", backup)["replaced"]) for _ in range(2))
    for replaced, held in ((first, ["acme", "later"]), (second, ["acme"])):
        monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{replaced / stocked.database.name}")
        assert accounts(stocked) == held


def test_restored_registers_refuse_the_data_from_before(stocked):
    """Loads after a restore get the numbers of loads before it, so stamps differ (D153)."""
    backup = stocked.json("backup", stocked.directory / "backups", "--registers")["backup"]
    load(stocked, "AB12CDE,SKODA")
    former = Path(stocked.json("restore", backup)["replaced"])
    assert stocked.run("check", "--deep").status == 0
    load(stocked, "AB12CDE,AUDI")
    (restored,) = stocked.directory.glob("*.register_native.1.db")
    shutil.copyfile(former / restored.name, restored)
    assert "that of another load with number 1" in stocked.refusal("check")


def test_registers_stay_with_their_history(stocked, backup):
    """A restore without registers keeps the current ones with their history."""
    load(stocked, "AB12CDE,SKODA")
    load(stocked, "XY99ZZZ,AUDI", register="other")
    assert stocked.json("restore", backup)["registers"] == ["native", "other"]
    assert registers(stocked) == {"native": 2, "other": 1}
    assert stocked.run("imports", "drop", "other", "--yes").status == 0


@pytest.mark.parametrize("undo", [("rollback",), ("undrop", "native")], ids=" ".join)
def test_a_restore_without_registers_keeps_rollback_and_undrop(stocked, backup, undo):
    """Backups without registers do not affect what can be rolled back or undropped."""
    load(stocked, "AB12CDE,SKODA", mode="replace")
    if "undrop" in undo:
        assert stocked.run("imports", "drop", "native", "--yes").status == 0
    stocked.run("restore", backup)
    assert stocked.run("imports", *undo).status == 0
    assert stocked.run("check").status == 0
    assert stocked.run("imports", "rollback").status == ("rollback" in undo)


def test_a_backup_has_no_snapshots_or_dropped_registers(stocked):
    """A restore with registers leaves nothing to roll back or undrop."""
    load(stocked, "AB12CDE,SKODA", mode="replace")
    load(stocked, "XY99ZZZ,AUDI", register="other")
    assert stocked.run("imports", "drop", "other", "--yes").status == 0
    backup = Path(stocked.json("backup", stocked.directory, "--registers")["backup"])
    assert sorted(path.name for path in backup.iterdir() if "register" in path.name) == [
        "register_native.2.db"
    ]
    assert stocked.json("restore", backup)["registers"] == ["native"]
    assert "no register can be rolled back" in stocked.refusal("imports", "rollback")
    assert "Dropped registers: none" in stocked.refusal("imports", "undrop", "other")


def test_registers_come_from_the_backup_if_they_are_in_it(stocked):
    """A register that was loaded after the backup is set aside with the former files."""
    backup = Path(stocked.json("backup", stocked.directory, "--registers")["backup"])
    load(stocked, "AB12CDE,SKODA", "XY99ZZZ,AUDI")
    load(stocked, "XY99ZZZ,AUDI", register="other")
    told = stocked.json("restore", backup)
    assert told["registers"] == ["native"]
    assert registers(stocked) == {"native": 1}
    aside = {path.name for path in Path(told["replaced"]).iterdir()}
    assert {name for name in aside if not name.endswith("-shm")} == {
        "verifyd.db",
        "verifyd.register_native.1.db",
        "verifyd.register_other.3.db",
    }


@pytest.fixture
def partial(stocked) -> Path:
    """A backup with the merged register native; the register fleet was replaced."""
    file = stocked.file("fleet.csv", "registration,make", "AB12CDE,FORD")
    stocked.run("import", file, "--register", "fleet", "--mode", "replace")
    words = ("backup", stocked.directory / "backups", "--merged-registers")
    return Path(stocked.json(*words)["backup"])


def test_merged_registers_come_back_and_others_stay(stocked, partial):
    """Each register has its own history; one that was made later stays, too."""
    load(stocked, "AB12CDE,SKODA", "XY99ZZZ,AUDI")
    load(stocked, "AB12CDE,SKODA", register="fleet")
    load(stocked, "XY99ZZZ,AUDI", register="other")
    assert stocked.json("restore", partial)["registers"] == ["fleet", "native", "other"]
    assert registers(stocked) == {"native": 1, "fleet": 2, "other": 1}
    assert stocked.run("check").status == 0
    load(stocked, "AB12CDE,FORD", "ZZ99ZZZ,FORD")
    last = stocked.json("imports", "list")[0]
    assert (last["register"], last["changed"]) == ("native", 1)


def test_a_new_host_has_the_merged_registers(stocked, partial, monkeypatch):
    """On a new host, registers that the backup lacks have no entry and must be loaded again."""
    path = stocked.directory / "elsewhere" / "verifyd.db"
    path.parent.mkdir()
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{path}")
    assert stocked.json("restore", partial)["registers"] == ["native"]
    assert registers(stocked) == {"native": 1}
    assert stocked.run("check").status == 0


def test_a_new_host_has_no_registers(stocked, backup, monkeypatch):
    """A restore without registers on a new host makes a database without registers."""
    path = stocked.directory / "elsewhere" / "verifyd.db"
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{path}")
    assert stocked.refusal("restore", backup) == (
        f"the directory {path.parent} does not exist; create it, or correct VERIFYD_DATABASE_URL\n"
    )
    assert not path.parent.exists()
    path.parent.mkdir()
    told = stocked.json("restore", backup)
    assert (told["registers"], told["replaced"]) == ([], None)
    assert accounts(stocked) == ["acme"]
    load(stocked, "AB12CDE,FORD")
    assert registers(stocked) == {"native": 1}


def test_a_damaged_database_can_be_replaced(stocked, backup):
    """A damaged database is kept, and the backup takes its place."""
    stocked.database.write_bytes(b"no database at all" * 1_000)
    told = stocked.json("restore", backup)
    assert accounts(stocked) == ["acme"]
    assert told["registers"] == []
    kept = Path(told["replaced"]) / "verifyd.db"
    assert kept.read_bytes().startswith(b"no database")


def test_buckets_are_not_inherited(stocked, backup):
    """A restored account must not get the bucket of today's account (D11)."""
    limits = stocked.directory / "state" / FILE_NAME
    limits.parent.mkdir(exist_ok=True)
    limits.write_text("")
    stocked.run("restore", backup)
    assert not limits.exists()


def test_a_running_service_is_left_alone(stocked, backup):
    """The restore is refused while a service holds the lock of the state directory."""
    service_lock.announce(stocked.directory / "state")
    before = tree(stocked.directory)
    assert "the service is running" in stocked.refusal("restore", backup)
    assert tree(stocked.directory) == before


def test_a_service_does_not_start_meanwhile(tmp_path):
    """A service that starts during a restore is refused."""
    with (
        service_lock.stopped(tmp_path),
        pytest.raises(Exception, match="being restored"),
    ):
        service_lock.announce(tmp_path)


def test_a_database_in_use_is_left_alone(stocked, backup, monkeypatch):
    """A database that any process has open is not replaced, whatever its state directory."""
    monkeypatch.setattr("app.backup.restore.BUSY_TIMEOUT_SECONDS", 0.1)
    # NOTE: use another process, because SQLite's locks do not exclude their own process.
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, f"sqlite:///{stocked.database}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"open\n"
        assert "is in use" in stocked.refusal("restore", backup)
    assert accounts(stocked) == ["acme", "later"]


@pytest.mark.parametrize("fault", ["shorter", "longer", "changed", "missing"])
def test_a_damaged_backup_is_refused(stocked, backup, fault):
    """Lengths and checksums are compared before anything is changed."""
    file = backup / "main.db"
    content = file.read_bytes()
    file.unlink()
    if fault != "missing":
        changes = {
            "shorter": content[:-1],
            "longer": content + b"x",
            "changed": content[:-1] + b"x",
        }
        file.write_bytes(changes[fault])
    before = tree(stocked.directory)
    assert str(file) in stocked.refusal("restore", backup)
    assert tree(stocked.directory) == before


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"\xff", b"{}", b'{"files": ' + b"[" * 100_000],
    ids=["empty", "cut", "array", "bytes", "bare", "deep"],
)
def test_a_manifest_that_cannot_be_read_is_refused(stocked, backup, text):
    """The message names a manifest that cannot be read."""
    (backup / "manifest.json").write_bytes(text)
    assert str(backup / "manifest.json") in stocked.refusal("restore", backup)


@pytest.mark.parametrize("name", ["../verifyd.db", "/etc/passwd", "main.db/x", "other.db", "main"])
def test_a_manifest_leads_nowhere_else(stocked, backup, name):
    """Names that lead outside of the backup are refused before a file is opened."""
    files = json.loads((backup / "manifest.json").read_bytes())["files"]
    edited(backup, files=files | {name: files["main.db"]})
    assert "cannot be part of a backup" in stocked.refusal("restore", backup)


def test_a_manifest_without_a_main_file_is_refused(stocked, backup):
    """A backup without the main database is refused."""
    edited(backup, files={})
    assert "no main database" in stocked.refusal("restore", backup)


def test_a_newer_schema_is_refused(stocked, backup):
    """A backup that needs a newer program is refused (D29)."""
    edited(backup, schema=99, oldest_program=98)
    assert "upgrade verifyd" in stocked.refusal("restore", backup)
    assert accounts(stocked) == ["acme", "later"]


def test_a_backup_of_the_other_engine_is_refused(stocked, backup):
    """A Postgres dump cannot become SQLite files."""
    files = json.loads((backup / "manifest.json").read_bytes())["files"]
    shutil.copy(backup / "main.db", backup / "main.dump")
    edited(backup, engine="postgres", files={"main.dump": files["main.db"]})
    assert "is a backup of postgres" in stocked.refusal("restore", backup)


@pytest.mark.parametrize(
    ("place", "fault"),
    {".": "is not a backup", "nowhere": "does not exist; correct the path"}.items(),
)
def test_another_directory_is_refused(stocked, place, fault):
    """A directory without a manifest, or a missing directory, is refused."""
    assert fault in stocked.refusal("restore", stocked.directory / place)


def test_a_directory_in_place_of_the_database_is_refused(stocked, backup, monkeypatch):
    """The message names what is wrong, although SQLite cannot open a directory."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{stocked.directory}")
    refusal = stocked.refusal("restore", backup)
    assert refusal == "the database cannot be used: unable to open database file\n"


@pytest.mark.parametrize("schema", [14, 15])
def test_an_older_backup_does_not_forget_that_the_trail_is_on(stocked, backup, monkeypatch, schema):
    """Look-ups stay refused without the trail (D166), also after a migration."""
    if schema == 14:
        of_schema(14, "0014_load_change", backup)
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    stocked.run("lookup", "AB12CDE")
    hosts = stocked.json("audit", "hosts")
    monkeypatch.setenv("VERIFYD_AUDIT", "off")
    assert stocked.run("restore", backup).status == 0
    stocked.run("migrate")
    assert "must be recorded" in stocked.refusal("lookup", "AB12CDE")
    assert stocked.json("audit", "hosts") == hosts


@pytest.mark.parametrize("rule", ["on", "off"])
def test_the_rule_for_what_is_not_known_comes_back(stocked, rule):
    """Whatever the database in its place had meanwhile (D198)."""
    stocked.json("migrate", "--unknown", rule)
    backup = stocked.json("backup", stocked.directory / "backups")["backup"]
    stocked.json("migrate", "--unknown", {"on": "off", "off": "on"}[rule])
    stocked.json("restore", backup)
    assert stocked.json("check")["unknown"] == (rule == "on")


def test_a_backup_of_the_former_release_keeps_its_rule(stocked, backup):
    """Its answers do not tell what is not known, also after a migration (D198)."""
    of_schema(21, "0021_recorded_states", backup)
    stocked.json("migrate", "--unknown", "on")
    assert stocked.run("restore", backup).status == 0
    assert stocked.json("migrate")["unknown"] is False


def of_schema(schema: int, script: str, backup: Path) -> None:
    """Make a backup one of an earlier schema, whose last script is named."""
    former, file = backup.parent / "former.db", backup / "main.db"
    engine = open_engine(f"sqlite:///{former}", create=True)
    with closed_afterwards(engine), engine.migration():
        main_scripts(engine).up(script)
    file.unlink()
    described = manifest.described(file, sqlite.copy(former, file))
    edited(backup, schema=schema, files={"main.db": msgspec.to_builtins(described)})
