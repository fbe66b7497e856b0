"""A service whose bucket file fails reports it, and recovers by itself (D11)."""

import os
import shutil
import signal

import pytest

from tests.system.processes import GUNICORN, SERVE, run_command, until

DOMAINS = "/api/domains"


def answers(service, count=12):
    """Return the statuses of this many answers, from all workers."""
    return {service.get(DOMAINS).status for _ in range(count)}


def remaining(service):
    return int(service.get(DOMAINS).headers["X-RateLimit-Remaining"])


@pytest.fixture
def service(serve, world):
    """A server that has answered one request."""
    service = serve(command=SERVE, workers=3)
    assert answers(service) == {200}
    return service


def test_a_missing_file_stops_the_service_until_it_is_back(service, world):
    """No worker, even a new one, admits requests without the file; all use it once back."""
    away = world.limits.rename(world.limits.with_name("away"))
    assert answers(service) == {503}
    before = service.workers()
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(set(service.workers()) - set(before)) == 1, "a new worker")
    assert answers(service) == {503}
    assert not world.limits.exists()
    away.rename(world.limits)
    assert answers(service) == {200}
    reasons = [line["message"] for line in service.lines("stderr") if "limits" in line["logger"]]
    assert any("does not exist" in reason for reason in reasons)
    assert any("can be kept again" in reason for reason in reasons)


@pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
def test_a_start_makes_the_file_for_all_servers(serve, world, command):
    """A second server that starts makes the missing file, and the first one uses it."""
    first = serve(command=command)
    assert answers(first) == {200}
    world.limits.unlink()
    assert answers(first) == {503}
    second = serve(command=command)
    assert answers(second) == answers(first) == {200}
    left = remaining(first)
    assert remaining(second) <= left + 1


def test_a_truncated_file_stops_the_service_until_it_is_whole(service, world):
    """Workers survive a truncated file, answer 503, and continue when it is whole again."""
    workers = service.workers()
    whole = world.limits.with_name("whole")
    shutil.copy(world.limits, whole)
    for size_bytes in (0, 100_000):
        os.truncate(world.limits, size_bytes)
        assert answers(service) == {503}
    whole.replace(world.limits)
    assert answers(service) == {200}
    assert set(workers) <= set(service.workers())


def test_another_file_in_its_place_is_left_alone(service, world):
    """Another file in its place is neither used nor changed."""
    away = world.limits.rename(world.limits.with_name("away"))
    world.limits.write_text("somebody else's")
    assert answers(service) == {503}
    assert world.limits.read_text() == "somebody else's"
    away.replace(world.limits)
    assert answers(service) == {200}


@pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
def test_a_start_refuses_a_file_that_is_not_its_own(serve, world, command):
    """With another file of that name the service does not start; the error has the reason."""
    world.limits.write_text("somebody else's")
    service = serve(command=command, wait=False)
    assert service.wait() == 1
    assert "limits is not a file of this program; move it away" in service.output("stderr")
    assert world.limits.read_text() == "somebody else's"


def test_the_command_line_sees_and_resets_a_running_services_bucket(service, world):
    """`verifyd limits` works while the service runs, and the next answer shows it."""
    settings = {
        "database_url": world.config.database_url,
        "state_dir": world.config.state_dir,
    }
    shown = run_command("limits", "show", "alice", "--json", **settings)
    assert (shown.returncode, '"limit": 600' in shown.stdout) == (0, True)
    reset = run_command("limits", "reset", "alice", **settings)
    assert (reset.returncode, reset.stderr) == (0, "")
    assert remaining(service) == 599
