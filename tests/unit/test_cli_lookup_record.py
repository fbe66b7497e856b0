"""`verifyd lookup` in the audit trail: who asked, why, and what was shown (D125)."""

import os
import re

import pytest

from app.audit.trail import Trail
from app.storage.file_lock import user_name
from app.storage.registers import list_entries
from app.storage.versions import set_tells_unknown
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row
from tests.unit.audit_trails import lines
from tests.unit.conftest import CommandLine

DAY = "2025-07-01"
CANARIES = ("CANARY", "P-1")
VEHICLE = {"registration": "AB12CDE", "make": "CANARYMAKE", "model": "CANARYMODEL"}
POLICY = {"number": "P-1", "validFrom": "2025-01-01", "validTo": "2025-12-31"}
INSURED = {"plate": "AB12CDE", "found": True, "insured": True, "compliant": False}


@pytest.fixture
def cli(bare_cli, world, monkeypatch) -> CommandLine:
    """The command line on the world's database, where Ann uses sudo, with the trail on."""
    for name, value in {
        "VERIFYD_DATABASE_URL": world.store.url,
        "VERIFYD_STATE_DIR": str(world.config.state_dir),
        "VERIFYD_DATA_DIR": str(world.directory),
        "VERIFYD_AUDIT": "on",
        "SUDO_USER": "ann",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "getlogin", lambda: "root")
    world.load([VEHICLE, {"registration": "LP63SED"}])
    world.load([{"registration": "AB12CDE", **POLICY}])
    return bare_cli


@pytest.fixture
def trail(cli):
    """The directory of the trail."""
    return cli.directory / "audit"


def recorded(trail):
    """Return the records without their times."""
    return [{name: v for name, v in line.items() if name != "time"} for line in lines(trail)]


def test_the_plates_of_a_command_are_one_record(cli, world, trail):
    """With both verdicts, and with who ran it, as the environment says."""
    words = ("--as-of", DAY, "--reason", "THEFT", "--reference", "Case 4, page 1")
    assert cli.run("lookup", "ab12cde", "ZZ9", "!?", *words).status == 1
    assert recorded(trail) == [
        {
            "operation": "lookup",
            "as_of": DAY,
            "reason": "THEFT",
            "reference": "Case 4, page 1",
            "login": "root",
            "sudo_user": "ann",
            "unverified": True,
            "plates": [INSURED, {"plate": "ZZ9", "found": False}, {"plate": "!?", "invalid": True}],
            "registers": {each.name: each.generation for each in list_entries(world.engine)},
        }
    ]


def test_a_plate_that_is_suggested_is_recorded_after_its_own(cli, trail):
    """As what it is: nobody asked for it (D175). A file has no suggestions."""
    shown = {"plate": "AB12CDE", "found": True, "suggested": True}
    assert cli.run("lookup", "A812CDE", "ZZ9", "ABI2CDE").status == 1
    (record,) = recorded(trail)
    assert record["plates"] == [
        {"plate": "A812CDE", "found": False},
        shown,
        {"plate": "ZZ9", "found": False},
        {"plate": "ABI2CDE", "found": False},
        shown,
    ]
    file = cli.file("fleet.csv", "plate", "A812CDE")
    assert cli.run("lookup", "--csv", file).status == 0
    assert recorded(trail)[-1]["plates"] == [{"plate": "A812CDE", "found": False}]


NOT_KNOWN = ["insured", "insuranceValid", "motValid", "roadTaxPaid", "noOutstandingFines"]


@STORAGE
def test_what_is_not_known_is_recorded(cli, world, trail):
    """The members by their names, of a period the verdicts; the record names the rule (D198)."""
    set_tells_unknown(world.engine, tells=True)
    file, period = cli.file("a.csv", "plate", "LP63SED"), ("--from", DAY, "--to", "2026-01-01")
    for words in (("LP63SED",), ("--csv", file)):
        assert cli.run("lookup", *words).status == 0
        assert cli.run("lookup", *words, *period).status == 0
    told = {"plate": "LP63SED", "found": True, "insured": False, "compliant": False}
    of_day = told | {"unknown": [*NOT_KNOWN, "compliant"]}
    of_period = told | {"unknown": ["insured", "compliant"]}
    records = recorded(trail)
    assert [record["rule"] for record in records] == [2] * 4
    assert [record["plates"] for record in records] == [[of_day], [of_period]] * 2
    shown = cli.run("audit", "search", "--plate", "LP63SED").stdout
    assert shown.count("not known if insured, not known if compliant") == 4
    assert cli.json("audit", "search", "--plate", "LP63SED")[0]["plates"] == [of_day]
    exported = cli.run("audit", "export", "--format", "csv").stdout.splitlines()
    assert exported[0].endswith(",upkeep,rule,unknown")
    assert exported[1].endswith(",2," + ";".join([*NOT_KNOWN, "compliant"]))
    assert cli.json("audit", "report")["unknown"] == 4
    assert "Answers that are not known: 4." in cli.run("audit", "report").stdout


@STORAGE
def test_by_the_former_rule_records_are_as_before(cli, world, trail):
    """The bytes of 1.0.0: no member is new."""
    set_tells_unknown(world.engine, tells=False)
    cli.run("lookup", "LP63SED", "ZZ9", "--as-of", DAY)
    (segment,) = trail.glob("*.ndjson")
    (line,) = segment.read_text().splitlines()
    members = '"operation":"lookup","as_of":"2025-07-01","login":"root","sudo_user":"ann"'
    plate = '{"plate":"LP63SED","found":true,"insured":false,"compliant":false}'
    end = f'"plates":[{plate},{{"plate":"ZZ9","found":false}}],"registers":{{"native":1}}}}'
    assert re.sub("[0-9:.TZ-]{27}", "", line, count=1) == (
        f'{{"time":"",{members},"unverified":true,{end}'
    )
    assert "Answers that are not known" not in cli.run("audit", "report").stdout


@ON_SQLITE
def test_without_a_session_it_is_the_user_of_the_process(cli, trail, monkeypatch):
    """Every record has an identity: in a container and in a unit of systemd that of the uid."""

    def nobody():
        raise OSError

    monkeypatch.setattr(os, "getlogin", nobody)
    monkeypatch.delenv("SUDO_USER")
    cli.json("lookup", "LP63SED")
    (record,) = recorded(trail)
    assert list(record) == ["operation", "login", "unverified", "plates", "registers"]
    assert record["login"] == user_name()


@ON_SQLITE
def test_who_ran_it_is_recorded_whatever_the_environment_says(cli, trail, monkeypatch):
    """Bytes that are not UTF-8 are escaped, and a long text is cut."""
    monkeypatch.setenv("SUDO_USER", os.fsdecode(b"\xff") + "x" * 200_000)
    cli.json("lookup", "LP63SED")
    assert recorded(trail)[0]["sudo_user"] == "\\udcff" + "x" * 99


@ON_SQLITE
@pytest.mark.parametrize("last_day", ["2025-12-31", "2026-01-01"])
def test_of_a_period_both_days_and_its_verdicts_are_recorded(cli, trail, last_day):
    """The plates of a command and those of a file alike; a search shows the period."""
    words = ("--from", DAY, "--to", last_day)
    cli.run("lookup", "AB12CDE", *words)
    cli.run("lookup", "--csv", cli.file("a.csv", "plate", "AB12CDE"), *words)
    records = recorded(trail)
    assert len(records) == 2
    for record in records:
        assert (record["first_day"], record["last_day"]) == (DAY, last_day)
        assert "as_of" not in record
        assert record["plates"] == [INSURED | {"insured": last_day == "2025-12-31"}]
    shown = cli.run("audit", "search", "--plate", "AB12CDE").stdout
    assert shown.count(f"insured, not compliant in the period {DAY} to {last_day}\n") == 2


def test_a_file_is_recorded_by_batches(cli, trail, monkeypatch):
    """All its plates in their order, without lines that have none."""
    monkeypatch.setattr("app.cli.lookup_csv.BATCH_LINES", 2)
    file = cli.file("a.csv", "plate", "AB12CDE", "ZZ9", "", "LP63SED", "a,b", "", "!")
    output = cli.directory / "b.csv"
    words = ("--output", output, "--as-of", DAY, "--reason", "FLEET")
    assert cli.run("lookup", "--csv", file, *words).status == 0
    records = recorded(trail)
    assert [[each["plate"] for each in record["plates"]] for record in records] == [
        ["AB12CDE", "ZZ9"],
        ["LP63SED"],
        ["!"],
    ]
    assert records[0]["plates"][0] == INSURED
    assert {record["reason"] for record in records} == {"FLEET"}


def test_a_file_without_plates_is_not_recorded(cli, trail):
    """Nothing was looked up."""
    file = cli.file("a.csv", "plate", "")
    assert cli.run("lookup", "--csv", file).status == 0
    assert recorded(trail) == []


@ON_SQLITE
class TestReasonNeeded:
    """VERIFYD_LOOKUP_REASONS: people say why they ask, with one of its reasons (D165)."""

    @pytest.mark.parametrize("words", [("AB12CDE",), ("--csv", "a.csv")])
    @pytest.mark.parametrize(
        "reasons",
        [
            ("*", (), "look-ups need a reason; give it with --reason"),
            ("FRAUD, THEFT", (), "one of the reasons FRAUD, THEFT; give it with --reason"),
            ("FRAUD,THEFT", ("--reason", "theft"), "one of the reasons FRAUD, THEFT"),
        ],
    )
    def test_without_it_nothing_is_looked_up(self, words, reasons, cli, monkeypatch):
        """Plates and files alike; the error names the reasons, and nothing is recorded."""
        monkeypatch.chdir(cli.directory)
        cli.file("a.csv", "plate", "AB12CDE")
        required, given, told = reasons
        monkeypatch.setenv("VERIFYD_LOOKUP_REASONS", required)
        refused = cli.run("lookup", *words, *given)
        assert (refused.status, refused.stdout) == (1, "")
        assert told in refused.stderr
        assert not (cli.directory / "audit").exists()

    @pytest.mark.parametrize(("required", "reason"), [("*", "What ever"), ("FRAUD,THEFT", "THEFT")])
    def test_with_it_the_answer_is_recorded(self, cli, trail, required, reason, monkeypatch):
        """Spaces around a reason are none of it."""
        monkeypatch.setenv("VERIFYD_LOOKUP_REASONS", required)
        cli.json("lookup", "AB12CDE", "--reason", f" {reason} ")
        assert [each["reason"] for each in recorded(trail)] == [reason]

    @pytest.mark.parametrize(
        ("reason", "told"),
        [
            ("x" * 10_000, "must have 1 to 64 printable ASCII characters; it has 10,000"),
            ("a\x1b[2Jb", "character 2 is not printable ASCII"),
            (" ", "it is empty"),
        ],
    )
    def test_a_reason_that_is_none_is_refused(self, cli, reason, told):
        """The error repeats nothing of it."""
        refused = cli.run("lookup", "AB12CDE", "--reason", reason)
        assert refused.status == 2
        assert told in refused.stderr
        assert reason.strip() not in refused.stderr or not reason.strip()

    @pytest.mark.parametrize("required", ["*,THEFT", "THEFT,,FRAUD", "a\tb", "x" * 65])
    def test_a_wrong_setting_is_named(self, cli, required, monkeypatch):
        monkeypatch.setenv("VERIFYD_LOOKUP_REASONS", required)
        refused = cli.run("lookup", "AB12CDE", "--reason", "THEFT")
        assert refused.status == 1
        assert "VERIFYD_LOOKUP_REASONS: " in refused.stderr


@ON_SQLITE
class TestRefused:
    @pytest.mark.parametrize("words", [("AB12CDE",), ("--csv", "a.csv")])
    def test_what_cannot_be_recorded_is_not_shown(self, cli, trail, words, monkeypatch):
        """The command ends with 1, and prints and writes no answer."""
        monkeypatch.chdir(cli.directory)
        cli.file("a.csv", "plate", "AB12CDE")
        trail.write_text("a file")
        output = ("--output", "b.csv") if words[0] == "--csv" else ()
        assert "audit" in cli.refusal("lookup", *words, *output)
        assert not (cli.directory / "b.csv").exists()

    def test_the_trail_of_another_host(self, cli, trail):
        """The reason says what to do."""
        cli.json("lookup", "AB12CDE")
        owner = trail / "owner.json"
        owner.write_text(owner.read_text().replace('machine":"', 'machine":"0'))
        assert "is the audit trail of another host" in cli.refusal("lookup", "AB12CDE")

    def test_a_record_that_cannot_be_synced(self, cli, trail, monkeypatch):
        """Commands end only when their records are on disk."""

        def failing(_descriptor):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", failing)
        assert "could not be synced to disk" in cli.refusal("lookup", "AB12CDE")

    @each_row("option", ["--reason", "--reference"])
    @each_row("text", ["", "A" * 65, "A\tB", "J\xfcrgen"])
    def test_a_wrong_text(self, cli, trail, option, text):
        """It is a usage error, as in the headers of the API."""
        told = cli.misuse("lookup", "AB12CDE", f"{option}={text}")
        assert f"argument {option}: must have 1 to 64 printable ASCII characters" in told
        assert not trail.exists()


@ON_SQLITE
def test_if_the_trail_is_off_nothing_is_recorded(cli, trail, monkeypatch):
    """The options are accepted all the same."""
    monkeypatch.setenv("VERIFYD_AUDIT", "off")
    cli.json("lookup", "AB12CDE", "--reason", "THEFT")
    assert not trail.exists()


def test_no_vehicle_data_is_recorded(cli, trail, monkeypatch):
    """No policy and no vehicle is in any file of the trail; no plate in what is logged."""
    cli.run("lookup", "AB12CDE", "--json")
    cli.run("lookup", "--csv", cli.file("a.csv", "plate", "AB12CDE"))
    written = b"".join(path.read_bytes() for path in trail.rglob("*") if path.is_file())
    assert written.count(b"AB12CDE") == 2
    assert not [canary for canary in CANARIES if canary.encode() in written]

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    told = cli.refusal("lookup", "AB12CDE")
    assert "No space left on device" in told
    assert "AB12CDE" not in told


@ON_SQLITE
def test_a_trail_is_closed(cli, trail, monkeypatch):
    """No thread and no file stays open after a command."""
    closed: list[None] = []
    close = Trail.close
    monkeypatch.setattr(Trail, "close", lambda self: closed.append(close(self)))
    cli.json("lookup", "AB12CDE")
    assert closed == [None]


@ON_SQLITE
def test_a_search_shows_both_verdicts(cli, trail):
    """The answer of a command is about insurance and compliance."""
    cli.run("lookup", "AB12CDE", "--as-of", DAY, "--reason", "THEFT")
    shown = cli.run("audit", "search", "--plate", "AB12CDE").stdout
    (line,) = [line for line in shown.splitlines() if " lookup " in line]
    told = f"insured, not compliant on {DAY}$"
    assert re.search(rf"ann +- +- +THEFT +- +AB12CDE +{told}", line)
