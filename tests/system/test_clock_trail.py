"""A clock that is set while look-ups are recorded hides and removes no record (D160, D164)."""

import json

import pytest

from tests.system.faketime import pretend_boot
from tests.system.processes import run_command
from tests.system.test_clock import DAY, HALF, YEARS, Installation, matrix, seconds_of

PLATE = "AB12CDE"


@pytest.fixture
def host(world, serve, tmp_path):
    """A host whose trail has a sealed segment."""
    host = Installation(world, serve, tmp_path, audit="on")
    host.load("FORD")
    host.look_up()
    host.run("audit", "seal")
    return host


def found(host):
    """Return how many look-ups a search and an export have."""
    records = host.json("audit", "search", "--plate", PLATE)
    exported = [json.loads(line) for line in host.run("audit", "export").splitlines()]
    counts = {
        sum(each["operation"] == "insurance" for each in read) for read in (records, exported)
    }
    (count,) = counts
    return count


def pruned(host, *options):
    """Run the nightly prune; return its status and how many segments are left."""
    ended = run_command("audit", "prune", *options, before=host.wrong.words, **host.settings)
    left = len(list((host.world.config.data_dir / "audit").glob("*-*.ndjson")))
    return ended.returncode, left


def verdict(host):
    """Return what `verify` says at the right time: its status, faults and notes."""
    ended = run_command("audit", "verify", "--json", **host.settings)
    (told,) = json.loads(ended.stdout)
    kinds = [{each["kind"] for each in told[name]} for name in ("faults", "notes")]
    return ended.returncode, *kinds


@pytest.mark.parametrize(("ahead", "restart"), list(matrix()))
def test_no_record_is_lost_or_hidden(host, ahead, restart):
    """Searches find everything at once; what is young stays; the trail verifies."""
    seconds = seconds_of(ahead)
    if restart == "booted":
        pretend_boot(host.world.config.data_dir)
    host.wrong.set(seconds)
    if restart != "running":
        host.restart()
    host.look_up()
    assert found(host) == 2 * HALF
    host.run("audit", "seal")
    assert found(host) == 2 * HALF
    status, left = pruned(host, "--scheduled")
    assert (status, left >= 2) == (1 if seconds > 730 * DAY else 0, True)
    host.wrong.set(0)
    if restart != "running":
        host.restart()
    host.look_up()
    assert found(host) == 3 * HALF
    host.run("audit", "seal")
    assert pruned(host, "--scheduled")[0] == 0
    assert found(host) == 3 * HALF
    status, faults, notes = verdict(host)
    assert (status, faults) == (0, set())
    assert notes == {"ahead"} or seconds == -60


@pytest.mark.system_long
def test_an_accepted_clock_that_was_wrong_is_found_out(host):
    """Whoever accepted it can be found, and somebody acknowledges the loss once."""
    host.wrong.set(YEARS)
    assert pruned(host)[0] == 1
    assert pruned(host, "--accept-clock")[0] == 0
    host.wrong.set(0)
    host.look_up()
    host.run("audit", "seal")
    status, faults, _ = verdict(host)
    assert (status, faults) == (1, {"pruned_early"})
    ended = run_command("audit", "verify", "--json", **host.settings)
    (told,) = json.loads(ended.stdout)
    (fault,) = told["faults"]
    run_command("audit", "acknowledge", fault["subject"], "--reason", "battery", **host.settings)
    assert verdict(host)[:2] == (0, set())
