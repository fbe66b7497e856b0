"""What is the same whatever the database is tried on one."""

import pytest


@pytest.fixture(scope="session")
def database_kind() -> str:
    """SQLite; what may differ between the two is in the tests of the operations."""
    return "sqlite"
