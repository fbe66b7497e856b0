"""A prepared query is built and compiled once; later values are bound, never interpolated."""

import peewee
import pytest

from app.accounts.models import Plan
from app.storage.engine import Prepared, parameter
from tests.conftest import ON_SQLITE, STORAGE

pytestmark = STORAGE

HOSTILE = "x' OR '1'='1"


@pytest.fixture
def engine(world):
    """The main database of a new installation, which has three plans."""
    return world.engine


@pytest.fixture
def built():
    """The queries that were built."""
    return []


@pytest.fixture
def plan(engine, built):
    """A prepared query for one plan."""

    def build():
        built.append(Plan.select(Plan.name, Plan.requests).where(Plan.name == parameter("name")))
        return built[-1]

    return Prepared(engine, build)


def test_it_is_built_on_first_use_and_never_again(plan, built):
    """A query is built once: that takes many times as long as running it."""
    assert built == []
    for name in ("free", "standard", "free", "none"):
        plan.rows(name=name)
    assert len(built) == 1


def test_every_run_has_the_same_statement(plan, statements):
    """The text is the same for all values, so that the driver's cache recognises it."""
    with statements() as seen:
        for name in ("free", "enterprise", HOSTILE):
            plan.rows(name=name)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_values_are_bound_not_interpolated(plan, statements):
    """A value with a quote finds nothing, and is not in the statement."""
    with statements() as seen:
        assert plan.rows(name=HOSTILE) == []
    assert HOSTILE not in seen[0]
    assert "free" not in seen[0]


def test_each_run_has_its_own_values(plan):
    """No value of one run affects the next."""
    assert plan.rows(name="free") == [("free", 60)]
    assert plan.rows(name="standard") == [("standard", 600)]
    assert plan.rows(name="free") == [("free", 60)]


def test_row_is_the_first_or_none(plan):
    """`row` returns the first row, or None if there is none."""
    assert plan.row(name="free") == ("free", 60)
    assert plan.row(name="none") is None


def test_constants_of_the_query_stay(engine):
    """Values that the query was built with are bound in place, along with those of the run."""
    between = (Plan.requests > 60) & (Plan.name != parameter("name")) & (Plan.requests < 6_000)
    query = Prepared(engine, lambda: Plan.select(Plan.name).where(between))
    assert query.rows(name="free") == [("standard",)]
    assert query.rows(name="standard") == []


def test_one_parameter_can_stand_in_many_places(engine):
    """A parameter that occurs twice is passed once."""
    twice = (Plan.name == parameter("name")) | (Plan.name.concat("!") == parameter("name"))
    query = Prepared(engine, lambda: Plan.select(Plan.name).where(twice))
    assert query.rows(name="free") == [("free",)]
    assert query.rows(name="free!") == [("free",)]


def test_a_missing_value_is_an_error_of_the_program(plan):
    """A forgotten value is a program error, without a default."""
    with pytest.raises(KeyError):
        plan.rows()


def test_a_failure_is_one_of_peewee_s(engine):
    """Errors of the driver become Peewee's, which are answered with 503."""
    query = Prepared(engine, lambda: peewee.Table("nowhere").select(peewee.SQL("1")))
    with pytest.raises(peewee.OperationalError):
        query.rows()


@ON_SQLITE
def test_a_failure_while_reading_is_one_of_peewee_s_too(engine):
    """An error while rows are read becomes Peewee's, too."""
    rows = peewee.SQL("json(value) FROM (SELECT '1' AS value UNION ALL SELECT '{')")
    query = Prepared(engine, lambda: peewee.Select(columns=[rows]))
    with pytest.raises(peewee.OperationalError):
        query.rows()
