"""Each register's data says whose it is (D153)."""

import json

import pytest

from app.alerts.conditions import gathered
from app.backup.copy import copy_database
from app.errors import OperatorError
from app.registers.deep_check import deep_faults
from app.registers.identities import stamp_registers
from app.registers.undo import drop_register, roll_back, undrop_register
from app.storage.engine import closed_afterwards, open_engine
from app.storage.identity import NotOwn, find_held
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
from tests.conftest import ON_POSTGRES, STORAGE

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
        return find_held(*opened)


def forget(world):
    """Make the register look as if a former program had written it."""
    (entry,) = list_entries(world.engine)
    with store_of(world.engine, "native").opened(entry.generation) as opened:
        schema = f'"{opened.schema}".' if opened.schema else ""
        opened.engine.execute_sql(f"DELETE FROM {schema}identity")
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
    found = "is damaged: it holds 1 vehicles, but 3 were loaded. Restore it, or drop it"
    first, second = deep_faults(world.engine)
    assert first.startswith(f"The register native {found}")
    assert second.startswith(f"A snapshot of the register native {found}")


def test_a_deep_check_does_not_count_a_merge_that_is_not_recorded(world):
    """A merge that was killed between its commits is no damage (D28)."""
    world.load([CAR])
    world.load([CAR | {"registration": "XY99ZZZ"}])
    Register.update(vehicles=1, last_load=1).execute(world.engine)
    assert list(deep_faults(world.engine)) == []


@ON_POSTGRES
def test_exchanged_schemas_get_503(world):
    """A new connection finds them at once, and an open one when readiness is asked."""
    for name in ("alpha", "beta"):
        world.load([CAR], register=name)
    old = world.client(world.alice_key)
    assert old.get(INSURANCE).status_int == 200
    for former, name in (("alpha", "third"), ("beta", "alpha"), ("third", "beta")):
        world.engine.execute_sql(f"ALTER SCHEMA register_{former} RENAME TO register_{name}")
    assert world.client(world.alice_key).get(INSURANCE).status_int == 503
    ready = old.get("/readyz")
    assert ready.status_int == 503
    assert "its data is that of the register beta" in ready.json["detail"]
    assert old.get(INSURANCE).status_int == 503


def test_a_copy_has_the_identity_of_its_own_installation(world, tmp_path):
    """Data of the source is refused in the copy, and a second copy only compares (D46)."""
    replace(world, "FORD")
    target = open_engine(f"sqlite:///{tmp_path}/copy.db", create=True)
    with closed_afterwards(target):
        for _ in range(2):
            copy_database(world.engine, target, lambda *_: None)
        assert find_unreadable(target) is None
        (entry,) = list_entries(target)
        with store_of(target, "native").opened(entry.generation) as opened:
            identity = find_held(*opened).identity
        assert identity == (database_id(target), "native", entry.generation, entry.stamp)
        assert list(deep_faults(target)) == []
