"""An installation in its own directory, with loads as an operator runs them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.accounts.administration import create_account, create_key, set_plan
from app.config import Config
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.stores import migrate
from tests.bench.intake.cost import Cost, cost_of
from tests.system.processes import environment

_PROGRAM = (sys.executable, "-m", "app")


class Installation:
    """A migrated database.

    Args:
        directory: for the state, and the database by default.
        url: of a Postgres database.
    """

    def __init__(self, directory: Path, url: str | None = None) -> None:
        self.directory = directory
        self.config = Config(
            database_url=url or f"sqlite:///{directory / 'bench.db'}",
            state_dir=directory / "state",
            access_log=False,
        )
        with self.opened(create=True) as engine:
            migrate(engine)
            plan = {"requests": 10**9, "window_seconds": 1}
            set_plan(engine, "bench", {**plan, "bulk_max": 1_000, "domains_max": 10**6})
            create_account(engine, "bench", "bench")

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Engine]:
        """Open the main database."""
        engine = open_engine(self.config.database_url, create=create)
        try:
            yield engine
        finally:
            close_quietly(engine)

    def load(self, file: Path, mode: str = "replace") -> Cost:
        """Run `verifyd import FILE --mode MODE`."""
        command = (*_PROGRAM, "import", str(file), "--mode", mode, "--json")
        return cost_of(command, self.directory, environment(**self.settings))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings for another process."""
        return {"database_url": self.config.database_url, "state_dir": self.config.state_dir}

    def key(self) -> str:
        """Return a key without a limit."""
        with self.opened() as engine:
            return create_key(engine, "bench")[1].text

    def register_bytes(self) -> int:
        """Return the size of the registers' files."""
        return sum(file.stat().st_size for file in self.directory.glob("bench.register_*.db"))


@contextmanager
def fresh(directory: Path) -> Iterator[Installation]:
    """Make an empty SQLite installation, and remove it afterwards."""
    with TemporaryDirectory(dir=directory) as own:
        yield Installation(Path(own))
