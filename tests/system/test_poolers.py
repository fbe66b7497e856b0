"""Real processes and a real PgBouncer: a mode that does not keep sessions never serves or loads."""

import os
import subprocess

import pytest

from tests.pgbouncer import Pooler
from tests.postgres import connect
from tests.stores import end_connections
from tests.system.processes import PROGRAM, SERVE, environment, run_command

pytestmark = pytest.mark.parametrize("database_kind", ["postgres"])

LOOK_UP = "/v1/vehicle/AB12CDE/insurance"
TRIES, REQUESTS = 3, 20


def settings(world, pooler):
    """The settings of an installation behind a pooler."""
    return {
        "database_url": pooler.url,
        "data_dir": world.directory,
        "state_dir": world.directory / "state",
    }


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_no_start_in_a_mode_without_sessions(world, mode):
    """`serve` ends with the reason and the remedy."""
    with Pooler(world.store.url, pool_mode=mode) as pooler:
        ended = subprocess.run(
            SERVE,
            env=environment(**settings(world, pooler), bind=f"unix:{world.directory}/socket"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert "set pool_mode = session for this database" in ended.stderr


@pytest.mark.system_long
def test_answers_do_not_wait_for_a_locked_table(world, serve):
    """Limits of time hold behind a session pool: the answer is 503, not 500 after 30 s."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    with Pooler(world.store.url, pool_mode="session") as pooler:
        service = serve(database_url=pooler.url)
        assert service.get(LOOK_UP).status == 200
        with connect(world.store.url) as operator, operator.transaction():
            operator.execute("LOCK TABLE api_key IN ACCESS EXCLUSIVE MODE")
            assert service.get(LOOK_UP).status == 503


@pytest.mark.system_long
def test_a_mode_that_is_changed_while_it_serves_costs_503_at_worst(world, serve):
    """Old PgBouncers know no prepared statements, so these seem to be missing or to exist."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    with Pooler(world.store.url, pool_mode="session") as pooler:
        service = serve(database_url=pooler.url)
        assert service.get(LOOK_UP).status == 200
        pooler.change(pool_mode="transaction")
        with connect(world.store.url) as operator:
            end_connections(operator, operator.info.dbname)
        assert {service.get(LOOK_UP).status for _ in range(REQUESTS)} <= {200, 503}


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
@pytest.mark.system_long
def test_two_merges_at_once_never_both_write(world, mode):
    """Either one of two merges is refused, or the mode of the pooler is."""
    for number in range(TRIES):
        lines = "".join(f"AB{each:05d},FORD\n" for each in range(2_000))
        files = [world.directory / f"{number}-{half}.csv" for half in "ab"]
        for half, file in enumerate(files):
            rows = lines.replace("AB", f"{'AC'[half]}{chr(65 + number % 26)}")
            file.write_text(f"registration,make\n{rows}")
        with Pooler(world.store.url, pool_mode=mode) as pooler:
            env = environment(**settings(world, pooler))
            loads = [
                subprocess.Popen(
                    [*PROGRAM, "import", os.fspath(file)],
                    env=env,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for file in files
            ]
            reasons = [each.communicate(timeout=120)[1] for each in loads]
        if mode == "session":
            refused = [text for load, text in zip(loads, reasons, strict=True) if load.returncode]
            assert all("another load of the register" in text for text in refused), reasons
        else:
            assert all("does not keep sessions" in text for text in reasons), reasons
    direct = run_command("check", **settings(world, world.store))
    assert direct.returncode == 0, direct.stderr
    held = "SELECT vehicles FROM register"
    count = "SELECT count(*) FROM register_native.vehicle"
    if mode == "session":
        with connect(world.store.url) as operator:
            assert operator.execute(held).fetchone() == operator.execute(count).fetchone()
