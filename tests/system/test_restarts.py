"""Restarts under load, as systemd does them: the socket stays open."""

import signal
import socket
import threading
from contextlib import closing

import pytest

from app.accounts.administration import set_plan
from app.storage.engine import close_quietly
from tests.system.creators import Creators
from tests.system.processes import DEADLINE_SECONDS, connected, read_answer, until
from tests.system.site import behind_site

RESTARTS = 30
ENOUGH = 1_000_000
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def lift_limits(world) -> None:
    """Let the clients send as much as they can."""
    limits = {"window_seconds": 60, "bulk_max": 1, "domains_max": ENOUGH}
    set_plan(world.engine, "standard", {**limits, "requests": ENOUGH})
    close_quietly(world.engine)


def require_no_failure(creators: Creators) -> None:
    """Fail if a request of these clients failed."""
    assert creators.statuses("POST") == {201}
    assert creators.statuses("GET") == {200}
    assert len(creators.outcomes) > 2 * 8 * RESTARTS


@pytest.mark.system_long
def test_no_request_fails_over_30_restarts(serve, world, listener):
    """Requests of eight clients behind nginx wait during a restart."""
    lift_limits(world)
    bind = f"unix:{listener.getsockname()}"
    service = serve(bind=bind, listener=listener)
    with behind_site(bind, world.directory) as site, Creators(site, [world.alice_key]) as creators:
        for _ in range(RESTARTS):
            creators.wait_for(8)
            assert service.stop() == 0
            service = serve(bind=bind, listener=listener)
    require_no_failure(creators)


@pytest.mark.system_long
def test_no_request_fails_while_workers_are_renewed(serve, world, listener):
    """Eight clients behind nginx do not notice thirty HUPs."""
    lift_limits(world)
    bind = f"unix:{listener.getsockname()}"
    service = serve(bind=bind, listener=listener)
    with behind_site(bind, world.directory) as site, Creators(site, [world.alice_key]) as creators:
        for _ in range(RESTARTS):
            creators.wait_for(8)
            before = set(service.workers())
            service.process.send_signal(signal.SIGHUP)
            until(lambda: before.isdisjoint(service.workers()), "the old workers to go")  # noqa: B023
    require_no_failure(creators)


def test_a_worker_that_ends_answers_on_the_connections_it_has(serve):
    """After TERM, an idle connection gets an answer to one more request, and is then closed."""
    service = serve(workers=1)
    with connected(service.bind) as connection:

        def option() -> str | None:
            connection.sendall(REQUEST)
            answer = read_answer(connection)
            assert answer.status == 200
            return answer.headers["Connection"]

        assert option() == "keep-alive"
        service.process.terminate()
        until(lambda: option() == "close", "the worker to end")
        assert connection.recv(1) == b""
    assert service.wait() == 0


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.system_long)]
)
def test_idle_connections_delay_the_end_by_the_linger_at_most(serve, number):
    """INT closes them at once; TERM gives nginx two seconds to do so."""
    service = serve(workers=1)
    with connected(service.bind) as connection:
        connection.sendall(REQUEST)
        read_answer(connection)
        service.process.send_signal(number)
        assert service.process.wait(2 if number == signal.SIGINT else 5) == 0


def test_nginx_keeps_connections_and_closes_them_first(world):
    """Requests after each other share a connection, which nginx closes after a second."""
    with closing(socket.create_server(("127.0.0.1", 0))) as upstream:
        accepted: list[socket.socket] = []
        ended = threading.Event()

        def answer() -> None:
            connection, _ = upstream.accept()
            accepted.append(connection)
            while connection.recv(65_536):
                connection.sendall(ANSWER)
            connection.close()
            ended.set()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        bind = f"127.0.0.1:{upstream.getsockname()[1]}"
        with behind_site(bind, world.directory, before="") as site:
            with connected(site) as client:
                for _ in range(5):
                    client.sendall(REQUEST)
                    assert read_answer(client).status == 200
            assert ended.wait(DEADLINE_SECONDS)
        thread.join()
    assert len(accepted) == 1
