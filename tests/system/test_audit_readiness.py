"""A service whose trail is gone or full is not ready, and recovers by itself (D127)."""

from tests.system.full_disk import Disk
from tests.system.processes import Service, until


def detail(service: Service) -> str:
    """Return why the service is not ready; empty if it is."""
    answer = service.get("/readyz")
    assert answer.status in (200, 503)
    return "" if answer.status == 200 else str(answer.json()["detail"])


def statuses(service: Service) -> set[int]:
    """Return the statuses of look-ups by all workers."""
    return {service.get("/v1/vehicle/AB12CDE/insurance").status for _ in range(40)}


def test_a_new_installation_begins_its_trail(serve, tmp_path):
    """The service is ready at once, and has nothing to warn of."""
    service = serve(audit="on", audit_dir=tmp_path / "audit")
    assert (tmp_path / "audit" / "owner.json").exists()
    assert service.get("/readyz").json()["checks"]["audit"].startswith("on, 0 bytes sealed")
    assert [line for line in service.lines("stderr") if line["level"] != "info"] == []


def test_a_trail_that_was_moved_away_is_noticed_until_it_is_back(serve, tmp_path):
    """Every worker says so."""
    directory = tmp_path / "audit"
    service = serve(audit="on", audit_dir=directory)
    directory.rename(tmp_path / "elsewhere")
    for _ in range(8):
        assert detail(service).startswith("Look-ups cannot be recorded: the audit trail in ")
    (tmp_path / "elsewhere").rename(directory)
    assert detail(service) == ""


def test_every_worker_refuses_without_the_owner(serve, world, tmp_path):
    """Workers that have recorded and those that have not agree with `/readyz`."""
    world.load([{"registration": "AB12CDE", "insured": True}])
    owner = tmp_path / "audit" / "owner.json"
    service = serve(audit="on", audit_dir=owner.parent)
    assert statuses(service) == {200}
    owner.rename(tmp_path / "away")
    until(lambda: statuses(service) == {503}, "every worker to refuse")
    assert detail(service)
    (tmp_path / "away").rename(owner)
    assert statuses(service) == {200}
    assert detail(service) == ""


def test_a_full_disk_is_noticed_until_there_is_room(serve, little_disk):
    """Nothing needs a restart."""
    disk = Disk(little_disk)
    service = serve(audit="on", audit_dir=little_disk / "audit")
    disk.fill()
    until(lambda: "is full" in detail(service), "the service to be not ready")
    disk.empty()
    until(lambda: detail(service) == "", "the service to be ready")


def test_a_service_starts_on_a_full_disk(serve, little_disk):
    """It waits for room: systemd must not leave it stopped."""
    disk = Disk(little_disk)
    assert serve(audit="on", audit_dir=little_disk / "audit").stop() == 0
    disk.fill()
    service = serve(audit="on", audit_dir=little_disk / "audit", wait=False)
    until(lambda: _answers(service), "an answer")
    assert "is full" in detail(service)
    disk.empty()
    until(lambda: detail(service) == "", "the service to be ready")


def _answers(service: Service) -> bool:
    try:
        return service.get("/healthz").status == 200
    except OSError:
        return False
