"""`python -m tests.bench.sweeps`: a sweep of watches beside `lookup --csv` of the same plates."""

import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, timedelta
from pathlib import Path
from statistics import median

from app import clock
from app.storage.engine import open_engine
from app.watches.repository import Terms
from app.watches.tables import Watch, WatchFeed
from tests.bench.__main__ import build, plate
from tests.bench.interpreter import description
from tests.unit.watched import Watched

WATCHES = 100_000
ROUNDS = 5


def main() -> None:
    """Print the medians, and their ratio (at most 2.5 is aimed at)."""
    print(description())
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        config, _ = build(directory, WATCHES)
        engine = open_engine(config.database_url)
        watched = Watched(config, engine)
        plates = [plate(number) for number in range(WATCHES)]
        for first in range(0, WATCHES, 5_000):
            watched.put("bench", [Terms(each, (28, 14)) for each in plates[first:][:5_000]])
        asked = directory / "plates.csv"
        asked.write_text("\n".join(["registration", *plates]))
        environment = os.environ | {
            "VERIFYD_DATABASE_URL": config.database_url,
            "VERIFYD_STATE_DIR": str(config.state_dir),
            "VERIFYD_DATA_DIR": path,
        }

        def seconds_of(*words: object) -> float:
            begun_ns = time.monotonic_ns()
            command = [sys.executable, "-m", "app", *map(str, words)]
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
            return (time.monotonic_ns() - begun_ns) / 1e9

        looked_up, swept = [], []
        for _ in range(ROUNDS):
            yesterday = (clock.today(UTC) - timedelta(1)).isoformat()
            Watch.update(day=yesterday).execute(engine)
            WatchFeed.update(swept=None).execute(engine)
            looked_up.append(
                seconds_of("lookup", "--csv", asked, "--output", directory / "answers.csv")
            )
            swept.append(seconds_of("sweep"))
    ratio = median(one / other for one, other in zip(swept, looked_up, strict=True))
    print(f"lookup --csv of {WATCHES:,} plates: {median(looked_up):.1f} s")
    print(f"sweep of {WATCHES:,} watches: {median(swept):.1f} s, {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
