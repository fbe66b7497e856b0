"""Hosts whose trail is on: what the database remembers, and what ends it (D166)."""

import json
from unittest.mock import Mock

import pytest

from app import clock
from app.audit.owner import claim, machine
from app.audit.record import AuditError
from app.audit.trail import record_use
from app.config import Config
from app.errors import OperatorError
from app.server import prepare_database, prepare_state
from app.storage.session import opened_database
from app.storage.versions import database_id, main_scripts
from tests.unit.audit_trails import lines


@pytest.fixture
def cli(cli, monkeypatch):
    """The command line, with the trail on."""
    # It would change the metrics of this process.
    monkeypatch.setattr("app.serve.http.metrics_files.prepare", lambda _directory: None)
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    return cli


@pytest.fixture
def pass_hours(monkeypatch):
    """`pass_hours(2)` sets the clock on by two hours."""
    now_ns, passed = clock.now_ns, [0]
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns() + passed[0] * 3600 * 10**9)
    monkeypatch.setattr(clock, "now", lambda: clock.now_ns() // 10**9)

    def pass_hours(hours):
        passed[0] += hours

    return pass_hours


def start():
    """Do what a service does when it starts."""
    prepare_state(Config.from_env())


def times(gap):
    """Return when a gap began and ended."""
    return gap["upkeep"]["from"], gap["upkeep"]["to"]


def operations(cli):
    return [each["operation"] for each in lines(cli.directory / "audit")]


class TestOff:
    @pytest.mark.parametrize("words", [("lookup", "AB12CDE"), ("lookup", "--csv", "-")])
    def test_a_host_that_was_on_does_not_look_up_unrecorded(self, cli, words, monkeypatch):
        """Neither by a service nor by a command, however the setting is taken away."""
        start()
        monkeypatch.delenv("VERIFYD_AUDIT")
        ended = cli.run(*words)
        assert (ended.status, ended.stdout) == (1, "")
        assert '"verifyd audit off --reason TEXT"' in ended.stderr
        with pytest.raises(OperatorError, match="must be recorded"):
            start()
        assert "VERIFYD_AUDIT: the audit trail of this host is on" in cli.run("check").stderr

    def test_a_command_is_enough(self, cli, monkeypatch):
        """A host without a service records, too."""
        cli.run("lookup", "AB12CDE")
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        assert "must be recorded" in cli.refusal("lookup", "AB12CDE")

    def test_a_host_where_it_never_was_on_is_free(self, cli, monkeypatch):
        """Nothing changes without a trail."""
        monkeypatch.delenv("VERIFYD_AUDIT")
        start()
        assert "not found" in cli.run("lookup", "AB12CDE").stderr
        assert cli.json("audit", "hosts") == []

    def test_the_gap_is_recorded_with_who_and_why(self, cli, pass_hours, monkeypatch):
        """From the action until the next start with the trail; restarts are no gaps."""
        for _ in range(3):
            start()
        off = cli.json("audit", "off", "--reason", "ticket 1")
        assert "is off since" in cli.refusal("audit", "off", "--reason", "again")
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        for _ in range(2):
            pass_hours(1)
            start()
        assert cli.run("lookup", "AB12CDE").stdout
        monkeypatch.setenv("VERIFYD_AUDIT", "on")
        pass_hours(1)
        ended = clock.now()
        for _ in range(2):
            start()
            pass_hours(1)
        (gap,) = lines(cli.directory / "audit")
        assert times(gap)[0][:19] == off["off_at"][:19]
        assert clock.iso_utc(ended)[:19] < times(gap)[1] < clock.iso_utc(ended + 1800)
        assert (gap["operation"], gap["reason"]) == ("gap", "ticket 1")
        assert gap["login"]
        (action,) = cli.json("actions", "list", "--action", "audit.off")
        assert action["after"] == {"trail": "off", "reason": "ticket 1"}
        cli.run("audit", "seal")
        assert "look-ups could go unrecorded" in cli.run("audit", "verify").stdout
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        assert "must be recorded" in cli.refusal("lookup", "AB12CDE")

    def test_it_can_be_switched_off_again_and_again(self, cli, pass_hours):
        """Each time has its gap."""
        for number in range(5):
            start()
            cli.json("audit", "off", "--reason", f"ticket {number}")
            pass_hours(2)
        start()
        gaps = list(lines(cli.directory / "audit"))
        assert [each["reason"] for each in gaps] == [f"ticket {number}" for number in range(5)]
        assert [times(each) for each in gaps] == sorted(times(each) for each in gaps)
        assert len({each["upkeep"]["from"] for each in gaps}) == 5

    def test_it_needs_no_trail(self, cli, monkeypatch):
        """Its disk can be full or gone; a command with the trail on does not end the gap."""
        start()
        (cli.directory / "audit").rename(cli.directory / "elsewhere")
        cli.json("audit", "off", "--reason", "disk full")
        (cli.directory / "elsewhere").rename(cli.directory / "audit")
        cli.run("lookup", "AB12CDE")
        assert operations(cli) == ["lookup"]
        start()
        assert operations(cli) == ["lookup", "gap"]

    @pytest.mark.parametrize(
        ("reason", "told"), [("x" * 10_000, "10,000"), ("a\x1bb", "printable"), (" ", "empty")]
    )
    def test_a_reason_must_be_one(self, cli, reason, told):
        """A wrong one switches nothing off."""
        start()
        assert told in cli.refusal("audit", "off", "--reason", reason)
        assert cli.json("audit", "hosts")[0]["off_at"] is None


class TestFailures:
    @pytest.fixture
    def off(self, cli, pass_hours):
        """A host that was switched off an hour ago."""
        start()
        off = cli.json("audit", "off", "--reason", "full")
        pass_hours(1)
        return off

    @pytest.fixture
    def failing(self, monkeypatch):
        """`failing()` lets no gap be recorded; undone by `failing.undo()`."""
        with monkeypatch.context() as patched:
            refusal = AuditError("the disk is full")
            patched.setattr("app.audit.hosts.record_use", Mock(side_effect=refusal))
            yield patched

    def test_a_gap_that_cannot_be_recorded_ends_all_the_same(self, cli, off, failing, monkeypatch):
        """The next seal records it, with the time when it ended."""
        first = clock.iso_utc(clock.now() + 1)
        start()
        last = clock.iso_utc(clock.now() + 1)
        failing.undo()
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        assert "must be recorded" in cli.refusal("lookup", "AB12CDE")
        assert cli.run("check").status == 1
        for _ in range(2):
            assert cli.run("audit", "seal").status == 0
        (gap,) = lines(cli.directory / "audit")
        began, ended = (each[:19] for each in times(gap))
        assert began == off["off_at"][:19]
        assert first[:19] <= ended <= last[:19]

    def test_switched_off_again_before_it_is_recorded(self, cli, off, failing):
        """Then one gap has both."""
        start()
        failing.undo()
        assert cli.json("audit", "off", "--reason", "again")["off_at"] == off["off_at"]
        start()
        (gap,) = lines(cli.directory / "audit")
        assert (gap["reason"], times(gap)[0][:19]) == ("again", off["off_at"][:19])

    @pytest.mark.parametrize("is_recorded", [False, True])
    def test_a_start_that_is_killed_loses_no_gap(
        self, cli, off, pass_hours, monkeypatch, is_recorded
    ):
        """The next one records it, with the same times even if it is there."""

        def killed(*words):
            if is_recorded:
                record_use(*words)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("app.audit.hosts.record_use", killed)
            with pytest.raises(KeyboardInterrupt):
                start()
        ended = clock.iso_utc(clock.now() + 2)
        pass_hours(1)
        for _ in range(2):
            start()
        gaps = [times(each) for each in lines(cli.directory / "audit")]
        assert len(gaps) == 1 + is_recorded
        assert len(set(gaps)) == 1
        assert gaps[0][1] < ended

    def test_it_is_a_condition(self, cli, off):
        """Whatever the setting says, until a service records again; without the reason."""
        assert "may go unrecorded" in cli.run("check").stdout
        (problem,) = cli.json("watch")["problems"]
        assert problem["key"] == "audit:off"
        assert "full" not in json.dumps(problem)
        start()
        assert cli.json("watch")["problems"] == []

    def test_a_host_that_records_but_is_not_told_to_is_a_condition(self, cli, monkeypatch):
        """The next start would fail."""
        start()
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        (problem,) = cli.json("watch")["problems"]
        assert problem["key"] == "audit:unrecorded"
        assert cli.run("check").stderr.count("must be recorded") == 1


class TestSeveralHosts:
    def test_an_unknown_host_follows_the_installation(self, cli, monkeypatch):
        """It can be switched off alone, and others can be forgotten."""
        start()
        first = machine()
        for module in ("owner", "hosts"):
            monkeypatch.setattr(f"app.audit.{module}.machine", lambda: "b" * 32)
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        assert "must be recorded" in cli.refusal("lookup", "AB12CDE")
        cli.json("audit", "off", "--reason", "a test host")
        assert cli.run("lookup", "AB12CDE").stdout
        assert [each["off_reason"] for each in cli.json("audit", "hosts")].count(None) == 1
        left = cli.json("audit", "hosts", "--forget", first, "--reason", "scrapped")
        assert [each["machine"] for each in left] == ["b" * 32]
        (action,) = cli.json("actions", "list", "--action", "audit.forget")
        assert action["after"] == {"reason": "scrapped"}
        assert json.dumps(action["before"]) == json.dumps({"trail": "on", "machine": first})

    def test_this_host_is_not_forgotten(self, cli):
        """That would switch it off without a trace in its trail."""
        start()
        words = ("audit", "hosts", "--reason", "x", "--forget")
        assert "this is this host" in cli.refusal(*words, machine())
        assert "the reason must have" in cli.refusal("audit", "hosts", "--forget", "a" * 32)
        assert "no host is nobody" in cli.refusal(*words, "nobody")


def test_an_upgrade_with_the_trail_on_is_remembered(bare_cli, monkeypatch):
    """The first start after it does: the release before recorded, and knew no hosts."""
    config = Config.from_env()
    with opened_database(create=True, check_schema=False) as engine:
        with engine.migration():
            main_scripts(engine).up("0014_load_change")
        claim(config.audit_dir, database_id(engine))
    monkeypatch.setenv("VERIFYD_AUDIT", "off")
    assert bare_cli.run("check").status == 0
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    prepare_database(config)
    start()
    monkeypatch.setenv("VERIFYD_AUDIT", "off")
    assert "must be recorded" in bare_cli.refusal("lookup", "AB12CDE")
