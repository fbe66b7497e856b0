"""`verifyd limits`: shows and resets one bucket, and changes nothing else."""

import json
import os

import pytest

from app.accounts.administration import set_plan
from app.cli import main
from app.serve.limits.bucket import rate
from app.serve.limits.store import LimitStore, account_slot, identity_of
from app.storage.versions import Installation, database_id

PLAN = rate(600, 60)


@pytest.fixture
def bucket(world):
    """The store of the installation, as the service opens it."""
    return LimitStore(
        world.limits, lambda: identity_of(world.limits, lambda: database_id(world.engine))
    )


@pytest.fixture
def run(world, monkeypatch, capsys):
    """Run a command on the installation; return its status and its output."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", world.config.database_url)
    monkeypatch.setenv("VERIFYD_STATE_DIR", str(world.config.state_dir))

    def run(*words):
        status = main(["limits", *words])
        written = capsys.readouterr()
        return status, written.out, written.err

    umask = os.umask(0o022)
    yield run
    os.umask(umask)


def shown(run, *words):
    status, out, err = run(*words, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_show_prints_what_is_left(run, world):
    """The output has the plan, its limit, what remains, and when the bucket is full."""
    members = shown(run, "show", "alice")
    assert members.pop("reset").endswith("Z")
    assert members == {
        "account": "alice",
        "plan": "standard",
        "limit": 600,
        "window_seconds": 60,
        "remaining": 600,
    }


def test_show_sees_what_the_service_has_counted(run, world):
    """Requests over HTTP are counted, and `show` itself takes nothing."""
    limits = {"requests": 600, "window_seconds": 10**7, "bulk_max": 1, "domains_max": 1}
    set_plan(world.engine, "standard", limits)
    client = world.client(world.alice_key)
    for _ in range(3):
        client.get("/nothing")
    before = world.limits.read_bytes()
    assert [shown(run, "show", "alice")["remaining"] for _ in range(2)] == [597, 597]
    assert world.limits.read_bytes() == before


def test_reset_gives_all_requests_back(run, world, bucket):
    """After a reset the account's next request is admitted, and other accounts do not change."""
    for slot in (account_slot(1), account_slot(2)):
        while bucket.take(slot, rate(5, 10**6)).admitted:
            pass
    assert shown(run, "reset", "alice")["remaining"] == 600
    assert bucket.take(account_slot(1), PLAN).admitted
    assert not bucket.take(account_slot(2), PLAN).admitted


def test_it_is_written_for_people_too(run):
    """Without --json the output has a line per member."""
    status, out, _ = run("show", "alice")
    assert (status, out.splitlines()[0].split()) == (0, ["account", "alice"])


def test_an_unknown_account_is_named(run):
    """An unknown name fails with exit status 1."""
    status, out, err = run("show", "nobody")
    assert (status, out) == (1, "")
    assert "no account named nobody" in err


@pytest.mark.parametrize("what", ["show", "reset"])
def test_a_command_does_not_make_the_file(run, world, what):
    """Only the start of the service makes the file; a command reports that it is missing."""
    world.limits.unlink()
    status, _, err = run(what, "alice")
    assert status == 1
    assert 'does not exist; "verifyd serve" creates it at start-up' in err
    assert not world.limits.exists()


@pytest.mark.parametrize("what", ["show", "reset"])
def test_a_command_does_not_take_another_databases_file(run, world, what):
    """With the wrong database a command leaves a running service's buckets unchanged."""
    Installation.update(database_id="f" * 32).execute(world.engine)
    before = world.limits.read_bytes()
    status, _, err = run(what, "alice")
    assert status == 1
    assert "belongs to another database" in err
    assert world.limits.read_bytes() == before
