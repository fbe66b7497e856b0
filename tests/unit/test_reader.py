"""Look-ups of commands: when registers change meanwhile they are asked again."""

import peewee
import pytest

from app.catalogue import Register
from app.vehicles.reader import with_current_registers


class Reading:
    """Reads the state of the registers; the first time somebody loads one meanwhile."""

    def __init__(self, engine, fault=None, *, loads=True):
        self.states = []
        self._engine, self._fault, self._loads = engine, fault, loads

    def __call__(self, state):
        self.states.append(state)
        if len(self.states) == 1 or not self._loads:
            if self._loads:
                Register.insert(name="rdw", generation=7, kinds="v").execute(self._engine)
            if self._fault:
                raise self._fault
        return state


def test_a_change_is_asked_again(world):
    """What was read of two states is nothing that can be answered."""
    reading = Reading(world.engine)
    assert with_current_registers(world.engine, reading) == "rdw/7/v"
    assert reading.states == ["", "rdw/7/v"]


def test_a_register_that_went_away_is_asked_again(world):
    """It was dropped or replaced; the next state is without it."""
    reading = Reading(world.engine, peewee.OperationalError("gone"))
    assert with_current_registers(world.engine, reading) == "rdw/7/v"


def test_a_fault_that_stays_is_raised(world):
    """Nobody changed a register: it cannot be read."""
    reading = Reading(world.engine, peewee.OperationalError("broken"), loads=False)
    with pytest.raises(peewee.OperationalError, match="broken"):
        with_current_registers(world.engine, reading)
    assert reading.states == [""]
