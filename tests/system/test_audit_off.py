"""A host whose trail was on does not answer without it: real processes (D166)."""

import pytest

from tests.system.full_disk import Disk
from tests.system.processes import GUNICORN, run_command, until
from tests.unit.audit_trails import lines

CAR = {"registration": "AB12CDE", "insured": True}
PATH = "/v1/vehicle/AB12CDE/insurance"


@pytest.fixture
def recorded(serve, world, tmp_path):
    """The settings of a host where a service has recorded."""
    world.load([CAR])
    settings = {
        "database_url": world.config.database_url,
        "state_dir": world.config.state_dir,
        "data_dir": tmp_path,
        "audit": "on",
    }
    service = serve(**settings)
    assert service.get(PATH).status == 200
    assert service.stop() == 0
    return settings


@pytest.mark.parametrize("attack", [("-u", "VERIFYD_AUDIT"), ("VERIFYD_AUDIT=off",)])
def test_taking_the_setting_away_answers_nothing(recorded, attack):
    """Neither a command nor a service; the message names the command that may."""
    for words in (["lookup", "AB12CDE"], ["serve"]):
        ended = run_command(*words, before=["env", *attack], **recorded)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert 'run "verifyd audit off --reason TEXT"' in ended.stderr
    assert len(list(lines(recorded["data_dir"] / "audit"))) == 1


def test_gunicorn_does_not_start_either(recorded, serve):
    """The check is part of every start."""
    service = serve(**recorded | {"audit": "off"}, command=GUNICORN, wait=False)
    assert service.wait() == 1
    assert "must be recorded" in service.output("stderr")


def test_a_full_disk_is_no_reason_to_stay_without_answers(serve, world, little_disk):
    """The trail is switched off where it is full, and its gap is recorded when there is room."""
    world.load([CAR])
    disk = Disk(little_disk)
    settings = disk.move_here(world) | {"audit_dir": little_disk / "audit"}
    assert serve(audit="on", **settings).stop() == 0
    disk.fill()
    off = run_command("audit", "off", "--reason", "full", audit="on", **settings)
    assert (off.returncode, off.stderr) == (0, "")
    service = serve(audit="off", **settings)
    assert service.get(PATH).status == 200
    assert service.stop() == 0
    service = serve(audit="on", wait=False, **settings)
    until(lambda: status_of(service) == 503, "look-ups to be refused")
    refused = run_command("lookup", "AB12CDE", audit="off", **settings)
    assert "must be recorded" in refused.stderr
    disk.empty()
    until(lambda: status_of(service) == 200, "look-ups to be recorded")
    assert run_command("audit", "seal", audit="on", **settings).returncode == 0
    found = [line for line in lines(little_disk / "audit") if line["operation"] != "insurance"]
    assert [(line["operation"], line["reason"]) for line in found] == [("gap", "full")]


def status_of(service):
    """Return the status of a look-up; 0 if the service does not answer yet."""
    try:
        return service.get(PATH).status
    except OSError:
        return 0
