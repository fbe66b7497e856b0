"""What workers know of keys counts in all of them only until it changes (D3, D109)."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import apsw
import pytest

from app.accounts.administration import create_key
from app.accounts.models import ApiKey
from app.accounts.tokens import parse_token
from app.backup import sqlite
from tests.conftest import ON_SQLITE, STORAGE
from tests.system.processes import Service, run_command, send

PATH = "/v1/account"
ROUNDS = 5
ENOUGH = 48
"""So many requests reach each of four workers."""


@pytest.fixture
def busy(serve) -> Service:
    """A service with four workers that know the key."""
    service: Service = serve(workers=4, anonymous_limit=1_000_000)
    assert answers(service, service.key) == {200: ENOUGH}
    return service


def answers(service: Service, key: str) -> Counter[int]:
    """Return the statuses of requests that all workers answer."""

    def ask(_: int) -> int:
        return send(service.bind, "GET", PATH, headers={"X-API-Key": key}).status

    with ThreadPoolExecutor(8) as clients:
        return Counter(clients.map(ask, range(ENOUGH)))


def test_a_revoked_key_is_refused_by_all_workers(busy, world):
    """No worker admits a key after the command that revoked it has ended."""
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    for _ in range(ROUNDS):
        key, token = create_key(world.engine, "alice")
        assert answers(busy, token.text) == {200: ENOUGH}
        assert run_command("keys", "revoke", key.id, **settings).returncode == 0
        assert answers(busy, token.text) == {401: ENOUGH}


def test_a_restriction_counts_in_all_workers(busy, world):
    """No worker admits a key where the database no longer lets it (D178)."""
    key, token = create_key(world.engine, "alice")
    for networks, status in (("", 200), ("203.0.113.0/24", 403), ("0.0.0.0/0", 200)):
        ApiKey.update(networks=networks).where(ApiKey.id == key.id).execute(world.engine)
        assert answers(busy, token.text) == {status: ENOUGH}


@STORAGE
def test_the_rule_for_what_is_not_known_counts_in_all_workers(busy, world):
    """The first answer after the command follows it, also for a key that is known (D198)."""
    world.load([{"registration": "AB12CDE"}])
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}

    def told(_: int) -> bool:
        path = "/v1/vehicle/AB12CDE/insurance"
        return b'"unknown"' in send(busy.bind, "GET", path, headers={"X-API-Key": busy.key}).body

    for rule in ("on", "on", "off", "on"):
        assert run_command("migrate", "--unknown", rule, **settings).returncode == 0
        with ThreadPoolExecutor(8) as clients:
            assert set(clients.map(told, range(ENOUGH))) == {rule == "on"}


@ON_SQLITE
def test_a_replaced_database_counts_in_all_workers(busy, world):
    """All workers notice that another file has the path of the database (D27)."""
    token = parse_token(busy.key)
    assert token
    copy = world.directory / "copy.db"
    sqlite.copy(world.database, copy)
    with closing(apsw.Connection(str(copy))) as connection:
        connection.execute("UPDATE api_key SET revoked_at = 1 WHERE id = ?", (token.key_id,))
    os.replace(copy, world.database)
    assert answers(busy, busy.key) == {401: ENOUGH}
