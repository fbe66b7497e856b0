"""`verifyd sweep`, `verifyd watchlist`, and the sweep at the end of each load (D185, D187)."""

import io
import os
from contextlib import ExitStack
from datetime import UTC, date, timedelta

import msgspec
import peewee
import pytest

from app import clock
from app.accounts.administration import create_account, resume_account, suspend_account
from app.accounts.models import Account, Plan
from app.actions import Criteria, list_actions
from app.alerts.nightly import JobRun
from app.alerts.sweeps import held_back
from app.clock_steps import look
from app.jobs import sweeping, watchlist
from app.jobs.sweeping import sweeps_held_off
from app.storage.engine import close_quietly, open_engine
from app.storage.stores import store_of
from app.watches.feed import Feed
from app.watches.repository import Watches
from app.watches.tables import Watch, WatchEvent
from tests.conftest import ON_POSTGRES, ON_SQLITE
from tests.rows import each_row
from tests.unit.audit_trails import lines

HEADER = "registration,number,insurer,validFrom,validTo"
LIMITS = ("--requests", 600, "--window", 60, "--bulk-max", 1000, "--domains-max", 1000)
SWEPT = {"account": "acme", "watches": 1, "events": 0, "held": 0}
CHANGED = ("insurance.changed", "AB12CDE")


class Installation:
    """An installation whose account acme may have 100 watches."""

    def __init__(self, cli):
        self.cli = cli
        self.engine = open_engine(cli.database_url)
        create_account(self.engine, "acme")
        Plan.update(watches_max=100).execute(self.engine)

    @property
    def account(self):
        return Account.select().where(Account.name == "acme").get(self.engine)

    def policies(self, valid_to, *plates, name="policies.csv"):
        """Write a file of policies that end on a day."""
        rows = (f"{plate},{plate},A,2020-01-01,{valid_to}" for plate in plates)
        return self.cli.file(name, HEADER, *rows)

    def load(self, valid_to, *plates, mode="merge"):
        """Load policies, whatever they change, and return how the command ended."""
        rules = ("rows", "dates", "insurers", "insured")
        accepted = [word for rule in rules for word in ("--accept", rule)]
        file = self.policies(valid_to, *plates)
        return self.cli.run("import", file, "--mode", mode, *accepted)

    def watch(self, *plates, **options):
        """Import a watchlist of these plates."""
        file = self.cli.file("watches.csv", "registration", *plates)
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return self.cli.json("watchlist", "import", file, "--account", "acme", *words)

    def events(self):
        """Return type and plate of each event."""
        page = Feed(self.engine).list_events(self.account.id, None, 1000)
        return [(each.type, each.registration) for each in page.events]

    def runs(self):
        """Return for each recorded sweep whether it succeeded."""
        rows = JobRun.select().where(JobRun.job == "sweep").order_by(JobRun.id)
        return [row.is_done for row in rows.execute(self.engine)]


@pytest.fixture
def installed(cli):
    installed = Installation(cli)
    yield installed
    close_quietly(installed.engine)


@pytest.fixture
def watched(installed):
    """One insured vehicle, which acme watches."""
    installed.load("2999-01-01", "AB12CDE")
    installed.watch("AB12CDE")
    return installed


class TestLoads:
    def test_a_load_ends_with_a_sweep(self, watched):
        """What it has changed can be read when the command ends."""
        assert watched.load("2021-01-01", "AB12CDE").status == 0
        assert watched.events() == [CHANGED]

    def test_an_installation_without_watches_does_nothing(self, installed):
        """No run is recorded, and nothing is written about it."""
        assert installed.load("2999-01-01", "AB12CDE").stderr == ""
        assert installed.cli.json("sweep") == []
        assert installed.runs() == []

    def test_a_dry_run_is_not_swept(self, watched):
        """It has changed nothing."""
        before = watched.runs()
        watched.cli.json("import", watched.policies("2999-01-01", "ZZ9"), "--dry-run")
        assert watched.runs() == before

    def test_drops_and_rollbacks_are_swept(self, watched):
        """Each is reported like a load."""
        cli = watched.cli
        assert cli.run("imports", "drop", "native", "--yes").status == 0
        assert cli.run("imports", "undrop", "native").status == 0
        assert watched.load("2021-01-01", "AB12CDE", mode="replace").status == 0
        assert cli.run("imports", "rollback").status == 0
        assert watched.events() == [
            ("vehicle.unknown", "AB12CDE"),
            ("vehicle.known", "AB12CDE"),
            CHANGED,
            CHANGED,
        ]

    def test_the_drop_directory_is_swept_once_at_its_end(self, watched, monkeypatch):
        """Never between its files: two of them can belong together."""
        drop = watched.cli.directory / "drop"
        drop.mkdir()
        watched.watch("ZZ1", "ZZ2")
        for plate in ("ZZ1", "ZZ2"):
            path = drop / f"{plate}.csv"
            path.write_bytes(watched.policies("2999-01-01", plate).read_bytes())
            os.utime(path, (0, 0))
        sweep_all, left = sweeping.sweep_all, []

        def counted(engine, config):
            left.append(len(list(drop.glob("*.csv"))))
            return sweep_all(engine, config)

        monkeypatch.setattr(sweeping, "sweep_all", counted)
        watched.engine.close()  # Loads are forked, which no command does with an open file.
        assert watched.cli.run("import", "--drop", drop).status == 0
        assert left == [0]
        assert watched.events() == [("vehicle.known", "ZZ1"), ("vehicle.known", "ZZ2")]

    def test_the_drop_directory_is_swept_if_not_all_is_loaded(self, watched):
        """What its other files have changed is reported as well."""
        drop = watched.cli.directory / "drop"
        drop.mkdir()
        good, bad = drop / "a.csv", drop / "b.csv"
        good.write_bytes(watched.policies("2021-01-01", "AB12CDE").read_bytes())
        bad.write_text("nothing that is known")
        for path in (good, bad):
            os.utime(path, (0, 0))
        watched.engine.close()  # Loads are forked, which no command does with an open file.
        assert watched.cli.run("import", "--drop", drop).status == 1
        assert watched.events() == [CHANGED]

    def test_a_sweep_that_fails_is_a_warning(self, watched, monkeypatch):
        """The load has succeeded; the failure is a line of the runs, and the next sweep reports."""
        with monkeypatch.context() as failing:
            failing.setenv("VERIFYD_AUDIT", "on")
            failing.setenv("VERIFYD_AUDIT_DIR", str(watched.cli.file("not-a-directory")))
            ended = watched.load("2021-01-01", "AB12CDE")
        assert ended.status == 0
        assert "the watches could not be swept; the next sweep tries again" in ended.stderr
        assert watched.events() == []
        assert watched.runs()[-1] is False
        assert watched.cli.json("sweep") == [SWEPT | {"events": 1}]

    def test_an_unexpected_failure_says_nothing_of_records(self, watched, monkeypatch, caplog):
        """The message of an exception can quote a plate."""

        def fail(*_):
            raise ValueError("AB12CDE")

        monkeypatch.setattr(sweeping, "sweep_all", fail)
        assert watched.load("2021-01-01", "AB12CDE").status == 0
        assert "unexpected ValueError" in caplog.text


class TestSweep:
    def test_nothing_is_done_unless_something_has_changed(self, watched):
        """A second sweep finds no account."""
        assert watched.cli.json("sweep") == [SWEPT]
        ended = watched.cli.run("sweep")
        assert ended.stdout.endswith("\n0 accounts swept, 0 events reported\n")

    def test_a_new_day_is_swept(self, watched, monkeypatch):
        """Midnight changes verdicts without a load."""
        watched.load("2100-01-01", "AB12CDE")
        monkeypatch.setattr(clock, "today", lambda _: date(2100, 1, 2))
        assert watched.cli.json("sweep") == [SWEPT | {"events": 1}]

    @each_row("words", [(), ("--scheduled",)])
    def test_one_sweeps_at_a_time(self, watched, words):
        """A person gets the reason; a run of the service leaves it to the one that works."""
        with store_of(watched.engine, ".sweep").tried_lock():
            ended = watched.cli.run("sweep", *words)
        assert (ended.status == 0) == bool(words)
        assert ("another sweep is running" in ended.stderr) != bool(words)
        assert watched.runs() == []

    def test_none_begins_while_the_drop_directory_is_loaded(self, watched):
        """Its own sweep follows."""
        with sweeps_held_off(watched.engine):
            assert watched.cli.run("sweep", "--scheduled").status == 0
            assert "a load of the drop directory is running" in watched.cli.refusal("sweep")
        assert watched.runs() == []
        assert watched.cli.json("sweep") == [SWEPT]

    @ON_POSTGRES
    def test_none_begins_before_each_host_has_loaded_its_drop_directory(self, watched):
        """Several hosts can load theirs at the same time."""
        other = open_engine(watched.cli.database_url)
        with ExitStack() as first:
            first.enter_context(sweeps_held_off(other))
            with sweeps_held_off(watched.engine):
                first.close()
                assert "a load of the drop directory is running" in watched.cli.refusal("sweep")
        close_quietly(other)

    def test_nothing_is_reported_while_the_clock_is_suspect(self, watched):
        """Nor does anything end or become too old; the run fails with the reason."""
        anchor = look(watched.cli.directory).anchor
        assert anchor
        anchor = msgspec.structs.replace(anchor, since_boot=anchor.since_boot + 10**7)
        (watched.cli.directory / "clock.json").write_bytes(msgspec.json.encode(anchor))
        ended = watched.load("2021-01-01", "AB12CDE")
        assert ended.status == 0
        assert "the watches are not swept, because the clock is" in ended.stderr
        assert "because the clock is" in watched.cli.refusal("sweep")
        assert (watched.events(), watched.runs()) == ([], [False, False])

    def test_old_events_are_removed(self, watched):
        """They are kept for 90 days."""
        watched.load("2021-01-01", "AB12CDE")
        watched.load("2999-01-01", "AB12CDE")
        old = clock.now() - 91 * 86_400
        WatchEvent.update(at=old).where(WatchEvent.number == 1).execute(watched.engine)
        watched.cli.json("sweep")
        assert watched.events() == [CHANGED]

    def test_suspended_accounts_wait(self, watched):
        """After they are resumed, one sweep reports the difference."""
        suspend_account(watched.engine, "acme")
        watched.load("2021-01-01", "AB12CDE")
        assert watched.events() == []
        resume_account(watched.engine, "acme")
        assert watched.cli.json("sweep") == [SWEPT | {"events": 1}]


class TestHold:
    @pytest.fixture
    def held(self, installed):
        """A load has changed 20 of 20 watches."""
        self.plates = [f"AA{number}" for number in range(20)]
        installed.load("2999-01-01", *self.plates)
        installed.watch(*self.plates)
        self.warning = installed.load("2021-01-01", *self.plates).stderr
        return installed

    def test_a_suspicious_load_is_not_reported(self, held):
        """The load's output says so, and how to report it."""
        assert held.events() == []
        assert "a load has changed 20 of 20 watches" in self.warning
        assert "verifyd sweep --accept ACCOUNT" in self.warning

    def test_an_operator_can_accept_it(self, held):
        """Everything is reported once, and the acceptance is an action."""
        (swept,) = held.cli.json("sweep", "--accept", "acme")
        assert (swept["events"], swept["held"]) == (20, 0)
        assert held.events() == [("insurance.changed", plate) for plate in sorted(self.plates)]
        action = list_actions(held.engine)[0]
        assert (action.action, action.before, action.after) == (
            "watches.accept",
            {"held": 20},
            {"held": 0},
        )
        refusal = held.cli.refusal("sweep", "--accept", "acme")
        assert "no change of a watch of account acme is held back" in refusal
        assert "there is no account named other" in held.cli.refusal("sweep", "--accept", "other")

    def test_a_corrected_load_ends_it(self, held):
        """Nothing was reported, and nothing is."""
        held.load("2999-01-01", *self.plates)
        assert held.events() == []
        assert "is held back" in held.cli.refusal("sweep", "--accept", "acme")

    def test_an_acceptance_of_yesterday_is_refused(self, held, monkeypatch):
        """Nobody has seen what is held back today; the second time it is reported."""
        today = clock.today(UTC)
        monkeypatch.setattr(clock, "today", lambda _: today + timedelta(1))
        assert "holds changes back" in held.cli.refusal("sweep", "--accept", "acme")
        assert held.events() == []
        held.cli.json("sweep", "--accept", "acme")
        assert len(held.events()) == 20

    def test_the_end_of_all_watches_ends_it(self, held):
        """A sweep finds nothing that is held back any more, so the alert about it ends."""
        Watches(held.engine).remove_watches(held.account.id, self.plates)
        (swept,) = held.cli.json("sweep")
        assert swept == {**SWEPT, "watches": 0}
        assert held_back(held.engine) == []


class TestTrail:
    @pytest.fixture
    def trail(self, installed, monkeypatch):
        """The directory of the trail, which is on."""
        monkeypatch.setenv("VERIFYD_AUDIT", "on")
        return installed.cli.directory / "audit"

    def test_states_and_events_are_recorded(self, installed, trail):
        """With the reason and the reference of the watch, and who ran the command."""
        installed.load("2999-01-01", "AB12CDE")
        file = installed.cli.file("w.csv", "registration,reference,reason", "ZZ9,R1,FLEET")
        installed.cli.json("watchlist", "import", file, "--account", "acme")
        installed.load("2999-01-01", "ZZ9")
        state, event = lines(trail)
        assert (state["operation"], state["plates"]) == (
            "watchlist",
            [{"plate": "ZZ9", "found": False}],
        )
        checks = {"insurance": True, "mot": False, "tax": False, "fines": True}
        assert (event["operation"], event["plates"]) == (
            "sweep",
            [{"plate": "ZZ9", "found": True, "checks": checks, "events": ["vehicle.known"]}],
        )
        for record in (state, event):
            assert (record["account"], record["reason"], record["reference"]) == (
                "acme",
                "FLEET",
                "R1",
            )
            assert record["login"]
            assert list(record["registers"]) == ["native"]
        found = installed.cli.run("audit", "search", "--plate", "ZZ9").stdout
        assert "vehicle.known: insurance valid, mot not valid, tax not valid, fines valid" in found

    def test_a_state_that_is_kept_is_not_recorded_again(self, watched, trail):
        """A list that is sent every night tells the account nothing new."""
        watched.watch("ZZ9")
        watched.watch("ZZ9")
        assert [each["plates"][0]["plate"] for each in lines(trail)] == ["ZZ9"]

    def test_a_new_last_day_is_recorded(self, watched, trail):
        """It is no event, but answers show it; the next sweep has nothing to add."""
        watched.watch("AB12CDE")
        watched.load("3000-01-01", "AB12CDE")
        watched.load("3000-01-01", "ZZ9")
        before, after = lines(trail)
        assert (after["operation"], watched.events()) == ("sweep", [])
        assert after["plates"] == before["plates"]
        (used,) = watched.cli.json("usage", "--by", "operation") or [{"events": 0}]
        assert used["events"] == 0

    def test_what_was_stored_without_the_trail_is_recorded_by_the_next_sweep(
        self, installed, trail, monkeypatch
    ):
        """Of new watches, and of a last day that moved meanwhile; nobody needs a load for it."""
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        installed.load("2999-01-01", "AB12CDE")
        installed.watch("AB12CDE", "ZZ9")
        assert not trail.exists()
        monkeypatch.setenv("VERIFYD_AUDIT", "on")
        assert installed.cli.json("sweep") == [SWEPT | {"watches": 2}]
        assert installed.cli.json("sweep") == []
        assert [each["plates"][0]["plate"] for each in lines(trail)] == ["AB12CDE", "ZZ9"]
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        installed.cli.json("audit", "off", "--reason", "test")
        installed.load("3000-01-01", "AB12CDE")
        monkeypatch.setenv("VERIFYD_AUDIT", "on")
        assert installed.cli.json("sweep") == [SWEPT | {"watches": 2}]
        records = [each for each in lines(trail) if each["operation"] == "sweep"]
        assert [each["plates"][0]["plate"] for each in records] == ["AB12CDE", "ZZ9", "AB12CDE"]

    def test_states_of_a_former_program_are_recorded(self, watched, trail):
        """It leaves the digest of what the trail has as it was."""
        watched.watch("AB12CDE")
        told = Watch.select(Watch.told).scalar(watched.engine)
        Watch.update(told=told.replace("2999", "2998")).execute(watched.engine)
        watched.load("2998-01-01", "AB12CDE")
        assert [each["operation"] for each in lines(trail)] == ["watchlist", "sweep"]

    def test_watches_of_a_sandbox_are_not_recorded(self, watched, trail):
        """They are swept once a day, with the trail as without it."""
        watched.cli.json("plans", "set", "box", *LIMITS, "--watches-max", 9, "--sandbox", "on")
        watched.cli.json("accounts", "create", "tester", "--plan", "box")
        file = watched.cli.file("w.csv", "registration", "ZZ9")
        watched.cli.json("watchlist", "import", file, "--account", "tester")
        swept = watched.cli.json("sweep")
        assert [each["account"] for each in swept] == ["acme", "tester"]
        assert watched.cli.json("sweep") == []
        assert [each["account"] for each in lines(trail)] == ["acme"]

    def test_events_are_counted_in_the_usage(self, watched):
        """As an operation of their own, without a key and without vehicles."""
        watched.load("2021-01-01", "AB12CDE")
        (used,) = watched.cli.json("usage", "--by", "operation")
        assert (used["operation"], used["answers"], used["events"]) == ("events", 0, 1)
        (of_key,) = watched.cli.json("usage", "--by", "key")
        assert of_key["key"] == ""


class TestWatchlist:
    def test_watches_are_created_and_replaced(self, installed):
        """A header in any spelling; the state that was reported last is kept."""
        file = installed.cli.file(
            "w.csv",
            "sep=;",
            "Registration;Lead days;Reference;Until;Reason",
            "ab12 cde;14 28;R1;2999-12-31;FLEET",
            "",
            "ZZ9;;;;",
        )
        words = ("watchlist", "import", file, "--account", "acme")
        assert installed.cli.json(*words) == {
            "account": "acme",
            "created": 2,
            "replaced": 0,
            "watches": 2,
        }
        assert installed.cli.run(*words).stdout.endswith(
            "\n0 watches of account acme created, 2 replaced\n"
        )
        first, second = Watches(installed.engine).list_watches(installed.account.id, limit=9)
        assert first.terms == ("AB12CDE", (28, 14), "R1", "FLEET", "2999-12-31")
        assert second.terms == ("ZZ9", (), None, None, None)

    def test_standard_input_is_a_file_too(self, installed, monkeypatch):
        """`-` reads it, and messages call it that."""

        def typed(text):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            return "watchlist", "import", "-", "--account", "acme"

        done = installed.cli.json(*typed("registration\nAB12CDE\nZZ9\n"))
        assert (done["created"], done["watches"]) == (2, 2)
        refused = installed.cli.refusal(*typed("registration,colour\nAB12CDE,red\n"))
        assert refused.startswith("standard input has the unknown column colour")
        assert "standard input has no header" in installed.cli.refusal(*typed(""))

    def test_each_fault_is_named_by_its_line(self, installed):
        """Nothing is changed, and no value is quoted."""
        installed.cli.file(
            "w.csv",
            "registration,lead_days,reference,until",
            "AB12CDE,28 28,,2020-01-01",
            "ab12 cde,0,,x",
            "SECRET??,1.5,é,",
            "ZZ9,,,",
        )
        refusal = installed.cli.refusal(
            "watchlist", "import", installed.cli.directory / "w.csv", "--account", "acme"
        )
        assert [line for line in refusal.splitlines() if line.startswith("line")] == [
            "line 2: lead_days has a number twice",
            "line 2: until must not be before today",
            "line 3: lead_days must have whole numbers from 1 to 400",
            "line 3: until must be a day as YYYY-MM-DD, such as 2026-12-31",
            "line 3: registration is in line 2 already",
            "line 4: registration must have 1 to 12 letters and digits; character 7 is neither",
            "line 4: lead_days must have whole numbers from 1 to 400",
            "line 4: reference must have 1 to 64 printable ASCII characters; character 1 is not "
            "printable ASCII",
        ]
        assert "SECRET" not in refusal
        assert Watches(installed.engine).count(installed.account.id) == 0

    def test_a_row_without_a_plate_is_the_same_as_no_other(self, installed):
        """Its line is no plate: the plate 2 in line 3 was taken for the one that line 2 lacks."""
        refusal = installed.cli.refusal(*self._import(installed, "!!", "2", "AB12CDE"))
        (fault,) = refusal.splitlines()[1:]
        assert fault.startswith("line 2: registration must have")

    def test_at_most_twenty_faults_are_named(self, installed):
        """A file of another kind does not fill the screen."""
        refusal = installed.cli.refusal(*self._import(installed, *["?"] * 30))
        assert (refusal.count("line "), refusal.endswith("\nand more\n")) == (20, True)

    @each_row(
        ("text", "fault"),
        [
            ("", "has no header"),
            ("colour\nA\n", "has the unknown column colour"),
            ("reg,vrm\nA,B\n", "has the column registration twice"),
            ("registration,refrence\nA,b\n", "did you mean reference?"),
            ("registration,registration\nA,b\n", "has the column registration twice"),
            ("until\n2999-01-01\n", "lacks the column registration"),
            ("registration,until\nA\n", "line 2: it has 1 cell, and the header 2"),
            ('registration\n"A', "line 2: unexpected end of data"),
            ("registration\n\udcff\n", "is not UTF-8"),
            ("registration\nA\n" + "\0" * 512, "the upload is incomplete"),
        ],
    )
    def test_a_file_of_another_form_is_refused(self, installed, text, fault):
        """The message says what is wrong with it."""
        path = installed.cli.directory / "w.csv"
        path.write_bytes(text.encode(errors="surrogateescape"))
        assert fault in installed.cli.refusal("watchlist", "import", path, "--account", "acme")

    @each_row("name", ["Reg No", "Kennzeichen", "Rego", "Rendszám"])
    def test_a_name_of_a_registration(self, installed, name):
        """The column of the plates can have any name that `lookup --csv` knows."""
        path = installed.cli.file("w.csv", f"{name},reference", "AB12CDE,A-1")
        told = installed.cli.json("watchlist", "import", path, "--account", "acme")
        assert told["created"] + told["replaced"] == 1

    def test_the_end_of_a_dos_file_is_no_row(self, installed):
        """A ^Z after the last line is left out, as in files of registers."""
        assert installed.watch("AB12CDE", "\x1a")["created"] == 1

    def test_a_file_larger_than_memory_is_checked_as_a_whole(self, installed, monkeypatch):
        """A plate is found again in another part of the file, and the first fault comes first."""
        monkeypatch.setattr(watchlist, "_RUN_ROWS", 2)
        plates = [f"AA{number}" for number in range(9, 0, -1)]
        refusal = installed.cli.refusal(*self._import(installed, *plates, "AA9", "?"))
        sentence, *faults = refusal.splitlines()
        assert sentence.endswith("nothing was changed (the header counts as a line):")
        assert faults[0] == "line 11: registration is in line 2 already"
        assert faults[1].startswith("line 12: registration must have")
        monkeypatch.setattr(watchlist, "BATCH_PLATES", 4)
        change, pieces = Watches.change_watches, []

        def counted(self, account, edit, *args, **options):
            pieces.append(len(edit.wanted))
            return change(self, account, edit, *args, **options)

        monkeypatch.setattr(Watches, "change_watches", counted)
        assert installed.watch(*plates)["created"] == 9
        assert pieces == [4, 4, 1]

    def test_an_import_that_fails_says_what_it_has_done(self, installed, monkeypatch):
        """So does its action. The file can be imported again, which stores the rest."""
        monkeypatch.setattr(watchlist, "BATCH_PLATES", 2)
        change, pieces = Watches.change_watches, [0]

        def fail(*args, **options):
            pieces[0] += 1
            if pieces[0] == 2:
                raise peewee.OperationalError("database or disk is full")
            return change(*args, **options)

        plates = [f"AA{number}" for number in range(5)]
        with monkeypatch.context() as failing:
            failing.setattr(Watches, "change_watches", fail)
            refusal = installed.cli.refusal(*self._import(installed, *plates))
        assert "w.csv failed after 2 of 5 watches: database" in refusal
        assert "database or disk is full. Import the file again to store the rest" in refusal
        assert Watches(installed.engine).count(installed.account.id) == 2
        assert self._done(installed) == {"listed": 5, "created": 2, "replaced": 0}
        assert installed.watch(*plates)["created"] == 3
        assert self._done(installed) == {"listed": 5, "created": 3, "replaced": 2}

    def test_a_piece_that_is_not_committed_is_not_in_the_action(self, installed, monkeypatch):
        """A process that is killed at the commit has noted nothing."""

        def fail(*_):
            raise peewee.OperationalError("killed")

        monkeypatch.setattr(watchlist, "complete", fail)
        assert "after 0 of 1 watch: " in installed.cli.refusal(*self._import(installed, "AA1"))
        assert Watches(installed.engine).count(installed.account.id) == 0
        assert self._done(installed) == {"listed": 1, "created": 0, "replaced": 0}

    @ON_SQLITE
    def test_space_is_needed_first(self, installed, monkeypatch):
        """Nothing is stored or recorded without it; watches that are replaced need none."""
        installed.watch("AA1")
        before = self._done(installed)
        monkeypatch.setattr(watchlist, "_WATCH_BYTES", 10**15)
        refusal = installed.cli.refusal(*self._import(installed, "AA1", "AA2"))
        assert "the import needs about 1,000,0" in refusal
        assert "make room, then import again; nothing was changed" in refusal
        assert Watches(installed.engine).count(installed.account.id) == 1
        assert self._done(installed) == before
        assert installed.watch("AA1")["replaced"] == 1

    def test_a_file_without_line_ends_is_refused(self, installed):
        """It is not read into memory."""
        refusal = installed.cli.refusal(*self._import(installed, "A" * 100_001))
        assert "has a line of more than 100,000 characters" in refusal

    def _done(self, installed):
        """Return what the latest import says of itself."""
        return list_actions(installed.engine, Criteria(action="watches.import"))[0].after

    def test_the_plan_limits_the_watches(self, installed):
        """Nothing is changed if they do not all fit."""
        installed.watch(*(f"AA{number}" for number in range(99)))
        assert "allows 100 watches" in installed.cli.refusal(*self._import(installed, "BB1", "BB2"))
        assert "has more plates than the 100 watches" in installed.cli.refusal(
            *self._import(installed, *(f"BB{number}" for number in range(101)))
        )
        assert Watches(installed.engine).count(installed.account.id) == 99
        assert installed.watch("AA1", "BB1")["watches"] == 100

    def test_a_plan_can_need_reasons_and_ends(self, installed):
        """Of its own list; `--reason` is that of rows without one."""
        cli = installed.cli
        cli.json(
            *("plans", "set", "standard", *LIMITS, "--watches-max", 100),
            *("--enquiry", "required", "--enquiry-reasons", "FLEET,THEFT"),
        )
        refusal = cli.refusal(*self._import(installed, "AB12CDE"))
        assert "line 2: until is missing; the plan needs a last day" in refusal
        assert "line 2: reason is missing; the plan needs one" in refusal
        until = clock.day_of(clock.now() + 30 * 86_400, UTC)
        file = cli.file("w.csv", "registration,until", f"AB12CDE,{until}")
        words = ("watchlist", "import", file, "--account", "acme", "--reason")
        assert "must be one that the plan accepts: FLEET, THEFT" in cli.refusal(*words, "OTHER")
        assert cli.json(*words, "FLEET")["created"] == 1

    def _import(self, installed, *plates):
        file = installed.cli.file("w.csv", "registration", *plates)
        return "watchlist", "import", file, "--account", "acme"


def test_an_account_is_deleted_with_its_watches(watched):
    """The command says how many, and so does the record of actions."""
    watched.load("2021-01-01", "AB12CDE")
    assert "with --yes" in watched.cli.refusal("accounts", "delete", "acme")
    ended = watched.cli.run("accounts", "delete", "acme", "--yes")
    assert ended.stdout.endswith("account acme and its 0 keys, 1 watch and 1 event deleted\n")
    action = list_actions(watched.engine)[0]
    assert action.before
    assert (action.before["watches"], action.before["events"]) == (1, 1)
    assert WatchEvent.select().count(watched.engine) == 0
    assert watched.cli.json("sweep") == []
