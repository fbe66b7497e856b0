"""What the console asks of the audit trail: done once, recorded first, gone after a day (D138)."""

import json
import os
import stat
from datetime import UTC
from itertools import count

import pytest

from app import clock
from app.accounts.authentication import Authenticator
from app.accounts.usage.counts import Count, CountIncrease
from app.accounts.usage.store import write
from app.audit.chain import Chain, Prune, with_digest
from app.audit.owner import claim
from app.audit.record import Criteria, Plate, time_of
from app.audit.report import Refusal, Report
from app.audit.seal import seal
from app.audit.trail import Trail
from app.audit.verify import Verdict
from app.errors import OperatorError
from app.jobs.audit_tasks import (
    DIFF,
    EXPORT,
    OF_TRAIL,
    REPORT,
    SEARCH,
    VERIFY,
    AuditTask,
    AuditTaskRequest,
    AuditTasks,
    SearchResult,
)
from app.jobs.results import KEPT_SECONDS, TrailQuestion
from app.jobs.tasks import DONE, FAILED, INTERRUPTED
from app.storage.versions import database_id
from tests.conftest import ON_SQLITE, STORAGE
from tests.unit.audit_trails import lines, look_up

pytestmark = STORAGE

PLATE = TrailQuestion(Criteria(plate="AB12CDE"), request_id="r1")
WANTED = AuditTaskRequest(SEARCH, "seen", "ann")
FORMS = count()


@pytest.fixture
def directory(world):
    return world.config.audit_dir


@pytest.fixture
def trail(world, directory):
    """A trail with three look-ups, one of them of two plates."""
    owner = claim(directory, database_id(world.engine))
    trail = Trail(directory, lambda: owner)
    trail.append(look_up("AB12CDE", user="=ann", reason="claim", reference="C-1", key="k1"))
    trail.append(look_up("ZZ99ZZZ", plates=[Plate("ZZ99ZZZ", found=False)], account="other"))
    trail.append(look_up(plates=[Plate("AB12CDE", found=True, compliant=False), Plate("X1")]))
    yield trail
    trail.close()


@pytest.fixture
def tasks(world, trail, process):
    return AuditTasks(world.engine, world.config)


class Process:
    """A process that does nothing until `end`, in place of that of a task."""

    def __init__(self):
        self.started = []
        self._kept = []

    def __call__(self, *words, kept):
        assert words[:2] == ("audit", "carry-out")
        self.started.append(int(words[2]))
        self._kept.append(os.dup(kept))

    def end(self):
        while self._kept:
            os.close(self._kept.pop())


@pytest.fixture
def process(monkeypatch):
    process = Process()
    monkeypatch.setattr("app.processes.start", process)
    yield process
    process.end()


def done(tasks, wanted=WANTED, question=PLATE):
    """Ask, and let the process do it; return the task."""
    task = tasks.begin(wanted, question)
    tasks.carry_out(task.id)
    return tasks.find(task.id)


def searched(tasks, **criteria):
    """Search with another form each time, and return what was found."""
    wanted = WANTED._replace(seen=str(next(FORMS)))
    return tasks.results.find(
        done(tasks, wanted, TrailQuestion(Criteria(**criteria))), SearchResult
    )


class TestBegin:
    def test_a_second_click_finds_the_first_task(self, tasks, process):
        """While it runs, whatever is asked; after that, if the same is asked."""
        task = tasks.begin(WANTED, PLATE)
        assert tasks.begin(WANTED, PLATE) == task
        assert tasks.begin(WANTED._replace(seen="other"), PLATE) == task
        tasks.carry_out(task.id)
        assert tasks.begin(WANTED, PLATE).id == task.id
        assert process.started == [task.id]
        assert tasks.begin(WANTED._replace(seen="other"), PLATE).id != task.id

    def test_other_people_and_kinds_do_not_wait(self, tasks):
        """Each person has one task of each kind at a time."""
        wanted = [WANTED, WANTED._replace(asked_by="ben"), WANTED._replace(kind=VERIFY)]
        begun = {tasks.begin(each, PLATE).id for each in wanted}
        assert len(begun) == 3

    def test_a_killed_one_is_interrupted_and_can_be_asked_again(self, tasks, process):
        """Its row says so at once, and its files are not shown."""
        task = tasks.begin(WANTED, PLATE)
        process.end()
        assert tasks.find(task.id).status == INTERRUPTED
        assert tasks.begin(WANTED, PLATE).id != task.id

    def test_nobody_else_finds_it(self, tasks):
        """A result was recorded for the person who asked."""
        task = tasks.begin(WANTED, PLATE)
        assert tasks.find_of(task.id, "ann", OF_TRAIL) == task
        assert tasks.find_of(task.id, "ben", OF_TRAIL) is None
        assert tasks.find_of(task.id, "ann", [DIFF]) is None
        assert tasks.latest("ben", OF_TRAIL, 5) == []

    def test_one_of_another_host_is_left_to_that(self, world, tasks, process):
        """Each host reads its own trail, so the same question begins a task here."""
        task = tasks.begin(WANTED, PLATE)
        AuditTask.update(host="other").execute(world.engine)
        process.end()
        assert tasks.find(task.id).is_running
        assert tasks.begin(WANTED, PLATE).id != task.id


@ON_SQLITE  # The rest is in files.
class TestCarryOut:
    def test_a_use_is_recorded_for_the_person_before_it_is_done(self, tasks, directory):
        """The record has the name of the console, the request and what was asked."""
        for kind in (SEARCH, EXPORT, REPORT, VERIFY):
            assert done(tasks, AuditTaskRequest(kind, "seen", "ann"), PLATE_AS_CSV).status == DONE
        found = [line for line in lines(directory) if "plates" not in line]
        assert [line["operation"] for line in found] == [SEARCH, EXPORT, REPORT]
        for line in found:
            assert {**line, "time": 0, "operation": 0} == {
                "time": 0,
                "operation": 0,
                "request_id": "r1",
                "user": "ann",
                "criteria": {"plate": "AB12CDE"},
            }

    def test_what_cannot_be_recorded_is_not_done(self, tasks, trail, directory, monkeypatch):
        """A search, an export and a report fail, and leave no file; a verification works."""
        monkeypatch.setattr(Trail, "append", refuse)
        for kind in (SEARCH, EXPORT, REPORT):
            task = tasks.begin(AuditTaskRequest(kind, "seen", "ann"), PLATE_AS_CSV)
            with pytest.raises(OperatorError, match="full"):
                tasks.carry_out(task.id)
            ended = tasks.find(task.id)
            assert (ended.status, ended.reason) == (FAILED, "the disk is full")
            assert [path.suffix for path in files_of(tasks, task)] == [".question"]
        assert done(tasks, AuditTaskRequest(VERIFY, "seen", "ann"), TrailQuestion()).status == DONE

    def test_a_search_finds_the_newest_first(self, tasks):
        """Of a bulk only the plate that was asked for; the search itself is not in it."""
        found = searched(tasks, plate="AB12CDE")
        assert found.are_all
        assert [row[1:] for row in found.rows] == [
            ("insurance", "acme", "", "", "", "", "AB12CDE", "not compliant"),
            ("insurance", "acme", "k1", "=ann", "claim", "C-1", "AB12CDE", "insured"),
        ]
        assert len(searched(tasks, account="other").rows) == 1
        assert len(searched(tasks, user="=ann").rows) == 1
        assert len(searched(tasks, user="nobody").rows) == 0

    def test_a_search_has_a_limit(self, tasks, trail, directory, monkeypatch):
        """The oldest are left out, unless all are asked for. A search finds earlier ones."""
        monkeypatch.setattr("app.jobs.audit_tasks.NEWEST", 3)
        monkeypatch.setattr("app.jobs.audit_tasks.FOUND_MAX", 4)
        seal(directory, current=True)
        trail.append(look_up("LAST"))
        assert searched(tasks, account="acme").are_all
        trail.append(look_up("AFTER"))
        found = searched(tasks, account="acme")
        assert (found.are_all, found.total) == (False, 5)
        assert 0 < found.seconds < 60
        assert [row.plate for row in found.rows] == ["AFTER", "", "LAST"]
        everything = TrailQuestion(Criteria(account="acme"), finds_all=True)
        task = done(tasks, WANTED._replace(seen="all"), everything)
        whole = tasks.results.find(task, SearchResult)
        assert (whole.are_all, whole.total) == (True, 6)
        assert [row.plate for row in whole.rows] == ["", "AFTER", "", "LAST"]
        assert tasks.results.path(task, "csv").read_bytes().count(b"\n") == 1 + 6

    def test_a_file_of_rows_has_no_formulas(self, tasks):
        """Clients choose the names of users."""
        task = done(tasks)
        text = tasks.results.path(task, "csv").read_text(encoding="utf-8-sig")
        assert text.startswith("time,operation,account,key,user,reason,reference,plate,answer\n")
        assert ",'=ann," in text

    @pytest.mark.parametrize("form", ["csv", "ndjson"])
    def test_an_export_is_that_of_the_command(self, tasks, directory, form):
        """Everything that was recorded before it was asked for."""
        task = done(tasks, WANTED._replace(kind=EXPORT), TrailQuestion(form=form))
        written = tasks.results.path(task, form).read_bytes()
        assert written.count(b"\n") == {"csv": 1 + 4, "ndjson": 3}[form]
        if form == "ndjson":
            assert list(map(json.loads, written.splitlines())) == list(lines(directory))[:3]

    def test_an_export_leaves_room_on_the_disk(self, tasks, monkeypatch):
        """One that is too large fails, and its file is removed."""
        monkeypatch.setattr("app.jobs.results._EXPORT_BYTES_MAX", 100)
        task = tasks.begin(WANTED._replace(kind=EXPORT), TrailQuestion(form="csv"))
        with pytest.raises(OperatorError, match="larger than 1 GB; choose a shorter period"):
            tasks.carry_out(task.id)
        assert [path.suffix for path in files_of(tasks, task)] == [".question"]

    def test_a_report_is_a_page_and_its_figures(self, tasks, world):
        """The same as the command writes, with the refusals of the usage."""
        caller = Authenticator(world.engine).find_caller(world.alice_key)
        assert caller
        write(
            world.engine, [CountIncrease(clock.now(), Count(caller, "insurance", "429"), 7, 0)], UTC
        )
        task = done(tasks, WANTED._replace(kind=REPORT), TrailQuestion())
        found = tasks.results.find(task, Report)
        assert (found.look_ups, found.refusals) == (3, [Refusal("alice", 0, 7, 0)])
        assert tasks.results.path(task, "html").read_bytes().startswith(b"<!doctype html>")

    def test_a_verification_names_what_it_found(self, tasks, directory):
        """A digest that the chain lacks is a fault; one that it has is none."""
        digest = seal(directory, current=True).digest
        good = done(tasks, AuditTaskRequest(VERIFY, "1", "ann"), TrailQuestion(digest=digest))
        assert tasks.results.find(good, Verdict).faults == []
        bad = done(tasks, AuditTaskRequest(VERIFY, "2", "ann"), TrailQuestion(digest="0" * 64))
        assert [each.kind for each in tasks.results.find(bad, Verdict).faults] == ["digest"]

    def test_a_prune_is_judged_by_the_age_of_the_setting(self, world, tasks, directory):
        """An earlier release left no record of the age. Reports say the same."""
        seal(directory, current=True)
        chain, now_ns = Chain(directory), clock.now_ns()
        before = time_of(now_ns - 400 * 86_400 * 10**9)
        line = Prune(time=time_of(now_ns), before=before, segments=[], previous=chain.digest)
        chain.add(with_digest(line))
        for keep, faults in (("24m", ["pruned_early"]), ("12m", [])):
            asked = AuditTasks(world.engine, world.configured(audit_keep=keep))
            verified = done(asked, AuditTaskRequest(VERIFY, keep, "ann"), TrailQuestion())
            verdict = asked.results.find(verified, Verdict)
            assert verdict
            assert kinds_of(verdict.faults) == faults
            reported = done(asked, AuditTaskRequest(REPORT, keep, "ann"), TrailQuestion())
            page = asked.results.find(reported, Report)
            assert page
            assert kinds_of(page.trails[0].faults) == faults

    def test_a_trail_that_is_gone_or_anothers_is_named(self, tasks, directory):
        """Nothing is read, and none is begun in its place."""
        owner = directory / "owner.json"
        text = owner.read_text()
        other = json.dumps({**json.loads(text), "database": "e" * 32})
        for content, reason in ((other, "trail of another database"), (None, "no audit trail")):
            owner.unlink() if content is None else owner.write_text(content)
            task = tasks.begin(WANTED, PLATE)
            with pytest.raises(OperatorError, match=reason):
                tasks.carry_out(task.id)
            assert reason in tasks.find(task.id).reason
        assert not owner.exists()


@ON_SQLITE
class TestFiles:
    def test_only_the_service_can_read_them(self, tasks, world):
        """They say who asked about which plate. No row does."""
        task = done(tasks)
        paths = files_of(tasks, task)
        assert {path.suffix for path in paths} == {".question", ".json", ".csv"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
        assert stat.S_IMODE(paths[0].parent.stat().st_mode) == 0o700
        assert "AB12CDE" not in str(AuditTask.select().dicts().get(world.engine))

    def test_they_are_removed_after_a_day(self, tasks, world, monkeypatch):
        """So is the row, with the next task; before that nobody finds it."""
        task = done(tasks)
        later = clock.now() + KEPT_SECONDS + 1
        monkeypatch.setattr(clock, "now", lambda: later)
        assert tasks.find_of(task.id, "ann", OF_TRAIL) is None
        assert tasks.latest("ann", OF_TRAIL, 5) == []
        done(tasks, WANTED._replace(seen="later"))
        assert not tasks.results.path(task, "question").exists()
        assert AuditTask.select().count(world.engine) == 1

    def test_a_damaged_question_is_a_failure(self, tasks):
        """The person is asked to ask again."""
        task = tasks.begin(WANTED, PLATE)
        tasks.results.path(task, "question").write_text("{")
        with pytest.raises(OperatorError, match="ask again"):
            tasks.carry_out(task.id)


PLATE_AS_CSV = TrailQuestion(PLATE.criteria, form="csv", request_id="r1")


def kinds_of(faults):
    return [each.kind for each in faults]


def files_of(tasks, task):
    return sorted(tasks.results.path(task, "x").parent.glob(f"{task.id}-*"))


def refuse(_trail, _record):
    raise OperatorError("the disk is full")
