"""One load of a country's vehicles and policies into one SQLite register."""

import time
from pathlib import Path

from tests.bench.intake.files import write_file
from tests.bench.intake.installation import Installation, fresh
from tests.bench.intake.service import Clients, serving
from tests.bench.intake.sqlite import KINDS

_SMALL_PART = 100
_LOOK_UP_SECONDS = 60


def print_national(directory: Path, rows: int, runs: int) -> None:
    """Load once, whatever `runs` is; look up in a hundredth of the rows before and in all after."""
    del runs
    for count in (rows // _SMALL_PART, rows):
        # A register of one size cannot be replaced by one of the other: that breaks rules.
        with fresh(directory) as installation:
            for kind in KINDS:
                file = directory / f"{kind}.csv"
                write_file(file, kind, count)
                cost = installation.load(file)
                print(f"{count:12,} {kind:10}{cost}{cost.memory_mb:6.0f} MB", flush=True)
                print(f"  files: {installation.register_bytes() / 2**30:.2f} GiB", flush=True)
                file.unlink()
            print(f"  {_looked_up(installation, count)}\n", flush=True)


def _looked_up(installation: Installation, vehicles: int) -> Clients:
    with serving(installation) as service, Clients(service, vehicles) as clients:
        time.sleep(_LOOK_UP_SECONDS)
    return clients
