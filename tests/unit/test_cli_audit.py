"""`verifyd audit`: what its commands print, record and refuse (D116 to D119)."""

import errno
import io
import json
import os
import shutil
from datetime import UTC, timedelta
from itertools import chain

import msgspec
import pytest

from app import clock
from app.audit.chain import Prune, with_digest
from app.audit.digests import find_digests, latest
from app.audit.owner import claim
from app.audit.record import Plate, time_of
from app.audit.trail import Trail
from app.storage.engine import close_quietly, open_engine
from app.storage.versions import database_id
from tests.conftest import ON_SQLITE
from tests.unit.audit_trails import lines, look_up, opened

pytestmark = ON_SQLITE


@pytest.fixture
def directory(cli):
    return cli.directory / "audit"


@pytest.fixture
def trail(cli, directory, monkeypatch):
    """A trail with three look-ups of the database's service."""
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    engine = open_engine(cli.database_url)
    owner = claim(directory, database_id(engine))
    close_quietly(engine)
    trail = Trail(directory, lambda: owner)
    trail.append(look_up("AB12CDE", user="ann", reason="claim", reference="C-1", key="k1"))
    trail.append(look_up("ZZ99ZZZ", plates=[Plate("ZZ99ZZZ", found=False)], account="other"))
    trail.append(look_up(plates=[Plate("AB12CDE", found=True, compliant=False), Plate("X1")]))
    yield trail
    trail.close()


def last(directory):
    """Return the last record without its time and who the test runs as."""
    record = list(lines(directory))[-1]
    return {k: v for k, v in record.items() if k not in ("time", "login", "sudo_user")}


class TestSealing:
    @pytest.mark.parametrize(
        ("words", "what"), [(("seal",), "sealed"), (("prune", "--keep", "1d"), "removed")]
    )
    def test_a_full_disk_is_told_with_its_directory(self, cli, directory, monkeypatch, words, what):
        """The operator knows what to make room for, and that the next run continues."""

        def full(*_, **__):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(f"app.jobs.trail.{words[0]}", full)
        ended = cli.run("audit", *words)
        assert ended.status == 1
        assert f"in {directory} cannot be {what} now: No space left on device" in ended.stderr
        assert "the next run continues" in ended.stderr

    def test_the_digest_of_an_empty_trail_is_not_to_be_kept(self, cli, directory, monkeypatch):
        """Everything continues it. Whoever keeps it must not be told that the chain was cut."""
        monkeypatch.setenv("VERIFYD_AUDIT", "on")
        engine = open_engine(cli.database_url)
        claim(directory, database_id(engine))
        close_quietly(engine)
        assert "no digest to keep before the first record" in cli.run("audit", "seal").stdout
        ended = cli.run("audit", "verify", "--digest", "0" * 64)
        assert ended.status == 2
        assert "proves nothing; give a later one" in ended.stderr

    def test_seal_prints_and_logs_the_digest(self, cli, trail, directory):
        """The digest is on stdout and in the log."""
        ended = cli.run("audit", "seal")
        kept = latest(directory)
        assert ended.status == 0
        assert ended.stdout.endswith(
            f"\n\n3 records sealed; keep this line on another machine: {kept}\n"
        )
        assert [line["message"] for line in ended.log] == [
            f"audit trail sealed: segments 1; {kept}"
        ]
        log = (json.dumps(line).encode() for line in ended.log)
        assert find_digests(log).lines == {kept}

    def test_the_timer_leaves_the_current_hour_open(self, cli, trail, directory):
        """It seals hours that are over."""
        ended = cli.run("audit", "seal", "--scheduled", "--json")
        assert json.loads(ended.stdout)["segments"] == []

    @pytest.mark.parametrize("words", [("audit", "seal"), ("sweep",)])
    def test_hourly_jobs_remove_old_results_of_the_console(self, cli, words):
        """They are kept for a day (D138), also if nobody asks again and there is no trail."""
        results = cli.directory / "audit-results"
        results.mkdir()
        for name, age_seconds in (("old", 86_400 + 60), ("new", 86_400 - 60)):
            (results / name).write_text("{}")
            written = clock.now() - age_seconds
            os.utime(results / name, (written, written))
        assert cli.run(*words, "--scheduled").status == 0
        assert [path.name for path in results.iterdir()] == ["new"]

    @pytest.mark.parametrize("words", [("seal",), ("prune", "--keep", "24m")])
    def test_timers_do_nothing_without_a_trail(self, cli, directory, words):
        """They are installed also where VERIFYD_AUDIT is off."""
        assert cli.run("audit", *words, "--scheduled") == (0, "", "", [])
        assert not directory.exists()
        assert "there is no audit trail in" in cli.refusal("audit", *words)

    def test_a_trail_that_was_switched_off_is_still_pruned(
        self, cli, trail, directory, monkeypatch
    ):
        """Its records still grow old."""
        cli.run("audit", "seal")
        monkeypatch.setenv("VERIFYD_AUDIT", "off")
        former = list(directory.glob("*-*.ndjson"))
        monkeypatch.setattr("app.clock.now_ns", lambda: 4_102_444_800 * 10**9)
        ended = cli.run("audit", "prune", "--scheduled", "--json")
        assert json.loads(ended.stdout)["records"] == 3
        assert not [path for path in former if path.exists()]

    def test_what_an_operator_removes_is_an_action(self, cli, trail, monkeypatch):
        """A run of the timer, or one that removes nothing, is none (D165)."""
        cli.run("audit", "prune")
        cli.run("audit", "seal")
        monkeypatch.setattr("app.clock.now_ns", lambda: 4_102_444_800 * 10**9)
        assert cli.run("audit", "prune", "--keep", "1d").status == 0
        trail.append(look_up())
        cli.run("audit", "seal")
        monkeypatch.setattr("app.clock.now_ns", lambda: 4_202_444_800 * 10**9)
        assert cli.run("audit", "prune", "--scheduled").status == 0
        (action,) = cli.json("actions", "list", "--action", "audit")
        assert (action["action"], action["subject_kind"]) == ("audit.prune", "host")
        assert action["after"] == {
            "keep": "1d",
            "before": "2099-12-31T00:00:00.000000Z",
            "segments": 1,
        }

    def test_without_the_database_it_is_in_the_trail_only(self, cli, trail, monkeypatch):
        """Old records must go, whatever the database does; the log says what is missing."""
        cli.run("audit", "seal")
        monkeypatch.setattr("app.clock.now_ns", lambda: 4_102_444_800 * 10**9)
        monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{cli.directory}/gone.db")
        ended = cli.run("audit", "prune", "--json")
        assert json.loads(ended.stdout)["records"] == 3
        assert "recorded in the trail, but not as an action" in ended.log[0]["message"]

    def test_what_an_operator_accepts_is_an_action(self, cli, trail, directory):
        """With the line or segment, and the reason; long and hostile reasons are refused."""
        cli.run("audit", "seal")
        chain = directory / "chain.ndjson"
        forged = Prune(
            time=time_of(clock.now_ns()),
            before="9999",
            segments=[],
            previous=json.loads(chain.read_text())["digest"],
        )
        with chain.open("ab") as file:
            file.write(msgspec.json.encode(with_digest(forged)) + b"\n")
        hostile = {"x" * 10_000: "it has 10,000", "a\x1bb": "is not printable", " ": "empty"}
        for reason, told in hostile.items():
            assert told in cli.refusal("audit", "acknowledge", "chain:2", "--reason", reason)
        ended = cli.run("audit", "acknowledge", "chain:2", "--reason", "ticket 1")
        directory, fault, *_, sentence = ended.stdout.splitlines()
        assert (directory.split()[0], fault.split()) == ("directory", ["fault", "chain:2"])
        assert sentence.startswith("acknowledged: line 2 of the chain removed 0 segments")
        (action,) = cli.json("actions", "list", "--action", "audit.acknowledge")
        assert action["after"] == {"fault": "chain:2", "reason": "ticket 1"}

    @pytest.mark.parametrize("keep", ["0", "24", "24h", "-1d"])
    def test_an_age_must_be_clear(self, cli, trail, keep):
        """A wrong age removes nothing."""
        ended = cli.run("audit", "prune", f"--keep={keep}")
        assert ended.status == 2
        assert "days, months or years" in ended.stderr


class TestVerifying:
    def test_a_trail_that_verifies_ends_with_a_sentence(self, cli, trail):
        """The numbers are of what is sealed and what is not."""
        digest = cli.json("audit", "seal")["digest"]
        trail.append(look_up())
        ended = cli.run("audit", "verify", "--digest", digest.upper())
        assert ended.status == 0
        assert "sealed            1 segment, 3 records\n" in ended.stdout
        assert "not sealed yet    1 segment, 1 record\n" in ended.stdout
        assert ended.stdout.endswith(
            "\nnothing that was sealed was changed, removed or added, and contains the digest\n"
        )

    def test_without_a_digest_the_sentence_says_what_that_leaves_open(self, cli, trail):
        """Root can replace a whole trail, so that it verifies by itself."""
        cli.run("audit", "seal")
        ended = cli.run("audit", "verify").stdout
        assert ended.endswith(
            "without a digest that was kept elsewhere, this does not exclude root\n"
        )

    def test_faults_are_named_and_end_with_status_1(self, cli, trail, directory):
        """Each fault is a line; with --json it is an object."""
        cli.run("audit", "seal")
        (path,) = directory.glob("*-*.ndjson")
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(b"ann", b"bob"))
        ended = cli.run("audit", "verify")
        name = path.name.removesuffix(".ndjson")
        assert ended.status == 1
        assert (
            f"fault             segment {name} was changed: its digest does not fit [changed]\n"
            in ended.stdout
        )
        assert ended.stderr == "the audit trail does not verify: 1 fault\n"
        (document,) = json.loads(cli.run("audit", "verify", "--json").stdout)
        assert document["faults"] == [
            {
                "kind": "changed",
                "subject": name,
                "sentence": f"segment {name} was changed: its digest does not fit",
            }
        ]

    def test_a_forged_chain_does_not_write_to_the_terminal(self, cli, trail, directory):
        """Its names and times are shown escaped."""
        cli.run("audit", "seal")
        with (directory / "chain.ndjson").open("ab") as file:
            told = {"time": "\x1b[2J", "before": "", "segments": ["\x1b[1A"], "previous": ""}
            file.write(json.dumps({"kind": "prune"} | told).encode() + b"\n")
        printed = cli.run("audit", "verify").stdout
        assert "names \\x1b[1A, which was not there" in printed
        assert "\x1b" not in printed

    def test_several_directories_are_verified(self, cli, trail, directory, tmp_path):
        """Each host has its own trail."""
        cli.run("audit", "seal")
        copy = tmp_path / "other"
        shutil.copytree(directory, copy)
        documents = cli.json("audit", "verify", "--directory", directory, "--directory", copy)
        assert [each["directory"] for each in documents] == [str(directory), str(copy)]
        refused = cli.refusal(
            "audit", "verify", "--directory", directory, "--directory", copy, "--digest", "1" * 64
        )
        assert "a digest belongs to one trail" in refused

    def test_a_directory_without_a_trail_is_refused(self, cli, tmp_path):
        """An empty directory must not look like a trail that verifies."""
        (tmp_path / "empty").mkdir()
        for name in ("empty", "missing"):
            refused = cli.refusal("audit", "verify", "--directory", tmp_path / name)
            assert "there is no audit trail" in refused


class TestSearching:
    def test_a_plate_is_shown_with_who_asked_and_the_answer(self, cli, trail):
        """In any spelling, and without the other plates of a bulk."""
        ended = cli.run("audit", "search", "--plate", "ab12 cde")
        heading, second, first, empty, sentence = ended.stdout.splitlines()
        assert heading.split() == [
            "time",
            "operation",
            "account",
            "key",
            "user",
            "reason",
            "reference",
            "plate",
            "answer",
        ]
        assert first.split()[1:] == [
            "insurance",
            "acme",
            "k1",
            "ann",
            "claim",
            "C-1",
            "AB12CDE",
            "insured",
        ]
        assert second.endswith("AB12CDE  not compliant")
        assert (empty, sentence) == ("", "2 records found")

    @pytest.mark.parametrize("command", ["search", "report"])
    def test_a_plate_is_read_from_standard_input(self, cli, trail, directory, monkeypatch, command):
        """SEC: sudo logs arguments, so there must be a way without; exactly one plate is read."""
        words = ("audit", command, "--plate", "-")

        def typed(content: bytes) -> None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

        typed(b"\nab12 cde\r\n")
        assert "not compliant" in cli.run(*words).stdout
        assert last(directory)["criteria"] == {"plate": "AB12CDE"}
        for content, refusal in (
            (b"", "standard input has no plate"),
            (b"AB12CDE\nAB13CDE\n", "standard input has 2 plates; write one"),
            (b"AB12CDE\n" * 10_000, "standard input has over 64 KiB"),
        ):
            typed(content)
            assert refusal in cli.refusal(*words)

    def test_json_has_the_records(self, cli, trail):
        """Members are those of the trail."""
        records = cli.json("audit", "search", "--account", "other")
        assert [record["plates"] for record in records] == [[{"plate": "ZZ99ZZZ", "found": False}]]
        assert cli.json("audit", "search", "--user", "nobody") == []

    def test_bytes_that_are_no_text_find_nothing(self, cli, trail, directory):
        """An argument can have any bytes; the record of the search has them escaped."""
        assert cli.json("audit", "search", "--user", "\udcff") == []
        assert last(directory)["criteria"] == {"user": "\\udcff"}

    def test_the_newest_come_first(self, cli, trail):
        """A table has the newest 100, or as many as asked for; JSON has all as before."""
        for number in range(120):
            trail.append(look_up("MANY1", reference=f"C-{number}"))
        before = ("--to", time_of(clock.now_ns()))  # The searches are found by this plate, too.
        words = ("audit", "search", "--plate", "MANY1", *before)
        table = cli.run(*words).stdout.splitlines()
        assert [line.split()[6] for line in table[1:-2]] == [f"C-{n}" for n in range(119, 19, -1)]
        assert table[-1] == "the newest 100 records; use --all to list all"
        everything = cli.run(*words, "--all").stdout.splitlines()
        assert [line.split()[6] for line in everything[1:4]] == ["C-0", "C-1", "C-2"]
        assert everything[-1] == "120 records found"
        assert [r["reference"] for r in cli.json(*words)] == [f"C-{n}" for n in range(120)]
        two = cli.json(*words, "--limit", "2", "--scan")
        assert [r["reference"] for r in two] == ["C-119", "C-118"]
        assert cli.run(*words, "--limit", "120").stdout.endswith("\n120 records found\n")

    def test_several_directories_are_merged_by_time(self, cli, trail, directory, tmp_path):
        """Each record names its directory; what a copy of a trail has, too, is listed once."""
        copy, other = tmp_path / "copy", tmp_path / "other"
        shutil.copytree(directory, copy)
        trail.append(look_up("AB12CDE", account="last"))
        with opened(other) as another:
            another.append(look_up("AB12CDE", account="other"))
        trails = [("--directory", path) for path in (directory, copy, other)]
        words = ("audit", "search", "--plate", "AB12CDE", *chain.from_iterable(trails))
        wanted = [(str(directory), "acme")] * 2 + [(str(directory), "last"), (str(other), "other")]
        assert [(r["directory"], r["account"]) for r in cli.json(*words)] == wanted
        newest_first = cli.json(*words, "--limit", "9")
        # The search itself was recorded last.
        assert [r.get("account") for r in newest_first][1:] == ["other", "last", "acme", "acme"]

    def test_a_clock_that_was_wrong_holds_nothing_back(self, cli, trail, directory, tmp_path):
        """The newest record of a trail says 1970; those before it are among the newest of all."""
        with opened(tmp_path / "other") as other:
            for _ in range(5):
                other.append(look_up("AB12CDE", account="other"))
        trail.append(look_up("AB12CDE", account="new"))
        record = look_up("AB12CDE", account="1970")
        record.time = "1970-01-01T00:00:07.000000Z"
        trail.append(record)
        both = ("--directory", directory, "--directory", tmp_path / "other")
        words = ("audit", "search", "--plate", "AB12CDE", *both)
        assert [r["account"] for r in cli.json(*words, "--limit", "2")] == ["new", "other"]
        assert cli.json(*words, "--limit", "20")[-1]["account"] == "1970"

    def test_a_search_is_recorded_before_it_is_answered(self, cli, trail, directory, monkeypatch):
        """With what was asked for and by whom, as far as that is known; not in its own result."""
        monkeypatch.setenv("SUDO_USER", "root\x1b[2J")
        assert cli.json("audit", "search", "--plate", "NEW1", "--from", "2020-01-01") == []
        assert last(directory) == {
            "operation": "search",
            "unverified": True,
            "criteria": {"plate": "NEW1", "from": "2020-01-01T00:00:00.000000Z"},
        }
        assert list(lines(directory))[-1]["sudo_user"] == "root\x1b[2J"
        ended = cli.run("audit", "search", "--plate", "NEW1")
        assert "root\\x1b[2J" in ended.stdout
        assert ended.stdout.endswith("\n1 record found\n")

    def test_a_search_that_cannot_be_recorded_is_refused(self, cli, trail, directory):
        """Nothing is shown without a record."""
        (path,) = directory.glob("owner.json")
        path.write_text(path.read_text().replace('"machine":"', '"machine":"0'))
        ended = cli.run("audit", "search", "--plate", "AB12CDE")
        assert (ended.status, ended.stdout) == (1, "")
        assert "audit trail of another host" in ended.stderr

    def test_a_search_elsewhere_is_recorded_here(self, cli, trail, directory, tmp_path):
        """The trail of another host is not written to."""
        copy = tmp_path / "other"
        shutil.copytree(directory, copy)
        cli.run("audit", "search", "--plate", "AB12CDE", "--directory", copy)
        assert last(directory)["operation"] == "search"
        assert len(list(lines(copy))) == 3

    def test_a_search_creates_the_trail_where_it_is_on(self, cli, trail, directory, tmp_path):
        """Who looks into another host's trail is recorded even if this host has none yet."""
        copy = tmp_path / "other"
        trail.close()
        shutil.move(directory, copy)
        cli.run("audit", "search", "--plate", "AB12CDE", "--directory", copy)
        assert last(directory)["criteria"] == {"plate": "AB12CDE"}

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("--plate", "A", "--user", "b"),
            ("--plate", "A", "--from", "yesterday"),
            ("--plate", ""),
            ("--account", " "),
            ("--user", ""),
        ],
    )
    def test_wrong_arguments_are_refused(self, cli, trail, words):
        """One thing is searched for, in a clear period."""
        assert cli.run("audit", "search", *words).status == 2


@pytest.mark.parametrize("words", [("search", "--plate", "AB12CDE"), ("export",), ("report",)])
class TestPeriods:
    def test_a_period_that_ends_before_it_begins_is_refused(self, cli, trail, words):
        """Days that were given in the wrong order must not look as if nobody had asked."""
        period = ("--from", "2026-06-30", "--to", "2026-01-01")
        assert "--from must not be after --to" in cli.refusal("audit", *words, *period)

    def test_records_of_a_clock_that_was_ahead_are_found(self, cli, trail, words, monkeypatch):
        """A use ends where the trail ended, whatever the time was; `--to` still limits times."""
        time = clock.now_ns
        for days in (0, 1, 1_100, 0):
            ahead_ns = days * 86_400 * 10**9
            monkeypatch.setattr(clock, "now_ns", lambda ahead_ns=ahead_ns: time() + ahead_ns)
            trail.append(look_up("AB12CDE"))
        tomorrow = (clock.today(UTC) + timedelta(days=1)).isoformat()
        assert told(cli.run("audit", *words)) == {"search": 6, "export": 7, "report": 7}[words[0]]
        limited = told(cli.run("audit", *words, "--to", tomorrow))
        # Each has the record of the use before; that is no look-up.
        assert limited == {"search": 6, "export": 7, "report": 6}[words[0]]
        assert told(cli.run("audit", *words, "--from", "2029-01-01")) == 1


def told(ended):
    """Return the number of records that the last sentence of a command tells."""
    return int((ended.stderr or ended.stdout).splitlines()[-1].split()[0])


class TestExporting:
    def test_lines_are_exported_as_they_are(self, cli, trail, directory):
        """Everything until now; the export itself is recorded, but is not part of it."""
        before = list(lines(directory))
        ended = cli.run("audit", "export")
        assert [json.loads(line) for line in ended.stdout.splitlines()] == before
        assert ended.stderr == "3 records exported\n"
        assert last(directory) == {"operation": "export", "unverified": True, "criteria": {}}

    def test_csv_is_exported(self, cli, trail):
        """One line for each plate."""
        ended = cli.run("audit", "export", "--format", "csv", "--to", "2100-01-01")
        rows = ended.stdout.splitlines()
        assert rows[0].startswith("time,request_id,account,key,operation,")
        assert len(rows) == 5


class TestReporting:
    def test_a_page_is_written_and_the_report_is_recorded(self, cli, trail, directory):
        """The sentence goes to stderr, so that the page can be redirected."""
        ended = cli.run("audit", "report")
        assert ended.stdout.startswith("<!doctype html>")
        assert ended.stdout.endswith("</html>\n")
        assert ended.stderr == "3 look-ups reported; the trail verifies\n"
        assert last(directory)["operation"] == "report"

    def test_json_is_written(self, cli, trail):
        """The period is that of the options."""
        document = cli.json("audit", "report", "--from", "2020-01-01")
        assert document["from"] == "2020-01-01T00:00:00.000000Z"
        assert document["look_ups"] == 3

    def test_one_about_a_plate_has_no_other_plate(self, cli, trail, directory):
        """Its records, watches and events are a page or a document, and its use is recorded."""
        ended = cli.run("audit", "report", "--plate", "ab12 cde")
        assert ended.stdout.startswith("<!doctype html>")
        assert ended.stderr == "2 records, 0 watches, 0 events reported\n"
        use = last(directory)
        assert (use["operation"], use["criteria"]) == ("report", {"plate": "AB12CDE"})
        document = cli.json("audit", "report", "--plate", "AB12CDE", "--to", "2100-01-01")
        shown = [plate["plate"] for each in document["records"] for plate in each.get("plates", [])]
        assert shown == ["AB12CDE"] * 2
        assert (document["watches"], document["events"]) == ([], [])

    def test_one_about_a_plate_is_made_of_a_copy_without_the_database(
        self, cli, trail, monkeypatch
    ):
        """Then it says that watches and events are not known."""
        monkeypatch.setattr("app.cli.audit_search.record_use", lambda *_: None)
        monkeypatch.setenv("VERIFYD_DATABASE_URL", "sqlite:////nowhere/verifyd.db")
        ended = cli.run("audit", "report", "--plate", "AB12CDE")
        assert ended.stderr == "2 records reported\n"
        assert ended.stdout.count("not known here") == 2

    def test_one_about_a_plate_says_if_it_has_only_the_newest(self, cli, trail, monkeypatch):
        """It names the search that finds all."""
        monkeypatch.setattr("app.jobs.plate_report.ROWS_MAX", 1)
        ended = cli.run("audit", "report", "--plate", "AB12CDE")
        assert ended.stderr == "1 record, 0 watches, 0 events reported\n"
        assert "audit search --plate - --all" in ended.stdout


@pytest.mark.parametrize("words", [("verify", "--digests"), ("hosts", "--reason", "x", "--forget")])
def test_an_option_that_is_empty_is_no_absent_one(cli, trail, words):
    """A variable of a shell that is not set must not leave out what was asked for."""
    assert "must not be empty" in cli.misuse("audit", *words, "")
