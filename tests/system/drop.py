"""A drop directory, and the command that loads its files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import World
from tests.system.processes import environment, run_command

CAR = "registration,make\nAB12CDE,FORD\n"
OTHER = "registration,make\nAB13CDE,SEAT\n"


class Drop:
    """A drop directory, option files, and the command that loads its files."""

    def __init__(self, world: World) -> None:
        self.root = world.directory / "drop"
        self.root.mkdir()
        self.options = world.directory / "options"
        self.options.mkdir()
        self._world = world
        self.settings: dict[str, Any] = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
        }

    def put(self, name: str, text: str = CAR, *, age_seconds: int = 300) -> Path:
        """Write a file with a time of change in the past."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        changed_at = path.stat().st_mtime - age_seconds
        os.utime(path, (changed_at, changed_at))
        return path

    def option(self, register: str, text: str) -> Path:
        """Write an option file."""
        path = self.options / register
        path.write_text(text, errors="surrogateescape")
        return path

    def words(self, *words: object) -> list[object]:
        """Return the words of the command."""
        return ["import", "--drop", self.root, "--options", self.options, *words]

    def run(self, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return run_command(*self.words(*words), **(self.settings | settings))

    def start(self) -> subprocess.Popen[str]:
        """Start the command."""
        words = [sys.executable, "-m", "app", *map(str, self.words())]
        return subprocess.Popen(
            words,
            env=environment(**self.settings),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def left(self) -> list[str]:
        """Return all files below the drop that were not loaded, also hidden ones."""
        return [name for name in self._files() if "loaded" not in Path(name).parts]

    def loaded(self) -> list[str]:
        """Return all files below the drop that were kept after a load."""
        return [name for name in self._files() if "loaded" in Path(name).parts]

    def _files(self) -> list[str]:
        found = [Path(folder, name) for folder, _, names in os.walk(self.root) for name in names]
        return sorted(str(path.relative_to(self.root)) for path in found)

    def held(self) -> dict[str, int]:
        """Return the number of vehicles in each register."""
        query = "SELECT name, vehicles FROM register ORDER BY name"
        return dict(self._world.engine.execute_sql(query).fetchall())

    def loads(self) -> list[tuple[str, str]]:
        """Return register and status of each load in the history."""
        query = "SELECT register, status FROM register_load ORDER BY id"
        return list(self._world.engine.execute_sql(query).fetchall())
