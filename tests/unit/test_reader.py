"""Look-ups of commands are repeated if registers change meanwhile."""

import peewee
import psycopg
import pytest

from app.storage.registers import (
    REPEATS_MAX,
    Register,
    read_state,
    repeat_if_removed,
    with_current_registers,
)
from tests.conftest import STORAGE

pytestmark = STORAGE


class Reading:
    """Reads the state of the registers; the first time a load happens meanwhile."""

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
    """Rows from two different states are not combined into an answer."""
    reading = Reading(world.engine)
    assert with_current_registers(world.engine, reading).startswith("rdw/7/v")
    assert reading.states == ["", read_state(world.engine)]


def test_a_register_that_went_away_is_asked_again(world):
    """If the register was dropped or replaced, the next state is used."""
    reading = Reading(world.engine, gone())
    assert with_current_registers(world.engine, reading) == read_state(world.engine)


def test_a_register_that_is_back_already_is_asked_again(world):
    """A dropped register can be back with the same state, and then the retry succeeds."""
    reading = Reading(world.engine, gone(), loads=False)
    assert with_current_registers(world.engine, reading) == ""
    assert reading.states == ["", ""]


def test_a_fault_that_stays_is_raised(world):
    """If no register changed, the fault is raised."""
    reading = Reading(world.engine, gone(), loads=False, faults=9)
    with pytest.raises(peewee.OperationalError, match="gone"):
        with_current_registers(world.engine, reading)
    assert len(reading.states) == 1 + REPEATS_MAX


def test_a_look_up_in_a_transaction_leaves_asking_again_to_its_caller(world):
    """A transaction sees no changes and must keep its connection, so its caller repeats."""
    asked = []

    def ask(state):
        asked.append(state)
        raise gone()

    with pytest.raises(peewee.OperationalError, match="gone"), world.engine.atomic():
        repeat_if_removed(world.engine, "", ask)
    assert asked == [""]


def gone():
    """Return the engine's error for a missing table."""
    return peewee.OperationalError(psycopg.errors.UndefinedTable("gone"), "gone")
