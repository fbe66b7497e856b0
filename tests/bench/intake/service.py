"""The load's effect on clients: look-ups at a fixed rate, and a new domain every second."""

import http.client
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from app.storage.tables import Kind
from tests.bench.intake.files import plate, write_file
from tests.bench.intake.installation import Installation, fresh
from tests.system.processes import Service, free_port
from tests.system.threads import Threads

LOOK_UPS_A_SECOND = 500
SLOWER_MAX = 3
DOMAIN_SECONDS_MAX = 1
_IDLE_SECONDS = 20


@contextmanager
def serving(installation: Installation) -> Iterator[Service]:
    """Run `verifyd serve` on an installation, with a key without a limit."""
    key = installation.key()
    bind = f"127.0.0.1:{free_port()}"
    with Service(installation.directory, bind, **installation.settings) as service:
        service.key = key
        yield service.wait_ready()


class Clients(Threads):
    """Two clients, one looking up vehicles, one creating domains; `with` runs them.

    A request is measured from the moment it was due, so that waiting for others counts.

    Args:
        vehicles: their number, counted from 0.
    """

    def __init__(self, service: Service, vehicles: int) -> None:
        self._service = service
        self._vehicles = vehicles
        self.seconds: list[float] = []
        self.domain_seconds: list[float] = []
        self.failed = 0
        super().__init__(self._look_up, self._create)

    def percentile_ms(self, part: float) -> float:
        """Return the time that this share of the look-ups, 0 to 1, did not exceed."""
        return sorted(self.seconds)[int(len(self.seconds) * part)] * 1000

    def __str__(self) -> str:
        return (
            f"{len(self.seconds):7,} look-ups, {self.failed} failed, median "
            f"{self.percentile_ms(0.5):.1f} ms, p99 {self.percentile_ms(0.99):.1f} ms; "
            f"a domain took {max(self.domain_seconds) * 1000:.0f} ms at most"
        )

    def _look_up(self) -> None:
        chance = random.Random(0)
        connection = http.client.HTTPConnection(self._service.bind)
        headers = {"Authorization": f"Bearer {self._service.key}"}
        for due in self._every(1 / LOOK_UPS_A_SECOND):
            path = f"/v1/vehicle/{plate(chance.randrange(self._vehicles))}/insurance"
            try:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                self.failed += answer.status != 200 or not answer.read()
            except OSError:
                connection.close()
                self.failed += 1
            self.seconds.append(time.monotonic() - due)
        connection.close()

    def _create(self) -> None:
        for due in self._every(1):
            name = f"d{time.monotonic_ns()}.example"
            self.failed += not self._is_created(name)
            self.domain_seconds.append(time.monotonic() - due)

    def _every(self, seconds: float) -> Iterator[float]:
        """Yield when each request is due, at that time."""
        due = time.monotonic()
        while not self.over.wait(max(due - time.monotonic(), 0)):
            yield due
            due += seconds

    def _is_created(self, name: str) -> bool:
        try:
            return self._service.post("/api/domains", {"name": name}).status == 201
        except OSError:
            return False


def print_latencies(directory: Path, rows: int, runs: int) -> None:
    """Compare look-ups during a `replace` and a `merge` with look-ups on an idle service."""
    print(f"Look-ups, {LOOK_UPS_A_SECOND} a second, idle and during loads of {rows:,} vehicles")
    file, changed = directory / "vehicles.csv", directory / "changed.csv"
    write_file(file, Kind.VEHICLES, rows)
    changed.write_text(file.read_text().replace(",COLOUR ", ",PAINT "))
    ratios, domain_seconds, failed = [], [], 0
    with fresh(directory) as installation:
        installation.load(file)
        with serving(installation) as service:
            for _ in range(runs):
                with Clients(service, rows) as idle:
                    time.sleep(_IDLE_SECONDS)
                print(f"  idle    {idle}", flush=True)
                for mode, loaded in (("merge", changed), ("replace", file)):
                    with Clients(service, rows) as loading:
                        installation.load(loaded, mode)
                    print(f"  {mode:7} {loading}", flush=True)
                    ratios.append(loading.percentile_ms(0.99) / idle.percentile_ms(0.99))
                    domain_seconds += loading.domain_seconds
                    failed += loading.failed
    print(f"  p99 is {median(ratios):.1f} times as long (at most {SLOWER_MAX}), {failed} failed")
    print(
        f"  a domain took {max(domain_seconds):.2f} s at most (under {DOMAIN_SECONDS_MAX})\n",
        flush=True,
    )
    file.unlink()
    changed.unlink()
