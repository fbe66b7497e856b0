"""Checking a register's lock does not hinder a load (D28)."""

from multiprocessing import get_context

from app.registers.generations import is_being_loaded, locked
from app.storage.engine import open_engine
from tests.conftest import STORAGE

pytestmark = STORAGE


def looking(url, is_over, looked):
    """Check the lock as often as possible, as /readyz may."""
    engine = open_engine(url)
    while not is_over.is_set():
        is_being_loaded(engine, "rdw")
        looked.set()


def test_a_load_begins_while_others_look(world):
    """A load begins however often others check the lock."""
    context = get_context("spawn")
    is_over, looked = context.Event(), context.Event()
    arguments = (world.config.database_url, is_over, looked)
    world.load([{"registration": "AB12CDE"}], register="rdw")
    lookers = [context.Process(target=looking, args=arguments) for _ in range(2)]
    for each in lookers:
        each.start()
    try:
        assert looked.wait(60)
        for _ in range(500):
            with locked(world.engine, "rdw"):
                pass
    finally:
        is_over.set()
        for each in lookers:
            each.join()


def test_a_lock_is_seen_while_it_is_held(world):
    """Others see the lock while it is held; before and after it the register is free."""
    other = world.client(None) and world.app_engine
    assert not is_being_loaded(other, "rdw")
    with locked(world.engine, "rdw"):
        assert is_being_loaded(other, "rdw")
        assert not is_being_loaded(other, "mid")
    assert not is_being_loaded(other, "rdw")
