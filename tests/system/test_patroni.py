"""Patroni promotes standbys under load: nothing acknowledged is lost, without a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from app.accounts.administration import create_account, create_key, set_plan
from app.storage.engine import closed_afterwards, open_engine
from app.storage.stores import migrate
from tests.system.creators import Creators
from tests.system.patroni import SECONDS_MAX, Cluster, cluster
from tests.system.processes import Service, free_port, until

pytestmark = [pytest.mark.system_long, pytest.mark.timeout(1800)]

TIMES = 3
PLAN = {"requests": 1_000_000, "window_seconds": 60, "bulk_max": 10, "domains_max": 1_000_000}


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    """A primary and its synchronous standby."""
    with cluster() as pair:
        yield pair


@pytest.fixture(scope="module")
def keys(pair) -> list[str]:
    """Keys of several accounts."""
    with closed_afterwards(open_engine(pair.url)) as engine:
        migrate(engine)
        set_plan(engine, "many", PLAN)
        for number in range(4):
            create_account(engine, f"account-{number}", "many")
        return [create_key(engine, f"account-{number}")[1].text for number in range(4)]


@pytest.fixture
def service(pair, keys, tmp_path: Path) -> Iterator[Service]:
    """A host whose URL names both servers."""
    settings: dict[str, Any] = {"data_dir": tmp_path, "state_dir": tmp_path / "state"}
    bind = f"127.0.0.1:{free_port()}"
    with Service(tmp_path, bind, database_url=pair.url, **settings) as service:
        yield service.wait_ready()


@pytest.mark.parametrize("kind", ["switchover", "crash", "dead machine"])
def test_nothing_acknowledged_is_lost(pair, keys, service, kind):
    """Each answer is right or 503, and each domain that was acknowledged is kept."""
    workers = service.workers()
    with Creators(service.bind, keys) as creators:
        for _ in range(TIMES):
            primary, standby = pair.roles()
            creators.wait_for(20)
            before = len(creators.outcomes)
            if kind == "switchover":
                primary.switch_over(standby)
            elif kind == "crash":
                primary.crash_postgres()
            else:
                primary.kill()
                until(standby.is_leader, "the standby to lead", SECONDS_MAX)
                primary.start()
            done = len(creators.acknowledged()) + 20
            until(lambda: len(creators.acknowledged()) >= done, "further domains", SECONDS_MAX)  # noqa: B023 - called at once
            assert len(creators.outcomes) > before
    assert creators.statuses("POST") <= {201, 409, 503}
    assert creators.statuses("GET") <= {200, 404, 503}
    acknowledged = creators.acknowledged()
    missed = {each.domain for each in creators.outcomes if each.status == 404}
    assert missed.isdisjoint(acknowledged)
    with psycopg.connect(pair.url) as connection:
        kept = {name for (name,) in connection.execute("SELECT name FROM domain").fetchall()}
    assert acknowledged <= kept
    assert service.workers() == workers
    with psycopg.connect(pair.url, autocommit=True) as connection:
        connection.execute("DELETE FROM domain")
