"""A clock that is set while the service and the nightly jobs run removes nothing (D162)."""

import json
import time
from datetime import date
from typing import Any

import pytest

from app.accounts.usage.report import usage_of_days
from app.storage.engine import close_quietly, open_engine
from tests.system.faketime import WrongClock, pretend_boot
from tests.system.processes import SERVE, Service, run_command, until

DAY = 86_400
YEARS = 3 * 365 * DAY
LOOK_UP = "/v1/vehicle/AB12CDE/insurance"
HALF = 20
"""Look-ups before the clock is set."""
EVER = (date(1970, 1, 1), date(2100, 1, 1))


class Installation:
    """A host with a service, a drop directory and a clock that can be set."""

    def __init__(self, world, serve, tmp_path, **settings):
        self.wrong = WrongClock(tmp_path)
        self.world, self._serve = world, serve
        self.drop = tmp_path / "drop"
        self.drop.mkdir()
        self.settings: dict[str, Any] = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
            "drop_wait": "done",
            **settings,
        }
        self._options = settings
        self.service = self.start()

    def start(self) -> Service:
        return self._serve(workers=1, command=(*self.wrong.words, *SERVE), **self._options)

    def run(self, *words, status=0):
        """Run a command, and return its JSON document."""
        ended = run_command(*words, before=self.wrong.words, **self.settings)
        assert ended.returncode == status, ended.stderr
        return ended.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "--json"))

    def load(self, make):
        """Load a file of the drop directory, as every night; the history gets a line."""
        file = self.drop / f"{make}.csv"
        file.write_text(f"registration,make\nAB12CDE,{make}\n")
        (self.drop / f"{file.name}.done").touch()
        self.run("import", "--drop", self.drop, "--scheduled")

    def look_up(self):
        """Send look-ups, and wait until they are counted."""
        before = self.counted()
        for _ in range(HALF):
            assert self.service.get(LOOK_UP).status == 200
        until(lambda: self.counted() - before == HALF, "usage to be written")

    def counted(self):
        """Return how many answers usage has, of any day."""
        engine = open_engine(self.world.config.database_url)
        try:
            return sum(each.answers for each in usage_of_days(engine, *EVER, ()))
        finally:
            close_quietly(engine)

    def of_month(self, month):
        """Return what `verifyd usage` shows of a month, at the right time."""
        ended = run_command("usage", "--month", month, "--json", **self.settings)
        return sum(each["answers"] for each in json.loads(ended.stdout))

    def files(self):
        return sorted(path.name for path in (self.drop / "loaded").glob("*.csv"))

    def restart(self):
        assert self.service.stop() == 0
        self.service = self.start()


@pytest.fixture
def host(world, serve, tmp_path):
    host = Installation(world, serve, tmp_path)
    host.load("FORD")
    host.look_up()
    return host


def matrix():
    """Yield each step of the clock with each kind of restart."""
    steps = {"minute": 60, "day": DAY, "years": YEARS}
    for name, seconds in steps.items():
        for sign in (1, -1):
            for restart in ("running", "restarted", "booted"):
                marks = [pytest.mark.system_long]
                if (name, sign, restart) == ("years", 1, "running"):
                    marks.append(pytest.mark.sample)
                label = f"{name}-{'ahead' if sign > 0 else 'behind'}-{restart}"
                yield pytest.param(sign * seconds, restart, id=label, marks=marks)
    for restart in ("running", "restarted", "booted"):
        yield pytest.param(None, restart, id=f"1970-{restart}", marks=pytest.mark.system_long)


def seconds_of(ahead):
    """Return how far the clock is ahead; None stands for a clock of 1970."""
    return 60 - int(time.time()) if ahead is None else ahead


@pytest.mark.parametrize(("ahead", "restart"), list(matrix()))
def test_nothing_is_removed(host, ahead, restart):
    """Whatever the clock says for a while, usage, history and kept files of the present stay."""
    seconds = seconds_of(ahead)
    month = time.strftime("%Y-%m", time.gmtime())
    usage, history = host.of_month(month), host.json("imports", "list")
    if restart == "booted":
        pretend_boot(host.world.config.data_dir)
    host.wrong.set(seconds)
    if restart != "running":
        host.restart()
    is_jump = abs(seconds) > 3 * DAY
    assert bool(host.json("clock")["fault"]) is is_jump
    assert ("Nothing is removed by its age" in host.run("check")) is is_jump
    host.load("SEAT")
    host.look_up()
    assert host.of_month(month) >= usage >= HALF
    assert host.files() == ["FORD.csv", "SEAT.csv"]
    host.wrong.set(0)
    if restart != "running":
        host.restart()
    host.look_up()
    host.load("FIAT")
    assert host.json("clock")["fault"] is None
    assert host.counted() == 3 * HALF
    assert host.of_month(month) >= usage
    assert host.files() == ["FIAT.csv", "FORD.csv", "SEAT.csv"]
    assert len(host.json("imports", "list")) == len(history) + 2


@pytest.mark.system_long
def test_an_accepted_clock_removes_what_is_old(host):
    """An operator who accepts the clock says that the time has passed."""
    host.wrong.set(YEARS)
    host.look_up()
    month = time.strftime("%Y-%m", time.gmtime())
    assert host.of_month(month) >= HALF
    host.run("clock", "--accept")
    (action,) = host.json("actions", "list", "--action", "clock")
    assert action["action"] == "clock.accept"
    assert host.json("clock")["fault"] is None
    assert "Nothing is removed" not in host.run("check")
    host.restart()  # A process removes what is old once an hour.
    assert host.service.get(LOOK_UP).status == 200
    until(lambda: host.of_month(month) == 0, "old usage to be removed")
    host.load("SEAT")
    assert "FORD.csv" not in host.files()


@pytest.mark.system_long
def test_a_host_that_boots_in_1970(world, serve, tmp_path):
    """Its clock is no reference, and is trusted without an operator as soon as NTP has set it."""
    path = world.config.data_dir / "clock.json"
    path.unlink(missing_ok=True)
    wrong = WrongClock(tmp_path)
    wrong.set(60 - int(time.time()))
    service = serve(workers=1, command=(*wrong.words, *SERVE))
    warning = "Nothing is removed by its age, because the clock says 1970-01-01T00:0"
    assert any(each.startswith(warning) for each in service.get("/readyz").json()["warnings"])
    assert not path.exists()
    wrong.set(0)
    assert not any(
        "removed by its age" in each for each in service.get("/readyz").json().get("warnings", [])
    )
    assert json.loads(path.read_bytes())["boot"] == boot_id()


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
