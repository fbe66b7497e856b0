"""Data in the place of a register that is not its own gets 503, never a wrong answer (D153)."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.storage.files import SUFFIXES, register_file
from app.storage.registers import list_entries
from tests.conftest import ON_SQLITE
from tests.system.processes import run_command, send, until

CAR = "AB12CDE"
INSURANCE = f"/v1/vehicle/{CAR}/insurance"


def car(make):
    return {"registration": CAR, "make": make}


def replace(world, name, make):
    """Replace all vehicles of a register."""
    path = world.directory / "all.ndjson"
    path.write_text(json.dumps(car(make)) + "\n")
    world.load_files(path, register=name, mode="replace")


@pytest.fixture
def registers(world):
    """Two registers, each the result of a replace and a merge, and a copy of each before it."""
    for name, make in (("alpha", "FORD"), ("beta", "SEAT")):
        replace(world, name, make)
    before = {name: copied(file_of(world, name)) for name in ("alpha", "beta")}
    for name, make in (("alpha", "AUDI"), ("beta", "FIAT")):
        world.load([car(make)], register=name)
    return before


def file_of(world, name):
    entries = {entry.name: entry for entry in list_entries(world.engine)}
    return register_file(world.database, name, entries[name].generation)


def copied(file: Path) -> Path:
    """Copy a register's file as it is now."""
    target = file.with_name(f"copy-of-{file.name}")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    return target


def put(source: Path, target: Path) -> None:
    """Put another file in the place of a register's, as `mv` does."""
    for suffix in SUFFIXES:
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    beside = target.with_name("beside")
    shutil.copyfile(source, beside)
    beside.replace(target)


def swap(world, _before):
    alpha, beta = file_of(world, "alpha"), file_of(world, "beta")
    copies = copied(alpha), copied(beta)
    put(copies[0], beta)
    put(copies[1], alpha)
    return "alpha", "its data is that of the register beta"


def old_copy(world, before):
    put(before["beta"], file_of(world, "beta"))
    return "beta", "its data is an old copy, without load 4"


def former_generation(world, before):
    replace(world, "beta", "OPEL")
    put(before["beta"], file_of(world, "beta"))
    return "beta", "its data is that of load 2, not load 5"


def other_installation(world, _before):
    file = file_of(world, "alpha")
    foreign = copied(file)
    with closing(sqlite3.connect(foreign)) as connection, connection:
        connection.execute("UPDATE identity SET installation = ?", ("0" * 32,))
    put(foreign, file)
    return "alpha", "its data is that of another installation"


def without_identity(world, _before):
    file = file_of(world, "alpha")
    former = copied(file)
    with closing(sqlite3.connect(former)) as connection, connection:
        connection.execute("DELETE FROM identity")
    put(former, file)
    return "alpha", "its data has no identity, so it is an old copy"


DAMAGES = [swap, old_copy, former_generation, other_installation, without_identity]


def answers(service):
    """Return the statuses and makes of some look-ups."""
    found = [service.get(INSURANCE) for _ in range(6)]
    return {(each.status, each.json().get("vehicle", {}).get("make")) for each in found}


@ON_SQLITE
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_restarted_service_refuses_another_file(world, registers, serve, damage):
    """After a restart each look-up gets 503, and every place names the register."""
    service = serve()
    assert {status for status, _ in answers(service)} == {200}
    assert service.stop() == 0
    name, fault = damage(world, registers)
    service = serve(wait=False)
    ready = until_answered(service)
    assert {status for status, _ in answers(service)} == {503}
    assert (ready.status, ready.json()["detail"].startswith(f"The register {name} ")) == (503, True)
    assert fault in ready.json()["detail"]
    told = run_command("check", **settings_of(world))
    assert told.returncode == 1
    assert f"the register {name} cannot be read: {fault}" in told.stderr
    assert told.stderr.count("cannot be read") == (2 if damage is swap else 1)
    deep = run_command("check", "--deep", **settings_of(world))
    assert f"The register {name} is damaged: {fault}" in deep.stderr


@ON_SQLITE
@pytest.mark.parametrize("damage", [swap, old_copy, other_installation])
def test_a_running_service_never_answers_from_another_file(world, registers, serve, damage):
    """It answers from the file it has open, until it finds the other one within a second."""
    service = serve(workers=1)
    right = answers(service)
    name, fault = damage(world, registers)

    def is_refused() -> bool:
        told = answers(service)
        assert told <= right | {(503, None)}
        return told == {(503, None)}

    until(is_refused, "the other file to be found")
    ready = send(service.bind, "GET", "/readyz")
    assert ready.status == 503
    assert fault in ready.json()["detail"]
    assert {status for status, _ in answers(service)} == {503}
    refused = run_command("lookup", CAR, **settings_of(world))
    assert refused.returncode == 1
    assert fault in refused.stderr
    # A load must not write into it either, nor copy its other kinds.
    with pytest.raises(Exception, match=fault):
        world.load([car("KIA")], register=name)


def until_answered(service):
    def asked():
        try:
            return send(service.bind, "GET", "/readyz")
        except OSError:
            return None

    return until(asked, "an answer")


def settings_of(world):
    return {"database_url": world.config.database_url, "state_dir": world.config.state_dir}


@ON_SQLITE
def test_zeroed_pages_are_found_by_a_deep_check(world):
    """Its faults are recorded as those of a job, and the next sound run ends the condition."""
    rows = [{"registration": f"A{number}", "make": "FORD"} for number in range(5_000)]
    world.load(rows, register="alpha")
    path = file_of(world, "alpha")
    world.engine.attach_registers(())
    sound = path.read_bytes()
    settings = settings_of(world)
    assert run_command("check", "--deep", "--scheduled", **settings).returncode == 0
    path.write_bytes(sound[: 20 * 4096] + bytes(4 * 4096) + sound[24 * 4096 :])
    assert run_command("check", **settings).returncode == 0
    damaged = run_command("check", "--deep", "--scheduled", **settings)
    assert damaged.returncode == 1
    assert "The register alpha is damaged: " in damaged.stderr
    warned = run_command("check", "--json", **settings)
    assert "The nightly deep check of " in json.loads(warned.stdout)["warnings"][0]
    path.write_bytes(sound)
    repaired = run_command("check", "--deep", **settings)
    assert (repaired.returncode, "warning" in repaired.stdout) == (0, False)
    assert "all data was read, and no damage was found" in repaired.stdout
    assert json.loads(run_command("check", "--json", **settings).stdout)["warnings"] == []
