"""Dropped registers are not read, and can be brought back (D72)."""

from functools import partial

import pytest

from app.errors import OperatorError
from app.registers import modes as merge
from app.registers.generations import Generations
from app.registers.history import list_loads
from app.registers.undo import drop_register, purge_register, roll_back, undrop_register
from app.storage.engine import close_quietly
from app.storage.registers import REGISTERS_MAX, DroppedRegister, KeptRegister, Register
from app.storage.tables import Kind
from tests.conftest import STORAGE
from tests.unit.held import HEADER, begun, generations, loaded, makes, vehicles

pytestmark = STORAGE

PATH = "/v1/vehicle/AB12CDE/insurance"
DELETION = '[{"registration": "ZZ99ZZZ", "motTests": [], "modification": "DELETED"}]'


@pytest.fixture
def replace(world):
    """`replace(CONTENT)` replaces the vehicles of the register native by default."""
    return partial(loaded, world)


@pytest.fixture
def dropped(world, replace):
    """A dropped register: AB12CDE is a SEAT; before the last replace it was a FORD."""
    for make in ("FORD", "SEAT"):
        replace(f"{HEADER}AB12CDE,{make}\n")
    drop_register(world.engine, "native")
    return world


def modes(world) -> list[str]:
    """Return the modes in the history, the latest first."""
    return [line.mode for line in list_loads(world.engine)]


def test_a_dropped_register_is_not_read(dropped, alice):
    """From the next request on, look-ups, readiness and metrics ignore it."""
    assert alice.get(PATH).status_int == 404
    assert alice.get("/readyz", environ={"REMOTE_ADDR": "127.0.0.1"}).json["registers"] == []
    assert Register.select().count(dropped.engine) == 0


def test_it_comes_back_as_it_was(dropped, alice):
    """The register has its counts, and can be rolled back as before."""
    assert undrop_register(dropped.engine, "native").vehicles == 1
    assert alice.get(PATH).json["vehicle"]["make"] == "SEAT"
    assert DroppedRegister.select().count(dropped.engine) == 0
    roll_back(dropped.engine, None, None)
    assert alice.get(PATH).json["vehicle"]["make"] == "FORD"


def test_the_history_has_every_step(dropped):
    """Each drop and undrop is a line in the history, with the status done."""
    undrop_register(dropped.engine, "native")
    purge_register(dropped.engine, "native")
    assert modes(dropped) == ["purge", "drop", "undrop", "drop", "replace", "replace"]
    assert {line.status for line in list_loads(dropped.engine)} == {"done"}
    drop = list_loads(dropped.engine)[1]
    assert (drop.register, drop.kind, drop.finished_at is None) == ("native", "", False)


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_load_that_succeeds_ends_it(dropped, replace, mode):
    """A successful load makes a new register of the name, and removes the dropped one."""
    replace(vehicles("KIA"), mode=mode)
    with pytest.raises(OperatorError, match="it was not dropped, or was loaded since"):
        undrop_register(dropped.engine, "native")
    assert makes(dropped) == ["KIA"]
    assert len(generations(dropped)) == 1
    with pytest.raises(OperatorError, match="cannot be rolled back"):
        roll_back(dropped.engine, "native", None)


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_load_that_fails_does_not(dropped, replace, alice, mode):
    """A failed load keeps the drop undoable, whatever it had read."""
    with pytest.raises(OperatorError, match="never closed"):
        replace(f'{HEADER}AB12CDE,"FORD\n', mode=mode)
    undrop_register(dropped.engine, "native")
    assert alice.get(PATH).json["vehicle"]["make"] == "SEAT"


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_load_that_is_interrupted_at_its_commit_does_not(dropped, replace, monkeypatch, mode):
    """Ctrl-C at the commit rolls back the register index, so it must not remove any data."""
    with monkeypatch.context() as until_then:
        until_then.setattr(dropped.engine, "commit", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            replace(vehicles("KIA"), mode=mode)
    close_quietly(dropped.engine)  # As at the end of the process.
    assert list_loads(dropped.engine)[0].status == "failed"
    undrop_register(dropped.engine, "native")
    assert makes(dropped) == ["SEAT"]
    assert len(generations(dropped)) == 2


@pytest.mark.parametrize("options", [{}, {"empty_ok": True}])
def test_a_merge_that_reads_no_row_does_not(dropped, replace, alice, options):
    """A nightly delta without rows removes neither the dropped register nor its earlier states."""
    replace(HEADER, mode="merge", **options)
    undrop_register(dropped.engine, "native")
    assert alice.get(PATH).json["vehicle"]["make"] == "SEAT"
    roll_back(dropped.engine, "native", None)
    assert alice.get(PATH).json["vehicle"]["make"] == "FORD"


def test_a_merge_that_changes_nothing_does_not(dropped, replace, alice):
    """Deletions of unknown plates leave no register, even repeated and dropped again."""
    for _ in range(2):
        assert replace(DELETION, mode="merge", register="native").skipped == 1
        assert Register.select().count(dropped.engine) == 0
    undrop_register(dropped.engine, "native")
    assert alice.get(PATH).json["vehicle"]["make"] == "SEAT"


def test_a_killed_merge_that_changed_nothing_does_not(dropped, replace, alice, monkeypatch):
    """What such a merge leaves does not hinder an undrop."""
    with monkeypatch.context() as until_then:
        until_then.setattr(merge, "finish_merge", _interrupted)
        until_then.setattr(Generations, "remove_made_by", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            replace(DELETION, mode="merge", register="native")
    undrop_register(dropped.engine, "native")
    assert alice.get(PATH).json["vehicle"]["make"] == "SEAT"


def test_a_rollback_knows_of_a_killed_merge(dropped, replace, monkeypatch):
    """After a merge that was killed between its commits, no refusal tells to run `undrop`."""
    with monkeypatch.context() as until_then:
        until_then.setattr(merge, "finish_merge", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            replace(vehicles("KIA"), mode="merge")
    with pytest.raises(OperatorError, match="cannot be rolled back: its last load was a merge"):
        roll_back(dropped.engine, "native", None)
    assert makes(dropped) == ["KIA"]


@pytest.mark.parametrize("is_tidied", [False, True])
def test_a_load_that_was_killed_does_not(dropped, alice, is_tidied):
    """The killed load made an entry, possibly dropped since, but committed no row."""
    load_id = begun(dropped.engine, "native", Kind.POLICIES)
    made = Generations(dropped.engine, "native")
    made.announce(made.add(load_id), Kind.POLICIES)
    if is_tidied:
        drop_register(dropped.engine, "native")
    undrop_register(dropped.engine, "native")
    assert alice.get(PATH).json["vehicle"]["make"] == "SEAT"
    assert [line.status for line in list_loads(dropped.engine)].count("failed") == 1


def test_a_dropped_register_takes_no_place(dropped, replace):
    """If another register takes its place, it cannot come back until one is free."""
    for number in range(REGISTERS_MAX):
        replace(vehicles("FORD"), register=f"r{number}")
    with pytest.raises(OperatorError, match="there are 8 registers; drop one first"):
        undrop_register(dropped.engine, "native")
    drop_register(dropped.engine, "r1")
    undrop_register(dropped.engine, "native")
    assert makes(dropped) == ["SEAT"]


def test_several_can_wait(dropped, replace):
    """Each waits under its own name; the refusal of an unknown name lists them."""
    replace(vehicles("KIA"), register="fleet")
    drop_register(dropped.engine, "fleet")
    with pytest.raises(
        OperatorError, match=r"it does not exist\. Dropped registers: fleet, native"
    ):
        undrop_register(dropped.engine, "nativ")
    undrop_register(dropped.engine, "fleet")
    undrop_register(dropped.engine, "native")
    assert makes(dropped) == ["SEAT"]


def test_it_is_dropped_once(dropped):
    """A second drop is refused, and the message says what can be done."""
    with pytest.raises(OperatorError, match="was dropped already; add --purge to free"):
        drop_register(dropped.engine, "native")


@pytest.mark.parametrize("is_dropped_before", [True, False])
def test_a_purge_removes_all_of_it(dropped, is_dropped_before):
    """A purge removes the dropped generation and all earlier states, and cannot be undone."""
    if not is_dropped_before:
        undrop_register(dropped.engine, "native")
    assert len(generations(dropped)) == 2
    purge_register(dropped.engine, "native")
    assert generations(dropped) == []
    assert KeptRegister.select().count(dropped.engine) == 0
    with pytest.raises(OperatorError, match=r"it does not exist\. Dropped registers: none"):
        undrop_register(dropped.engine, "native")
    with pytest.raises(OperatorError, match="there is no register native"):
        purge_register(dropped.engine, "native")


def test_a_purge_ends_the_lines_of_killed_loads(world):
    """A mistyped name whose only load was killed has no line that is running for ever."""
    begun(world.engine, "typo")
    purge_register(world.engine, "typo")
    lines = [(line.mode, line.status, line.reason) for line in list_loads(world.engine)]
    assert lines == [("purge", "done", None), ("merge", "failed", "interrupted")]


def test_a_register_of_no_rows_is_gone_at_once(world):
    """A register without rows, from a killed first load, is removed at once."""
    killed = begun(world.engine, "native", Kind.FINES)
    Generations(world.engine, "native").add(killed)
    drop_register(world.engine, "native")
    with pytest.raises(OperatorError, match="it does not exist"):
        undrop_register(world.engine, "native")


def test_an_undrop_without_its_file_is_refused(dropped):
    """If its file was removed by hand, the undrop is refused and the entry stays."""
    for name in generations(dropped):
        if dropped.engine.__class__.__name__ == "SqliteEngine":
            (dropped.directory / name).unlink()
        else:
            dropped.engine.execute_sql(f'DROP SCHEMA "{name}" CASCADE')
    with pytest.raises(OperatorError, match="the data of the register native is missing"):
        undrop_register(dropped.engine, "native")
    purge_register(dropped.engine, "native")


def test_a_damaged_register_can_be_dropped(world, replace):
    """A damaged register can be dropped, whatever the damage."""
    replace(vehicles("FORD"))
    (name,) = generations(world)
    if world.engine.__class__.__name__ == "SqliteEngine":
        (world.directory / name).write_bytes(b"not a database" * 1000)
    else:
        world.engine.execute_sql(f'DROP SCHEMA "{name}" CASCADE')
    drop_register(world.engine, "native")
    assert Register.select().count(world.engine) == 0


def _interrupted(*_args: object, **_options: object) -> None:
    raise KeyboardInterrupt
