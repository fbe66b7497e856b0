"""A month of nights on a small Debian: good files, forty kinds of bad ones, and alerts.

Each night four sources send a file. After a bad night the registers hold what a careful person
would have left in them, and one alert was sent; after a good night none.
"""

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.system.binary import built, copy_tree
from tests.system.machine import Machine, bring
from tests.system.nginx import make_certificate
from tests.system.nights import (
    COVER_FAULTS,
    DVSA_FAULTS,
    FLEET_FAULTS,
    RDW_FAULTS,
    RDW_OPTIONS,
    Dvsa,
    Fleet,
    Insurer,
    Rdw,
    Spoil,
)
from tests.system.processes import until

pytestmark = pytest.mark.system_long

DATA = "/var/lib/verifyd"
DROP = f"{DATA}/drop"
QUEUE = f"{DATA}/notices/queue"
ALERTS = "/var/lib/alerts"
SCRIPT = f"""#!/bin/sh
# One file for each message.
new=$(mktemp {ALERTS}/.XXXXXXXX) && cat >"$new" && mv "$new" "{ALERTS}/$(date +%s%N).json"
"""
ALERT = "verifyd.alert"
JOBS = ("verifyd-backup", "verifyd-import", "verifyd-check", "verifyd-watch")


@pytest.fixture
def machine(tmp_path, socket_directory) -> Iterator[Machine]:
    """A machine on which the service runs, and a script that receives the alerts."""
    with Machine(socket_directory) as machine:
        bring(machine, built(copy_tree(tmp_path / "tree")))
        make_certificate(tmp_path)
        shutil.copy(tmp_path / "fullchain.pem", machine.path("/root/fullchain.pem"))
        shutil.copy(tmp_path / "key.pem", machine.path("/root/privkey.pem"))
        machine.do("deploy/install.sh --binary verifyd")
        machine.path("/usr/local/bin/alert").write_text(SCRIPT)
        machine.do(f"chmod 755 /usr/local/bin/alert; install -d -m 777 {ALERTS}")
        machine.do("echo VERIFYD_NOTIFY=exec:/usr/local/bin/alert >>/etc/verifyd/verifyd.env")
        for register in ("rdw", "fleet", "cover", "dvsa"):
            machine.do(f"install -d -o verifyd {DROP}/{register}")
        machine.path("/etc/verifyd/imports/rdw").write_text(f"{RDW_OPTIONS}\n")
        machine.do("systemctl restart verifyd")
        yield machine


@dataclass
class Month:
    """The machine and the sources of its files."""

    machine: Machine
    directory: Path
    """For copies of its databases."""
    chance: random.Random = field(default_factory=lambda: random.Random(2026))
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rdw, self.fleet = Rdw(self.chance), Fleet(self.chance)
        self.cover, self.dvsa = Insurer(self.chance), Dvsa(self.chance)
        self.expected: dict[str, object] = {}

    def send(self, register: str, name: str, data: bytes) -> None:
        """Write a source's file, with a time in the past."""
        path = f"{DROP}/{register}/{name}"
        self.machine.path(path).write_bytes(data)
        self.machine.do(f"chown verifyd '{path}' && touch -d '-5 min' '{path}'")

    def night(self, *units: str) -> list[dict[str, Any]]:
        """Run the nightly jobs, or only those of some units; return the sent messages."""
        for unit in units or JOBS:
            self.machine.run(f"systemctl start {unit}")
        until(self._is_delivered, "the messages to be delivered")
        paths = sorted(self.machine.path(ALERTS).glob("*.json"))
        new = [path for path in paths if path.name not in self.seen]
        self.seen |= {path.name for path in new}
        return [json.loads(path.read_bytes()) for path in new]

    def _is_delivered(self) -> bool:
        queue = self.machine.path(QUEUE)
        return not queue.exists() or not any(queue.iterdir())

    def held(self, register: str, sql: str) -> list[tuple[Any, ...]]:
        """Return the current rows of a register."""
        with self._opened(self._file(register)) as file:
            return file.execute(sql).fetchall()

    def _file(self, register: str) -> str:
        with self._opened("verifyd.db") as main:
            entry = main.execute("SELECT generation FROM register WHERE name = ?", (register,))
            (generation,) = entry.fetchone()
        return f"verifyd.register_{register}.{generation}.db"

    def lose_pages(self, register: str) -> None:
        """Overwrite four pages of a register's file with zeros, as a failing disk does."""
        with self.machine.path(f"{DATA}/{self._file(register)}").open("r+b") as file:
            file.seek(12 * 4096)
            file.write(bytes(4 * 4096))

    def _opened(self, name: str) -> closing[sqlite3.Connection]:
        """Open a copy of a database that nothing writes to now, with its log."""
        for file in (name, f"{name}-wal"):
            source = self.machine.path(f"{DATA}/{file}")
            (self.directory / file).unlink(missing_ok=True)
            if source.exists():
                shutil.copy(source, self.directory / file)
        return closing(sqlite3.connect(self.directory / name))

    def state(self) -> dict[str, object]:
        """Return what all registers hold."""
        cars = "SELECT registration, make, color, insured, mot_expiry FROM vehicle"
        policies = (
            "SELECT registration, number, insurer, valid_from, valid_to, cancelled_on FROM policy"
        )
        return {
            "rdw": set(self.held("rdw", cars)),
            "fleet": set(self.held("fleet", cars)),
            "cover": set(self.held("cover", policies)),
            "dvsa": set(self.held("dvsa", "SELECT registration, mot_expiry FROM vehicle")),
        }

    def expect(self, register: str) -> None:
        """Assume that tonight's file of a source is in its register."""
        if register == "rdw":
            self.expected["rdw"] = {(plate, *car) for plate, car in self.rdw.cars.items()}
        elif register == "fleet":
            self.fleet.apply()
            self.expected["fleet"] = {(plate, *car) for plate, car in self.fleet.cars.items()}
        elif register == "cover":
            self.cover.apply()
            self.expected["cover"] = {(*key, *each) for key, each in self.cover.policies.items()}
        else:
            self.dvsa.apply()
            self.expected["dvsa"] = set(self.dvsa.expiries.items())

    def new_files(self) -> dict[str, tuple[str, bytes]]:
        """Let a day pass; return tonight's file of each source."""
        for source in (self.rdw, self.fleet, self.cover, self.dvsa):
            source.next_night()
        return {
            "rdw": ("gekentekende.csv", self.rdw.file()),
            "fleet": ("cars.csv", self.fleet.file()),
            "cover": ("policies.ndjson", self.cover.file()),
            "dvsa": (self.dvsa.file_name, self.dvsa.file()),
        }


def plan() -> list[dict[str, tuple[str, Spoil]]]:
    """Return the faults of each night, by source: every fault once, with good nights between."""
    tables = {"rdw": RDW_FAULTS, "fleet": FLEET_FAULTS, "cover": COVER_FAULTS, "dvsa": DVSA_FAULTS}
    others = [
        (register, fault)
        for register, faults in tables.items()
        if register != "rdw"
        for fault in faults.items()
    ]
    random.Random(7).shuffle(others)
    nights: list[dict[str, tuple[str, Spoil]]] = [{}]
    for number, (fault, other) in enumerate(zip_longest(RDW_FAULTS.items(), others)):
        nights.append({"rdw": fault} if fault else {})
        if other:
            nights[-1][other[0]] = other[1]
        if number % 3 == 2:
            nights.append({})
    return nights


def test_a_month_of_nights_ends_as_a_careful_person_would_have_left_it(machine, tmp_path):
    """Each bad night sends one alert, a good one none, and no bad file changes a register."""
    month = Month(machine, tmp_path)
    for number, faults in enumerate(plan(), 1):
        files = month.new_files()
        for register, (name, data) in files.items():
            if register in faults:
                data = faults[register][1](data)
            else:
                month.expect(register)
            month.send(register, name, data)
        sent = month.night()
        what = f"night {number}: {', '.join(fault for fault, _ in faults.values()) or 'good'}"
        alerts = [each for each in sent if each["type"] == ALERT]
        assert len(alerts) == (1 if faults else 0), (what, sent)
        for register, expected in month.state().items():
            assert expected == month.expected[register], (what, register)
        # Otherwise a held merge would hold back the good file of the next night.
        machine.do(f"rm -f {DROP}/*/failed/*")
        told = json.dumps(alerts)
        for register in faults:
            keys = (f'"load:{register}"', f'"held:{register}:', '"job:import"')
            assert any(key in told for key in keys), (what, register, told)
    assert '"status":"ready"' in machine.do(
        "curl -sS --unix-socket /run/verifyd.sock localhost/readyz"
    )
    month.lose_pages("rdw")
    (alert,) = month.night("verifyd-check", "verifyd-watch")
    assert '"job:check"' in json.dumps(alert)
    assert "The register rdw is damaged" in machine.do("journalctl -u verifyd-check")
