"""Loads of the drop directory that rules refuse are held until an operator decides (D158)."""

import fcntl
import os
from contextlib import contextmanager

import peewee
import pytest

from app import clock
from app.actions import list_actions
from app.alerts.conditions import conditions_of
from app.config import Config
from app.jobs import drop_directory
from app.registers.undo import drop_register, roll_back
from app.storage.registers import Register
from app.storage.session import opened_database
from tests.conftest import ON_SQLITE

HEADER = "registration,number,insurer,validFrom,validTo,type,lastUpdated\n"


def policies(count, *, expired=0, typed=60):
    """Return a file with so many policies, of which the first ones are expired or have a type."""
    return HEADER + "".join(
        f"AB{n:02}CDE,P-{n},Brackenmoor Mutual,2020-01-01,20{25 if n < expired else 30}-12-31,"
        f"{'comprehensive' if n < typed else ''},2026-0{2 if expired else 1}-01T00:00:00Z\n"
        for n in range(count)
    )


ALL, FEW, EXPIRED = policies(60), policies(20), policies(60, expired=30)
RULES = {"rows", "insurers", "insured"}
"""What FEW breaks after ALL."""
LONG = pytest.mark.system_long
CARS = "registration,make\nAB01CDE,FORD\n"


class Night:
    """A drop directory for the register `fleet` with 60 policies, and the commands around it."""

    def __init__(self, cli, mode):
        self.cli, self.root = cli, cli.directory / "drop"
        self.options = cli.directory / "options"
        self.options.mkdir()
        (self.root / "fleet").mkdir(parents=True)
        self.option(f"--mode {mode}")
        self.put("first.csv", ALL)
        assert self.run().status == 0

    def option(self, text):
        """Write the option file."""
        (self.options / "fleet").write_text(text)

    def put(self, name, text, folder="fleet"):
        """Put a file there that was last changed an hour ago."""
        path = self.root / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (clock.now() - 3600,) * 2)
        return path

    def run(self, *words):
        """Load what is there."""
        return self.cli.run("import", "--drop", self.root, "--options", self.options, *words)

    def hold(self, text, name="next.csv"):
        """Let a file be refused, and return where it waits."""
        path = self.put(name, text)
        ended = self.run()
        assert (ended.status, path.exists()) == (1, False), ended
        return path.parent / "failed" / name

    @contextmanager
    def busy(self):
        """Let another load of the register run meanwhile."""
        database = self.cli.database
        with database.with_name(f"{database.stem}.register_fleet.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def files(self):
        """Return all files below the drop directory but the first one."""
        found = [path for path in self.root.rglob("*") if path.is_file()]
        return sorted(
            {str(path.relative_to(self.root)) for path in found} - {"fleet/loaded/first.csv"}
        )

    def show(self, load_id):
        return self.cli.json("imports", "show", load_id)

    def status(self, load_id):
        return self.show(load_id)["status"]

    def accept(self, load_id):
        return self.cli.json("imports", "accept", load_id)

    def refused(self, load_id):
        """Return why a load cannot be accepted; whatever it was, the register stays."""
        before = self.held()
        told = self.cli.refusal("imports", "accept", load_id)
        assert self.held() == before
        return told

    def change(self, change, *words):
        """Do what a command does with the database."""
        with opened_database() as engine:
            return change(engine, *words)

    def held(self):
        """Return how many policies the register holds."""
        return self.change(lambda engine: Register.select(Register.policies).scalar(engine))

    def conditions(self):
        """Return the conditions about loads, by key."""
        found = self.change(lambda engine: conditions_of(engine, Config.from_env()).conditions)
        return {each.key: each for each in found if each.kind in ("load", "held", "job")}


@pytest.fixture
def replaces(cli):
    """A register that is replaced every night."""
    return Night(cli, "replace")


@pytest.fixture
def merges(cli):
    """A register into which each file is merged."""
    return Night(cli, "merge")


class TestAcceptance:
    def test_the_file_is_loaded_again(self, replaces):
        """The history has rules, explanations and checksum; the action has the rules and who."""
        replaces.put("next.csv", FEW)
        ended = replaces.run()
        told = "\n".join(line["message"] for line in ended.log)
        assert (ended.status, 'accept it with "verifyd imports accept 2"' in told) == (1, True)
        assert "Brackenmoor" not in told
        assert replaces.files() == ["fleet/failed/next.csv"]
        line = replaces.show(2)
        assert (line["status"], line["broken"].keys()) == ("held", RULES)
        assert line["broken"]["rows"].startswith("40 of 60 policies in force would be gone")
        assert len(line["checksum"]) == 64
        result = replaces.accept(2)
        assert (result["load"], result["held"], replaces.held()) == (3, 20, 20)
        assert replaces.files() == ["fleet/loaded/next.csv"]
        line = replaces.show(3)
        assert (line["status"], line["accepts"], replaces.status(2)) == ("done", 2, "accepted")
        assert [each["id"] for each in replaces.cli.json("imports", "list", "--failed")] == []
        listed = replaces.cli.run("imports", "list").stdout
        assert ("loaded as load 3" in listed, listed.count("-40")) == (True, 1)
        assert "rule rows; rule" in replaces.cli.run("imports", "show", "3").stdout
        action = replaces.change(list_actions)[0]
        assert (action.action, action.subject, action.via) == ("imports.accept", "fleet", "command")
        assert (action.after["held"], action.after["accepts"]) == (20, 2)
        accepted = {f"accept:{rule}" for rule in RULES}
        assert ({*action.after["accepted"]}, {*line["accepted"]}) == (accepted, accepted)
        assert replaces.conditions() == {}
        assert "it was accepted before, and loaded as load 3" in replaces.refused(2)

    @LONG
    def test_a_file_of_the_drop_directory_itself_is_held_too(self, replaces, monkeypatch):
        """Its register is that of its format. Its marker moves with it."""
        monkeypatch.setenv("VERIFYD_DROP_WAIT", "done")
        replaces.put("failed/next.csv", "another file", ".")
        for text in (ALL, EXPIRED):
            replaces.put("next.csv", text, ".")
            replaces.put("next.csv.done", "", ".").touch()
            replaces.run()
        held = ["failed/next.csv", "failed/next.csv.1", "failed/next.csv.1.done"]
        assert [name for name in replaces.files() if "failed" in name] == held
        assert replaces.accept(3)["register"] == "native"
        assert {"loaded/next.csv.1", "loaded/next.csv.1.done"} <= {*replaces.files()}

    @LONG
    def test_loaded_files_that_are_not_kept_are_removed(self, replaces, monkeypatch):
        """As after any load."""
        replaces.hold(FEW)
        monkeypatch.setenv("VERIFYD_KEEP_LOADED", "0")
        told = replaces.cli.run("imports", "accept", "2").stdout
        assert "\nchange  " in told
        assert "Change(" not in told
        assert replaces.files() == []

    @LONG
    def test_a_rule_that_was_not_shown_refuses_it(self, replaces, monkeypatch):
        """The load is then held under its new number, with all rules."""
        monkeypatch.setenv("VERIFYD_LOSS_MAX", "50")
        replaces.hold(policies(60, expired=30, typed=40))
        assert "values" not in replaces.show(2)["broken"]
        monkeypatch.setenv("VERIFYD_LOSS_MAX", "10")
        assert "load 3 breaks rules that load 2 did not show: values: 20 of" in replaces.refused(2)
        assert (replaces.status(2), replaces.status(3)) == ("failed", "held")
        assert {*replaces.show(3)["broken"]} == {*replaces.show(2)["broken"], "values"}
        assert [*replaces.conditions()] == ["held:fleet:policies"]
        assert "was held again, with further rules; accept load 3 instead" in replaces.refused(2)
        assert replaces.accept(3)["load"] == 4
        assert replaces.files() == ["fleet/loaded/next.csv"]
        assert [replaces.show(number)["accepted_as"] for number in (2, 3)] == [4, 4]

    @LONG
    def test_other_loads_cannot_be_accepted(self, replaces):
        """One that is unknown, that succeeded, that failed otherwise, or that was run by hand."""
        assert "there is no load 99" in replaces.refused(99)
        assert "was not refused by rules" in replaces.refused(1)
        replaces.put("bad.csv", "nonsense\n")
        replaces.run()
        assert "was not refused by rules" in replaces.refused(2)
        file = replaces.cli.file("hand.csv", FEW)
        replaces.cli.refusal("import", file, "--register", "fleet", "--mode", "replace")
        assert replaces.status(3) == "failed"
        assert "did not come from the drop directory; repeat its command with --accept" in (
            replaces.refused(3)
        )
        assert "Brackenmoor" not in str(replaces.conditions())
        assert "rows: 40 of 60" in str(replaces.conditions()["load:fleet"].details)

    @LONG
    def test_a_later_load_ends_the_hold(self, replaces):
        """One of another kind does not."""
        replaces.hold(FEW)
        cars = replaces.cli.file("cars.csv", CARS)
        replaces.cli.json("import", cars, "--register", "fleet")
        assert replaces.status(2) == "held"
        replaces.put("better.csv", ALL)
        assert replaces.run().status == 0
        told = replaces.refused(2)
        assert "load 4 of the register fleet succeeded since" in told
        assert f"move them from {replaces.root}/fleet/failed" in told
        assert (replaces.status(2), replaces.conditions()) == ("failed", {})

    @LONG
    def test_a_later_rollback_ends_the_hold(self, replaces):
        """The file was compared with what is no longer there."""
        replaces.put("second.csv", policies(59))
        replaces.run()
        replaces.hold(FEW)
        replaces.change(roll_back, "fleet", None)
        assert "load 4, a rollback of the register fleet, came since" in replaces.refused(3)

    @LONG
    def test_a_dropped_register_ends_the_hold(self, replaces):
        """Accepting must not create the register again."""
        replaces.hold(FEW)
        replaces.change(drop_register, "fleet")
        told = replaces.cli.refusal("imports", "accept", "2")
        assert "load 3, a drop of the register fleet, came since" in told

    def test_another_file_in_its_place_is_refused(self, replaces):
        """It has another checksum; with the right content the load can still be accepted."""
        place = replaces.hold(FEW)
        place.write_text(policies(21))
        assert "content differs from that which load 2 refused" in replaces.refused(2)
        place.write_text(FEW)
        assert replaces.accept(2)["held"] == 20

    @LONG
    def test_a_link_in_its_place_is_not_followed(self, replaces):
        """Not even to a file with the same content."""
        place = replaces.hold(FEW)
        other = replaces.cli.file("other.csv")
        other.write_text(FEW)
        place.unlink()
        place.symlink_to(other)
        assert place.name in replaces.refused(2)
        place.unlink()
        place.parent.rmdir()
        outside = replaces.cli.directory / "outside"
        outside.mkdir()
        (outside / "next.csv").write_text(FEW)
        place.parent.symlink_to(outside)
        assert "not all of its files are in" in replaces.refused(2)

    @LONG
    def test_a_file_that_is_gone_ends_the_hold(self, replaces):
        """Somebody has decided that it is wrong: nothing is reported any more."""
        replaces.hold(FEW).unlink()
        assert "not all of its files are in" in replaces.refused(2)
        assert (replaces.status(2), replaces.conditions()) == ("failed", {})

    @LONG
    @ON_SQLITE
    def test_it_waits_while_the_register_is_busy(self, replaces):
        """Another load or acceptance runs: nothing is lost."""
        replaces.hold(FEW)
        with replaces.busy():
            assert "another load of the register fleet is running" in replaces.refused(2)
        assert replaces.status(2) == "held"
        assert replaces.accept(2)["held"] == 20

    @LONG
    def test_the_options_are_those_of_the_refused_load(self, replaces):
        """An option file that was changed since would load something else."""
        replaces.hold(FEW)
        replaces.option("--mode merge --max-rejects 0")
        assert replaces.accept(2)["mode"] == "replace"


class TestRejection:
    def test_the_hold_ends_and_its_files_are_as_those_of_any_failed_load(self, replaces):
        """The alert is over; of two decisions the second one says what the first one was."""
        place = replaces.hold(FEW)
        who = replaces.cli.json("imports", "reject", "2")
        assert who == {"rejected": 2, "register": "fleet", "files": [str(place)]}
        assert (replaces.conditions(), replaces.held(), place.exists()) == ({}, 60, True)
        line = replaces.show(2)
        action = replaces.change(list_actions)[0]
        assert (action.action, action.subject) == ("imports.reject", "fleet")
        assert (action.before, action.after) == ({}, {"rejects": 2})
        assert line["status"] == "failed"
        assert line["reason"].startswith(f"rejected by {action.actor}: the load breaks rules: rows")
        before = f"load 2 was rejected before, by {action.actor}"
        assert replaces.cli.refusal("imports", "reject", "2") == f"{before}\n"
        assert f"{before}. To load it all the same, run" in replaces.refused(2)

    def test_the_same_files_are_refused_and_not_held_again(self, replaces):
        """They fail; other files do not, nor these once they were loaded by hand."""
        replaces.hold(FEW)
        replaces.cli.json("imports", "reject", "2")
        replaces.hold(FEW, "again.csv")
        line = replaces.show(3)
        assert (line["status"], line["broken"]) == ("failed", {})
        assert line["reason"].startswith("The content is that of load 2, which ")
        assert [*replaces.conditions()] == ["load:fleet"]
        replaces.hold(policies(21), "other.csv")
        assert replaces.status(4) == "held"
        file = replaces.cli.file("hand.csv")
        file.write_text(FEW)
        accept = [word for rule in RULES for word in ("--accept", rule)]
        options = ("--register", "fleet", "--mode", "replace", *accept)
        assert replaces.cli.json("import", file, *options)["held"] == 20
        replaces.put("again.csv", FEW)
        ended = replaces.run()
        assert (ended.status, replaces.conditions()) == (0, {}), ended

    @LONG
    def test_only_an_undecided_load_is_rejected(self, replaces):
        """Not one that is unknown, that succeeded, ran by hand, was accepted or overtaken."""

        def refused(number):
            return replaces.cli.refusal("imports", "reject", number).strip()

        assert "there is no load 99" in refused(99)
        assert "was not refused by rules, so there is nothing to reject" in refused(1)
        file = replaces.cli.file("hand.csv", FEW)
        replaces.cli.refusal("import", file, "--register", "fleet", "--mode", "replace")
        assert refused(2).endswith("did not come from the drop directory; it changed nothing")
        replaces.hold(FEW)
        replaces.accept(3)
        assert refused(3).endswith("it was accepted before, and loaded as load 4")
        replaces.put("all.csv", ALL)
        replaces.run()
        replaces.hold(FEW)
        replaces.put("better.csv", ALL)
        replaces.run()
        assert refused(6).endswith("load 7 of the register fleet succeeded since")

    @LONG
    def test_without_its_files_the_hold_ends_all_the_same(self, replaces):
        """As on a host that does not have the drop directory."""
        replaces.hold(FEW)
        replaces.root.rename(replaces.root.with_name("elsewhere"))
        assert replaces.conditions()
        replaces.cli.json("imports", "reject", "2")
        assert replaces.conditions() == {}

    @LONG
    @ON_SQLITE
    def test_beside_an_acceptance_it_is_refused(self, replaces):
        """The acceptance holds the lock of the register, and decides."""
        replaces.hold(FEW)
        with replaces.busy():
            told = replaces.cli.refusal("imports", "reject", "2")
            assert "another load of the register fleet is running" in told
        assert replaces.status(2) == "held"

    @LONG
    def test_later_merges_come_in(self, merges, monkeypatch):
        """The file itself is removed by its age again."""
        place = merges.hold(EXPIRED)
        merges.put("later.csv", policies(1))
        assert merges.run().status == 1
        merges.cli.json("imports", "reject", "2")
        monkeypatch.setenv("VERIFYD_KEEP_FAILED", "0")
        assert (merges.run().status, place.exists()) == (0, False)


class TestHeldFiles:
    @LONG
    def test_it_is_kept_while_it_is_held(self, replaces, monkeypatch):
        """Neither age nor size removes it; afterwards both do."""
        place = replaces.hold(FEW)
        monkeypatch.setenv("VERIFYD_KEEP_FAILED", "0")
        monkeypatch.setenv("VERIFYD_DROP_LIMIT", "1K")
        assert replaces.run().status == 0
        assert place.exists()
        replaces.put("better.csv", ALL)
        replaces.run()
        assert not place.exists()

    @LONG
    def test_only_the_latest_replace_is_spared(self, replaces, monkeypatch):
        """Each night can bring one; earlier ones can be accepted for as long as they are there."""
        replaces.hold(FEW)
        latest = replaces.hold(policies(19), "later.csv")
        assert [replaces.status(number) for number in (2, 3)] == ["held", "held"]
        (held,) = replaces.conditions().values()
        assert (held.key, held.occurrence) == ("held:fleet:policies", "3")
        assert "Later files" not in held.warning
        monkeypatch.setenv("VERIFYD_KEEP_FAILED", "0")
        replaces.run()
        assert replaces.files() == ["fleet/failed/later.csv"]
        assert latest.exists()
        assert (replaces.status(2), replaces.accept(3)["held"]) == ("failed", 19)

    @LONG
    @pytest.mark.parametrize("text", [FEW, EXPIRED], ids=["replace", "merge"])
    def test_a_hold_that_cannot_be_noted_leaves_the_file(self, cli, monkeypatch, text):
        """If the database is gone or its disk is full, the next night refuses the file again."""
        night = Night(cli, "replace" if text == FEW else "merge")

        def fail(*_):
            raise peewee.OperationalError("database or disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(drop_directory, "note_hold", fail)
            night.put("next.csv", text)
            assert night.run().status == 1
        assert (night.files(), night.status(2)) == (["fleet/next.csv"], "failed")
        assert night.run().status == 1
        assert (night.files(), night.status(3)) == (["fleet/failed/next.csv"], "held")


class TestScheduledRuns:
    def test_a_night_that_waits_for_a_decision_has_not_failed(self, merges):
        """Its unit would stay failed after the decision; other failures fail it."""
        merges.put("next.csv", EXPIRED)
        for name in ("later.csv", "latest.csv"):
            ended = merges.run("--scheduled")
            assert (ended.status, "waiting for a decision: 1" in ended.stdout) == (0, True)
            assert [*merges.conditions()] == ["held:fleet:policies"]
            merges.put(name, policies(1))
        merges.put("bad.csv", "nonsense\n", ".")
        assert merges.run("--scheduled").status == 1


class TestMerges:
    def test_later_files_wait_for_a_held_merge(self, merges):
        """They stay, without a line in the history, until it is accepted; then they are loaded."""
        merges.hold(EXPIRED)
        for night in range(2):
            merges.put(f"later{night}.csv", policies(1))
            ended = merges.run()
            told = "\n".join(line["message"] for line in ended.log)
            assert (ended.status, "load 2 of the register fleet is held" in told) == (1, True)
        waiting = ["fleet/failed/next.csv", "fleet/later0.csv", "fleet/later1.csv"]
        assert merges.files() == waiting
        (held,) = merges.conditions().values()
        assert "Later files of them wait" in held.warning
        assert merges.cli.refusal("imports", "show", 3)
        merges.accept(2)
        assert merges.run().status == 0
        assert not [name for name in merges.files() if "loaded" not in name]
        assert merges.conditions() == {}

    @LONG
    def test_other_registers_and_kinds_do_not_wait(self, merges):
        """Nor does a replace, which ends the hold; nor a file that somebody loads by hand."""
        merges.hold(EXPIRED)
        merges.put("cars.csv", CARS)
        merges.put("a.csv", ALL, "other")
        assert merges.run().status == 0
        merges.option("--mode replace")
        merges.put("all.csv", ALL)
        assert merges.run().status == 0
        assert "succeeded since" in merges.refused(2)
        merges.option("--mode merge")
        merges.hold(EXPIRED, "again.csv")
        file = merges.cli.file("hand.csv")
        file.write_text(policies(1))
        merges.cli.json("import", file, "--register", "fleet")
        merges.put("later.csv", policies(1))
        assert merges.run().status == 0

    @LONG
    def test_removing_its_file_lets_later_files_in(self, merges):
        """The operator has decided against it."""
        place = merges.hold(EXPIRED)
        merges.put("later.csv", policies(1))
        assert merges.run().status == 1
        place.unlink()
        assert merges.run().status == 0

    @LONG
    def test_an_older_delta_comes_first(self, merges):
        """While one waits, the held one cannot be accepted; it is not held back itself."""
        name = "delta-light-vehicle_{}-01-2026.csv".format
        merges.hold(EXPIRED, name("02"))
        merges.put(f".{name('01')}", ALL)
        merges.put(f"{name('01')}.sha256", "")
        older = merges.put(name("01"), policies(1))
        assert f"{older.name} waits in the drop directory" in merges.refused(2)
        older.with_name(f"{older.name}.sha256").unlink()
        merges.put(older.name, EXPIRED)
        merges.run()
        assert merges.status(3) == "held"
        assert "cannot be accepted yet: load 3 is held, too" in merges.refused(2)
        (held,) = merges.conditions().values()
        assert held.remedy == "sudo verifyd imports show 3"
        merges.accept(3)
        assert merges.accept(2)["load"] == 5

    def test_an_older_delta_does_not_end_the_hold(self, merges):
        """It is loaded as it was asked for, and later ones still wait for the held one."""
        name = "delta-light-vehicle_{}-01-2026.csv".format
        merges.hold(EXPIRED, name("05"))
        older, later = (merges.put(name(day), policies(1)) for day in ("04", "06"))
        told = "\n".join(line["message"] for line in merges.run().log)
        assert f"before that, load {older.name} without the later files" in told
        later.unlink()
        assert merges.run().status == 0
        merges.put(later.name, policies(1))
        assert merges.run().status == 1
        assert (older.exists(), later.exists(), merges.status(3)) == (False, True, "done")
        assert [*merges.conditions()] == ["held:fleet:policies"]
        assert merges.accept(2)["load"] == 4
        assert (merges.run().status, later.exists()) == (0, False)


class TestOptionFiles:
    def test_a_rule_is_never_accepted_every_night(self, replaces):
        """`--accept` is a mistake in the option file; its files stay."""
        for words in ("--accept rows", "--accept=insured"):
            replaces.option(f"--mode replace {words}")
            replaces.put("next.csv", FEW)
            ended = replaces.run()
            told = "\n".join(line["message"] for line in ended.log)
            assert (ended.status, "--accept is not allowed here" in told) == (1, True)
        assert replaces.files() == ["fleet/next.csv"]

    @LONG
    def test_earlier_options_accept_rows_and_values_and_no_answers(self, replaces):
        """Each load notes what its option file accepts."""
        replaces.option("--mode replace --allow-shrink --allow-loss type --allow-loss cancelledOn")
        replaces.hold(policies(20, typed=1))
        line = replaces.show(2)
        assert {*line["broken"]} == RULES - {"rows"}
        note = "accepted by its option file: rows (--allow-shrink), values of type (--allow-loss)"
        assert any(each.startswith(note) for each in line["notes"])
        replaces.put("all.csv", ALL)
        assert replaces.run().status == 0
        assert any(each.startswith(note) for each in replaces.show(3)["notes"])
        assert "accept:rows" not in replaces.show(3)["accepted"]
