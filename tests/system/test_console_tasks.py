"""What the console starts in processes of their own, with real workers and real kills (D135)."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.audit.owner import claim
from app.audit.record import Plate
from app.audit.trail import Trail
from app.console.rendering import ROOT
from app.jobs.audit_tasks import AuditTasks
from app.jobs.register_tasks import RegisterTasks
from app.people.sessions import create_link
from app.registers.history import list_loads
from app.settings.roles import Role
from app.storage.versions import database_id
from tests.system import processes
from tests.system.full_disk import Disk
from tests.system.processes import Service, lives, run_command, send, until
from tests.unit.audit_trails import lines, look_up
from tests.unit.held import loaded, makes, vehicles

ROLLBACK = f"{ROOT}/registers/native/rollback/1"
FORM = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
CLICKS = 8
AUDIT = f"{ROOT}/audit"
_HOLD = """
import os, sys
if "carry-out" in sys.orig_argv:
    with open({pid!r}, "w") as file:
        file.write(str(os.getpid()))
    open({fifo!r}).read()
"""


class Person:
    """Somebody who is signed in to the console of a service, by a new link or a given token."""

    def __init__(
        self, world: Any, service: Service, role: Role = Role.OPERATOR, token: str = ""
    ) -> None:
        self._bind = service.bind
        path = f"{ROOT}/sign-in/{token or create_link(world.engine, 'ann', role)}"
        answer = send(service.bind, "POST", path, headers=FORM)
        assert answer.status == 303
        self.cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]

    def get(self, path: str) -> str:
        """Open a page, and return it."""
        answer = send(self._bind, "GET", path, headers={"Cookie": self.cookie})
        assert answer.status == 200, path
        return answer.body.decode()

    def version(self, path: str) -> str:
        """Open a question, and return what its form carries."""
        found = re.search(r'name="version" value="(\w+)"', self.get(path))
        assert found is not None
        return found[1]

    def click(self, path: str, version: str, fields: str = "") -> str:
        """Send the form of a question, and return the path that it leads to."""
        headers = {**FORM, "Cookie": self.cookie}
        body = f"version={version}{fields}"
        answer = send(self._bind, "POST", path, body=body, headers=headers)
        assert answer.status == 303, answer.body
        return f"{ROOT}/{str(answer.headers['Location']).partition('console/')[2]}"


class Held:
    """Holds back each process of a task until `release` or `kill`.

    Python reads its module before the program, so the process exists, but has not begun.
    """

    def __init__(self, directory: Path) -> None:
        self._fifo, self._pid = directory / "go", directory / "pid"
        modules = directory / "modules"
        modules.mkdir()
        os.mkfifo(self._fifo)
        code = _HOLD.format(pid=str(self._pid), fifo=str(self._fifo))
        (modules / "sitecustomize.py").write_text(code)
        self.root = f"{modules}:{processes.ROOT}"

    def pid(self) -> int:
        """Wait for the process, and return its id."""
        until(lambda: self._pid.exists() and self._pid.read_text(), "the process of the task")
        return int(self._pid.read_text())

    def release(self) -> None:
        """Let the process begin."""
        self._fifo.write_text("go")  # It waits until the process reads.

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not lives(pid), "the end of the process")
        self._pid.unlink()


@pytest.fixture
def held(tmp_path):
    """Processes of tasks that wait; what is left of them is ended."""
    held = Held(tmp_path)
    yield held
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(held._pid.read_text()), signal.SIGKILL)


@pytest.fixture
def native(world):
    """A register that can be rolled back from load 2, of a SEAT, to load 1, of a FORD."""
    for make in ("FORD", "SEAT"):
        loaded(world, vehicles(make))


@pytest.fixture
def tasks(world):
    """The tasks of the installation."""
    return RegisterTasks(world.engine, world.config)


def ended(tasks, page):
    """Wait for the end of the task that a page shows, and return it."""
    number = int(page.rpartition("/")[2])
    until(lambda: not tasks.find(number).is_running, "the end of the task")
    return tasks.find(number)


def modes(world):
    return [line.mode for line in list_loads(world.engine)]


@pytest.mark.system_long
def test_clicks_at_once_roll_back_once(world, serve, native, tasks):
    """Eight clicks reach four workers at once: one process, one line of the history."""
    person = Person(world, serve(console="on", workers=4))
    version = person.version(ROLLBACK)
    with ThreadPoolExecutor(CLICKS) as clicks:
        pages = list(clicks.map(lambda _: person.click(ROLLBACK, version), range(CLICKS)))
    assert len({*pages}) == 1
    task = ended(tasks, pages[0])
    assert (task.status, task.asked_by) == ("done", "ann")
    assert person.click(ROLLBACK, version) == pages[0]
    assert modes(world) == ["rollback", "replace", "replace"]
    assert makes(world) == ["FORD"]
    assert "The register is again as load 1 left it." in person.get(pages[0])


def test_it_outlives_the_workers_and_the_service(world, serve, native, tasks, held):
    """Neither a killed worker nor a restart of the service ends it, and both show it running."""
    service = serve(console="on", root=held.root)
    person = Person(world, service)
    page = person.click(ROLLBACK, person.version(ROLLBACK))
    pid = held.pid()
    for worker in service.workers():
        os.kill(worker, signal.SIGKILL)
    service.wait_ready()
    assert "It is being done" in person.get(page)
    assert service.stop() == 0
    assert lives(pid)
    person_later = Person(world, serve(console="on"))
    assert "It is being done" in person_later.get(page)
    held.release()
    assert ended(tasks, page).status == "done"
    assert "Done" in person_later.get(page)
    assert makes(world) == ["FORD"]


def test_a_killed_process_changes_nothing_and_the_page_says_so(world, serve, native, tasks, held):
    """The task is interrupted, the register is as it was, and the next click does it."""
    service = serve(console="on", root=held.root)
    person = Person(world, service)
    page = person.click(ROLLBACK, person.version(ROLLBACK))
    held.kill()
    assert "It was interrupted" in person.get(page)
    assert makes(world) == ["SEAT"]
    again = person.click(ROLLBACK, person.version(ROLLBACK))
    assert again != page
    held.pid()
    held.release()
    assert ended(tasks, again).status == "done"
    assert tasks.find(int(page.rpartition("/")[2])).status == "interrupted"
    assert modes(world) == ["rollback", "replace", "replace"]


def test_its_log_is_that_of_the_service(world, serve, native, tasks):
    """What was done, and why it failed, is a JSON line on the service's stderr."""
    service = serve(console="on")
    person = Person(world, service)
    ended(tasks, person.click(ROLLBACK, person.version(ROLLBACK)))
    until(lambda: "load 3, rollback of native to load 1: done" in service.output("stderr"), "log")
    assert {line["level"] for line in service.lines("stderr")} == {"info"}


@pytest.mark.system_long
def test_a_locked_database_is_told(world, serve, native, tasks, held):
    """If nothing can be written for too long, the task is interrupted, and can be repeated."""
    service = serve(console="on", root=held.root)
    person = Person(world, service)
    page = person.click(ROLLBACK, person.version(ROLLBACK))
    pid = held.pid()
    with closing(apsw.Connection(str(world.database))) as other:
        other.execute("BEGIN IMMEDIATE")
        held.release()
        until(lambda: not lives(pid), "the end of the process")
        assert "It was interrupted" in person.get(page)
        other.execute("ROLLBACK")
    held._pid.unlink()
    assert makes(world) == ["SEAT"]
    again = person.click(ROLLBACK, person.version(ROLLBACK))
    held.pid()
    held.release()
    assert ended(tasks, again).status == "done"


@pytest.mark.system_long
def test_a_register_can_be_dropped_on_a_full_disk(world, serve, make_disk):
    """A new link, its use, the click and its process need no free space (D57)."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    disk = Disk(make_disk(24))
    settings = {**disk.move_here(world), "console": "on"}
    service = serve(**settings)
    disk.fill()
    words = ["console", "link", "--as", "ann", "--role", "operator"]
    link = run_command(*words, **settings).stdout.split()[0]
    person = Person(world, service, token=link.rpartition("/")[2])
    drop = f"{ROOT}/registers/native/drop"
    page = person.click(drop, person.version(drop))
    until(lambda: "It is being done" not in person.get(page), "the end of the task")
    assert "The register was dropped." in person.get(page)


@pytest.fixture
def trail(world):
    """A trail with bulk look-ups of 40 MB."""
    owner = claim(world.config.audit_dir, database_id(world.engine))
    trail = Trail(world.config.audit_dir, lambda: owner)
    plates = [Plate(f"AB{number}", found=True, insured=True) for number in range(5_000)]
    for _ in range(160):
        trail.append(look_up(plates=plates))
    yield trail
    trail.close()


@pytest.fixture
def audit_tasks(world):
    """What was asked of the trail."""
    return AuditTasks(world.engine, world.config)


@pytest.mark.system_long
def test_clicks_at_once_search_once(world, serve, trail, audit_tasks):
    """Eight clicks reach four workers at once: one process, one record of the search."""
    service = serve(console="on", audit="on", workers=4)
    person = Person(world, service, Role.AUDITOR)
    version = person.version(AUDIT)
    with ThreadPoolExecutor(CLICKS) as clicks:
        search = [AUDIT, version, "&by=plate&value=AB7"]
        pages = list(clicks.map(lambda _: person.click(*search), range(CLICKS)))
    assert len({*pages}) == 1
    assert ended(audit_tasks, pages[0]).status == "done"
    assert "The newest 100 records" in person.get(pages[0])
    assert [line["operation"] for line in lines(world.config.audit_dir)].count("search") == 1
    assert "AB7" not in service.output("stderr") + service.output("stdout")


@pytest.mark.system_long
def test_a_killed_search_is_interrupted(world, serve, trail, audit_tasks, held):
    """The page says so, nothing was recorded or shown, and the next click does it."""
    person = Person(world, serve(console="on", audit="on", root=held.root), Role.AUDITOR)
    fields = "&by=plate&value=AB7"
    page = person.click(AUDIT, person.version(AUDIT), fields)
    held.kill()
    assert "It was interrupted" in person.get(page)
    assert len(list(lines(world.config.audit_dir))) == 160
    again = person.click(AUDIT, person.version(AUDIT), fields)
    held.pid()
    held.release()
    assert ended(audit_tasks, again).status == "done"
    assert "The newest 100 records" in person.get(again)


@pytest.mark.system_long
def test_a_large_export_does_not_fill_a_worker(world, serve, trail, audit_tasks):
    """Its file is sent in pieces, whole, and the worker's memory stays as it is."""
    service = serve(console="on", audit="on", workers=1)
    person = Person(world, service, Role.AUDITOR)
    page = person.click(f"{AUDIT}/export", person.version(f"{AUDIT}/export"), "&format=ndjson")
    ended(audit_tasks, page)
    person.get(page)
    (worker,) = service.workers()
    before = peak_bytes(worker)
    answer = send(service.bind, "GET", f"{page}/ndjson", headers={"Cookie": person.cookie})
    assert answer.status == 200
    assert len(answer.body) > 30_000_000
    assert answer.body == b"".join(segments(world.config.audit_dir))
    assert peak_bytes(worker) - before < 5_000_000


def peak_bytes(pid):
    """Return the most memory that a process has had."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) * 1024


def segments(directory):
    """Yield the lines of a trail without the uses of it."""
    for path in sorted(directory.glob("0*.ndjson")):
        with path.open("rb") as file:
            yield from (line for line in file if b'"operation":"export"' not in line)
