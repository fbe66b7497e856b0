"""Each register's data says whose it is (D153)."""

import json
import sqlite3
from contextlib import closing, suppress

import peewee
import pytest

from app.alerts.conditions import gathered
from app.backup.copy import copy_database
from app.errors import OperatorError
from app.registers import identities
from app.registers.deep_check import deep_faults
from app.registers.generations import Generations
from app.registers.identities import stamp_registers
from app.registers.undo import drop_register, roll_back, undrop_register
from app.storage import sqlite
from app.storage.engine import closed_afterwards, open_engine
from app.storage.files import connect, file_uri, register_file
from app.storage.identity import NotOwn, read_identity
from app.storage.register_files import RegisterFiles
from app.storage.registers import (
    DroppedRegister,
    KeptRegister,
    Register,
    find_unreadable,
    in_precedence,
    list_entries,
    read_state,
)
from app.storage.stores import store_of
from app.storage.versions import database_id
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE

pytestmark = STORAGE

CAR = {"registration": "AB12CDE", "make": "FORD"}
INSURANCE = "/v1/vehicle/AB12CDE/insurance"


def replace(world, make):
    path = world.directory / "all.ndjson"
    path.write_text(json.dumps(CAR | {"make": make}) + "\n")
    world.load_files(path, mode="replace")


def held(world):
    """Return what the current data of the register says about itself."""
    (entry,) = list_entries(world.engine)
    with store_of(world.engine, "native").opened(entry.generation) as opened:
        return read_identity(*opened)


def forget(world):
    """Make the register look as if a former program had written it."""
    (entry,) = list_entries(world.engine)
    with store_of(world.engine, "native").opened(entry.generation) as opened:
        schema = f'"{opened.schema}".' if opened.schema else ""
        opened.engine.execute_sql(f"DROP TABLE {schema}identity")
        script = "WHERE name = '0002_identity'"
        opened.engine.execute_sql(f"DELETE FROM {schema}schema_migration {script}")
    for model in (Register, KeptRegister, DroppedRegister):
        model.update(stamp=None, last_load=None).execute(world.engine)


def test_every_load_writes_and_moves_the_identity(world):
    """A replace and a first merge write it; each merge moves the last load."""
    world.load([CAR])
    first = held(world)
    world.load([CAR | {"make": "SEAT"}])
    (entry,) = list_entries(world.engine)
    assert first.identity == (database_id(world.engine), "native", 1, entry.stamp)
    assert (first.last_load, held(world).last_load, entry.last_load) == (1, 2, 2)
    replace(world, "OPEL")
    (entry,) = list_entries(world.engine)
    assert held(world).identity == (database_id(world.engine), "native", 3, entry.stamp)
    assert entry.last_load == held(world).last_load == 3


def test_what_a_former_program_wrote_is_answered_and_stamped_at_the_start(world, alice):
    """The register, its snapshot and a dropped register get their identities, once."""
    for make in ("FORD", "SEAT"):
        replace(world, make)
    forget(world)
    assert alice.get(INSURANCE).json["vehicle"]["make"] == "SEAT"
    for _ in range(2):
        stamp_registers(world.engine)
        (entry,) = list_entries(world.engine)
        assert entry.stamp == held(world).identity.stamp
    (kept,) = list_entries(world.engine, KeptRegister)
    assert (kept.last_load, kept.stamp is None) == (1, False)
    roll_back(world.engine, "native", None)
    drop_register(world.engine, "native")
    undrop_register(world.engine, "native")
    assert find_unreadable(world.engine) is None
    assert world.client(world.alice_key).get(INSURANCE).json["vehicle"]["make"] == "FORD"


@pytest.mark.parametrize("step", ["data", "index"])
@pytest.mark.parametrize("error", [peewee.OperationalError("disk full"), KeyboardInterrupt()])
def test_a_stamp_that_is_interrupted_is_written_at_the_next_start(world, monkeypatch, step, error):
    """The register is answered between the two, whether its data or its entry is stamped."""
    replace(world, "FORD")
    forget(world)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        if step == "data":
            patch.setattr(identities, "write_identity", fail)
        else:
            patch.setattr(Generations, "note_identity", fail)
        with suppress(KeyboardInterrupt):
            stamp_registers(world.engine)
    assert (held(world).identity is None) is (step == "data")
    assert list_entries(world.engine)[0].stamp is None
    assert world.client(world.alice_key).get(INSURANCE).status_int == 200
    assert find_unreadable(world.engine) is None
    stamp_registers(world.engine)
    assert list_entries(world.engine)[0].stamp == held(world).identity.stamp


def test_a_merge_of_a_former_program_is_noted_at_the_start(world):
    """It leaves the last load of the index behind that of the data, which is right (D28)."""
    for make in ("FORD", "SEAT"):
        world.load([CAR | {"make": make}])
    Register.update(last_load=1).execute(world.engine)
    assert find_unreadable(world.engine) is None
    stamp_registers(world.engine)
    assert list_entries(world.engine)[0].last_load == 2


def test_data_of_others_is_neither_read_nor_written(world, alice):
    """Look-ups get 503, and loads, drops' undoing and rollbacks are refused."""
    replace(world, "FORD")
    Register.update(last_load=9).execute(world.engine)
    (ref,) = in_precedence(read_state(world.engine), ())
    world.engine.attach_registers(())
    with pytest.raises(NotOwn, match="an old copy, without load 9"):
        world.engine.attach_registers((ref,))
    assert world.client(world.alice_key).get(INSURANCE).status_int == 503
    found = find_unreadable(world.engine)
    assert found is not None
    assert found.name == "native"
    told = gathered(world.engine, world.config).conditions
    assert "unreadable:native" in [each.key for each in told]
    metrics = world.client(None).get("/metrics", environ={"REMOTE_ADDR": "127.0.0.1"})
    assert "verifyd_registers_readable 0.0" in metrics.text
    with pytest.raises(OperatorError, match="the register native cannot be read: its data is an"):
        world.load([CAR | {"make": "KIA"}])
    with pytest.raises(OperatorError, match="cannot be read"):
        replace(world, "KIA")
    drop_register(world.engine, "native")
    with pytest.raises(OperatorError, match="cannot be read"):
        undrop_register(world.engine, "native")


def test_nothing_is_stamped_that_belongs_to_others(world):
    """A start does not adopt the data of another installation."""
    replace(world, "FORD")
    (entry,) = list_entries(world.engine)
    with store_of(world.engine, "native").opened(entry.generation) as opened:
        schema = f'"{opened.schema}".' if opened.schema else ""
        opened.engine.execute_sql(f"UPDATE {schema}identity SET installation = '{'0' * 32}'")
    Register.update(stamp=None).execute(world.engine)
    stamp_registers(world.engine)
    assert list_entries(world.engine)[0].stamp is None
    assert "another installation" in str(find_unreadable(world.engine))


def test_a_deep_check_finds_what_was_not_loaded(world):
    """It names the register, its snapshot and its dropped data, and compares all counts."""
    for make in ("FORD", "SEAT"):
        replace(world, make)
    assert list(deep_faults(world.engine)) == []
    for model in (Register, KeptRegister):
        model.update(vehicles=3).execute(world.engine)
    found = "is damaged: it holds 1 vehicles, but 3 were loaded."
    first, second = deep_faults(world.engine)
    assert first.startswith(f"The register native {found} Restore it from a backup, or drop it")
    snapshot = "The snapshot of the register native that load 1 left"
    assert second.startswith(f"{snapshot} {found} Answers do not use it. Do not roll back to it")


def test_a_deep_check_does_not_count_a_merge_that_is_not_recorded(world):
    """A merge that was killed between its commits is no damage (D28)."""
    world.load([CAR])
    world.load([CAR | {"registration": "XY99ZZZ"}])
    Register.update(vehicles=1, last_load=1).execute(world.engine)
    assert list(deep_faults(world.engine)) == []


@ON_POSTGRES
def test_exchanged_schemas_get_503(world):
    """The next request of an open connection finds them, and a new connection does."""
    for name in ("alpha", "beta"):
        world.load([CAR], register=name)
    old = world.client(world.alice_key)
    assert old.get(INSURANCE).status_int == 200
    for exchange in range(2):
        for former, name in (("alpha", "third"), ("beta", "alpha"), ("third", "beta")):
            world.engine.execute_sql(f"ALTER SCHEMA register_{former} RENAME TO register_{name}")
        status = 200 if exchange else 503
        assert old.get(INSURANCE).status_int == status
        ready = old.get("/readyz", environ={"REMOTE_ADDR": "127.0.0.1"})
        assert ready.status_int == status
        assert ("its data is that of the register beta" in ready.text) is (status == 503)
        assert world.client(world.alice_key).get(INSURANCE).status_int == status


@ON_POSTGRES
def test_a_table_that_was_put_back_gets_503(world):
    """Tables of an older backup in the same schema are found by the next request."""
    world.load([CAR])
    old = world.client(world.alice_key)
    assert old.get(INSURANCE).status_int == 200
    world.engine.execute_sql("CREATE TABLE aside (LIKE register_native.vehicle INCLUDING ALL)")
    world.load([CAR | {"make": "SEAT"}])
    assert old.get(INSURANCE).status_int == 200
    for statement in (
        "DELETE FROM register_native.applied_load",
        "DROP TABLE register_native.vehicle",
        "ALTER TABLE aside RENAME TO vehicle",
        "ALTER TABLE vehicle SET SCHEMA register_native",
    ):
        world.engine.execute_sql(statement)
    assert old.get(INSURANCE).status_int == 503


@ON_SQLITE
def test_an_old_copy_beside_a_newer_log_gets_503(world, monkeypatch):
    """SQLite would mix both: the last load's rows from the log, and old ones of the other pages."""
    monkeypatch.setattr(RegisterFiles, "truncate_log", lambda *_: None)
    replace(world, "FORD")
    path = register_file(world.database, "native", 1)
    log = path.with_name(f"{path.name}-wal")
    states = []
    for make in ("SEAT", "FIAT", "OPEL"):
        world.engine.attach_registers(())
        with closing(connect(file_uri(path, "rw"))) as writer:
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        states.append(path.read_bytes())
        # The log stays, as that of a load that is killed after its commit.
        with closing(connect(file_uri(path, "ro"))) as reader:
            reader.execute("SELECT * FROM vehicle").fetchall()
            world.load([CAR | {"make": make}])
            last_log = log.read_bytes()
    for state, status in zip(states, (503, 503, 200), strict=True):
        world.engine.attach_registers(())
        path.write_bytes(state)
        log.write_bytes(last_log)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        answer = world.client(world.alice_key).get(INSURANCE)
        assert answer.status_int == status
        if status == 503:
            with pytest.raises(Exception, match="an old copy beside the log of a newer one"):
                world.load([CAR | {"make": "KIA"}])
            assert path.read_bytes() == state
    assert answer.json["vehicle"]["make"] == "OPEL"


@ON_SQLITE
def test_an_open_connection_finds_a_replaced_file(world, alice, monkeypatch):
    """Whoever has the former file open compares the new one, and a merge reaches all readers."""
    world.load([CAR])
    monkeypatch.setattr(sqlite, "INODES_SECONDS", 0)
    assert alice.get(INSURANCE).status_int == 200
    path = register_file(world.database, "native", 1)
    copy = path.with_name("copy")
    for make in ("SEAT", "FIAT"):
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        former = copy.read_bytes()
        copy.replace(path)
        world.load([CAR | {"make": make}])
        assert alice.get(INSURANCE).json["vehicle"]["make"] == make
    copy.write_bytes(former)
    copy.replace(path)
    assert alice.get(INSURANCE).status_int == 503


@pytest.mark.parametrize("onto", ["sqlite", "postgres"])
def test_a_copy_has_the_identity_of_its_own_installation(world, tmp_path, onto, request):
    """Data of the source is refused in the copy, and a second copy only compares (D46)."""
    replace(world, "FORD")
    url = f"sqlite:///{tmp_path}/copy.db"
    if onto == "postgres":
        url = request.getfixturevalue("empty_postgres")
    target = open_engine(url, create=True)
    with closed_afterwards(target):
        for _ in range(2):
            copy_database(world.engine, target, lambda *_: None)
        assert find_unreadable(target) is None
        (entry,) = list_entries(target)
        with store_of(target, "native").opened(entry.generation) as opened:
            identity = read_identity(*opened).identity
        assert identity == (database_id(target), "native", entry.generation, entry.stamp)
        assert list(deep_faults(target)) == []
