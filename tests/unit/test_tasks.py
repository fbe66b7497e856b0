"""Tasks of the console: each is done once, and its row is true whatever happens (D135)."""

import os
import socket
import threading
from functools import partial

import pytest

from app.actions import list_actions
from app.errors import OperatorError
from app.jobs.register_tasks import RegisterTask, RegisterTaskRequest, RegisterTasks
from app.jobs.tasks import FAILED, INTERRUPTED
from app.registers.generations import locked
from app.registers.history import RegisterLoad, list_loads
from app.registers.undo import drop_register
from app.storage.engine import close_quietly, open_engine
from app.storage.registers import Register
from tests.unit.held import loaded, makes, vehicles

ROLLBACK = RegisterTaskRequest("native", "rollback", 1, "seen", "ann")


class Outdated(Exception):
    """The form shows an older state."""


def outdated():
    raise Outdated


@pytest.fixture
def tasks(world, alive):
    """The tasks of a register that can be rolled back from load 2 to load 1."""
    for make in ("FORD", "SEAT"):
        loaded(world, vehicles(make))
    return RegisterTasks(world.engine, world.config)


@pytest.fixture
def alive(monkeypatch):
    """A process that does nothing, in place of that of a task; `alive.end()` ends it."""

    class Alive:
        def __init__(self):
            self.started = []
            self._kept = []

        def __call__(self, *words, kept):
            assert words[:2] == ("imports", "carry-out")
            self.started.append(int(words[2]))
            self._kept.append(os.dup(kept))  # As a process does that inherits it.

        def end(self):
            while self._kept:
                os.close(self._kept.pop())

    process = Alive()
    monkeypatch.setattr("app.processes.start", process)
    yield process
    process.end()


def begun(tasks, wanted=ROLLBACK, require=lambda: None):
    return tasks.begin(wanted, require)


class TestBegin:
    def test_a_task_runs_from_the_first_moment(self, tasks, alive):
        """Its row says who asked, for what, where and when."""
        task = begun(tasks)
        assert task.is_running
        assert (task.register, task.action, task.to_load, task.seen) == ROLLBACK[:4]
        assert (task.asked_by, task.host) == ("ann", socket.gethostname())
        assert alive.started == [task.id]
        assert tasks.running() == [task]
        assert tasks.find(task.id) == tasks.latest("native", 5)[0] == task

    def test_a_second_click_finds_the_running_one(self, tasks, alive):
        """Whatever is asked of the register meanwhile, nothing else begins."""
        task = begun(tasks)
        assert begun(tasks, require=outdated) == task
        assert begun(tasks, RegisterTaskRequest("native", "drop", None, "other", "ben")) == task
        assert alive.started == [task.id]

    def test_a_form_that_is_sent_again_finds_what_it_did(self, tasks):
        """After the end, the same form leads to the same task, although the register differs."""
        task = begun(tasks)
        tasks.carry_out(task.id)
        again = begun(tasks, require=outdated)
        assert (again.id, again.status) == (task.id, "done")
        with pytest.raises(Outdated):
            begun(tasks, ROLLBACK._replace(seen="older"), require=outdated)
        assert RegisterTask.select().count(tasks._engine) == 1

    def test_many_at_once_begin_one(self, world, tasks, alive):
        """Of requests in several workers, one begins; all get the same task."""
        ready, found = threading.Barrier(5), []

        def ask():
            engine = open_engine(world.config.database_url)
            own = RegisterTasks(engine, world.config)
            ready.wait()
            found.append(begun(own).id)
            close_quietly(engine)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 5
        assert len({*found}) == len(alive.started) == 1

    def test_an_older_form_begins_nothing(self, tasks, alive):
        """If the form is refused, there is no task."""
        with pytest.raises(Outdated):
            begun(tasks, require=outdated)
        assert tasks.latest("native", 5) == alive.started == []

    def test_a_process_that_cannot_start_is_a_failure(self, tasks, alive, monkeypatch):
        """The task says so, and the next one can begin."""

        def start(*_words, kept):
            raise OSError("no memory")

        monkeypatch.setattr("app.processes.start", start)
        task = begun(tasks)
        assert (task.status, task.reason) == (FAILED, "its process cannot be started: no memory")
        monkeypatch.setattr("app.processes.start", alive)
        assert begun(tasks).id != task.id

    def test_old_tasks_are_removed(self, world, tasks):
        """They are kept for 400 days, as loads are; a running one stays."""
        done = begun(tasks)
        tasks.carry_out(done.id)
        running = begun(tasks, RegisterTaskRequest("native", "drop", None, "next", "ann"))
        long_ago = done.asked_at - 401 * 86_400
        RegisterTask.update(asked_at=long_ago).execute(world.engine)
        begun(tasks, RegisterTaskRequest("other", "drop", None, "seen", "ann"))
        assert tasks.find(done.id) is None
        assert tasks.find(running.id).is_running


class TestKilled:
    def test_it_is_interrupted_and_can_be_asked_for_again(self, tasks, alive):
        """A task whose process is gone is interrupted at once, without anybody writing that."""
        task = begun(tasks)
        alive.end()
        assert tasks.find(task.id).status == INTERRUPTED
        assert tasks.running() == []
        again = begun(tasks)
        assert again.is_running
        assert again.id > task.id
        assert tasks.find(task.id).status == INTERRUPTED

    def test_one_that_was_given_up_does_nothing_any_more(self, world, tasks, alive):
        """If its process was only slow, its change is not committed."""
        task = begun(tasks)
        alive.end()
        begun(tasks)
        with pytest.raises(OperatorError, match=f"no task {task.id} that waits"):
            tasks.carry_out(task.id)
        assert makes(world) == ["SEAT"]

    def test_a_task_that_ends_meanwhile_takes_its_change_with_it(self, world, tasks):
        """The change and the end of the task are one commit."""
        task = begun(tasks)
        find = tasks.find

        def find_then_end(task_id):
            found = find(task_id)
            RegisterTask.update(status=INTERRUPTED).execute(world.engine)
            return found

        tasks.find = find_then_end
        with pytest.raises(OperatorError, match="has ended before"):
            tasks.carry_out(task.id)
        assert makes(world) == ["SEAT"]
        assert {line.mode for line in list_loads(world.engine)} == {"replace"}

    def test_a_process_of_another_host_is_given_time(self, world, tasks, alive):
        """It cannot be seen from here, so it counts as running for a minute, or while it locks."""
        task = begun(tasks)
        alive.end()
        RegisterTask.update(host="other").execute(world.engine)
        assert tasks.find(task.id).is_running
        RegisterTask.update(asked_at=task.asked_at - 61).execute(world.engine)
        assert tasks.find(task.id).status == INTERRUPTED
        with locked(world.engine, "native"):
            assert tasks.find(task.id).is_running


class TestCarryOut:
    def test_the_task_names_the_line_of_the_history(self, world, tasks):
        """When the register has changed, the task is done."""
        task = begun(tasks)
        tasks.carry_out(task.id)
        done = tasks.find(task.id)
        assert (done.status, done.load_id, done.reason) == ("done", 3, None)
        assert done.finished_at >= done.asked_at
        assert makes(world) == ["FORD"]
        assert tasks.of_load(3) == done
        recorded = list_actions(world.engine)[0]
        assert recorded[2:8] == ("ann", None, "console", "imports.rollback", "register", "native")
        assert tasks.of_load(2) is None
        assert not list((world.config.state_dir / "tasks").iterdir())

    def test_it_is_done_once(self, world, tasks):
        """A second process for the same task is refused."""
        task = begun(tasks)
        tasks.carry_out(task.id)
        with pytest.raises(OperatorError, match=f"no task {task.id} that waits"):
            tasks.carry_out(task.id)
        assert RegisterLoad.select().count(world.engine) == 3

    def test_the_reason_of_a_failure_is_kept(self, world, tasks):
        """What the command would print is in the task, and the register stays as it was."""
        task = begun(tasks)
        other = open_engine(world.config.database_url)
        with locked(other, "native"), pytest.raises(OperatorError, match="another load"):
            tasks.carry_out(task.id)
        close_quietly(other)
        failed = tasks.find(task.id)
        assert failed.status == FAILED
        assert failed.reason.startswith("another load of the register native is running")
        assert makes(world) == ["SEAT"]

    def test_an_unexpected_error_is_not_quoted(self, tasks, monkeypatch):
        """Its message can hold a record, so the task has only its type."""

        def fail(*_arguments, **_options):
            raise RuntimeError("AB12CDE")

        monkeypatch.setattr("app.jobs.register_tasks.roll_back", fail)
        task = begun(tasks)
        with pytest.raises(RuntimeError):
            tasks.carry_out(task.id)
        assert tasks.find(task.id).reason == "unexpected RuntimeError; see the log"

    def test_drop_undrop_and_purge(self, world, tasks):
        """Each action does what the command of its name does."""
        ask = partial(RegisterTaskRequest, "native", to_load=None, asked_by="ann")
        for seen, action in enumerate(("drop", "undrop", "drop", "purge")):
            task = begun(tasks, ask(action=action, seen=str(seen)))
            tasks.carry_out(task.id)
            done = tasks.find(task.id)
            assert done.status == "done"
            assert tasks.of_load(done.load_id).action == action
            is_there = Register.select().count(world.engine) == 1
            assert is_there == (action == "undrop")
        modes = [line.mode for line in list_loads(world.engine, limit=4)]
        assert modes == ["purge", "drop", "undrop", "drop"]

    def test_a_purge_that_finds_nothing_is_done(self, world, tasks):
        """If somebody else has purged it, there is nothing left to do, and no line of its own."""
        drop_register(world.engine, "native")
        wanted = RegisterTaskRequest("native", "purge", None, "seen", "ann")
        task = begun(tasks, wanted)
        tasks.carry_out(task.id)
        assert tasks.find(task.id).status == "done"
