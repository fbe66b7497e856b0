"""The reserve of disk space, and when it is used (D57)."""

from typing import Any

import apsw
import peewee
import pytest

from app.storage import reserve
from tests.conftest import ON_SQLITE
from tests.unit.limit_files import file_size_limit

FULL, IOERR_SHMSIZE, READONLY = 13, 4874, 8

pytestmark = ON_SQLITE


def error_of(code: int) -> peewee.OperationalError:
    """Return an error of SQLite, as Peewee raises it."""
    found = apsw.exception_for(code)
    error: Any = peewee.OperationalError("as told")
    error.orig = found
    return error


@pytest.fixture
def file(world):
    """The filled reserve of a database."""
    reserve.fill(world.engine)
    return reserve.reserve_file(world.database)


@pytest.fixture
def refused_write(world, file):
    """`refused_write(code, times)` fails this many times; then it returns the reserve's size."""

    def make(code, times):
        errors = [error_of(code)] * times

        def write():
            if errors:
                raise errors.pop()
            return file.stat().st_size

        return write

    return make


def test_it_takes_space_of_its_own(file):
    """The file's space is allocated, and only its owner can read it."""
    found = file.stat()
    assert found.st_size == reserve.RESERVE_BYTES
    assert found.st_blocks * 512 >= reserve.RESERVE_BYTES
    assert found.st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["verifyd.db", "verifyd", "verifyd.reserve", "verifyd.db-reserve"])
def test_no_database_is_its_own_reserve(world, name):
    """A database cannot be its own reserve: giving up the reserve would truncate it."""
    assert reserve.reserve_file(world.directory / name) != world.directory / name


@pytest.mark.parametrize("code", [FULL, IOERR_SHMSIZE])
def test_a_write_that_finds_no_room_gets_the_reserve(world, file, refused_write, code):
    """The write is repeated while the reserve is empty; then the reserve is filled again."""
    assert reserve.with_reserve(world.engine, refused_write(code, 1)) == 0
    assert file.stat().st_size == reserve.RESERVE_BYTES


def test_a_write_that_fails_again_raises(world, file, refused_write):
    """There is only one reserve, so the second failure is raised; it is filled again, too."""
    with pytest.raises(peewee.OperationalError, match="as told"):
        reserve.with_reserve(world.engine, refused_write(FULL, 2))
    assert file.stat().st_size == reserve.RESERVE_BYTES


def test_other_errors_leave_the_reserve(world, refused_write):
    """A write that fails for another reason is not repeated."""
    with pytest.raises(peewee.OperationalError, match="as told"):
        reserve.with_reserve(world.engine, refused_write(READONLY, 1))


def test_a_disk_without_room_is_no_error(world, file):
    """The reserve takes the available space in whole steps."""
    file.unlink()
    with file_size_limit(100_000):
        reserve.fill(world.engine)
    assert file.stat().st_size % (32 * 1024) == 0
