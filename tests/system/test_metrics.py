"""/metrics of a real server: the sum of all workers, even killed ones."""

import os
import shutil
import signal

from prometheus_client.parser import text_string_to_metric_families

from tests.system.processes import until

DOMAINS = "/api/domains"


def counted(service, route=DOMAINS, status="200"):
    """Return the number of requests of a route, counted over all workers."""
    answer = service.get("/metrics")
    assert answer.status == 200
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            labels = {"route": route, "status": status}
            if (sample.name, sample.labels) == ("verifyd_request_seconds_count", labels):
                return int(sample.value)
    return 0


def directories(world):
    return {path.name for path in (world.config.state_dir / "metrics").iterdir()}


def test_all_workers_are_counted_whichever_answers(serve):
    """Soon each reading has the requests of all workers, and no number falls before."""
    service = serve(workers=3)
    former = 0
    for expected in (20, 40):
        for _ in range(20):
            service.get(DOMAINS)

        def is_counted(expected=expected):
            nonlocal former
            now = counted(service)
            assert former <= now <= expected
            former = now
            return now == expected

        until(is_counted, "the counts of all workers")
        assert {counted(service) for _ in range(6)} == {expected}


def test_counts_of_killed_workers_stay(serve, world):
    """A worker that ends leaves its counts, and no files."""
    service = serve(workers=2)
    files = world.config.state_dir / "metrics" / str(service.process.pid)

    def pids():
        return {int(path.stem) for path in files.glob("*.counts")}

    killed: set[int] = set()

    def kill_one():
        before = set(service.workers())
        killed.add(max(before))
        os.kill(max(before), signal.SIGKILL)
        until(lambda: len(set(service.workers()) - before) == 1, "a new worker")

    def wait_for(number):
        until(lambda: counted(service) == number, "the counts of all workers")

    for turn in range(1, 5):
        for _ in range(10):
            service.get(DOMAINS)
        wait_for(turn * 10)
        kill_one()
        until(lambda: killed.isdisjoint(pids()), "its counts to be folded")
        assert counted(service) == turn * 10
    until(lambda: pids() == {0, *service.workers()}, "a file for each worker that lives")


def test_a_reload_keeps_the_counts(serve):
    """HUP replaces the workers and keeps their counts."""
    service = serve(workers=2)
    for _ in range(20):
        service.get(DOMAINS)
    before = set(service.workers())
    service.process.send_signal(signal.SIGHUP)
    until(lambda: before.isdisjoint(service.workers()), "new workers")
    until(lambda: counted(service) == 20, "all that was counted")


def test_servers_count_apart_and_leave_nothing(serve, world):
    """Two servers on one state directory have separate counts, which end with them."""
    first, second = serve(), serve()
    for _ in range(7):
        first.get(DOMAINS)
    until(lambda: counted(first) == 7, "the counts of all workers")
    assert counted(second) == 0
    assert directories(world) == {str(each.process.pid) for each in (first, second)}
    first.process.terminate()
    assert first.wait() == 0
    assert directories(world) == {str(second.process.pid)}
    second.process.kill()
    second.process.wait()
    third = serve()
    assert directories(world) == {str(third.process.pid)}


def test_a_removed_directory_is_made_again(serve, world):
    """Each worker writes all that it has counted again, new ones at once, without a restart."""
    service = serve(workers=2)
    for _ in range(10):
        service.get(DOMAINS)
    until(lambda: counted(service) == 10, "the counts of all workers")
    shutil.rmtree(world.config.state_dir / "metrics")

    def is_told_by_all():
        service.get(DOMAINS)
        return len(list(own.glob("*.counts"))) == 2

    own = world.config.state_dir / "metrics" / str(service.process.pid)
    until(is_told_by_all, "files of both workers")
    assert counted(service) > 10
    former = set(service.workers())
    shutil.rmtree(world.config.state_dir / "metrics")
    for pid in former:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(set(service.workers()) - former) == 2, "new workers")
    assert service.get("/metrics").status == 200
