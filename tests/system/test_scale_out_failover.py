"""A Postgres primary and standby behind two hosts: nothing acknowledged is ever lost."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.creators import Creators
from tests.system.postgres_pair import (
    BASE_BACKUP,
    PROMOTE,
    STANDBY_NAME,
    STOP_WAITING,
    WAIT_FOR_STANDBY,
    PostgresServer,
    is_followed,
    primary_and_standby,
    url_of,
    waits_for_standby,
)
from tests.system.processes import Answer, send, until
from tests.system.scale_out import FOLDER, Installation, installed

pytestmark = pytest.mark.system_long


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary, and a standby that follows it synchronously."""
    with primary_and_standby() as pair:
        yield pair


@pytest.fixture
def installation(tmp_path: Path, pair) -> Iterator[Installation]:
    """Two hosts behind nginx that know both Postgres servers."""
    with installed(tmp_path, url_of(*pair)) as installation:
        yield installation


@pytest.fixture
def keys(installation) -> list[str]:
    """Keys of several accounts."""
    return [installation.key_of(f"account-{n}", requests=1_000_000) for n in range(8)]


def test_no_acknowledged_domain_is_lost_when_the_primary_is_killed(pair, installation, keys):
    """The primary is killed under load and the standby promoted, without a restart of hosts."""
    primary, standby = pair
    workers = [host.workers() for host in installation.hosts]
    with Creators(installation.bind, keys) as creators:
        creators.wait_for(100)
        primary.kill()
        until(lambda: 503 in creators.statuses("POST"), "the loss to be noticed")
        before = creators.acknowledged()
        standby.sql(*PROMOTE)
        creators.wait_for(100)
    assert creators.statuses("POST") == {201, 503}
    assert creators.statuses("GET") <= {200, 404, 503}
    acknowledged = creators.acknowledged()
    missed = {each.domain for each in creators.outcomes if each.status == 404}
    assert missed.isdisjoint(acknowledged)
    kept = {name for (name,) in standby.sql("SELECT name FROM domain", database="verifyd")}
    assert before < acknowledged <= kept
    assert [host.workers() for host in installation.hosts] == workers


def test_without_a_standby_nothing_is_acknowledged(pair, installation, keys):
    """A creation waits for the standby, reads work, and the operator can stop the waiting."""
    primary, standby = pair
    standby.kill()
    answers: list[Answer] = []

    def create() -> None:
        body = '{"name": "example.com"}'
        headers = {"X-API-Key": keys[0], "Content-Type": "application/json"}
        answers.append(send(installation.bind, "POST", "/api/domains", body=body, headers=headers))

    client = threading.Thread(target=create)
    client.start()
    until(lambda: waits_for_standby(primary), "a commit that waits")
    answer = send(installation.bind, "GET", "/api/domains", headers={"X-API-Key": keys[1]})
    assert answer.status == 200
    assert not answers
    primary.sql(*STOP_WAITING)
    client.join()
    assert [answer.status for answer in answers] == [201]


def test_a_creation_that_the_standby_lacks_is_invisible(pair, installation, keys):
    """A creation that waited too long gives 500; it is visible once nothing waits."""
    primary, standby = pair
    standby.kill()
    headers = {"X-API-Key": keys[0], "Content-Type": "application/json"}
    answers: list[Answer] = []

    def create() -> None:
        body = '{"name": "example.com"}'
        answers.append(send(installation.bind, "POST", "/api/domains", body=body, headers=headers))

    def status() -> int:
        return send(installation.bind, "GET", "/api/domains/example.com", headers=headers).status

    client = threading.Thread(target=create)
    client.start()
    until(lambda: waits_for_standby(primary), "a commit that waits")
    for worker in [worker for host in installation.hosts for worker in host.workers()]:
        os.kill(worker, signal.SIGABRT)  # As gunicorn does after 30 s.
    client.join()
    (answer,) = answers
    assert (answer.status, answer.json()["code"]) == (500, "internal_error")
    assert answer.headers["X-RateLimit-Limit"] == "1000000"
    assert status() == 404
    primary.sql(*STOP_WAITING)
    until(lambda: status() == 200, "the creation to be seen")


def test_a_primary_that_was_failed_over_acknowledges_nothing(pair):
    """If it is started again by mistake, its commits wait for the lost standby."""
    primary, standby = pair
    primary.kill()
    standby.sql(*PROMOTE)
    standby.sql("CREATE TABLE new (id int)", database="verifyd")
    primary.start()
    lost = threading.Thread(target=_lose, args=(primary,))
    lost.start()
    until(lambda: waits_for_standby(primary), "a commit that waits")
    assert lost.is_alive()
    primary.kill()
    lost.join()


def _lose(primary: PostgresServer) -> None:
    with pytest.raises(Exception, match="connection"):
        primary.sql("CREATE TABLE old (id int)", database="verifyd")


def test_the_old_primary_becomes_the_standby(pair):
    """It is copied again from the promoted server, whose commits then wait for it."""
    primary, standby = pair
    primary.kill()
    standby.sql(*PROMOTE)
    primary.follow(standby).start()
    standby.sql(*WAIT_FOR_STANDBY)
    until(lambda: standby.sql("SELECT sync_state FROM pg_stat_replication") == [("sync",)], "it")
    standby.sql("CREATE TABLE new (id int)", database="verifyd")
    standby.kill()
    primary.sql(*PROMOTE)
    assert primary.sql("SELECT count(*) FROM new", database="verifyd") == [(0,)]


def test_a_new_standby_serves_alone_when_promoted(pair):
    """Its copied configuration waits for a standby, which must not apply once it is alone."""
    primary, standby = pair
    lose_for_good(pair)
    standby.follow(primary).start()
    until(lambda: is_followed(primary), "the standby to be synchronous")
    assert standby.sql("SHOW synchronous_standby_names") == [("verifyd_standby",)]
    primary.kill()
    standby.sql(*PROMOTE)
    until(lambda: standby.sql("SHOW synchronous_standby_names") == [("",)], "the order to end")
    standby.sql("CREATE TABLE new (id int)", database="verifyd")


def test_a_running_copy_is_no_standby(pair):
    """pg_basebackup confirms what it receives, but a partial copy cannot be promoted."""
    primary, standby = pair
    lose_for_good(pair)
    followers = "SELECT state, sync_state FROM pg_stat_replication ORDER BY state"
    with standby.being_copied(primary):
        until(lambda: ("streaming", "async") in primary.sql(followers), "the log to be copied")
        assert {sync_state for _, sync_state in primary.sql(followers)} == {"async"}


def lose_for_good(pair: tuple[PostgresServer, PostgresServer]) -> None:
    """Kill the standby, and drop its slot on the primary."""
    primary, standby = pair
    standby.kill()
    until(lambda: primary.sql("SELECT active FROM pg_replication_slots") == [(False,)], "its end")
    primary.sql("SELECT pg_drop_replication_slot('verifyd_standby')")


def test_the_page_has_the_commands_of_these_tests():
    """Every command of these tests is in the page as it is run."""
    page = (FOLDER.parent / "docs" / "several-hosts.md").read_text()
    for command in (BASE_BACKUP, STANDBY_NAME, *WAIT_FOR_STANDBY, *STOP_WAITING, *PROMOTE):
        assert command in page
