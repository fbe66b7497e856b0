"""Look-ups of commands: when registers change meanwhile they are asked again."""

import peewee
import psycopg
import pytest

from app.storage.registers import REPEATS_MAX, Register, repeat_if_removed
from app.vehicles.reader import with_current_registers


class Reading:
    """Reads the state of the registers; the first time somebody loads one meanwhile."""

    def __init__(self, engine, fault=None, *, loads=True, faults=1):
        self.states = []
        self._engine, self._fault, self._loads, self._faults = engine, fault, loads, faults

    def __call__(self, state):
        self.states.append(state)
        if len(self.states) == 1 and self._loads:
            Register.insert(name="rdw", generation=7, kinds="v").execute(self._engine)
        if self._fault and len(self.states) <= self._faults:
            raise self._fault
        return state


def test_a_change_is_asked_again(world):
    """What was read of two states is nothing that can be answered."""
    reading = Reading(world.engine)
    assert with_current_registers(world.engine, reading) == "rdw/7/v"
    assert reading.states == ["", "rdw/7/v"]


def test_a_register_that_went_away_is_asked_again(world):
    """It was dropped or replaced; the next state is without it."""
    reading = Reading(world.engine, gone())
    assert with_current_registers(world.engine, reading) == "rdw/7/v"


def test_a_register_that_is_back_already_is_asked_again(world):
    """It was dropped and brought back: the state is the same, and what failed works again."""
    reading = Reading(world.engine, gone(), loads=False)
    assert with_current_registers(world.engine, reading) == ""
    assert reading.states == ["", ""]


def test_a_fault_that_stays_is_raised(world):
    """Nobody changed a register: it cannot be read."""
    reading = Reading(world.engine, gone(), loads=False, faults=9)
    with pytest.raises(peewee.OperationalError, match="gone"):
        with_current_registers(world.engine, reading)
    assert len(reading.states) == 1 + REPEATS_MAX


def test_a_look_up_in_a_transaction_leaves_asking_again_to_its_caller(world):
    """The transaction sees nothing new, and its connection must stay its own."""
    asked = []

    def ask(state):
        asked.append(state)
        raise gone()

    with pytest.raises(peewee.OperationalError, match="gone"), world.engine.atomic():
        repeat_if_removed(world.engine, "", ask)
    assert asked == [""]


def gone():
    """What the engines raise if a table is not there."""
    return peewee.OperationalError(psycopg.errors.UndefinedTable("gone"), "gone")
