"""The record of operators' actions: who changed what, before and after (D130)."""

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app import actions as actor
from app import clock
from app.accounts.administration import create_account, create_key, set_account_plan, set_plan
from app.accounts.models import Account, Plan
from app.actions import ACTIONS, Action, Actor, Recorded, list_actions
from app.domains.repository import Domains
from app.people.sessions import create_link, open_session
from app.serve.limits import file
from app.serve.limits.bucket import rate
from app.serve.limits.store import LimitStore
from app.settings.roles import Role
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.versions import database_id
from app.watches.tables import WatchFeed
from tests.conftest import ON_POSTGRES, ON_SQLITE
from tests.rows import each_row
from tests.system.processes import until
from tests.unit.conftest import CommandLine
from tests.unit.test_help import LEAVES

NOW = 1_900_000_000
TIME = clock.iso_utc(NOW)
TOMORROW = clock.iso_utc(NOW + 86_400)
OLD = "2020-01-01T00:00:00Z"
LIMITS = {"requests": 1, "window_seconds": 60, "bulk_max": 2, "domains_max": 3}
TINY = {**LIMITS, "watches_max": 0, "enquiry": "off", "enquiry_reasons": []}
TINY |= {"suggest": "off", "sandbox": "off"}
KEY_MEMBERS = {"expires_at": None, "revoked_at": None, "replaced_by": None}
BILLING: dict[str, object] = {"label": "billing", "only": None, "networks": [], **KEY_MEMBERS}
RESTRICTED = {"label": "", "only": "vehicles", "networks": ["10.0.0.0/8", "::/0"], **KEY_MEMBERS}
LOADED = {"kind": "vehicles", "mode": "merge"}
ROWS = {"vehicles": 1, "policies": 0, "fines": 0}
HAS = {"keys": 1, "watches": 0, "events": 0}
KEY = "the key of acme"
ANY: Any = type("Any", (), {"__eq__": lambda *_: True, "__repr__": lambda _: "ANY"})()
TABLES = (
    *("installation", "plan", "account", "api_key", "domain"),
    *("register", "register_kept", "register_dropped", "register_load"),
    *("console_link", "console_session", "watch", "watch_feed"),
)


class Change(NamedTuple):
    """An action, without who and when."""

    action: str
    subject_kind: str
    subject: str
    account: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


CHANGES = {
    "accounts create new --plan free": [
        Change(
            *("accounts.create", "account", "new", "new", None),
            {"plan": "free", "status": "active", "suspended_at": None},
        )
    ],
    "accounts set-plan acme free": [
        Change(
            *("accounts.set-plan", "account", "acme", "acme"),
            *({"plan": "standard"}, {"plan": "free"}),
        )
    ],
    "accounts suspend acme": [
        Change(
            *("accounts.suspend", "account", "acme", "acme"),
            {"status": "active", "suspended_at": None},
            {"status": "suspended", "suspended_at": TIME},
        )
    ],
    "accounts resume locked": [
        Change(
            *("accounts.resume", "account", "locked", "locked"),
            {"status": "suspended", "suspended_at": OLD},
            {"status": "active", "suspended_at": None},
        )
    ],
    "accounts delete locked --yes": [
        Change(
            *("accounts.delete", "account", "locked", "locked"),
            {"plan": "standard", "status": "suspended", "suspended_at": OLD, **HAS},
            None,
        )
    ],
    "plans set new --requests 1 --window 60 --bulk-max 2 --domains-max 3": [
        Change("plans.set", "plan", "new", None, None, TINY)
    ],
    "plans set tiny --requests 1 --window 60 --bulk-max 2 --domains-max 4": [
        Change("plans.set", "plan", "tiny", None, {"domains_max": 3}, {"domains_max": 4})
    ],
    "plans set tiny --requests 1 --window 60 --bulk-max 2 --domains-max 3 --enquiry required "
    "--enquiry-reasons A,B": [
        Change(
            *("plans.set", "plan", "tiny", None),
            {"enquiry": "off", "enquiry_reasons": []},
            {"enquiry": "required", "enquiry_reasons": ["A", "B"]},
        )
    ],
    "plans set tiny --requests 1 --window 60 --bulk-max 2 --domains-max 3 --suggest on": [
        Change("plans.set", "plan", "tiny", None, {"suggest": "off"}, {"suggest": "on"})
    ],
    "plans delete tiny": [Change("plans.delete", "plan", "tiny", None, TINY, None)],
    "keys create acme --label billing": [Change("keys.create", "key", ANY, "acme", None, BILLING)],
    "keys create acme --only vehicles --network 10.0.0.0/8 --network ::/0": [
        Change("keys.create", "key", ANY, "acme", None, RESTRICTED)
    ],
    "keys revoke {key}": [
        Change(
            *("keys.revoke", "key", KEY, "acme"),
            *({"revoked_at": None}, {"revoked_at": TIME}),
        )
    ],
    "keys rotate {key}": [
        Change(
            *("keys.rotate", "key", KEY, "acme"),
            {"expires_at": None, "replaced_by": None},
            {"expires_at": TOMORROW, "replaced_by": ANY},
        )
    ],
    "limits reset acme": [
        Change(*("limits.reset", "account", "acme", "acme"), {"remaining": 590}, {"remaining": 600})
    ],
    "domains suspend acme example.com": [
        Change(
            *("domains.suspend", "domain", "example.com", "acme"),
            *({"status": "active"}, {"status": "suspended"}),
        )
    ],
    "domains activate acme bad.example": [
        Change(
            *("domains.activate", "domain", "bad.example", "acme"),
            *({"status": "suspended"}, {"status": "active"}),
        )
    ],
    "import {directory}/three.csv": [
        Change(
            *("imports.load", "register", "native", None, {"held": 2}),
            {**LOADED, "held": 3, "load": 5, "changed": 3},
        )
    ],
    "import {directory}/one.csv --mode replace --allow-shrink": [
        Change(
            *("imports.load", "register", "native", None, {"held": 2}),
            {
                "kind": "vehicles",
                "held": 1,
                "load": 5,
                "mode": "replace",
                "changed": 2,
                "accepted": ["shrink"],
            },
        )
    ],
    "import {directory}/one.csv --register new": [
        Change(
            *("imports.load", "register", "new", None, None),
            {**LOADED, "held": 1, "load": 5, "changed": 1},
        )
    ],
    "import --drop {directory}/drop": [
        Change(
            *("imports.load", "register", "native", None, {"held": 2}),
            {**LOADED, "held": 3, "load": 5, "changed": 3},
        )
    ],
    "watchlist import {directory}/watches.csv --account acme": [
        Change(
            "watches.import",
            "account",
            "acme",
            "acme",
            None,
            {"listed": 1, "created": 1, "replaced": 0},
        )
    ],
    "sweep --accept acme": [
        Change("watches.accept", "account", "acme", "acme", {"held": 30}, {"held": 0})
    ],
    "imports rollback --register native": [
        Change(
            *("imports.rollback", "register", "native", None, {"vehicles": 2}),
            {"vehicles": 1, "load": 1},
        )
    ],
    "imports drop native --yes": [
        Change("imports.drop", "register", "native", None, {**ROWS, "vehicles": 2}, None)
    ],
    "imports drop native --purge --yes": [
        Change("imports.drop", "register", "native", None, {**ROWS, "vehicles": 2}, None),
        Change("imports.purge", "register", "native", None, {**ROWS, "vehicles": 2}, None),
    ],
    "imports drop gone --purge --yes": [
        Change("imports.purge", "register", "gone", None, ROWS, None)
    ],
    "console link --as ann --role viewer": [
        Change("console.link", "person", "ann", None, None, {"role": "viewer"})
    ],
    "console end eve": [
        Change(
            *("console.end", "person", "eve", None),
            *({"sessions": 1, "links": 1}, {"sessions": 0, "links": 0}),
        )
    ],
    "console end": [
        Change(
            *("console.end", "person", "everybody", None),
            *({"sessions": 1, "links": 1}, {"sessions": 0, "links": 0}),
        )
    ],
    "migrate --unknown on": [
        Change("answers.unknown", "database", ANY, None, {"unknown": "off"}, {"unknown": "on"})
    ],
    "imports undrop gone": [Change("imports.undrop", "register", "gone", None, None, ROWS)],
}
"""Each command that changes something, and exactly what it records."""
NO_CHANGES = (
    *("check", "migrate", "migrate --status", "completion bash", "version", "watch", "report"),
    *("import {directory}/three.csv --dry-run", "import --suggest-map {directory}/three.csv"),
    *("imports list", "imports show 1", "imports diff 2", "lookup AB10CDE"),
    *("accounts list", "accounts show acme", "plans list", "keys list", "domains list acme"),
    *("limits show acme", "notify --deliver", "actions list", "usage"),
    *("clock", "clock --accept", "sweep"),
)
"""Commands that change neither the installation nor the record."""
REPEATED = (
    *("accounts set-plan acme standard", "accounts suspend locked", "accounts resume acme"),
    "plans set tiny --requests 1 --window 60 --bulk-max 2 --domains-max 3",
    *("domains suspend acme bad.example", "domains activate acme example.com"),
    "migrate --unknown off",
)
"""Commands that find what they would do already done."""
REFUSED = (
    *("accounts create acme", "accounts set-plan acme none", "accounts delete acme --yes"),
    *("plans delete standard", "keys create none", "keys revoke 00000000"),
    *("domains suspend acme other.example", "limits reset none", "imports undrop native"),
    *("imports rollback --register none", "imports drop none --yes"),
    "import {directory}/empty.csv --mode replace",
)
"""Commands that fail."""
TRIED_ELSEWHERE = {"serve", "backup", "copy", "audit", "restore", "demo"}
"""`serve`, `backup`, `copy` and `audit` change no row that operators manage: the audit trail has a
record of its own. The others are tested below."""


class Installation:
    """An installation with something for each command to change."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli
        self.engine = open_engine(cli.database_url)
        self.key = ""
        self.acme = 0

    def words(self, line: str) -> list[str]:
        """Return the words of a command line, with the places filled in."""
        return line.format(key=self.key, directory=self.cli.directory).split()

    def run(self, line: str) -> int:
        """Run a command and return its exit status."""
        close_quietly(self.engine)  # The command may fork, which an open SQLite file forbids.
        return self.cli.run(*self.words(line)).status

    def recorded(self) -> list[Recorded]:
        """Return the record, the oldest first."""
        return list_actions(self.engine)[::-1]

    def content(self) -> list[list[tuple[Any, ...]]]:
        """Return all rows that operators can change."""
        return [
            sorted(self.engine.execute_sql(f'SELECT * FROM "{table}"').fetchall(), key=repr)
            for table in TABLES
        ]


@pytest.fixture
def installation(cli, monkeypatch) -> Iterator[Installation]:
    """The installation without registers, with an empty record, at a time that stands still."""
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(actor, "login", lambda: "ann")
    monkeypatch.setenv("SUDO_USER", "bea")
    made = Installation(cli)
    set_plan(made.engine, "tiny", LIMITS)
    # Nothing is refilled during a test.
    set_plan(made.engine, "standard", {**LIMITS, "requests": 600, "window_seconds": 2_592_000})
    made.acme = create_account(made.engine, "acme").id
    create_account(made.engine, "locked")
    create_key(made.engine, "locked")
    made.key = create_key(made.engine, "acme", "billing")[0].id
    Account.update(suspended_at=1_577_836_800).where(Account.name == "locked").execute(made.engine)
    for name in ("example.com", "bad.example"):
        Domains(made.engine).create_domain(made.acme, name, 10)
    Domains(made.engine).set_status(made.acme, "bad.example", "suspended")
    Action.delete().execute(made.engine)
    yield made
    close_quietly(made.engine)


@pytest.fixture
def signed_in(installation, monkeypatch) -> None:
    """Somebody who is signed in to the console, and has another link."""
    monkeypatch.setenv("VERIFYD_CONSOLE", "on")
    for _ in range(2):
        token = create_link(installation.engine, "eve", Role.VIEWER)
    open_session(installation.engine, token)
    Action.delete().execute(installation.engine)


@pytest.fixture
def loaded(installation) -> Installation:
    """The same with a register that was replaced, a dropped one, and files."""
    cli = installation.cli
    (cli.directory / "drop").mkdir()
    rows = [f"AB1{n}CDE,FORD" for n in range(3)]
    sizes = {"empty.csv": 0, "one.csv": 1, "two.csv": 2, "three.csv": 3, "drop/a.csv": 3}
    for path, number in sizes.items():
        cli.file(path, "registration,make", *(f"{row}{number}" for row in rows[:number]))
    os.utime(cli.directory / "drop" / "a.csv", (NOW - 86_400, NOW - 86_400))
    assert installation.run("import {directory}/one.csv --mode replace") == 0
    assert installation.run("import {directory}/two.csv --mode replace") == 0
    assert installation.run("import {directory}/one.csv --register gone") == 0
    assert installation.run("imports drop gone --yes") == 0
    Action.delete().execute(installation.engine)
    return installation


@pytest.fixture
def watching(installation) -> None:
    """A plan that allows a watch, a list of one, and changes that are held back."""
    installation.cli.file("watches.csv", "registration", "AB10CDE")
    Plan.update(watches_max=1).execute(installation.engine)
    feed = {"account": installation.acme, "feed": "0123abcd", "swept": "", "held": 30}
    WatchFeed.insert(**feed, held_at=NOW).execute(installation.engine)


@pytest.fixture
def spent(installation) -> None:
    """The bucket of acme, with ten tokens less."""
    path = installation.cli.directory / "state" / file.FILE_NAME
    path.parent.mkdir()
    identity = file.Identity.now(database_id(installation.engine))
    file.create(path, identity)
    with closing(LimitStore(path, lambda: identity)) as store:
        for _ in range(10):
            store.take(installation.acme - 1, rate(600, 2_592_000))


def changes(actions: list[Recorded]) -> list[Change]:
    """Return actions without who and when."""
    return [Change(*each[5:]) for each in actions]


@pytest.mark.parametrize("line", CHANGES)
def test_a_command_records_what_it_changes(installation, request, line):
    """Exactly these actions are recorded, with what the transaction saw and left."""
    fixtures = {"import": "loaded", "limits": "spent", "console": "signed_in"}
    fixtures |= {"watchlist": "watching", "sweep": "watching"}
    for word, fixture in fixtures.items():
        if line.startswith(word):
            request.getfixturevalue(fixture)
    before = installation.content()
    assert installation.run(line) == 0
    recorded = installation.recorded()
    expected = [
        each._replace(subject=installation.key) if each.subject is KEY else each
        for each in CHANGES[line]
    ]
    assert changes(recorded) == expected
    who = {(each.at, each.actor, each.sudo_user, each.via) for each in recorded}
    assert who == {(NOW, "ann", "bea", "command")}
    assert installation.content() != before or line.startswith("limits reset")


@pytest.mark.usefixtures("spent")
def test_nothing_is_recorded_without_a_change(loaded):
    """A command that changes nothing leaves the record as it is."""
    before = loaded.content()
    for line in (*NO_CHANGES, *REPEATED):
        assert (loaded.run(line), line) == (0, line)
        assert (loaded.recorded(), line) == ([], line)
        assert (loaded.content() == before, line) == (True, line)


def test_a_command_that_fails_records_nothing(loaded):
    """No record exists of a change that was not made."""
    for line in REFUSED:
        assert (loaded.run(line), line) == (1, line)
        assert (loaded.recorded(), line) == ([], line)


def test_every_command_is_tried():
    """A new command must be tried: whether it changes something, and what it records."""
    tried = {tuple(line.split()) for line in (*CHANGES, *NO_CHANGES)}
    commands = {words for words in LEAVES if words[0] not in TRIED_ELSEWHERE}
    commands.remove(("imports", "carry-out"))  # It acts for the console: tests/unit/test_tasks.py.
    commands -= {
        ("imports", "accept"),
        ("imports", "reject"),
    }  # Of holds: tests/unit/test_holds.py.
    missing = {
        words for words in commands if not any(line[: len(words)] == words for line in tried)
    }
    assert missing == set()


ELSEWHERE = ("clock.accept", *(each for each in ACTIONS if each.startswith("audit.")))
"""These are in the tests of the clock and of the trail."""


def test_every_action_is_tried():
    """Each is recorded by a command above, or in a test of its own."""
    tried = {each.action for expected in CHANGES.values() for each in expected}
    tried |= {*ELSEWHERE, "backups.restore", "console.sign-in", "imports.accept", "imports.reject"}
    assert tried == set(ACTIONS)


def test_a_scheduled_load_is_not_an_operators_action(loaded):
    """Loads of a timer are in the history only."""
    assert loaded.run("import --drop {directory}/drop --scheduled") == 0
    assert loaded.recorded() == []
    assert loaded.cli.json("imports", "list")[0]["status"] == "done"


@pytest.mark.usefixtures("loaded")
def test_a_killed_merge_is_the_action_of_who_began_it(installation, monkeypatch):
    """It is recorded by the next load, whoever runs that: the rows are in the register."""
    with monkeypatch.context() as killed:
        killed.setattr("app.registers.load.record", _interrupted)
        assert installation.run("import {directory}/three.csv") == 130
    assert installation.recorded() == []
    monkeypatch.setattr(actor, "login", lambda: "carl")
    assert installation.run("import {directory}/one.csv") == 0
    recorded = [(each.actor, each.before, each.after) for each in installation.recorded()]
    assert recorded == [
        ("ann", {"held": 2}, {**LOADED, "held": 3, "load": 5, "changed": 3}),
        ("carl", {}, {**LOADED, "load": 6, "changed": 1}),
    ]


def _interrupted(_work: object) -> None:
    raise KeyboardInterrupt


@ON_SQLITE
def test_a_restore_brings_the_earlier_record_back(installation):
    """What was done since the backup is gone, but not that somebody restored."""
    assert installation.run("accounts create kept") == 0
    backup = installation.cli.json("backup", installation.cli.directory / "backups")["backup"]
    assert installation.run("accounts create lost") == 0
    assert installation.run(f"restore {backup}") == 0
    kept, restored = installation.recorded()
    assert (kept.action, kept.subject) == ("accounts.create", "kept")
    assert restored[5:] == (
        *("backups.restore", "backup", Path(backup).name, None, None),
        {"taken_at": ANY, "registers": []},
    )
    assert (restored.actor, restored.sudo_user) == ("ann", "bea")


@ON_SQLITE
def test_a_backup_without_the_record_can_be_restored(installation):
    """It was taken by a program that had none; so nothing is recorded."""
    installation.engine.execute_sql("DROP TABLE action")
    backup = installation.cli.json("backup", installation.cli.directory / "backups")["backup"]
    assert installation.run(f"restore {backup}") == 0
    assert not installation.engine.table_exists("action")


def test_the_demo_is_recorded(bare_cli):
    """What `demo` creates and loads is the action of whoever ran it."""
    assert bare_cli.run("demo").status == 0
    groups = {item["action"] for item in bare_cli.json("actions", "list")}
    assert groups == {"accounts.create", "accounts.set-plan", "plans.set"} | {
        "keys.create",
        "imports.load",
    }


def test_no_key_gets_into_the_record(installation):
    """Not even one that somebody takes for a name or a label."""
    key = installation.cli.json("keys", "create", "acme")["key"]
    assert installation.cli.run("accounts", "create", key).status == 0
    assert installation.cli.run("keys", "create", key, "--label", key).status == 0
    assert installation.cli.run("keys", "revoke", key).status == 0
    assert installation.cli.run("keys", "rotate", installation.key).status == 0
    stored = repr(installation.engine.execute_sql('SELECT * FROM "action"').fetchall())
    hashes = [row[0] for row in installation.engine.execute_sql("SELECT secret_hash FROM api_key")]
    printed = installation.cli.run("actions", "list", "--json").stdout
    for text in (stored, printed):
        assert text.count("vfd_...") >= 3
        assert key[14:] not in text
        assert not [each for each in hashes if each in text]


class TestList:
    @pytest.fixture
    def listed(self, installation):
        """`listed("--by", "ann")` returns the actions on a record of four."""
        engine, console = installation.engine, Actor("carl", "console")
        create_account(engine, "new")
        set_account_plan(engine, "acme", "free", actor=console)
        installation.run("keys revoke {key}")
        set_plan(engine, "new", LIMITS, actor=console)
        for day, each in enumerate(installation.recorded()):
            at = NOW - NOW % 86_400 + day * 86_400
            Action.update(at=at).where(Action.id == each.id).execute(engine)

        def listed(*words: str) -> list[str]:
            items = installation.cli.json("actions", "list", *words)
            return [item["action"] for item in items]

        return listed

    @each_row(
        ("words", "expected"),
        [
            ("", "plans.set keys.revoke accounts.set-plan accounts.create"),
            ("--by ann", "keys.revoke accounts.create"),
            ("--by bea", "keys.revoke accounts.create"),
            ("--by carl", "plans.set accounts.set-plan"),
            ("--by nobody", ""),
            ("--action accounts", "accounts.set-plan accounts.create"),
            ("--action keys.revoke", "keys.revoke"),
            ("--account acme", "keys.revoke accounts.set-plan"),
            ("--subject new", "plans.set accounts.create"),
            ("--from 2030-03-18", "plans.set keys.revoke accounts.set-plan"),
            ("--to 2030-03-18", "accounts.set-plan accounts.create"),
            ("--from 2030-03-18 --to 2030-03-18", "accounts.set-plan"),
            ("--from 0001-01-01 --to 9999-12-31 --limit 1", "plans.set"),
        ],
    )
    def test_it_lists_what_is_asked_for(self, listed, words, expected):
        """Criteria are combined; days are included; the latest action comes first."""
        assert listed(*words.split()) == expected.split()

    @pytest.mark.parametrize(
        ("line", "change"),
        [
            ("accounts create new", "plan: standard; status: active"),
            ("accounts suspend acme", f"status: active -> suspended; suspended_at: - -> {TIME}"),
            (
                "plans delete tiny",
                "requests: 1; window_seconds: 60; bulk_max: 2; domains_max: 3; watches_max: 0; "
                "enquiry: off; suggest: off; sandbox: off",
            ),
            ("keys revoke {key}", f"revoked_at: - -> {TIME}"),
            ("imports drop failed --purge --yes", "-"),
        ],
    )
    def test_it_shows_what_changed_on_a_line(self, installation, line, change):
        """A person reads members with their values before and after."""
        assert installation.run("import {directory}/none.csv --register failed") == 1
        assert installation.run(line) == 0
        heading, shown, _, sentence = installation.cli.run("actions", "list").stdout.splitlines()
        assert shown[heading.index("change") :] == change
        assert shown.split()[1:5] == [TIME, "ann", "bea", "command"]
        assert sentence == "1 action"

    @pytest.mark.parametrize(
        "words",
        ["--action nothing", "--action keys.", "--from today", "--to 2030-02-30", "--limit 0"],
    )
    def test_a_wrong_criterion_is_a_usage_error(self, installation, words):
        """The message names the option."""
        assert words.split()[0] in installation.cli.misuse("actions", "list", *words.split())


class TestActor:
    def test_without_a_login_it_is_the_user_of_the_process(self, monkeypatch):
        """A container has no login."""
        monkeypatch.setattr(actor, "login", lambda: None)
        monkeypatch.setattr(actor, "user_name", lambda: "verifyd")
        monkeypatch.delenv("SUDO_USER", raising=False)
        assert actor.of_command() == Actor("verifyd", "command", None)

    def test_no_session_means_no_login(self, monkeypatch):
        """The kernel knows no login of a unit or a container."""

        def getlogin() -> str:
            raise OSError(6, "No such device or address")

        monkeypatch.setattr(os, "getlogin", getlogin)
        assert actor.login() is None

    def test_any_environment_can_be_stored(self, installation, monkeypatch):
        """SUDO_USER can hold any bytes; a name is cut to what the column holds."""
        monkeypatch.setenv("SUDO_USER", os.fsdecode(b"\xffa\nb" + b"x" * 200))
        assert installation.run("accounts create new") == 0
        (action,) = installation.recorded()
        assert action.sudo_user == "?a?b" + "x" * 96


@ON_POSTGRES
def test_two_changes_at_once_follow_each_other(installation):
    """The second sees what the first left, not what was there when it began."""
    other = open_engine(installation.cli.database_url)
    waiting = threading.Thread(target=_moved_to_enterprise, args=(other,))
    with installation.engine.atomic():
        set_account_plan(installation.engine, "acme", "free")
        waiting.start()
        until(lambda: _is_somebody_waiting(installation.engine), "the second to wait")
    waiting.join()
    befores = [(each.before, each.after) for each in installation.recorded()]
    assert befores == [
        ({"plan": "standard"}, {"plan": "free"}),
        ({"plan": "free"}, {"plan": "enterprise"}),
    ]


def _moved_to_enterprise(engine: Engine) -> None:
    set_account_plan(engine, "acme", "enterprise")
    close_quietly(engine)


def _is_somebody_waiting(engine: Engine) -> bool:
    """Tell whether a connection to the database waits for a lock."""
    # The view shows one moment per transaction.
    engine.execute_sql("SELECT pg_stat_clear_snapshot()")
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    (waiting,) = engine.execute_sql(f"{query} AND datname = current_database()").fetchone()
    return bool(waiting)


@ON_SQLITE
@pytest.mark.usefixtures("spent", "signed_in")
def test_a_change_whose_record_fails_is_not_made(loaded):
    """Neither exists without the other."""
    installation = loaded
    installation.engine.execute_sql(
        "CREATE TRIGGER refuse BEFORE INSERT ON action BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    before = installation.content()
    for line in CHANGES:
        if not line.startswith("import {") and "--purge" not in line and "--drop" not in line:
            assert installation.run(line) == 1, line
            assert installation.content() == before, line
