"""Rules that do not depend on the database are tested on one."""

import pytest


@pytest.fixture(scope="session")
def database_kind() -> str:
    """SQLite; differences between the two are in the tests of the operations."""
    return "sqlite"
